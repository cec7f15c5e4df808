/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bearer tokens (http.tokens-file): a request with one is that of an identity, like one of a client
 * with a pre-shared key.
 */
#ifndef CRIPROXY_HTTP_TOKEN_H
#define CRIPROXY_HTTP_TOKEN_H

#include "coap/message.h"

#include <stdbool.h>

struct stream;

/**
 * Give @p stream the identity of the token @p bearer, or take back that of the request before.
 *
 * @param bearer borrowed; empty: the request has none.
 * @return 0, or the status with which the request is refused.
 */
int http_token_take(struct stream *stream, struct bytes bearer);

/**
 * Whether the token that gave @p stream its identity is in http.tokens-file, as that was read last;
 * true where none did.
 */
bool http_token_holds(const struct stream *stream);

#endif
