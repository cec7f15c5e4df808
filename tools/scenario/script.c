/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include "arrow.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 20000u /* of a file, and of a scenario */
#define REPEATS_MAX 10000u
#define DEPTH_MAX 8u /* of definitions and repetitions in each other */
#define DEFINITIONS_MAX 64u
#define COLUMNS_MAX 16u
#define VARIABLES_MAX (COLUMNS_MAX + 10u + DEPTH_MAX) /* cells, words, and {n} of repetitions */
#define FILE_MAX (4u << 20)

struct source_line {
    int number;
    unsigned indent;
    char *text;
};

struct lines {
    struct source_line *at;
    size_t count;
};

struct variable {
    const char *name, *value;
};

struct variables {
    size_t count;
    struct variable at[VARIABLES_MAX];
};

struct definition {
    const char *name;
    struct lines body;
};

struct reader {
    struct script *script;
    const char *path;
    const char *error;
    struct lines lines;
    size_t definition_count;
    struct definition definitions[DEFINITIONS_MAX];
    size_t out_count;
    struct script_line *out; /* of the scenario that is being made: LINES_MAX */
};

static bool script_fail(struct reader *reader, int number, const char *why)
{
    if (reader->error == NULL) {
        reader->error = pool_format(&reader->script->pool, "%s:%d: %s", reader->path, number, why);
    }
    return false;
}

/* --- lines --------------------------------------------------------------- */

/* Where a line's text ends: before a "#" that begins it or follows a blank, and is in no quotes. */
static size_t text_end(const char *line, size_t len)
{
    bool is_quoted = false;
    size_t end = len;
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\\' && is_quoted) {
            i++;
        } else if (line[i] == '"') {
            is_quoted = !is_quoted;
        } else if (line[i] == '#' && !is_quoted && (i == 0 || line[i - 1] == ' ')) {
            end = i;
            break;
        }
    }
    while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\r' || line[end - 1] == '\t')) {
        end--;
    }
    return end;
}

static bool read_lines(struct reader *reader, const char *text, size_t len)
{
    struct pool *pool = &reader->script->pool;
    int number = 0;
    reader->lines.at = pool_alloc(pool, LINES_MAX * sizeof(*reader->lines.at));
    for (size_t at = 0; at < len;) {
        const char *newline = memchr(text + at, '\n', len - at);
        size_t line_len = newline != NULL ? (size_t)(newline - text) - at : len - at;
        size_t end = text_end(text + at, line_len), indent = 0;
        number++;
        while (indent < end && text[at + indent] == ' ') {
            indent++;
        }
        if (memchr(text + at, '\t', end) != NULL) {
            return script_fail(reader, number, "a tab: blanks only");
        }
        if (indent < end) {
            if (reader->lines.count == LINES_MAX) {
                return script_fail(reader, number, "too many lines");
            }
            reader->lines.at[reader->lines.count++] = (struct source_line){
                number, (unsigned)indent, pool_text(pool, text + at + indent, end - indent)};
        }
        at += line_len + 1;
    }
    return true;
}

/* The lines behind @p at that are indented further than it. */
static struct lines block_of(struct lines lines, size_t at)
{
    size_t count = 0;
    while (at + 1 + count < lines.count && lines.at[at + 1 + count].indent > lines.at[at].indent) {
        count++;
    }
    return (struct lines){lines.at + at + 1, count};
}

size_t script_split(struct pool *pool, const char *text, char **words, size_t max)
{
    size_t count = 0;
    while (*text != '\0') {
        size_t len = 0;
        bool is_quoted = false;
        text += strspn(text, " ");
        if (*text == '\0') {
            break;
        }
        while (text[len] != '\0' && (is_quoted || text[len] != ' ')) {
            if (text[len] == '\\' && is_quoted && text[len + 1] != '\0') {
                len++;
            } else if (text[len] == '"') {
                is_quoted = !is_quoted;
            }
            len++;
        }
        if (is_quoted || count == max) {
            return SIZE_MAX;
        }
        words[count++] = pool_text(pool, text, len);
        text += len;
    }
    return count;
}

