#include "record.h"

#define ROW(name, text) text,
const char *const srv_reason_names[] = {NULL, SRV_REASON_LIST(ROW)};
const char *const srv_cancelled_names[] = {NULL, SRV_CANCELLED_LIST(ROW)};
#undef ROW
