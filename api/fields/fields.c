#include "fields.h"

#include <stdio.h>
#include <string.h>

const api_field_row *api_field_at(const api_schema *schema, size_t index) {
    for (size_t t = 0; t < API_MAX_TABLES && schema->fields[t]; t++) {
        if (index < schema->fields[t]->count) return &schema->fields[t]->rows[index];
        index -= schema->fields[t]->count;
    }
    return NULL;
}

const api_name_row *api_name_at(const api_schema *schema, size_t index) {
    for (size_t t = 0; t < API_MAX_TABLES && schema->names[t]; t++) {
        if (index < schema->names[t]->count) return &schema->names[t]->rows[index];
        index -= schema->names[t]->count;
    }
    return NULL;
}

size_t api_field_count(const api_schema *schema) {
    size_t count = 0;
    for (size_t t = 0; t < API_MAX_TABLES && schema->fields[t]; t++) count += schema->fields[t]->count;
    return count;
}

size_t api_name_count(const api_schema *schema) {
    size_t count = 0;
    for (size_t t = 0; t < API_MAX_TABLES && schema->names[t]; t++) count += schema->names[t]->count;
    return count;
}

size_t api_field_find(const api_schema *schema, const char *name) {
    size_t index = 0;
    for (size_t t = 0; t < API_MAX_TABLES && schema->fields[t]; t++)
        for (size_t i = 0; i < schema->fields[t]->count; i++, index++)
            if (strcmp(schema->fields[t]->rows[i].name, name) == 0) return index;
    return index;
}

size_t api_name_find(const api_schema *schema, const char *name) {
    size_t index = 0;
    for (const api_name_row *row; (row = api_name_at(schema, index)) && strcmp(row->name, name) != 0;) index++;
    return index;
}

void api_name_list(const api_schema *schema, char *text, size_t capacity) {
    size_t length = 0;
    text[0] = '\0';
    const api_name_row *row;
    for (size_t i = 0; (row = api_name_at(schema, i)) && length < capacity; i++)
        length += (size_t)snprintf(text + length, capacity - length, "%s%s", i ? ", " : "", row->name);
}

api_dtype api_field_dtype(const api_field_row *row) {
    if (row->kinds & API_REALS) return API_F32;
    if (row->kinds & API_MASK) return API_BOOL;
    return row->kinds & API_INTEGERS ? API_I64 : API_DTYPE_NONE;
}

bool api_field_in_query(const api_field_row *row) {
    return (row->kinds & ~(unsigned)API_TENSOR) != 0 || row->kinds == API_INTEGERS;
}
