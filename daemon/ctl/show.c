/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/show.h"

#include <stdlib.h>
#include <string.h>

/* ---- items ---- */

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

bool table_add(struct table *table, const struct json_object *item, const char *line, size_t len)
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

void table_clear(struct table *table)
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

bool table_merge(struct table *table, const char *const *keys)
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

bool table_sort(struct table *table, const char *key)
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

void table_print(const struct table *table, size_t most, size_t width, FILE *out)
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
