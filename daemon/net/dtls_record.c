/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/dtls_record.h"

#include "base/pack.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX ((UINT64_C(1) << 48) - 1)
#define EXTENSION_CONNECTION_ID 54
#define PLAINTEXT_MAX 16384u /* RFC 6347 section 4.1.1 */
#define EXPLICIT_NONCE 8u    /* of CCM and GCM */
#define NONCE_LEN 12u
#define SECRET_LEN 48u
#define WINDOW 64u

/* seq_num and the rest, RFC 5246 section 6.2.3.3; with a connection id RFC 9146 section 5.3. */
#define AAD_MAX (8u + 3u + 2u + 8u + RECORD_CID_MAX + 2u)

enum aead {
    AEAD_CCM,
    AEAD_GCM,
    AEAD_CHACHA,
};

static const struct suite {
    const char *name, *cipher; /* ours; for EVP_CIPHER_fetch() */
    int nid;                   /* SSL_CIPHER_get_cipher_nid() */
    enum aead aead;
    uint8_t key_len, iv_len, tag_len;
} suites[] = {
    {"AES-128-CCM8", "AES-128-CCM", NID_aes_128_ccm, AEAD_CCM, 16, 4, 8},
    {"AES-128-CCM", "AES-128-CCM", NID_aes_128_ccm, AEAD_CCM, 16, 4, 16},
    {"AES-256-CCM8", "AES-256-CCM", NID_aes_256_ccm, AEAD_CCM, 32, 4, 8},
    {"AES-256-CCM", "AES-256-CCM", NID_aes_256_ccm, AEAD_CCM, 32, 4, 16},
    {"AES-128-GCM", "AES-128-GCM", NID_aes_128_gcm, AEAD_GCM, 16, 4, 16},
    {"AES-256-GCM", "AES-256-GCM", NID_aes_256_gcm, AEAD_GCM, 32, 4, 16},
    {"CHACHA20-POLY1305", "ChaCha20-Poly1305", NID_chacha20_poly1305, AEAD_CHACHA, 32, 12, 16},
};
#define SUITE_COUNT (sizeof suites / sizeof suites[0])

/* Contexts for one suite, made at its first record. */
struct suite_contexts {
    EVP_CIPHER_CTX *seal, *open;
};

struct record_crypto {
    EVP_KDF *prf;
    struct suite_contexts contexts[SUITE_COUNT];
};

/* ---- ciphers ---- */

struct record_crypto *record_crypto_new(void)
{
    if (OSSL_PROVIDER_available(NULL, "fips") == 1 ||
        EVP_default_properties_is_fips_enabled(NULL) == 1) {
        return NULL;
    }
    struct record_crypto *crypto = calloc(1, sizeof *crypto);
    if (crypto == NULL) {
        return NULL;
    }
    crypto->prf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_PRF, NULL);
    if (crypto->prf == NULL) {
        ERR_clear_error();
        free(crypto);
        return NULL;
    }
    return crypto;
}

void record_crypto_free(struct record_crypto *crypto)
{
    if (crypto == NULL) {
        return;
    }
    for (size_t i = 0; i < SUITE_COUNT; i++) {
        EVP_CIPHER_CTX_free(crypto->contexts[i].seal); /* wipes its key */
        EVP_CIPHER_CTX_free(crypto->contexts[i].open);
    }
    EVP_KDF_free(crypto->prf);
    free(crypto);
}

static EVP_CIPHER_CTX *make_cipher_context(const struct suite *suite, int is_sealing)
{
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, suite->cipher, NULL);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool good =
        cipher != NULL && context != NULL &&
        EVP_CipherInit_ex2(context, cipher, NULL, NULL, is_sealing, NULL) == 1 &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, NONCE_LEN, NULL) == 1 &&
        /* CCM has to know the length of the tag before the key; opening, it is told with the tag */
        (suite->aead != AEAD_CCM || is_sealing == 0 ||
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, suite->tag_len, NULL) == 1);

    EVP_CIPHER_free(cipher); /* the context holds it */
    if (!good) {
        EVP_CIPHER_CTX_free(context);
        ERR_clear_error();
        return NULL;
    }
    return context;
}

static EVP_CIPHER_CTX *cipher_context(struct record_crypto *crypto, uint8_t suite, bool is_sealing)
{
    struct suite_contexts *contexts = &crypto->contexts[suite];
    EVP_CIPHER_CTX **context = is_sealing ? &contexts->seal : &contexts->open;

    if (*context == NULL) {
        *context = make_cipher_context(&suites[suite], is_sealing ? 1 : 0);
    }
    return *context;
}

