/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/fake_web.h"

#include "net/loop.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 64u
#define TEXT_MAX 4096u
#define BODY_MAX (128u * 1024)
#define DATE_S 1000000000u /* when answers come, in seconds since 1970 */

struct web_request {
    struct web *web;
    bool is_used, is_seen, is_due, is_failure;
    bool goes_on, has_piece; /* its body: more of it is due, there is some that was not taken */
    size_t looked_at;        /* of what was sent */
    uint64_t serial;
    void *user;
    char line[TEXT_MAX];
    char fields[TEXT_MAX]; /* each with a line feed */
    uint8_t sent[BODY_MAX];
    size_t sent_len;
    struct web_failure failure;
    unsigned status;
    char answer_fields[TEXT_MAX];
    uint8_t body[BODY_MAX];
    size_t body_len, given; /* bytes, and those of parts that were told or skipped */
    uint32_t part_bytes;
    uint64_t skip;
    uint64_t sent_ms; /* its last piece */
    bool is_connecting, has_begun;
};

struct web {
    struct loop *loop;
    const struct web_handler *handler;
    void *context;
    struct web_counters counters;
};

static struct web_request requests[REQUESTS_MAX];
static struct web_request *current;
static uint64_t serial;
static unsigned clients;
static bool is_held; /* nothing more of bodies is taken */

int web_new(struct loop *loop, const struct web_options *options, const struct web_handler *handler,
            void *context, struct web **ret_web)
{
    struct web *web = calloc(1, sizeof(*web));
    assert_non_null(web);
    web->loop = loop;
    assert_true(options->head_bytes > 0 && options->body_bytes > 0);
    web->handler = handler;
    web->context = context;
    if (clients++ == 0) {
        memset(requests, 0, sizeof(requests));
        current = NULL;
        is_held = false;
    }
    *ret_web = web;
    return 0;
}

void web_free(struct web *web)
{
    if (web != NULL) {
        clients--;
        memset(requests, 0, sizeof(requests));
        current = NULL;
    }
    free(web);
}

void web_set_options(struct web *web, const struct web_options *options)
{
    (void)web;
    (void)options;
}

const struct web_counters *web_counters(const struct web *web)
{
    return &web->counters;
}

struct web_request *web_send(struct web *web, const struct web_ask *ask, void *user)
{
    struct web_request *request = requests;
    char address[ADDRESS_TEXT_MAX];
    while (request < requests + REQUESTS_MAX && request->is_used) {
        request++;
    }
    if (request == requests + REQUESTS_MAX) {
        return NULL;
    }
    assert_non_null(user);
    assert_true(ask->part_bytes == 0 || ask->part_bytes >= WEB_PART_BYTES_MIN);
    assert_true(ask->skip % WEB_PART_UNIT == 0);
    memset(request, 0, sizeof(*request));
    request->part_bytes = ask->part_bytes;
    request->skip = ask->skip;
    request->is_used = true;
    request->web = web;
    request->serial = ++serial;
    request->sent_ms = loop_now_ms(web->loop);
    request->user = user;
    (void)snprintf(request->line, sizeof(request->line), "%s %s %s",
                   address_format(&ask->address, address), ask->method, ask->url);
    size_t at = 0;
    for (size_t i = 0; i < ask->field_count && at < TEXT_MAX; i++) {
        at += (size_t)snprintf(request->fields + at, TEXT_MAX - at, "%s\n", ask->fields[i]);
    }
    if (ask->shows_certificate && at < TEXT_MAX) { /* as if it were one of them */
        (void)snprintf(request->fields + at, TEXT_MAX - at, "certificate: shown\n");
    }
    assert_true(ask->body.len == 0 || ask->has_body || ask->body.data != NULL);
    request->sent_len = ask->body.len < BODY_MAX ? ask->body.len : BODY_MAX;
    if (request->sent_len > 0 && ask->body.data != NULL) {
        memcpy(request->sent, ask->body.data, request->sent_len);
    }
    request->goes_on = request->has_piece = ask->body_goes_on;
    return request;
}

bool web_more(struct web *web, struct web_request *request, struct bytes piece, bool is_last,
              void *user)
{
    assert_true(request->is_used && request->goes_on && !request->has_piece);
    request->sent_ms = loop_now_ms(web->loop);
    assert_true(piece.len < BODY_MAX - request->sent_len);
    if (piece.len > 0) {
        memcpy(request->sent + request->sent_len, piece.data, piece.len);
    }
    request->sent_len += piece.len;
    request->user = user;
    request->goes_on = !is_last;
    request->has_piece = true;
    return true;
}

void web_next(struct web *web, struct web_request *request, void *user)
{
    (void)web;
    assert_true(request->is_used && request->given > 0 && !request->is_due);
    request->user = user;
    request->is_due = true;
}

bool web_awaits_first_byte(struct web *web, struct web_request *request, uint64_t *ret_since_ms)
{
    bool is_out = !request->is_connecting && !request->goes_on;
    assert_true(request->is_used);
    *ret_since_ms = is_out ? request->sent_ms : loop_now_ms(web->loop);
    return !request->has_begun;
}

void web_cancel(struct web *web, struct web_request *request)
{
    (void)web;
    assert_true(request->is_used);
    request->is_used = false;
}

