/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What [upstream] and [upstream NAME] sections mean: the patterns of the latter, and that
 * what belongs together is there. The files are read later; what is said here has the
 * place in the configuration.
 */
#include "conf/loader.h"

#include <string.h>

#define KEY_DIGITS_MAX 128u /* 64 bytes: RFC 4279 section 5.3 */

static bool is_hex(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= KEY_DIGITS_MAX && len % 2 == 0 &&
           strspn(text, "0123456789abcdefABCDEF") == len;
}

/* A key in files that is wrong, and how; NULL where all is well. Secrets are not repeated. */
static const char *find_wrong(const char *certificate, const char *key, const char *identity,
                              const char *psk, const char **ret_key)
{
    if ((certificate[0] == '\0') != (key[0] == '\0')) {
        *ret_key = certificate[0] != '\0' ? "certificate" : "key";
        return certificate[0] != '\0' ? "needs upstream.key" : "needs upstream.certificate";
    }
    if ((identity[0] == '\0') != (psk[0] == '\0')) {
        *ret_key = identity[0] != '\0' ? "psk-identity" : "psk-key";
        return identity[0] != '\0' ? "needs upstream.psk-key" : "needs upstream.psk-identity";
    }
    *ret_key = "psk-key";
    return psk[0] == '\0' || is_hex(psk) ? NULL : "expected 1 to 64 bytes in hexadecimal";
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
    const char *wrong = find_wrong(config->upstream_certificate, config->upstream_key,
                                   config->upstream_psk_identity, config->upstream_psk_key, &key);
    if (wrong != NULL) {
        loader_error(loader, place_of(loader, key), "upstream", key, "%s", wrong);
    }
}

static void check_named(struct loader *loader, const struct named_draft *draft)
{
    const struct config_upstream *upstream = draft->row;
    const char *key;
    const char *wrong = find_wrong(upstream->certificate, upstream->key, upstream->psk_identity,
                                   upstream->psk_key, &key);
    if (wrong == NULL) {
        return;
    }
    const struct place *place = named_place(CONFIG_NAMED_UPSTREAM, draft, key);
    if (place->kind == PLACE_PRESET) { /* inherited: the fault is what the section adds to it */
        place = named_any_place(CONFIG_NAMED_UPSTREAM, draft);
    }
    named_error(loader, CONFIG_NAMED_UPSTREAM, draft, place, key, "%s", wrong);
}

void loader_check_upstreams(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_UPSTREAM];

    check_plain(loader);
    for (size_t i = 0; i < drafts->count && !loader->no_memory; i++) {
        const struct named_draft *draft = &drafts->items[i];
        struct config_upstream *upstream = draft->row;
        check_named(loader, draft);
        upstream->patterns = named_patterns(loader, CONFIG_NAMED_UPSTREAM, draft, "target",
                                            &upstream->target, true, &upstream->pattern_count);
    }
}
