/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No key is used twice with one nonce (RFC 5116 section 2.1, net/dtls_record.h). Every datagram
 * that leaves the server is read on its way out, in place of udp_send(): each record in epoch 1 has
 * to open with the server's key of some session, and its nonce is noted. Clients with the keys of
 * their sessions do at random what clients and networks may do.
 *
 * NONCE_STEPS is the number of random steps, TEST_SEED where they begin.
 */
#include "mover.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 4200u
#define EPISODE_STEPS 100u
#define PEER_CID_BYTES 4u /* of all clients here */
#define FINISHED 20

void __real_udp_send(struct udp_socket *socket, const struct udp_path *path, const uint8_t *data,
                     size_t len);
void __wrap_udp_send(struct udp_socket *socket, const struct udp_path *path, const uint8_t *data,
                     size_t len);

bool __real_records_begin(struct record_crypto *crypto, const SSL *ssl,
                          struct records *ret_records);
bool __wrap_records_begin(struct record_crypto *crypto, const SSL *ssl,
                          struct records *ret_records);

static unsigned fail_after; /* allocations of OpenSSL from now; 0: none fails */
static bool counts_all;     /* false: only those for the keys of our own records */
static bool derives_keys;

static bool is_to_fail(void)
{
    return fail_after > 0 && (counts_all || derives_keys) && --fail_after == 0;
}

bool __wrap_records_begin(struct record_crypto *crypto, const SSL *ssl, struct records *ret_records)
{
    derives_keys = true;
    bool good = __real_records_begin(crypto, ssl, ret_records);
    derives_keys = false;
    return good;
}

static void *scarce_malloc(size_t len, const char *file, int line)
{
    (void)file, (void)line;
    return len == 0 || is_to_fail() ? NULL : malloc(len);
}

static void *scarce_realloc(void *block, size_t len, const char *file, int line)
{
    (void)file, (void)line;
    if (len == 0) {
        free(block);
        return NULL;
    }
    return is_to_fail() ? NULL : realloc(block, len);
}

static void plain_free(void *block, const char *file, int line)
{
    (void)file, (void)line;
    free(block);
}

static int tear_down(void **state)
{
    (void)state;
    files_clear();
    mover_crypto_free();
    return 0;
}

/* ---- what leaves ---- */

#define SEALED_MAX 8192u

/* Each record that was sealed since forget_sealed(). */
static struct sealed {
    struct record_key key;
    uint64_t nonce; /* the part that is not in the key */
} sealed[SEALED_MAX];
static size_t sealed_count;
static uint64_t sealed_sum; /* in all */
static uint32_t losses;     /* bit 0: the next datagram is not sent; and so on */

static void forget_sealed(void)
{
    sealed_sum += sealed_count;
    sealed_count = 0;
    losses = 0;
}

static uint64_t big_endian(const uint8_t *at, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

/* @return whether it was sealed with our key of @p session, whose records are given */
static bool is_sealed_by(const struct dtls_session *session, const struct record_view *view,
                         struct records *ret_records)
{
    uint8_t content[2048];
    size_t len = 0;

    *ret_records = session->records;
    if (session->shake != NULL && session->shake->ssl != NULL && !session->shake->has_keys &&
        !records_begin(mover_crypto(), session->shake->ssl, ret_records)) {
        return false;
    }
    return view->payload_len <= sizeof content &&
           records_open_own(mover_crypto(), ret_records, view, content, &len);
}

static bool find_records(const struct record_view *view, struct records *ret_records)
{
    const struct session_list *const lists[] = {
        &server.listener->established, &server.listener->handshaking, &server.listener->doomed};

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (const struct dtls_session *session = lists[i]->first; session != NULL;
             session = session->next) {
            if (is_sealed_by(session, view, ret_records)) {
                return true;
            }
        }
    }
    return false;
}

static void note_sealed(const struct record_view *view)
{
    struct records records;

    assert_int_equal(view->epoch, 1);
    assert_true(find_records(view, &records)); /* and so none is sealed with a client's key */
    const char *suite = records_suite_name(&records);
    bool is_chacha = strstr(suite, "CHACHA") != NULL;
    struct sealed now = {records.ours, is_chacha ? view->number : big_endian(view->payload, 8)};
    if (strstr(suite, "CCM") != NULL) {
        assert_true(now.nonce == (UINT64_C(1) << 48 | view->number));
    }
    for (size_t i = 0; i < sealed_count; i++) {
        assert_false(sealed[i].nonce == now.nonce &&
                     memcmp(&sealed[i].key, &now.key, sizeof now.key) == 0);
    }
    assert_true(sealed_count < SEALED_MAX);
    sealed[sealed_count++] = now;
}

