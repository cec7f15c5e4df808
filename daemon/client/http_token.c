/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_token.h"

#include "client/side.h"
#include "client/stream_internal.h"

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

/* Each is looked at, so that the time says nothing. */
static const struct config_token *find_token(const struct config *config,
                                             const uint8_t digest[DIGEST_LEN])
{
    const struct config_token *found = NULL;
    for (size_t i = 0; i < config->http_token_count; i++) {
        if (memcmp(config->http_tokens[i].digest, digest, DIGEST_LEN) == 0) {
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
    uint8_t digest[DIGEST_LEN];
    set_identity(stream, NULL);
    if (bearer.len == 0 || config->http_token_count == 0) {
        return 0;
    }
    if (!transport_is_secure(conn_transport(conn)) && !address_is_loopback(conn_remote(conn))) {
        return 403;
    }
    const struct config_token *token =
        digest_sha256(bearer.data, bearer.len, digest) ? find_token(config, digest) : NULL;
    if (token == NULL) {
        return 401;
    }
    size_t len = strlen(token->identity);
    const unsigned char *name = (const unsigned char *)token->identity;
    struct identity *identity = identity_new(IDENTITY_PSK, identity_name_bytes(name, len), NULL);
    if (identity == NULL) {
        return 503;
    }
    identity_add_name(identity, name, len);
    set_identity(stream, identity);
    memcpy(stream->token, digest, sizeof(digest));
    return 0;
}

bool http_token_holds(const struct stream *stream)
{
    if (stream->identity == NULL) {
        return true;
    }
    const struct config_token *token = find_token(stream->side->context.config, stream->token);
    return token != NULL && identity_has_name(stream->identity, IDENTITY_PSK, token->identity);
}
