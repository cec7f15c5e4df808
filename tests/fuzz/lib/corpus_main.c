/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Goes once through every file of the folders it is given, in place of libFuzzer: so
 * the corpus is a test with any compiler.
 */
#include "fuzz_lib.h"

#include <dirent.h>

#define FILE_MAX_BYTES 65536u

/* Reads into an allocation of just that size, so that ASan sees any step beyond it. */
static bool run_file(const char *folder, const char *name)
{
    static uint8_t buffer[FILE_MAX_BYTES];
    char path[1024];
    int path_len = snprintf(path, sizeof path, "%s/%s", folder, name);

    if (path_len < 0 || (size_t)path_len >= sizeof path) {
        return false;
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    size_t len = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    uint8_t *data = malloc(len == 0 ? 1 : len);
    if (data == NULL) {
        return false;
    }
    memcpy(data, buffer, len);
    LLVMFuzzerTestOneInput(data, len);
    free(data);
    return true;
}

static size_t run_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    size_t count = 0;

    if (dir == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (!run_file(folder, entry->d_name)) {
            fprintf(stderr, "cannot read %s/%s\n", folder, entry->d_name);
            exit(1);
        }
        count++;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    size_t count = 0;

    for (int i = 1; i < argc; i++) {
        count += run_folder(argv[i]);
    }
    printf("%zu files\n", count);
    return count > 0 ? 0 : 1; /* An empty corpus tests nothing. */
}
