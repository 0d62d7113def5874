/* reply_round.h: the outputs of a job as the type that the reply wants (inside api/ only). */
#ifndef API_REPLY_ROUND_H
#define API_REPLY_ROUND_H

#include "job.h"

/* Bytes of an element of the outputs, while they are computed and after. */
size_t api_reply_element(const api_job *job);

/* Rounds all outputs from the compute type to options.reply_dtype, to nearest even, in place. false: a finite number
 * becomes infinite, the error of the job is set (overflow). */
bool api_reply_round(api_job *job);

#endif
