/* settings_table.h: the rows of SRV_SETTING_LIST as data (inside settings*.c only). */
#ifndef SERVER_SETTINGS_TABLE_H
#define SERVER_SETTINGS_TABLE_H

#include <stddef.h>

#include "settings.h"

typedef enum srv_setting_kind { TEXT, COUNT, SIZE, TIME, CHOICE, FLAG } srv_setting_kind;

typedef struct srv_setting {
    srv_setting_kind kind;
    const char *member; /* "io_threads" */
    size_t offset;      /* in srv_settings */
    const char *value_name;
    uint64_t least, most;
    const char *fallback, *words, *meaning;
} srv_setting;

extern const srv_setting srv_setting_table[SRV_SETTINGS];

enum { SRV_NAME_SIZE = 64 };
void srv_setting_flag(const srv_setting *setting, char name[SRV_NAME_SIZE]);        /* "io-threads" */
void srv_setting_environment(const srv_setting *setting, char name[SRV_NAME_SIZE]); /* "ATTENTIOND_IO_THREADS" */

#endif
