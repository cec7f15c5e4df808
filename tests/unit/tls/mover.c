/* SPDX-License-Identifier: BSD-2-Clause */
#include "mover.h"

#include <string.h>

static struct record_crypto *shared_crypto;

struct record_crypto *mover_crypto(void)
{
    if (shared_crypto == NULL) {
        shared_crypto = record_crypto_new();
        assert_non_null(shared_crypto);
    }
    return shared_crypto;
}

void mover_crypto_free(void)
{
    record_crypto_free(shared_crypto);
    shared_crypto = NULL;
}

static int mover_add_offer(SSL *ssl, unsigned type, unsigned context, const unsigned char **ret_out,
                           size_t *ret_len, X509 *certificate, size_t chain_index, int *ret_alert,
                           void *argument)
{
    const struct mover *mover = argument;
    (void)ssl, (void)type, (void)context, (void)certificate, (void)chain_index, (void)ret_alert;
    *ret_out = mover->offer;
    *ret_len = mover->offer_len;
    return 1;
}

static int mover_take_answer(SSL *ssl, unsigned type, unsigned context, const unsigned char *in,
                             size_t len, X509 *certificate, size_t chain_index, int *ret_alert,
                             void *argument)
{
    struct mover *mover = argument;
    (void)ssl, (void)type, (void)context, (void)certificate, (void)chain_index, (void)ret_alert;
    assert_int_equal(len, 1 + CID_BYTES);
    assert_int_equal(in[0], CID_BYTES);
    mover->has_answer = true;
    mover->records.has_cid = true;
    mover->records.cid_len = mover->offer[0];
    mover->records.peer_cid_len = CID_BYTES;
    memcpy(mover->records.peer_cid, in + 1, CID_BYTES);
    return 1;
}

static void mover_offer_ids(SSL_CTX *context, struct client *client)
{
    assert_int_equal(
        SSL_CTX_add_custom_ext(context, 54, SSL_EXT_CLIENT_HELLO | SSL_EXT_TLS1_2_SERVER_HELLO,
                               mover_add_offer, NULL, client, mover_take_answer, client),
        1);
}

/* @return whether the keys are there */
static bool mover_find_keys(struct mover *mover)
{
    mover->has_keys =
        mover->has_keys || records_begin(mover_crypto(), mover->client.ssl, &mover->records);
    return mover->has_keys;
}

static void mover_on_sent(struct client *client)
{
    struct mover *mover = (struct mover *)(void *)client;
    static const uint8_t plain[] = {20, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 1};
    const uint8_t *data = client->sent;
    size_t len = client->sent_len, used = 0;
    struct record_view view;
    uint8_t out[4096], content[2048];

    if (!mover->has_answer) {
        return;
    }
    if (mover->is_packed && record_parse(data, len, 0, &view) && view.epoch == 1) {
        memcpy(out, plain, sizeof plain);
        used = sizeof plain;
    }
    for (; record_parse(data, len, 0, &view); data += view.whole_len, len -= view.whole_len) {
        size_t content_len = 0;
        if (view.epoch == 0) {
            memcpy(out + used, view.whole, view.whole_len);
            used += view.whole_len;
            continue;
        }
        assert_true(mover_find_keys(mover));
        records_note_own(&mover->records, &view, DTLS_CID_GAP);
        assert_true(
            records_open_own(mover_crypto(), &mover->records, &view, content, &content_len));
        used += records_seal(mover_crypto(), &mover->records, view.type, content, content_len,
                             out + used);
    }
    client->is_held = true;
    memcpy(client->sent, out, used); /* as it is on the network */
    client->sent_len = used;
    fake_peer_send_bytes(client->peer, &server_address, out, used);
}

bool mover_on_got(struct client *client, const uint8_t *data, size_t len)
{
    struct mover *mover = (struct mover *)(void *)client;
    struct record_view view;
    uint8_t content[2048];

    client->got_len = 0;
    while (record_parse(data, len, mover->offer[0], &view)) {
        if (view.epoch != 0 && !mover->has_keys && client->got_len > 0) {
            client->later_len = len; /* when OpenSSL has read what makes the keys */
            memcpy(client->later, data, len);
            return true;
        }
        if (view.epoch != 0 && !mover_find_keys(mover)) {
            return false; /* what comes before it was lost, and OpenSSL would keep it */
        }
        if (view.epoch != 0) {
            mover->with_id += view.type == CONTENT_CID;
            mover->without += view.type != CONTENT_CID;
        }
        if (view.type == CONTENT_CID) {
            struct record_content_of inner = {.data = content};
            assert_memory_equal(view.cid, mover->offer + 1, mover->offer[0]);
            assert_int_equal(records_open(mover_crypto(), &mover->records, &view, content,
                                          &inner.len, &inner.type),
                             RECORD_OPENED);
            records_accept(&mover->records, view.number);
            client->got_len += records_seal_theirs(mover_crypto(), &mover->records, &view, &inner,
                                                   client->got + client->got_len);
        } else {
            memcpy(client->got + client->got_len, view.whole, view.whole_len);
            client->got_len += view.whole_len;
        }
        data += view.whole_len;
        len -= view.whole_len;
    }
    return true;
}

void mover_open(struct mover *mover, const char *address, const char *suite, uint8_t id_len)
{
    struct client_wish wish = {.address = address, .suites = suite, .on_context = mover_offer_ids};

    mover->records = (struct records){0};
    mover->has_keys = mover->has_answer = mover->is_packed = false;
    mover->with_id = mover->without = 0;
    mover->offer[0] = id_len;
    mover->offer_len = 1u + id_len;
    memset(mover->offer + 1, 0xc1, id_len);
    client_open(&mover->client, &wish);
    mover->client.on_sent = mover_on_sent;
    mover->client.on_got = mover_on_got;
}

void mover_restart(struct mover *mover)
{
    client_restart(&mover->client);
    mover->has_keys = mover->has_answer = false;
    mover->records = (struct records){0};
    mover->client.later_len = mover->client.got_len = 0;
}
