/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The [upstream] and [upstream NAME] sections: the patterns of the latter, and that keys that
 * belong together are there. The files are read later; errors that are found here have a place in
 * the configuration.
 */
#include "conf/loader.h"

#include "coap/http_line.h"
#include "net/raw_keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KEY_DIGITS_MAX 128u /* 64 bytes: RFC 4279 section 5.3 */

static bool is_hex(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= KEY_DIGITS_MAX && len % 2 == 0 &&
           strspn(text, "0123456789abcdefABCDEF") == len;
}

/* A key in files that is wrong, and how; NULL where all is well. Secrets are not repeated. */
struct shown {
    const char *certificate, *key, *identity, *psk, *psk_file, *raw_key, *server_keys;
};

/* The same of the raw keys: either side is known by one thing alone. */
static const char *find_wrong_raw(const struct shown *shown, const char **ret_key)
{
    bool has_own = shown->raw_key[0] != '\0';

    if (!has_own && shown->server_keys[0] == '\0') {
        return NULL;
    }
    *ret_key = has_own ? "raw-key" : "server-keys";
    if (!raw_keys_are_there()) {
        return RAW_KEYS_LACK;
    }
    if (shown->identity[0] != '\0') {
        return "there is a psk-identity too";
    }
    return has_own && shown->certificate[0] != '\0' ? "there is a certificate too" : NULL;
}

static const char *find_wrong(const struct shown *shown, const char **ret_key)
{
    const char *certificate = shown->certificate, *key = shown->key;
    const char *identity = shown->identity, *psk = shown->psk;
    bool has_psk = psk[0] != '\0' || shown->psk_file[0] != '\0';

    if ((certificate[0] == '\0') != (key[0] == '\0')) {
        *ret_key = certificate[0] != '\0' ? "certificate" : "key";
        return certificate[0] != '\0' ? "needs upstream.key" : "needs upstream.certificate";
    }
    if ((identity[0] == '\0') == has_psk) {
        *ret_key = !has_psk ? "psk-identity" : psk[0] != '\0' ? "psk-key" : "psk-key-file";
        return has_psk ? "needs upstream.psk-identity" : "needs upstream.psk-key-file";
    }
    *ret_key = "psk-key";
    if (psk[0] != '\0' && shown->psk_file[0] != '\0') {
        return "there is a psk-key-file too";
    }
    if (psk[0] != '\0' && !is_hex(psk)) {
        return "expected 1 to 64 bytes in hexadecimal";
    }
    return find_wrong_raw(shown, ret_key);
}

static const struct place *place_of(const struct loader *loader, const char *key)
{
    const struct config_row *row = schema_find("upstream", key);
    return row == NULL ? &loader->here : &loader->set_at[row - config_rows];
}

static void check_plain(struct loader *loader)
{
    const struct config *config = loader->config;
    const char *key;
    const struct shown shown = {config->upstream_certificate,  config->upstream_key,
                                config->upstream_psk_identity, config->upstream_psk_key,
                                config->upstream_psk_key_file, config->upstream_raw_key,
                                config->upstream_server_keys};
    const char *wrong = find_wrong(&shown, &key);
    if (wrong != NULL) {
        loader_error(loader, place_of(loader, key), "upstream", key, "%s", wrong);
    }
}

static bool is_own(const struct named_draft *draft, const char *key)
{
    return named_place(CONFIG_NAMED_UPSTREAM, draft, key)->kind != PLACE_PRESET;
}

/* What the section shows or trusts by itself replaces what excludes it and is inherited. */
static void drop_inherited(const struct named_draft *draft)
{
    struct config_upstream *upstream = draft->row;
    bool is_raw = is_own(draft, "raw-key") || is_own(draft, "server-keys");

    if (is_own(draft, "psk-identity") && !is_raw) {
        upstream->raw_key = upstream->server_keys = "";
    } else if (is_raw && !is_own(draft, "psk-identity")) {
        upstream->psk_identity = upstream->psk_key = upstream->psk_key_file = "";
    }
    if (is_own(draft, "certificate") && !is_own(draft, "raw-key")) {
        upstream->raw_key = "";
    } else if (is_own(draft, "raw-key") && !is_own(draft, "certificate")) {
        upstream->certificate = upstream->key = "";
    }
}

