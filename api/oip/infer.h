/* infer.h: an infer request of the Open Inference Protocol (inside api/oip only). */
#ifndef API_OIP_INFER_H
#define API_OIP_INFER_H

#include "../http/request.h"

extern const api_body_format api_oip_body;

enum { API_OIP_MAX_INPUTS = API_MAX_FIELDS };

/* An input of the request, in its order. */
typedef struct api_oip_input {
    const char *name; /* of the JSON tree, as all strings here */
    api_dtype dtype;
    bool binary;
    uint64_t size; /* bytes after the JSON, if binary */
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
    const json_t *root; /* the document, once it is done; the request's */
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

/* ---- tree.c: what the parts of the body share ------------------------------------------------------------------- */

/* The protocol's own faults: 400 bad_request. pointer NULL: no place in the JSON. */
__attribute__((format(printf, 3, 4))) void api_oip_fault(api_oip_state *state, const char *pointer, const char *detail,
                                                         ...);
/* The fault that memory of the request is lacking. */
void api_oip_no_memory(api_body *body);
/* A string, NULL for any other node. */
const char *api_oip_text(const json_t *json);
/* true for a parameter that other servers' clients add, and that says nothing of the numbers. */
bool api_oip_is_ignored(const char *parameter);
/* A copy of a string in memory of the request; NULL: fault. */
const char *api_oip_keep(api_body *body, const char *text);
/* The value that a node stands for; NULL: none. */
api_value *api_oip_value(const api_body *body, const json_t *json);
/* true for [], which is a value: a tensor without elements. */
bool api_oip_is_empty_list(const api_body *body, const json_t *json);
/* The place of the next field of the document. */
api_place api_oip_next_place(const api_body *body, size_t sub);
/* Gives all values below a node of the tree a place in the document. */
void api_oip_set_places(const api_body *body, json_t *json, api_place place);
/* Sets a member, whose reference it takes; false: fault. */
bool api_oip_add_member(api_body *body, json_t *object, const char *key, json_t *value);
/* "/inputs/3" and, if they are not NULL, "/parameters/name" behind it */
void api_oip_point(char pointer[256], const char *list, size_t index, const char *inner, const char *name);

/* ---- parts of the body: each reads into the state and the draft of the document; faults go to the state ---------- */

void api_oip_read_inputs(api_body *body, json_t *json);
/* Adds the tensors that came as bytes. */
void api_oip_add_bytes(api_body *body);
void api_oip_read_outputs(api_body *body, json_t *json);
/* The whole tree: into the draft go all fields but the tensors that come as bytes. */
void api_oip_read(api_body *body, json_t *tree);

/* ---- as in api_protocol ----------------------------------------------------------------------------------------- */

void api_oip_prepare(api_request *request);
void api_oip_locate(api_request *request);
void api_oip_finish(api_request *request);

#endif
