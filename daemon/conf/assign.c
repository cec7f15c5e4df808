/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/loader.h"

#include "conf/value.h"

#include <assert.h>
#include <string.h>

/* The schemes that are there without any configuration; numbers and ports are libcri's. */
static const struct {
    const char *name;
    enum config_scheme_transport transport;
} builtin_schemes[] = {
    {"coap", TRANSPORT_UDP},   {"coaps", TRANSPORT_DTLS},   {"http", TRANSPORT_NONE},
    {"https", TRANSPORT_NONE}, {"coap+tcp", TRANSPORT_TCP}, {"coaps+tcp", TRANSPORT_TLS},
    {"coap+ws", TRANSPORT_WS}, {"coaps+ws", TRANSPORT_WSS},
};

static void assign_list_item(struct loader *loader, const struct config_row *row, const char *text,
                             size_t len, bool replace)
{
    struct config_list list;
    char *field = (char *)loader->config + row->offset;

    memcpy(&list, field, sizeof(list));
    if (replace) {
        list.count = 0;
    }
    if (list.count == CONFIG_LIST_MAX) {
        loader_error(loader, &loader->here, row->section, schema_key(row).text,
                     "more than %d values", CONFIG_LIST_MAX);
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

static void assign_text(struct loader *loader, const struct config_row *row, const char *text)
{
    const char *copy = arena_text(loader->config->arena, text, strlen(text));

    if (copy == NULL) {
        loader->no_memory = true;
        return;
    }
    memcpy((char *)loader->config + row->offset, &copy, sizeof(copy));
}

static void preset_text(struct loader *loader, const struct config_row *row)
{
    assign_text(loader, row, strcmp(row->preset, CONFIG_NO_DEFAULT) == 0 ? "" : row->preset);
}

static void preset_list(struct loader *loader, const struct config_row *row)
{
    const char *at = row->preset;

    while (*at != '\0') {
        size_t len = strcspn(at, " ");
        assign_list_item(loader, row, at, len, false);
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

/* A row for @p name (lower case), at the defaults and what libcri knows of it. */
static struct scheme_draft *add_scheme(struct loader *loader, const char *name)
{
    struct scheme_draft *draft = &loader->schemes[loader->scheme_count];
    struct cri_slice slice = {.data = (const uint8_t *)name, .len = strlen(name)};
    const struct cri_scheme *known = cri_scheme_by_name(NULL, slice);

    *draft = (struct scheme_draft){0};
    for (size_t i = 0; i < CONFIG_SCHEME_ROW_COUNT; i++) {
        preset_scalar(&draft->row, &config_scheme_rows[i]);
    }
    if (known != NULL && known->number < SCHEME_NUMBER_NONE) {
        draft->row.number = (uint32_t)known->number;
        draft->row.default_port = known->default_port;
    }
    draft->row.name = arena_text(loader->config->arena, name, strlen(name));
    if (draft->row.name == NULL) {
        loader->no_memory = true;
        return NULL;
    }
    loader->scheme_count++;
    return draft;
}

void loader_preset(struct loader *loader)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        if (config_rows[i].type == CONFIG_TYPE_LIST) {
            preset_list(loader, &config_rows[i]);
        } else if (config_rows[i].type == CONFIG_TYPE_TEXT) {
            preset_text(loader, &config_rows[i]);
        } else {
            preset_scalar(loader->config, &config_rows[i]);
        }
    }
    for (size_t i = 0; i < sizeof(builtin_schemes) / sizeof(builtin_schemes[0]); i++) {
        struct scheme_draft *draft = add_scheme(loader, builtin_schemes[i].name);
        if (draft != NULL) {
            draft->row.transport = builtin_schemes[i].transport;
        }
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* RFC 3986 section 3.1; @p name is lowered on the way. */
static bool take_scheme_name(char *name)
{
    for (size_t i = 0; name[i] != '\0'; i++) {
        char c = name[i];
        if (c >= 'A' && c <= 'Z') {
            c = (char)(c + ('a' - 'A'));
            name[i] = c;
        }
        bool letter = c >= 'a' && c <= 'z';
        bool later = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!letter && (i == 0 || !later)) {
            return false;
        }
    }
    return name[0] != '\0';
}

void section_parse(struct loader *loader, const char *text, size_t len, struct section *ret_section)
{
    static const char scheme[] = "scheme";
    const size_t scheme_len = sizeof(scheme) - 1;
    char got[GOT_MAX];

    while (len > 0 && is_space(text[0])) {
        text++;
        len--;
    }
    while (len > 0 && is_space(text[len - 1])) {
        len--;
    }
    *ret_section = (struct section){.kind = SECTION_UNKNOWN};
    bool is_scheme =
        len > scheme_len && memcmp(text, scheme, scheme_len) == 0 && is_space(text[scheme_len]);
    size_t skip = is_scheme ? scheme_len : 0;
    while (skip < len && is_space(text[skip])) {
        skip++;
    }
    if (len - skip < sizeof(ret_section->name)) {
        memcpy(ret_section->name, text + skip, len - skip);
        if (is_scheme) {
            ret_section->kind =
                take_scheme_name(ret_section->name) ? SECTION_SCHEME : SECTION_UNKNOWN;
        } else if (strcmp(ret_section->name, "include") == 0) {
            ret_section->kind = SECTION_INCLUDE;
        } else if (schema_has_section(ret_section->name)) {
            ret_section->kind = SECTION_PLAIN;
        }
    }
    if (ret_section->kind == SECTION_UNKNOWN) {
        loader_error(
            loader, &loader->here, NULL, NULL,
            "expected the section proxy, listen, stream, limits, resolve, tls, log, include or "
            "\"scheme NAME\", got %s",
            got_text(got, text, len));
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

static void report_unknown_key(struct loader *loader, const char *section, const char *key)
{
    char got[GOT_MAX];

    loader_error(loader, &loader->here, section, NULL, "no such key: %s",
                 got_text(got, key, strlen(key)));
}

static void assign_scheme_key(struct loader *loader, const char *name, const char *key,
                              const char *value)
{
    char section[CONFIG_SECTION_MAX + sizeof("scheme ")];
    struct scheme_draft *draft = NULL;
    const struct config_row *row = schema_find_scheme_key(key);

    (void)snprintf(section, sizeof(section), "scheme %s", name);
    if (row == NULL) {
        report_unknown_key(loader, section, key);
        return;
    }
    for (size_t i = 0; draft == NULL && i < loader->scheme_count; i++) {
        if (strcmp(loader->schemes[i].row.name, name) == 0) {
            draft = &loader->schemes[i];
        }
    }
    if (draft == NULL && loader->scheme_count == CONFIG_SCHEMES_MAX) {
        loader_error(loader, &loader->here, section, NULL, "more than %d schemes",
                     CONFIG_SCHEMES_MAX);
        return;
    }
    if (draft == NULL) {
        draft = add_scheme(loader, name);
    }
    if (draft != NULL) {
        assign_scalar(loader, &draft->row, row, &draft->set_at[row - config_scheme_rows], section,
                      value);
    }
}

static void assign_plain_key(struct loader *loader, const char *section, const char *key,
                             const char *value)
{
    const struct config_row *row = schema_find(section, key);

    if (row == NULL) {
        report_unknown_key(loader, section, key);
        return;
    }
    struct place *set_at = &loader->set_at[row - config_rows];
    if (row->type == CONFIG_TYPE_TEXT) {
        if (take_place(loader, row, set_at, section)) {
            assign_text(loader, row, value);
        }
        return;
    }
    if (row->type != CONFIG_TYPE_LIST) {
        assign_scalar(loader, loader->config, row, set_at, section, value);
        return;
    }
    /* The first one from each place replaces what an earlier place gave. */
    bool replace = set_at->kind != loader->here.kind || set_at->file != loader->here.file;
    *set_at = loader->here;
    assign_list_item(loader, row, value, strlen(value), replace);
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

/* Files wait in a queue instead of being read at once: no recursion, whatever they include. */
static void assign_include(struct loader *loader, const char *key, const char *value)
{
    if (strcmp(key, "file") != 0) {
        report_unknown_key(loader, "include", key);
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
    for (size_t i = 0; i < loader->file_count; i++) {
        if (strcmp(loader->files[i], path) == 0) {
            loader_error(loader, &loader->here, "include", key, "included already");
            return;
        }
    }
    if (loader->file_count == CONFIG_FILES_MAX) {
        loader_error(loader, &loader->here, "include", key, "more than %d files", CONFIG_FILES_MAX);
        return;
    }
    loader->files[loader->file_count] = path;
    loader->file_count++;
}

void loader_assign(struct loader *loader, const struct section *section, const char *key,
                   const char *value)
{
    switch (section->kind) {
    case SECTION_UNKNOWN:
        return; /* reported when it was met */
    case SECTION_PLAIN:
        assign_plain_key(loader, section->name, key, value);
        return;
    case SECTION_SCHEME:
        assign_scheme_key(loader, section->name, key, value);
        return;
    case SECTION_INCLUDE:
        assign_include(loader, key, value);
        return;
    }
}
