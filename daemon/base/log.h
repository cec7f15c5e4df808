/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log: lines of "event key=value ..." (or JSON objects of the same) on
 * standard error, each after the time in UTC, which the journal adds by itself.
 *
 * A line leaves in one write(2) and takes no lock; if standard error cannot take it at once (a full
 * pipe), the line is dropped and counted, so that no worker waits. Lines of one event are limited
 * to LOG_LINES_PER_SECOND; dropped lines are counted in a line of their own.
 *
 * A line never has a payload, a query or a key. A value that may come from outside goes through
 * escape_value() (base/escape.h) first; as a second line of defence this file escapes every control
 * byte of a line.
 */
#ifndef CRIPROXY_LOG_H
#define CRIPROXY_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A longer line is cut, and ends in "...". */
#define LOG_LINE_MAX 2048
#define LOG_LINES_PER_SECOND 20

/* In the order of the words of log.level. */
enum log_level {
    LOG_ERROR,
    LOG_WARNING,
    LOG_INFO,
    LOG_DEBUG,
};

/* For log_is_on() only. */
extern atomic_int log_threshold;

/**
 * Where lines go: @p fd, with the journal's "<6>" before each line where @p fd is
 * the journal ($JOURNAL_STREAM). Call once, before there are threads; without it
 * lines go to standard error.
 */
void log_open(int fd);

/**
 * The prefix of a line on standard error that is no event, for the journal to give it this level:
 * "<3>", or nothing where log_open() has found no journal.
 */
const char *log_prefix(enum log_level level);

/**
 * Append lines to the file at @p path from now on. Called again, after the file was moved
 * away: lines go to a new one there, and none is lost.
 *
 * @return 0, or -errno and lines go where they went before
 */
int log_open_file(const char *path);

/** Sets the level and form. From any thread, at any time; cannot fail. */
void log_set(enum log_level level, bool json);

/** Whether lines of this level are written: ask before costly preparations. */
static inline bool log_is_on(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_threshold, memory_order_relaxed);
}

/**
 * log_event(LOG_INFO, "ready", "workers=%u", n): the event's name, a literal, then
 * its fields, "key=value" with single spaces between them.
 */
#define log_event(level, ...) (log_is_on(level) ? log_write((level), __VA_ARGS__) : (void)0)

/**
 * Writes a line, as log_event() does if the level is on. Never blocks: a line that cannot be
 * written, or is over the limit, is dropped and counted (log_lost_count()).
 */
void log_write(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** As log_write(), without fields; dropped and counted on failure. */
void log_plain(enum log_level level, const char *event);

/**
 * Whether one more line of @p event may be written in this second; it is counted as written. Logs
 * the number of lines that were left out in the second before.
 */
bool log_take(const char *event);

/**
 * A line of the access log: as log_write() at level info, but neither limited nor filtered. Dropped
 * and counted on failure.
 */
void log_access(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Number of lines since the start that failed to be written or were over the limit. */
uint64_t log_lost_count(void);

/* A block of trace lines under way; keep it on the stack. */
struct log_block {
    size_t len;
    bool cut;
    char text[8192];
};

/** Starts an empty block in the caller's struct. */
void log_block_init(struct log_block *block);

/**
 * Adds one line without its newline; the caller indents it with spaces. Lines that do not fit the
 * block are left out, and the block then ends with a line that says so.
 */
void log_block_line(struct log_block *block, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/**
 * Writes the block in one piece, so that blocks of several workers do not mix. Dropped and counted
 * on failure.
 */
void log_block_write(struct log_block *block);

/* Bytes of a time of day as text. */
#define LOG_TIME_MAX 40u

/**
 * The time of day @p ago_us microseconds before now, "2026-11-22T14:03:05.123456Z". Returns @p
 * text, the caller's buffer.
 */
const char *log_time_format(uint64_t ago_us, char text[LOG_TIME_MAX]);

#endif
