#include "oip.h"

#include "infer.h"
#include "routes.h"
#include "statistics.h"

/* A problem document whose detail stands in the member `error` too, which is the one that clients read. */
static size_t write_error(const api_error *error, char *text, size_t capacity) {
    return api_problem_write(error, "error", text, capacity);
}

/* Some clients name codings whether or not they undo them, so that only infer replies are coded. */
static void choose_coding(api_request *request, const char *accept_encoding) {
    request->varies = api_computes(request);
    request->accepts =
        request->varies ? api_choose_coding_of_client(accept_encoding) : (api_coding_choice){API_IDENTITY, true};
}

const api_protocol api_oip = {
    .root = "/v2",
    .find = api_oip_find,
    .route_at = api_oip_route_at,
    .explain_absence = api_oip_explain_absence,
    .write_error = write_error,
    .error_type = API_TYPE_JSON, /* KServe's client reads errors of no other type */
    .faults_in_bodies = true,
    .choose_coding = choose_coding,
    .body = &api_oip_body,
    .prepare = api_oip_prepare,
    .locate = api_oip_locate,
    .finish = api_oip_finish,
    .count = api_oip_count,
};
