/* SPDX-License-Identifier: BSD-2-Clause */
/* Bodies of HTTP requests while they are received, and the memory that they have together. */
#include "client/http_front_internal.h"

#include <stdlib.h>

/* As long as all sources hold as much as another, no body ends before it has had so long. */
#define PATIENCE_MS 5000u

void http_body_begin(struct http_body *body, const struct http_line *line,
                     const struct http_head_limits *trailer, const struct address *remote,
                     uint64_t now_ms)
{
    *body = (struct http_body){.is_chunked = line->is_chunked,
                               .chunks = {.trailer = *trailer},
                               .left = line->length,
                               .remote = *remote,
                               .begun_ms = now_ms};
}

/* How much more memory it needs for @p len bytes in all. */
static size_t body_growth(const struct http_body *body, size_t len)
{
    size_t capacity = body->capacity * 2 > len ? body->capacity * 2 : len;
    capacity = capacity < HTTP_BODY_BYTES_MIN ? HTTP_BODY_BYTES_MIN : capacity;
    return len <= body->capacity ? 0 : capacity - body->capacity;
}

static bool budget_has(const struct client_side *side, size_t more)
{
    return more <= side->context.config->block_bodies_bytes - side->http.body_bytes;
}

struct http_body *http_body_in_the_way(const struct http_body *body, const struct client_side *side,
                                       size_t len)
{
    size_t more = body_growth(body, len);
    bool is_owed;
    if (budget_has(side, more)) {
        return NULL;
    }
    if (side->http.spare.first != NULL) {
        return HASH_ENTRY(side->http.spare.first, struct http_body, spare);
    }
    struct holding *holding = account_yield(&side->http.bodies, &body->remote, more, &is_owed);
    if (holding == NULL || holding == &body->holding) {
        return NULL;
    }
    struct http_body *other = HASH_ENTRY(holding, struct http_body, holding);
    bool goes = is_owed || context_now_ms(&side->context) - other->begun_ms >= PATIENCE_MS;
    return goes ? other : NULL;
}

bool http_body_reserve(struct http_body *body, struct client_side *side, size_t len)
{
    struct http_fronts *all = &side->http;
    size_t more = body_growth(body, len);
    if (more == 0) {
        return true;
    }
    if (!budget_has(side, more)) {
        return false;
    }
    uint8_t *data = realloc(body->data, body->capacity + more);
    if (data == NULL) {
        return false;
    }
    if (body->capacity == 0) {
        account_charge(&all->bodies, &body->holding, &body->remote, more);
    } else {
        account_resize(&all->bodies, &body->holding, body->capacity + more);
    }
    all->body_bytes += more;
    body->data = data;
    body->capacity += more;
    return true;
}

bool http_body_add(struct http_body *body, struct client_side *side, struct bytes piece)
{
    if (!http_body_reserve(body, side, body->len + piece.len)) {
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

void http_body_spare(struct http_body *body, struct client_side *side)
{
    if (!body->is_spare) {
        body->is_spare = true;
        list_add(&side->http.spare, &body->spare);
    }
}

void http_body_need(struct http_body *body, struct client_side *side)
{
    if (body->is_spare) {
        body->is_spare = false;
        list_remove(&side->http.spare, &body->spare);
    }
}

void http_body_clear(struct http_body *body, struct client_side *side)
{
    http_body_need(body, side);
    account_discharge(&side->http.bodies, &body->holding);
    side->http.body_bytes -= body->capacity;
    free(body->data);
    *body = (struct http_body){.is_chunked = false};
}
