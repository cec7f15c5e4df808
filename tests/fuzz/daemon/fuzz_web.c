/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as what comes over a WebSocket, on either side of it (RFC 6455): the request
 * and the answer of its opening handshake, the host that goes into a request, and frames.
 * The messages in frames are the same whether those come at once or byte by byte.
 *
 * The first byte says what the rest is.
 */
#include "net/ws_frames.h"
#include "net/ws_opening.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MAX 1000u
#define NAME_MAX_BYTES 255u

static const char accept_value[] = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="; /* RFC 6455 section 1.3 */

/* --- the opening handshake ---------------------------------------------- */

static void try_answer(const uint8_t *data, size_t size)
{
    const char *why = NULL;

    switch (ws_opening_read((const char *)data, size, accept_value, &why)) {
    case WS_OPENING_DONE:
        assert(memmem(data, size, accept_value, strlen(accept_value)) != NULL);
        assert(memcmp(data, "HTTP/1.1 101", 12) == 0);
        break;
    case WS_OPENING_AGAIN:
        assert(memcmp(data, "HTTP/1.1 1", 10) == 0);
        break;
    case WS_OPENING_REFUSED:
        assert(why != NULL);
        break;
    }
}

static void try_request(const uint8_t *data, size_t size)
{
    struct ws_request request;
    char answer[WS_ANSWER_MAX];

    int status = ws_upgrade_read((const char *)data, size, &request);
    assert(status >= 101 && status <= 505);
    assert(ws_upgrade_answer(status, &request, answer) > 0);
    if (status == 101) {
        assert(strlen(request.accept) == WS_ACCEPT_LEN && strpbrk(request.host, "\r\n /") == NULL);
    }
}

/* Whatever the name: one request, with one Host field, which our own side understands. */
static void try_name(const uint8_t *data, size_t size)
{
    static const uint8_t nonce[] = "the sample nonce";
    struct address address = {.family = ADDRESS_IPV4, .port = 8080};
    char name[NAME_MAX_BYTES + 1] = "", text[WS_OPENING_MAX], accept[WS_ACCEPT_LEN + 1];
    struct ws_request request;

    memcpy(name, data, size < NAME_MAX_BYTES ? size : NAME_MAX_BYTES);
    size_t len = ws_opening_write(name, &address, 80, nonce, text, accept);
    assert(len > 0 && len == strlen(text) && strcmp(accept, accept_value) == 0);
    assert(strstr(text, "\r\n\r\n") == text + len - 4);
    int status = ws_upgrade_read(text, len, &request);
    assert(status == 101 || (status == 400 && strlen(name) > 80)); /* a Host of 256 at most */
}

/* --- frames ------------------------------------------------------------- */

struct side {
    const uint8_t *data;
    size_t left;
    bool is_slow, is_dry; /* a byte, then none for now, and so on */
    struct ws_frames *frames;
    uint64_t heard, count; /* a checksum of the messages */
    uint64_t bits;
};

static size_t on_read(void *context, uint8_t *data, size_t capacity)
{
    struct side *side = context;
    size_t len = side->left < capacity ? side->left : capacity;

    side->is_dry = side->is_slow && !side->is_dry;
    if (side->is_slow) {
        len = side->is_dry && len > 0 ? 1 : 0;
    }
    memcpy(data, side->data, len);
    side->data += len;
    side->left -= len;
    return len;
}

static bool on_write(void *context, const uint8_t *data, size_t len)
{
    (void)context;
    (void)data;
    assert(len > 0);
    return true;
}

static void on_message(void *context, const uint8_t *data, size_t len)
{
    struct side *side = context;

    assert(len <= MESSAGE_MAX);
    for (size_t i = 0; i < len; i++) {
        side->heard = side->heard * 31 + data[i];
    }
    side->count++;
    assert(ws_frames_send(side->frames, data, len));
}

static uint64_t on_random(void *context)
{
    struct side *side = context;
    return side->bits += 0x9e3779b97f4a7c15u;
}

static void run(struct side *side, const struct ws_frames_handler *handler)
{
    side->frames = ws_frames_new(handler, side, MESSAGE_MAX);
    assert(side->frames != NULL);
    while (side->left > 0 && ws_frames_input(side->frames) == WS_OPEN) {
    }
    ws_frames_close(side->frames);
    ws_frames_free(side->frames);
}

static void try_frames(const uint8_t *data, size_t size, bool is_client)
{
    const struct ws_frames_handler handler = {on_read, on_write, on_message,
                                              is_client ? on_random : NULL};
    struct side quick = {.data = data, .left = size};
    struct side slow = {.data = data, .left = size, .is_slow = true};

    /* Not the end: wslay looks at a Close frame's text in what comes at once only. */
    run(&quick, &handler);
    run(&slow, &handler);
    assert(quick.heard == slow.heard && quick.count == slow.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    uint8_t *copy = malloc(size); /* of its own length: a sanitizer sees what is read past it */
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, data + 1, size - 1);
    switch (data[0] % 5) {
    case 0:
        try_answer(copy, size - 1);
        break;
    case 1:
        try_request(copy, size - 1);
        break;
    case 2:
        try_name(copy, size - 1);
        break;
    default:
        try_frames(copy, size - 1, data[0] % 5 == 3);
        break;
    }
    free(copy);
    return 0;
}
