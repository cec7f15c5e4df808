/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a fuzz target over every file of a folder, without libFuzzer; each also cut short. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>

#define INPUT_BYTES_MAX 65536
#define PATH_BYTES_MAX 4096

/* On the heap and exactly as long as the input, for ASan. */
static void run_one(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL) {
        abort();
    }
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    (void)LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static bool replay(const char *name)
{
    static uint8_t bytes[INPUT_BYTES_MAX];
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        perror(name);
        return false;
    }
    const size_t len = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    for (size_t cut = 0; cut <= len; cut++) {
        run_one(bytes, cut);
    }
    return true;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    const struct dirent *entry = NULL;
    size_t count = 0;
    if (folder == NULL) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return EXIT_FAILURE;
    }
    while ((entry = readdir(folder)) != NULL) {
        char path[PATH_BYTES_MAX];
        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        count += replay(path) ? 1 : 0;
    }
    (void)closedir(folder);
    (void)printf("%zu inputs\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
