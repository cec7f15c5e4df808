/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criproxyctl: one request to a running criproxyd, over its Unix socket, and the
 * answer. The protocol is in server/control.h.
 */
#include "base/arguments.h"
#include "base/json.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum shape {
    SHAPE_RECORD, /* a line a member */
    SHAPE_LIST,   /* gathered in a struct table */
    SHAPE_TABLE,  /* a line an item: the values of its first members in columns */
    SHAPE_BLOCK,  /* the lines of its member "text" */
};

/*
 * --- what is shown ---
 *
 * Answers of the proxy for people: flat JSON objects as text, and lists of them as rows that are
 * gathered, merged, sorted, and printed in columns.
 */

#define TABLE_COLUMNS_MAX 24u

struct table_row {
    char *cells[TABLE_COLUMNS_MAX]; /* NULL: it has none */
    char *line;                     /* as it came, without its end */
};

struct table_column {
    char *key;
    bool is_number; /* every cell so far is a whole number */
};

/* A zeroed one is empty. */
struct table {
    struct table_column columns[TABLE_COLUMNS_MAX];
    size_t column_count;
    struct table_row *rows;
    size_t row_count, capacity;
};

#define TABLE_COLUMNS 3u

static bool is_harmless(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x7f;
}

/* Printable ASCII stays; anything else may be a command to the terminal. */
static void put_text_len(const char *text, size_t len, FILE *out)
{
    for (size_t i = 0; i < len; i++) {
        if (is_harmless(text[i])) {
            (void)fputc(text[i], out);
        } else {
            (void)fprintf(out, "\\x%02x", (unsigned char)text[i]);
        }
    }
}

/* Number of characters, not bytes, that @p text takes when it is shown. */
static size_t show_width(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++) {
        width += is_harmless(*text) ? 1 : 4;
    }
    return width;
}

/*
 * Writes at most @p width characters of @p text, as it is shown. Errors of @p out are the caller's
 * to check.
 */
static void show_cut(const char *text, size_t width, FILE *out)
{
    size_t len = 0;

    for (size_t used = 0; text[len] != '\0'; len++) {
        used += is_harmless(text[len]) ? 1 : 4;
        if (used > width) {
            break;
        }
    }
    put_text_len(text, len, out);
}

static void put_text(const char *text, FILE *out)
{
    put_text_len(text, strlen(text), out);
}

static void put_padded(const char *text, size_t width, FILE *out)
{
    put_text(text, out);
    for (size_t len = strlen(text); len < width; len++) {
        (void)fputc(' ', out);
    }
}

static void show_record(const struct json_object *item, FILE *out)
{
    size_t width = 0;

    for (size_t i = 0; i < item->count; i++) {
        size_t len = strlen(item->members[i].key);
        width = len > width ? len : width;
    }
    for (size_t i = 0; i < item->count; i++) {
        put_padded(item->members[i].key, width + 2, out);
        put_text(item->members[i].value, out);
        (void)fputc('\n', out);
    }
}

static void show_columns(const struct json_object *item, FILE *out)
{
    static const size_t widths[TABLE_COLUMNS] = {32, 28, 0};

    for (size_t i = 0; i < item->count && i < TABLE_COLUMNS; i++) {
        bool is_last = i + 1 == item->count || i + 1 == TABLE_COLUMNS;
        put_padded(item->members[i].value, is_last ? 0 : widths[i], out);
        (void)fputs(is_last ? "\n" : " ", out);
    }
}

/* Lines, and a word about those that were left out. */
static void show_block(const struct json_object *item, FILE *out)
{
    const char *text = json_get(item, "text"), *lost = json_get(item, "lost");

    if (lost != NULL && strcmp(lost, "0") != 0) {
        (void)fprintf(out, "(%s requests left out)\n", lost);
    }
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "\n");
        put_text_len(text, len, out);
        (void)fputc('\n', out);
        text += len + (text[len] == '\n');
    }
}

/*
 * Writes one item, of a shape that is no list, with control characters escaped. Errors of @p out
 * are the caller's to check.
 */
static void show_item(enum shape shape, const struct json_object *item, FILE *out)
{
    switch (shape) {
    case SHAPE_RECORD:
        show_record(item, out);
        break;
    case SHAPE_LIST:
    case SHAPE_TABLE:
        show_columns(item, out);
        break;
    case SHAPE_BLOCK:
        show_block(item, out);
        break;
    }
}

/* ---- lists ---- */

#define CUT_MIN 12u /* characters that remain of a column that is cut */

/* ---- rows ---- */

static bool is_whole_number(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len < 20 && strspn(text, "0123456789") == len;
}

static size_t find_column(const struct table *table, const char *key)
{
    size_t i = 0;

    while (i < table->column_count && strcmp(table->columns[i].key, key) != 0) {
        i++;
    }
    return i;
}