/* A record for the cipher. */
struct envelope {
    const struct suite *suite;
    const uint8_t *key;
    uint8_t nonce[NONCE_LEN];
    uint8_t aad[AAD_MAX];
    size_t aad_len;
    const uint8_t *in;  /* may be out */
    uint8_t *out, *tag; /* the tag is written, or verified */
    size_t len;
};

/* CCM wants all lengths first, and has no end: it verifies its tag as soon as it has all. */
static bool run_cipher(EVP_CIPHER_CTX *context, const struct envelope *envelope)
{
    int done = 0, len = (int)envelope->len;
    bool is_ccm = envelope->suite->aead == AEAD_CCM;

    return EVP_CipherInit_ex2(context, NULL, envelope->key, envelope->nonce, -1, NULL) == 1 &&
           (!is_ccm || EVP_CipherUpdate(context, NULL, &done, NULL, len) == 1) &&
           EVP_CipherUpdate(context, NULL, &done, envelope->aad, (int)envelope->aad_len) == 1 &&
           EVP_CipherUpdate(context, envelope->out, &done, envelope->in, len) == 1 && done == len &&
           (is_ccm || EVP_CipherFinal_ex(context, envelope->out + envelope->len, &done) == 1);
}

static bool seal_envelope(EVP_CIPHER_CTX *context, const struct envelope *envelope)
{
    bool good = context != NULL && run_cipher(context, envelope) &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, envelope->suite->tag_len,
                                    envelope->tag) == 1;

    ERR_clear_error();
    return good;
}

static bool open_envelope(EVP_CIPHER_CTX *context, const struct envelope *envelope)
{
    bool good = context != NULL &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, envelope->suite->tag_len,
                                    envelope->tag) == 1 &&
                run_cipher(context, envelope);

    ERR_clear_error();
    return good;
}

/* ---- nonces and additional data ---- */

static uint8_t *put_number(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
    return at + bytes;
}

static uint64_t get_number(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

static uint64_t with_epoch(uint64_t number)
{
    return UINT64_C(1) << 48 | number;
}

static bool has_explicit_nonce(const struct suite *suite)
{
    return suite->aead != AEAD_CHACHA;
}

static size_t explicit_len(const struct suite *suite)
{
    return has_explicit_nonce(suite) ? EXPLICIT_NONCE : 0;
}

/* @p explicit_nonce is 8 bytes in the record; ChaCha20 has none (RFC 7905 section 2). */
static void make_nonce(const struct suite *suite, const struct record_key *key, uint64_t number,
                       const uint8_t *explicit_nonce, uint8_t ret_nonce[NONCE_LEN])
{
    memcpy(ret_nonce, key->iv, suite->iv_len);
    if (has_explicit_nonce(suite)) {
        memcpy(ret_nonce + suite->iv_len, explicit_nonce, EXPLICIT_NONCE);
        return;
    }
    uint8_t counter[8];
    (void)put_number(counter, with_epoch(number), sizeof counter);
    for (size_t i = 0; i < sizeof counter; i++) {
        ret_nonce[NONCE_LEN - sizeof counter + i] ^= counter[i];
    }
}

/* @p plaintext_len is that of the content, with a connection id that of DTLSInnerPlaintext. */
static void make_aad(struct envelope *envelope, const struct record_view *view,
                     size_t plaintext_len)
{
    uint8_t *at = envelope->aad;

    if (view->type == CONTENT_CID) {
        memset(at, 0xff, 8);
        at += 8;
        *at++ = CONTENT_CID;
        *at++ = (uint8_t)view->cid_len;
    } else {
        at = put_number(at, with_epoch(view->number), 8);
    }
    *at++ = view->type;
    *at++ = 0xfe;
    *at++ = 0xfd;
    if (view->type == CONTENT_CID) {
        at = put_number(at, with_epoch(view->number), 8);
        for (size_t i = 0; i < view->cid_len; i++) {
            *at++ = view->cid[i];
        }
    }
    at = put_number(at, plaintext_len, 2);
    envelope->aad_len = (size_t)(at - envelope->aad);
}

/* ---- keys ---- */

/* The last part of the name tells 8 byte tags from whole ones, which have the same cipher. */
static bool find_suite(const SSL_CIPHER *cipher, uint8_t *ret_suite)
{
    const char *name = cipher == NULL ? "" : SSL_CIPHER_get_name(cipher);
    size_t len = strlen(name);
    uint8_t tag_len = len > 4 && strcmp(name + len - 4, "CCM8") == 0 ? 8 : 16;

    for (size_t i = 0; cipher != NULL && i < SUITE_COUNT; i++) {
        if (suites[i].nid == SSL_CIPHER_get_cipher_nid(cipher) && suites[i].tag_len == tag_len) {
            *ret_suite = (uint8_t)i;
            return true;
        }
    }
    return false;
}

/* RFC 5246 section 6.3: client's key, server's key, client's IV, server's IV; AEAD has no MAC. */
static bool derive_key_block(struct record_crypto *crypto, const SSL *ssl, const EVP_MD *digest,
                             uint8_t *ret_block, size_t len)
{
    char name[64] = "", label[] = "key expansion";
    uint8_t secret[SECRET_LEN], randoms[2 * SSL3_RANDOM_SIZE];
    const SSL_SESSION *session = SSL_get_session(ssl);
    size_t secret_len =
        session == NULL ? 0 : SSL_SESSION_get_master_key(session, secret, sizeof secret);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(crypto->prf);
    bool good = secret_len == sizeof secret && digest != NULL && context != NULL &&
                SSL_get_server_random(ssl, randoms, SSL3_RANDOM_SIZE) == SSL3_RANDOM_SIZE &&
                SSL_get_client_random(ssl, randoms + SSL3_RANDOM_SIZE, SSL3_RANDOM_SIZE) ==
                    SSL3_RANDOM_SIZE;

    if (good) {
        OPENSSL_strlcpy(name, EVP_MD_get0_name(digest), sizeof name);
        const OSSL_PARAM params[] = {
            OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, name, 0),
            OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SECRET, secret, secret_len),
            OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SEED, label, sizeof label - 1),
            OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SEED, randoms, sizeof randoms),
            OSSL_PARAM_construct_end(),
        };
        good = EVP_KDF_derive(context, ret_block, len, params) == 1;
    }
    EVP_KDF_CTX_free(context);
    OPENSSL_cleanse(secret, sizeof secret);
    return good;
}