void __wrap_udp_send(struct udp_socket *socket, const struct udp_path *path, const uint8_t *data,
                     size_t len)
{
    struct record_view view;
    const uint8_t *at = data;
    size_t left = len;
    unsigned fails = fail_after;
    bool is_lost = (losses & 1) != 0;

    fail_after = 0; /* the server's memory, not the test's */
    for (; record_parse(at, left, PEER_CID_BYTES, &view);
         at += view.whole_len, left -= view.whole_len) {
        if (view.epoch != 0) {
            note_sealed(&view);
        }
    }
    assert_int_equal(left, 0);
    fail_after = fails;
    losses >>= 1;
    if (!is_lost) {
        __real_udp_send(socket, path, data, len);
    }
}

/* ---- a client that does what it likes ---- */

static const char *const suite_names[] = {"PSK-AES128-CCM8",
                                          "PSK-AES128-GCM-SHA256",
                                          "PSK-CHACHA20-POLY1305",
                                          "PSK-AES128-CCM",
                                          "PSK-AES256-GCM-SHA384",
                                          "ECDHE-PSK-CHACHA20-POLY1305",
                                          "ECDHE-ECDSA-AES128-CCM8",
                                          "ECDHE-ECDSA-AES128-CCM",
                                          "ECDHE-ECDSA-AES128-GCM-SHA256",
                                          "ECDHE-ECDSA-AES256-GCM-SHA384",
                                          "ECDHE-ECDSA-CHACHA20-POLY1305",
                                          "ECDHE-RSA-AES128-GCM-SHA256",
                                          "ECDHE-RSA-AES256-GCM-SHA384",
                                          "ECDHE-RSA-CHACHA20-POLY1305"};
#define SUITES (sizeof suite_names / sizeof suite_names[0])

#define HISTORY 16u

struct datagram_sent {
    uint8_t data[1500];
    size_t len;
};

static struct world {
    struct mover mover; /* its client is used without ids, too */
    bool has_ids;
    struct fake_peer *home, *elsewhere;
    struct dtls_session *session; /* that the records are of; NULL: none */
    struct records records;       /* the client's end */
    struct datagram_sent history[HISTORY];
    unsigned history_count;
} world;

static uint64_t seed;

static unsigned dice(unsigned sides)
{
    return (unsigned)test_random_below(&seed, sides);
}

static void drain(void)
{
    fake_net_run(0);
    while (fake_peer_take(world.home, NULL) || fake_peer_take(world.elsewhere, NULL)) {
    }
}

static void transmit(const uint8_t *data, size_t len)
{
    struct fake_peer *from = dice(8) == 0 ? world.elsewhere : world.home;

    fake_peer_send_bytes(from, &server_address, data, len);
}

/* Seals a record, and keeps it. @return what is to be sent */
static const struct datagram_sent *seal(uint8_t type, const uint8_t *data, size_t len)
{
    struct datagram_sent *kept = &world.history[world.history_count++ % HISTORY];

    world.records.nonce_base = UINT64_C(1) << 63; /* with GCM: far from its OpenSSL's */
    kept->len = records_seal(mover_crypto(), &world.records, type, data, len, kept->data);
    assert_true(kept->len > 0);
    return kept;
}

static void send_sealed(uint8_t type, const uint8_t *data, size_t len)
{
    const struct datagram_sent *kept = seal(type, data, len);

    transmit(kept->data, kept->len);
}

/* Of the established sessions the one used last, with the client's end of it. */
static void choose_session(void)
{
    struct dtls_session *session = server.listener->established.last;

    for (const struct dtls_session *s = server.listener->established.first; s != NULL;
         s = s->next) {
        if (s == world.session) {
            return;
        }
    }
    world.session = session;
    world.history_count = 0;
    if (session != NULL) {
        world.records = session->records;
        world.records.ours = session->records.theirs;
        world.records.theirs = session->records.ours;
        world.records.next = session->records.newest + 1;
        world.records.fragment = 0;
        world.records.peer_cid_len = session->records.cid_len;
        for (unsigned i = 0; i < session->records.cid_len; i++) {
            world.records.peer_cid[i] =
                (uint8_t)(session->by_cid.key >> (8 * (session->records.cid_len - 1 - i)));
        }
    }
}

