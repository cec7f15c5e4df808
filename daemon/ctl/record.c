/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/record.h"

#include "coap/block.h"
#include "coap/method.h"
#include "coap/observe.h"
#include "coap/option.h"
#include "coap/words.h"
#include "ctl/output.h"
#include "ctl/stop.h"
#include "ctl/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORD_FAILED 1
#define RECORD_USAGE 2

/* As much as the proxy reads (conf/recording.h). */
#define FILE_MAX (16u << 20)
#define BODY_MAX (1u << 20)
#define REQUESTS_MAX 16384u

#define MESSAGE_MAX 32768u /* bytes of a message on the control socket */
#define BODIES_MAX 64u     /* that are put together at a time */
#define SEQUENCES_MAX 256u /* of notifications at a time */
#define UNIT 16u           /* bytes: the smallest block */

/* Bytes of a payload on one line. */
#define PIECE 64u

/* Text that grows; a failed allocation is an error for good. */
struct text_out {
    char *data;
    size_t len, capacity;
    bool is_bad;
};

/* A body that comes in blocks. */
struct body {
    char *key; /* the request; NULL: free */
    bool is_request;
    uint64_t used;
    struct text_out head; /* of an answer: its code and options */
    struct bytes etag;    /* in etag_bytes */
    uint8_t etag_bytes[8];
    uint64_t fetch, at_us, waited_us;
    bool registers, has_observe;
    uint8_t *data;
    size_t len, total; /* total: 0 until the last block is there */
    uint8_t have[BODY_MAX / UNIT / 8];
};

/* An observation. */
struct sequence {
    uint64_t fetch; /* 0: free */
    uint64_t at_us; /* of the last notification */
    struct text_out text;
};

struct record {
    FILE *out;
    const char *name;
    uint64_t written; /* bytes, with what waits in sequences */
    uint64_t requests, notifications, valid, left_out, used;
    struct body bodies[BODIES_MAX];
    struct sequence sequences[SEQUENCES_MAX];
};

/* What the proxy told: an answer, and its request. */
struct told {
    uint64_t fetch, at_us, waited_us;
    const char *target;
    struct message request, answer;
    uint8_t request_bytes[MESSAGE_MAX], answer_bytes[MESSAGE_MAX];
};

/* ---- text ---- */

static bool text_room(struct text_out *text, size_t count)
{
    if (text->is_bad || count < text->capacity - text->len) {
        return !text->is_bad;
    }
    size_t capacity = 2 * (text->len + count + 1);
    char *data = realloc(text->data, capacity);
    text->is_bad = data == NULL;
    if (data != NULL) {
        text->data = data;
        text->capacity = capacity;
    }
    return !text->is_bad;
}

static void text_add(struct text_out *text, const char *add)
{
    size_t len = strlen(add);
    if (text_room(text, len)) {
        memcpy(text->data + text->len, add, len + 1);
        text->len += len;
    }
}

static void text_free(struct text_out *text)
{
    free(text->data);
    *text = (struct text_out){0};
}

static void add_option_text(struct text_out *text, const struct option *option)
{
    size_t capacity = 4 * option->value.len + 40;
    if (text_room(text, capacity)) {
        text->data[text->len++] = ' ';
        text->len += option_word_format(option, text->data + text->len, capacity - 1);
    }
}

/* On the line where it is short, else on further ones. */
static void add_payload_text(struct text_out *text, struct bytes payload)
{
    bool is_short = payload.len <= PIECE;
    while (payload.len > 0) {
        struct bytes piece = {payload.data, payload.len < PIECE ? payload.len : PIECE};
        text_add(text, is_short ? " " : "\n  ");
        if (text_room(text, 2 * PIECE + 8)) {
            text->len += payload_word_format(piece, text->data + text->len, 2 * PIECE + 8);
        }
        payload.data += piece.len;
        payload.len -= piece.len;
    }
}

/* ---- what a request and an answer look like ---- */

