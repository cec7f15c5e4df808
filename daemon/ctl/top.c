/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/top.h"

#include "ctl/show.h"
#include "ctl/wire.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define WIDTH_DEFAULT 80u
#define WIDTH_MAX 256u
#define INTERVAL_DEFAULT_S 2u
#define INTERVAL_ONCE_S 1u
#define INTERVAL_MAX_S 3600u

/* Rows of each part, on a screen that has room for them. */
#define REASONS_SHOWN 6u
#define ORIGINS_SHOWN 8u
#define SOURCES_SHOWN 4u
#define BUSIEST_SHOWN 5u

enum {
    TOP_FAILED = 1,
    TOP_USAGE = 2,
};

enum part {
    PART_STATUS,
    PART_STATS,
    PART_FRONTS,
    PART_ORIGINS,
    PART_SOURCES,
    PART_BUSIEST,
    PART_COUNT,
};

static const char *const part_commands[PART_COUNT] = {"status",  "stats",   "fronts",
                                                      "origins", "sources", "busiest"};

/* What the proxy has said at one time. */
struct sample {
    double at_s;
    struct table parts[PART_COUNT];
};

/* Two of them, and where they are drawn. */
struct frame {
    const struct sample *now, *before;
    FILE *out;
    size_t width, height, lines; /* height 0: no limit */
    const char *line_end;
};

static volatile sig_atomic_t stop;

static void top_on_signal(int number)
{
    (void)number;
    stop = 1;
}

/* ---- samples ---- */

static bool top_take_item(void *context, const struct wire *wire)
{
    return table_add(context, &wire->object, wire->line, wire->line_len);
}

static void sample_clear(struct sample *sample)
{
    for (unsigned i = 0; i < PART_COUNT; i++) {
        table_clear(&sample->parts[i]);
    }
}

/* Counts of several workers are one row. */
static bool merge_parts(struct sample *sample)
{
    static const char *const origin_keys[] = {"origin", "transport", NULL};
    static const char *const source_keys[] = {"source", NULL};
    static const char *const busiest_keys[] = {"kind", "name", NULL};

    return table_merge(&sample->parts[PART_ORIGINS], origin_keys) &&
           table_merge(&sample->parts[PART_SOURCES], source_keys) &&
           table_merge(&sample->parts[PART_BUSIEST], busiest_keys);
}

