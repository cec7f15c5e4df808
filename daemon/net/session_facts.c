/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OpenSSL has one place for data of the application in a session and its tickets. Its first byte
 * says which of the facts follows: a session with a certificate has no pre-shared key.
 */
#include "net/session_facts.h"

#include <string.h>

#define KIND_ANCHOR 'a'
#define KIND_PSK 'p'

static bool note_fact(SSL_SESSION *session, char kind, const void *data, size_t len)
{
    char fact[1 + PSK_IDENTITY_MAX] = {kind};

    if (len == 0 || len > sizeof fact - 1) {
        return false;
    }
    memcpy(fact + 1, data, len);
    return SSL_SESSION_set1_ticket_appdata(session, fact, 1 + len) == 1;
}

/* What follows the first byte; NULL where there is no fact of this kind. Borrowed of @p session. */
static const char *fact_of(SSL_SESSION *session, char kind, size_t *ret_len)
{
    void *data = NULL;
    size_t len = 0;

    if (session == NULL || SSL_SESSION_get0_ticket_appdata(session, &data, &len) != 1 || len < 2 ||
        *(const char *)data != kind) {
        return NULL;
    }
    *ret_len = len - 1;
    return (const char *)data + 1;
}

bool facts_note_anchor(SSL_SESSION *session, const uint8_t anchor[CREDENTIALS_ANCHOR_LEN])
{
    return note_fact(session, KIND_ANCHOR, anchor, CREDENTIALS_ANCHOR_LEN);
}

bool facts_anchor(SSL_SESSION *session, uint8_t ret_anchor[CREDENTIALS_ANCHOR_LEN])
{
    size_t len = 0;
    const char *anchor = fact_of(session, KIND_ANCHOR, &len);

    if (anchor == NULL || len != CREDENTIALS_ANCHOR_LEN) {
        return false;
    }
    memcpy(ret_anchor, anchor, len);
    return true;
}

bool facts_note_psk(SSL_SESSION *session, const char *identity)
{
    return note_fact(session, KIND_PSK, identity, strlen(identity));
}

bool facts_psk(SSL_SESSION *session, char ret_identity[PSK_IDENTITY_MAX + 1])
{
    size_t len = 0;
    const char *identity = fact_of(session, KIND_PSK, &len);

    if (identity == NULL || len > PSK_IDENTITY_MAX) {
        return false;
    }
    memcpy(ret_identity, identity, len);
    ret_identity[len] = '\0';
    return true;
}

const char *facts_psk_identity(const SSL *ssl, char ret_identity[PSK_IDENTITY_MAX + 1])
{
    const char *told = SSL_get_psk_identity(ssl);

    if (told != NULL && strlen(told) <= PSK_IDENTITY_MAX) {
        memcpy(ret_identity, told, strlen(told) + 1);
        return ret_identity;
    }
    return told == NULL && facts_psk(SSL_get_session(ssl), ret_identity) ? ret_identity : NULL;
}
