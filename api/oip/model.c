#include "model.h"

#include <stdio.h>
#include <string.h>

const api_operation *api_oip_model(const char *name, size_t length) {
    for (size_t i = 0; api_operations[i]; i++)
        if (strlen(api_operations[i]->schema.name) == length &&
            strncmp(api_operations[i]->schema.name, name, length) == 0)
            return api_operations[i];
    return NULL;
}

const char *api_oip_model_list(char text[API_OIP_MODELS_TEXT]) {
    size_t length = 0;
    for (size_t i = 0; api_operations[i] && length < API_OIP_MODELS_TEXT; i++)
        length += (size_t)snprintf(text + length, API_OIP_MODELS_TEXT - length, "%s%s", i ? ", " : "",
                                   api_operations[i]->schema.name);
    return text;
}
