#include "shape.h"

#include <stdio.h>

const char *api_shape_text(char text[API_SHAPE_TEXT], size_t rank, const size_t *shape) {
    size_t length = (size_t)snprintf(text, API_SHAPE_TEXT, "[");
    for (size_t i = 0; i < rank; i++)
        length += (size_t)snprintf(text + length, API_SHAPE_TEXT - length, "%s%zu", i ? ", " : "", shape[i]);
    snprintf(text + length, API_SHAPE_TEXT - length, "]");
    return text;
}
