/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include "base/escape.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Events share a slot where their names hash alike; then they share its budget. */
#define LIMIT_SLOTS 64

atomic_int log_threshold = LOG_INFO;

static int log_fd = STDERR_FILENO;
static bool log_to_journal = false;
static atomic_bool log_json = false;
static atomic_uint_fast64_t lost_lines;
static atomic_uint_fast64_t unwritten_lines; /* since the last line that was written */

/* Second of the window in the upper half, lines in it in the lower. */
static atomic_uint_fast64_t limit_slots[LIMIT_SLOTS];

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char level_priorities[] = {'3', '4', '6', '7'}; /* of syslog(3) */

/* A line that is being put together; `cut` once something did not fit. */
struct line {
    size_t len;
    bool cut;
    char text[LOG_LINE_MAX];
};

/* Bytes kept for the end of a line: "..." or "\"}", and the newline. */
#define LINE_RESERVE 16

static void line_add(struct line *line, const char *text, size_t len)
{
    if (line->cut || len > sizeof(line->text) - LINE_RESERVE - line->len) {
        line->cut = true;
        return;
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void line_add_text(struct line *line, const char *text)
{
    line_add(line, text, strlen(text));
}

/* Without regard to the reserve, which this is for. */
static void line_end(struct line *line, const char *text)
{
    size_t len = strlen(text);

    memcpy(line->text + line->len, text, len);
    line->len += len;
}

void log_open(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;

    log_fd = fd;
    log_to_journal = false;
    if (stream != NULL && fstat(fd, &status) == 0) {
        char here[64];
        (void)snprintf(here, sizeof(here), "%" PRIuMAX ":%" PRIuMAX, (uintmax_t)status.st_dev,
                       (uintmax_t)status.st_ino);
        log_to_journal = strcmp(stream, here) == 0;
    }
}

const char *log_prefix(enum log_level level)
{
    static const char *const prefixes[] = {"<3>", "<4>", "<6>", "<7>"};

    return log_to_journal ? prefixes[level] : "";
}

int log_open_file(const char *path)
{
    static bool is_open;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);

    if (fd < 0) {
        return -errno;
    }
    if (!is_open) {
        is_open = true;
        log_open(fd);
        return 0;
    }
    /* Under the number that other threads are writing to at this moment. */
    int error = dup3(fd, log_fd, O_CLOEXEC) < 0 ? -errno : 0;
    (void)close(fd);
    return error;
}

void log_set(enum log_level level, bool json)
{
    atomic_store_explicit(&log_threshold, (int)level, memory_order_relaxed);
    atomic_store_explicit(&log_json, json, memory_order_relaxed);
}

uint64_t log_lost_count(void)
{
    return atomic_load_explicit(&lost_lines, memory_order_relaxed);
}

/* False where the reader is slow: a pipe is writable when PIPE_BUF bytes fit. */
static bool send_line(const char *text, size_t len)
{
    struct pollfd ready = {.fd = log_fd, .events = POLLOUT};

    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) {
        return false;
    }
    ssize_t written;
    do {
        written = write(log_fd, text, len);
    } while (written < 0 && errno == EINTR);
    return written == (ssize_t)len;
}

static void count_lost(uint64_t count)
{
    atomic_fetch_add_explicit(&lost_lines, count, memory_order_relaxed);
}

/* Each "key=value" of a text line becomes a member of a JSON object. */

static bool is_json_number(const char *text, size_t len)
{
    size_t at = len > 0 && text[0] == '-' ? 1 : 0;

    if (at == len || len > 20 || (text[at] == '0' && len > at + 1 && text[at + 1] != '.')) {
        return false;
    }
    bool dot = false;
    for (size_t i = at; i < len; i++) {
        if (text[i] == '.' && !dot && i > at && i + 1 < len) {
            dot = true;
        } else if (text[i] < '0' || text[i] > '9') {
            return false;
        }
    }
    return true;
}

static void json_add_byte(struct line *line, unsigned char c)
{
    char piece[8];
    size_t len = escape_json_byte(piece, c);
    line_add(line, piece, len);
}

/* The byte at @p text, which may be escaped as escape_text() does; how much it took. */
static size_t unescape(const char *text, size_t len, unsigned char *ret_byte)
{
    *ret_byte = (unsigned char)text[0];
    if (text[0] != '\\' || len < 2) {
        return 1;
    }
    if (text[1] == 'x' && len >= 4 && escape_hex_digit(text[2]) >= 0 &&
        escape_hex_digit(text[3]) >= 0) {
        *ret_byte = (unsigned char)(escape_hex_digit(text[2]) * 16 + escape_hex_digit(text[3]));
        return 4;
    }
    *ret_byte = (unsigned char)text[1];
    return 2;
}

static void json_add_string(struct line *line, const char *text, size_t len)
{
    line_add_text(line, "\"");
    for (size_t i = 0; i < len;) {
        unsigned char byte = 0;
        i += unescape(text + i, len - i, &byte);
        json_add_byte(line, byte);
    }
    line_add_text(line, "\"");
}

