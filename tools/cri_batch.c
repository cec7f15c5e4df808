/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inputs in, result lines out.
 *
 * Standard input is read with read() into one growing buffer. Output is flushed
 * just before each read(): a partner that writes one line and waits gets its
 * answer, and a bulk run still writes in large pieces.
 */
#include "cri_tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES ((size_t)65536)

/* Lines of a file descriptor, of any length. */
struct lines {
    struct buffer buffer;
    size_t start;   /* of the line not yet given out */
    size_t scanned; /* no line end before this */
    bool is_at_end;
};

/* One read(). False at the end of the input or on an error, which is reported. */
static bool lines_fill(struct lines *lines, bool *ret_failed)
{
    if (lines->start > 0) {
        const size_t rest = lines->buffer.len - lines->start;
        memmove(lines->buffer.data, lines->buffer.data + lines->start, rest);
        lines->buffer.len = rest;
        lines->scanned -= lines->start;
        lines->start = 0;
    }
    buffer_reserve(&lines->buffer, lines->buffer.len + READ_BYTES);
    (void)fflush(stdout); /* a lasting failure shows at the end */
    ssize_t got = 0;
    do {
        got = read(STDIN_FILENO, lines->buffer.data + lines->buffer.len,
                   lines->buffer.capacity - lines->buffer.len);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        (void)fprintf(stderr, "cri: standard input: %s\n", strerror(errno));
        *ret_failed = true;
    }
    if (got <= 0) {
        lines->is_at_end = true;
        return false;
    }
    lines->buffer.len += (size_t)got;
    return true;
}

/* Next line without its end; a last line may lack one. */
static bool lines_next(struct lines *lines, struct cri_slice *ret_line, bool *ret_failed)
{
    for (;;) {
        const size_t unscanned = lines->buffer.len - lines->scanned;
        const uint8_t *end =
            unscanned > 0 ? memchr(lines->buffer.data + lines->scanned, '\n', unscanned) : NULL;
        if (end != NULL) {
            const size_t stop = (size_t)(end - lines->buffer.data);
            *ret_line = (struct cri_slice){lines->buffer.data + lines->start, stop - lines->start};
            lines->start = stop + 1;
            lines->scanned = stop + 1;
            return true;
        }
        lines->scanned = lines->buffer.len;
        if (!lines->is_at_end && lines_fill(lines, ret_failed)) {
            continue;
        }
        if (lines->start == lines->buffer.len) {
            return false;
        }
        *ret_line =
            (struct cri_slice){lines->buffer.data + lines->start, lines->buffer.len - lines->start};
        lines->start = lines->buffer.len;
        return true;
    }
}

/* Runs one input and writes its line. */
static bool run_one(struct tool *tool, const struct command *command, struct cri_slice input)
{
    tool->result.len = 0;
    tool->is_raw_result = false;
    tool->is_json_result = false;
    return print_result(tool, command->run(tool, input));
}

static bool run_stdin(struct tool *tool, const struct command *command)
{
    struct lines lines = {0};
    struct cri_slice line = {0};
    bool has_failed = false;
    bool is_ok = true;
    tool->is_raw_input = tool->is_binary && command->is_binary_input;
    while (tool->is_raw_input && lines_fill(&lines, &has_failed)) {
        /* All of it is one input. */
    }
    if (tool->is_raw_input) {
        is_ok = run_one(tool, command, buffer_slice(&lines.buffer));
        lines.start = lines.buffer.len;
        lines.scanned = lines.buffer.len;
        tool->is_raw_input = false;
    }
    while (lines_next(&lines, &line, &has_failed)) {
        if (line.len > 0 && line.data[line.len - 1] == '\r') {
            line.len--; /* CRLF */
        }
        is_ok = run_one(tool, command, line) && is_ok;
    }
    buffer_free(&lines.buffer);
    return is_ok && !has_failed;
}

static bool is_dash(const char *argument)
{
    return strcmp(argument, "-") == 0;
}

/* Two arguments make one input: joined as they would stand on one line. */
static bool run_pair(struct tool *tool, const struct command *command, char **arguments)
{
    struct buffer joined = {0};
    buffer_append_text(&joined, arguments[0]);
    buffer_append_text(&joined, " ");
    buffer_append_text(&joined, arguments[1]);
    const bool is_ok = run_one(tool, command, buffer_slice(&joined));
    buffer_free(&joined);
    return is_ok;
}

int run_inputs(struct tool *tool, const struct command *command, char **arguments, int count)
{
    bool is_ok = true;
    if (count == 0) {
        is_ok = run_stdin(tool, command);
    }
    for (int i = 0; i < count; i++) {
        if (is_dash(arguments[i])) {
            is_ok = run_stdin(tool, command) && is_ok;
        } else if (command->fields == 2) {
            if (i + 1 == count) {
                (void)fprintf(stderr, "cri %s: an argument is missing: %s\n", command->name,
                              command->arguments);
                return EXIT_USAGE;
            }
            is_ok = run_pair(tool, command, &arguments[i++]) && is_ok;
        } else {
            const struct cri_slice input = {(const uint8_t *)arguments[i], strlen(arguments[i])};
            is_ok = run_one(tool, command, input) && is_ok;
        }
    }
    return is_ok ? EXIT_SUCCESS : EXIT_INPUT;
}
