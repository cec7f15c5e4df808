/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coapbench: the load generator, the origin and the raw relay that criproxy's
 * figures come from.
 */
#include "commands.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {"load", load_main, "send requests, check the answers, measure"},
    {"devices", devices_main, "devices that call home: sessions over which they are asked"},
    {"origin", origin_main, "a CoAP server that says what it was asked"},
    {"relay", relay_main, "a raw UDP relay: the floor for the cost of a proxy"},
};

static void print_usage(FILE *out)
{
    fputs("usage: coapbench COMMAND [OPTION]...\n", out);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    }
    fputs("`coapbench COMMAND --help` lists the options of a command; `coapbench --version`\n"
          "prints the version. See coapbench(1).\n",
          out);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return STATUS_USAGE;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_usage(stdout);
        return STATUS_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("coapbench " COAPBENCH_VERSION);
        return STATUS_OK;
    }
    fprintf(stderr, "coapbench: unknown command '%s'\n", argv[1]);
    print_usage(stderr);
    return STATUS_USAGE;
}
