/* signals.h: SIGTERM and SIGINT stop the daemon; a second one ends the process at once with 128 + its number. SIGHUP
 * and SIGPIPE are ignored, but SIGHUP stops the daemon if standard error is a terminal. For the main thread. */
#ifndef SERVER_SIGNALS_H
#define SERVER_SIGNALS_H

#include <stdbool.h>

bool srv_signals_catch(void); /* false: errno says why */
int srv_signals_wait(void);   /* the number of the first signal that stops */

#endif
