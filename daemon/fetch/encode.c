/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/encode.h"

#include "coap/block.h"
#include "coap/observe.h"
#include "coap/option.h"

#include <string.h>

/*
 * The client's options that are passed on and those that are made from the
 * target have to come out in one ascending order.
 */
struct merge {
    struct message_writer writer;
    const struct target *target;
    const struct naming *naming;
    const struct additions *additions;
    size_t next; /* row of own_options to be written next */
};

static void write_segments(struct message_writer *writer, uint16_t number,
                           const struct segments *segments)
{
    struct bytes item;
    uint32_t offset = 0;
    while (segments_next(segments, &offset, &item)) {
        message_writer_option(writer, number, item);
    }
}

static void encode_write_host(struct merge *merge)
{
    if (merge->naming->host.data != NULL) {
        message_writer_option(&merge->writer, OPTION_uri_host, merge->naming->host);
    }
}

static void write_port(struct merge *merge)
{
    if (merge->naming->has_port) {
        message_writer_option_uint(&merge->writer, OPTION_uri_port, merge->target->port);
    }
}

static void write_etags(struct merge *merge)
{
    for (size_t i = 0; i < merge->additions->etag_count; i++) {
        message_writer_option(&merge->writer, OPTION_etag, merge->additions->etags[i]);
    }
}

static void write_observe(struct merge *merge)
{
    if (merge->additions->has_observe) {
        message_writer_option_uint(&merge->writer, OPTION_observe, merge->additions->observe);
    }
}

static void write_path(struct merge *merge)
{
    if (merge->naming->has_uri_options) {
        write_segments(&merge->writer, OPTION_uri_path, &merge->target->path);
    }
}

static void write_query(struct merge *merge)
{
    if (merge->naming->has_uri_options) {
        write_segments(&merge->writer, OPTION_uri_query, &merge->target->query);
    }
}

static void write_hop_limit(struct merge *merge)
{
    if (merge->additions->hop_limit > 0) {
        message_writer_option_uint(&merge->writer, OPTION_hop_limit, merge->additions->hop_limit);
    }
}

static void encode_write_named(struct merge *merge, uint16_t number)
{
    if (merge->naming->option == number) {
        message_writer_option(&merge->writer, number, merge->naming->value);
    }
}

static void write_proxy_uri(struct merge *merge)
{
    encode_write_named(merge, OPTION_proxy_uri);
}

static void write_proxy_scheme(struct merge *merge)
{
    encode_write_named(merge, OPTION_proxy_scheme);
}

static void write_proxy_cri(struct merge *merge)
{
    encode_write_named(merge, OPTION_proxy_cri);
}

static void write_proxy_scheme_number(struct merge *merge)
{
    encode_write_named(merge, OPTION_proxy_scheme_number);
}

static void write_one(struct merge *merge, uint16_t number, const struct own_option *option)
{
    if (option->is_present) {
        message_writer_option_uint(&merge->writer, number, option->value);
    }
}

static void write_block2(struct merge *merge)
{
    write_one(merge, OPTION_block2, &merge->additions->block2);
}

static void write_block1(struct merge *merge)
{
    write_one(merge, OPTION_block1, &merge->additions->block1);
}

static void write_size1(struct merge *merge)
{
    write_one(merge, OPTION_size1, &merge->additions->size1);
}

static void write_no_response(struct merge *merge)
{
    write_one(merge, OPTION_no_response, &merge->additions->no_response);
}

static void write_request_tag(struct merge *merge)
{
    uint64_t tag = merge->additions->request_tag;
    uint8_t value[8];
    if (tag == 0) {
        return;
    }
    for (unsigned i = 0; i < sizeof(value); i++) {
        value[i] = (uint8_t)(tag >> (8 * i));
    }
    message_writer_option(&merge->writer, OPTION_request_tag, (struct bytes){value, sizeof(value)});
}

/* In ascending order of their numbers. */
static const struct {
    uint16_t number;
    void (*write)(struct merge *merge);
} own_options[] = {
    {OPTION_uri_host, encode_write_host},
    {OPTION_etag, write_etags},
    {OPTION_observe, write_observe},
    {OPTION_uri_port, write_port},
    {OPTION_uri_path, write_path},
    {OPTION_uri_query, write_query},
    {OPTION_hop_limit, write_hop_limit},
    {OPTION_block2, write_block2},
    {OPTION_block1, write_block1},
    {OPTION_proxy_uri, write_proxy_uri},
    {OPTION_proxy_scheme, write_proxy_scheme},
    {OPTION_size1, write_size1},
    {OPTION_proxy_cri, write_proxy_cri},
    {OPTION_proxy_scheme_number, write_proxy_scheme_number},
    {OPTION_no_response, write_no_response},
    {OPTION_request_tag, write_request_tag},
};

