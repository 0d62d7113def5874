/* replay.c: runs files, or all files of folders, through the fuzz target: what a fuzzer found, or the corpus, with any
 * compiler. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz_api.h"

static size_t ran;

static void run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    if (!file || !bytes) {
        perror(path);
        exit(1);
    }
    const size_t size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees a byte read past the end */
    if (!exact) abort();
    for (size_t i = 0; i < size; i++) exact[i] = bytes[i];
    free(bytes);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    ran++;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) {
            run_file(argv[i]);
            continue;
        }
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[4096];
            if (*entry->d_name == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            run_file(path);
        }
        closedir(folder);
    }
    printf("%zu files, no fault\n", ran);
    return ran == 0;
}
