/* The lists that follow from API_OPERATION_LIST. */
#include "operation.h"

const api_operation *const api_operations[] = {
#define ROW(name) &api_##name,
    API_OPERATION_LIST(ROW)
#undef ROW
        NULL,
};

const api_schema *const api_schemas[] = {
#define ROW(name) &api_##name.schema,
    API_OPERATION_LIST(ROW)
#undef ROW
        NULL,
};

_Static_assert(sizeof api_operations / sizeof *api_operations <= API_MOST_OPERATIONS + 1, "statistics for each");

size_t api_operation_index(const api_operation *operation) {
    size_t index = 0;
    while (api_operations[index] && api_operations[index] != operation) index++;
    return index;
}
