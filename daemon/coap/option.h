/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of CoAP options: the rows of options.def, and the class bits. And what a scan of a
 * request's options notes for those who read them after it.
 */
#ifndef CRIPROXY_OPTION_H
#define CRIPROXY_OPTION_H

#include "coap/message.h"

/* Option numbers, as OPTION_uri_host. */
enum {
#define OPTION(number, name, kind, min, max, repeat_request, repeat_response, request, response)   \
    OPTION_##name = (number),
#include "coap/options.def"
#undef OPTION
};

/* What a value is, and so how people read and write it; options.def says more. */
enum option_kind {
    OPTION_KIND_OPAQUE,
    OPTION_KIND_UINT,
    OPTION_KIND_STRING,
    OPTION_KIND_EMPTY,
    OPTION_KIND_BLOCK,
    OPTION_KIND_CRI,
};

enum option_use {
    OPTION_USE_NONE,
    OPTION_USE_TARGET,
    OPTION_USE_PROXY,
    OPTION_USE_OWN,
    OPTION_USE_FORWARD,
};

struct option_row {
    const char *name;
    enum option_kind kind;
    uint16_t number, len_min, len_max;
    bool repeats_in_request, repeats_in_response;
    enum option_use in_request, in_response;
};

/** The row of @p number, or NULL for an option that is not known. */
const struct option_row *option_row(uint16_t number);

/** What its values are; those of options that are not known are opaque. */
enum option_kind option_kind(uint16_t number);

/* RFC 7252 section 5.4.6. */
static inline bool option_is_critical(uint16_t number)
{
    return (number & 1u) != 0;
}

static inline bool option_is_unsafe(uint16_t number)
{
    return (number & 2u) != 0;
}

/** Whether a safe option is left out of the cache key. */
static inline bool option_is_no_cache_key(uint16_t number)
{
    return (number & 0x1eu) == 0x1cu;
}

/** Whether it says which piece of a body an answer has; pointless with a whole one. */
static inline bool option_is_of_piece(uint16_t number)
{
    return number == OPTION_block2 || number == OPTION_size2;
}

/**
 * Whether it selects an answer among those of a target: false of options that name the target, that
 * concern one hop, one block or one body, and of ETag, which only asks for less of the same answer.
 */
static inline bool option_selects(uint16_t number)
{
    const struct option_row *row = option_row(number);
    bool is_passed = row == NULL || row->in_request == OPTION_USE_FORWARD;
    return is_passed && !option_is_no_cache_key(number) && !option_is_of_piece(number) &&
           number != OPTION_block1 && number != OPTION_etag && number != OPTION_echo &&
           number != OPTION_request_tag && number != OPTION_oscore && number != OPTION_edhoc;
}

/** Whether @p value has a length that @p row allows. */
static inline bool option_length_is_good(const struct option_row *row, struct bytes value)
{
    return value.len >= row->len_min && value.len <= row->len_max;
}

/*
 * The options of a request that are passed on or are a part of the cache key, or forbid one. The
 * scan notes them, so that key and encoder do not walk past the options that name the target; a
 * request with more of them than there is room for is walked again.
 */
#define PASSED_MAX 8u

struct passed_option {
    uint16_t number;
    bool is_repeated; /* the option before it in the request has the same number */
    struct bytes value;
};

/* Whether one is passed on in the end is still to be judged: none that would be is missing. */
struct passed_options {
    const uint8_t *of; /* the options that were scanned; NULL: none, or there are too many */
    uint32_t count;
    struct passed_option items[PASSED_MAX];
};

/* Set by passed_begin(). */
struct passed_iter {
    const struct passed_option *at, *end; /* NULL: the options are walked */
    struct option_iter options;
    uint32_t last;
};

/**
 * Whether it is known that all of @p options are consumed, which is most often so. @p passed may be
 * NULL, or of other options; cannot fail.
 */
bool passed_is_empty(const struct passed_options *passed, struct bytes options);

/**
 * @param passed  of a scan of @p options; NULL or of other options: all are walked.
 * @param options encoded and checked; both are borrowed while @p iter is in use.
 */
void passed_begin(struct passed_iter *iter, const struct passed_options *passed,
                  struct bytes options);

/**
 * The next one in the order of the request, borrowed from it; where they are walked also those that
 * are consumed. @return false: there are no more
 */
bool passed_next(struct passed_iter *iter, struct passed_option *ret_option);

#endif
