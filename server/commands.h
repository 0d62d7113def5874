/* commands.h: what the program can be asked to do. Each returns the exit status, and says on standard error why it is
 * not 0. */
#ifndef SERVER_COMMANDS_H
#define SERVER_COMMANDS_H

#include "settings.h"

int srv_run(const srv_settings *settings);                         /* lifecycle.c: serves until SIGTERM or SIGINT */
int srv_call(const srv_settings *settings, const char *operation); /* call.c: standard input to standard output */
int srv_health(const srv_settings *settings);                      /* health.c: asks /readyz of the running daemon */

#endif
