/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/http_tag.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

/* Longer entity-tags that are remembered at a time: a hash chooses the slot, the newest stays. */
#define TAGS_MAX 1024u

struct http_tags {
    uint64_t seed;
    struct {
        uint8_t etag[HTTP_TAG_ETAG_MAX];
        char text[HTTP_TAG_TEXT_MAX]; /* empty: a free slot */
    } slots[TAGS_MAX];
};

struct http_tags *http_tags_new(uint64_t seed)
{
    struct http_tags *tags = calloc(1, sizeof(*tags));
    if (tags != NULL) {
        tags->seed = seed;
    }
    return tags;
}

/* etagc of RFC 9110 section 8.8.3, in ASCII: others are not sent back to a server. */
static bool is_etagc(uint8_t byte)
{
    return byte == 0x21 || (byte >= 0x23 && byte <= 0x7e);
}

static bool is_opaque_tag(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_etagc(bytes[i])) {
            return false;
        }
    }
    return len > 0;
}

static size_t tag_slot_of(const uint8_t etag[HTTP_TAG_ETAG_MAX])
{
    return (etag[0] | (size_t)etag[1] << 8) % TAGS_MAX;
}

size_t http_tag_take(struct http_tags *tags, const char *value, uint8_t ret_etag[HTTP_TAG_ETAG_MAX])
{
    size_t len = strlen(value);
    if (len < 3 || len >= HTTP_TAG_TEXT_MAX || value[0] != '"' || value[len - 1] != '"' ||
        !is_opaque_tag((const uint8_t *)value + 1, len - 2)) {
        return 0;
    }
    if (len - 2 <= HTTP_TAG_ETAG_MAX) {
        memcpy(ret_etag, value + 1, len - 2);
        return len - 2;
    }
    uint64_t hash = hash_bytes((const uint8_t *)value, len, tags->seed);
    for (unsigned i = 0; i < HTTP_TAG_ETAG_MAX; i++) {
        ret_etag[i] = (uint8_t)(hash >> 8 * i);
    }
    memcpy(tags->slots[tag_slot_of(ret_etag)].etag, ret_etag, HTTP_TAG_ETAG_MAX);
    memcpy(tags->slots[tag_slot_of(ret_etag)].text, value, len + 1);
    return HTTP_TAG_ETAG_MAX;
}

bool http_tag_give(const struct http_tags *tags, struct bytes etag,
                   char ret_text[HTTP_TAG_TEXT_MAX])
{
    if (etag.len == HTTP_TAG_ETAG_MAX) {
        size_t slot = tag_slot_of(etag.data);
        const char *text = tags->slots[slot].text;
        if (text[0] != '\0' && memcmp(tags->slots[slot].etag, etag.data, etag.len) == 0) {
            memcpy(ret_text, text, strlen(text) + 1);
            return true;
        }
    }
    if (etag.len > HTTP_TAG_ETAG_MAX || !is_opaque_tag(etag.data, etag.len)) {
        return false;
    }
    (void)snprintf(ret_text, HTTP_TAG_TEXT_MAX, "\"%.*s\"", (int)etag.len, (const char *)etag.data);
    return true;
}
