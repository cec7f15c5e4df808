/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers out of a recording (conf/recording.h), in place of an origin server: what was recorded
 * of such a request, as long after it as it took then.
 *
 *     send()    finds the request, takes the turn of one of its entries, and starts a run
 *     a timer   gives the answer; of an observation one after the other
 *     cancel()  ends the run
 *
 * Whose turn it is is counted here, by each worker for itself, and begins anew with a reload. A run
 * holds a reference to its recording, so that an observation goes on when the configuration that
 * it came from has gone.
 */
#include "base/account.h"
#include "coap/block.h"
#include "coap/observe.h"
#include "coap/option.h"
#include "conf/recording.h"
#include "origin/side.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Bodies of requests that come in blocks, at a time. */
#define UPLOADS_MAX 16u

/* Options of an answer: those of the recording, and a few more. */
#define ANSWER_OPTIONS_MAX (8192u + 64u)

/* Of a request of a recording. */
struct played_request {
    uint32_t entries[2]; /* played last: without Observe, with Observe; or RECORDING_NONE */
    uint32_t entry;      /* of which was answered last, or RECORDING_NONE: */
    uint32_t answer;     /* further blocks are of this answer of it */
};

/* Where a recording is. */
struct played {
    struct played *next;
    struct recording *recording; /* a reference */
    struct played_request requests[];
};

/* A request that is answered, and perhaps observes. */
struct replay_run {
    struct list_node node;
    struct timer timer;
    struct sending *sending;
    struct recording *recording; /* a reference */
    uint32_t request, entry;     /* of it; RECORDING_NONE: answered with own_code */
    uint32_t next;               /* answer of the entry */
    uint32_t speed;
    uint32_t number; /* of the next notification */
    uint8_t own_code;
    bool is_observing; /* the request had Observe 0, and the entry has it */
    bool is_renewed;   /* the registration: what was told last is told again */
    bool is_block;     /* behind the first, of what was answered last: at once */
    uint64_t due_ms;   /* when the next answer is, or UINT64_MAX */
};

struct upload {
    uint64_t key;           /* of what belongs together; 0: free */
    uint64_t used_ms;       /* when its last block came */
    struct holding holding; /* of its client, while it is not free */
    uint8_t *data;
    size_t len, capacity;
};

struct replays {
    struct list runs;
    struct played *played;
    struct upload uploads[UPLOADS_MAX];
    struct account_book book; /* which source has how many of them */
    uint64_t seed;            /* of their keys */
};

static struct replays *replays_of(struct origin_side *side)
{
    struct replays *made = side->replays == NULL ? calloc(1, sizeof(*made)) : NULL;
    if (made != NULL) {
        made->seed = entropy_u64(&side->context.entropy);
        if (account_book_init(&made->book, UPLOADS_MAX, UPLOADS_MAX, ACCOUNT_IPV6_BITS,
                              made->seed) == 0) {
            side->replays = made;
        } else {
            free(made);
        }
    }
    return side->replays;
}

/* --- runs ------------------------------------------------------------------- */

static void run_free(struct origin_side *side, struct replay_run *run)
{
    timer_cancel(&side->context.wheel, &run->timer);
    list_remove(&side->replays->runs, &run->node);
    recording_release(run->recording);
    free(run);
}

static void carrier_recording_cancel(struct origin_side *side, struct sending *sending)
{
    if (sending->replay != NULL) {
        run_free(side, sending->replay);
        sending->replay = NULL;
    }
}

/* NULL: it was not played yet, or not since a reload. */
static struct played *look_played(const struct replays *replays, const struct recording *recording)
{
    struct played *played = replays->played;
    while (played != NULL && played->recording != recording) {
        played = played->next;
    }
    return played;
}

/* Made where it is not there; NULL without memory. */
static struct played *find_played(struct replays *replays, struct recording *recording)
{
    const struct played_request fresh = {{RECORDING_NONE, RECORDING_NONE}, RECORDING_NONE, 0};
    struct played *played = look_played(replays, recording);
    size_t count = recording->request_count;
    if (played != NULL) {
        return played;
    }
    played = calloc(1, sizeof(*played) + count * sizeof(played->requests[0]));
    if (played != NULL) {
        for (size_t i = 0; i < count; i++) {
            played->requests[i] = fresh;
        }
        played->recording = recording_acquire(recording);
        played->next = replays->played;
        replays->played = played;
    }
    return played;
}