static void add_request_text(struct text_out *text, const struct told *told)
{
    struct option_iter iter;
    struct option option;
    text_add(text, "> ");
    text_add(text, method_name(told->request.code));
    text_add(text, " ");
    text_add(text, told->target);
    option_iter_init(&iter, told->request.options);
    while (option_iter_next(&iter, &option)) {
        const struct option_row *row = option_row(option.number);
        if (option_selects(option.number) &&
            (row == NULL || option_length_is_good(row, option.value))) {
            add_option_text(text, &option);
        }
    }
}

/* Those of blocks are none of a recording, and those that are not for answers. */
static bool is_recorded_option(const struct option *option)
{
    const struct option_row *row = option_row(option->number);
    bool is_of_blocks = option_is_of_piece(option->number) || option->number == OPTION_block1 ||
                        option->number == OPTION_size1;
    return !is_of_blocks && (row == NULL || (row->in_response != OPTION_USE_NONE &&
                                             option_length_is_good(row, option->value)));
}

static void add_answer_text(struct text_out *text, const struct told *told)
{
    char code[16];
    struct option_iter iter;
    struct option option;
    (void)snprintf(code, sizeof(code), "< %u.%02u", CODE_CLASS(told->answer.code),
                   CODE_DETAIL(told->answer.code));
    text_add(text, code);
    option_iter_init(&iter, told->answer.options);
    while (option_iter_next(&iter, &option)) {
        if (is_recorded_option(&option)) {
            add_option_text(text, &option);
        }
    }
}

static void add_wait_text(struct text_out *text, uint64_t us)
{
    char wait[40];
    if (us >= 1000) {
        (void)snprintf(wait, sizeof(wait), "+%" PRIu64 "ms\n", us / 1000);
        text_add(text, wait);
    }
}

/* ---- the file ---- */

static bool record_complain(const struct record *record)
{
    (void)fprintf(stderr, "criproxyctl: %s: %s\n", record->name, strerror(errno));
    return false;
}

static bool put_recorded(struct record *record, struct text_out *text)
{
    errno = ENOMEM;
    bool is_good = !text->is_bad &&
                   (text->len == 0 || fwrite(text->data, text->len, 1, record->out) == 1) &&
                   fflush(record->out) == 0;
    text_free(text);
    return is_good ? true : record_complain(record);
}

static bool end_sequence(struct record *record, struct sequence *sequence)
{
    sequence->fetch = 0;
    text_add(&sequence->text, "\n");
    return put_recorded(record, &sequence->text);
}

static struct sequence *sequence_of(struct record *record, uint64_t fetch)
{
    struct sequence *at = record->sequences;
    while (at < record->sequences + SEQUENCES_MAX && at->fetch != fetch) {
        at++;
    }
    return at < record->sequences + SEQUENCES_MAX ? at : NULL;
}

/* Bytes of the answer, and of all that comes before it where it begins something. */
struct recorded_answer {
    const char *request; /* the words of it */
    const struct text_out *head;
    struct bytes payload;
    uint64_t fetch, at_us, waited_us;
    bool registers, has_observe;
};

static bool put_notification(struct record *record, struct sequence *sequence,
                             const struct recorded_answer *answer)
{
    struct text_out *text = &sequence->text;
    size_t before = text->len;
    if (before == 0) {
        text_add(text, answer->request);
        text_add(text, " observe=0\n");
        record->requests++;
    }
    add_wait_text(text, before == 0                       ? answer->waited_us
                        : answer->at_us > sequence->at_us ? answer->at_us - sequence->at_us
                                                          : 0);
    text_add(text, answer->head->data);
    add_payload_text(text, answer->payload);
    text_add(text, "\n");
    record->written += text->len - before;
    record->notifications++;
    sequence->at_us = answer->at_us;
    return answer->has_observe || end_sequence(record, sequence);
}

/* A whole answer, of a whole request. */
static bool record_answer(struct record *record, const struct recorded_answer *answer)
{
    struct sequence *sequence = sequence_of(record, answer->fetch);
    struct text_out text = {0};
    if (answer->head->is_bad) {
        errno = ENOMEM;
        return record_complain(record);
    }
    if (sequence == NULL && answer->registers && answer->has_observe) {
        sequence = sequence_of(record, 0);
        if (sequence == NULL) {
            record->left_out++;
            return true;
        }
        sequence->fetch = answer->fetch;
    }
    if (sequence != NULL) {
        return put_notification(record, sequence, answer);
    }
    text_add(&text, answer->request);
    text_add(&text, "\n");
    add_wait_text(&text, answer->waited_us);
    text_add(&text, answer->head->data);
    add_payload_text(&text, answer->payload);
    text_add(&text, "\n\n");
    record->written += text.len;
    record->requests++;
    return put_recorded(record, &text);
}

