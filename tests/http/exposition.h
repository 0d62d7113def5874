/* exposition.h: a strict reader of Prometheus' text format 0.0.4. */
#ifndef EXPOSITION_H
#define EXPOSITION_H

#include <stdbool.h>

/* Whether the text is valid: HELP and TYPE once and before the family's samples, families not interleaved, names and
 * labels well-formed, no series twice, counters and buckets not negative, buckets cumulative and ending in +Inf equal
 * to _count, each histogram with _sum. why: the first fault. */
bool exposition_valid(const char *text, char why[512]);
/* Sum of the samples whose line begins with `name` and whose labels contain each of the given text (may be NULL);
 * NaN if there is none. */
double exposition_value(const char *text, const char *name, const char *label);

#endif
