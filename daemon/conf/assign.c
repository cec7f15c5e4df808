/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/loader.h"
#include "conf/value.h"

#include <assert.h>
#include <glob.h>
#include <stddef.h>
#include <string.h>

/* --- a word that was meant ----------------------------------------------------- */

/* Longer words are not compared. */
#define SUGGEST_WORD_MAX 64

/* The nearest of the words that have been considered. */
struct suggestion {
    const char *typed;
    const char *word; /* NULL: none is near enough */
    unsigned distance;
};

/*
 * The distance is that of optimal string alignment: letters changed, added, left out, and
 * pairs of neighbours swapped. Three rows of the table are enough.
 */

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned distance_between(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][SUGGEST_WORD_MAX + 1];

    for (size_t j = 0; j <= b_len; j++) {
        rows[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        const unsigned *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3];
        unsigned *row = rows[i % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned cost = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = least(above[j - 1] + cost, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], before[j - 2] + 1);
            }
        }
    }
    return rows[a_len % 3][b_len];
}

/* @p typed is borrowed. */
static void suggest_init(struct suggestion *suggestion, const char *typed)
{
    size_t len = strlen(typed);

    *suggestion =
        (struct suggestion){.typed = typed, .distance = (len < 6 ? 1u : (unsigned)(len / 3)) + 1};
}

/*
 * Consider @p word, which is borrowed as long as the suggestion is used. Near enough is one
 * letter in three typed wrong, left out, added or swapped with the next, and one in any case;
 * of words equally near the first is kept.
 */
static void suggest_consider(struct suggestion *suggestion, const char *word)
{
    size_t typed_len = strlen(suggestion->typed), len = strlen(word);

    if (typed_len > SUGGEST_WORD_MAX || len > SUGGEST_WORD_MAX) {
        return;
    }
    unsigned distance = distance_between(suggestion->typed, typed_len, word, len);
    if (distance < suggestion->distance) {
        suggestion->distance = distance;
        suggestion->word = word;
    }
}

static void assign_list_item(struct loader *loader, void *base, const struct config_row *row,
                             const char *section, const char *text, size_t len)
{
    struct config_list list;
    char *field = (char *)base + row->offset;

    memcpy(&list, field, sizeof(list));
    if (list.count == CONFIG_LIST_MAX) {
        loader_error(loader, &loader->here, section, schema_key(row).text, "more than %d values",
                     CONFIG_LIST_MAX);
        return;
    }
    const char **items =
        arena_alloc(loader->config->arena, (list.count + 1) * sizeof(const char *));
    char *copy = arena_text(loader->config->arena, text, len);
    if (items == NULL || copy == NULL) {
        loader->no_memory = true;
        return;
    }
    if (list.count > 0) {
        memcpy(items, list.items, list.count * sizeof(const char *));
    }
    items[list.count] = copy;
    list.items = items;
    list.count++;
    memcpy(field, &list, sizeof(list));
}

static void assign_text(struct loader *loader, void *base, const struct config_row *row,
                        const char *text)
{
    const char *copy = arena_text(loader->config->arena, text, strlen(text));

    if (copy == NULL) {
        loader->no_memory = true;
        return;
    }
    memcpy((char *)base + row->offset, &copy, sizeof(copy));
}

static void preset_text(struct loader *loader, void *base, const struct config_row *row)
{
    assign_text(loader, base, row, strcmp(row->preset, CONFIG_NO_DEFAULT) == 0 ? "" : row->preset);
}

static void preset_list(struct loader *loader, void *base, const struct config_row *row)
{
    const char *at = strcmp(row->preset, CONFIG_NO_DEFAULT) == 0 ? "" : row->preset;

    while (*at != '\0') {
        size_t len = strcspn(at, " ");
        assign_list_item(loader, base, row, row->section, at, len);
        at += len + strspn(at + len, " ");
    }
}

static void preset_scalar(void *base, const struct config_row *row)
{
    uint64_t value = SCHEME_NUMBER_NONE;

    if (strcmp(row->preset, CONFIG_NO_DEFAULT) != 0) {
        bool valid = value_parse(row, row->preset, &value);
        assert(valid); /* a unit test goes through the rows */
        (void)valid;
    }
    value_store(base, row, value);
}

void loader_preset_row(struct loader *loader, void *base, const struct config_row *row)
{
    if (row->type == CONFIG_TYPE_LIST) {
        preset_list(loader, base, row);
    } else if (row->type == CONFIG_TYPE_TEXT) {
        preset_text(loader, base, row);
    } else {
        preset_scalar(base, row);
    }
}

#define BUILTIN_SCHEMES_END 32u /* the registry's numbers of CoAP and HTTP are below */

