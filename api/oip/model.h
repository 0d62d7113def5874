/* model.h: the models of the Open Inference Protocol (inside api/oip only). */
#ifndef API_OIP_MODEL_H
#define API_OIP_MODEL_H

#include "../endpoints/operation.h"

#define API_OIP_VERSION "1" /* of every model */

/* The model of a name that is not ended by a zero; NULL: none. */
const struct api_operation *api_oip_model(const char *name, size_t length);
/* Writes the names of the models: "a, b". */
enum { API_OIP_MODELS_TEXT = 128 };
const char *api_oip_model_list(char text[API_OIP_MODELS_TEXT]);

/* A tensor of a model, by its most usual type and number of axes; all lengths are free. */
typedef struct api_oip_tensor {
    const char *name;
    unsigned endpoints;
    const char *datatype; /* "FP32" */
    unsigned rank;
    unsigned required; /* endpoints that do not run without it */
} api_oip_tensor;
extern const api_oip_tensor api_oip_inputs[], api_oip_outputs[]; /* name NULL ends a list */

#endif