bool records_begin(struct record_crypto *crypto, const SSL *ssl, struct records *ret_records)
{
    const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);
    uint8_t block[2 * (RECORD_KEY_MAX + RECORD_IV_MAX)];
    uint8_t suite = 0;

    if (!find_suite(cipher, &suite)) {
        return false;
    }
    size_t key_len = suites[suite].key_len, iv_len = suites[suite].iv_len;
    bool good = derive_key_block(crypto, ssl, SSL_CIPHER_get_handshake_digest(cipher), block,
                                 2 * (key_len + iv_len));
    ERR_clear_error();
    if (good) {
        bool is_server = SSL_is_server(ssl) == 1;
        struct record_key *client = is_server ? &ret_records->theirs : &ret_records->ours;
        struct record_key *server = is_server ? &ret_records->ours : &ret_records->theirs;
        ret_records->suite = suite;
        memcpy(client->key, block, key_len);
        memcpy(server->key, block + key_len, key_len);
        memcpy(client->iv, block + 2 * key_len, iv_len);
        memcpy(server->iv, block + 2 * key_len + iv_len, iv_len);
    }
    OPENSSL_cleanse(block, sizeof block);
    return good;
}

const char *records_suite_name(const struct records *records)
{
    return suites[records->suite].name;
}

size_t records_room(const struct records *records)
{
    size_t most = records->fragment == 0 ? PLAINTEXT_MAX : (size_t)256 << records->fragment;

    return most - (records->peer_cid_len > 0 ? 1 : 0);
}

void records_clear(struct records *records)
{
    OPENSSL_cleanse(records, sizeof *records);
}

/* ---- connection_id ---- */

/* A client may offer an id that is too long for us: then there are none. A server that answers with
 * one has decided on it. OpenSSL's parameters. NOLINTNEXTLINE(readability-function-size) */
