/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libcri makes of encoded CRIs, for the vectors' fields that no command of
 * the tool shows: for each line of hexadecimal one line of JSON with the canonical
 * encoding, the features needed and the abstract form (draft section 5.2).
 */
#include "cri_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX 65536

static void put(struct buffer *out, const char *text)
{
    buffer_append_text(out, text);
}

static void put_hex(struct buffer *out, struct cri_slice bytes)
{
    put(out, "\"");
    for (size_t i = 0; i < bytes.len; i++) {
        char pair[3];
        (void)snprintf(pair, sizeof(pair), "%02x", bytes.data[i]);
        put(out, pair);
    }
    put(out, "\"");
}

static void put_item(struct buffer *out, const struct cri_item *item)
{
    struct cri_iter iter;
    struct cri_slice piece;
    bool is_bytes = false;
    if (!item->is_pet) {
        json_put_string(out, item->text);
        return;
    }
    put(out, "[");
    cri_piece_init(&iter, item);
    for (const char *comma = ""; cri_piece_next(&iter, &is_bytes, &piece); comma = ",") {
        put(out, comma);
        if (is_bytes) {
            put(out, "{\"pet\":");
            put_hex(out, piece);
            put(out, "}");
        } else {
            json_put_string(out, piece);
        }
    }
    put(out, "]");
}

static void put_list(struct buffer *out, const struct cri_list *list)
{
    struct cri_iter iter;
    struct cri_item item;
    if (!list->is_set) {
        put(out, "null");
        return;
    }
    put(out, "[");
    cri_iter_init(&iter, list);
    for (const char *comma = ""; cri_iter_next(&iter, &item); comma = ",") {
        put(out, comma);
        put_item(out, &item);
    }
    put(out, "]");
}

static void put_authority(struct buffer *out, const struct cri *cri)
{
    if (cri->authority == CRI_AUTHORITY_NULL || cri->authority == CRI_AUTHORITY_ROOTLESS) {
        put(out, cri->authority == CRI_AUTHORITY_NULL ? "null" : "true");
        return;
    }
    put(out, "{");
    if (cri->has_userinfo) {
        put(out, "\"userinfo\":");
        put_item(out, &cri->userinfo);
        put(out, ",");
    }
    if (cri->authority == CRI_AUTHORITY_HOST_IP) {
        put(out, "\"ip\":");
        put_hex(out, cri->ip);
    } else {
        put(out, "\"labels\":");
        put_list(out, &cri->labels);
    }
    if (cri->has_zone) {
        put(out, ",\"zone\":");
        json_put_string(out, cri->zone);
    }
    if (cri->has_port) {
        char text[24];
        (void)snprintf(text, sizeof(text), ",\"port\":%u", cri->port);
        put(out, text);
    }
    put(out, "}");
}

static void put_scheme_and_discard(struct buffer *out, const struct cri *cri)
{
    char text[32];
    put(out, "\"scheme\":");
    if (cri->scheme == CRI_SCHEME_NAME) {
        json_put_string(out, cri->scheme_name);
    } else if (cri->scheme == CRI_SCHEME_NOT_SET) {
        put(out, "null");
    } else if (cri->scheme_number == UINT64_MAX) {
        put(out, "-18446744073709551616");
    } else {
        (void)snprintf(text, sizeof(text), "-%" PRIu64, cri->scheme_number + 1);
        put(out, text);
    }
    (void)snprintf(text, sizeof(text), ",\"discard\":%u", cri->discard);
    put(out, cri->discard == CRI_DISCARD_ALL ? ",\"discard\":true" : text);
}

static void put_needs(struct buffer *out, uint32_t features)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {{CRI_FEATURE_NO_AUTHORITY, "no-authority"},
                 {CRI_FEATURE_SCHEME_NAME, "scheme-name"},
                 {CRI_FEATURE_TEXT_OR_PET, "text-or-pet"},
                 {CRI_FEATURE_USERINFO, "userinfo"}};
    const char *comma = "";
    put(out, "\"needs\":[");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((features & names[i].bit) != 0) {
            put(out, comma);
            json_put_string(
                out, (struct cri_slice){(const uint8_t *)names[i].name, strlen(names[i].name)});
            comma = ",";
        }
    }
    put(out, "]");
}

static void put_view(struct buffer *out, const struct cri *cri)
{
    uint8_t encoded[LINE_BYTES_MAX];
    size_t len = 0;
    if (cri_encode(cri, encoded, sizeof(encoded), &len) != CRI_OK) {
        put(out, "null");
        return;
    }
    put(out, "{\"encoded\":");
    put_hex(out, (struct cri_slice){encoded, len});
    put(out, ",");
    put_needs(out, cri->features);
    put(out, ",\"abstract\":{");
    put_scheme_and_discard(out, cri);
    put(out, ",\"authority\":");
    put_authority(out, cri);
    put(out, ",\"path\":");
    put_list(out, &cri->path);
    put(out, ",\"query\":");
    put_list(out, &cri->query);
    put(out, ",\"fragment\":");
    if (cri->has_fragment) {
        put_item(out, &cri->fragment);
    } else {
        put(out, "null");
    }
    put(out, "}}");
}

int main(void)
{
    static char line[LINE_BYTES_MAX];
    struct tool tool = {0};
    struct buffer out = {0};
    while (fgets(line, sizeof(line), stdin) != NULL) {
        struct cri cri;
        const struct cri_slice text = {(const uint8_t *)line, strcspn(line, "\n")};
        out.len = 0;
        if (read_cri(&tool, text, &tool.input, &cri)) {
            put_view(&out, &cri);
        } else {
            put(&out, "null");
        }
        (void)printf("%.*s\n", (int)out.len, (const char *)out.data);
    }
    buffer_free(&tool.input);
    buffer_free(&tool.result);
    buffer_free(&out);
    return EXIT_SUCCESS;
}