/* Text of lines to fields, in place. */
static size_t split_fields(char *text, struct http_field *ret_fields)
{
    size_t count = 0;
    while (*text != '\0' && count < HTTP_RESPONSE_FIELDS_MAX) {
        char *end = strchr(text, '\n'), *next = end != NULL ? end + 1 : text + strlen(text);
        if (end != NULL) {
            *end = '\0';
        }
        char *colon = strstr(text, ": ");
        if (colon != NULL) {
            *colon = '\0';
            ret_fields[count++] = (struct http_field){text, colon + 2};
        }
        text = next;
    }
    return count;
}

/* How much of the body is told now, from request->given on; more follows where that is a part. */
static size_t next_len(struct web_request *request)
{
    bool has_parts = request->part_bytes > 0 && request->status / 100 == 2 &&
                     request->body_len > request->part_bytes;
    if (has_parts && request->given < request->skip) {
        request->given =
            request->skip < request->body_len ? (size_t)request->skip : request->body_len;
    }
    size_t rest = request->body_len - request->given;
    return has_parts && rest > request->part_bytes ? request->part_bytes : rest;
}

static void tell_web(struct web *web, struct web_request *request)
{
    static struct web_request told; /* a copy: the place may be another request's by then */
    struct http_field fields[HTTP_RESPONSE_FIELDS_MAX];
    size_t len = request->is_failure ? 0 : next_len(request);
    memcpy(&told, request, sizeof(told));
    request->given += len;
    request->has_begun = true;
    request->is_due = false;
    request->is_used = !request->is_failure && request->given < request->body_len;
    if (told.is_failure) {
        web->handler->on_failure(web->context, told.user, &told.failure);
        return;
    }
    const struct http_response response = {
        .status = told.status,
        .fields = fields,
        .field_count = split_fields(told.answer_fields, fields),
        .body = {told.body + told.given, len},
        .offset = told.given,
        .more = request->is_used,
        .length = told.body_len,
        .received_s = DATE_S,
    };
    web->handler->on_answer(web->context, told.user, &response);
}

uint64_t web_turn(struct web *web, uint64_t now_ms)
{
    bool has_told;
    (void)now_ms;
    do {
        has_told = false;
        for (struct web_request *request = requests; request < requests + REQUESTS_MAX; request++) {
            bool may_be_told = !request->goes_on || request->has_piece;
            if (request->is_used && request->is_due && may_be_told) {
                tell_web(web, request);
                has_told = true;
            } else if (request->is_used && request->goes_on && request->has_piece && !is_held) {
                request->has_piece = false;
                web->handler->on_taken(web->context, request->user);
                has_told = true;
            }
        }
    } while (has_told);
    return UINT64_MAX;
}

/* ---- what tests call ---- */

static struct web_request *oldest_unseen_web(void)
{
    struct web_request *oldest = NULL;
    for (struct web_request *request = requests; request < requests + REQUESTS_MAX; request++) {
        if (request->is_used && !request->is_seen &&
            (oldest == NULL || request->serial < oldest->serial)) {
            oldest = request;
        }
    }
    return oldest;
}

bool fake_web_take(const char **ret_line, const char **ret_fields, const char **ret_body)
{
    struct web_request *request = oldest_unseen_web();
    if (request == NULL) {
        return false;
    }
    current = request;
    request->is_seen = true;
    request->looked_at = request->sent_len;
    assert_true(request->sent_len < BODY_MAX); /* a NUL is behind it */
    *ret_line = request->line;
    *ret_fields = request->fields;
    *ret_body = (const char *)request->sent;
    return true;
}

bool fake_web_take_more(const char **ret_text, bool *ret_is_last)
{
    if (current == NULL || !current->is_used) {
        return false;
    }
    current->sent[current->sent_len] = '\0';
    *ret_text = (const char *)current->sent + current->looked_at;
    *ret_is_last = !current->goes_on;
    current->looked_at = current->sent_len;
    return true;
}

void fake_web_hold(bool hold)
{
    is_held = hold;
}

uint64_t fake_web_number(void)
{
    assert_non_null(current);
    return current->serial;
}

void fake_web_choose(uint64_t number)
{
    for (struct web_request *request = requests; request < requests + REQUESTS_MAX; request++) {
        if (request->is_used && request->serial == number) {
            current = request;
        }
    }
}

void fake_web_answer(unsigned status, const char *fields, struct bytes body)
{
    assert_true(current != NULL && current->is_used);
    current->status = status;
    (void)snprintf(current->answer_fields, sizeof(current->answer_fields), "%s", fields);
    current->body_len = body.len < BODY_MAX ? body.len : BODY_MAX;
    if (current->body_len > 0) {
        memcpy(current->body, body.data, current->body_len);
    }
    current->is_failure = false;
    current->is_due = true;
}

void fake_web_fail(enum web_status status, bool was_sent, const char *why)
{
    assert_true(current != NULL && current->is_used);
    current->failure = (struct web_failure){status, was_sent, why};
    current->is_due = current->is_failure = true;
}

void fake_web_connecting(bool is_connecting)
{
    assert_true(current != NULL && current->is_used);
    current->is_connecting = is_connecting;
    current->sent_ms = loop_now_ms(current->web->loop);
}

void fake_web_begin(void)
{
    assert_true(current != NULL && current->is_used);
    current->has_begun = true;
}

size_t fake_web_count(void)
{
    size_t count = 0;
    for (struct web_request *request = requests; request < requests + REQUESTS_MAX; request++) {
        count += request->is_used;
    }
    return count;
}
