#include "reply_round.h"

#include <string.h>

/* Numbers that are converted at a time, by way of the stack: they overtake each other in place. */
enum { STEP = API_DTYPE_BLOCK };

size_t api_reply_element(attn_dtype compute, api_dtype dtype) {
    const size_t before = attn_sizeof(compute), after = api_dtype_size(dtype);
    return before > after ? before : after;
}

/* Narrower numbers never overtake what is still to be read from the front, wider ones from the back. */
static bool round_numbers(const api_output *o, attn_dtype compute) {
    const api_dtype_row *row = &api_dtypes[o->dtype];
    const size_t from = attn_sizeof(compute), to = row->size, steps = (o->count + STEP - 1) / STEP;
    bool lost = false;
    for (size_t i = 0; i < steps; i++) {
        union {
            double doubles[STEP];
            float floats[STEP];
        } in = {{0}};
        _Alignas(64) char out[STEP * sizeof(double)];
        const size_t first = (to > from ? steps - 1 - i : i) * STEP, left = o->count - first,
                     n = left < STEP ? left : STEP;
        memcpy(&in, (const char *)o->data + first * from, n * from);
        lost |= compute == ATTN_F64 ? row->from_doubles(in.doubles, out) : row->from_floats(in.floats, out);
        memcpy((char *)o->data + first * to, out, n * to);
    }
    return lost;
}

static bool is_same(attn_dtype compute, api_dtype dtype) { return dtype == (compute == ATTN_F64 ? API_F64 : API_F32); }

bool api_reply_round(const api_reply *reply) {
    for (size_t i = 0; i < reply->output_count; i++) {
        const api_output *o = &reply->outputs[i];
        if (is_same(reply->compute, o->dtype) || !round_numbers(o, reply->compute)) continue;
        api_error_set(reply->error, API_OVERFLOW, API_PLACE_LAST, NULL,
                      "a number of %s does not fit %s; try another \"reply_dtype\"%s", o->name,
                      api_dtype_name(o->dtype), o->dtype == API_F16 ? ", BF16 or F32" : ", or leave it out");
        return false;
    }
    return true;
}
