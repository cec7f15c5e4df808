/* SPDX-License-Identifier: BSD-2-Clause */
/* The body of an HTTP request while it is received: joined, within what all connections may have.
 */
#ifndef CRIPROXY_HTTP_BODY_H
#define CRIPROXY_HTTP_BODY_H

#include "base/account.h"
#include "client/http_head.h"
#include "client/http_parse.h"

struct client_side;

/* The least memory of a body: with it as many bodies are charged to their sources as there can be.
 */
#define HTTP_BODY_BYTES_MIN 4096u

struct http_body {
    bool is_chunked;
    struct http_chunks chunks;
    uint64_t left; /* bytes to come, where it is not chunked */
    uint8_t *data;
    size_t len, capacity;   /* the capacity is counted in http_fronts.body_bytes, */
    struct holding holding; /* and charged to the source of the client, */
    struct address remote;  /* which is here */
    uint64_t begun_ms;
};

/**
 * The lengths of the body that follows the head of @p line, from the client at @p remote, copied.
 * @p body has been cleared.
 */
void http_body_begin(struct http_body *body, const struct http_line *line,
                     const struct address *remote, uint64_t now_ms);

/**
 * The body that has to go before @p body can have room for @p len bytes in all: the oldest of the
 * source that holds most of block.bodies-bytes, unless all holds are equal and it has just begun.
 *
 * @return borrowed, and not @p body: its owner clears it, and asks again. NULL: none, there is room
 *         or none to be had.
 */
struct http_body *http_body_in_the_way(const struct http_body *body, const struct client_side *side,
                                       size_t len);

/**
 * Room for @p len bytes in all.
 *
 * @return false without memory, and where block.bodies-bytes would be passed.
 */
bool http_body_reserve(struct http_body *body, struct client_side *side, size_t len);

/** Append bytes, copied. @return false where block.body-bytes is passed, or there is no room. */
bool http_body_add(struct http_body *body, struct client_side *side, struct bytes piece);

/** How many bytes at the start of @p input are the body's; HTTP_CHUNKS_BAD: they are malformed. */
size_t http_body_check(struct http_body *body, struct bytes input);

/** Whether all of it has been checked; false before. */
bool http_body_is_whole(const struct http_body *body);

/** Frees what it holds, and gives it back to its source. */
void http_body_clear(struct http_body *body, struct client_side *side);

#endif