/* ---- the steps ---- */

static void step_handshake(void)
{
    struct client *client = &world.mover.client;

    if (dice(2) == 0) { /* not resumed */
        SSL_SESSION_free(client->resume);
        client->resume = NULL;
    }
    if (world.has_ids) {
        mover_restart(&world.mover);
    } else {
        client_restart(client);
    }
    losses = dice(16) & dice(16); /* of its four flights some */
    (void)client_shake(client);
    losses = 0;
    drain();
}

static void step_ask(void)
{
    uint8_t data[200] = {0};

    send_sealed(CONTENT_APPLICATION_DATA, data, 1 + dice(sizeof data));
}

static void step_tell(void)
{
    static const uint8_t data[300];

    losses = dice(4); /* as where the kernel takes no more */
    dtls_send(world.session, data, 1 + dice(sizeof data));
    losses = 0;
}

static void step_tell_elsewhere(void)
{
    struct udp_path path = {.remote = *fake_peer_address(world.elsewhere)};

    dtls_send_to(world.session, &path, (const uint8_t *)"elsewhere", 9);
}

static void step_repeat_flight(void)
{
    static const uint8_t finished[24] = {FINISHED, 0, 0, 12, 0, 3, 0, 0, 0, 0, 0, 12};

    send_sealed(CONTENT_HANDSHAKE, finished, sizeof finished);
    fake_net_run(dice(1200));
}

static void step_hello(void)
{
    uint8_t hello[60] = {1, 0, 0, 48};

    send_sealed(CONTENT_HANDSHAKE, hello, sizeof hello);
}

static void step_alert(void)
{
    const uint8_t alert[] = {dice(20) == 0 ? SSL3_AL_FATAL : SSL3_AL_WARNING,
                             (uint8_t)(dice(20) == 0 ? 0 : dice(256))};

    send_sealed(CONTENT_ALERT, alert, sizeof alert);
}

static void step_replay(void)
{
    if (world.history_count > 0) {
        const struct datagram_sent *kept =
            &world.history[dice(world.history_count < HISTORY ? world.history_count : HISTORY)];
        transmit(kept->data, kept->len);
    }
}

static void step_forge(void)
{
    struct datagram_sent forged = *seal(CONTENT_APPLICATION_DATA, (const uint8_t *)"forged", 6);

    for (unsigned i = 1 + dice(3); i > 0; i--) {
        forged.data[dice((unsigned)forged.len)] ^= (uint8_t)(1u << dice(8));
    }
    transmit(forged.data, dice(2) == 0 ? forged.len : dice((unsigned)forged.len));
}

/* Several records, the newest first, in datagrams of their own or in one. */
static void step_reorder(void)
{
    struct datagram_sent records[4], one = {.len = 0};
    unsigned count = 2 + dice(3);

    for (unsigned i = 0; i < count; i++) {
        records[i] = *seal(CONTENT_APPLICATION_DATA, (const uint8_t *)"reorder", 1 + dice(7));
    }
    bool is_packed = dice(2) == 0;
    for (unsigned i = count; i > 0; i--) {
        const struct datagram_sent *next = &records[i - 1];
        if (is_packed) {
            memcpy(one.data + one.len, next->data, next->len);
            one.len += next->len;
        } else {
            transmit(next->data, next->len);
        }
    }
    if (is_packed) {
        transmit(one.data, one.len);
    }
}

static bool is_anyone(const void *context, const struct address *remote,
                      const struct identity *identity)
{
    (void)context, (void)remote, (void)identity;
    return true;
}

static void step_close(void)
{
    if (dice(4) == 0) {
        (void)dtls_close_matching(server.listener, is_anyone, NULL, "asked to");
    }
}

static void step_skip_numbers(void)
{
    world.records.next += dice(200);
}

static void (*const steps[])(void) = {
    step_ask,          step_ask,           step_ask,
    step_tell,         step_tell,          step_tell_elsewhere,
    step_hello,        step_alert,         step_replay,
    step_replay,       step_forge,         step_reorder,
    step_forge,        step_repeat_flight, step_repeat_flight,
    step_skip_numbers, step_close,         step_handshake,
};

static struct credentials *credentials_both(const char *certificate)
{
    char pem[32], key[32];

