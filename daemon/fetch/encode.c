/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/encode.h"

#include "fetch/make.h"

#include "coap/block.h"
#include "coap/observe.h"
#include "coap/option.h"

#include <string.h>

#define OWN_OPTIONS 17u

/*
 * The client's options that are passed on and those that are made from the
 * target have to come out in one ascending order.
 */
struct merge {
    struct message_writer writer;
    const struct target *target;
    const struct naming *naming;
    const struct additions *additions;
    uint16_t due[OWN_OPTIONS]; /* numbers of our own options, in ascending order, */
    size_t due_count, next;    /* and which of these is to be written next */
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

static void write_request_tag(struct message_writer *writer, uint64_t tag)
{
    uint8_t value[8];
    for (unsigned i = 0; i < sizeof(value); i++) {
        value[i] = (uint8_t)(tag >> (8 * i));
    }
    message_writer_option(writer, OPTION_request_tag, (struct bytes){value, sizeof(value)});
}

static inline void due_add(struct merge *merge, bool is_due, uint16_t number)
{
    if (is_due) {
        merge->due[merge->due_count++] = number;
    }
}

/* Which options of our own there will be, in ascending order of their numbers. */
static void find_due(struct merge *merge)
{
    const struct naming *naming = merge->naming;
    const struct additions *additions = merge->additions;
    due_add(merge, naming->host.data != NULL, OPTION_uri_host);
    due_add(merge, additions->etag_count > 0, OPTION_etag);
    due_add(merge, additions->adds_if_none_match, OPTION_if_none_match);
    due_add(merge, additions->has_observe, OPTION_observe);
    due_add(merge, naming->has_port, OPTION_uri_port);
    due_add(merge, naming->has_uri_options && merge->target->path.len > 0, OPTION_uri_path);
    due_add(merge, naming->has_uri_options && merge->target->query.len > 0, OPTION_uri_query);
    due_add(merge, additions->hop_limit > 0, OPTION_hop_limit);
    due_add(merge, additions->block2.is_present, OPTION_block2);
    due_add(merge, additions->block1.is_present, OPTION_block1);
    due_add(merge, naming->option == OPTION_proxy_uri, OPTION_proxy_uri);
    due_add(merge, naming->option == OPTION_proxy_scheme, OPTION_proxy_scheme);
    due_add(merge, additions->size1.is_present, OPTION_size1);
    due_add(merge, naming->option == OPTION_proxy_cri, OPTION_proxy_cri);
    due_add(merge, naming->option == OPTION_proxy_scheme_number, OPTION_proxy_scheme_number);
    due_add(merge, additions->no_response.is_present, OPTION_no_response);
    due_add(merge, additions->request_tag != 0, OPTION_request_tag);
}

static void write_own_option(struct merge *merge, uint16_t number)
{
    struct message_writer *writer = &merge->writer;
    const struct target *target = merge->target;
    const struct naming *naming = merge->naming;
    const struct additions *additions = merge->additions;
    switch (number) {
    case OPTION_uri_host:
        message_writer_option(writer, number, naming->host);
        break;
    case OPTION_etag:
        for (size_t i = 0; i < additions->etag_count; i++) {
            message_writer_option(writer, number, additions->etags[i]);
        }
        break;
    case OPTION_if_none_match:
        message_writer_option(writer, number, (struct bytes){0});
        break;
    case OPTION_observe:
        message_writer_option_uint(writer, number, additions->observe);
        break;
    case OPTION_uri_port:
        message_writer_option_uint(writer, number, target->port);
        break;
    case OPTION_uri_path:
        write_segments(writer, number, &target->path);
        break;
    case OPTION_uri_query:
        write_segments(writer, number, &target->query);
        break;
    case OPTION_hop_limit:
        message_writer_option_uint(writer, number, additions->hop_limit);
        break;
    case OPTION_block2:
        message_writer_option_uint(writer, number, additions->block2.value);
        break;
    case OPTION_block1:
        message_writer_option_uint(writer, number, additions->block1.value);
        break;
    case OPTION_size1:
        message_writer_option_uint(writer, number, additions->size1.value);
        break;
    case OPTION_no_response:
        message_writer_option_uint(writer, number, additions->no_response.value);
        break;
    case OPTION_request_tag:
        write_request_tag(writer, additions->request_tag);
        break;
    default: /* Proxy-Cri or another form: it names the target */
        message_writer_option(writer, number, naming->value);
        break;
    }
}

/*
 * Write our own options up to number @p limit: ours before a malformed one of the client,
 * as the next hop takes the first (RFC 7252 section 5.4.5).
 */
static void write_own(struct merge *merge, uint32_t limit)
{
    while (merge->next < merge->due_count && merge->due[merge->next] <= limit) {
        write_own_option(merge, merge->due[merge->next++]);
    }
}

/* Whether we have one of our own in its place. */
static bool is_replaced(const struct additions *additions, const struct passed_option *option)
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

/* Whether an option of the client is passed on: the unsafe unknown ones were refused before. */
static bool is_forwarded(const struct passed_option *option)
{
    const struct option_row *row = option_row(option->number);
    if (row == NULL || row->in_request == OPTION_USE_FORWARD) {
        return true;
    }
    /* A safe option we know, of a wrong length or one too many, is one we do not know (OPT-10). */
    bool is_recognised = option_length_is_good(row, option->value) &&
                         (row->repeats_in_request || !option->is_repeated);
    return !option_is_unsafe(option->number) && !is_recognised;
}

/* The client's options that are passed on, and ours before and between them. */
static void write_passed(struct merge *merge, struct bytes options)
{
    struct passed_iter iter;
    struct passed_option option;
    passed_begin(&iter, merge->additions->passed, options);
    while (passed_next(&iter, &option)) {
        if (is_forwarded(&option) && !is_replaced(merge->additions, &option)) {
            write_own(merge, option.number);
            message_writer_option(&merge->writer, option.number, option.value);
        }
    }
}

/* What goes in, and where it goes: a struct for them would have this one user. */
/* NOLINTNEXTLINE(readability-function-size) */
size_t encode_request(const struct target *target, const struct naming *naming,
                      const struct additions *additions, const struct message *request,
                      struct bytes token, uint8_t *buffer, size_t capacity)
{
    struct merge merge = {.target = target, .naming = naming, .additions = additions};
    find_due(&merge);
    message_writer_init(&merge.writer, buffer, capacity, MESSAGE_CON, request->code, 0, token);
    if (!passed_is_empty(additions->passed, request->options)) {
        write_passed(&merge, request->options);
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
    find_due(&merge);
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
