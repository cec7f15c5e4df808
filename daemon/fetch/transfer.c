/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/transfer.h"

#include "cache/freshness.h"
#include "coap/block.h"
#include "coap/option.h"
#include "fetch/body.h"
#include "fetch/cached.h"
#include "fetch/forward.h"
#include "fetch/make.h"
#include "fetch/side.h"

#include <stdlib.h>

/* --- transfer ----------------------------------------------------------- */

enum phase {
    UPLOADING,
    GATHERING,
};

struct transfer {
    struct fetch *client; /* the fetch it is for, which owns this */
    struct fetch *step;   /* the request that is out; NULL between two, */
    struct waiter waiter; /* which waits for it */
    enum phase phase;
    bool is_whole; /* over HTTP, which has no blocks: the body goes in one request, */
    bool is_piece; /* or this piece of it, with the client's Block1 (origin/long_body.h) */
    bool has_restarted;
    bool has_block1; /* the client's own last block, to be told in the answer: */
    uint32_t block1;
    uint8_t szx;
    uint8_t hop_limit;
    uint8_t code;            /* uploads: 2.01 of an earlier block; gathering: of the answer */
    size_t offset;           /* uploads: of the block that is out */
    struct body body;        /* what is sent, later what has come */
    struct body options;     /* gathering: of the first block; all have its ETag */
    struct body_share share; /* of both */
    uint64_t tag;
};

static enum waiter_wish on_step_answer(struct fetch_side *side, void *owner, struct fetch *fetch,
                                       enum reason reason, const struct reply *reply);

static const struct waiter_calls step_calls = {.on_answer = on_step_answer};

/* --- steps -------------------------------------------------------------- */

static void fail_transfer(struct fetch_side *side, struct transfer *transfer, enum reason reason)
{
    fetch_fail(side, transfer->client, reason, NULL); /* frees the transfer */
}

static struct bytes piece(const struct transfer *transfer)
{
    size_t size = (size_t)16 << transfer->szx, left = transfer->body.len - transfer->offset;
    return (struct bytes){transfer->body.data + transfer->offset, left < size ? left : size};
}

static void add_block1(const struct transfer *transfer, struct message *message,
                       struct additions *additions)
{
    struct block block = {.num = (uint32_t)(transfer->offset >> (4 + transfer->szx)),
                          .szx = transfer->szx};
    message->payload = piece(transfer);
    block.more = transfer->offset + message->payload.len < transfer->body.len;
    additions->block1 = (struct own_option){true, true, block_value(&block)};
    /* Only the first block says how long the body is (RFC 7959 section 4). */
    additions->size1 = (struct own_option){true, block.num == 0, (uint32_t)transfer->body.len};
    additions->is_later_block = block.num > 0;
}

static void add_whole(const struct transfer *transfer, struct fetch_recipe *recipe,
                      struct message *message)
{
    message->payload = (struct bytes){0};
    recipe->body = (struct bytes){transfer->body.data, transfer->body.len};
    recipe->additions.block1 = (struct own_option){!transfer->is_piece, false, 0};
    recipe->additions.size1 = (struct own_option){true, false, 0};
}

static void add_block2(const struct transfer *transfer, struct additions *additions)
{
    struct block block = {.szx = transfer->szx};
    block.num = (uint32_t)(transfer->body.len / block_size(&block));
    additions->block1 = (struct own_option){true, false, 0};
    additions->block2 = (struct own_option){true, true, block_value(&block)};
    additions->is_later_block = true;
}

/* Whether NUM of the next block is one that the option holds: blocks can be small. */
static bool is_countable(const struct transfer *transfer)
{
    const struct block unit = {.szx = transfer->szx};
    size_t at = transfer->phase == UPLOADING ? transfer->offset : transfer->body.len;
    return at / block_size(&unit) <= BLOCK_NUM_MAX;
}

/* The next request; the transfer may be gone when this returns. */
static void send_step(struct fetch_side *side, struct transfer *transfer)
{
    struct fetch *client = transfer->client;
    struct message message = {0};
    struct fetch_recipe recipe = {
        .asker = client->asker,
        .is_safe = client->is_safe,
        .target = &client->target,
        .message = &message,
        .additions = {.hop_limit = transfer->hop_limit, .request_tag = transfer->tag},
    };
    if (!is_countable(transfer)) {
        fail_transfer(side, transfer,
                      transfer->phase == UPLOADING ? REASON_request_too_large
                                                   : REASON_response_too_large);
        return;
    }
    /* Its own encoding, which is the client's request as it would be sent whole. */
    (void)message_decode(client->sending.datagram, client->sending.datagram_len, &message);
    if (transfer->is_whole) {
        add_whole(transfer, &recipe, &message);
    } else if (transfer->phase == UPLOADING) {
        add_block1(transfer, &message, &recipe.additions);
    } else {
        if (message.code != CODE_FETCH || transfer->tag != 0) {
            message.payload = (struct bytes){0}; /* the origin server has it already */
        }
        add_block2(transfer, &recipe.additions);
    }
    enum reason reason = fetch_start_own(side, &recipe, &transfer->waiter, &transfer->step);
    if (reason != REASON_none) {
        fail_transfer(side, transfer, reason);
    }
}

