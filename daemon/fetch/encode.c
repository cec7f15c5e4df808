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
    size_t next; /* of own_numbers, to be written next */
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

static void write_number(struct message_writer *writer, uint16_t number, bool is_present,
                         uint32_t value)
{
    if (is_present) {
        message_writer_option_uint(writer, number, value);
    }
}

static void write_request_tag(struct message_writer *writer, uint64_t tag)
{
    uint8_t value[8];
    for (unsigned i = 0; i < sizeof(value); i++) {
        value[i] = (uint8_t)(tag >> (8 * i));
    }
    message_writer_option(writer, OPTION_request_tag, (struct bytes){value, sizeof(value)});
}

/* In ascending order of their numbers. */
static const uint16_t own_numbers[] = {
    OPTION_uri_host,     OPTION_etag,
    OPTION_observe,      OPTION_uri_port,
    OPTION_uri_path,     OPTION_uri_query,
    OPTION_hop_limit,    OPTION_block2,
    OPTION_block1,       OPTION_proxy_uri,
    OPTION_proxy_scheme, OPTION_size1,
    OPTION_proxy_cri,    OPTION_proxy_scheme_number,
    OPTION_no_response,  OPTION_request_tag,
};

/* The option of that number, which is one of own_numbers, if there is one. */
static void write_own_option(struct merge *merge, uint16_t number)
{
    struct message_writer *writer = &merge->writer;
    const struct target *target = merge->target;
    const struct naming *naming = merge->naming;
    const struct additions *additions = merge->additions;
    switch (number) {
    case OPTION_uri_host:
        if (naming->host.data != NULL) {
            message_writer_option(writer, number, naming->host);
        }
        break;
    case OPTION_uri_port:
        write_number(writer, number, naming->has_port, target->port);
        break;
    case OPTION_uri_path:
    case OPTION_uri_query:
        if (naming->has_uri_options) {
            write_segments(writer, number,
                           number == OPTION_uri_path ? &target->path : &target->query);
        }
        break;
    case OPTION_etag:
        for (size_t i = 0; i < additions->etag_count; i++) {
            message_writer_option(writer, number, additions->etags[i]);
        }
        break;
    case OPTION_observe:
        write_number(writer, number, additions->has_observe, additions->observe);
        break;
    case OPTION_hop_limit:
        write_number(writer, number, additions->hop_limit > 0, additions->hop_limit);
        break;
    case OPTION_block2:
        write_number(writer, number, additions->block2.is_present, additions->block2.value);
        break;
    case OPTION_block1:
        write_number(writer, number, additions->block1.is_present, additions->block1.value);
        break;
    case OPTION_size1:
        write_number(writer, number, additions->size1.is_present, additions->size1.value);
        break;
    case OPTION_no_response:
        write_number(writer, number, additions->no_response.is_present,
                     additions->no_response.value);
        break;
    case OPTION_request_tag:
        if (additions->request_tag != 0) {
            write_request_tag(writer, additions->request_tag);
        }
        break;
    default: /* Proxy-Cri and the other forms: the one that names the target */
        if (naming->option == number) {
            message_writer_option(writer, number, naming->value);
        }
        break;
    }
}

/*
 * Write our own options up to number @p limit: ours before a malformed one of the client,
 * as the next hop takes the first (RFC 7252 section 5.4.5).
 */
static void write_own(struct merge *merge, uint32_t limit)
{
    while (merge->next < sizeof(own_numbers) / sizeof(own_numbers[0]) &&
           own_numbers[merge->next] <= limit) {
        write_own_option(merge, own_numbers[merge->next++]);
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