static void check_named(struct loader *loader, const struct named_draft *draft)
{
    struct config_upstream *upstream = draft->row;
    const char *key;

    /* A key that the section sets, in either form, replaces the inherited one. */
    if (is_own(draft, "psk-key") && !is_own(draft, "psk-key-file")) {
        upstream->psk_key_file = "";
    } else if (is_own(draft, "psk-key-file") && !is_own(draft, "psk-key")) {
        upstream->psk_key = "";
    }
    drop_inherited(draft);
    const struct shown shown = {
        upstream->certificate,  upstream->key,     upstream->psk_identity, upstream->psk_key,
        upstream->psk_key_file, upstream->raw_key, upstream->server_keys};
    const char *wrong = find_wrong(&shown, &key);
    if (wrong == NULL) {
        return;
    }
    const struct place *place = named_place(CONFIG_NAMED_UPSTREAM, draft, key);
    if (place->kind == PLACE_PRESET) { /* inherited: the fault is what the section adds to it */
        place = named_any_place(CONFIG_NAMED_UPSTREAM, draft);
    }
    named_error(loader, CONFIG_NAMED_UPSTREAM, draft, place, key, "%s", wrong);
}

/* --- lines of the head of HTTP requests ------------------------------------------ */

/* Longest of header-file, with its line feed and NUL. */
#define HEADER_LINE_MAX 4096u

/* Comments included. */
#define HEADER_FILE_LINES_MAX 1000u

struct line_taker {
    struct loader *loader;
    const struct named_draft *draft;
    const char *key; /* that is read: header or header-file */
    const char *lines[HTTP_LINES_MAX];
    size_t count;
};

/* The value is not repeated: it may be a secret. */
static bool refuse_line(struct line_taker *taker, unsigned number, const char *why)
{
    const struct place *place = named_place(CONFIG_NAMED_UPSTREAM, taker->draft, taker->key);
    named_error(taker->loader, CONFIG_NAMED_UPSTREAM, taker->draft, place, taker->key,
                "line %u: %s", number, why);
    return false;
}

static bool take_header_line(struct line_taker *taker, unsigned number, const char *text,
                             size_t len)
{
    const char *line = arena_text(taker->loader->config->arena, text, len);
    if (line == NULL) {
        taker->loader->no_memory = true;
        return false;
    }
    const char *why = http_line_error(line);
    if (why != NULL) {
        return refuse_line(taker, number, why);
    }
    if (taker->count == HTTP_LINES_MAX) {
        return refuse_line(taker, number, "more than 16 lines");
    }
    taker->lines[taker->count++] = line;
    return true;
}

static void take_line_file(struct line_taker *taker, FILE *file)
{
    char text[HEADER_LINE_MAX];
    bool is_good = true;
    for (unsigned number = 1; is_good && fgets(text, sizeof(text), file) != NULL; number++) {
        if (number > HEADER_FILE_LINES_MAX) {
            (void)refuse_line(taker, number, "too many lines");
            break;
        }
        size_t len = strlen(text);
        if (len + 1 == sizeof(text)) {
            (void)refuse_line(taker, number, "too long");
            break;
        }
        while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL) {
            len--;
        }
        is_good = len == 0 || text[0] == '#' || take_header_line(taker, number, text, len);
    }
    explicit_bzero(text, sizeof(text));
}

static void take_lines(struct loader *loader, const struct named_draft *draft,
                       struct config_upstream *upstream)
{
    struct line_taker taker = {.loader = loader, .draft = draft, .key = "header"};
    for (size_t i = 0; i < upstream->header.count; i++) {
        const char *text = upstream->header.items[i];
        (void)take_header_line(&taker, (unsigned)i + 1, text, strlen(text));
    }
    taker.key = "header-file";
    if (upstream->header_file[0] != '\0') {
        FILE *file = fopen(upstream->header_file, "re");
        if (file == NULL) {
            named_error(loader, CONFIG_NAMED_UPSTREAM, draft,
                        named_place(CONFIG_NAMED_UPSTREAM, draft, taker.key), taker.key,
                        "%s cannot be read: %s", upstream->header_file, strerror(errno));
            return;
        }
        (void)setvbuf(file, NULL, _IONBF, 0); /* or a copy would stay behind */
        take_line_file(&taker, file);
        (void)fclose(file);
    }
    const char **kept = arena_alloc(loader->config->arena, sizeof(taker.lines));
    if (kept == NULL) {
        loader->no_memory = true;
        return;
    }
    memcpy(kept, taker.lines, sizeof(taker.lines));
    upstream->lines = kept;
    upstream->line_count = taker.count;
}

