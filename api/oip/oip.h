/* oip.h: the Open Inference Protocol, version 2 of KServe's, as an outer form of the endpoints (inside api/ only).
 *
 * The models are `attention` and `mha`, each of the only version "1". Inputs and parameters of an infer request become
 * the fields of the endpoint; what comes after knows nothing of the protocol, and its pointers are carried back into
 * the body that was sent.
 *
 * oip_routes.c   paths
 * oip_info.c     what is asked for by GET, and what is refused
 * oip_model.c    the tensors of the models
 * oip_body.c     JSON, and the tensors' bytes after it
 * oip_fields.c   from the parsed JSON to a skeleton of fields, and pointers back
 * oip_inputs.c   its tensors
 * oip_reply.c    the reply of an infer request
 * oip_request.c  its time and its place in the statistics
 */
#ifndef API_OIP_H
#define API_OIP_H

#include "../endpoints/body.h"
#include "../endpoints/operation.h"
#include "../endpoints/reply_writer.h"
#include "../request.h"
#include "../routes.h"

/* NULL: no such path */
const api_route *api_oip_route(const char *path);
/* What is at none of the paths, for people: `text` says what there is. */
void api_oip_not_found(const char *path, char *text, size_t capacity);

/* Answers a route that computes nothing into request->response; error set where there is no 200. */
void api_oip_answer(api_request *request);

/* ---- models ----------------------------------------------------------------------------------------------------- */

#define API_OIP_VERSION "1"

/* API_F32 -> "FP32" */
const char *api_oip_datatype_name(api_dtype dtype);
/* "FP32" -> API_F32; API_DTYPE_NONE for any other */
api_dtype api_oip_datatype(const char *name);
#define API_OIP_DATATYPES "FP32, FP64, FP16, BF16, BOOL, INT32, INT64"

/* ---- infer ------------------------------------------------------------------------------------------------------ */

extern const api_body_format api_oip_body;

enum { API_OIP_MAX_INPUTS = API_MAX_FIELDS };

/* An input of the request, in its order. */
typedef struct api_oip_input {
    const char *name; /* of the JSON tree, as all strings here */
    api_dtype dtype;
    bool binary;
    uint64_t size; /* bytes after the JSON, where binary */
    size_t rank, shape[API_MAX_RANK];
    uint8_t *bytes;
    size_t held, capacity; /* bytes that came, and room for them */
} api_oip_input;

typedef struct api_oip_wanted { /* an output that is listed */
    const char *name;
    bool is_given, binary; /* its own binary_data */
} api_oip_wanted;

typedef struct api_oip_state {
    const api_schema *schema;
    bool has_header;      /* Inference-Header-Content-Length came */
    uint64_t json_length; /* what it says; UINT64_MAX without it */
    uint64_t received;
    bool json_ended;
    api_error fault;    /* of the protocol, or of the JSON; first is kept */
    const json_t *root; /* the skeleton, once it is done; the request's */
    api_oip_input inputs[API_OIP_MAX_INPUTS];
    size_t input_count, current;  /* current: whose bytes come next */
    bool is_text[API_MAX_FIELDS]; /* parameters that were strings */
    uint64_t timeout;             /* microseconds, 0: none */
    /* what the reply needs */
    const char *id;      /* NULL: none came */
    bool binary_default; /* binary_data_output */
    size_t wanted_count; /* 0: no outputs are listed */
    api_oip_wanted wanted[API_MAX_NAMES];
    char reply_json_length[24]; /* bytes of JSON in the reply */
} api_oip_state;

/* The protocol's own faults: 400 bad_request. pointer NULL: no place in the JSON. */
__attribute__((format(printf, 3, 4))) void api_oip_fault(api_oip_state *state, const char *pointer, const char *detail,
                                                         ...);
/* What the parts below call of each other: a string, NULL for any other node; a copy of it in memory of the request
 * (NULL: fault); the value that a node stands for, NULL: none; the place of the next field; that place for all values
 * below a node; a member set in an object (false: fault); "/list/index/inner/name" as far as they are not NULL; [] */
const char *api_oip_text(const json_t *json);
const char *api_oip_keep(api_body *body, const char *text);
api_value *api_oip_value(const api_body *body, const json_t *json);
api_place api_oip_next_place(const api_body *body, size_t sub);
void api_oip_set_places(const api_body *body, json_t *json, api_place place);
bool api_oip_add_member(api_body *body, json_t *object, const char *key, json_t *value);
void api_oip_point(char pointer[256], const char *list, size_t index, const char *inner, const char *name);
bool api_oip_is_empty_list(const api_body *body, const json_t *json);
void api_oip_read_inputs(api_body *body, json_t *json);

/* Reads the tree into the state of the body, and into body->draft all fields but the tensors that come as bytes. Faults
 * go to the state. */
void api_oip_read(api_body *body, json_t *tree);
/* Adds the tensors that came as bytes. */
void api_oip_add_bytes(api_body *body);
/* Changes the pointer of an error that was found in the skeleton to one into the body. */
void api_oip_locate(const api_oip_state *state, api_error *error);

/* Sets which outputs the job has, and how they are written: before api_job_prepare. */
void api_oip_prepare(api_request *request);
/* Adds the header that a reply with bytes in it needs. */
void api_oip_decorate(api_request *request);
/* true where the client's own time is over: the error is set. */
bool api_oip_is_late(api_request *request);
/* Counts an infer request that has been answered. */
void api_oip_count(api_request *request);

#endif
