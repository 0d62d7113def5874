#include "options.h"

static void set_dtype(api_form *form, api_field field, void *state) {
    static const char *const dtypes[] = {"float32", "float64"};
    size_t choice = 1; /* after a fault numbers are read as the wider type, whose errors are errors in either */
    (void)state;
    api_form_choice(form, field, dtypes, 2, &choice);
    form->dtype = choice == 0 ? ATTN_F32 : ATTN_F64;
}

static void set_reply_dtype(api_form *form, api_field field, void *state) {
    static const char *const dtypes[] = {"F64", "F32", "F16", "BF16"};
    api_options *options = state;
    size_t choice;
    if (api_form_choice(form, field, dtypes, 4, &choice)) options->reply_dtype = (api_dtype)(API_F64 + choice);
}

static void set_format(api_form *form, api_field field, void *state) {
    static const char *const formats[] = {"nested", "flat", "base64"};
    api_options *options = state;
    size_t choice;
    if (api_form_choice(form, field, formats, 3, &choice)) options->format = (api_spelling)choice;
}

static void add_name(api_form *form, api_field field, const char *string, size_t index) {
    const size_t name = api_name_find(form->schema, string);
    if (name < api_name_count(form->schema)) {
        form->names |= (uint64_t)1 << name;
        return;
    }
    char known[300], pointer[256] = "/return";
    api_name_list(form->schema, known, sizeof known);
    api_pointer_add_index(pointer, index);
    api_place place = form->slots[field].place;
    place.element = index;
    form->broken = true;
    api_error_set(form->error, API_OUT_OF_RANGE, place, pointer, "return: unknown name \"%.100s\"; available: %s",
                  string, known);
}

static void set_return(api_form *form, api_field field, void *state) {
    size_t count;
    (void)state;
    if (api_form_strings(form, field, add_name, &count) && count == 0)
        api_form_fault(form, field, API_OUT_OF_RANGE, "expected at least one name, got an empty list");
}

static const api_field_row rows[] = {
    {"dtype", API_WORD, 0, 0, 0, set_dtype},
    {"reply_dtype", API_WORD, 0, 0, 0, set_reply_dtype},
    {"format", API_WORD, 0, 0, 0, set_format},
    {"return", API_WORDS, 0, 0, 0, set_return},
};
const api_field_table api_common_fields = API_TABLE(rows);

static uint64_t names_by_default(const api_schema *schema) {
    uint64_t names = 0;
    const api_name_row *row;
    for (size_t i = 0; (row = api_name_at(schema, i)); i++) names |= (uint64_t)row->by_default << i;
    return names;
}

void api_options_read(api_form *form, api_options *options) {
    const size_t names = api_field_find(form->schema, "return");
    form->dtype = ATTN_F32;
    form->names = 0;
    *options = (api_options){.reply_dtype = API_DTYPE_NONE};
    api_form_set(form, &api_common_fields, options);
    if (options->reply_dtype == API_DTYPE_NONE) options->reply_dtype = form->dtype == ATTN_F64 ? API_F64 : API_F32;
    if (!api_form_has(form, (api_field)names) || form->always_output) form->names |= names_by_default(form->schema);
}

void api_options_trace(api_form *form, const void *state) {
    const api_name_row *row;
    for (size_t i = 0; form->trace && (row = api_name_at(form->schema, i)); i++)
        if (row->traced && row->traced(state)) form->names |= (uint64_t)1 << i;
    if (form->only_names) form->names = form->only_names;
}