static void forget_played(struct replays *replays)
{
    while (replays->played != NULL) {
        struct played *next = replays->played->next;
        recording_release(replays->played->recording);
        free(replays->played);
        replays->played = next;
    }
}

/* --- answers ---------------------------------------------------------------- */

/* Options beside those of the recording, in the order of their numbers. */
struct own_options {
    struct option options[4];
    uint8_t values[4][4];
    size_t count;
};

static void add_own_option(struct own_options *own, uint16_t number, uint32_t value)
{
    uint8_t *bytes = own->values[own->count];
    size_t len = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (value >> shift != 0) {
            bytes[len++] = (uint8_t)(value >> shift);
        }
    }
    own->options[own->count++] = (struct option){number, {bytes, len}};
}

/* Both in the order of their numbers. @p is_kept: of the recording's; NULL: all. */
static void write_merged_options(struct message_writer *writer, struct bytes recorded,
                                 bool (*is_kept)(uint16_t number), const struct own_options *own)
{
    struct option_iter iter;
    struct option option;
    size_t next = 0;
    option_iter_init(&iter, recorded);
    while (option_iter_next(&iter, &option)) {
        for (; next < own->count && own->options[next].number < option.number; next++) {
            message_writer_option(writer, own->options[next].number, own->options[next].value);
        }
        if (is_kept == NULL || is_kept(option.number)) {
            message_writer_option(writer, option.number, option.value);
        }
    }
    for (; next < own->count; next++) {
        message_writer_option(writer, own->options[next].number, own->options[next].value);
    }
}

static bool is_of_valid(uint16_t number)
{
    return number == OPTION_etag || number == OPTION_max_age;
}

/* Whether the request names the answer's ETag: 2.03 will do (RFC 7252 section 5.10.6). */
static bool is_known_already(const struct message *request, const struct recording_answer *answer)
{
    struct option_iter iter;
    struct option option;
    struct bytes etag;
    if (answer->code != CODE(2, 5) || !option_find(answer->options, OPTION_etag, &etag)) {
        return false;
    }
    option_iter_init(&iter, request->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == OPTION_etag && bytes_equal(option.value, etag)) {
            return true;
        }
    }
    return false;
}

/*
 * The block of the payload that the request asks for; the first where it asks for none, and the
 * payload has more than one.
 *
 * @param ret_is_cut there is more than that block, which @p ret_block is.
 * @return false: there is no such block
 */
static bool cut_answer(const struct message *request, bool is_first, struct message *answer,
                       struct block *ret_block, bool *ret_is_cut)
{
    struct block block = {.num = 0, .szx = BLOCK_SZX_MAX};
    struct bytes value;
    if (option_find(request->options, OPTION_block2, &value)) {
        block = block_of(value);
        block.num = is_first ? block.num : 0;
        block.szx = block.szx == BLOCK_SZX_BERT ? BLOCK_SZX_MAX : block.szx;
    }
    *ret_is_cut = CODE_CLASS(answer->code) == 2 &&
                  (block.num > 0 || answer->payload.len > block_size(&block));
    return !*ret_is_cut ||
           block_cut(&block, answer->payload, block_size(&block), ret_block, &answer->payload);
}

/* The options that are not the recording's. */
static void add_own_options(struct replay_run *run, const struct message *request,
                            const struct recording_answer *recorded, const struct block *block,
                            struct own_options *own)
{
    struct bytes value;
    if (run->is_observing && recorded->has_observe) {
        add_own_option(own, OPTION_observe, run->number++ & OBSERVE_NUMBER_MAX);
    }
    if (block != NULL) {
        add_own_option(own, OPTION_block2, block_value(block));
    }
    if (option_find(request->options, OPTION_block1, &value)) {
        add_own_option(own, OPTION_block1, option_uint(value));
    }
    if (block != NULL && options_have(request->options, OPTION_size2)) {
        add_own_option(own, OPTION_size2, (uint32_t)recorded->payload.len);
    }
}

