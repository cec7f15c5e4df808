/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `check [--strict]` and `options [--to ADDRESS:PORT]` of the cri tool on the freestanding
 * library, for the vectors: what these do is the tool's own code.
 */
#include "cri_tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX 65536

int main(int argc, char **argv)
{
    static char line[LINE_BYTES_MAX];
    struct tool tool = {0};
    int status = EXIT_SUCCESS;

    if (argc < 2) {
        return EXIT_USAGE;
    }
    bool is_options = strcmp(argv[1], "options") == 0;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--strict") == 0) {
            tool.is_strict = true;
        } else if (strcmp(argv[i], "--to") == 0 && i + 1 < argc) {
            tool.has_to = parse_destination(argv[++i], &tool.to);
        } else {
            return EXIT_USAGE;
        }
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        const struct cri_slice input = {(const uint8_t *)line, strcspn(line, "\n")};
        tool.result.len = 0;
        bool is_ok = is_options ? run_options(&tool, input) : run_check(&tool, input);
        status = is_ok ? status : EXIT_INPUT;
        (void)printf("%s%.*s\n", is_ok ? "" : "error: ", (int)tool.result.len,
                     (const char *)tool.result.data);
    }
    buffer_free(&tool.input);
    buffer_free(&tool.result);
    return status;
}
