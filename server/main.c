/* main.c: which of the program's commands is wanted. */
#include "server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "attentiond " ATTENTIOND_VERSION ": exact attention over HTTP\n"
    "\n"
    "  attentiond [flags]                            serve, until SIGTERM or SIGINT\n"
    "  attentiond call attention|mha [flags]         one request from stdin, its reply to stdout\n"
    "  attentiond health [flags]                     exit 0 where the daemon of these settings is ready\n"
    "\n"
    "Flags go before the environment, the environment before defaults. A time of 0 means no limit.\n"
    "\n";

static int help(const char *form) {
    if (strcmp(form, "text") == 0)
        fputs(usage, stdout);
    else if (strcmp(form, "man") != 0 && strcmp(form, "markdown") != 0) {
        fprintf(stderr, "attentiond: --help: expected text, man or markdown, not \"%.60s\"\n", form);
        return 2;
    }
    srv_config_print(stdout, form);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int version(void) {
    const char *kernel = getenv("ATTENTIOND_KERNEL");
    const attn_kernel *row = attn_kernel_find(kernel && *kernel ? kernel : NULL);
    printf("attentiond %s (%s)\nkernel %s\nlibmicrohttpd %s\njansson %s\n%s\n", api_version, ATTENTIOND_REVISION,
           row ? attn_kernel_name(row) : "none", srv_mhd_version(), api_jansson_version, attn_blas_version());
    return fflush(stdout) == 0 ? 0 : 1;
}

static int bad(const char *message) {
    fprintf(stderr, "attentiond: %s\n", message);
    return 2;
}

static int bad_kernel(const char *name) {
    fprintf(stderr, "attentiond: --kernel %.60s: expected one this CPU can run:", name);
    const attn_kernel *row;
    for (size_t i = 0; (row = attn_kernel_at(i)); i++)
        if (attn_kernel_supported(row)) fprintf(stderr, " %s", attn_kernel_name(row));
    fputc('\n', stderr);
    return 2;
}

static int run_command(const srv_config *config, const srv_command *command) {
    const char *name = command->words[0], *argument = command->words[1];
    char message[160];
    if (!name) return srv_run(config);
    if (strcmp(name, "health") == 0 && !argument) return srv_health(config);
    if (strcmp(name, "call") == 0) {
        if (argument && (strcmp(argument, "attention") == 0 || strcmp(argument, "mha") == 0))
            return srv_call(config, argument);
        return bad("call: expected attention or mha after it");
    }
    snprintf(message, sizeof message, "unknown command \"%.60s\"; there are call and health (see --help)",
             strcmp(name, "health") == 0 ? argument : name);
    return bad(message);
}

int main(int argc, char **argv) {
    int fd;
    do { /* a closed stderr must not become a socket that the log is written to */
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) close(fd);

    srv_config config;
    srv_command command;
    switch (srv_config_read(&config, &command, argc, argv)) {
    case SRV_HELP: return help(command.help_form);
    case SRV_VERSION: return version();
    case SRV_BAD: return bad(command.message);
    case SRV_RUN: break;
    }
    if (!attn_kernel_find(config.kernel)) return bad_kernel(config.kernel);
    srv_config_resolve(&config);
    return run_command(&config, &command);
}