static int on_cid_of_peer(SSL *ssl, unsigned type, unsigned context, const unsigned char *in,
                          size_t len, X509 *certificate, size_t chain_index, int *ret_alert,
                          void *argument)
{
    const struct cid_extension *extension = argument;
    (void)type, (void)context, (void)certificate, (void)chain_index;

    bool is_long = len >= 1 && in[0] > RECORD_CID_MAX;
    if (len < 1 || in[0] != len - 1 || (is_long && !SSL_is_server(ssl))) {
        *ret_alert = SSL_AD_DECODE_ERROR;
        return 0;
    }
    struct records *records = extension->note_in(ssl);
    if (records != NULL && !is_long) {
        records->has_cid = true;
        records->peer_cid_len = in[0];
        memcpy(records->peer_cid, in + 1, in[0]);
    }
    return 1;
}

/* OpenSSL's parameters. NOLINTNEXTLINE(readability-function-size) */
static int on_own_cid(SSL *ssl, unsigned type, unsigned context, const unsigned char **ret_out,
                      size_t *ret_len, X509 *certificate, size_t chain_index, int *ret_alert,
                      void *argument)
{
    const struct cid_extension *extension = argument;
    const uint8_t *ours = extension->ours(ssl);
    (void)type, (void)context, (void)certificate, (void)chain_index, (void)ret_alert;

    if (ours == NULL) {
        return 0;
    }
    *ret_out = ours;
    *ret_len = 1u + ours[0];
    return 1;
}

bool records_add_cid_extension(SSL_CTX *context, const struct cid_extension *extension)
{
    void *argument = (void *)(uintptr_t)extension; /* OpenSSL gives it back unchanged */

    return SSL_CTX_add_custom_ext(context, EXTENSION_CONNECTION_ID,
                                  SSL_EXT_CLIENT_HELLO | SSL_EXT_TLS1_2_SERVER_HELLO |
                                      SSL_EXT_DTLS_ONLY,
                                  on_own_cid, NULL, argument, on_cid_of_peer, argument) == 1;
}

/* ---- to the next process ---- */

static void pack_key(const struct record_key *key, struct pack *out)
{
    pack_raw(out, key->key, sizeof key->key);
    pack_raw(out, key->iv, sizeof key->iv);
}

static void unpack_key(struct unpack *in, struct record_key *ret_key)
{
    unpack_raw(in, ret_key->key, sizeof ret_key->key);
    unpack_raw(in, ret_key->iv, sizeof ret_key->iv);
}

void records_pack(const struct records *records, struct pack *out)
{
    const char *name = suites[records->suite].name;

    pack_bytes(out, name, strlen(name));
    pack_key(&records->ours, out);
    pack_key(&records->theirs, out);
    pack_uint(out, records->next, 8);
    pack_uint(out, records->nonce_base, 8);
    pack_uint(out, records->newest, 8);
    pack_uint(out, records->seen, 8);
    pack_uint(out, records->has_cid, 1);
    pack_uint(out, records->cid_len, 1);
    pack_uint(out, records->fragment, 1);
    pack_bytes(out, records->peer_cid, records->peer_cid_len);
}

static bool find_suite_by_name(const uint8_t *name, size_t len, uint8_t *ret_suite)
{
    for (size_t i = 0; i < SUITE_COUNT; i++) {
        if (strlen(suites[i].name) == len && memcmp(suites[i].name, name, len) == 0) {
            *ret_suite = (uint8_t)i;
            return true;
        }
    }
    return false;
}

bool records_unpack(struct unpack *in, struct records *ret_records)
{
    size_t name_len, peer_len;
    const uint8_t *name = unpack_bytes(in, &name_len);

    *ret_records = (struct records){0};
    unpack_key(in, &ret_records->ours);
    unpack_key(in, &ret_records->theirs);
    ret_records->next = unpack_uint(in, 8);
    ret_records->nonce_base = unpack_uint(in, 8);
    ret_records->newest = unpack_uint(in, 8);
    ret_records->seen = unpack_uint(in, 8);
    ret_records->has_cid = unpack_uint(in, 1) != 0;
    ret_records->cid_len = (uint8_t)unpack_uint(in, 1);
    ret_records->fragment = (uint8_t)unpack_uint(in, 1);
    const uint8_t *peer = unpack_bytes(in, &peer_len);
    if (in->has_failed || peer_len > RECORD_CID_MAX ||
        ret_records->fragment > TLSEXT_max_fragment_length_4096 ||
        !find_suite_by_name(name, name_len, &ret_records->suite)) {
        records_clear(ret_records);
        return false;
    }
    ret_records->peer_cid_len = (uint8_t)peer_len;
    memcpy(ret_records->peer_cid, peer, peer_len);
    return true;
}

