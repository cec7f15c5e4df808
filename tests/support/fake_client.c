/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/fake_client.h"

#include "net/loop.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 256
#define BYTES_MAX 2048
#define ANSWER_MAX 65536 /* a message of 64 KiB */

struct upstream_credentials {
    unsigned count;
    char name[128]; /* PSK identity, or CA file; empty: neither */
};

struct upstream_request {
    bool is_used, is_kept, is_seen, is_due, is_failure;
    uint64_t serial;
    void *user;
    char target[256];
    size_t len;
    uint8_t bytes[BYTES_MAX]; /* code, options, payload with its marker */
    struct upstream_failure failure;
    size_t answer_len; /* in answers[] */
};

struct upstream {
    const struct upstream_handler *handler;
    void *context;
    struct upstream_counters counters;
};

static struct upstream_request requests[REQUESTS_MAX];
static uint8_t answers[REQUESTS_MAX][ANSWER_MAX]; /* of the same form */
static struct upstream_request *current;          /* the one that was expected last */
static uint64_t serial;
static unsigned pools;

bool upstream_has(enum upstream_engine engine, enum transport transport)
{
    (void)engine;
    (void)transport;
    return true;
}

const char *upstream_version(void)
{
    return "0.0.0";
}

bool upstream_ping(struct upstream *upstream, const struct address *address)
{
    (void)upstream;
    (void)address;
    return false;
}

/* ---- credentials ---- */

struct upstream_credentials *
upstream_credentials_load(const struct upstream_credentials_options *options, char *ret_error,
                          size_t error_capacity)
{
    struct upstream_credentials *credentials = calloc(1, sizeof *credentials);
    const char *name = options->psk_identity != NULL ? options->psk_identity : options->ca_file;

    (void)ret_error;
    (void)error_capacity;
    assert_non_null(credentials);
    credentials->count = 1;
    if (name != NULL) {
        snprintf(credentials->name, sizeof credentials->name, "%s", name);
    }
    return credentials;
}

struct upstream_credentials *upstream_credentials_late(struct upstream_credentials **slot)
{
    static const struct upstream_credentials_options none;
    if (*slot == NULL) {
        *slot = upstream_credentials_load(&none, NULL, 0);
    }
    return *slot;
}

struct upstream_credentials *upstream_credentials_acquire(struct upstream_credentials *credentials)
{
    credentials->count++;
    return credentials;
}

void upstream_credentials_release(struct upstream_credentials *credentials)
{
    if (credentials != NULL && --credentials->count == 0) {
        free(credentials);
    }
}

/* ---- the pool ---- */

int upstream_new(struct loop *loop, const struct upstream_options *options,
                 const struct upstream_handler *handler, void *context,
                 struct upstream **ret_upstream)
{
    struct upstream *upstream = calloc(1, sizeof *upstream);

    (void)loop;
    assert_non_null(upstream);
    assert_true(options->sessions_max > 0 && options->requests_max > 0);
    upstream->handler = handler;
    upstream->context = context;
    if (pools++ == 0) {
        memset(requests, 0, sizeof requests);
        current = NULL;
    }
    *ret_upstream = upstream;
    return 0;
}

void upstream_free(struct upstream *upstream)
{
    if (upstream != NULL) {
        pools--;
        memset(requests, 0, sizeof requests);
        current = NULL;
    }
    free(upstream);
}

void upstream_set_options(struct upstream *upstream, const struct upstream_options *options)
{
    (void)upstream;
    (void)options;
}

size_t upstream_list(const struct upstream *upstream, size_t skip, struct upstream_view *ret_views,
                     size_t max)
{
    (void)upstream;
    (void)skip;
    (void)ret_views;
    (void)max;
    return 0;
}

const struct account_book *upstream_accounts(const struct upstream *upstream)
{
    (void)upstream;
    return NULL;
}

const struct upstream_counters *upstream_counters(const struct upstream *upstream)
{
    return &upstream->counters;
}

static void add(struct upstream_request *request, struct bytes bytes)
{
    assert_true(request->len + bytes.len <= sizeof request->bytes);
    if (bytes.len > 0) {
        memcpy(request->bytes + request->len, bytes.data, bytes.len);
    }
    request->len += bytes.len;
}

static void describe(struct upstream_request *request, const struct upstream_target *target)
{
    const char *who = target->credentials != NULL ? target->credentials->name : "";
    char address[ADDRESS_TEXT_MAX];

    snprintf(request->target, sizeof request->target, "%s %s %s%s%s",
             target->oscore != NULL ? "oscore" : transport_row(target->transport)->word,
             address_format(&target->address, address), target->host != NULL ? target->host : "-",
             who[0] != '\0' ? " " : "", who);
}

struct upstream_request *upstream_send(struct upstream *upstream,
                                       const struct upstream_target *target,
                                       const struct message *message, bool keep, void *user)
{
    static const uint8_t marker = 0xff;
    struct upstream_request *request = requests;

    (void)upstream;
    while (request < requests + REQUESTS_MAX && request->is_used) {
        request++;
    }
    if (request == requests + REQUESTS_MAX) {
        return NULL;
    }
    assert_non_null(user);
    assert_int_equal(message->token.len, 8);
    *request = (struct upstream_request){
        .is_used = true, .is_kept = keep, .serial = ++serial, .user = user};
    describe(request, target);
    add(request, (struct bytes){&message->code, 1});
    add(request, message->options);
    if (message->payload.len > 0) {
        add(request, (struct bytes){&marker, 1});
        add(request, message->payload);
    }
    return request;
}

static void drop(struct upstream_request *request)
{
    request->is_used = false;
    request->is_due = false;
}