/* What is given now; the run may be gone when it returns. */
static void replay_answer(struct origin_side *side, struct replay_run *run,
                          const struct recording_answer *recorded)
{
    struct sending *sending = run->sending;
    struct recording *recording = recording_acquire(run->recording);
    uint8_t buffer[ANSWER_OPTIONS_MAX];
    struct own_options own = {.count = 0};
    struct message_writer writer;
    struct message request = {0};
    const struct bytes none = {0};
    struct block block = {0};
    bool is_cut = false;
    (void)message_decode(sending->datagram, sending->datagram_len, &request); /* our own */
    bool is_valid = is_known_already(&request, recorded);
    struct message answer = {.type = MESSAGE_ACK,
                             .code = is_valid ? CODE(2, 3) : recorded->code,
                             .token = request.token,
                             .payload = is_valid ? none : recorded->payload};
    bool is_there =
        cut_answer(&request, !run->is_observing || run->next <= 1, &answer, &block, &is_cut);
    if (!is_there) {
        answer.code = CODE(4, 0);
        answer.payload = none;
    }
    add_own_options(run, &request, recorded, is_there && is_cut ? &block : NULL, &own);
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_ACK, answer.code, 0, none);
    write_merged_options(&writer, is_there ? recorded->options : none,
                         is_valid ? is_of_valid : NULL, &own);
    answer.options = (struct bytes){buffer + MESSAGE_HEADER_LEN, writer.len - MESSAGE_HEADER_LEN};
    sending_answered(side, sending, &answer, false);
    recording_release(recording);
}

static void on_replay_due(void *context, struct timer *timer, uint64_t now_ms);

/* When the answer after the one that is given now is due. */
static void replay_await_next(struct origin_side *side, struct replay_run *run, uint64_t now_ms)
{
    const struct recording_entry *entry = &run->recording->entries[run->entry];
    const struct recording_answer *answers = &run->recording->answers[entry->first];
    bool goes_on = run->next == 0 || (run->is_observing && answers[run->next - 1].has_observe);
    run->due_ms = UINT64_MAX;
    if (goes_on && run->next < entry->count && answers[run->next].code != CODE_EMPTY) {
        run->due_ms = now_ms + answers[run->next].wait_ms / run->speed;
        timer_set(&side->context.wheel, &run->timer, run->due_ms, on_replay_due);
    }
}

static void on_replay_due(void *context, struct timer *timer, uint64_t now_ms)
{
    struct origin_side *side = context;
    struct replay_run *run = HASH_ENTRY(timer, struct replay_run, timer);
    if (run->entry == RECORDING_NONE) {
        const struct recording_answer own = {.code = run->own_code};
        replay_answer(side, run, &own);
        return;
    }
    const struct recording_entry *entry = &run->recording->entries[run->entry];
    if (run->is_renewed) {
        run->is_renewed = false;
        if (run->due_ms != UINT64_MAX) {
            timer_set(&side->context.wheel, &run->timer, run->due_ms, on_replay_due);
        }
    } else {
        run->next++;
        replay_await_next(side, run, now_ms);
    }
    struct played *played = look_played(side->replays, run->recording);
    if (played != NULL) {
        played->requests[run->request].entry = run->entry;
        played->requests[run->request].answer = run->next - 1;
    }
    sending_event(side, run->sending, EVENT_recorded, entry->line);
    replay_answer(side, run, &run->recording->answers[entry->first + run->next - 1]);
}

/* --- requests in blocks ------------------------------------------------------- */

static void upload_end(struct replays *replays, struct upload *upload)
{
    account_discharge(&replays->book, &upload->holding);
    free(upload->data);
    *upload = (struct upload){0};
}

static uint64_t key_of_upload(const struct replays *replays, const struct carrier_way *way,
                              struct bytes key, const struct message *request)
{
    struct bytes tag = {0};
    uint64_t hash = address_hash(&way->source, replays->seed ^ request->code);
    (void)option_find(request->options, OPTION_request_tag, &tag);
    return hash_bytes(tag.data, tag.len, hash_bytes(key.data, key.len, hash)) | 1;
}

/* Of that key, or NULL; what has waited for longer than block.keep-time is ended. */
static struct upload *find_upload(struct replays *replays, uint64_t key, uint64_t oldest_ms)
{
    struct upload *found = NULL;
    for (size_t i = 0; i < UPLOADS_MAX; i++) {
        struct upload *at = &replays->uploads[i];
        if (at->key != 0 && at->used_ms < oldest_ms) {
            upload_end(replays, at);
        }
        found = at->key == key ? at : found;
    }
    return found;
}