static bool sample_take(struct wire *wire, struct sample *ret_sample)
{
    struct timespec now;

    for (unsigned i = 0; i < PART_COUNT; i++) {
        if (!wire_ask(wire, part_commands[i], NULL, 0) ||
            wire_read_all(wire, top_take_item, &ret_sample->parts[i]) != WIRE_END) {
            return false;
        }
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    ret_sample->at_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    return merge_parts(ret_sample);
}

/* The cell of a row under @p key, or "". */
static const char *top_cell(const struct table *table, size_t row, const char *key)
{
    for (size_t i = 0; i < table->column_count && row < table->row_count; i++) {
        if (strcmp(table->columns[i].key, key) == 0 && table->rows[row].cells[i] != NULL) {
            return table->rows[row].cells[i];
        }
    }
    return "";
}

static double number_in(const struct table *table, size_t row, const char *key)
{
    return strtod(top_cell(table, row, key), NULL);
}

/* The row that has the same text under both keys; row_count: none. */
static size_t row_like(const struct table *table, const struct table *other, size_t row,
                       const char *const keys[2])
{
    size_t i = 0;

    for (; i < table->row_count; i++) {
        if (strcmp(top_cell(table, i, keys[0]), top_cell(other, row, keys[0])) == 0 &&
            strcmp(top_cell(table, i, keys[1]), top_cell(other, row, keys[1])) == 0) {
            break;
        }
    }
    return i;
}

/* How much it has grown; from 0 where it is new. */
static double growth(const struct frame *frame, enum part part, size_t row,
                     const char *const keys[2], const char *key)
{
    const struct table *now = &frame->now->parts[part], *before = &frame->before->parts[part];
    double old = number_in(before, row_like(before, now, row, keys), key);
    double value = number_in(now, row, key);

    return value > old ? value - old : 0;
}

static double seconds(const struct frame *frame)
{
    double s = frame->now->at_s - frame->before->at_s;

    return s > 0.001 ? s : 0.001;
}

static const char *const by_name[2] = {"name", "name"};
static const char *const by_front[2] = {"front", "front"};
static const char *const by_kind[2] = {"kind", "name"};
static const char *const by_origin[2] = {"origin", "transport"};

static size_t stat_row(const struct table *stats, const char *name)
{
    size_t i = 0;

    while (i < stats->row_count && strcmp(top_cell(stats, i, "name"), name) != 0) {
        i++;
    }
    return i;
}

static double stat_rate(const struct frame *frame, const char *name)
{
    size_t row = stat_row(&frame->now->parts[PART_STATS], name);

    return growth(frame, PART_STATS, row, by_name, "value") / seconds(frame);
}

/* ---- lines ---- */

/* One line, cut to the width; what is not printable is shown as a question mark. */
__attribute__((format(printf, 2, 3))) static void put_row(struct frame *frame, const char *format,
                                                          ...)
{
    char text[WIDTH_MAX + 1];
    va_list args;

    if (frame->height > 0 && frame->lines >= frame->height) {
        return;
    }
    va_start(args, format);
    int wrote = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    size_t len = wrote < 0 ? 0 : strlen(text);
    len = len < frame->width ? len : frame->width;
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        bool is_plain = (unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x7f;
        (void)fputc(is_plain ? text[i] : '?', frame->out);
    }
    (void)fputs(frame->line_end, frame->out);
    frame->lines++;
}

static void put_uptime(double s, char text[32])
{
    unsigned long minutes = (unsigned long)(s / 60);

    (void)snprintf(text, 32, "%lu d %02lu:%02lu", minutes / 1440, minutes / 60 % 24, minutes % 60);
}

static void put_head(struct frame *frame)
{
    const struct table *status = &frame->now->parts[PART_STATUS];
    char uptime[32];

    put_uptime(number_in(status, 0, "uptime_s"), uptime);
    put_row(frame, "criproxyd %s, %s, up %s, %s workers, %.1f MiB, %s descriptors",
            top_cell(status, 0, "version"), top_cell(status, 0, "state"), uptime,
            top_cell(status, 0, "workers"), number_in(status, 0, "resident_bytes") / 1048576,
            top_cell(status, 0, "descriptors"));
    put_row(frame, "requests/s %-9.1f in flight %-7s clients %-7s connections %s",
            stat_rate(frame, "requests"), top_cell(status, 0, "requests_in_flight"),
            top_cell(status, 0, "clients"), top_cell(status, 0, "connections"));
    put_row(frame, "to origin servers/s %-9.1f sent again/s %-8.1f lost/s %.1f",
            stat_rate(frame, "upstream_requests"), stat_rate(frame, "upstream_retransmitted"),
            stat_rate(frame, "upstream_losses"));
}

static void put_fronts(struct frame *frame)
{
    const struct table *fronts = &frame->now->parts[PART_FRONTS];
    double s = seconds(frame);

    put_row(frame, " ");
    put_row(frame, "%-16s %12s %12s %12s %12s", "CLIENTS BY", "REQUESTS/S", "CACHED/S",
            "FORWARDED/S", "MEAN MS");
    for (size_t i = 0; i < fronts->row_count; i++) {
        double forwarded = growth(frame, PART_FRONTS, i, by_front, "forwarded");
        double us = growth(frame, PART_FRONTS, i, by_front, "forwarded_us");
        put_row(frame, "%-16s %12.1f %12.1f %12.1f %12.1f", top_cell(fronts, i, "front"),
                growth(frame, PART_FRONTS, i, by_front, "requests") / s,
                growth(frame, PART_FRONTS, i, by_front, "cached") / s, forwarded / s,
                forwarded > 0 ? us / forwarded / 1000 : 0);
    }
}

/* ---- the largest first ---- */

struct ranked {
    size_t row;
    double rate, total;
};

static int compare_ranks(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->rate < y->rate || x->rate > y->rate) {
        return x->rate < y->rate ? 1 : -1;
    }
    if (x->total < y->total || x->total > y->total) {
        return x->total < y->total ? 1 : -1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

/*
 * The rows of a part by how much the number under @p key has grown, then by the number itself.
 * @return how many; *ret_ranks is freed by the caller, NULL without memory.
 */
static size_t rank(const struct frame *frame, enum part part, const char *const keys[2],
                   const char *key, struct ranked **ret_ranks)
{
    const struct table *table = &frame->now->parts[part];
    struct ranked *ranks = calloc(table->row_count + 1, sizeof(*ranks));

    *ret_ranks = ranks;
    for (size_t i = 0; i < table->row_count && ranks != NULL; i++) {
        ranks[i] = (struct ranked){i, growth(frame, part, i, keys, key) / seconds(frame),
                                   number_in(table, i, key)};
    }
    if (ranks == NULL) {
        return 0;
    }
    qsort(ranks, table->row_count, sizeof(*ranks), compare_ranks);
    return table->row_count;
}

static void put_reasons(struct frame *frame)
{
    const struct table *stats = &frame->now->parts[PART_STATS];
    struct ranked *ranks;
    size_t count = rank(frame, PART_STATS, by_name, "value", &ranks), shown = 0;

    put_row(frame, " ");
    put_row(frame, "%-28s %12s %12s", "ENDED FOR", "REQUESTS/S", "TOTAL");
    for (size_t i = 0; i < count && shown < REASONS_SHOWN; i++) {
        const char *name = top_cell(stats, ranks[i].row, "name");
        if (strncmp(name, "ended_", 6) == 0 && ranks[i].total > 0) {
            put_row(frame, "%-28s %12.1f %12.0f", name + 6, ranks[i].rate, ranks[i].total);
            shown++;
        }
    }
    free(ranks);
}

static void put_origins(struct frame *frame)
{
    const struct table *origins = &frame->now->parts[PART_ORIGINS];
    struct ranked *ranks;
    size_t count = rank(frame, PART_ORIGINS, by_origin, "requests", &ranks);

    put_row(frame, " ");
    put_row(frame, "%-30s %-4s %8s %7s %6s %6s %7s", "ORIGIN SERVER", "OVER", "SENT/S", "WINDOW",
            "OUT", "QUEUE", "RTT MS");
    for (size_t i = 0; i < count && i < ORIGINS_SHOWN; i++) {
        size_t row = ranks[i].row;
        put_row(frame, "%-30.30s %-4.4s %8.1f %7s %6s %6s %7s", top_cell(origins, row, "origin"),
                top_cell(origins, row, "transport"), ranks[i].rate,
                top_cell(origins, row, "window"), top_cell(origins, row, "outstanding"),
                top_cell(origins, row, "queue"), top_cell(origins, row, "rtt_ms"));
    }
    free(ranks);
}

/* What is certain of the counts of sketches. */
static void put_busiest(struct frame *frame, const char *kind, const char *title)
{
    const struct table *busiest = &frame->now->parts[PART_BUSIEST];
    struct ranked *ranks;
    size_t count = rank(frame, PART_BUSIEST, by_kind, "at_least", &ranks), shown = 0;

    put_row(frame, " ");
    put_row(frame, "%-56s %10s %12s", title, "REQUESTS/S", "SINCE BEGUN");
    for (size_t i = 0; i < count && shown < BUSIEST_SHOWN; i++) {
        if (strcmp(top_cell(busiest, ranks[i].row, "kind"), kind) == 0) {
            put_row(frame, "%-56.56s %10.1f %12.0f", top_cell(busiest, ranks[i].row, "name"),
                    ranks[i].rate, ranks[i].total);
            shown++;
        }
    }
    free(ranks);
}

static void put_sources(struct frame *frame)
{
    const struct table *sources = &frame->now->parts[PART_SOURCES];

    if (sources->row_count == 0) {
        return;
    }
    put_row(frame, " ");
    put_row(frame, "%-34s %7s %9s %12s %12s", "CLIENTS THAT HOLD MOST", "SHARE %", "IN FLIGHT",
            "CONNECTIONS", "OBSERVATIONS");
    for (size_t i = 0; i < sources->row_count && i < SOURCES_SHOWN; i++) {
        put_row(frame, "%-34.34s %7s %9s %12s %12s", top_cell(sources, i, "source"),
                top_cell(sources, i, "share_percent"), top_cell(sources, i, "requests"),
                top_cell(sources, i, "connections"), top_cell(sources, i, "observations"));
    }
}

static void put_frame(struct frame *frame)
{
    put_head(frame);
    put_fronts(frame);
    put_reasons(frame);
    put_origins(frame);
    put_busiest(frame, "target", "TARGETS");
    put_busiest(frame, "client", "CLIENTS");
    put_sources(frame);
}

/* ---- the terminal ---- */

struct screen {
    bool is_one, has_keys; /* a terminal; and one that is typed at */
    struct termios before;
};

static void screen_open(struct screen *screen)
{
    struct termios raw;

    screen->is_one = isatty(STDOUT_FILENO) != 0;
    screen->has_keys = screen->is_one && tcgetattr(STDIN_FILENO, &screen->before) == 0;
    if (screen->has_keys) {
        raw = screen->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    if (screen->is_one) {
        (void)fputs("\033[H\033[J", stdout);
    }
}

static void screen_close(const struct screen *screen)
{
    if (screen->has_keys) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
    }
}

/* Until the time is over, a signal comes, or q is typed: then it is to stop. */
static void screen_wait(const struct screen *screen, unsigned interval_s)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;

    if (stop == 0 && poll(&input, screen->has_keys ? 1 : 0, (int)interval_s * 1000) > 0 &&
        (read(STDIN_FILENO, &key, 1) != 1 || key == 'q')) {
        stop = 1;
    }
}

static void screen_size(const struct screen *screen, struct frame *frame)
{
    struct winsize size = {0};

    frame->width = WIDTH_DEFAULT;
    frame->height = 0;
    if (screen->is_one && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        frame->width = size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
        frame->height = size.ws_row > 1 ? size.ws_row - 1u : 0;
    }
}

/* @return whether it was written */
static bool draw(const struct screen *screen, bool is_once, const struct sample *now,
                 const struct sample *before)
{
    bool is_moved = screen->is_one && !is_once;
    struct frame frame = {
        .now = now, .before = before, .out = stdout, .line_end = is_moved ? "\033[K\n" : "\n"};

    screen_size(screen, &frame);
    if (is_once) {
        frame.height = 0;
    }
    (void)fputs(is_moved ? "\033[H" : "", stdout);
    put_frame(&frame);
    (void)fputs(is_moved ? "\033[J" : is_once ? "" : "\n", stdout);
    return fflush(stdout) == 0;
}

/* ---- the command ---- */

static bool take_interval(const char *text, unsigned *ret_s)
{
    char *end = NULL;
    unsigned long s = strtoul(text, &end, 10);

    if (end == text || *end != '\0' || s < 1 || s > INTERVAL_MAX_S) {
        (void)fprintf(stderr, "criproxyctl: --interval: expected 1 to %u seconds, got %s\n",
                      INTERVAL_MAX_S, text);
        return false;
    }
    *ret_s = (unsigned)s;
    return true;
}

static bool top_options(int argc, char **argv, bool *ret_is_once, unsigned *ret_interval_s)
{
    static const struct option longs[] = {{"once", no_argument, NULL, 'o'},
                                          {"interval", required_argument, NULL, 'i'},
                                          {NULL, 0, NULL, 0}};
    unsigned interval_s = 0;
    int option;

    optind = 0; /* another command line than before */
    while ((option = getopt_long(argc, argv, "oi:", longs, NULL)) != -1) {
        if (option == 'o') {
            *ret_is_once = true;
        } else if (option != 'i' || !take_interval(optarg, &interval_s)) {
            return false;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "criproxyctl: top takes no argument %s\n", argv[optind]);
        return false;
    }
    *ret_interval_s = interval_s > 0 ? interval_s
                      : *ret_is_once ? INTERVAL_ONCE_S
                                     : INTERVAL_DEFAULT_S;
    return true;
}

/* Frame after frame. @return the exit status */
static int show_frames(struct wire *wire, const struct screen *screen, bool is_once,
                       unsigned interval_s)
{
    struct sample before = {.at_s = 0};
    bool is_good = sample_take(wire, &before);

    while (is_good && stop == 0) {
        struct sample now = {.at_s = 0};
        screen_wait(screen, interval_s);
        if (stop != 0) {
            break;
        }
        is_good = sample_take(wire, &now) && draw(screen, is_once, &now, &before);
        sample_clear(&before);
        before = now;
        if (is_once) {
            break;
        }
    }
    sample_clear(&before);
    return is_good || stop != 0 ? 0 : TOP_FAILED;
}

int top_run(const char *socket, int argc, char **argv)
{
    static struct wire wire;
    const struct sigaction action = {.sa_handler = top_on_signal};
    struct screen screen = {.is_one = false};
    unsigned interval_s;
    bool is_once = false;

    if (!top_options(argc, argv, &is_once, &interval_s)) {
        (void)fputs("Try criproxyctl --help.\n", stderr);
        return TOP_USAGE;
    }
    if (!wire_open(&wire, socket)) {
        return TOP_FAILED;
    }
    wire.stop = &stop;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (!is_once) {
        screen_open(&screen);
    }
    int status = show_frames(&wire, &screen, is_once, interval_s);
    screen_close(&screen);
    wire_close(&wire);
    return status;
}