/* False without memory; a column too many is left out. */
static bool add_cell(struct table *table, struct table_row *row, const struct json_member *member)
{
    size_t at = find_column(table, member->key);

    if (at == TABLE_COLUMNS_MAX) {
        return true;
    }
    if (at == table->column_count) {
        table->columns[at] = (struct table_column){.key = strdup(member->key), .is_number = true};
        if (table->columns[at].key == NULL) {
            return false;
        }
        table->column_count++;
    }
    struct table_column *column = &table->columns[at];
    column->is_number = column->is_number && is_whole_number(member->value);
    row->cells[at] = strdup(member->value);
    return row->cells[at] != NULL;
}

/* Another row; members past TABLE_COLUMNS_MAX are left out. @return false without memory */
static bool table_add(struct table *table, const struct json_object *item, const char *line,
                      size_t len)
{
    if (table->row_count == table->capacity) {
        size_t capacity = table->capacity == 0 ? 64 : 2 * table->capacity;
        struct table_row *rows = realloc(table->rows, capacity * sizeof(*rows));
        if (rows == NULL) {
            return false;
        }
        table->rows = rows;
        table->capacity = capacity;
    }
    struct table_row *row = &table->rows[table->row_count++];
    *row = (struct table_row){.line = strndup(line, len)};
    for (size_t i = 0; i < item->count && row->line != NULL; i++) {
        if (!add_cell(table, row, &item->members[i])) {
            return false;
        }
    }
    return row->line != NULL;
}

static void clear_row(struct table_row *row)
{
    for (size_t i = 0; i < TABLE_COLUMNS_MAX; i++) {
        free(row->cells[i]);
    }
    free(row->line);
}

/* Frees the rows of a table, which may be zeroed; the struct is the caller's. */
static void table_clear(struct table *table)
{
    for (size_t i = 0; i < table->row_count; i++) {
        clear_row(&table->rows[i]);
    }
    for (size_t i = 0; i < table->column_count; i++) {
        free(table->columns[i].key);
    }
    free(table->rows);
    *table = (struct table){.row_count = 0};
}

/* ---- one row of several workers ---- */

static bool is_same_row(const struct table *table, const struct table_row *row,
                        const struct table_row *other, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        size_t at = find_column(table, *keys);
        const char *a = at < table->column_count ? row->cells[at] : NULL;
        const char *b = at < table->column_count ? other->cells[at] : NULL;
        if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0)) {
            return false;
        }
    }
    return true;
}

static uint64_t merged_number(const char *key, uint64_t a, uint64_t b)
{
    if (strcmp(key, "rtt_ms") == 0) {
        return a > b ? a : b;
    }
    if (strcmp(key, "idle_s") == 0) {
        return a < b ? a : b;
    }
    return a + b;
}

static bool merge_cell(const struct table_column *column, char **cell, const char *other)
{
    char text[256];

    if (*cell == NULL || other == NULL) {
        return true;
    }
    if (strcmp(column->key, "worker") == 0) {
        (void)snprintf(text, sizeof(text), "%.200s,%.40s", *cell, other);
    } else if (column->is_number) {
        (void)snprintf(text, sizeof(text), "%llu",
                       (unsigned long long)merged_number(column->key, strtoull(*cell, NULL, 10),
                                                         strtoull(other, NULL, 10)));
    } else {
        return true; /* a text: that of the first */
    }
    char *merged = strdup(text);
    if (merged != NULL) {
        free(*cell);
        *cell = merged;
    }
    return merged != NULL;
}

/*
 * One row for all that have the same cells under the columns @p keys (a NULL ends them): counts
 * are added, of round trips the longest and of idle times the shortest is kept, workers are named
 * one behind the other. @return false without memory
 */
static bool table_merge(struct table *table, const char *const *keys)
{
    size_t kept = 0;

    for (size_t i = 0; i < table->row_count; i++) {
        struct table_row row = table->rows[i];
        size_t at = 0;
        while (at < kept && !is_same_row(table, &table->rows[at], &row, keys)) {
            at++;
        }
        if (at == kept) {
            table->rows[kept++] = row;
            continue;
        }
        for (size_t c = 0; c < table->column_count; c++) {
            if (!merge_cell(&table->columns[c], &table->rows[at].cells[c], row.cells[c])) {
                return false;
            }
        }
        clear_row(&row);
        table->rows[i] = (struct table_row){.line = NULL};
    }
    table->row_count = kept;
    return true;
}

/* ---- order ---- */

struct order {
    size_t column;
    bool is_number;
};

static int table_compare_rows(const void *left, const void *right, void *context)
{
    const struct order *order = context;
    const char *a = ((const struct table_row *)left)->cells[order->column];
    const char *b = ((const struct table_row *)right)->cells[order->column];

    if (a == NULL || b == NULL) {
        return (a == NULL) - (b == NULL);
    }
    if (order->is_number) {
        uint64_t x = strtoull(a, NULL, 10), y = strtoull(b, NULL, 10);
        return (x < y) - (x > y);
    }
    return strcmp(a, b);
}

/*
 * By the column @p key: numbers the largest first, texts in their order; rows without it last.
 *
 * @return false where no row has it; the table is as it was.
 */