bool script_duration(const char *text, unsigned long long *ret_ms)
{
    static const struct {
        const char *unit;
        unsigned long long ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
    char *end;
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].unit) == 0 && errno == 0 && number < 1000000000) {
            *ret_ms = number * units[i].ms;
            return true;
        }
    }
    return false;
}

/* --- variables ------------------------------------------------------------ */

static const char *value_of(const struct variables *variables, const char *name, size_t len)
{
    for (size_t i = variables->count; i-- > 0;) {
        const struct variable *variable = &variables->at[i];
        if (strlen(variable->name) == len && memcmp(variable->name, name, len) == 0) {
            return variable->value;
        }
    }
    return NULL;
}

/* A number, or the name of a number, at *@p at, which moves behind it. */
static bool read_term(const struct variables *variables, const char **at, long long *ret_number)
{
    size_t len = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789");
    bool is_number = len > 0 && strspn(*at, "0123456789") == len;
    const char *value = is_number ? *at : value_of(variables, *at, len);
    if (len == 0 || value == NULL || !isdigit((unsigned char)*value)) {
        return false;
    }
    errno = 0;
    *ret_number = strtoll(value, NULL, 10);
    *at += len;
    return errno == 0 && *ret_number < INT32_MAX;
}

/* {n+1}, {n*16+3:x4}: from left to right; behind ":" the digits it has at least, x for hex. */
static const char *calculate(struct pool *pool, const struct variables *variables, const char *text)
{
    long long number = 0, other = 0;
    if (!isalpha((unsigned char)*text) || !read_term(variables, &text, &number)) {
        return NULL;
    }
    while (*text != '\0' && strchr("+-*/%", *text) != NULL) {
        char sign = *text++;
        if (!read_term(variables, &text, &other) || ((sign == '/' || sign == '%') && other == 0)) {
            return NULL;
        }
        number = sign == '+'   ? number + other
                 : sign == '-' ? number - other
                 : sign == '*' ? number * other
                 : sign == '/' ? number / other
                               : number % other;
        if (number < INT32_MIN || number > INT32_MAX) {
            return NULL;
        }
    }
    bool is_hex = text[0] == ':' && text[1] == 'x';
    const char *digits = text + (*text == ':') + is_hex;
    int least = *text == ':' && digits[0] >= '1' && digits[0] <= '8' ? digits[0] - '0' : 0;
    if (digits[least > 0] != '\0' || (*text == ':' && least == 0)) {
        return NULL;
    }
    return is_hex ? pool_format(pool, "%0*llx", least, (unsigned long long)number & UINT32_MAX)
                  : pool_format(pool, "%0*lld", least, number);
}

static const char *value_of_braces(struct pool *pool, const struct variables *variables,
                                   const char *inner, size_t len)
{
    const char *value = value_of(variables, inner, len);
    return value != NULL ? value : calculate(pool, variables, pool_text(pool, inner, len));
}

/* @p text with each {name} that is known replaced; others stay, for the player. */
static char *with_values(struct reader *reader, const struct variables *variables, const char *text)
{
    struct pool *pool = &reader->script->pool;
    char *done = pool_text(pool, "", 0);
    while (*text != '\0') {
        const char *open = strchr(text, '{');
        const char *close = open != NULL ? strchr(open, '}') : NULL;
        if (close == NULL) {
            return pool_format(pool, "%s%s", done, text);
        }
        const char *value = value_of_braces(pool, variables, open + 1, (size_t)(close - open) - 1);
        if (value != NULL) {
            done = pool_format(pool, "%s%.*s%s", done, (int)(open - text), text, value);
        } else {
            done = pool_format(pool, "%s%.*s", done, (int)(close + 1 - text), text);
        }
        text = close + 1;
    }
    return done;
}