/* ---- the way in ---- */

bool record_parse(const uint8_t *data, size_t len, size_t cid_len, struct record_view *ret_view)
{
    size_t cid = len > 0 && data[0] == CONTENT_CID ? cid_len : 0;
    size_t header = DTLS_RECORD_HEADER + cid;

    if (len < header) {
        return false;
    }
    size_t payload_len = (size_t)get_number(data + header - 2, 2);
    if (payload_len > len - header) {
        return false;
    }
    *ret_view = (struct record_view){
        .type = data[0],
        .version = (uint16_t)get_number(data + 1, 2),
        .epoch = (uint16_t)get_number(data + 3, 2),
        .number = get_number(data + 5, 6),
        .whole = data,
        .cid = data + 11,
        .payload = data + header,
        .whole_len = header + payload_len,
        .cid_len = cid,
        .payload_len = payload_len,
    };
    return true;
}

bool records_may_hold(const struct records *records, const struct record_view *view,
                      size_t plaintext_len)
{
    const struct suite *suite = &suites[records->suite];
    size_t inner = view->type == CONTENT_CID ? 1 : 0;

    return view->payload_len >= plaintext_len + inner + explicit_len(suite) + suite->tag_len;
}

static bool is_replayed(const struct records *records, uint64_t number)
{
    if (number > records->newest) {
        return false;
    }
    uint64_t age = records->newest - number;
    return age >= WINDOW || (records->seen >> age & 1) != 0;
}

/* @return whether it was sealed with @p key; content and padding are as they were sealed */
static bool open_with(struct record_crypto *crypto, uint8_t suite_row, const struct record_key *key,
                      const struct record_view *view, uint8_t *ret_plaintext, size_t *ret_len)
{
    const struct suite *suite = &suites[suite_row];
    size_t around = explicit_len(suite) + suite->tag_len;
    uint8_t tag[RECORD_TAG_MAX];

    /* An empty record brings nothing, and CCM would not look at the tag of one. The version is
     * authenticated as ours, not as it came. */
    if (view->version != DTLS1_2_VERSION || view->epoch != 1 || view->payload_len <= around ||
        view->payload_len - around > PLAINTEXT_MAX) {
        return false;
    }
    size_t len = view->payload_len - around;
    const uint8_t *sealed = view->payload + explicit_len(suite);
    struct envelope envelope = {.suite = suite,
                                .key = key->key,
                                .in = sealed,
                                .out = ret_plaintext,
                                .tag = tag,
                                .len = len};
    make_nonce(suite, key, view->number, view->payload, envelope.nonce);
    make_aad(&envelope, view, len);
    memcpy(tag, sealed + len, suite->tag_len);
    *ret_len = len;
    return open_envelope(cipher_context(crypto, suite_row, false), &envelope);
}

/* DTLSInnerPlaintext: content, its type, zeros (RFC 9146 section 4). */
static bool take_inner_type(const uint8_t *plaintext, size_t *len, uint8_t *ret_type)
{
    while (*len > 0 && plaintext[*len - 1] == 0) {
        (*len)--;
    }
    if (*len == 0) {
        return false;
    }
    (*len)--;
    *ret_type = plaintext[*len];
    return true;
}

enum record_verdict records_open(struct record_crypto *crypto, const struct records *records,
                                 const struct record_view *view, uint8_t *ret_plaintext,
                                 size_t *ret_len, uint8_t *ret_type)
{
    bool has_cid = view->type == CONTENT_CID;

    /* RFC 9146 section 3: with a connection id of ours, records in epoch 1 have to have it. */
    if (view->epoch != 1 || has_cid != (records->has_cid && records->cid_len > 0) ||
        view->cid_len != (has_cid ? records->cid_len : 0)) {
        return RECORD_UNOPENED;
    }
    if (is_replayed(records, view->number)) {
        return RECORD_REPLAYED;
    }
    if (!open_with(crypto, records->suite, &records->theirs, view, ret_plaintext, ret_len)) {
        return RECORD_UNOPENED;
    }
    *ret_type = view->type;
    if (has_cid && !take_inner_type(ret_plaintext, ret_len, ret_type)) {
        *ret_len = 0;
        *ret_type = 0; /* authentic, and of no type: RFC 6347 section 4.1 ignores it */
    }
    return RECORD_OPENED;
}

