/* reply_round.h: outputs as the type that the reply wants (inside api/ only). */
#ifndef API_REPLY_ROUND_H
#define API_REPLY_ROUND_H

#include "reply.h"

/* Rounds all outputs from the compute type to their dtypes, to nearest even, in place. false: a finite number
 * becomes infinite; reply->error is set (overflow). */
bool api_reply_round(const api_reply *reply);

#endif
