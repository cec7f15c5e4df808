/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a fuzz target over the files named, without libFuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_MAX (1u << 20)

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *name, uint8_t *buffer)
{
    FILE *file = fopen(name, "rb");

    if (file == NULL) {
        (void)fprintf(stderr, "%s cannot be read\n", name);
        return 1;
    }
    size_t len = fread(buffer, 1, INPUT_MAX, file);
    (void)fclose(file);
    (void)printf("%s: %zu bytes\n", name, len);
    return LLVMFuzzerTestOneInput(buffer, len);
}

int main(int argc, char **argv)
{
    uint8_t *buffer = malloc(INPUT_MAX);
    int failures = buffer == NULL || argc < 2 ? 1 : 0;

    for (int i = 1; i < argc && buffer != NULL; i++) {
        failures += replay(argv[i], buffer);
    }
    free(buffer);
    return failures == 0 ? 0 : 1;
}
