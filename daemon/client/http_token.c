/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_token.h"

#include "client/side.h"
#include "client/stream_internal.h"
#include "net/digest.h"

#include <string.h>

/* What was decided for the client before was for another identity. */
static void set_identity(struct stream *stream, struct identity *identity)
{
    if (stream->identity != NULL || identity != NULL) {
        stream->peer.standing_epoch = stream->side->context.policy_epoch - 1;
    }
    identity_release(stream->identity);
    stream->identity = identity;
}

static const struct config_token *find_token(const struct config *config, struct bytes token)
{
    uint8_t digest[DIGEST_LEN];
    const struct config_token *found = NULL;
    if (!digest_sha256(token.data, token.len, digest)) {
        return NULL;
    }
    for (size_t i = 0; i < config->http_token_count; i++) {
        if (memcmp(config->http_tokens[i].digest, digest, sizeof(digest)) == 0) {
            found = &config->http_tokens[i];
        }
    }
    return found;
}

/* HC-15: a token in the clear could be read on the way. */
int http_token_take(struct stream *stream, struct bytes bearer)
{
    const struct config *config = stream->side->context.config;
    const struct conn *conn = stream->conn;
    set_identity(stream, NULL);
    if (bearer.len == 0 || config->http_token_count == 0) {
        return 0;
    }
    if (!transport_is_secure(conn_transport(conn)) && !address_is_loopback(conn_remote(conn))) {
        return 403;
    }
    const struct config_token *token = find_token(config, bearer);
    if (token == NULL) {
        return 401;
    }
    size_t len = strlen(token->identity);
    struct identity *identity = identity_new(IDENTITY_PSK, len + 1, NULL);
    if (identity == NULL) {
        return 503;
    }
    identity_add_name(identity, (const unsigned char *)token->identity, len);
    set_identity(stream, identity);
    return 0;
}