/* A free one: where there is none, that source gives way which has most. */
static struct upload *begin_upload(struct replays *replays, uint64_t key,
                                   const struct address *source)
{
    bool is_owed;
    struct upload *upload = NULL;
    for (size_t i = 0; i < UPLOADS_MAX && upload == NULL; i++) {
        upload = replays->uploads[i].key == 0 ? &replays->uploads[i] : NULL;
    }
    if (upload == NULL) {
        struct holding *holding = account_yield(&replays->book, source, 1, &is_owed);
        assert(holding != NULL); /* all of them are held */
        account_note_displaced(holding);
        upload = HASH_ENTRY(holding, struct upload, holding);
        upload_end(replays, upload);
    }
    upload->key = key;
    account_charge(&replays->book, &upload->holding, source, 1);
    return upload;
}

/* @return CODE_EMPTY, or the code to answer with */
static uint8_t append_block(struct upload *upload, struct bytes payload)
{
    size_t needed = upload->len + payload.len;
    if (needed > RECORDING_BODY_MAX) {
        return CODE(4, 13);
    }
    if (needed > upload->capacity) {
        uint8_t *data = realloc(upload->data, 2 * needed);
        if (data == NULL) {
            return CODE(5, 3);
        }
        upload->data = data;
        upload->capacity = 2 * needed;
    }
    if (payload.len > 0) {
        memcpy(upload->data + upload->len, payload.data, payload.len);
    }
    upload->len = needed;
    return CODE_EMPTY;
}

/*
 * One block more of a body.
 *
 * @param ret_upload has the whole body where CODE_EMPTY is returned; to be ended then.
 * @return CODE_EMPTY, or the code to answer with: 2.31, or an error.
 */
static uint8_t take_block(struct origin_side *side, const struct carrier_way *way, uint64_t key,
                          const struct message *request, struct bytes value,
                          struct upload **ret_upload)
{
    struct replays *replays = side->replays;
    const struct block block = block_of(value);
    if (!block_fits_payload(&block, request->payload.len)) {
        return CODE(4, 8);
    }
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t keep_ms = side->context.config->block_keep_time;
    struct upload *upload = find_upload(replays, key, now_ms > keep_ms ? now_ms - keep_ms : 0);
    if (block.num == 0) {
        if (upload != NULL) {
            upload_end(replays, upload);
        }
        upload = begin_upload(replays, key, &way->source);
    }
    if (upload == NULL || block_offset(&block) != upload->len) {
        return CODE(4, 8);
    }
    upload->used_ms = now_ms;
    account_touch(&replays->book, &upload->holding);
    uint8_t code = append_block(upload, request->payload);
    if (code != CODE_EMPTY) {
        upload_end(replays, upload);
        return code;
    }
    *ret_upload = upload;
    return block.more ? CODE(2, 31) : CODE_EMPTY;
}

/* --- sending ---------------------------------------------------------------- */

static enum carrier_result fail_recorded(struct origin_side *side, struct sending *sending,
                                         enum reason reason)
{
    timer_cancel(&side->context.wheel, &sending->timer);
    sending->reason = reason;
    sending->is_sent = false;
    return CARRIER_FAILED;
}

static bool does_register(const struct message *request)
{
    struct bytes observe;
    return option_find(request->options, OPTION_observe, &observe) &&
           option_uint(observe) == OBSERVE_REGISTER;
}

/* Whose turn it is. A block behind the first is of what was given last. */
static void take_turn(struct replay_run *run, struct played *played,
                      const struct recording_request *found, const struct message *request)
{
    struct recording *recording = run->recording;
    bool observes = does_register(request) && found->entries[1] != RECORDING_NONE;
    unsigned kind = observes || found->entries[0] == RECORDING_NONE;
    struct bytes block2;
    run->request = (uint32_t)(found - recording->requests);
    struct played_request *turn = &played->requests[run->request];
    if (option_find(request->options, OPTION_block2, &block2) && block_of(block2).num > 0 &&
        turn->entry != RECORDING_NONE) {
        run->entry = turn->entry;
        run->next = turn->answer;
        run->is_block = true;
        return;
    }
    uint32_t last = turn->entries[kind];
    uint32_t next = last == RECORDING_NONE ? found->entries[kind] : recording->entries[last].next;
    turn->entries[kind] = next == RECORDING_NONE ? last : next;
    run->entry = turn->entries[kind];
    run->is_observing = observes;
}

