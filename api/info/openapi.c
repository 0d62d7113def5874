/* GET /openapi.json: the document that the build embeds. */
#include "info.h"

extern const unsigned char api_openapi_json[];
extern const size_t api_openapi_json_length;

void api_answer_openapi(api_request *request) {
    api_answer(request, (const char *)api_openapi_json, api_openapi_json_length);
}