/* ---- bodies in blocks ---- */

static void body_end(struct body *body)
{
    free(body->key);
    free(body->data);
    text_free(&body->head);
    memset(body, 0, sizeof(*body));
}

static struct body *find_body(struct record *record, const char *key, bool is_request)
{
    for (size_t i = 0; i < BODIES_MAX; i++) {
        struct body *body = &record->bodies[i];
        if (body->key != NULL && body->is_request == is_request && strcmp(body->key, key) == 0) {
            body->used = ++record->used;
            return body;
        }
    }
    return NULL;
}

/* In place of an older one of the request, or of the one that was used longest ago. */
static struct body *record_begin_body(struct record *record, const char *key, bool is_request)
{
    struct body *body = find_body(record, key, is_request);
    for (size_t i = 0; body == NULL && i < BODIES_MAX; i++) {
        body = record->bodies[i].key == NULL ? &record->bodies[i] : NULL;
    }
    if (body == NULL) {
        body = &record->bodies[0];
        for (size_t i = 1; i < BODIES_MAX; i++) {
            body = record->bodies[i].used < body->used ? &record->bodies[i] : body;
        }
    }
    record->left_out += body->key != NULL;
    body_end(body);
    body->key = strdup(key);
    body->is_request = is_request;
    body->used = ++record->used;
    return body->key != NULL ? body : NULL;
}

/* @return false where it is too large, or there is no memory */
static bool add_block(struct body *body, const struct block *block, struct bytes payload)
{
    uint64_t offset = block_offset(block);
    if (offset + payload.len > BODY_MAX) {
        return false;
    }
    size_t end = (size_t)offset + payload.len;
    if (body->data == NULL) {
        body->data = malloc(BODY_MAX);
    }
    if (body->data == NULL) {
        return false;
    }
    if (payload.len > 0) {
        memcpy(body->data + offset, payload.data, payload.len);
    }
    for (size_t unit = (size_t)offset / UNIT; unit < (end + UNIT - 1) / UNIT; unit++) {
        body->have[unit / 8] |= (uint8_t)(1u << unit % 8);
    }
    body->len = end > body->len ? end : body->len;
    body->total = block->more ? body->total : end;
    return true;
}

static bool body_is_whole(const struct body *body)
{
    for (size_t unit = 0; unit < (body->total + UNIT - 1) / UNIT; unit++) {
        if ((body->have[unit / 8] & 1u << unit % 8) == 0) {
            return false;
        }
    }
    return body->total > 0;
}

static struct bytes etag_of(const struct message *message)
{
    struct bytes etag = {0};
    return option_find(message->options, OPTION_etag, &etag) && etag.len <= 8 ? etag
                                                                              : (struct bytes){0};
}

/* ---- an answer ---- */

/* Whether an observe with @p value is in the request. */
static bool has_observe_value(const struct message *request, uint32_t value)
{
    struct bytes observe;
    return option_find(request->options, OPTION_observe, &observe) && option_uint(observe) == value;
}

static bool put_block_answer(struct record *record, const struct told *told, const char *request,
                             const struct block *block)
{
    struct body *body = find_body(record, request, false);
    struct bytes etag = etag_of(&told->answer);
    if (block->num == 0) {
        body = record_begin_body(record, request, false);
        if (body == NULL) {
            record->left_out++;
            return true;
        }
        add_answer_text(&body->head, told);
        body->fetch = told->fetch;
        body->at_us = told->at_us;
        body->waited_us = told->waited_us;
        body->registers = has_observe_value(&told->request, OBSERVE_REGISTER);
        body->has_observe = options_have(told->answer.options, OPTION_observe);
        memcpy(body->etag_bytes, etag.len > 0 ? etag.data : body->etag_bytes, etag.len);
        body->etag = (struct bytes){body->etag_bytes, etag.len};
    }
    if (body == NULL) {
        return true; /* its beginning was not heard */
    }
    if (!bytes_equal(body->etag, etag) || !add_block(body, block, told->answer.payload)) {
        body_end(body);
        record->left_out++;
        return true;
    }
    bool is_good = true;
    if (body_is_whole(body)) {
        const struct recorded_answer answer = {.request = request,
                                               .head = &body->head,
                                               .payload = {body->data, body->total},
                                               .fetch = body->fetch,
                                               .at_us = body->at_us,
                                               .waited_us = body->waited_us,
                                               .registers = body->registers,
                                               .has_observe = body->has_observe};
        is_good = record_answer(record, &answer);
        body_end(body);
    }
    return is_good;
}

