/* Versions that the build, or a library, says. */
#include <jansson.h>

#include "../api.h"

const char api_version[] = ATTENTIOND_VERSION;
const char api_revision[] = ATTENTIOND_REVISION;
const char api_jansson_version[] = JANSSON_VERSION;
