/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inih splits lines into sections, keys and values. How it treats the rest depends on how it was
 * built, and some of it is silent: Debian's cuts lines after 199 bytes and section names after 49,
 * takes an indented line for a continuation of the value above, ignores what follows "]", and keeps
 * only the first error's line. So this file checks every line first, and gives inih only lines that
 * every build reads in the same way: no indentation, no comments, no surprises in length.
 *
 * The format that comes out of it is the same with every inih:
 *   - blanks around everything are dropped; a value ends with its line;
 *   - a comment starts with ; or #, at the start of a line or after a blank;
 *   - there are no quotes and no escapes.
 */
#include "conf/loader.h"

#include <ini.h>
#include <string.h>

/* Returned by inih when it cannot allocate its line buffer. */
#define INI_NO_MEMORY (-2)

struct reader {
    struct loader *loader;
    const char *text; /* what is left */
    size_t left;
    bool in_section;        /* a good one: its keys go to inih */
    bool skipping;          /* after a bad section line: its keys are ignored */
    struct section section; /* the current one */
};

struct text {
    const char *data;
    size_t len;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct text trim(struct text text)
{
    while (text.len > 0 && is_blank(text.data[0])) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && is_blank(text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

/* The next line, without its newline. */
static struct text next_line(struct reader *reader)
{
    const char *newline = memchr(reader->text, '\n', reader->left);
    size_t len = newline == NULL ? reader->left : (size_t)(newline - reader->text);
    struct text line = {.data = reader->text, .len = len};
    size_t taken = newline == NULL ? len : len + 1;

    reader->text += taken;
    reader->left -= taken;
    reader->loader->here.line++;
    return line;
}

static struct text without_comment(struct text line)
{
    for (size_t i = 0; i < line.len; i++) {
        bool starts = line.data[i] == ';' || line.data[i] == '#';
        if (starts && (i == 0 || is_blank(line.data[i - 1]))) {
            line.len = i;
            break;
        }
    }
    return trim(line);
}

static bool has_control_byte(struct text line)
{
    for (size_t i = 0; i < line.len; i++) {
        unsigned char c = (unsigned char)line.data[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return true;
        }
    }
    return false;
}

/* A key before an equals sign: a to z, digits, dashes. */
static bool has_key(struct text line)
{
    size_t at = 0;

    while (at < line.len && ((line.data[at] >= 'a' && line.data[at] <= 'z') ||
                             (line.data[at] >= '0' && line.data[at] <= '9') ||
                             line.data[at] == '-' || line.data[at] == '_')) {
        at++;
    }
    size_t key_len = at;
    while (at < line.len && is_blank(line.data[at])) {
        at++;
    }
    return key_len > 0 && at < line.len && line.data[at] == '=';
}

static void report(struct reader *reader, const char *message, struct text line)
{
    char got[GOT_MAX];

    loader_error(reader->loader, &reader->loader->here, NULL, NULL, "%s, got %s", message,
                 got_text(got, line.data, line.len));
}

/* "[...]"; false where it is not to reach inih. */
static bool take_section_line(struct reader *reader, struct text line)
{
    reader->in_section = false;
    reader->skipping = true;
    if (line.data[line.len - 1] != ']' || line.len < 3) {
        report(reader, "expected [SECTION] on a line of its own", line);
        return false;
    }
    if (line.len - 2 >= CONFIG_SECTION_MAX) {
        report(reader, "section name too long", line);
        return false;
    }
    section_parse(reader->loader, line.data + 1, line.len - 2, &reader->section);
    if (reader->section.kind == SECTION_UNKNOWN) {
        return false;
    }
    reader->in_section = true;
    reader->skipping = false;
    return true;
}

/* Whether a line, without comment and blanks around it, is for inih; reports its errors. */
static bool read_take_line(struct reader *reader, struct text line, size_t max_len)
{
    if (line.len == 0) {
        return false;
    }
    if (has_control_byte(line)) {
        report(reader, "control byte in the line", line);
        return false;
    }
    if (line.data[0] == '[') {
        return take_section_line(reader, line);
    }
    if (reader->skipping) {
        return false;
    }
    if (!has_key(line)) {
        report(reader, "expected [SECTION] or KEY = VALUE", line);
        return false;
    }
    if (line.len > max_len) {
        loader_error(reader->loader, &reader->loader->here, NULL, NULL,
                     "line longer than %zu bytes", max_len);
        return false;
    }
    if (!reader->in_section) {
        report(reader, "expected a [SECTION] before the first key", line);
        return false;
    }
    return true;
}

/* As fgets() would, for inih: its buffer has @p size bytes. */
static char *read_line(char *buffer, int size, void *context)
{
    struct reader *reader = context;

    if (reader->left == 0 || size < CONFIG_SECTION_MAX + 4) {
        return NULL;
    }
    struct text line = without_comment(trim(next_line(reader)));
    if (!read_take_line(reader, line, (size_t)size - 3)) {
        line.len = 0;
    }
    if (line.len > 0) {
        memcpy(buffer, line.data, line.len);
    }
    buffer[line.len] = '\n';
    buffer[line.len + 1] = '\0';
    return buffer;
}

#if INI_HANDLER_LINENO
static int on_pair(void *context, const char *section, const char *key, const char *value,
                   int line_number)
{
    (void)line_number; /* the reader counts */
#else
static int on_pair(void *context, const char *section, const char *key, const char *value)
{
#endif
    struct reader *reader = context;

    (void)section; /* as cut by inih; ours is whole */
    if (key != NULL && reader->in_section) {
        loader_assign(reader->loader, &reader->section, key, value == NULL ? "" : value);
    }
    return 1; /* errors are collected, not the parser's to stop at */
}

void loader_read_text(struct loader *loader, const char *file, const char *text, size_t len)
{
    static const char byte_order_mark[] = {'\xef', '\xbb', '\xbf'};
    struct reader reader = {.loader = loader, .text = text, .left = len};

    if (len >= sizeof(byte_order_mark) &&
        memcmp(text, byte_order_mark, sizeof(byte_order_mark)) == 0) {
        reader.text += sizeof(byte_order_mark);
        reader.left -= sizeof(byte_order_mark);
    }
    loader->here = (struct place){.kind = PLACE_FILE, .line = 0, .file = file};
    size_t errors_before = loader->errors->count;
    int status = ini_parse_stream(read_line, &reader, on_pair, &reader);
    if (status == INI_NO_MEMORY) {
        loader->no_memory = true;
    } else if (status != 0 && loader->errors->count == errors_before) {
        loader->here.line = status > 0 ? (uint32_t)status : 0;
        loader_error(loader, &loader->here, NULL, NULL, "not understood");
    }
}