/* --- the answer --------------------------------------------------------- */

bool transfer_find_block(const struct reply *reply, uint16_t number, struct block *ret_block)
{
    struct bytes value;
    bool has_one = option_find(reply->options, number, &value);
    if (has_one) {
        *ret_block = block_of(value);
    }
    return has_one;
}

static bool is_of_answer(uint16_t number)
{
    return number != OPTION_block1;
}

static bool is_of_whole_answer(uint16_t number)
{
    return number != OPTION_block1 && !option_is_of_piece(number);
}

/* Keep the encoded @p options of an answer, those that @p is_kept says. */
static bool keep_options(struct fetch_side *side, struct transfer *transfer, struct bytes options,
                         bool (*is_kept)(uint16_t number))
{
    struct message_writer writer = {.buffer = side->context.scratch,
                                    .capacity = side->context.scratch_bytes};
    message_writer_options(&writer, options, is_kept, NULL);
    transfer->options.len = 0;
    return !writer.overflow && body_append(&side->bodies, &transfer->options,
                                           (struct bytes){writer.buffer, writer.len}, NULL);
}

/* Absent and 0, text/plain, are two (RFC 7252 section 5.5.1). */
static uint64_t content_format_of(struct bytes options)
{
    struct bytes value;
    return option_find(options, OPTION_content_format, &value) ? option_uint(value) : UINT64_MAX;
}

/*
 * Whether the block belongs to what was fetched before, of which the first one's options are
 * kept: its ETag (BLK-10) and its Content-Format (BLK-11).
 */
static bool is_same_body(const struct transfer *transfer, const struct reply *reply)
{
    const struct bytes first = {transfer->options.data, transfer->options.len};
    return reply->code == transfer->code &&
           bytes_equal(freshness_etag(reply->options), freshness_etag(first)) &&
           content_format_of(reply->options) == content_format_of(first);
}

/* What has been put together, or the last word of the origin server, to the client. */
static void answer(struct fetch_side *side, struct transfer *transfer, uint8_t code,
                   struct bytes payload)
{
    struct fetch *client = transfer->client;
    /* They outlive the transfer, which goes with the fetch. */
    body_leave_share(&side->bodies, &transfer->body);
    body_leave_share(&side->bodies, &transfer->options);
    struct body body = transfer->body, options = transfer->options;
    const struct reply reply = {
        .code = code,
        .options = {options.data, options.len},
        .payload = payload,
        .has_block1 = transfer->has_block1,
        .block1 = transfer->block1,
    };
    transfer->body = (struct body){0};
    transfer->options = (struct body){0};
    cached_answer(side, client, &reply);
    body_free(&side->bodies, &body);
    body_free(&side->bodies, &options);
}

/* The first block of a longer answer. */
static void begin_gathering(struct fetch_side *side, struct transfer *transfer,
                            const struct reply *reply, const struct block *block)
{
    transfer->phase = GATHERING;
    transfer->code = reply->code;
    transfer->szx = block->szx;
    transfer->body.len = 0;
    if (!block_fits_payload(block, reply->payload.len)) {
        fail_transfer(side, transfer, REASON_origin_invalid);
        return;
    }
    if (!keep_options(side, transfer, reply->options, is_of_whole_answer) ||
        !body_append(&side->bodies, &transfer->body, reply->payload, NULL)) {
        fail_transfer(side, transfer, REASON_response_too_large);
        return;
    }
    send_step(side, transfer);
}

/* The last answer of an upload, or the first one of what is to be fetched. */
static void transfer_take_answer(struct fetch_side *side, struct transfer *transfer,
                                 const struct reply *reply)
{
    struct block block;
    uint8_t code = reply->code;
    if (transfer->code == CODE(2, 1) && code == CODE(2, 4)) {
        code = transfer->code; /* the first block has made it (RFC 7959 section 2.10) */
    }
    if (transfer_find_block(reply, OPTION_block2, &block) && block.num == 0 && block.more &&
        !fetch_waiters_take(transfer->client, &block)) {
        begin_gathering(side, transfer, reply, &block);
    } else if (keep_options(side, transfer, reply->options, is_of_answer)) {
        answer(side, transfer, code, reply->payload);
    } else {
        fail_transfer(side, transfer, REASON_response_too_large);
    }
}