/* The schemes that are there without any configuration: one for each transport. */
static void preset_scheme(struct loader *loader, uint32_t number)
{
    const struct cri_scheme *known = cri_scheme_by_number(NULL, number);
    enum transport transport = transport_by_number(number);

    if (known == NULL || transport == TRANSPORT_NONE) {
        return;
    }
    struct named_draft *draft = named_add(loader, CONFIG_NAMED_SCHEME, known->name);
    if (draft != NULL) {
        struct scheme *scheme = draft->row;
        /* Targets that this build cannot reach are answered like those of unknown schemes. */
        bool is_reachable = transport_left_out(transport) == NULL;
        scheme->transport = is_reachable ? transport : TRANSPORT_NONE;
    }
}

void loader_preset(struct loader *loader)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        loader_preset_row(loader, loader->config, &config_rows[i]);
    }
    for (uint32_t number = 0; number < BUILTIN_SCHEMES_END; number++) {
        preset_scheme(loader, number);
    }
}

void loader_size(struct loader *loader)
{
    enum config_proxy_size size = loader->config->proxy_size;

    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        struct config_row row = config_rows[i];
        row.preset = schema_preset(&config_rows[i], size);
        if (row.preset != config_rows[i].preset && loader->set_at[i].kind == PLACE_PRESET) {
            loader_preset_row(loader, loader->config, &row);
        }
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* "proxy, listen, ..., include, scheme NAME or access NAME" */
static void list_sections(char *text, size_t capacity)
{
    const char *last = "";
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < CONFIG_ROW_COUNT && used < capacity; i++) {
        if (strcmp(config_rows[i].section, last) != 0) {
            last = config_rows[i].section;
            used += (size_t)snprintf(text + used, capacity - used, "%s, ", last);
        }
    }
    for (size_t i = 0; i < CONFIG_NAMED_COUNT && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%s NAME",
                                 i == 0                        ? "include, "
                                 : i + 1 == CONFIG_NAMED_COUNT ? " or "
                                                               : ", ",
                                 config_named_kinds[i].word);
    }
}

/* The kind whose word and a blank @p text begins with; CONFIG_NAMED_COUNT for none. */
static enum config_named kind_of(const char *text, size_t len, size_t *ret_skip)
{
    for (size_t i = 0; i < CONFIG_NAMED_COUNT; i++) {
        size_t word_len = strlen(config_named_kinds[i].word);
        if (len > word_len && memcmp(text, config_named_kinds[i].word, word_len) == 0 &&
            is_space(text[word_len])) {
            size_t skip = word_len;
            while (skip < len && is_space(text[skip])) {
                skip++;
            }
            *ret_skip = skip;
            return (enum config_named)i;
        }
    }
    *ret_skip = 0;
    return CONFIG_NAMED_COUNT;
}

/* The rows of a section of options.def, which are together; NULL and 0 for another. */
static const struct config_row *schema_section(const char *section, size_t *ret_count)
{
    const struct config_row *first = NULL;
    size_t count = 0;

    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        if (strcmp(config_rows[i].section, section) == 0) {
            first = first == NULL ? &config_rows[i] : first;
            count = (size_t)(&config_rows[i] - first) + 1;
        }
    }
    *ret_count = count;
    return first;
}

/* From a section's text, without blanks around it; UNKNOWN if it is no section. */
static void parse_trimmed(const char *text, size_t len, struct section *section)
{
    size_t skip = 0, row_count = 0;

    *section = (struct section){.kind = SECTION_UNKNOWN, .named = kind_of(text, len, &skip)};
    if (len - skip >= sizeof(section->name)) {
        return;
    }
    memcpy(section->name, text + skip, len - skip);
    if (section->named != CONFIG_NAMED_COUNT) {
        if (named_take_name(section->named, section->name)) {
            section->kind = SECTION_NAMED;
        }
    } else if (strcmp(section->name, "include") == 0) {
        section->kind = SECTION_INCLUDE;
    } else if (schema_section(section->name, &row_count) != NULL) {
        section->kind = SECTION_PLAIN;
    }
}

/* "; did you mean [SECTION]?", or nothing. */
static const char *section_meant(const char *text, size_t len, char *buffer, size_t capacity)
{
    char typed[CONFIG_SECTION_MAX];
    struct suggestion meant;
    size_t word_len = 0;
    bool is_named = false;

    while (word_len < len && !is_space(text[word_len])) {
        word_len++;
    }
    if (word_len >= sizeof(typed)) {
        return "";
    }
    memcpy(typed, text, word_len);
    typed[word_len] = '\0';
    suggest_init(&meant, typed);
    if (word_len == len) {
        for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
            suggest_consider(&meant, config_rows[i].section);
        }
        suggest_consider(&meant, "include");
    }
    for (size_t i = 0; i < CONFIG_NAMED_COUNT; i++) {
        const char *before = meant.word;
        suggest_consider(&meant, config_named_kinds[i].word);
        is_named = is_named || meant.word != before;
    }
    if (meant.word == NULL || (meant.distance == 0 && word_len < len)) {
        return "";
    }
    (void)snprintf(buffer, capacity, "; did you mean [%s%s]?", meant.word, is_named ? " NAME" : "");
    return buffer;
}