    (void)snprintf(pem, sizeof pem, "%s.pem", certificate);
    (void)snprintf(key, sizeof key, "%s.key", certificate);
    const struct credentials_options options = {
        .certificate_file = file_path(pem),
        .key_file = file_path(key),
        .psk_file = file_write("psk", "alice:000102030405060708090a0b0c0d0e0f\n")};
    return credentials_must_load(&options);
}

/* A server, one suite, and so many steps. @p kind 0: without ids; 1, 2: with, of the server only */
static void play_episode(const char *suite, unsigned kind, unsigned count)
{
    const struct dtls_options options = {.sessions_max = 10,
                                         .handshakes_max = 10,
                                         .handshake_ms = 30000,
                                         .idle_ms = 3600000,
                                         .cid_bytes = kind == 0 ? 0 : CID_BYTES};
    struct client *client = &world.mover.client;

    server_start_with(credentials_both(strstr(suite, "RSA") != NULL ? "rsa" : "server"), &options);
    server.believes = dice(2) == 0;
    memset(&world, 0, sizeof world);
    world.has_ids = kind != 0;
    if (world.has_ids) {
        mover_open(&world.mover, "127.0.0.1:40001", suite, kind == 1 ? PEER_CID_BYTES : 0);
    } else {
        client_open(client, &(struct client_wish){.address = "127.0.0.1:40001", .suites = suite});
    }
    world.home = client->peer;
    world.elsewhere = fake_peer_new("127.0.0.1:50001");
    assert_true(client_shake(client));
    drain();
    for (unsigned i = dice(4); i > 0; i--) { /* before any data */
        choose_session();
        step_repeat_flight();
    }
    for (unsigned i = 0; i < count; i++) {
        choose_session();
        (world.session == NULL ? step_handshake : steps[dice(sizeof steps / sizeof steps[0])])();
        drain();
    }
    client_close(client);
    server_stop(); /* close_notify is read, too */
    forget_sealed();
}

static void test_no_nonce_twice_whatever_comes(void **state)
{
    const char *wish = getenv("NONCE_STEPS");
    unsigned long wanted = wish == NULL ? STEPS : strtoul(wish, NULL, 10);
    unsigned episode = 0;
    (void)state;

    seed = test_seed();
    for (unsigned long done = 0; done < wanted; done += EPISODE_STEPS, episode++) {
        play_episode(suite_names[episode % SUITES], episode / SUITES % 3, EPISODE_STEPS);
    }
    print_message("episodes: %u, records: %" PRIu64 "\n", episode, sealed_sum);
    assert_true(sealed_sum > wanted / 4);
}

/* ---- without memory ---- */

/*
 * In a resumed handshake the server seals first. Where there is no memory to derive our own keys
 * just then, OpenSSL's record has left all the same, and later ours begin above it.
 *
 * @return how many allocations there were
 */
static unsigned resume_without_memory(void)
{
    static const char *const suites[] = {"PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256",
                                         "PSK-CHACHA20-POLY1305"};
    unsigned nth = 1;

    for (unsigned left = 0; left == 0; nth++) {
        struct client client;
        const char *suite = suites[nth % 3];
        server_start(credentials_both("server"));
        client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001", .suites = suite});
        client_must_talk(&client, "hello");
        client_restart(&client);
        client_step(&client);
        fake_net_run(0);
        client_step(&client); /* the ClientHello with its cookie and ticket */
        fail_after = nth;
        fake_net_run(0);
        left = fail_after;
        fail_after = 0;
        if (client_shake(&client)) {
            (void)SSL_write(client.ssl, "again", 5);
            fake_net_run(0);
        }
        client_close(&client);
        server_stop();
        forget_sealed();
    }
    return nth - 2;
}

/* OpenSSL 3.2 to 3.5 free a record layer twice where they cannot make the next one, so there only
 * our own allocations fail. */
static void test_no_nonce_twice_without_memory(void **state)
{
    (void)state;

    counts_all = OpenSSL_version_num() < 0x30200000L;
    assert_in_range(resume_without_memory(), 3, 10000); /* one for each suite at least */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_nonce_twice_whatever_comes),
        cmocka_unit_test(test_no_nonce_twice_without_memory),
    };
    if (CRYPTO_set_mem_functions(scarce_malloc, scarce_realloc, plain_free) != 1) {
        return 1;
    }
    return cmocka_run_group_tests(tests, files_set_up_certificates, tear_down);
}