static bool put_whole_answer(struct record *record, const struct told *told, const char *request)
{
    struct text_out head = {0};
    add_answer_text(&head, told);
    const struct recorded_answer answer = {
        .request = request,
        .head = &head,
        .payload = told->answer.payload,
        .fetch = told->fetch,
        .at_us = told->at_us,
        .waited_us = told->waited_us,
        .registers = has_observe_value(&told->request, OBSERVE_REGISTER),
        .has_observe = options_have(told->answer.options, OPTION_observe)};
    bool is_good = record_answer(record, &answer);
    text_free(&head);
    return is_good;
}

/*
 * The payload of the request into its text; what came in blocks before is put together.
 *
 * @return false: the answer is not the last one of the request
 */
static bool add_request_payload(struct record *record, const struct told *told,
                                struct text_out *text)
{
    struct bytes value;
    if (!option_find(told->request.options, OPTION_block1, &value)) {
        add_payload_text(text, told->request.payload);
        return true;
    }
    const struct block block = block_of(value);
    struct body *body = block.num == 0 ? record_begin_body(record, text->data, true)
                                       : find_body(record, text->data, true);
    if (body == NULL) {
        record->left_out += !block.more;
        return false;
    }
    bool is_good = add_block(body, &block, told->request.payload);
    if (is_good && block.more && told->answer.code == CODE(2, 31)) {
        return false;
    }
    is_good = is_good && body_is_whole(body);
    if (is_good) {
        add_payload_text(text, (struct bytes){body->data, body->total});
    }
    body_end(body);
    record->left_out += !is_good;
    return is_good;
}

static bool record_told(struct record *record, const struct told *told)
{
    struct text_out request = {0};
    struct bytes value;
    bool is_good = true;
    struct sequence *sequence = sequence_of(record, told->fetch);
    if (has_observe_value(&told->request, OBSERVE_DEREGISTER)) {
        return sequence == NULL || end_sequence(record, sequence);
    }
    /* A zone has no place in a URI. */
    if (strchr(told->target, '[') != NULL &&
        memchr(told->target, '%', strcspn(told->target, "]")) != NULL) {
        record->left_out++;
        return true;
    }
    if (told->answer.code == CODE(2, 3)) {
        record->valid++;
        return true;
    }
    add_request_text(&request, told);
    if (!request.is_bad && add_request_payload(record, told, &request) && !request.is_bad) {
        struct block block = {0};
        bool is_block = option_find(told->answer.options, OPTION_block2, &value);
        block = is_block ? block_of(value) : block;
        is_good = is_block && (block.num > 0 || block.more)
                      ? put_block_answer(record, told, request.data, &block)
                      : put_whole_answer(record, told, request.data);
    }
    text_free(&request);
    return is_good;
}

/* ---- from the control socket ---- */

static uint64_t record_number_of(const struct json_object *object, const char *key, int base)
{
    const char *text = json_get(object, key);
    return text != NULL ? strtoull(text, NULL, base) : 0;
}

