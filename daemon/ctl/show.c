/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/show.h"

#include <string.h>

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

size_t show_width(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++) {
        width += is_harmless(*text) ? 1 : 4;
    }
    return width;
}

void show_cut(const char *text, size_t width, FILE *out)
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

void show_item(enum shape shape, const struct json_object *item, FILE *out)
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