/* Length of the value at @p text: to the closing quote, or to the next space. */
static size_t value_len(const char *text)
{
    if (text[0] != '"') {
        return strcspn(text, " ");
    }
    size_t len = 1;
    while (text[len] != '\0' && text[len] != '"') {
        len += text[len] == '\\' && text[len + 1] != '\0' ? 2 : 1;
    }
    return text[len] == '"' ? len + 1 : len;
}

/* Response codes only look like numbers: 2.00 would come back as 2. */
static bool is_code(const char *key, size_t key_len)
{
    static const char code[] = "code";
    const size_t len = sizeof(code) - 1;

    return key_len >= len && memcmp(key + key_len - len, code, len) == 0;
}

static void json_add_field(struct line *line, const char *key, size_t key_len, const char *value,
                           size_t len)
{
    const size_t len_before = line->len;
    const bool cut_before = line->cut;

    line_add_text(line, ",");
    json_add_string(line, key, key_len);
    line_add_text(line, ":");
    if (len > 0 && value[0] == '"') {
        json_add_string(line, value + 1, len > 1 && value[len - 1] == '"' ? len - 2 : len - 1);
    } else if (is_json_number(value, len) && !is_code(key, key_len)) {
        line_add(line, value, len);
    } else {
        json_add_string(line, value, len);
    }
    if (line->cut && !cut_before) { /* half a member is no JSON: leave it out whole */
        line->len = len_before;
    }
}

static void json_add_fields(struct line *line, const char *fields)
{
    while (*fields != '\0' && !line->cut) {
        fields += strspn(fields, " ");
        size_t key_len = strcspn(fields, "= ");
        if (fields[key_len] != '=') {
            fields += key_len;
            continue;
        }
        const char *value = fields + key_len + 1;
        size_t len = value_len(value);
        json_add_field(line, fields, key_len, value, len);
        fields = value + len;
    }
}

const char *log_time_format(uint64_t ago_us, char text[LOG_TIME_MAX])
{
    struct timespec now = {0};
    struct tm utc = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000 - ago_us;
    const time_t seconds = (time_t)(us / 1000000);
    (void)gmtime_r(&seconds, &utc);
    size_t len = strftime(text, LOG_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text + len, LOG_TIME_MAX - len, ".%06uZ", (unsigned)(us % 1000000));
    return text;
}

static void json_add_time(struct line *line)
{
    char text[LOG_TIME_MAX];

    line_add_text(line, "{\"time\":\"");
    line_add_text(line, log_time_format(0, text));
    line_add_text(line, "\"");
}

static void put_json(struct line *line, enum log_level level, const char *event, const char *fields)
{
    json_add_time(line);
    line_add_text(line, ",\"level\":\"");
    line_add_text(line, level_names[level]);
    line_add_text(line, "\",\"event\":");
    json_add_string(line, event, strlen(event));
    json_add_fields(line, fields);
    line_end(line, line->cut ? ",\"cut\":true}" : "}");
}

static void log_put_text(struct line *line, enum log_level level, const char *event,
                         const char *fields)
{
    line_add_text(line, event);
    if (level != LOG_INFO) {
        line_add_text(line, " level=");
        line_add_text(line, level_names[level]);
    }
    if (fields[0] != '\0') {
        line_add_text(line, " ");
        size_t room = sizeof(line->text) - LINE_RESERVE - line->len;
        size_t len = strlen(fields);
        line_add(line, fields, len < room ? len : room);
        line->cut = line->cut || len > room;
    }
    if (line->cut) {
        line_end(line, "...");
    }
}