void upstream_cancel(struct upstream *upstream, struct upstream_request *request, bool deregister)
{
    (void)upstream;
    (void)deregister;
    assert_true(request->is_used);
    drop(request);
}

static void tell(struct upstream *upstream, struct upstream_request *request)
{
    void *user = request->user;
    request->is_due = false;
    if (request->is_failure) {
        struct upstream_failure failure = request->failure;
        drop(request);
        upstream->handler->on_failure(upstream->context, user, &failure);
        return;
    }
    static uint8_t bytes[ANSWER_MAX]; /* a copy: the place may be another request's by then */
    size_t len = request->answer_len;
    struct message response = {.type = MESSAGE_CON};
    memcpy(bytes, answers[request - requests], len);
    assert_true(len > 0 && message_decode_content(bytes + 1, len - 1, &response));
    response.code = bytes[0];
    if (!request->is_kept) {
        drop(request);
    }
    upstream->handler->on_response(upstream->context, user, &response);
}

uint64_t upstream_turn(struct upstream *upstream, uint64_t now_ms)
{
    bool has_told;
    (void)now_ms;
    do {
        has_told = false;
        for (struct upstream_request *request = requests; request < requests + REQUESTS_MAX;
             request++) {
            if (request->is_used && request->is_due) {
                tell(upstream, request);
                has_told = true;
            }
        }
    } while (has_told);
    return UINT64_MAX;
}

/* ---- what tests call ---- */

static struct upstream_request *oldest_unseen(void)
{
    struct upstream_request *oldest = NULL;
    for (struct upstream_request *request = requests; request < requests + REQUESTS_MAX;
         request++) {
        if (request->is_used && !request->is_seen &&
            (oldest == NULL || request->serial < oldest->serial)) {
            oldest = request;
        }
    }
    return oldest;
}

static size_t from_hex(const char *hex, uint8_t *ret_bytes)
{
    size_t len = 0;
    int high = -1;
    for (; *hex != '\0'; hex++) {
        if (*hex == ' ') {
            continue;
        }
        char digit[2] = {*hex, '\0'};
        int value = (int)strtol(digit, NULL, 16);
        if (high < 0) {
            high = value;
            continue;
        }
        assert_true(len < BYTES_MAX);
        ret_bytes[len++] = (uint8_t)(high << 4 | value);
        high = -1;
    }
    assert_int_equal(high, -1);
    return len;
}

void fake_client_expect(const char *target, const char *hex)
{
    uint8_t expected[BYTES_MAX];
    size_t len = from_hex(hex, expected);

    current = oldest_unseen();
    assert_non_null(current);
    current->is_seen = true;
    assert_string_equal(current->target, target);
    if (current->len != len || memcmp(current->bytes, expected, len) != 0) {
        print_error("sent, byte by byte:");
        for (size_t i = 0; i < current->len; i++) {
            print_error(" %02x", current->bytes[i]);
        }
        print_error("\n");
    }
    assert_int_equal(current->len, len);
    assert_memory_equal(current->bytes, expected, len);
}

uint64_t fake_client_take(const char *target, const uint8_t **ret_bytes, size_t *ret_len)
{
    struct upstream_request *oldest = NULL;
    for (struct upstream_request *request = requests; request < requests + REQUESTS_MAX;
         request++) {
        if (request->is_used && !request->is_seen && strcmp(request->target, target) == 0 &&
            (oldest == NULL || request->serial < oldest->serial)) {
            oldest = request;
        }
    }
    if (oldest == NULL) {
        return 0;
    }
    oldest->is_seen = true;
    current = oldest;
    *ret_bytes = oldest->bytes;
    *ret_len = oldest->len;
    return oldest->serial;
}

bool fake_client_choose(uint64_t number)
{
    for (struct upstream_request *request = requests; request < requests + REQUESTS_MAX;
         request++) {
        if (request->is_used && request->serial == number) {
            current = request;
            return true;
        }
    }
    return false;
}

void fake_client_expect_nothing(void)
{
    const struct upstream_request *request = oldest_unseen();
    if (request != NULL) {
        fail_msg("a request to %s", request->target);
    }
}

void fake_client_answer(const char *hex)
{
    assert_true(current != NULL && current->is_used);
    current->answer_len = from_hex(hex, answers[current - requests]);
    current->is_due = true;
}

void fake_client_fail(enum upstream_status status, bool was_sent, const char *why)
{
    assert_true(current != NULL && current->is_used);
    current->failure = (struct upstream_failure){status, was_sent, why};
    current->is_due = current->is_failure = true;
}

bool fake_client_pick(uint64_t which, const uint8_t **ret_bytes, size_t *ret_len)
{
    size_t count = fake_client_count(), at = count > 0 ? (size_t)(which % count) : 0;
    for (struct upstream_request *request = requests; request < requests + REQUESTS_MAX;
         request++) {
        if (request->is_used && at-- == 0) {
            request->is_seen = true;
            current = request;
            *ret_bytes = request->bytes;
            *ret_len = request->len;
            return true;
        }
    }
    return false;
}

void fake_client_answer_bytes(const uint8_t *bytes, size_t len)
{
    assert_true(current != NULL && current->is_used && len > 0 && len <= ANSWER_MAX);
    memcpy(answers[current - requests], bytes, len);
    current->answer_len = len;
    current->is_failure = false;
    current->is_due = true;
}

bool fake_client_is_cancelled(void)
{
    assert_non_null(current);
    return !current->is_used;
}

size_t fake_client_count(void)
{
    size_t count = 0;
    for (struct upstream_request *request = requests; request < requests + REQUESTS_MAX;
         request++) {
        count += request->is_used;
    }
    return count;
}
