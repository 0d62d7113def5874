/* exposition.c: see exposition.h. */
#include "exposition.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FAMILIES 200
#define MAX_SERIES 4000

typedef struct metric_family {
    char name[128], type[16];
    bool helped, typed, sampled;
} metric_family;

typedef struct text_reader {
    metric_family families[MAX_FAMILIES];
    size_t count;
    metric_family *current;
    const char *series[MAX_SERIES]; /* name and labels of each sample so far */
    size_t lengths[MAX_SERIES], series_count;
    char bucket_of[1024]; /* labels without le of the bucket before */
    double bucket, edge;  /* its value and le */
    char *why;
} text_reader;

static bool fault(text_reader *reader, const char *what, const char *line) {
    snprintf(reader->why, 512, "%s: %.*s", what, (int)strcspn(line, "\n") > 300 ? 300 : (int)strcspn(line, "\n"), line);
    return false;
}

static metric_family *find(text_reader *reader, const char *name, size_t length, bool create) {
    for (size_t i = 0; i < reader->count; i++)
        if (strlen(reader->families[i].name) == length && !strncmp(reader->families[i].name, name, length))
            return &reader->families[i];
    if (!create || reader->count == MAX_FAMILIES || length >= sizeof reader->families->name) return NULL;
    metric_family *made = &reader->families[reader->count++];
    snprintf(made->name, sizeof made->name, "%.*s", (int)length, name);
    return made;
}

static size_t name_length(const char *text, bool colon) {
    size_t n = 0;
    while (isalpha((unsigned char)text[n]) || text[n] == '_' || (colon && text[n] == ':') ||
           (n && isdigit((unsigned char)text[n])))
        n++;
    return n;
}

static bool read_comment(text_reader *reader, const char *line) {
    const bool help = !strncmp(line, "# HELP ", 7), type = !strncmp(line, "# TYPE ", 7);
    if (!help && !type) return true;
    const char *name = line + 7;
    const size_t length = name_length(name, true);
    metric_family *family = length && name[length] == ' ' ? find(reader, name, length, true) : NULL;
    if (!family) return fault(reader, "bad name", line);
    if (family->sampled || (help ? family->helped : family->typed)) return fault(reader, "twice, or late", line);
    reader->current = family;
    if (help)
        family->helped = true;
    else {
        static const char *const types[] = {"counter", "gauge", "histogram", "summary", "untyped"};
        const char *word = name + length + 1;
        const size_t size = strcspn(word, "\n");
        bool known = false;
        for (size_t i = 0; i < 5; i++) known |= strlen(types[i]) == size && !strncmp(types[i], word, size);
        if (!known) return fault(reader, "unknown type", line);
        snprintf(family->type, sizeof family->type, "%.*s", (int)size, word);
        family->typed = true;
    }
    return true;
}

/* Length of a well-formed label set from '{' to '}'; 0 if it is malformed. Copies all but le to `rest`. */
static size_t read_labels(const char *text, char rest[1024], char edge[64]) {
    size_t at = 1, used = 0;
    edge[0] = rest[0] = 0;
    while (text[at] != '}') {
        const size_t start = at, length = name_length(text + at, false);
        at += length;
        if (!length || text[at] != '=' || text[at + 1] != '"') return 0;
        const size_t value = at += 2;
        while (text[at] != '"') {
            if (!text[at] || text[at] == '\n') return 0;
            if (text[at] == '\\' && (!text[++at] || !strchr("\\\"n", text[at]))) return 0;
            at++;
        }
        const bool le = length == 2 && !strncmp(text + start, "le", 2);
        if (le)
            snprintf(edge, 64, "%.*s", (int)(at - value), text + value);
        else if (used + at - start + 2 < 1024)
            used += (size_t)snprintf(rest + used, 1024 - used, "%.*s,", (int)(at + 1 - start), text + start);
        at++;
        if (text[at] == ',')
            at++;
        else if (text[at] != '}')
            return 0;
    }
    return at + 1;
}