void section_parse(struct loader *loader, const char *text, size_t len, struct section *ret_section)
{
    char got[GOT_MAX];
    char expected[320];
    char meant[CONFIG_SECTION_MAX + 32];

    while (len > 0 && is_space(text[0])) {
        text++;
        len--;
    }
    while (len > 0 && is_space(text[len - 1])) {
        len--;
    }
    parse_trimmed(text, len, ret_section);
    if (ret_section->kind == SECTION_UNKNOWN) {
        list_sections(expected, sizeof(expected));
        loader_error(loader, &loader->here, NULL, NULL, "expected the section %s, got %s%s",
                     expected, got_text(got, text, len),
                     section_meant(text, len, meant, sizeof(meant)));
    }
}

/* Set here and earlier in the same file, which is a slip of the pen for a key with one value. */
static bool is_repeated(const struct loader *loader, const struct place *before)
{
    return before->kind == PLACE_FILE && loader->here.kind == PLACE_FILE &&
           before->file == loader->here.file;
}

/* Whether a key with one value may be set here; notes that it has been. */
static bool take_place(struct loader *loader, const struct config_row *row, struct place *set_at,
                       const char *section)
{
    if (is_repeated(loader, set_at)) {
        loader_error(loader, &loader->here, section, schema_key(row).text,
                     "set twice in this file, before in line %u", set_at->line);
        return false;
    }
    *set_at = loader->here;
    return true;
}

/* The value of a scalar into @p base; @p section is for messages. */
static void assign_scalar(struct loader *loader, void *base, const struct config_row *row,
                          struct place *set_at, const char *section, const char *value)
{
    char got[GOT_MAX];
    char expected[VALUE_TEXT_MAX];
    uint64_t number = 0;

    if (!take_place(loader, row, set_at, section)) {
        return;
    }
    if (!value_parse(row, value, &number)) {
        loader_error(loader, &loader->here, section, schema_key(row).text, "expected %s, got %s",
                     value_expected(row, expected), got_text(got, value, strlen(value)));
        return;
    }
    value_store(base, row, number);
}

/* Any section that has the key, or NULL. */
static const char *section_with(const char *key)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        if (strcmp(schema_key(&config_rows[i]).text, key) == 0) {
            return config_rows[i].section;
        }
    }
    return NULL;
}

/* "; it has a, b, c": what can be set in a section that has few keys, else nothing. */
static void few_keys(char *hint, size_t size, const struct config_row *rows, size_t row_count)
{
    size_t len = 0;

    for (size_t i = 0; i < row_count; i++) {
        int more = snprintf(hint + len, size - len, "%s%s", i == 0 ? "; it has " : ", ",
                            schema_key(&rows[i]).text);
        if (more < 0 || (size_t)more >= size - len) {
            hint[0] = '\0';
            return;
        }
        len += (size_t)more;
    }
}

void loader_unknown_key(struct loader *loader, const char *section, const char *key,
                        const struct config_row *rows, size_t row_count)
{
    char got[GOT_MAX], hint[160] = "";
    struct config_key names[CONFIG_ROW_COUNT];
    struct suggestion meant;

    suggest_init(&meant, key);
    for (size_t i = 0; i < row_count && i < CONFIG_ROW_COUNT; i++) {
        names[i] = schema_key(&rows[i]);
        suggest_consider(&meant, names[i].text);
    }
    const char *other = section_with(key);
    if (other != NULL) {
        (void)snprintf(hint, sizeof(hint), "; [%s] has it", other);
    } else if (meant.word != NULL) {
        (void)snprintf(hint, sizeof(hint), "; did you mean %s?", meant.word);
    } else {
        few_keys(hint, sizeof(hint), rows, row_count);
    }
    loader_error(loader, &loader->here, section, NULL, "no such key: %s%s",
                 got_text(got, key, strlen(key)), hint);
}

void loader_assign_row(struct loader *loader, void *base, const struct config_row *row,
                       struct place *set_at, const char *section, const char *value)
{
    if (row->type == CONFIG_TYPE_TEXT) {
        if (take_place(loader, row, set_at, section)) {
            assign_text(loader, base, row, value);
        }
        return;
    }
    if (row->type != CONFIG_TYPE_LIST) {
        assign_scalar(loader, base, row, set_at, section, value);
        return;
    }
    /* The first value from each place replaces those of an earlier place. */
    if (set_at->kind != loader->here.kind || set_at->file != loader->here.file) {
        static const struct config_list none = {0};
        memcpy((char *)base + row->offset, &none, sizeof(none));
    }
    *set_at = loader->here;
    assign_list_item(loader, base, row, section, value, strlen(value));
}