/* Control bytes must not be in a line; callers that have to show them use escape_value(). */
static void tame(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

/* The journal has its own. */
static void add_time(struct line *line)
{
    char text[LOG_TIME_MAX];

    if (!log_to_journal) {
        line_add_text(line, log_time_format(0, text));
        line_add_text(line, " ");
    }
}

static bool put_line(enum log_level level, const char *event, const char *fields)
{
    struct line line; /* not zeroed: only written bytes are read */

    line.len = 0;
    line.cut = false;
    if (log_to_journal) {
        const char priority[] = {'<', level_priorities[level], '>'};
        line_add(&line, priority, sizeof(priority));
    }
    if (atomic_load_explicit(&log_json, memory_order_relaxed)) {
        put_json(&line, level, event, fields);
    } else {
        add_time(&line);
        log_put_text(&line, level, event, fields);
    }
    line_end(&line, "\n");
    return send_line(line.text, line.len);
}

static void write_or_count(enum log_level level, const char *event, const char *fields)
{
    uint64_t missing = atomic_load_explicit(&unwritten_lines, memory_order_relaxed);

    if (missing > 0) {
        char text[64];
        (void)snprintf(text, sizeof(text), "lines=%" PRIu64, missing);
        if (put_line(LOG_WARNING, "log_dropped", text)) {
            atomic_fetch_sub_explicit(&unwritten_lines, missing, memory_order_relaxed);
        }
    }
    if (!put_line(level, event, fields)) {
        count_lost(1);
        atomic_fetch_add_explicit(&unwritten_lines, 1, memory_order_relaxed);
    }
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a: names are our own literals */

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return hash;
}

/*
 * Whether @p event may have another line this second. Threads that race here may
 * let a line more or less through; nothing worse.
 */
static bool is_within_limit(const char *event, uint64_t *ret_suppressed)
{
    struct timespec now = {0};
    atomic_uint_fast64_t *slot = &limit_slots[hash_text(event) % LIMIT_SLOTS];

    *ret_suppressed = 0;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    uint64_t window = (uint64_t)now.tv_sec << 32;
    uint_fast64_t state = atomic_load_explicit(slot, memory_order_relaxed);
    if ((state >> 32 << 32) != window) {
        uint64_t count = state & UINT32_MAX;
        if (atomic_compare_exchange_strong_explicit(slot, &state, window | 1, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            *ret_suppressed = count > LOG_LINES_PER_SECOND ? count - LOG_LINES_PER_SECOND : 0;
            return true;
        }
    }
    state = atomic_fetch_add_explicit(slot, 1, memory_order_relaxed);
    return (state & UINT32_MAX) < LOG_LINES_PER_SECOND;
}

bool log_take(const char *event)
{
    uint64_t suppressed = 0;

    if (!is_within_limit(event, &suppressed)) {
        count_lost(1);
        return false;
    }
    if (suppressed > 0) {
        char text[128];
        (void)snprintf(text, sizeof(text), "of=%.64s lines=%" PRIu64, event, suppressed);
        write_or_count(LOG_WARNING, "log_suppressed", text);
    }
    return true;
}

static void emit(enum log_level level, const char *event, const char *fields)
{
    if (log_take(event)) {
        write_or_count(level, event, fields);
    }
}

void log_write(enum log_level level, const char *event, const char *format, ...)
{
    char fields[LOG_LINE_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(fields, sizeof(fields), format, args);
    va_end(args);
    tame(fields);
    emit(level, event, fields);
}

void log_plain(enum log_level level, const char *event)
{
    if (log_is_on(level)) {
        emit(level, event, "");
    }
}

void log_access(const char *event, const char *format, ...)
{
    char fields[LOG_LINE_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(fields, sizeof(fields), format, args);
    va_end(args);
    tame(fields);
    write_or_count(LOG_INFO, event, fields);
}

void log_block_init(struct log_block *block)
{
    block->len = 0;
    block->cut = false;
}

void log_block_line(struct log_block *block, const char *format, ...)
{
    char text[LOG_LINE_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tame(text);
    size_t len = strlen(text);
    if (block->cut || len + 1 > sizeof(block->text) - LINE_RESERVE - block->len) {
        block->cut = true;
        return;
    }
    memcpy(block->text + block->len, text, len);
    block->text[block->len + len] = '\n';
    block->len += len + 1;
}

/* A line of the block as an object of its own; the block's are written together all the same. */
static size_t block_line_to_json(const char *text, size_t len, char *out, size_t capacity)
{
    struct line line = {.len = 0};
    char fields[LOG_LINE_MAX], shown[LOG_LINE_MAX - 16];

    (void)snprintf(fields, sizeof(fields), "text=%s",
                   escape_value(shown, sizeof(shown), text, len));
    put_json(&line, LOG_INFO, "trace", fields);
    line_end(&line, "\n");
    if (line.len > capacity) {
        return 0;
    }
    memcpy(out, line.text, line.len);
    return line.len;
}

static bool send_block_as_json(const struct log_block *block)
{
    char out[4 * sizeof(block->text)];
    size_t used = 0;

    for (size_t at = 0; at < block->len;) {
        const char *text = block->text + at;
        const char *end = memchr(text, '\n', block->len - at);
        size_t len = end == NULL ? block->len - at : (size_t)(end - text);
        used += block_line_to_json(text, len, out + used, sizeof(out) - used);
        at += len + 1;
    }
    return send_line(out, used);
}

/* The block's first line begins with the time, as other lines do. */
static bool send_block_as_text(const struct log_block *block)
{
    char out[LOG_TIME_MAX + sizeof(block->text)];
    struct line line = {.len = 0};

    add_time(&line);
    memcpy(out, line.text, line.len);
    memcpy(out + line.len, block->text, block->len);
    return send_line(out, line.len + block->len);
}

void log_block_write(struct log_block *block)
{
    if (block->cut) {
        memcpy(block->text + block->len, "...\n", 4);
        block->len += 4;
    }
    bool is_json = atomic_load_explicit(&log_json, memory_order_relaxed);
    if (block->len > 0 && !(is_json ? send_block_as_json(block) : send_block_as_text(block))) {
        count_lost(1);
        atomic_fetch_add_explicit(&unwritten_lines, 1, memory_order_relaxed);
    }
    log_block_init(block);
}
