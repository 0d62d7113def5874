/* model.h: the models of the Open Inference Protocol (inside api/oip only). */
#ifndef API_OIP_MODEL_H
#define API_OIP_MODEL_H

#include "../endpoints/operation.h"

#define API_OIP_VERSION "1" /* of every model */

/* The model of a name that is not ended by a zero; NULL: none. */
const api_operation *api_oip_model(const char *name, size_t length);
/* Writes the names of the models: "a, b". */
enum { API_OIP_MODELS_TEXT = 128 };
const char *api_oip_model_list(char text[API_OIP_MODELS_TEXT]);

#endif
