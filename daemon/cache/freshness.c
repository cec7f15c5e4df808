/* SPDX-License-Identifier: BSD-2-Clause */
#include "cache/freshness.h"

#include "coap/option.h"

#define MS_PER_S UINT64_C(1000)

uint32_t freshness_max_age_s(struct bytes options)
{
    struct bytes value;
    return option_find(options, OPTION_max_age, &value) ? option_uint(value) : MAX_AGE_DEFAULT_S;
}

struct bytes freshness_etag(struct bytes options)
{
    struct bytes value;
    bool has_one = option_find(options, OPTION_etag, &value) &&
                   option_length_is_good(option_row(OPTION_etag), value);
    return has_one ? value : (struct bytes){0};
}

/* NUM above 0, or M (RFC 7959 section 2.2). */
static bool is_part(struct bytes block2)
{
    return (option_uint(block2) & ~UINT32_C(7)) != 0;
}

bool freshness_is_partial(struct bytes options)
{
    struct bytes value;
    return option_find(options, OPTION_block2, &value) && is_part(value);
}

/* What the option says; the first one counts. */
static void take_fact(struct answer_facts *facts, const struct option *option, bool is_first)
{
    switch (option->number) {
    case OPTION_etag:
        /* More than one: which of them is the representation's is not known (OPT-18). */
        facts->use = is_first || facts->use == ANSWER_FOR_ONE ? facts->use : ANSWER_SHARED;
        if (is_first && option_length_is_good(option_row(OPTION_etag), option->value)) {
            facts->etag = option->value;
        }
        break;
    case OPTION_max_age:
        facts->max_age_s = is_first ? option_uint(option->value) : facts->max_age_s;
        break;
    case OPTION_block2:
        facts->is_partial = is_first ? is_part(option->value) : facts->is_partial;
        break;
    case OPTION_oscore:
    case OPTION_edhoc:
    case OPTION_echo:
    case OPTION_block1:
        facts->use = ANSWER_FOR_ONE;
        break;
    default:
        break;
    }
}

/* Bits of the options that take_fact() knows, but for Max-Age. */
static inline uint64_t fact_bits(void)
{
    return reply_bit(OPTION_etag) | reply_bit(OPTION_block2) | reply_bit(OPTION_oscore) |
           reply_bit(OPTION_edhoc) | reply_bit(OPTION_echo) | reply_bit(OPTION_block1);
}

/* What they say one by one. @p facts: what holds without any. */
static struct answer_facts walk_facts(struct bytes options, struct answer_facts facts)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, options);
    for (uint32_t last = 0; option_iter_next(&iter, &option); last = option.number) {
        take_fact(&facts, &option, option.number != last);
    }
    if (facts.is_partial && facts.etag.data == NULL && facts.use == ANSWER_STORABLE) {
        facts.use = ANSWER_SHARED;
    }
    return facts;
}

struct answer_facts freshness_facts(uint8_t code, struct bytes options, uint64_t absent)
{
    unsigned class = CODE_CLASS(code);
    /* Results of GET and FETCH, and errors (RFC 7252 section 5.9; RFC 8132 section 2). */
    bool is_cacheable = code == CODE(2, 5) || ((class == 4 || class == 5) && code != CODE(4, 1));
    enum answer_use use = is_cacheable ? ANSWER_STORABLE : ANSWER_FOR_ONE;
    if ((~absent & fact_bits()) == 0) {
        return (struct answer_facts){.use = use, .max_age_s = freshness_max_age_s(options)};
    }
    return walk_facts(options, (struct answer_facts){.use = use, .max_age_s = MAX_AGE_DEFAULT_S});
}

/* Time stands still or goes on, never back; and 2^32 seconds in ms are far from a wrap. */
static uint64_t age_ms(const struct representation *representation, uint64_t now_ms)
{
    return now_ms > representation->received_ms ? now_ms - representation->received_ms : 0;
}

bool freshness_is_fresh(const struct representation *representation, uint32_t cap_s,
                        uint64_t now_ms)
{
    uint32_t max_s = representation->max_age_s < cap_s ? representation->max_age_s : cap_s;
    return max_s > 0 && age_ms(representation, now_ms) <= max_s * MS_PER_S;
}

bool freshness_is_usable_stale(const struct representation *representation, uint64_t stale_ms,
                               uint64_t now_ms)
{
    return age_ms(representation, now_ms) <= representation->max_age_s * MS_PER_S + stale_ms;
}

uint32_t freshness_left_s(const struct representation *representation, uint64_t now_ms)
{
    uint64_t max_ms = representation->max_age_s * MS_PER_S, age = age_ms(representation, now_ms);
    return age < max_ms ? (uint32_t)((max_ms - age) / MS_PER_S) : 0;
}

/* --- options ------------------------------------------------------------ */

static bool is_kept(uint16_t number)
{
    const struct option_row *row = option_row(number);
    return number != OPTION_max_age && (row == NULL || row->in_response != OPTION_USE_OWN);
}

static bool is_kept_of_whole(uint16_t number)
{
    return is_kept(number) && !option_is_of_piece(number);
}

size_t freshness_keep_options(struct bytes options, bool is_partial, uint8_t *buffer,
                              size_t capacity)
{
    struct message_writer writer = {.buffer = buffer, .capacity = capacity};
    message_writer_options(&writer, options, is_partial ? is_kept : is_kept_of_whole, NULL);
    return writer.overflow ? 0 : writer.len;
}

static bool is_replacing(uint16_t number)
{
    return is_kept(number) && !option_is_unsafe(number);
}

enum list { STORED, UPDATE, LISTS };

/* Two lists of options, gone through together in ascending order. */
struct pair {
    struct option_iter iters[LISTS];
    struct option options[LISTS];
    bool has[LISTS];
};

static void step(struct pair *pair, enum list which)
{
    pair->has[which] = option_iter_next(&pair->iters[which], &pair->options[which]);
}

/*
 * Of two options with one number the stored one comes first; that it is replaced shows in
 * the other list, which is at the first option with that number then.
 */
static void merge_next(struct pair *pair, struct message_writer *writer)
{
    const struct option *stored = &pair->options[STORED], *update = &pair->options[UPDATE];
    bool is_stored = !pair->has[UPDATE] || (pair->has[STORED] && stored->number <= update->number);
    const struct option *option = is_stored ? stored : update;
    bool is_replaced = is_stored && pair->has[UPDATE] && stored->number == update->number &&
                       is_replacing(stored->number);
    if (is_stored ? !is_replaced : is_replacing(option->number)) {
        message_writer_option(writer, option->number, option->value);
    }
    step(pair, is_stored ? STORED : UPDATE);
}

size_t freshness_merge_options(struct bytes stored, struct bytes update, uint8_t *buffer,
                               size_t capacity)
{
    struct message_writer writer = {.buffer = buffer, .capacity = capacity};
    struct pair pair;
    option_iter_init(&pair.iters[STORED], stored);
    option_iter_init(&pair.iters[UPDATE], update);
    step(&pair, STORED);
    step(&pair, UPDATE);
    while (pair.has[STORED] || pair.has[UPDATE]) {
        merge_next(&pair, &writer);
    }
    return writer.overflow ? 0 : writer.len;
}

size_t freshness_etag_option(struct bytes etag, uint8_t buffer[ETAG_OPTION_MAX])
{
    struct message_writer writer = {.buffer = buffer, .capacity = ETAG_OPTION_MAX};
    message_writer_option(&writer, OPTION_etag, etag);
    return writer.len;
}