/* What the request is answered with, and when. @return REASON_none, or why it is not. */
static enum reason plan_run(struct origin_side *side, struct replay_run *run,
                            const struct carrier_way *way, const struct message *request)
{
    struct replays *replays = side->replays;
    uint8_t key[RECORDING_KEY_MAX];
    struct recording_question question = {.method = request->code,
                                          .options = request->options,
                                          .payload = request->payload,
                                          .key = {key, recording_key(way->target, key)}};
    struct upload *upload = NULL;
    struct bytes block1;
    if (option_find(request->options, OPTION_block1, &block1)) {
        uint64_t upload_key = key_of_upload(replays, way, question.key, request);
        run->own_code = take_block(side, way, upload_key, request, block1, &upload);
        if (run->own_code != CODE_EMPTY) {
            return REASON_none;
        }
        question.payload = (struct bytes){upload->data, upload->len};
    }
    const struct recording_request *found = recording_find(run->recording, &question);
    if (upload != NULL) {
        upload_end(replays, upload);
    }
    struct played *played = found == NULL ? NULL : find_played(replays, run->recording);
    if (played == NULL) {
        return found == NULL ? REASON_recording_unmatched : REASON_proxy_busy;
    }
    take_turn(run, played, found, request);
    return REASON_none;
}

/* The registration of @p run is renewed: told again is what was told last. */
static void renew_run(struct origin_side *side, struct replay_run *run)
{
    if (run->next > 0) {
        run->is_renewed = true;
        timer_set(&side->context.wheel, &run->timer, context_now_ms(&side->context), on_replay_due);
    }
}

static struct replay_run *run_new(struct origin_side *side, struct sending *sending,
                                  const struct carrier_way *way)
{
    struct replays *replays = replays_of(side);
    struct replay_run *run = replays == NULL ? NULL : calloc(1, sizeof(*run));
    if (run != NULL) {
        run->sending = sending;
        run->recording = recording_acquire(way->recording);
        run->speed = way->speed;
        run->request = run->entry = RECORDING_NONE;
        run->number = observe_first(context_now_ms(&side->context));
        run->due_ms = UINT64_MAX;
        list_add(&replays->runs, &run->node);
        sending->replay = run;
    }
    return run;
}

static void start_run(struct origin_side *side, struct replay_run *run)
{
    uint64_t now_ms = context_now_ms(&side->context);
    if (run->entry == RECORDING_NONE || run->is_block) {
        timer_set(&side->context.wheel, &run->timer, now_ms, on_replay_due);
    } else {
        replay_await_next(side, run, now_ms);
    }
}

static enum carrier_result carrier_recording_send(struct origin_side *side, struct sending *sending)
{
    struct carrier_way way = {.recording = NULL};
    struct message request = {0};
    struct replay_run *run = sending->replay;
    (void)message_decode(sending->datagram, sending->datagram_len, &request); /* our own */
    if (run == NULL || !run->is_observing || !does_register(&request)) {
        carrier_recording_cancel(side, sending);
        side->origins.calls->find_way(side, sending, &way);
        if (way.recording == NULL) { /* a reload has taken the route out */
            return fail_recorded(side, sending, REASON_recording_unmatched);
        }
        run = run_new(side, sending, &way);
        enum reason reason = run == NULL ? REASON_proxy_busy : plan_run(side, run, &way, &request);
        if (reason != REASON_none) {
            carrier_recording_cancel(side, sending);
            return fail_recorded(side, sending, reason);
        }
        start_run(side, run);
    } else {
        renew_run(side, run);
    }
    sending->again.count = 0;
    sending->is_sent = true;
    sending_await_end(side, sending);
    return CARRIER_SENT;
}

static void carrier_recording_set_config(struct origin_side *side)
{
    if (side->replays != NULL) {
        forget_played(side->replays);
    }
}

static void carrier_recording_free(struct origin_side *side)
{
    struct replays *replays = side->replays;
    if (replays == NULL) {
        return;
    }
    while (replays->runs.first != NULL) {
        struct replay_run *run = HASH_ENTRY(replays->runs.first, struct replay_run, node);
        carrier_recording_cancel(side, run->sending);
    }
    forget_played(replays);
    for (size_t i = 0; i < UPLOADS_MAX; i++) {
        upload_end(replays, &replays->uploads[i]);
    }
    account_book_clear(&replays->book);
    free(replays);
    side->replays = NULL;
}

const struct carrier carrier_recording = {
    .send = carrier_recording_send,
    .cancel = carrier_recording_cancel,
    .set_config = carrier_recording_set_config,
    .free = carrier_recording_free,
};