/* The origin server wants to hear the whole once more, perhaps in smaller blocks. */
static void restart_upload(struct fetch_side *side, struct transfer *transfer, uint8_t szx)
{
    transfer->offset = 0;
    transfer->szx = szx;
    send_step(side, transfer);
}

static void on_uploaded(struct fetch_side *side, struct transfer *transfer,
                        const struct reply *reply)
{
    struct block block = {0};
    bool has_block = transfer_find_block(reply, OPTION_block1, &block);
    bool is_last = transfer->offset + piece(transfer).len == transfer->body.len;
    if (transfer->is_whole) {
        transfer_take_answer(side, transfer, reply);
    } else if (reply->code == CODE(4, 13) && has_block && transfer->offset == 0 &&
               block.szx < transfer->szx) {
        restart_upload(side, transfer, block.szx); /* BLK-23 */
    } else if (reply->code == CODE(4, 8) && !transfer->has_restarted) {
        transfer->has_restarted = true;
        restart_upload(side, transfer, transfer->szx);
    } else if (reply->code == CODE(4, 8) && !transfer->has_block1) {
        fail_transfer(side, transfer, REASON_origin_invalid); /* its client has sent no blocks */
    } else if (is_last || CODE_CLASS(reply->code) != 2) {
        transfer_take_answer(side, transfer, reply);
    } else if (!has_block || block.num != transfer->offset >> (4 + transfer->szx)) {
        fail_transfer(side, transfer, REASON_origin_invalid); /* it took one block for the whole */
    } else {
        if (reply->code != CODE(2, 31) && transfer->code == 0) {
            transfer->code = reply->code;
        }
        transfer->offset += piece(transfer).len;
        if (block.szx < transfer->szx) {
            transfer->szx = block.szx; /* NUM counts in the new size from here (BLK-9) */
        }
        send_step(side, transfer);
    }
}

/*
 * The representation has changed under way, or the answer makes no sense. Only what changes
 * nothing may be asked again from the start, and once (BLK-10).
 */
static void restart_gathering(struct fetch_side *side, struct transfer *transfer)
{
    if (transfer->has_restarted || !transfer->client->is_safe) {
        fail_transfer(side, transfer, REASON_origin_invalid);
        return;
    }
    transfer->has_restarted = true;
    transfer->body.len = 0;
    send_step(side, transfer);
}

static void on_gathered(struct fetch_side *side, struct transfer *transfer,
                        const struct reply *reply)
{
    struct block block = {0};
    if (transfer->body.len == 0) {
        transfer->code = 0;
        transfer_take_answer(side, transfer, reply); /* from the start again */
        return;
    }
    if (!transfer_find_block(reply, OPTION_block2, &block) ||
        block_offset(&block) != transfer->body.len ||
        !block_fits_payload(&block, reply->payload.len) || !is_same_body(transfer, reply)) {
        restart_gathering(side, transfer);
    } else if (!body_append(&side->bodies, &transfer->body, reply->payload, NULL)) {
        fail_transfer(side, transfer, REASON_response_too_large);
    } else if (block.more) {
        transfer->szx = block.szx < transfer->szx ? block.szx : transfer->szx;
        send_step(side, transfer);
    } else {
        answer(side, transfer, transfer->code,
               (struct bytes){transfer->body.data, transfer->body.len});
    }
}

static enum waiter_wish on_step_answer(struct fetch_side *side, void *owner, struct fetch *fetch,
                                       enum reason reason, const struct reply *reply)
{
    struct transfer *transfer = owner;
    const struct address *source = cached_source(fetch);
    transfer->step = NULL;
    if (source != NULL) {
        transfer->client->ticket.source = *source; /* which others may have it (CACHE-22) */
    }
    if (reason == REASON_local) {
        /* The way led to the proxy itself (TGT-4). Frees the transfer. */
        fetch_answer(side, transfer->client, reason, reply);
    } else if (reason != REASON_answered) {
        fail_transfer(side, transfer, reason);
    } else if (transfer->phase == UPLOADING) {
        on_uploaded(side, transfer, reply);
    } else {
        on_gathered(side, transfer, reply);
    }
    return WAITER_DONE;
}

/* --- beginning and end -------------------------------------------------- */

static uint8_t hop_limit_of(const struct fetch *fetch)
{
    struct message message = {0};
    struct bytes value;
    (void)message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &message);
    return option_find(message.options, OPTION_hop_limit, &value) ? (uint8_t)option_uint(value) : 0;
}

static void transfer_on_deadline(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct fetch_side *side = context;
    fetch_fail(side, HASH_ENTRY(timer, struct fetch, timer), REASON_transfer_timeout, NULL);
}

