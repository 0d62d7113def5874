#include "operation.h"

const struct api_operation *const api_operations[] = {
#define ROW(name) &api_##name,
    API_OPERATION_LIST(ROW)
#undef ROW
        NULL};
_Static_assert(sizeof api_operations / sizeof *api_operations <= API_MOST_OPERATIONS + 1, "statistics for each");

size_t api_operation_index(const struct api_operation *operation) {
    size_t i = 0;
    while (api_operations[i] != operation) i++;
    return i;
}
