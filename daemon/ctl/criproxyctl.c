/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criproxyctl: one request to a running criproxyd, over its Unix socket, and the
 * answer. The protocol is in server/control.h.
 */
#include "ctl/show.h"

#include "base/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_SOCKET "/run/criproxy/control"
#define LINE_MAX_BYTES 65536u
#define REQUEST_MAX 4096u
#define ARGUMENTS_MAX 16

enum {
    EXIT_REFUSED = 1, /* the proxy said no, cannot be reached, or, for status, is draining */
    EXIT_USAGE = 2,
};

static const struct command {
    const char *name, *arguments, *help;
    enum shape shape;
} commands[] = {
#define COMMAND(name, shape, level, arguments, help) {#name, arguments, help, SHAPE_##shape},
#include "ops/commands.def"
#undef COMMAND
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

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
        char name[32], usage[96];
        written_name(&commands[i], name);
        (void)snprintf(usage, sizeof(usage), "%s %s", name, commands[i].arguments);
        bool is_long = strlen(usage) + strlen(commands[i].help) > 75 || strlen(usage) > 22;
        (void)fprintf(out, is_long ? "  %s\n%26s%s\n" : "  %-22s%.0s  %s\n", usage, "",
                      commands[i].help);
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

/* ---- the socket ---- */

static int ctl_connect_to(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof(name.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&name, sizeof(name)) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool send_request(int fd, const struct command_line *line)
{
    char buffer[REQUEST_MAX];
    struct json_writer request;
    size_t sent = 0;

    json_writer_init(&request, buffer, sizeof(buffer));
    json_begin(&request);
    json_text(&request, "command", line->name);
    for (int i = 0; i < line->argument_count; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "argument%d", i + 1);
        json_text(&request, key, line->arguments[i]);
    }
    if (!json_end(&request)) {
        errno = EMSGSIZE;
        return false;
    }
    while (sent < request.len) {
        ssize_t written = write(fd, buffer + sent, request.len - sent);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        sent += written > 0 ? (size_t)written : 0;
    }
    return true;
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

/* The exit status, or -1: there is more to come. @p ret_status: the one of a good end. */
static int ctl_take_line(const struct command_line *line, const char *text, size_t len,
                         int *ret_status)
{
    static char memory[LINE_MAX_BYTES + 2 * JSON_MEMBERS_MAX];
    static struct table table;
    struct json_object object;

    if (!json_read(text, len, memory, sizeof(memory), &object)) {
        (void)fputs("criproxyctl: the answer is not understood\n", stderr);
        return EXIT_REFUSED;
    }
    const char *end = json_get(&object, "end");
    if (end == NULL) {
        if (is_gathered(line)) {
            if (!table_add(&table, &object, text, len)) {
                (void)fputs("criproxyctl: out of memory\n", stderr);
                return EXIT_REFUSED;
            }
        } else if (line->json) {
            (void)fwrite(text, 1, len, stdout);
            (void)fputc('\n', stdout);
        } else {
            show_item(line->command->shape, &object, stdout);
        }
        if (strcmp(line->name, "status") == 0 && is_draining(&object)) {
            *ret_status = EXIT_REFUSED;
        }
        /* A reader may be waiting for the line, or the pipe may be closed. */
        return fflush(stdout) == 0 ? -1 : EXIT_REFUSED;
    }
    if (strcmp(end, "ok") == 0) {
        bool is_good = !is_gathered(line) || print_list(line, &table, json_get(&object, "limit"));
        table_clear(&table);
        return is_good ? *ret_status : EXIT_REFUSED;
    }
    const char *error = json_get(&object, "error");
    (void)fprintf(stderr, "criproxyctl: %s\n", error == NULL ? "refused" : error);
    return EXIT_REFUSED;
}

static int read_answer(const struct command_line *line, int fd)
{
    static char buffer[LINE_MAX_BYTES];
    size_t len = 0;
    int good = 0;

    for (;;) {
        ssize_t got = read(fd, buffer + len, sizeof(buffer) - len);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            (void)fprintf(stderr, "criproxyctl: %s\n",
                          got < 0 ? strerror(errno) : "the proxy closed the connection");
            return EXIT_REFUSED;
        }
        len += (size_t)got;
        size_t used = 0;
        for (const char *end; (end = memchr(buffer + used, '\n', len - used)) != NULL;) {
            size_t line_len = (size_t)(end - buffer) - used;
            int status = ctl_take_line(line, buffer + used, line_len, &good);
            if (status >= 0) {
                return status;
            }
            used += line_len + 1;
        }
        memmove(buffer, buffer + used, len - used);
        len -= used;
        if (len == sizeof(buffer)) {
            (void)fputs("criproxyctl: the answer is not understood\n", stderr);
            return EXIT_REFUSED;
        }
    }
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
    if (line->argument_count > ARGUMENTS_MAX ||
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

/* A hint about the likely cause, or "". */
static const char *hint_for(int error)
{
    switch (error) {
    case ENOENT:
    case ECONNREFUSED:
        return "; is criproxyd running, with this as its admin.socket?";
    case EACCES:
        return "; only root, and the proxy's user and groups, may use it";
    default:
        return "";
    }
}

static int ask(const struct command_line *line)
{
    int fd = ctl_connect_to(line->socket);

    if (fd < 0) {
        int error = errno;
        (void)fprintf(stderr, "criproxyctl: %s: %s%s\n", line->socket, strerror(error),
                      hint_for(error));
        return EXIT_REFUSED;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    int status = EXIT_REFUSED;
    if (send_request(fd, line)) {
        status = read_answer(line, fd);
    } else {
        (void)fprintf(stderr, "criproxyctl: %s\n", strerror(errno));
    }
    (void)close(fd);
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
    if (!parse_command(argc - optind, argv + optind, &line)) {
        return EXIT_USAGE;
    }
    if (strcmp(line.name, "help") == 0 && !line.json) {
        ctl_print_help(stdout); /* needs no proxy */
        return 0;
    }
    return ask(&line);
}
