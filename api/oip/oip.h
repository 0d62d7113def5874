/* oip.h: the Open Inference Protocol, version 2 of KServe's (inside api/ only).
 *
 * The models are the operations, each of the only version "1". Inputs and parameters of an infer request become the
 * fields of the operation; what comes after knows nothing of the protocol, and its pointers are carried back into the
 * body that was sent.
 *
 * oip.c          the row of functions
 * routes.c       paths
 * info.c         what is asked for besides computing, and what is refused
 * statistics.c   what requests to a model came to
 * model.c        the tensors of the models
 * body.c         the body of an infer request: JSON, and the tensors' bytes after it
 * fields.c       from its JSON to the fields of the operation, and pointers back
 * inputs.c, outputs.c, tree.c   parts of that
 * reply.c        the reply of an infer request
 */
#ifndef API_OIP_H
#define API_OIP_H

#include "../http/protocol.h"

extern const api_protocol api_oip;

#endif
