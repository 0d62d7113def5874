#include "process.h"

#include <dirent.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { UTIME = 14, STIME = 15, THREADS = 20, STARTTIME = 22, VSIZE = 23, RSS = 24 }; /* fields, as in proc(5) */

/* A field of /proc/self/stat. */
static double field(int number) {
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file) return NAN;
    line[fread(line, 1, sizeof line - 1, file)] = 0;
    fclose(file);
    const char *at = strrchr(line, ')'); /* the end of field 2, which may contain anything */
    for (int i = 2; at && i < number; i++) at = strchr(at + 1, ' ');
    return at ? strtod(at, NULL) : NAN;
}

static double ticks(int number) { return field(number) / (double)sysconf(_SC_CLK_TCK); }

/* When the machine started, seconds since 1970. */
static double boot_time(void) {
    char line[256];
    double seconds = NAN;
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "btime %lf", &seconds) == 1) break;
    if (file) fclose(file);
    return seconds;
}

double srv_process_cpu_seconds(void) { return ticks(UTIME) + ticks(STIME); }
double srv_process_threads(void) { return field(THREADS); }
double srv_process_start_time(void) { return boot_time() + ticks(STARTTIME); }
double srv_process_virtual_memory(void) { return field(VSIZE); }
double srv_process_resident_memory(void) { return field(RSS) * (double)sysconf(_SC_PAGESIZE); }

double srv_process_open_files(void) {
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) return NAN;
    double count = -1; /* the directory itself */
    for (struct dirent *entry; (entry = readdir(directory));) count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

double srv_process_most_files(void) {
    struct rlimit files;
    return getrlimit(RLIMIT_NOFILE, &files) == 0 ? (double)files.rlim_cur : NAN;
}
