/* SPDX-License-Identifier: BSD-2-Clause */
/* An answer as an event of text/event-stream (HTML, "Server-sent events"; HC-11). */
#include "client/http_exchange.h"

#include "base/base64.h"
#include "coap/media.h"
#include "coap/option.h"

#include <cri/cri.h>
#include <cri/uri.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Of a scheme and an authority with an address. */
#define MEMBER_URI_MAX 128u

struct event_text {
    char *text; /* NULL: only counted */
    size_t len, capacity;
};

static void event_put(struct event_text *out, const void *data, size_t len)
{
    if (out->text != NULL && len <= out->capacity - out->len) {
        memcpy(out->text + out->len, data, len);
    }
    out->len += len;
}

static void event_put_text(struct event_text *out, const char *text)
{
    event_put(out, text, strlen(text));
}

/* Well-formed UTF-8 (RFC 3629 section 4) without NUL, which ends the field for some readers. */
static bool is_utf8_text(struct bytes text)
{
    size_t i = 0;
    while (i < text.len) {
        uint8_t first = text.data[i];
        size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (first == 0 || (first >= 0x80 && first < 0xc2) || first > 0xf4 || text.len - i <= more) {
            return false;
        }
        for (size_t k = 1; k <= more; k++) {
            uint8_t byte = text.data[i + k];
            if (byte < (k == 1 ? least : 0x80) || byte > (k == 1 ? most : 0xbf)) {
                return false;
            }
        }
        i += 1 + more;
    }
    return true;
}

/* A line of data for each line of the text, whichever way those end. */
static void put_lines(struct event_text *out, struct bytes text)
{
    size_t at = 0;
    do {
        size_t end = at;
        while (end < text.len && text.data[end] != '\n' && text.data[end] != '\r') {
            end++;
        }
        event_put_text(out, "data: ");
        event_put(out, text.data + at, end - at);
        event_put_text(out, "\n");
        bool is_crlf = end + 1 < text.len && text.data[end] == '\r' && text.data[end + 1] == '\n';
        at = end + (is_crlf ? 2 : 1);
    } while (at <= text.len);
}

static void put_base64(struct event_text *out, struct bytes payload)
{
    char four[4];
    for (size_t i = 0; i < payload.len; i += 3) {
        base64_encode(payload.data + i, payload.len - i < 3 ? payload.len - i : 3, four);
        event_put(out, four, sizeof(four));
    }
}

/* What is no text, as one line of JSON. A media type has no byte but '"' that JSON escapes. */
static void put_binary(struct event_text *out, struct bytes payload, uint32_t format,
                       const struct media_row *row)
{
    char number[16];
    event_put_text(out, "data: {\"media\":\"");
    if (row != NULL) {
        for (const char *at = row->type; *at != '\0'; at++) {
            event_put(out, "\\", *at == '"' ? 1 : 0);
            event_put(out, at, 1);
        }
    } else if (format != MEDIA_NONE) {
        (void)snprintf(number, sizeof(number), "%" PRIu32, format);
        event_put_text(out, "application/coap-payload;cf=");
        event_put_text(out, number);
    }
    if (row != NULL && row->coding[0] != '\0') {
        event_put_text(out, "\",\"coding\":\"");
        event_put_text(out, row->coding);
    }
    event_put_text(out, "\",\"base64\":\"");
    put_base64(out, payload);
    event_put_text(out, "\"}\n");
}

/* "id: coap://192.0.2.5": the member of a group that has answered. */
static void put_member(struct event_text *out, const struct reply *reply)
{
    struct bytes value;
    struct cri cri;
    char uri[MEMBER_URI_MAX];
    size_t len = 0;
    if (!option_find(reply->options, OPTION_reply_from, &value)) {
        return;
    }
    const struct cri_slice encoded = {value.data, value.len};
    if (cri_decode(encoded, NULL, &cri, NULL) == CRI_OK &&
        cri_uri_format(&cri, NULL, uri, sizeof(uri), &len, NULL) == CRI_OK) {
        event_put_text(out, "id: ");
        event_put(out, uri, len);
        event_put_text(out, "\n");
    }
}

size_t http_event_format(const struct media_own *own, const struct reply *reply, bool is_member,
                         char *text, size_t capacity)
{
    struct event_text out = {.text = text, .capacity = capacity};
    uint32_t format = http_format_of(reply);
    bool is_text = format == MEDIA_NONE ? CODE_CLASS(reply->code) != 2 : media_is_text(own, format);
    char head[64];
    (void)snprintf(head, sizeof(head), "event: %u.%02u\n", CODE_CLASS(reply->code),
                   CODE_DETAIL(reply->code));
    event_put_text(&out, head);
    if (is_member) {
        put_member(&out, reply);
    } else if (reply->has_observe) {
        (void)snprintf(head, sizeof(head), "id: %" PRIu32 "\n", reply->observe);
        event_put_text(&out, head);
    } else if (CODE_CLASS(reply->code) == 2) {
        /* Nothing more will come: the client asks again when this is not fresh any more. */
        uint64_t wait_s = http_max_age_of(reply);
        (void)snprintf(head, sizeof(head), "retry: %" PRIu64 "\n",
                       (wait_s > 0 ? wait_s : 1) * 1000u);
        event_put_text(&out, head);
    }
    if (is_text && is_utf8_text(reply->payload)) {
        put_lines(&out, reply->payload);
    } else {
        put_binary(&out, reply->payload, format, media_by_number(own, format));
    }
    event_put_text(&out, "\n");
    return out.len;
}
