/* safetensors.h: bodies and replies in the format of safetensors (inside api/ only). */
#ifndef API_SAFETENSORS_H
#define API_SAFETENSORS_H

#include "../formats/body.h"
#include "../formats/reply.h"

extern const api_body_format api_safetensors_body;
extern const api_reply_format api_safetensors_reply;

#endif