/*
 * Write our own options up to number @p limit: ours before a malformed one of the client,
 * as the next hop takes the first (RFC 7252 section 5.4.5).
 */
static void write_own(struct merge *merge, uint32_t limit)
{
    while (merge->next < sizeof(own_options) / sizeof(own_options[0]) &&
           own_options[merge->next].number <= limit) {
        own_options[merge->next].write(merge);
        merge->next++;
    }
}

/* Whether we have one of our own in its place. */
static bool is_replaced(const struct additions *additions, const struct option *option)
{
    switch (option->number) {
    case OPTION_etag:
        return additions->etag_seed != 0 &&
               block_is_own_etag(additions->etag_seed, option->value); /* BLK-13 */
    case OPTION_block1:
        return additions->block1.is_ours;
    case OPTION_block2:
        return additions->block2.is_ours;
    case OPTION_size1:
        return additions->size1.is_ours;
    case OPTION_echo:
        return additions->drops_echo;
    case OPTION_if_none_match:
        return additions->is_later_block;
    case OPTION_request_tag:
        return additions->request_tag != 0;
    default:
        return false;
    }
}

/*
 * Whether an option of the client is passed on: the unsafe unknown ones were refused before.
 * @p last is the number of the option before.
 */
static bool is_forwarded(const struct option *option, uint32_t last)
{
    const struct option_row *row = option_row(option->number);
    if (row == NULL || row->in_request == OPTION_USE_FORWARD) {
        return true;
    }
    /* A safe option we know, of a wrong length or one too many, is one we do not know (OPT-10). */
    bool is_recognised = option_length_is_good(row, option->value) &&
                         (row->repeats_in_request || option->number != last);
    return !option_is_unsafe(option->number) && !is_recognised;
}

/* What goes in, and where it goes: a struct for them would have this one user. */
/* NOLINTNEXTLINE(readability-function-size) */
size_t encode_request(const struct target *target, const struct naming *naming,
                      const struct additions *additions, const struct message *request,
                      struct bytes token, uint8_t *buffer, size_t capacity)
{
    struct option_iter iter;
    struct option option;
    struct merge merge = {.target = target, .naming = naming, .additions = additions};
    message_writer_init(&merge.writer, buffer, capacity, MESSAGE_CON, request->code, 0, token);
    option_iter_init(&iter, request->options);
    for (uint32_t last = UINT32_MAX; option_iter_next(&iter, &option); last = option.number) {
        if (is_forwarded(&option, last) && !is_replaced(additions, &option)) {
            write_own(&merge, option.number);
            message_writer_option(&merge.writer, option.number, option.value);
        }
    }
    write_own(&merge, UINT32_MAX);
    message_writer_payload(&merge.writer, request->payload);
    return merge.writer.overflow ? 0 : merge.writer.len;
}

size_t encode_renamed(const struct target *target, const struct naming *naming,
                      const struct message *sent, struct bytes token, uint8_t *buffer,
                      size_t capacity)
{
    static const struct additions none = {0};
    struct option_iter iter;
    struct option option;
    struct merge merge = {.target = target, .naming = naming, .additions = &none};
    message_writer_init(&merge.writer, buffer, capacity, MESSAGE_CON, sent->code, 0, token);
    option_iter_init(&iter, sent->options);
    while (option_iter_next(&iter, &option)) {
        const struct option_row *row = option_row(option.number);
        bool names_target = row != NULL && (row->in_request == OPTION_USE_TARGET ||
                                            row->in_request == OPTION_USE_PROXY);
        if (!names_target) {
            write_own(&merge, option.number);
            message_writer_option(&merge.writer, option.number, option.value);
        }
    }
    write_own(&merge, UINT32_MAX);
    message_writer_payload(&merge.writer, sent->payload);
    return merge.writer.overflow ? 0 : merge.writer.len;
}

size_t encode_deregistration(uint8_t *datagram, size_t len, size_t capacity)
{
    struct message message;
    struct option_iter iter;
    struct option option;
    if (len >= capacity || message_decode(datagram, len, &message) != MESSAGE_OK) {
        return 0;
    }
    option_iter_init(&iter, message.options);
    while (option_iter_next(&iter, &option) && option.number <= OPTION_observe) {
        if (option.number == OPTION_observe && option.value.len == 0) {
            /* Its delta is below 13, so its head is the one byte before the value. */
            size_t at = (size_t)(option.value.data - datagram);
            memmove(datagram + at + 1, datagram + at, len - at);
            datagram[at - 1] |= 1;
            datagram[at] = OBSERVE_DEREGISTER;
            return len + 1;
        }
    }
    return 0;
}
