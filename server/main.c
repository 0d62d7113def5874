/* main.c: chooses the command. */
#include <fcntl.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "service.h"

static const char usage[] =
    "attentiond " ATTENTIOND_VERSION ": exact attention over HTTP\n"
    "\n"
    "  attentiond [flags]                 serve until SIGTERM or SIGINT\n"
    "  attentiond call OPERATION [flags]  answer one request: JSON from standard input, reply to standard output;\n"
    "                                     OPERATION is %s\n"
    "  attentiond health [flags]          exit with 0 if the daemon is ready, else with 1\n"
    "\n"
    "Flags win over environment variables, which win over defaults. A time of 0 means no limit.\n"
    "\n";

/* "attention or mha" */
static void list_operations(char *text, size_t size) {
    const char *name;
    size_t length = 0;
    for (size_t i = 0; (name = api_operation_label(i)); i++) {
        const char *between = i == 0 ? "" : api_operation_label(i + 1) ? ", " : " or ";
        length += (size_t)snprintf(text + length, length < size ? size - length : 0, "%s%s", between, name);
    }
}

static int help(const char *form) {
    if (strcmp(form, "text") == 0) {
        char operations[256] = "";
        list_operations(operations, sizeof operations);
        printf(usage, operations);
    } else if (strcmp(form, "man") != 0 && strcmp(form, "markdown") != 0) {
        fprintf(stderr, "attentiond: --help: expected text, man or markdown, got \"%.60s\"\n", form);
        return 2;
    }
    srv_settings_print(stdout, form);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int version(void) {
    const char *name = getenv("ATTENTIOND_KERNEL");
    const attn_kernel *kernel = srv_kernel(name ? name : "");
    printf("attentiond %s (%s)\nkernel %s\nlibmicrohttpd %s\njansson %s\n%s\n", api_version, api_revision,
           kernel ? attn_kernel_name(kernel) : "none", MHD_get_version(), api_jansson_version, attn_blas_version());
    return fflush(stdout) == 0 ? 0 : 1;
}

static int bad(const char *message) {
    fprintf(stderr, "attentiond: %s\n", message);
    return 2;
}

static int bad_kernel(const char *name) {
    fprintf(stderr, "attentiond: --kernel: expected one of the kernels that this CPU supports:");
    const attn_kernel *kernel;
    for (size_t i = 0; (kernel = attn_kernel_at(i)); i++)
        if (attn_kernel_supported(kernel)) fprintf(stderr, " %s", attn_kernel_name(kernel));
    fprintf(stderr, "; got \"%.60s\"\n", name);
    return 2;
}

static int call(const srv_settings *settings, const char *operation) {
    const char *name;
    char operations[256] = "", message[320];
    for (size_t i = 0; operation && (name = api_operation_label(i)); i++)
        if (strcmp(name, operation) == 0) return srv_call(settings, operation);
    list_operations(operations, sizeof operations);
    snprintf(message, sizeof message, "call: expected %s after it", operations);
    return bad(message);
}

static int run_command(const srv_settings *settings, const srv_command *command) {
    const char *name = command->words[0], *argument = command->words[1];
    char message[160];
    if (!name) return srv_run(settings);
    if (strcmp(name, "call") == 0) return call(settings, argument);
    if (strcmp(name, "health") != 0)
        snprintf(message, sizeof message, "unknown command \"%.60s\"; available: call, health (see --help)", name);
    else if (argument)
        snprintf(message, sizeof message, "unexpected argument \"%.60s\" (see --help)", argument);
    else
        return srv_health(settings);
    return bad(message);
}

int main(int argc, char **argv) {
    int fd;
    do { /* a socket must not take the place of a closed standard error, to which the log is written */
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) close(fd);

    srv_settings settings;
    srv_command command;
    switch (srv_settings_read(&settings, &command, argc, argv)) {
    case SRV_HELP: return help(command.help_form);
    case SRV_VERSION: return version();
    case SRV_BAD: return bad(command.message);
    case SRV_RUN: break;
    }
    if (!srv_kernel(settings.kernel)) return bad_kernel(settings.kernel);
    srv_settings_resolve(&settings);
    return run_command(&settings, &command);
}
