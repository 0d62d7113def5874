#include "ids.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* 64 bits that no other call returns: a counter with a random start, through the mixer of SplitMix64 (Steele et al.,
 * 2014), which is a bijection. Unique, not secret. */
static uint64_t unique(void) {
    static atomic_uint_least64_t counter;
    static atomic_bool started;
    uint64_t start;
    if (!atomic_exchange(&started, true) && getrandom(&start, sizeof start, GRND_NONBLOCK) == sizeof start)
        atomic_fetch_add(&counter, start);
    uint64_t z = atomic_fetch_add(&counter, 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool is_request_id(const char *text) {
    size_t n = strlen(text);
    if (n == 0 || n >= REQUEST_ID_SIZE) return false;
    return strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.:/+=@") == n;
}

/* W3C Trace Context, version 00: 00-<32 hex>-<16 hex>-<2 hex>, lower case, neither id all zeros. */
static bool is_traceparent(const char *text) {
    static const char pattern[] = "00-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
    if (strlen(text) != sizeof pattern - 1) return false;
    for (size_t i = 0; pattern[i]; i++)
        if (pattern[i] == 'h' ? !strchr("0123456789abcdef", text[i]) : text[i] != pattern[i]) return false;
    return strspn(text + 3, "0") < 32 && strspn(text + 36, "0") < 16;
}

void srv_request_id(char id[REQUEST_ID_SIZE], const char *sent) {
    if (sent && is_request_id(sent))
        snprintf(id, REQUEST_ID_SIZE, "%s", sent);
    else
        snprintf(id, REQUEST_ID_SIZE, "%016llx", (unsigned long long)unique());
}

void srv_traceparent(char parent[TRACEPARENT_SIZE], const char *sent) {
    if (!sent)
        parent[0] = 0;
    else if (is_traceparent(sent))
        snprintf(parent, TRACEPARENT_SIZE, "%s", sent);
    else
        snprintf(parent, TRACEPARENT_SIZE, "00-%016llx%016llx-%016llx-00", (unsigned long long)unique(),
                 (unsigned long long)unique(), (unsigned long long)unique());
}
