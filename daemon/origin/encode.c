/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/encode.h"

#include "coap/option.h"

/*
 * The client's options that are passed on and those that are made from the
 * target have to come out in one ascending order.
 */
struct merge {
    struct message_writer writer;
    const struct target *target;
    uint8_t hop_limit; /* 0: none */
    uint16_t done;     /* own options up to this number have been written */
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

/* Write our own options with numbers below @p limit. */
static void write_own(struct merge *merge, uint32_t limit)
{
    struct message_writer *writer = &merge->writer;
    const struct target *target = merge->target;
    if (merge->done < OPTION_uri_host && OPTION_uri_host < limit) {
        if (target->is_name) {
            message_writer_option(writer, OPTION_uri_host,
                                  (struct bytes){target->name, target->name_len});
        }
        merge->done = OPTION_uri_host;
    }
    /* No Uri-Port: the request goes to that very port (C2O-9). */
    if (merge->done < OPTION_uri_path && OPTION_uri_path < limit) {
        write_segments(writer, OPTION_uri_path, &target->path);
        merge->done = OPTION_uri_path;
    }
    if (merge->done < OPTION_uri_query && OPTION_uri_query < limit) {
        write_segments(writer, OPTION_uri_query, &target->query);
        merge->done = OPTION_uri_query;
    }
    /* Ours before a malformed one of the client: the next hop takes the first (RFC 7252 5.4.5). */
    if (merge->done < OPTION_hop_limit && OPTION_hop_limit <= limit) {
        if (merge->hop_limit > 0) {
            message_writer_option_uint(writer, OPTION_hop_limit, merge->hop_limit);
        }
        merge->done = OPTION_hop_limit;
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

size_t encode_request(const struct target *target, uint8_t hop_limit, const struct message *request,
                      struct bytes token, uint8_t *buffer, size_t capacity)
{
    struct option_iter iter;
    struct option option;
    struct merge merge = {.target = target, .hop_limit = hop_limit};
    message_writer_init(&merge.writer, buffer, capacity, MESSAGE_CON, request->code, 0, token);
    option_iter_init(&iter, request->options);
    for (uint32_t last = UINT32_MAX; option_iter_next(&iter, &option); last = option.number) {
        if (is_forwarded(&option, last)) {
            write_own(&merge, option.number);
            message_writer_option(&merge.writer, option.number, option.value);
        }
    }
    write_own(&merge, UINT32_MAX);
    message_writer_payload(&merge.writer, request->payload);
    return merge.writer.overflow ? 0 : merge.writer.len;
}