static struct transfer *begin_transfer(struct fetch_side *side, struct fetch *fetch,
                                       enum phase phase)
{
    struct transfer *transfer = calloc(1, sizeof(*transfer));
    if (transfer == NULL) {
        return NULL;
    }
    transfer->client = fetch;
    transfer->waiter = (struct waiter){.calls = &step_calls, .owner = transfer};
    transfer->phase = phase;
    transfer->hop_limit = hop_limit_of(fetch);
    body_share_open(&side->bodies, &transfer->share, &fetch->asker->path.remote, fetch);
    transfer->body.share = transfer->options.share = &transfer->share;
    fetch->transfer = transfer;
    fetch_set_state(side, fetch, FETCH_transferring);
    timer_set(&side->context.wheel, &fetch->timer,
              context_now_ms(&side->context) + side->context.config->block_transfer_timeout,
              transfer_on_deadline);
    return transfer;
}

uint64_t transfer_tag(const struct fetch_side *side, uint64_t serial, struct bytes options)
{
    uint64_t tag = hash_mix(serial, side->bodies.seed);
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == OPTION_request_tag) {
            tag = hash_bytes(option.value.data, option.value.len, tag);
        }
    }
    return tag != 0 ? tag : 1;
}

/* Send the payload of @p message, which is else the fetch's own, in blocks of a size. */
static void upload(struct fetch_side *side, struct fetch *fetch, const struct message *message,
                   uint8_t szx, struct bytes block1, bool is_piece)
{
    struct bytes payload = message->payload;
    struct transfer *transfer = begin_transfer(side, fetch, UPLOADING);
    if (transfer == NULL) {
        fetch_fail(side, fetch, REASON_proxy_busy, NULL);
        return;
    }
    transfer->is_piece = is_piece;
    transfer->tag = transfer_tag(side, fetch->asker->serial, message->options);
    transfer->szx = szx;
    transfer->is_whole = transport_is_http(fetch->hop.scheme->transport);
    transfer->has_block1 = block1.data != NULL;
    transfer->block1 = transfer->has_block1 ? option_uint(block1) : 0;
    if (!body_append(&side->bodies, &transfer->body, payload, NULL)) {
        /* Too much for now, or for good (BLK-20). */
        fail_transfer(side, transfer,
                      payload.len > side->bodies.body_max ? REASON_request_too_large
                                                          : REASON_proxy_busy);
        return;
    }
    metric_add(&side->context.metrics.transfers, 1);
    send_step(side, transfer);
}

void transfer_send(struct fetch_side *side, struct fetch *fetch, struct bytes payload,
                   struct bytes block1, bool is_piece)
{
    struct message message = {0};
    (void)message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &message);
    message.payload = payload;
    upload(side, fetch, &message, block_szx_for(side->context.config->block_size), block1,
           is_piece);
}

/* What the fetch has sent itself is over, and so is its waiting for anything else. */
static void stop_sending(struct fetch_side *side, struct fetch *fetch)
{
    for (struct list_node *node = fetch->waiters.first; node != NULL; node = node->next) {
        const struct waiter *waiter = HASH_ENTRY(node, struct waiter, node);
        if (waiter->calls->on_blocks != NULL) {
            waiter->calls->on_blocks(side, waiter->owner);
        }
    }
    forward_release(side, fetch);
}

void transfer_begin(struct fetch_side *side, struct fetch *fetch, const struct reply *reply)
{
    struct message message = {0};
    struct block block = {0};
    stop_sending(side, fetch);
    if (reply->code == CODE(4, 13)) {
        (void)transfer_find_block(reply, OPTION_block1, &block);
        (void)message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &message);
        upload(side, fetch, &message, block.szx, (struct bytes){0}, false);
        return;
    }
    (void)transfer_find_block(reply, OPTION_block2, &block);
    struct transfer *transfer = begin_transfer(side, fetch, GATHERING);
    if (transfer == NULL) {
        fetch_fail(side, fetch, REASON_proxy_busy, NULL);
        return;
    }
    metric_add(&side->context.metrics.transfers, 1);
    begin_gathering(side, transfer, reply, &block);
}

void transfer_cancel(struct fetch_side *side, struct fetch *fetch)
{
    struct transfer *transfer = fetch->transfer;
    if (transfer == NULL) {
        return;
    }
    fetch->transfer = NULL;
    if (transfer->step != NULL) {
        fetch_leave(side, transfer->step, &transfer->waiter, fetch->reason);
    }
    body_free(&side->bodies, &transfer->body);
    body_free(&side->bodies, &transfer->options);
    body_share_close(&side->bodies, &transfer->share);
    free(transfer);
}
