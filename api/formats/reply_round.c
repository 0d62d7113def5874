#include "reply_round.h"

#include <math.h>
#include <string.h>

#include "../numbers/half.h"

/* Numbers that are converted at a time, by way of the stack: they overtake each other in place. Always as many, so that
 * the loops are vectorized. */
enum { STEP = 64 };

size_t api_reply_element(attn_dtype compute, api_dtype dtype) {
    const size_t before = attn_sizeof(compute), after = api_dtype_size(dtype);
    return before > after ? before : after;
}

/* Each converts STEP numbers, and tells whether a finite one became infinite. */
static bool f64_to_f32(const double *in, float *out) {
    bool lost = false;
    for (size_t i = 0; i < STEP; i++) {
        out[i] = (float)in[i];
        lost |= isinf(out[i]) && !isinf(in[i]);
    }
    return lost;
}

static bool f64_to_16(const double *in, uint16_t *out, bool f16) {
    const unsigned infinity = f16 ? 0x7C00 : 0x7F80;
    bool lost = false;
    for (size_t i = 0; i < STEP; i++) {
        const float x = api_float_rounded_to_odd(in[i]);
        out[i] = f16 ? api_f16_from_float(x) : api_bf16_from_float(x);
        lost |= (out[i] & 0x7FFF) == infinity && !isinf(in[i]);
    }
    return lost;
}

static bool f32_to_16(const float *in, uint16_t *out, bool f16) {
    const unsigned infinity = f16 ? 0x7C00 : 0x7F80;
    unsigned lost = 0;
    for (size_t i = 0; i < STEP; i++) {
        out[i] = f16 ? api_f16_from_float(in[i]) : api_bf16_from_float(in[i]);
        lost |= (unsigned)((out[i] & 0x7FFF) == infinity) & (unsigned)((api_bits_of_float(in[i]) << 1) != 0xFF000000);
    }
    return lost != 0;
}

static bool f32_to_f64(const float *in, double *out) {
    for (size_t i = 0; i < STEP; i++) out[i] = (double)in[i];
    return false;
}

static bool convert(const void *in, void *out, attn_dtype compute, api_dtype reply) {
    if (compute == ATTN_F64) return reply == API_F32 ? f64_to_f32(in, out) : f64_to_16(in, out, reply == API_F16);
    return reply == API_F64 ? f32_to_f64(in, out) : f32_to_16(in, out, reply == API_F16);
}

/* Narrower numbers never overtake what is still to be read from the front, wider ones from the back. */
static bool round_numbers(void *data, size_t count, attn_dtype compute, api_dtype reply) {
    const size_t from = attn_sizeof(compute), to = api_dtype_size(reply), steps = (count + STEP - 1) / STEP;
    bool lost = false;
    for (size_t i = 0; i < steps; i++) {
        _Alignas(64) char in[STEP * sizeof(double)] = {0}, out[STEP * sizeof(double)];
        const size_t first = (to > from ? steps - 1 - i : i) * STEP, n = count - first < STEP ? count - first : STEP;
        memcpy(in, (char *)data + first * from, n * from);
        lost |= convert(in, out, compute, reply);
        memcpy((char *)data + first * to, out, n * to);
    }
    return lost;
}

static bool is_same(attn_dtype compute, api_dtype reply) { return reply == (compute == ATTN_F64 ? API_F64 : API_F32); }

bool api_reply_round(const api_reply *reply) {
    for (size_t i = 0; i < reply->output_count; i++) {
        const api_output *o = &reply->outputs[i];
        if (is_same(reply->compute, o->dtype) || !round_numbers(o->data, o->count, reply->compute, o->dtype)) continue;
        api_error_set(reply->error, API_OVERFLOW, API_PLACE_LAST, NULL,
                      "a number of %s does not fit %s; try another \"reply_dtype\"%s", o->name,
                      api_dtype_name(o->dtype), o->dtype == API_F16 ? ", BF16 or F32" : ", or leave it out");
        return false;
    }
    return true;
}
