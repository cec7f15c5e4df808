/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether an answer may be given to other clients, how long it is fresh, and which of its options
 * are kept (RFC 7252 sections 5.6, 5.9 and 5.10.5). Pure functions; the
 * time is an argument.
 */
#ifndef CRIPROXY_FRESHNESS_H
#define CRIPROXY_FRESHNESS_H

#include "coap/reply.h"

#define MAX_AGE_DEFAULT_S 60u /* where an answer has no Max-Age */

/* Bytes of an ETag option, with its head. */
#define ETAG_OPTION_MAX 9u

/* Which clients may have an answer. */
enum answer_use {
    ANSWER_FOR_ONE,  /* only the request it answers */
    ANSWER_SHARED,   /* every equal request that waits now */
    ANSWER_STORABLE, /* later ones too, while it is fresh or when it has been validated */
};

/* A representation, or an error, that was received once and is given out often. */
struct representation {
    uint8_t code;
    struct bytes options; /* encoded, as they go to clients, but for Max-Age */
    struct bytes payload;
    uint32_t max_age_s;
    uint64_t received_ms; /* or when it was last validated: its age counts from here */
};

/* What an answer's code and options say about keeping it. */
struct answer_facts {
    enum answer_use use;
    bool is_partial;    /* as freshness_is_partial() */
    uint32_t max_age_s; /* as freshness_max_age_s() */
    struct bytes etag;  /* as freshness_etag(): borrowed from the options */
};

/**
 * The facts about the answer with @p code and encoded @p options to a request that has a cache key.
 * For its own client alone: an answer that is no result of GET or FETCH (CACHE-3), one with OSCORE,
 * EDHOC or Echo, and 4.01 (CACHE-23, CACHE-24). Not stored: a block of a body without an ETag, as
 * nothing would tell it from a block of another body (CACHE-29), and an answer with more than one
 * ETag (OPT-18).
 *
 * @param absent as in struct reply: with 0 all options are gone through.
 */
struct answer_facts freshness_facts(uint8_t code, struct bytes options, uint64_t absent);

/** Max-Age of an answer, in seconds. */
uint32_t freshness_max_age_s(struct bytes options);

/** The ETag of an answer; data == NULL where it has none. */
struct bytes freshness_etag(struct bytes options);

/** Whether it is one block of a longer body. */
bool freshness_is_partial(struct bytes options);

/** Whether its age is within Max-Age and @p cap_s; false for Max-Age 0 (CACHE-6, CACHE-7). */
bool freshness_is_fresh(const struct representation *representation, uint32_t cap_s,
                        uint64_t now_ms);

/** Whether it is fresh, or no longer than @p stale_ms beyond; false after that. */
bool freshness_is_usable_stale(const struct representation *representation, uint64_t stale_ms,
                               uint64_t now_ms);

/**
 * What is left of Max-Age, in whole seconds, never more than is true (CACHE-8); 0 when nothing is.
 */
uint32_t freshness_left_s(const struct representation *representation, uint64_t now_ms);

/**
 * Copy those of an answer's @p options that are kept: not Max-Age, which is kept apart, not
 * what concerned one hop, and nothing about blocks unless it is one of several.
 *
 * @param is_partial as freshness_is_partial() of them.
 * @return bytes written, at most options.len: leaving options out never makes the rest longer.
 */
size_t freshness_keep_options(struct bytes options, bool is_partial, uint8_t *buffer,
                              size_t capacity);

/**
 * The options of a stored answer after a 2.03 with the options @p update: each safe option
 * that is there replaces those of its number (RFC 7252 section 5.9.1.3; CACHE-12).
 *
 * @return bytes written, or 0 where they do not fit; options are never empty, as the 2.03
 *         had an ETag.
 */
size_t freshness_merge_options(struct bytes stored, struct bytes update, uint8_t *buffer,
                               size_t capacity);

/** @p etag as an option by itself. @return its bytes, at most ETAG_OPTION_MAX. */
size_t freshness_etag_option(struct bytes etag, uint8_t buffer[ETAG_OPTION_MAX]);

#endif