/* --- secrets that others might read ------------------------------------------------ */

/* The file that a key was read from, if it was a file: whether others may read it is checked
 * with those of other secrets. */
static void note_secret(struct loader *loader, const struct place *place, bool is_there,
                        const char **files)
{
    struct config_list *list = &loader->config->secret_files;

    if (!is_there || place->kind != PLACE_FILE) {
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i] == place->file) {
            return;
        }
    }
    files[list->count++] = place->file; /* there are no more than CONFIG_FILES_MAX */
}

static void note_secrets(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_UPSTREAM];
    const char **files = arena_alloc(
        loader->config->arena, (CONFIG_FILES_MAX + CONFIG_UPSTREAM_MAX) * sizeof(const char *));

    if (files == NULL) {
        loader->no_memory = true;
        return;
    }
    loader->config->secret_files.items = files;
    note_secret(loader, place_of(loader, "psk-key"), loader->config->upstream_psk_key[0] != '\0',
                files);
    for (size_t i = 0; i < drafts->count; i++) {
        const struct config_upstream *upstream = drafts->items[i].row;
        note_secret(loader, named_place(CONFIG_NAMED_UPSTREAM, &drafts->items[i], "psk-key"),
                    upstream->psk_key[0] != '\0', files);
        note_secret(loader, named_place(CONFIG_NAMED_UPSTREAM, &drafts->items[i], "header"),
                    upstream->header.count > 0, files);
        if (upstream->header_file[0] != '\0') {
            files[loader->config->secret_files.count++] = upstream->header_file;
        }
    }
}

/* --- replicas -------------------------------------------------------------------- */

/* What says that this is one of several replicas; NULL: nothing does. */
static const char *sign_of_replicas(const struct config *config)
{
    return config->cluster_secret_file[0] != '\0' ? "cluster.secret-file"
           : config->cluster_replica[0] != '\0'   ? "cluster.replica"
           : config->cache_shared[0] != '\0'      ? "cache.shared"
                                                  : NULL;
}

/* A security context has one user: where there are replicas, one of them is named. */
static void check_oscore_replica(struct loader *loader, const struct named_draft *draft)
{
    const struct config_upstream *upstream = draft->row;
    const struct config *config = loader->config;
    const char *key = upstream->oscore_replica[0] != '\0' ? "oscore-replica" : "oscore";
    const char *sign = sign_of_replicas(config), *wrong = NULL;
    char words[80];

    if (upstream->oscore_replica[0] == '\0') {
        if (upstream->oscore[0] != '\0' && sign != NULL) {
            (void)snprintf(words, sizeof words,
                           "needs oscore-replica, as %s says that there are replicas", sign);
            wrong = words;
        }
    } else if (upstream->oscore[0] == '\0') {
        wrong = "needs oscore";
    } else if (config->cluster_replica[0] == '\0') {
        wrong = "needs cluster.replica";
    }
    if (wrong != NULL) {
        named_error(loader, CONFIG_NAMED_UPSTREAM, draft,
                    named_place(CONFIG_NAMED_UPSTREAM, draft, key), key, "%s", wrong);
    }
}

void loader_check_upstreams(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_UPSTREAM];

    note_secrets(loader);
    check_plain(loader);
    loader->config->has_web_credentials = loader->config->upstream_certificate[0] != '\0';
    for (size_t i = 0; i < drafts->count && !loader->no_memory; i++) {
        const struct named_draft *draft = &drafts->items[i];
        struct config_upstream *upstream = draft->row;
        check_named(loader, draft);
        check_oscore_replica(loader, draft);
        take_lines(loader, draft, upstream);
        loader->config->has_web_credentials |=
            upstream->line_count > 0 || upstream->certificate[0] != '\0';
        upstream->patterns = named_patterns(loader, CONFIG_NAMED_UPSTREAM, draft, "target",
                                            &upstream->target, true, &upstream->pattern_count);
    }
}
