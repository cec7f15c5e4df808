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

static void write_host(struct merge *merge)
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

static void write_named(struct merge *merge, uint16_t number)
{
    if (merge->naming->option == number) {
        message_writer_option(&merge->writer, number, merge->naming->value);
    }
}

static void write_proxy_uri(struct merge *merge)
{
    write_named(merge, OPTION_proxy_uri);
}

static void write_proxy_scheme(struct merge *merge)
{
    write_named(merge, OPTION_proxy_scheme);
}

static void write_proxy_cri(struct merge *merge)
{
    write_named(merge, OPTION_proxy_cri);
}

static void write_proxy_scheme_number(struct merge *merge)
{
    write_named(merge, OPTION_proxy_scheme_number);
}

/* In ascending order of their numbers. */
static const struct {
    uint16_t number;
    void (*write)(struct merge *merge);
} own_options[] = {
    {OPTION_uri_host, write_host},
    {OPTION_etag, write_etags},
    {OPTION_observe, write_observe},
    {OPTION_uri_port, write_port},
    {OPTION_uri_path, write_path},
    {OPTION_uri_query, write_query},
    {OPTION_hop_limit, write_hop_limit},
    {OPTION_proxy_uri, write_proxy_uri},
    {OPTION_proxy_scheme, write_proxy_scheme},
    {OPTION_proxy_cri, write_proxy_cri},
    {OPTION_proxy_scheme_number, write_proxy_scheme_number},
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
        if (is_forwarded(&option, last)) {
            write_own(&merge, option.number);
            message_writer_option(&merge.writer, option.number, option.value);
        }
    }
    write_own(&merge, UINT32_MAX);
    message_writer_payload(&merge.writer, request->payload);
    return merge.writer.overflow ? 0 : merge.writer.len;
}
