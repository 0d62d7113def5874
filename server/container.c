/* container.c: reads affinity, /proc and the cgroups, versions 1 and 2. */
#include "container.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads at most `size - 1` bytes of a file as text. false: it cannot be read, or is empty. */
static bool read_file(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t n = fread(text, 1, size - 1, file);
    fclose(file);
    text[n] = 0;
    return n > 0;
}

/* The path of our group in the hierarchy of a version 1 controller, or (controller "") of version 2. */
static bool own_path(const char *controller, char *path, size_t size) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return false;
    char line[1024];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':');
        char *rest = names ? strchr(names + 1, ':') : NULL;
        if (!rest) continue;
        *rest = 0;
        char list[256];
        snprintf(list, sizeof list, ",%s,", names + 1);
        char wanted[64];
        snprintf(wanted, sizeof wanted, ",%s,", controller);
        if (!strstr(list, wanted)) continue;
        rest[1 + strcspn(rest + 1, "\n")] = 0;
        snprintf(path, size, "%s", rest + 1);
        found = true;
    }
    fclose(file);
    return found;
}

/* Calls visit with the text of the file `name` of our group and of each group above that the mount shows. */
static void climb(const char *mount, const char *controller, const char *name,
                  void (*visit)(const char *text, const char *group, void *arg), void *arg) {
    char path[1024];
    if (!own_path(controller, path, sizeof path)) return;
    for (;;) {
        size_t n = strlen(path);
        if (n && path[n - 1] == '/') path[--n] = 0;
        char group[1200], full[1300], text[4096];
        snprintf(group, sizeof group, "%s%s", mount, path);
        snprintf(full, sizeof full, "%s/%s", group, name);
        if (read_file(full, text, sizeof text)) visit(text, group, arg);
        char *slash = strrchr(path, '/');
        if (!slash) break;
        *slash = 0;
    }
}

static void least_quota2(const char *text, const char *group, void *arg) {
    (void)group;
    double quota, period, *least = arg;
    if (sscanf(text, "%lf %lf", &quota, &period) == 2 && period > 0 && quota / period < *least) *least = quota / period;
}

static void least_quota1(const char *text, const char *group, void *arg) {
    char path[1300], period_text[64];
    double quota = strtod(text, NULL), *least = arg;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", group);
    if (quota <= 0 || !read_file(path, period_text, sizeof period_text)) return;
    double period = strtod(period_text, NULL);
    if (period > 0 && quota / period < *least) *least = quota / period;
}

static void least_bytes(const char *text, const char *group, void *arg) {
    (void)group;
    uint64_t *least = arg, bytes = strtoull(text, NULL, 10); /* "max" gives 0 */
    if (bytes && bytes < *least) *least = bytes;
}

size_t srv_cpus(void) {
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    double cpus = online > 0 ? (double)online : 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) cpus = CPU_COUNT(&set);
    double quota = 1e9;
    climb("/sys/fs/cgroup", "", "cpu.max", least_quota2, &quota);
    climb("/sys/fs/cgroup/unified", "", "cpu.max", least_quota2, &quota);
    climb("/sys/fs/cgroup/cpu", "cpu", "cpu.cfs_quota_us", least_quota1, &quota);
    if (quota < cpus) cpus = quota;
    size_t whole = (size_t)cpus;
    if ((double)whole < cpus) whole++;
    return whole ? whole : 1;
}

uint64_t srv_memory(void) {
    uint64_t least = UINT64_MAX, available;
    char text[4096];
    if (read_file("/proc/meminfo", text, sizeof text)) {
        const char *line = strstr(text, "MemAvailable:");
        if (line && (available = strtoull(line + 13, NULL, 10))) least = available * 1024;
    }
    climb("/sys/fs/cgroup", "", "memory.max", least_bytes, &least);
    climb("/sys/fs/cgroup/unified", "", "memory.max", least_bytes, &least);
    climb("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", least_bytes, &least);
    return least == UINT64_MAX ? 1ull << 30 : least;
}

typedef struct first_number {
    const char *key;
    double value;
    bool found;
} first_number;

static void own_number(const char *text, const char *group, void *arg) {
    (void)group;
    first_number *first = arg;
    const char *line = first->found ? NULL : strstr(text, first->key);
    if (!line) return;
    first->value = strtod(line + strlen(first->key), NULL);
    first->found = true;
}

double srv_cpu_throttled(void) {
    first_number microseconds = {"throttled_usec ", 0, false}, nanoseconds = {"throttled_time ", 0, false};
    climb("/sys/fs/cgroup", "", "cpu.stat", own_number, &microseconds);
    if (microseconds.found) return microseconds.value * 1e-6;
    climb("/sys/fs/cgroup/cpu", "cpu", "cpu.stat", own_number, &nanoseconds);
    return nanoseconds.value * 1e-9;
}
