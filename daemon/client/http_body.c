/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_body.h"

#include "client/side.h"

#include <stdlib.h>

/* First room for a body whose length is not known. */
#define BODY_BYTES_MIN 4096u

void http_body_begin(struct http_body *body, const struct http_line *line, uint64_t until_ms)
{
    *body = (struct http_body){
        .is_chunked = line->is_chunked, .left = line->length, .until_ms = until_ms};
}

bool http_body_reserve(struct http_body *body, struct client_side *side, size_t len)
{
    struct http_fronts *all = &side->http;
    if (len <= body->capacity) {
        return true;
    }
    size_t capacity = body->capacity * 2 > len ? body->capacity * 2 : len;
    capacity = capacity < BODY_BYTES_MIN ? BODY_BYTES_MIN : capacity;
    if (capacity - body->capacity > side->context.config->block_bodies_bytes - all->body_bytes) {
        return false;
    }
    uint8_t *data = realloc(body->data, capacity);
    if (data == NULL) {
        return false;
    }
    all->body_bytes += capacity - body->capacity;
    body->data = data;
    body->capacity = capacity;
    return true;
}

bool http_body_add(struct http_body *body, struct client_side *side, struct bytes piece)
{
    if (piece.len > side->fetch.bodies.body_max - body->len ||
        !http_body_reserve(body, side, body->len + piece.len)) {
        return false;
    }
    memcpy(body->data + body->len, piece.data, piece.len);
    body->len += piece.len;
    return true;
}

size_t http_body_check(struct http_body *body, struct bytes input)
{
    if (body->is_chunked) {
        return http_chunks_check(&body->chunks, input);
    }
    size_t len = input.len < body->left ? input.len : (size_t)body->left;
    body->left -= len;
    return len;
}

bool http_body_is_whole(const struct http_body *body)
{
    return body->is_chunked ? http_chunks_ended(&body->chunks) : body->left == 0;
}

void http_body_clear(struct http_body *body, struct client_side *side)
{
    side->http.body_bytes -= body->capacity;
    free(body->data);
    *body = (struct http_body){.is_chunked = false};
}
