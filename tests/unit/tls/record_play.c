/* SPDX-License-Identifier: BSD-2-Clause */
#include "record_play.h"

#include "record_play_end.h"

#include <malloc.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY 8u
#define DATAGRAM_MAX 1500u
#define MADE_MAX 1024u /* contents of the peer in one sequence */
#define NUMBER_END (UINT64_C(1) << 48)
#define CONTENT_BYTES 5u /* 'p', and its number */
#define FINISHED 20
#define CLIENT_HELLO 1
#define HELLO_VERIFY_REQUEST 3

/* What OpenSSL may hold beyond what it had at the start, for a ClientHello that it looks at. */
#define MEMORY_MAX (UINT64_C(256) << 10)

struct play_counts play_counts;

static struct record_crypto *peer_crypto;
static uint64_t openssl_bytes, openssl_bytes_first;

struct kept_datagram {
    uint8_t data[DATAGRAM_MAX];
    size_t len;
};

/* One sequence. */
static struct {
    const struct play_end *end;
    const uint8_t *at; /* the input */
    size_t left;
    struct records ours, peer; /* both ends of the session, ours as it was when it began */
    uint32_t keys;             /* how many sessions there were */
    bool has_left, is_frozen, has_flight;
    bool was_ended; /* its end is counted */
    uint64_t last_number, last_plain, nonce_base;
    uint32_t made, made_before; /* contents of the peer; those under earlier keys */
    uint8_t got[MADE_MAX / 8];
    struct kept_datagram history[HISTORY];
    unsigned kept;
} play;

_Noreturn void play_fail(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: %s\n", file, line, condition);
    abort();
}

/* ---- OpenSSL's memory ---- */

static void *counted_malloc(size_t len, const char *file, int line)
{
    void *block = len == 0 ? NULL : malloc(len);
    (void)file, (void)line;

    openssl_bytes += block == NULL ? 0 : malloc_usable_size(block);
    return block;
}

static void counted_free(void *block, const char *file, int line)
{
    (void)file, (void)line;
    openssl_bytes -= block == NULL ? 0 : malloc_usable_size(block);
    free(block);
}

static void *counted_realloc(void *block, size_t len, const char *file, int line)
{
    size_t before = block == NULL ? 0 : malloc_usable_size(block);

    if (len == 0) {
        counted_free(block, file, line);
        return NULL;
    }
    void *larger = realloc(block, len);
    if (larger != NULL) {
        openssl_bytes += malloc_usable_size(larger) - before;
    }
    return larger;
}

/* ---- what the roles tell ---- */

void play_freeze(bool is_frozen)
{
    play.is_frozen = is_frozen;
}