static bool read_bucket(text_reader *reader, const char *line, const char *rest, const char *edge, double value) {
    const double le = strtod(edge, NULL);
    if (!*edge) return fault(reader, "a bucket without le", line);
    if (strcmp(rest, reader->bucket_of)) {
        if (reader->bucket_of[0] && !isinf(reader->edge)) return fault(reader, "buckets without +Inf before", line);
        snprintf(reader->bucket_of, sizeof reader->bucket_of, "%s", rest);
    } else if (!isinf(reader->edge) && (le <= reader->edge || value < reader->bucket))
        return fault(reader, "buckets not cumulative", line);
    reader->bucket = value;
    reader->edge = le;
    return true;
}

static bool suffix_right(text_reader *reader, const char *line, size_t length, const char *rest, const char *edge,
                         double value) {
    const metric_family *family = reader->current;
    const char *suffix = line + strlen(family->name);
    const size_t left = length - strlen(family->name);
    const bool histogram = !strcmp(family->type, "histogram");
    if (!histogram) {
        if (left) return fault(reader, "a sample outside its family", line);
        return strcmp(family->type, "counter") || value >= 0 || fault(reader, "a negative counter", line);
    }
    if (left == 7 && !strncmp(suffix, "_bucket", 7)) return read_bucket(reader, line, rest, edge, value);
    if (left == 4 && !strncmp(suffix, "_sum", 4)) return value >= 0 || fault(reader, "a negative sum", line);
    if (left != 6 || strncmp(suffix, "_count", 6)) return fault(reader, "no part of a histogram", line);
    if (strcmp(rest, reader->bucket_of) || !isinf(reader->edge) || value != reader->bucket)
        return fault(reader, "_count is not the +Inf bucket", line);
    return true;
}

static bool read_sample(text_reader *reader, const char *line) {
    const size_t length = name_length(line, true);
    char rest[1024] = "", edge[64] = "", *end;
    size_t at = length;
    if (!length) return fault(reader, "no name", line);
    if (line[at] == '{') {
        const size_t labels = read_labels(line + at, rest, edge);
        if (!labels) return fault(reader, "bad labels", line);
        at += labels;
    }
    for (size_t i = 0; i < reader->series_count; i++)
        if (reader->lengths[i] == at && !strncmp(reader->series[i], line, at)) return fault(reader, "twice", line);
    if (reader->series_count < MAX_SERIES) {
        reader->series[reader->series_count] = line;
        reader->lengths[reader->series_count++] = at;
    }
    const double value = strtod(line + at, &end);
    if (line[at] != ' ' || end == line + at || *end != '\n') return fault(reader, "no value, or more than one", line);
    if (!reader->current || strncmp(line, reader->current->name, strlen(reader->current->name)))
        return fault(reader, "a sample outside its family", line);
    if (!reader->current->helped || !reader->current->typed) return fault(reader, "no HELP or TYPE", line);
    reader->current->sampled = true;
    return suffix_right(reader, line, length, rest, edge, value);
}

bool exposition_valid(const char *text, char why[512]) {
    text_reader *reader = calloc(1, sizeof *reader);
    if (!reader) abort();
    reader->why = why;
    bool ok = *text != 0 && text[strlen(text) - 1] == '\n';
    if (!ok) snprintf(why, 512, "empty, or no newline at the end");
    for (const char *line = text; ok && *line; line = strchr(line, '\n') + 1) {
        if (*line == '\n') continue;
        ok = *line == '#' ? read_comment(reader, line) : read_sample(reader, line);
    }
    free(reader);
    return ok;
}

double exposition_value(const char *text, const char *name, const char *label) {
    const size_t length = strlen(name);
    double sum = NAN;
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, name, length) || (line[length] != ' ' && line[length] != '{')) continue;
        char copy[2048];
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
        const char *value = strrchr(copy, ' ');
        if (!value || (label && !strstr(copy, label))) continue;
        sum = (isnan(sum) ? 0 : sum) + strtod(value, NULL);
    }
    return sum;
}
