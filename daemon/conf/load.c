/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/loader.h"
#include "conf/recording.h"

#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

/*
 * inih splits lines into sections, keys and values. How it treats the rest depends on how it was
 * built, and some of it is silent: Debian's cuts lines after 199 bytes and section names after 49,
 * takes an indented line for a continuation of the value above, ignores what follows "]", and keeps
 * only the first error's line. So every line is checked first, and inih gets only lines that
 * every build reads in the same way: no indentation, no comments, no surprises in length.
 *
 * The format that comes out of it is the same with every inih:
 *   - blanks around everything are dropped; a value ends with its line;
 *   - a comment starts with ; or #, at the start of a line or after a blank;
 *   - there are no quotes and no escapes.
 */

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

/*
 * Reads the lines of @p text, the content of @p file, and assigns their keys; reports errors with
 * their line. Both texts are borrowed for the call.
 */
static void loader_read_text(struct loader *loader, const char *file, const char *text, size_t len)
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

/* ---- files ---- */

/*
 * The whole of a file, read at once: it may be a pipe. NULL with an error reported.
 * The caller frees it.
 */
static char *read_file(struct loader *loader, const char *name, size_t *ret_len)
{
    const struct place place = {.kind = PLACE_FILE, .line = 0, .file = name};
    char *text = malloc(CONFIG_FILE_MAX_BYTES + 1);
    FILE *file = text == NULL ? NULL : fopen(name, "re");
    size_t len = 0;
    int error = 0;

    if (text == NULL || (file == NULL && errno == ENOMEM)) {
        loader->no_memory = true;
        goto fail;
    }
    if (file == NULL) {
        loader_error(loader, &place, NULL, NULL, "cannot be read: %s", strerror(errno));
        goto fail;
    }
    errno = 0;
    len = fread(text, 1, CONFIG_FILE_MAX_BYTES + 1, file);
    error = ferror(file) != 0 ? errno : 0;
    if (error != 0) {
        loader_error(loader, &place, NULL, NULL, "cannot be read: %s", strerror(error));
        goto fail;
    }
    if (len > CONFIG_FILE_MAX_BYTES) {
        loader_error(loader, &place, NULL, NULL, "larger than %u bytes", CONFIG_FILE_MAX_BYTES);
        goto fail;
    }
    (void)fclose(file);
    *ret_len = len;
    return text;

fail:
    if (file != NULL) {
        (void)fclose(file);
    }
    free(text);
    return NULL;
}

/* The file and, after it and in their order, those it includes: later values replace earlier ones.
 */
static void load_files(struct loader *loader, const char *name)
{
    loader->may_include = true;
    loader->files[0] = arena_text(loader->config->arena, name, strlen(name));
    if (loader->files[0] == NULL) {
        loader->no_memory = true;
        return;
    }
    loader->file_count = 1;
    for (size_t i = 0; i < loader->file_count && !loader->no_memory; i++) {
        size_t len = 0;
        char *text = read_file(loader, loader->files[i], &len);
        if (text != NULL) {
            loader_read_text(loader, loader->files[i], text, len);
            free(text);
        }
    }
    loader->may_include = false;
}

/* SECTION.KEY=VALUE; a scheme's name may have dots, a key has none. */
static void load_set(struct loader *loader, const char *set)
{
    const char *equals = strchr(set, '=');
    const char *dot = NULL;
    char key[64];
    char got[GOT_MAX];

    for (const char *at = set; equals != NULL && at < equals; at++) {
        if (*at == '.') {
            dot = at;
        }
    }
    if (dot == NULL || dot == set || (size_t)(equals - dot) > sizeof(key)) {
        loader_error(loader, &loader->here, NULL, NULL, "expected SECTION.KEY=VALUE, got %s",
                     got_text(got, set, strlen(set)));
        return;
    }
    size_t key_len = (size_t)(equals - dot) - 1;
    memcpy(key, dot + 1, key_len);
    key[key_len] = '\0';
    struct section section;
    section_parse(loader, set, (size_t)(dot - set), &section);
    loader_assign(loader, &section, key, equals + 1);
}

static void load_source(struct loader *loader, const struct config_source *source)
{
    static const struct section listen = {.kind = SECTION_PLAIN, .name = "listen"};

    if (source->text != NULL) {
        loader_read_text(loader, source->file != NULL ? source->file : "text", source->text,
                         source->text_len);
    } else if (source->file != NULL) {
        load_files(loader, source->file);
    }
    loader->here = (struct place){.kind = PLACE_SET};
    for (size_t i = 0; i < source->set_count; i++) {
        load_set(loader, source->sets[i]);
    }
    loader->here = (struct place){.kind = PLACE_LISTEN};
    for (size_t i = 0; i < source->listen_count; i++) {
        loader_assign(loader, &listen, "uri", source->listens[i]);
    }
}

int config_load(const struct config_source *source, struct config_errors *ret_errors,
                struct config **ret_config)
{
    struct loader *loader = calloc(1, sizeof(struct loader));
    struct config *config = calloc(1, sizeof(struct config));
    int error = -ENOMEM;

    ret_errors->count = 0;
    if (loader == NULL || config == NULL) {
        goto fail;
    }
    config->arena = arena_new();
    if (config->arena == NULL) {
        goto fail;
    }
    loader->config = config;
    loader->errors = ret_errors;
    loader_preset(loader);
    if (source != NULL && !loader->no_memory) {
        load_source(loader, source);
    }
    if (!loader->no_memory) {
        loader_size(loader);
        loader_check(loader);
    }
    if (loader->no_memory) {
        goto fail;
    }
    if (ret_errors->count > 0) {
        error = -EINVAL;
        goto fail;
    }
    free(loader);
    *ret_config = config;
    return 0;

fail:
    free(loader);
    config_free(config);
    return error;
}

void config_free(struct config *config)
{
    if (config != NULL) {
        if (config->cluster_secret != NULL) {
            explicit_bzero((void *)(uintptr_t)config->cluster_secret, config->cluster_secret_len);
        }
        if (config->shared.password != NULL) {
            char *password = (char *)(uintptr_t)config->shared.password;
            explicit_bzero(password, strlen(password));
        }
        for (struct recording *at = config->recordings, *next; at != NULL; at = next) {
            next = at->next;
            recording_release(at);
        }
        arena_free(config->arena);
        free(config);
    }
}
