/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criproxyctl: one request to a running criproxyd, over its Unix socket, and the
 * answer. The protocol is in server/control.h.
 */
#include "ctl/capture.h"
#include "ctl/record.h"
#include "ctl/show.h"
#include "ctl/top.h"
#include "ctl/wire.h"

#include "base/arguments.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEFAULT_SOCKET "/run/criproxy/control"

enum {
    EXIT_REFUSED = 1, /* the proxy said no, cannot be reached, or, for status, is draining */
    EXIT_USAGE = 2,
};

static const struct command {
    const char *name, *arguments, *help;
    enum shape shape;
} commands[] = {
#define COMMAND(name, shape, level, web, arguments, help) {#name, arguments, help, SHAPE_##shape},
#include "ops/commands.def"
#undef COMMAND
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* Commands of criproxyctl itself, which asks the proxy for several things. */
static const struct own_command {
    const char *name, *arguments, *help;
    int (*run)(const char *socket, int argc, char **argv); /* the exit status */
} own_commands[] = {
    {"capture", "[--size BYTES] [--files COUNT] [--time SECONDS] FILE [FILTER...]",
     "messages, decrypted, in a pcapng file for Wireshark; FILTER is as of messages", capture_run},
    {"record", "[--time SECONDS] FILE [target=TEXT]",
     "what origin servers answer, in a file for a route via = recording:FILE", record_run},
    {"top", "[--once] [--interval SECONDS]", "requests a second, reasons, servers and clients",
     top_run},
};

#define OWN_COUNT (sizeof(own_commands) / sizeof(own_commands[0]))

struct command_line {
    const char *socket;
    bool json, is_by_worker;
    const char *sort; /* column to sort by; NULL: as they come */
    size_t most;      /* rows that are shown */
    const struct command *command;
    char name[32]; /* of the command, as it is written */
    char **arguments;
    int argument_count;
};

/* With '-' where C has '_'. */
static void written_name(const struct command *command, char name[32])
{
    (void)snprintf(name, 32, "%s", command->name);
    for (char *at = strchr(name, '_'); at != NULL; at = strchr(at, '_')) {
        *at = '-';
    }
}

static void print_command(const char *name, const char *arguments, const char *help, FILE *out)
{
    char usage[96];

    (void)snprintf(usage, sizeof(usage), "%s %s", name, arguments);
    bool is_long = strlen(usage) + strlen(help) > 75 || strlen(usage) > 22;
    (void)fprintf(out, is_long ? "  %s\n%26s%s\n" : "  %-22s%.0s  %s\n", usage, "", help);
}

static void ctl_print_help(FILE *out)
{
    (void)fputs(
        "usage: criproxyctl [-s SOCKET] [--json] COMMAND [ARGUMENT...]\n"
        "Show and control a running criproxyd, over its control socket (admin.socket).\n\n"
        "  -s, --socket PATH   the control socket (" DEFAULT_SOCKET ")\n"
        "  -j, --json          one JSON object on each line\n"
        "  -S, --sort COLUMN   lists: sort by this member of --json, largest numbers first\n"
        "  -n, --lines COUNT   lists: at most this many rows\n"
        "  -w, --by-worker     origins, close: a row for each worker\n"
        "  -h, --help          print this and end\n"
        "  -V, --version       print the version of criproxyctl and end\n\n"
        "Commands:\n",
        out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        char name[32];
        written_name(&commands[i], name);
        print_command(name, commands[i].arguments, commands[i].help, out);
    }
    for (size_t i = 0; i < OWN_COUNT; i++) {
        print_command(own_commands[i].name, own_commands[i].arguments, own_commands[i].help, out);
    }
    (void)fputs(
        "\nExit status: 0; 1 if the proxy refused or cannot be reached, and for status if it\n"
        "is draining; 2 on a bad command line. See criproxyctl(8).\n",
        out);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        char written[32];
        written_name(&commands[i], written);
        if (strcmp(written, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* ---- the answer ---- */

/* The state of a proxy that refuses new requests; only status shows it. */
static bool is_draining(const struct json_object *object)
{
    const char *state = json_get(object, "state");
    return state != NULL && strcmp(state, "draining") == 0;
}

/* ---- lists ---- */

/* 0 where the output is no terminal: then nothing is cut. */
static size_t terminal_width(void)
{
    struct winsize size = {0};

    if (isatty(STDOUT_FILENO) == 0) {
        return 0;
    }
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Gathered only where they are to be sorted, or cut, or shown to people. */
static bool is_gathered(const struct command_line *line)
{
    return line->command->shape == SHAPE_LIST &&
           (!line->json || line->sort != NULL || line->most != SIZE_MAX);
}

static void print_json(const struct table *table, size_t most)
{
    for (size_t i = 0; i < table->row_count && i < most; i++) {
        (void)puts(table->rows[i].line);
    }
}

/* The rows, how many they are, and how many there can be: @p limit, or NULL. */
static bool print_list(const struct command_line *line, struct table *table, const char *limit)
{
    static const char *const same_origin[] = {"origin", "transport", NULL};
    size_t shown = line->most;

    bool is_close = strcmp(line->name, "close") == 0;
    bool is_merged = is_close || strcmp(line->name, "origins") == 0;

    if (is_merged && !line->json && !line->is_by_worker &&
        !table_merge(table, is_close ? &same_origin[2] : same_origin)) {
        (void)fputs("criproxyctl: out of memory\n", stderr);
        return false;
    }
    if (strcmp(line->name, "why") == 0 && line->sort == NULL) {
        (void)table_sort(table, "time"); /* of all workers, the latest last */
    }
    if (strcmp(line->name, "busiest") == 0 && line->sort == NULL) {
        (void)table_sort(table, "requests");
    }
    if (strcmp(line->name, "sources") == 0 && line->sort == NULL) {
        (void)table_sort(table, "share_percent"); /* of all workers, the largest first */
    }
    if (line->sort != NULL && !table_sort(table, line->sort)) {
        (void)fprintf(stderr, "criproxyctl: no column %s; --json shows their names\n", line->sort);
        return false;
    }
    if (line->json) {
        print_json(table, shown);
        return true;
    }
    table_print(table, shown, terminal_width(), stdout);
    if (table->row_count > 0 || limit != NULL) {
        (void)printf("%zu %s%s", table->row_count, table->row_count == 1 ? "row" : "rows",
                     shown < table->row_count ? ", not all shown" : "");
        (void)printf(limit != NULL ? "; room for %s\n" : "\n", limit);
    }
    return true;
}

/* An item of the answer. @return whether it could be dealt with */
static bool take_item(const struct command_line *line, const struct wire *wire, struct table *table,
                      int *ret_status)
{
    if (is_gathered(line)) {
        if (!table_add(table, &wire->object, wire->line, wire->line_len)) {
            (void)fputs("criproxyctl: out of memory\n", stderr);
            return false;
        }
    } else if (line->json) {
        (void)fwrite(wire->line, 1, wire->line_len, stdout);
        (void)fputc('\n', stdout);
    } else {
        show_item(line->command->shape, &wire->object, stdout);
    }
    if (strcmp(line->name, "status") == 0 && is_draining(&wire->object)) {
        *ret_status = EXIT_REFUSED;
    }
    /* A reader may be waiting for the line, or the pipe may be closed. */
    return fflush(stdout) == 0;
}

static int read_answer(const struct command_line *line, struct wire *wire)
{
    static struct table table;
    enum wire_result result;
    int status = 0;

    while ((result = wire_read(wire)) == WIRE_ITEM) {
        if (!take_item(line, wire, &table, &status)) {
            return EXIT_REFUSED;
        }
    }
    bool is_good =
        result == WIRE_END &&
        (!is_gathered(line) || print_list(line, &table, json_get(&wire->object, "limit")));
    table_clear(&table);
    return is_good ? status : EXIT_REFUSED;
}

/* ---- the command line ---- */

/* False with the reason on standard error. */
static bool parse_command(int argc, char **argv, struct command_line *line)
{
    if (argc == 0) {
        ctl_print_help(stderr);
        return false;
    }
    line->command = find_command(argv[0]);
    line->arguments = argv + 1;
    line->argument_count = argc - 1;
    if (line->command == NULL) {
        (void)fprintf(stderr, "criproxyctl: no such command: %s\nTry criproxyctl --help.\n",
                      argv[0]);
        return false;
    }
    if (line->argument_count > WIRE_ARGUMENTS_MAX ||
        !arguments_fit(line->command->arguments, (size_t)line->argument_count)) {
        bool takes_none = line->command->arguments[0] == '\0';
        (void)fprintf(stderr, "criproxyctl: %s takes %s\n", argv[0],
                      takes_none ? "no arguments" : line->command->arguments);
        return false;
    }
    written_name(line->command, line->name);
    return true;
}

static bool parse_count(const char *text, size_t *ret_count)
{
    char *end = NULL;
    size_t len = strlen(text);

    if (len == 0 || len > 9 || strspn(text, "0123456789") != len) {
        return false;
    }
    *ret_count = (size_t)strtoul(text, &end, 10);
    return true;
}

static int ask(const struct command_line *line)
{
    static struct wire wire;

    if (!wire_open(&wire, line->socket)) {
        return EXIT_REFUSED;
    }
    int status = EXIT_REFUSED;
    if (wire_ask(&wire, line->name, line->arguments, line->argument_count)) {
        status = read_answer(line, &wire);
    }
    wire_close(&wire);
    return status;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"socket", required_argument, NULL, 's'}, {"json", no_argument, NULL, 'j'},
        {"sort", required_argument, NULL, 'S'},   {"lines", required_argument, NULL, 'n'},
        {"by-worker", no_argument, NULL, 'w'},    {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0}};
    struct command_line line = {.socket = DEFAULT_SOCKET, .most = SIZE_MAX};
    int option;

    /* Arguments of the command are not options of ours: stop at the first word. */
    while ((option = getopt_long(argc, argv, "+s:jS:n:whV", longs, NULL)) != -1) {
        switch (option) {
        case 's':
            line.socket = optarg;
            break;
        case 'j':
            line.json = true;
            break;
        case 'S':
            line.sort = optarg;
            break;
        case 'n':
            if (!parse_count(optarg, &line.most)) {
                (void)fprintf(stderr, "criproxyctl: --lines: expected a number, got %s\n", optarg);
                return EXIT_USAGE;
            }
            break;
        case 'w':
            line.is_by_worker = true;
            break;
        case 'h':
            ctl_print_help(stdout);
            return 0;
        case 'V':
            (void)puts("criproxyctl " CRIPROXYCTL_VERSION);
            return 0;
        default:
            (void)fputs("Try criproxyctl --help.\n", stderr);
            return EXIT_USAGE;
        }
    }
    for (size_t i = 0; i < OWN_COUNT && optind < argc; i++) {
        if (strcmp(argv[optind], own_commands[i].name) == 0) {
            return own_commands[i].run(line.socket, argc - optind, argv + optind);
        }
    }
    if (!parse_command(argc - optind, argv + optind, &line)) {
        return EXIT_USAGE;
    }
    if (strcmp(line.name, "help") == 0 && !line.json) {
        ctl_print_help(stdout); /* needs no proxy */
        return 0;
    }
    return ask(&line);
}