static bool table_sort(struct table *table, const char *key)
{
    struct order order = {.column = find_column(table, key)};

    if (order.column == table->column_count) {
        return table->row_count == 0;
    }
    order.is_number = table->columns[order.column].is_number;
    qsort_r(table->rows, table->row_count, sizeof(*table->rows), table_compare_rows, &order);
    return true;
}

/* ---- columns ---- */

/* Short headings for keys that are longer than their values. */
static void head_of(const char *key, char head[32])
{
    static const char *const shorter[][2] = {
        {"worker", "W"},       {"in_flight", "BUSY"}, {"outstanding", "OUT"},
        {"requests", "REQS"},  {"answers", "ANSW"},   {"retransmissions", "RESENT"},
        {"window", "WIN"},     {"rtt_ms", "RTT"},     {"idle_s", "IDLE"},
        {"age_s", "AGE"},      {"max_age_s", "MAX"},  {"exchange", "NO"},
        {"transport", "OVER"}, {"failures", "FAIL"},  {"queue", "WAIT"},
        {"resent", "AGAIN"},
    };

    (void)snprintf(head, 32, "%s", key);
    for (size_t i = 0; i < sizeof(shorter) / sizeof(shorter[0]); i++) {
        if (strcmp(shorter[i][0], key) == 0) {
            (void)snprintf(head, 32, "%s", shorter[i][1]);
        }
    }
    for (char *at = head; *at != '\0'; at++) {
        *at = (char)(*at >= 'a' && *at <= 'z' ? *at - ('a' - 'A') : *at == '_' ? ' ' : *at);
    }
}

static const char *cell_of(const struct table_row *row, size_t column)
{
    return row->cells[column] != NULL ? row->cells[column] : "-";
}

static void table_measure(const struct table *table, size_t most, size_t widths[TABLE_COLUMNS_MAX])
{
    for (size_t c = 0; c < table->column_count; c++) {
        char head[32];
        head_of(table->columns[c].key, head);
        widths[c] = strlen(head);
        for (size_t i = 0; i < most; i++) {
            size_t len = show_width(cell_of(&table->rows[i], c));
            widths[c] = len > widths[c] ? len : widths[c];
        }
    }
}

/* The widest texts give way until all fits, or nothing more can be cut. */
static void fit(const struct table *table, size_t width, size_t widths[TABLE_COLUMNS_MAX])
{
    for (;;) {
        size_t sum = 2 * (table->column_count - 1), widest = 0;
        for (size_t c = 0; c < table->column_count; c++) {
            bool may_be_cut = !table->columns[c].is_number && widths[c] > CUT_MIN;
            sum += widths[c];
            widest = may_be_cut && (widths[widest] < widths[c] || widths[widest] <= CUT_MIN ||
                                    table->columns[widest].is_number)
                         ? c
                         : widest;
        }
        if (sum <= width || widths[widest] <= CUT_MIN || table->columns[widest].is_number) {
            return;
        }
        widths[widest]--;
    }
}

static void put_cell(const char *text, size_t width, bool is_right, bool is_last, FILE *out)
{
    size_t len = show_width(text);

    for (size_t i = len; is_right && i < width; i++) {
        (void)fputc(' ', out);
    }
    if (len > width) {
        show_cut(text, width - 3, out);
        (void)fputs("...", out);
    } else {
        show_cut(text, len, out);
    }
    for (size_t i = len; !is_right && !is_last && i < width; i++) {
        (void)fputc(' ', out);
    }
    (void)fputs(is_last ? "\n" : "  ", out);
}

/*
 * Writes the first @p most rows in columns, of at most @p width characters in all (0: no limit).
 * Errors of @p out are the caller's to check.
 */
static void table_print(const struct table *table, size_t most, size_t width, FILE *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};

    most = most < table->row_count ? most : table->row_count;
    if (most == 0) {
        return;
    }
    table_measure(table, most, widths);
    if (width > 0) {
        fit(table, width, widths);
    }
    for (size_t i = 0; i <= most; i++) {
        for (size_t c = 0; c < table->column_count; c++) {
            char head[32];
            head_of(table->columns[c].key, head);
            put_cell(i == 0 ? head : cell_of(&table->rows[i - 1], c), widths[c],
                     table->columns[c].is_number, c + 1 == table->column_count, out);
        }
    }
}

/* --- the request -------------------------------------------------------- */

#define DEFAULT_SOCKET "/run/criproxy/control"
#define LINE_MAX_BYTES 65536u
#define REQUEST_MAX 4096u
#define ARGUMENTS_MAX 4

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
    static const char *const keys[ARGUMENTS_MAX] = {"argument1", "argument2", "argument3",
                                                    "argument4"};
    char buffer[REQUEST_MAX];
    struct json_writer request;
    size_t sent = 0;

    json_writer_init(&request, buffer, sizeof(buffer));
    json_begin(&request);
    json_text(&request, "command", line->name);
    for (int i = 0; i < line->argument_count; i++) {
        json_text(&request, keys[i], line->arguments[i]);
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
    if (!arguments_fit(line->command->arguments, (size_t)line->argument_count)) {
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
