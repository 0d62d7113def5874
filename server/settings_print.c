/* settings_print.c: the table of settings as text, man page and Markdown. */
#include <string.h>

#include "settings_table.h"

/* what stands between the name of a flag and that of its value */
static const char *gap(const srv_setting *s) { return *s->value_name ? " " : ""; }

static const char *default_of(const srv_setting *s) { return *s->fallback ? s->fallback : s->words; }

static void print_text(FILE *file) {
    for (size_t i = 0; i < SRV_SETTINGS; i++) {
        const srv_setting *s = &srv_setting_table[i];
        char name[SRV_NAME_SIZE], flag[2 * SRV_NAME_SIZE], environment[SRV_NAME_SIZE];
        srv_setting_flag(s, name);
        srv_setting_environment(s, environment);
        snprintf(flag, sizeof flag, "--%s%s%s", name, gap(s), s->value_name);
        fprintf(file, "  %-24s %s\n  %-24s [%s, default: %s]\n", flag, s->meaning, "", environment, default_of(s));
    }
    fprintf(file, "  %-24s print this text, or its table as man or markdown\n", "--help[=FORM]");
    fprintf(file, "  %-24s print the versions of the program and its libraries\n", "--version");
}

void srv_settings_print(FILE *file, const char *form) {
    const bool man = strcmp(form, "man") == 0;
    if (!man && strcmp(form, "markdown") != 0) {
        print_text(file);
        return;
    }
    if (!man) fputs("| flag | environment | default | meaning |\n| --- | --- | --- | --- |\n", file);
    for (size_t i = 0; i < SRV_SETTINGS; i++) {
        const srv_setting *s = &srv_setting_table[i];
        char flag[SRV_NAME_SIZE], environment[SRV_NAME_SIZE];
        srv_setting_flag(s, flag);
        srv_setting_environment(s, environment);
        if (man)
            fprintf(file, ".TP\n.BI \\-\\-%s \"%s%s\"\n%s (environment %s, default: %s).\n", flag, gap(s),
                    s->value_name, s->meaning, environment, default_of(s));
        else
            fprintf(file, "| `--%s%s%s` | `%s` | %s | %s |\n", flag, gap(s), s->value_name, environment, default_of(s),
                    s->meaning);
    }
}
