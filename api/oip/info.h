/* info.h: what the server of the Open Inference Protocol and its models tell besides computing (inside api/oip only).
 */
#ifndef API_OIP_INFO_H
#define API_OIP_INFO_H

#include "../base/text.h"
#include "../http/request.h"

/* Room for an answer; false: no memory, the request is refused. */
bool api_oip_open_text(api_request *request, api_short_text *text);

/* As `begin` of a route: finds the model of the path. */
void api_oip_begin_model(api_request *request, const api_head *head);

/* As `finish` of a route: */
void api_oip_answer_server(api_request *request);
void api_oip_answer_live(api_request *request);
void api_oip_answer_ready(api_request *request);
void api_oip_answer_model(api_request *request);
void api_oip_answer_model_ready(api_request *request);
void api_oip_answer_config(api_request *request);
void api_oip_answer_index(api_request *request);
void api_oip_answer_memory_status(api_request *request);
void api_oip_answer_memory_unregister(api_request *request);
/* ... what other servers of the protocol do and this one does not */
void api_oip_refuse_repository(api_request *request);
void api_oip_refuse_memory(api_request *request);
void api_oip_refuse_logging(api_request *request);
void api_oip_refuse_tracing(api_request *request);

#endif
