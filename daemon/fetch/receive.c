/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/receive.h"

#include "cache/freshness.h"
#include "coap/block.h"
#include "coap/option.h"
#include "fetch/forward.h"
#include "fetch/group.h"
#include "fetch/hops.h"
#include "fetch/rename.h"
#include "fetch/side.h"

/*
 * RFC 7959 section 2.2: size 7 is for reliable transports, and a block that more follow is
 * whole. How a client would take another one is unknown (BLK-3, BLK-6).
 */
static bool is_good_block(const struct message *message, const struct option *option,
                          const struct scheme *scheme)
{
    const struct block block = block_of(option->value);
    if (transport_is_datagram(scheme->transport) && block.szx == BLOCK_SZX_BERT) {
        return false;
    }
    return option->number == OPTION_block1 || CODE_CLASS(message->code) != 2 || !block.more ||
           block_fits_payload(&block, message->payload.len);
}

/* An unsafe option that is not recognised makes an answer unusable (OPT-8, OPT-9). */
static bool has_bad_option(const struct message *message, const struct scheme *scheme)
{
    struct option_iter iter;
    struct option option;
    const struct option_row *last = NULL;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        const struct option_row *row = option_row(option.number);
        bool is_recognised = row != NULL && row->in_response != OPTION_USE_NONE &&
                             option_length_is_good(row, option.value) &&
                             (row != last || row->repeats_in_response);
        last = row;
        bool is_block = option.number == OPTION_block1 || option.number == OPTION_block2;
        if (!is_recognised && option_is_unsafe(option.number)) {
            return true;
        }
        if (is_block && !is_good_block(message, &option, scheme)) {
            return true;
        }
    }
    return false;
}

/* 2.31 asks for the next block (RFC 7959 section 2.9.1): of a request that has one. */
static bool is_stray_continue(const struct fetch *fetch)
{
    struct message request;
    struct bytes block1;
    return message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &request) !=
               MESSAGE_OK ||
           !option_find(request.options, OPTION_block1, &block1) || !block_of(block1).more;
}

/*
 * A 5.08 on its way back takes our name along (HOP-5). One that has it already is not
 * passed on: the request has come around, and the 5.08 that says so is our own (HOP-6).
 */
static void pass_hop_limit_back(struct fetch_side *side, struct fetch *fetch,
                                const struct reply *reply)
{
    char names[HOPS_NAMES_MAX + 1];
    struct reply named = *reply;
    size_t len = 0;
    switch (hops_pass_back(side->context.config, reply->payload, names, &len)) {
    case HOPS_LOOP:
        names[len] = '\0';
        fetch_fail(side, fetch, REASON_hop_loop, names);
        return;
    case HOPS_NAMED:
        named.payload = (struct bytes){(const uint8_t *)names, len};
        break;
    case HOPS_UNCHANGED:
        break;
    }
    cached_answer(side, fetch, &named);
}

bool receive_is_usable(const struct message *message, const struct scheme *scheme)
{
    unsigned class = CODE_CLASS(message->code);
    bool is_good_code = message->code == CODE(2, 31) ? message_has_option(message, OPTION_block1)
                                                     : class == 2 || class == 4 || class == 5;
    return is_good_code && !has_bad_option(message, scheme); /* MSG-40, MSG-41 */
}

void receive_response(struct fetch_side *side, struct fetch *fetch, const struct message *message,
                      bool truncated)
{
    trail_event(&side->context, fetch->trail, EVENT_answer, (uint32_t)message->payload.len);
    if (fetch->asking.name != NULL) { /* a notification: its address is in use still */
        names_forget(&side->origin, &fetch->asking);
        timer_cancel(&side->context.wheel, &fetch->timer);
    }
    if (truncated) {
        fetch_fail(side, fetch, REASON_response_too_large, NULL);
        return;
    }
    /* Before anything in it counts: libcoap's 4.02 has the option that it does not know. */
    if (fetch->hop.is_parent && rename_and_ask_again(side, fetch, message->code)) {
        return;
    }
    if (!receive_is_usable(message, fetch->hop.scheme) ||
        (message->code == CODE(2, 31) && is_stray_continue(fetch))) {
        fetch_fail(side, fetch, REASON_origin_invalid, NULL);
        return;
    }
    if (message->code == CODE(4, 29)) {
        throttle_note(&side->origin, &fetch->target, fetch->sending.datagram[1],
                      freshness_max_age_s(message->options));
    }
    struct reply reply = {
        .code = message->code,
        .options = message->options,
        .payload = message->payload,
    };
    /* With a diagnostic payload, not a representation (RFC 7252 section 5.5.2). */
    if (message->code == CODE(5, 8) && !message_has_option(message, OPTION_content_format)) {
        pass_hop_limit_back(side, fetch, &reply);
    } else {
        cached_answer(side, fetch, &reply);
    }
}