static void assign_plain_key(struct loader *loader, const char *section, const char *key,
                             const char *value)
{
    const struct config_row *row = schema_find(section, key);

    if (row == NULL) {
        size_t count = 0;
        const struct config_row *rows = schema_section(section, &count);
        loader_unknown_key(loader, section, key, rows, count);
        return;
    }
    loader_assign_row(loader, loader->config, row, &loader->set_at[row - config_rows], section,
                      value);
}

/* Relative names start at the folder of the file that includes. */
static char *included_path(struct loader *loader, const char *name)
{
    const char *slash = strrchr(loader->here.file, '/');
    size_t folder_len =
        name[0] == '/' || slash == NULL ? 0 : (size_t)(slash - loader->here.file) + 1;
    size_t name_len = strlen(name);
    char *path = arena_alloc(loader->config->arena, folder_len + name_len + 1);

    if (path == NULL) {
        loader->no_memory = true;
        return NULL;
    }
    memcpy(path, loader->here.file, folder_len);
    memcpy(path + folder_len, name, name_len);
    return path;
}

static bool is_included(const struct loader *loader, const char *path)
{
    for (size_t i = 0; i < loader->file_count; i++) {
        if (strcmp(loader->files[i], path) == 0) {
            return true;
        }
    }
    return false;
}

/* @p path is of the arena. False where no more files are taken. */
static bool queue_file(struct loader *loader, const char *path)
{
    if (loader->file_count == CONFIG_FILES_MAX) {
        loader_error(loader, &loader->here, "include", "file", "more than %d files",
                     CONFIG_FILES_MAX);
        return false;
    }
    loader->files[loader->file_count] = path;
    loader->file_count++;
    return true;
}

/*
 * The files of a pattern in the order of their names, except those that were included already, such
 * as the file with the pattern. No match is no error, because a folder may be empty. A missing
 * folder is an error: a typing mistake must not leave out rules of [access].
 */
static void include_pattern(struct loader *loader, const char *pattern)
{
    glob_t found;
    int error = glob(pattern, GLOB_ERR, NULL, &found);

    if (error == GLOB_NOSPACE) {
        loader->no_memory = true;
        return;
    }
    if (error == GLOB_ABORTED) {
        loader_error(loader, &loader->here, "include", "file", "the folder cannot be read");
    }
    bool has_room = error == 0;
    for (size_t i = 0; has_room && i < found.gl_pathc; i++) {
        const char *name = found.gl_pathv[i];
        if (is_included(loader, name)) {
            continue;
        }
        char *copy = arena_text(loader->config->arena, name, strlen(name));
        loader->no_memory = loader->no_memory || copy == NULL;
        has_room = copy != NULL && queue_file(loader, copy);
    }
    globfree(&found);
}

/* Included files are queued and not read at once, so that includes do not recurse. */
static void assign_include(struct loader *loader, const char *key, const char *value)
{
    if (strcmp(key, "file") != 0) {
        loader_unknown_key(loader, "include", key, NULL, 0);
        return;
    }
    if (!loader->may_include) {
        loader_error(loader, &loader->here, "include", key, "only a file can include another");
        return;
    }
    if (value[0] == '\0') {
        loader_error(loader, &loader->here, "include", key, "expected the name of a file");
        return;
    }
    char *path = included_path(loader, value);
    if (path == NULL) {
        return;
    }
    if (strpbrk(value, "*?[") != NULL) {
        include_pattern(loader, path);
    } else if (is_included(loader, path)) {
        loader_error(loader, &loader->here, "include", key, "included already");
    } else {
        queue_file(loader, path);
    }
}

/*
 * The format has no quotes, so they would be part of the value, and a rule would never match. No
 * URI, address or word has a double quote; an apostrophe within a name may be intended.
 */
static bool has_quotes(const char *value)
{
    return value[0] == '\'' || strchr(value, '"') != NULL;
}

void loader_assign(struct loader *loader, const struct section *section, const char *key,
                   const char *value)
{
    if (section->kind != SECTION_UNKNOWN && has_quotes(value)) {
        /* The value is not repeated: it may be a secret. */
        loader_error(loader, &loader->here, NULL, NULL,
                     "%.60s: quotes are not part of the format, write the value without them", key);
        return;
    }
    switch (section->kind) {
    case SECTION_UNKNOWN:
        return; /* reported when it was met */
    case SECTION_PLAIN:
        assign_plain_key(loader, section->name, key, value);
        return;
    case SECTION_NAMED:
        named_assign(loader, section, key, value);
        return;
    case SECTION_INCLUDE:
        assign_include(loader, key, value);
        return;
    }
}