static uint64_t big_endian(const uint8_t *at, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

/* ChangeCipherSpec of a repeated flight, or the answer to a ClientHello without a cookie. */
static void judge_plain(const struct record_view *view)
{
    if (view->type == CONTENT_HANDSHAKE) {
        PLAY_MUST(view->payload_len > 0 && view->payload[0] == HELLO_VERIFY_REQUEST);
        return;
    }
    PLAY_MUST(view->type == CONTENT_CHANGE_CIPHER_SPEC && play.has_flight);
    PLAY_MUST(view->number > play.last_plain);
    play.last_plain = view->number;
}

static void judge_sealed(const struct record_view *view)
{
    const char *suite = records_suite_name(&play.ours);
    uint8_t content[DATAGRAM_MAX];
    size_t len = 0;

    PLAY_MUST(view->epoch == 1 && view->payload_len <= sizeof content);
    PLAY_MUST(!play.has_left || view->number > play.last_number);
    PLAY_MUST(records_open_own(peer_crypto, &play.ours, view, content, &len));
    uint64_t nonce = big_endian(view->payload, 8);
    if (strstr(suite, "CCM") != NULL) {
        PLAY_MUST(nonce == (NUMBER_END | view->number));
    } else if (strstr(suite, "GCM") != NULL) {
        PLAY_MUST(nonce - view->number == play.ours.nonce_base);
    }
    PLAY_MUST((view->type == CONTENT_CID) == (play.ours.peer_cid_len > 0));
    PLAY_MUST(memcmp(view->cid, play.ours.peer_cid, view->cid_len) == 0);
    play.has_left = true;
    play.last_number = view->number;
    play_counts.sealed++;
}

void play_left(const uint8_t *datagram, size_t len)
{
    struct record_view view;

    PLAY_MUST(!play.is_frozen);
    while (len > 0) {
        PLAY_MUST(record_parse(datagram, len, play.ours.peer_cid_len, &view));
        (view.epoch == 0 ? judge_plain : judge_sealed)(&view);
        datagram += view.whole_len;
        len -= view.whole_len;
    }
}

void play_delivered(const uint8_t *data, size_t len)
{
    PLAY_MUST(len >= CONTENT_BYTES && data[0] == 'p');
    uint32_t number = (uint32_t)big_endian(data + 1, 4);
    PLAY_MUST(number >= play.made_before && number < play.made);
    PLAY_MUST((play.got[number / 8] >> (number % 8) & 1) == 0);
    play.got[number / 8] |= (uint8_t)(1u << (number % 8));
    play_counts.delivered++;
}

/* ---- input ---- */

static uint8_t next_byte(void)
{
    if (play.left == 0) {
        return 0;
    }
    play.left--;
    return *play.at++;
}

/* ---- the session ---- */

/* Keys that only this session of this sequence has. */
static void make_key(struct record_key *key, unsigned which)
{
    for (size_t i = 0; i < sizeof key->key; i++) {
        key->key[i] = (uint8_t)(which + 7 * i + 31 * play.keys);
    }
    memset(key->iv, (int)(0x40 + which + play.keys), sizeof key->iv);
}

/*
 * The first byte of the input: the suite; the second: bit 0 our role, 1 our ids, 2 the peer's, 3
 * the flight.
 */
static void begin_session(uint8_t suite, uint8_t how)
{
    struct records ours = {.suite = suite % PLAY_SUITES};
    bool is_client = (how & 1) != 0;
    uint32_t cid = 0x01020300u + play.keys;

    play.end = is_client ? &play_client : &play_listener;
    make_key(&ours.ours, 1);
    make_key(&ours.theirs, 2);
    ours.next = 1; /* after Finished */
    ours.nonce_base = UINT64_MAX - 5;
    ours.seen = 1;
    ours.has_cid = (how & 6) != 0;
    ours.cid_len = ours.has_cid && !is_client && (how & 2) != 0 ? PLAY_CID_BYTES : 0;
    ours.peer_cid_len = (how & 4) != 0 ? 3 : 0;
    memcpy(ours.peer_cid, "\x0a\x0b\x0c", 3);
    play.ours = ours;
    play.peer = (struct records){.suite = ours.suite,
                                 .ours = ours.theirs,
                                 .theirs = ours.ours,
                                 .next = 1,
                                 .nonce_base = UINT64_C(1) << 63,
                                 .has_cid = ours.has_cid,
                                 .cid_len = ours.peer_cid_len,
                                 .peer_cid_len = ours.cid_len};
    for (unsigned i = 0; i < ours.cid_len; i++) {
        play.peer.peer_cid[i] = (uint8_t)(cid >> (8 * (ours.cid_len - 1 - i)));
    }
    play.has_left = false;
    play.was_ended = false;
    play.has_flight = (how & 8) != 0;
    play.last_plain = 0;
    play.made_before = play.made;
    play.keys++;
    play.end->open(&play.ours, cid, play.has_flight);
}

/* ---- what the peer does ---- */

static struct kept_datagram *keep(void)
{
    struct kept_datagram *kept = &play.history[play.kept++ % HISTORY];

    kept->len = 0;
    return kept;
}

static void seal_into(struct kept_datagram *kept, uint8_t type, const uint8_t *data, size_t len)
{
    if (kept->len + len + RECORD_OVERHEAD_MAX <= sizeof kept->data) {
        kept->len += records_seal(peer_crypto, &play.peer, type, data, len, kept->data + kept->len);
    }
}

/* A content of its own, in a record. */
static void seal_content(struct kept_datagram *kept)
{
    uint8_t content[CONTENT_BYTES + 15] = {'p'};
    size_t len = CONTENT_BYTES + next_byte() % 16;

    if (play.made == MADE_MAX) {
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        content[1 + i] = (uint8_t)(play.made >> (8 * (3 - i)));
    }
    play.made++;
    seal_into(kept, CONTENT_APPLICATION_DATA, content, len);
}

static void come(const uint8_t *data, size_t len)
{
    if (len > 0) {
        play.end->feed(data, len, false);
    }
}

static const struct kept_datagram *choose_kept(void)
{
    return &play.history[next_byte() % HISTORY];
}

static void step_ask(void)
{
    struct kept_datagram *kept = keep();

    seal_content(kept);
    come(kept->data, kept->len);
}

/* To come later, or never. */
static void step_hold_back(void)
{
    struct kept_datagram *kept = keep();

    for (unsigned i = next_byte() % 4 + 1; i > 0; i--) {
        seal_content(kept);
    }
}

static void step_replay(void)
{
    const struct kept_datagram *kept = choose_kept();

    play_counts.replays++;
    come(kept->data, kept->len);
}

static void step_replay_elsewhere(void)
{
    const struct kept_datagram *kept = choose_kept();

    if (kept->len > 0) {
        play.end->feed(kept->data, kept->len, true);
    }
}

static void step_truncate(void)
{
    const struct kept_datagram *kept = choose_kept();
    size_t cut = next_byte();

    come(kept->data, cut < kept->len ? kept->len - cut : 0);
}

static void step_forge(void)
{
    struct kept_datagram forged = *choose_kept();
    size_t at = next_byte();

    if (forged.len > 0) {
        forged.data[at % forged.len] ^= next_byte();
        play_counts.forged++;
        come(forged.data, forged.len);
    }
}

/* The record of one datagram behind that of another. */
static void step_join(void)
{
    struct kept_datagram both = *choose_kept();
    const struct kept_datagram *second = choose_kept();

    if (both.len + second->len <= sizeof both.data) {
        memcpy(both.data + both.len, second->data, second->len);
        come(both.data, both.len + second->len);
    }
}

static void step_raw(void)
{
    uint8_t datagram[256];
    size_t len = next_byte();

    for (size_t i = 0; i < len; i++) {
        datagram[i] = next_byte();
    }
    play_counts.forged++;
    come(datagram, len);
}

/* A header of our own over bytes of the input: any type, epoch, number and length. */
static void step_header(void)
{
    uint8_t record[80] = {next_byte(), 0xfe, 0xfd, 0, next_byte() % 4};
    size_t header = DTLS_RECORD_HEADER + (record[0] == CONTENT_CID ? play.ours.cid_len : 0);
    size_t len = next_byte() % 56;

    record[10] = next_byte();
    memcpy(record + 11, play.peer.peer_cid, header - DTLS_RECORD_HEADER);
    record[header - 1] = (uint8_t)len;
    for (size_t i = 0; i < len; i++) {
        record[header + i] = next_byte();
    }
    play_counts.forged++;
    come(record, header + len);
}

static void send_sealed(uint8_t type, const uint8_t *data, size_t len)
{
    struct kept_datagram *kept = keep();

    seal_into(kept, type, data, len);
    come(kept->data, kept->len);
}

/* Its Finished again: it has not got our last flight. */
static void step_flight(void)
{
    static const uint8_t finished[24] = {FINISHED, 0, 0, 12, 0, 3, 0, 0, 0, 0, 0, 12};
    uint64_t before = play_counts.sealed;

    play.end->wait((uint64_t)next_byte() * 8);
    send_sealed(CONTENT_HANDSHAKE, finished, sizeof finished);
    play_counts.flights += play_counts.sealed - before;
}

static void step_handshake(void)
{
    uint8_t message[24] = {next_byte() % 2 == 0 ? CLIENT_HELLO : next_byte()};

    message[7] = next_byte() % 2; /* where the fragment begins */
    send_sealed(CONTENT_HANDSHAKE, message, 1 + next_byte() % sizeof message);
}

static void step_alert(void)
{
    const uint8_t alert[] = {next_byte(), next_byte()};

    send_sealed(CONTENT_ALERT, alert, 1 + next_byte() % sizeof alert);
}

/* With an id: zeros behind the type, or nothing but zeros. */
static void step_strange(void)
{
    static const uint8_t zeros[12];
    uint8_t type = next_byte();

    send_sealed(type == CONTENT_APPLICATION_DATA ? 0 : type, zeros, 1 + next_byte() % sizeof zeros);
}

static void step_skip_numbers(void)
{
    uint64_t more = next_byte();

    play.peer.next += more < 200 ? more : UINT64_C(1) << (more - 200);
}

/* ---- what we do ---- */

static void step_tell(void)
{
    uint8_t data[64] = {'o'};

    play.end->tell(data, 1 + next_byte() % sizeof data);
}

static void step_wait(void)
{
    play.end->wait((uint64_t)next_byte() * 20);
}

/* Our last numbers. */
static void step_old_age(void)
{
    struct records *records = play.end->records();
    uint64_t number = NUMBER_END - 1 - next_byte() % 4;

    if (records != NULL && next_byte() % 16 == 0 && records->next < number) {
        records->next = number;
    }
}

/* What has come meanwhile waits in the kernel, and comes afterwards. */
static void hand_over(enum play_handover how)
{
    struct kept_datagram *meanwhile = keep();

    seal_content(meanwhile);
    play.end->hand_over(how, meanwhile->data, meanwhile->len);
}

static void step_hand_over(void)
{
    hand_over(PLAY_TAKEN);
    play_counts.handovers++;
}

static void step_failed_hand_over(void)
{
    hand_over(PLAY_FAILED);
    play_counts.handovers_failed++;
}

/* The peer makes another handshake; what it had sealed under the old keys may come later. */
static void step_crash(void)
{
    hand_over(PLAY_LOST);
    play.end->close();
    begin_session(play.ours.suite,
                  (uint8_t)((next_byte() & 0x0e) | (play.end == &play_client ? 1 : 0)));
    play_counts.crashes++;
}

static void step_close(void)
{
    if (next_byte() % 8 == 0) {
        play.end->close();
    }
}

static void (*const play_steps[])(void) = {
    step_ask,
    step_ask,
    step_ask,
    step_hold_back,
    step_replay,
    step_replay,
    step_truncate,
    step_forge,
    step_join,
    step_raw,
    step_header,
    step_flight,
    step_flight,
    step_flight,
    step_flight,
    step_handshake,
    step_alert,
    step_strange,
    step_skip_numbers,
    step_tell,
    step_tell,
    step_tell,
    step_wait,
    step_wait,
    step_old_age,
    step_replay_elsewhere,
    step_hand_over,
    step_hand_over,
    step_failed_hand_over,
    step_crash,
    step_close,
};
#define PLAY_STEPS (sizeof play_steps / sizeof play_steps[0])

static void play_step(void)
{
    play_steps[next_byte() % PLAY_STEPS]();
    play.end->check();
    PLAY_MUST(openssl_bytes <= openssl_bytes_first + MEMORY_MAX);
    if (play.end->records() == NULL && !play.was_ended) {
        play.was_ended = true;
        play_counts.ends++;
    }
}

void record_play(const uint8_t *data, size_t len)
{
    memset(&play, 0, sizeof play);
    play.at = data;
    play.left = len;
    uint8_t suite = next_byte(), how = next_byte();
    begin_session(suite, how);
    while (play.left > 0) {
        play_step();
    }
    play.end->close();
    play.end->check();
    ERR_clear_error();
    play_counts.sequences++;
}

void record_play_init(void)
{
    PLAY_MUST(CRYPTO_set_mem_functions(counted_malloc, counted_realloc, counted_free) == 1);
    peer_crypto = record_crypto_new();
    PLAY_MUST(peer_crypto != NULL);
    play_listener_init();
    play_client_init();
    openssl_bytes_first = openssl_bytes + MEMORY_MAX;
    for (uint8_t suite = 0; suite < PLAY_SUITES; suite++) { /* contexts are made at the first use */
        for (uint8_t how = 0; how < 2; how++) {
            const uint8_t input[] = {suite, how, 0, 0, 17, 0};
            record_play(input, sizeof input);
        }
    }
    openssl_bytes_first = openssl_bytes;
    play_counts = (struct play_counts){0};
}

void record_play_clear(void)
{
    play_client_clear();
    play_listener_clear();
    record_crypto_free(peer_crypto);
}