void records_accept(struct records *records, uint64_t number)
{
    if (number > records->newest || records->seen == 0) {
        uint64_t step = number - records->newest;
        records->seen = (step < WINDOW ? records->seen << step : 0) | 1;
        records->newest = number;
    } else if (records->newest - number < WINDOW) {
        records->seen |= UINT64_C(1) << (records->newest - number);
    }
}

/* ---- the way out ---- */

/* The header, as far as the length. @return where the payload begins */
static uint8_t *put_header(const struct records *records, uint8_t type, uint64_t number,
                           uint8_t *record)
{
    uint8_t *at = record;

    *at++ = records->peer_cid_len > 0 ? CONTENT_CID : type;
    *at++ = 0xfe;
    *at++ = 0xfd;
    at = put_number(at, with_epoch(number), 8);
    memcpy(at, records->peer_cid, records->peer_cid_len);
    return at + records->peer_cid_len + 2;
}

size_t records_seal(struct record_crypto *crypto, struct records *records, uint8_t type,
                    const uint8_t *data, size_t len, uint8_t *ret_record)
{
    const struct suite *suite = &suites[records->suite];
    if (records->next > NUMBER_MAX || len == 0 || len > records_room(records)) {
        return 0;
    }
    /* Used up from here on, whatever comes of it. */
    uint64_t number = records->next++;
    uint8_t *payload = put_header(records, type, number, ret_record);
    const struct record_view view = {.type = ret_record[0],
                                     .number = number,
                                     .cid = records->peer_cid,
                                     .cid_len = records->peer_cid_len};
    uint8_t *sealed = payload + explicit_len(suite);
    memcpy(sealed, data, len);
    if (view.type == CONTENT_CID) {
        sealed[len++] = type; /* DTLSInnerPlaintext, without padding */
    }
    if (has_explicit_nonce(suite)) {
        uint64_t nonce =
            suite->aead == AEAD_GCM ? records->nonce_base + number : with_epoch(number);
        (void)put_number(payload, nonce, EXPLICIT_NONCE);
    }
    struct envelope envelope = {.suite = suite,
                                .key = records->ours.key,
                                .in = sealed,
                                .out = sealed,
                                .tag = sealed + len,
                                .len = len};
    make_nonce(suite, &records->ours, number, payload, envelope.nonce);
    make_aad(&envelope, &view, len);
    (void)put_number(payload - 2, explicit_len(suite) + len + suite->tag_len, 2);
    return seal_envelope(cipher_context(crypto, records->suite, true), &envelope)
               ? (size_t)(sealed + len + suite->tag_len - ret_record)
               : 0;
}

size_t records_seal_theirs(struct record_crypto *crypto, const struct records *records,
                           const struct record_view *view, const struct record_content_of *content,
                           uint8_t *ret_record)
{
    const struct suite *suite = &suites[records->suite];
    const struct records plain = {.suite = records->suite};
    const struct record_view without = {.type = content->type, .number = view->number};
    uint8_t *payload = put_header(&plain, content->type, view->number, ret_record);
    uint8_t *sealed = payload + explicit_len(suite);
    struct envelope envelope = {.suite = suite,
                                .key = records->theirs.key,
                                .in = content->data,
                                .out = sealed,
                                .tag = sealed + content->len,
                                .len = content->len};

    memcpy(payload, view->payload, explicit_len(suite));
    make_nonce(suite, &records->theirs, view->number, payload, envelope.nonce);
    make_aad(&envelope, &without, content->len);
    (void)put_number(payload - 2, explicit_len(suite) + content->len + suite->tag_len, 2);
    return seal_envelope(cipher_context(crypto, records->suite, true), &envelope)
               ? (size_t)(sealed + content->len + suite->tag_len - ret_record)
               : 0;
}

/* ---- what OpenSSL has sealed ---- */

bool records_open_own(struct record_crypto *crypto, const struct records *records,
                      const struct record_view *view, uint8_t *ret_plaintext, size_t *ret_len)
{
    return open_with(crypto, records->suite, &records->ours, view, ret_plaintext, ret_len);
}

void records_note_own(struct records *records, const struct record_view *view, uint64_t gap)
{
    if (view->number >= records->next || records->next < gap) {
        uint64_t above = view->number + 1;
        records->next = above > gap ? above : gap;
    }
    if (view->payload_len >=
        EXPLICIT_NONCE) { /* the suite may not be known yet: only GCM uses it */
        records->nonce_base = get_number(view->payload, EXPLICIT_NONCE) - view->number;
    }
}
