/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/loader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
        arena_free(config->arena);
        free(config);
    }
}
