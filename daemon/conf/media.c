/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of [media N]: one Content-Format for a media type, one media type for each. */
#include "coap/media.h"
#include "conf/loader.h"

#include <stdlib.h>
#include <string.h>

static struct bytes media_text(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

#define media_error(loader, draft, key, ...)                                                       \
    named_error(loader, CONFIG_NAMED_MEDIA, draft, named_any_place(CONFIG_NAMED_MEDIA, draft),     \
                key, __VA_ARGS__)

/* A token (RFC 9110 section 5.6.2) in lower case, as codings are written. */
static bool is_coding(const char *coding)
{
    return coding[strspn(coding, "abcdefghijklmnopqrstuvwxyz0123456789-_.+")] == '\0';
}

static void check_media(struct loader *loader, const struct named_draft *draft,
                        const struct media_own *before)
{
    const struct config_media *section = draft->row;
    uint32_t number = (uint32_t)strtoul(section->name, NULL, 10);
    const struct media_row *known = media_by_number(NULL, number);
    struct bytes type = media_text(section->type);
    char got[GOT_MAX];

    if (!media_is_type(type)) {
        media_error(loader, draft, "type", "expected a media type, got %s",
                    got_text(got, section->type, type.len));
        return;
    }
    if (!is_coding(section->coding)) {
        media_error(loader, draft, "coding", "expected a content coding, got %s",
                    got_text(got, section->coding, strlen(section->coding)));
        return;
    }
    if (known != NULL) {
        media_error(loader, draft, "type", "%u is the registered Content-Format of %s", number,
                    known->type);
        return;
    }
    uint32_t other = media_find(before, type, media_text(section->coding));
    if (other != MEDIA_NONE) {
        media_error(loader, draft, "type", "%s is Content-Format %u already",
                    got_text(got, section->type, type.len), other);
    }
}

void loader_check_media(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_MEDIA];
    struct media_row *rows =
        arena_alloc(loader->config->arena, (drafts->count + 1) * sizeof(struct media_row));
    struct media_own *own = arena_alloc(loader->config->arena, sizeof(*own));

    if (rows == NULL || own == NULL) {
        loader->no_memory = true;
        return;
    }
    *own = (struct media_own){.rows = rows};
    for (size_t i = 0; i < drafts->count; i++) {
        const struct config_media *section = drafts->items[i].row;
        check_media(loader, &drafts->items[i], own);
        rows[own->count++] =
            (struct media_row){.number = (uint32_t)strtoul(section->name, NULL, 10),
                               .type = section->type,
                               .coding = section->coding};
    }
    loader->config->media_own = own;
}
