/* How near two names are: api.h. */
#include <string.h>
#include <strings.h>

#include "../api.h"

enum { LONGEST = 63 }; /* bytes of the names that are compared: no known name is longer */

static unsigned char least(unsigned char a, unsigned char b) { return a < b ? a : b; }

/* Optimal string alignment: d[i][j] is the distance of the first i letters of a from the first j of b. */
size_t api_edit_distance(const char *a, const char *b) {
    const size_t m = strnlen(a, LONGEST + 1), n = strnlen(b, LONGEST + 1);
    unsigned char d[LONGEST + 1][LONGEST + 1];
    if (m > LONGEST || n > LONGEST) return SIZE_MAX;
    for (size_t i = 0; i <= m; i++) d[i][0] = (unsigned char)i;
    for (size_t j = 0; j <= n; j++) d[0][j] = (unsigned char)j;
    for (size_t i = 1; i <= m; i++)
        for (size_t j = 1; j <= n; j++) {
            const unsigned char gap = (unsigned char)(least(d[i - 1][j], d[i][j - 1]) + 1);
            d[i][j] = least(gap, (unsigned char)(d[i - 1][j - 1] + (a[i - 1] != b[j - 1])));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], (unsigned char)(d[i - 2][j - 2] + 1));
        }
    return d[m][n];
}

bool api_is_near(const char *given, const char *known) {
    const size_t m = strlen(given), n = strlen(known);
    return strcasecmp(given, known) == 0 || api_edit_distance(given, known) <= (m > n ? m : n) / 3;
}