static void add_variable(struct variables *variables, const char *name, const char *value)
{
    if (variables->count < VARIABLES_MAX) {
        variables->at[variables->count++] = (struct variable){name, value};
    }
}

/* --- expansion ------------------------------------------------------------ */

static bool expand(struct reader *reader, struct lines lines, const struct variables *variables,
                   unsigned depth);

static bool starts_with_word(const char *text, const char *word)
{
    size_t len = strlen(word);
    return strncmp(text, word, len) == 0 && (text[len] == ' ' || text[len] == '\0');
}

static const struct definition *find_definition(const struct reader *reader, const char *text)
{
    for (size_t i = reader->definition_count; i-- > 0;) {
        if (starts_with_word(text, reader->definitions[i].name)) {
            return &reader->definitions[i];
        }
    }
    return NULL;
}

static bool define(struct reader *reader, const struct source_line *line, struct lines body)
{
    if (reader->definition_count == DEFINITIONS_MAX || body.count == 0) {
        return script_fail(reader, line->number, "a definition without lines, or one too many");
    }
    const char *name = line->text + strlen("define ");
    reader->definitions[reader->definition_count++] =
        (struct definition){name + strspn(name, " "), body};
    return true;
}

/* {} is all behind the name, {1} and so on its words; cells of the row hold there, too. */
/* No deeper than DEPTH_MAX. NOLINTNEXTLINE(misc-no-recursion) */
static bool expand_definition(struct reader *reader, const struct definition *definition,
                              int number, const char *text, const struct variables *outer,
                              unsigned depth)
{
    static const char *const names[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    const char *rest = text + strlen(definition->name);
    struct variables variables = {0};
    char *words[9];
    rest += strspn(rest, " ");
    for (size_t i = 0; i < outer->count; i++) {
        const struct variable *cell = &outer->at[i];
        if (isalpha((unsigned char)cell->name[0])) {
            add_variable(&variables, cell->name, cell->value);
        }
    }
    add_variable(&variables, "", rest);
    size_t count = script_split(&reader->script->pool, rest, words, 9);
    for (size_t i = 0; count != SIZE_MAX && i < 9; i++) {
        add_variable(&variables, names[i], i < count ? words[i] : "");
    }
    size_t before = reader->out_count;
    if (!expand(reader, definition->body, &variables, depth + 1)) {
        return false;
    }
    for (size_t i = before; i < reader->out_count; i++) {
        reader->out[i].number = number; /* what fails is shown where it is used */
    }
    return true;
}

/* No deeper than DEPTH_MAX. NOLINTNEXTLINE(misc-no-recursion) */
static bool expand_repeat(struct reader *reader, const struct source_line *line, const char *text,
                          struct lines body, const struct variables *variables, unsigned depth)
{
    char *end;
    unsigned long first = 1, last = strtoul(text + strlen("repeat"), &end, 10);
    if (strncmp(end, "..", 2) == 0) {
        first = last;
        last = strtoul(end + 2, &end, 10);
    }
    const char *name = *end == ' ' ? end + 1 : "n";
    if ((*end != ' ' && *end != '\0') ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz") != strlen(name) || last < first ||
        last - first >= REPEATS_MAX || last >= INT32_MAX || body.count == 0) {
        return script_fail(reader, line->number,
                           "\"repeat N\" or \"repeat A..B NAME\" with lines below it was expected");
    }
    for (unsigned long i = first; i <= last; i++) {
        struct variables inner = *variables;
        add_variable(&inner, name, pool_format(&reader->script->pool, "%lu", i));
        if (!expand(reader, body, &inner, depth + 1)) {
            return false;
        }
    }
    return true;
}

/* A line for the player, or those that its arrows mean. */
static bool add_lines(struct reader *reader, int number, const char *text)
{
    const char *parts[ARROW_PARTS_MAX], *why = NULL;
    size_t count = arrow_lines(&reader->script->pool, text, parts, &why);
    if (count == 0) {
        return script_fail(reader, number, why);
    }
    for (size_t i = 0; i < count; i++) {
        if (reader->out_count == LINES_MAX) {
            return script_fail(reader, number, "too many lines in a scenario");
        }
        reader->out[reader->out_count++] = (struct script_line){number, parts[i]};
    }
    return true;
}

/* No deeper than DEPTH_MAX. NOLINTNEXTLINE(misc-no-recursion) */
static bool expand_line(struct reader *reader, const struct source_line *line, struct lines body,
                        const struct variables *variables, unsigned depth)
{
    char *text = with_values(reader, variables, line->text);
    const struct definition *definition = find_definition(reader, text);
    if (starts_with_word(text, "define")) {
        return define(reader, line, body);
    }
    if (starts_with_word(text, "repeat")) {
        return expand_repeat(reader, line, text, body, variables, depth);
    }
    if (body.count > 0) {
        return script_fail(reader, body.at[0].number, "indented below a line that has no block");
    }
    if (definition != NULL) {
        return expand_definition(reader, definition, line->number, text, variables, depth);
    }
    return add_lines(reader, line->number, text);
}

/* No deeper than DEPTH_MAX. NOLINTNEXTLINE(misc-no-recursion) */
static bool expand(struct reader *reader, struct lines lines, const struct variables *variables,
                   unsigned depth)
{
    if (depth > DEPTH_MAX) {
        return script_fail(reader, lines.at[0].number, "definitions too deep in each other");
    }
    for (size_t i = 0; i < lines.count; i++) {
        struct lines body = block_of(lines, i);
        if (!expand_line(reader, &lines.at[i], body, variables, depth)) {
            return false;
        }
        i += body.count;
    }
    return true;
}

/* --- scenarios ------------------------------------------------------------ */

/* Cells of a row, between bars that stand between blanks. */
static size_t split_cells(struct reader *reader, const char *text, const char **cells)
{
    size_t count = 0;
    for (;;) {
        const char *bar = strstr(text, " | ");
        size_t len = bar != NULL ? (size_t)(bar - text) : strlen(text);
        bool ends_with_bar = bar == NULL && len >= 2 && strcmp(text + len - 2, " |") == 0;
        if (ends_with_bar) { /* the last cell is empty */
            len -= 2;
        }
        const char *from = text + strspn(text, " ");
        size_t used = (size_t)(from - text) < len ? len - (size_t)(from - text) : 0;
        while (used > 0 && from[used - 1] == ' ') {
            used--;
        }
        if (count == COLUMNS_MAX) {
            return SIZE_MAX;
        }
        cells[count++] = pool_text(&reader->script->pool, from, used);
        if (ends_with_bar && count < COLUMNS_MAX) {
            cells[count++] = "";
        }
        if (bar == NULL) {
            return count;
        }
        text = bar + 2; /* its last blank begins the next cell, which may be empty */
    }
}

/* Requirements look like CACHE-14. */
static size_t id_len(const char *title)
{
    size_t len = strspn(title, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    if (len == 0 || title[len] != '-') {
        return 0;
    }
    size_t digits = strspn(title + len + 1, "0123456789");
    return digits > 0 ? len + 1 + digits : 0;
}

static bool add_scenario(struct reader *reader, const struct source_line *title,
                         struct lines shared, struct lines lines, const struct variables *variables,
                         unsigned row)
{
    struct script *script = reader->script;
    size_t definitions = reader->definition_count;
    const char *text = with_values(reader, variables, title->text + 1);
    reader->out_count = 0;
    if (!expand(reader, shared, &(struct variables){0}, 0) ||
        !expand(reader, lines, variables, 0)) {
        return false;
    }
    reader->definition_count = definitions;
    text += strspn(text, " ");
    int len = (int)id_len(text);
    struct script_scenario *scenario = &script->scenarios[script->count++];
    *scenario = (struct script_scenario){
        .file = reader->path,
        .title = text,
        .id = row > 0 && len > 0 ? pool_format(&script->pool, "%.*s.%u", len, text, row)
                                 : pool_text(&script->pool, text, (size_t)len),
        .number = title->number,
        .count = reader->out_count,
        .lines = pool_alloc(&script->pool, (reader->out_count + 1) * sizeof(*reader->out)),
    };
    memcpy(scenario->lines, reader->out, reader->out_count * sizeof(*reader->out));
    return true;
}

static bool add_rows(struct reader *reader, const struct source_line *title, struct lines shared,
                     struct lines lines, size_t where)
{
    const char *names[COLUMNS_MAX], *cells[COLUMNS_MAX];
    struct lines rows = block_of(lines, where);
    size_t columns = split_cells(reader, lines.at[where].text + strlen("where"), names);
    if (columns == SIZE_MAX || rows.count == 0 || where + 1 + rows.count != lines.count) {
        return script_fail(reader, lines.at[where].number,
                           "\"where NAME | NAME\" with rows below it ends a scenario");
    }
    for (size_t i = 0; i < rows.count; i++) {
        struct variables variables = {0};
        if (split_cells(reader, rows.at[i].text, cells) != columns) {
            return script_fail(reader, rows.at[i].number, "not as many cells as columns");
        }
        for (size_t j = 0; j < columns; j++) {
            add_variable(&variables, names[j], cells[j]);
        }
        struct source_line head = *title;
        head.number = rows.at[i].number;
        if (!add_scenario(reader, &head, shared, (struct lines){lines.at, where}, &variables,
                          (unsigned)i + 1)) {
            return false;
        }
    }
    return true;
}

static bool add_one(struct reader *reader, struct lines shared, size_t from, size_t to)
{
    struct lines lines = {reader->lines.at + from + 1, to - from - 1};
    const struct source_line *title = &reader->lines.at[from];
    for (size_t i = 0; i < lines.count; i++) {
        if (lines.at[i].indent == 0 && starts_with_word(lines.at[i].text, "where")) {
            return add_rows(reader, title, shared, lines, i);
        }
    }
    return add_scenario(reader, title, shared, lines, &(struct variables){0}, 0);
}

static size_t next_title(const struct lines *lines, size_t from)
{
    while (from < lines->count &&
           !(lines->at[from].indent == 0 && starts_with_word(lines->at[from].text, "="))) {
        from++;
    }
    return from;
}

static bool make_scenarios(struct reader *reader)
{
    struct lines shared = {reader->lines.at, next_title(&reader->lines, 0)};
    struct pool *pool = &reader->script->pool;
    reader->out = pool_alloc(pool, LINES_MAX * sizeof(*reader->out));
    reader->script->scenarios =
        pool_alloc(pool, (reader->lines.count + 1) * sizeof(*reader->script->scenarios));
    for (size_t from = shared.count; from < reader->lines.count;) {
        size_t to = next_title(&reader->lines, from + 1);
        if (!add_one(reader, shared, from, to)) {
            return false;
        }
        from = to;
    }
    return reader->script->count > 0 || script_fail(reader, 1, "no scenario: a line \"= title\"");
}

bool script_load(struct script *script, const char *path, const char **ret_error)
{
    *script = (struct script){0};
    struct reader reader = {.script = script, .path = path};
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        *ret_error = pool_format(&script->pool, "%s: %s", path, strerror(errno));
        return false;
    }
    char *text = pool_alloc(&script->pool, FILE_MAX);
    size_t len = fread(text, 1, FILE_MAX, file);
    (void)fclose(file);
    reader.path = pool_text(&script->pool, path, strlen(path));
    bool is_good = read_lines(&reader, text, len) && make_scenarios(&reader);
    *ret_error = reader.error;
    return is_good;
}

void script_clear(struct script *script)
{
    pool_clear(&script->pool);
}