static bool read_message(const struct json_object *object, const char *key, uint8_t *bytes,
                         struct message *ret_message)
{
    const char *hex = json_get(object, key);
    size_t len = 0;
    for (; hex != NULL && hex[0] != '\0' && hex[1] != '\0' && len < MESSAGE_MAX; hex += 2) {
        int high = hex_digit((uint8_t)hex[0]), low = hex_digit((uint8_t)hex[1]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes[len++] = (uint8_t)(high << 4 | low);
    }
    return hex != NULL && *hex == '\0' && message_decode(bytes, len, ret_message) == MESSAGE_OK;
}

static bool record_take_line(struct record *record, const struct json_object *object)
{
    static struct told told;
    const char *lost = json_get(object, "lost");
    told.target = json_get(object, "target");
    if (lost != NULL) {
        record->left_out += strtoull(lost, NULL, 10);
        return true;
    }
    if (told.target == NULL || strpbrk(told.target, " \t#\"") != NULL ||
        !read_message(object, "request", told.request_bytes, &told.request) ||
        !read_message(object, "answer", told.answer_bytes, &told.answer)) {
        record->left_out++;
        return true;
    }
    told.fetch = record_number_of(object, "fetch", 16);
    told.at_us = record_number_of(object, "at_us", 10);
    told.waited_us = record_number_of(object, "waited_us", 10);
    return record_told(record, &told);
}

/* ---- the command ---- */

static bool record_open(struct record *record)
{
    char when[32];
    time_t now = time(NULL);
    struct tm utc;
    record->out = output_open(record->name);
    if (record->out == NULL || gmtime_r(&now, &utc) == NULL) {
        return record_complain(record);
    }
    (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    int len =
        fprintf(record->out, "# Recorded by criproxyctl " CRIPROXYCTL_VERSION ", %s\n\n", when);
    record->written = len > 0 ? (uint64_t)len : 0;
    return len > 0 && fflush(record->out) == 0 ? true : record_complain(record);
}

/* What is not over is written as far as it came. */
static bool record_close(struct record *record)
{
    bool is_good = true;
    for (size_t i = 0; i < SEQUENCES_MAX; i++) {
        if (record->sequences[i].fetch != 0) {
            is_good = end_sequence(record, &record->sequences[i]) && is_good;
        }
    }
    for (size_t i = 0; i < BODIES_MAX; i++) {
        record->left_out += record->bodies[i].key != NULL;
        body_end(&record->bodies[i]);
    }
    errno = 0;
    return (output_close(record->out) || record_complain(record)) && is_good;
}

/* Until a signal, or a limit. @return whether the end is a good one */
static bool take_answers(struct wire *wire, struct record *record)
{
    enum wire_result result;
    while ((result = wire_read(wire)) == WIRE_ITEM) {
        if (!record_take_line(record, &wire->object)) {
            return false;
        }
        if (stop_asked != 0) {
            return true;
        }
        if (record->written >= FILE_MAX - 2 * BODY_MAX || record->requests >= REQUESTS_MAX) {
            (void)fputs("criproxyctl: the recording is as large as the proxy reads one\n", stderr);
            return true;
        }
    }
    return result == WIRE_STOPPED;
}

int record_run(const char *socket, int argc, char **argv)
{
    static struct wire wire;
    static struct record record;
    unsigned time_s = 0;
    int first = 0;
    if (!stop_take_options(argc, argv, &time_s, &first) || first == argc || argc - first > 2) {
        (void)fputs("criproxyctl: record takes a file, and then target=TEXT\n", stderr);
        (void)fputs("Try criproxyctl --help.\n", stderr);
        return RECORD_USAGE;
    }
    if (!wire_open(&wire, socket)) {
        return RECORD_FAILED;
    }
    record.name = argv[first];
    wire.stop = &stop_asked;
    stop_on_signals(time_s);
    /* The first line says that the proxy records: until then the file is left as it is. */
    bool is_good = wire_ask(&wire, "answers", argv + first + 1, argc - first - 1) &&
                   wire_read(&wire) == WIRE_ITEM && record_open(&record);
    if (is_good) {
        is_good = record_take_line(&record, &wire.object) && take_answers(&wire, &record);
        is_good = record_close(&record) && is_good;
        (void)fprintf(stderr,
                      "%" PRIu64 " requests, %" PRIu64 " answers of observations; left out %" PRIu64
                      ", and %" PRIu64 " that were 2.03\n",
                      record.requests, record.notifications, record.left_out, record.valid);
    }
    wire_close(&wire);
    return is_good ? 0 : RECORD_FAILED;
}
