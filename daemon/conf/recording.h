/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recordings: requests, and what origin servers answered to them, out of a text file
 * (docs/RECORDINGS.md). A [route NAME] with via = recording:FILE has one, which is read with the
 * configuration and never changes. origin/carrier_recording.c answers from it.
 *
 *     request 1 --> entry --> entry        equal requests are one request with several entries,
 *                   |                      which take turns
 *                   answer, answer ...     of an observation: one after the other
 */
#ifndef CRIPROXY_CONF_RECORDING_H
#define CRIPROXY_CONF_RECORDING_H

#include "coap/message.h"

#include <stdatomic.h>

struct loader;
struct target;

#define RECORDING_FILE_MAX (16u << 20) /* bytes */
#define RECORDING_LINE_MAX (64u << 10)
#define RECORDING_BODY_MAX (1u << 20)
#define RECORDING_ENTRIES_MAX 16384u
#define RECORDING_WAIT_MAX_MS (30u * 24 * 3600 * 1000)
#define RECORDING_NONE UINT32_MAX

/* Of a target in its normal form: see recording_key(). */
#define RECORDING_KEY_MAX 4096u

/* An answer; the bytes are the recording's. */
struct recording_answer {
    uint32_t wait_ms;     /* after the request, or the answer before it */
    uint8_t code;         /* CODE_EMPTY: there is none, ever */
    bool has_observe;     /* it is a notification */
    struct bytes options; /* encoded; without Observe */
    struct bytes payload;
};

/* One time that a request was asked. */
struct recording_entry {
    uint32_t line;         /* of the file */
    uint32_t next;         /* of the same request, and with or without Observe as this one */
    uint32_t first, count; /* its answers */
};

/* Equal requests but for Observe. */
struct recording_request {
    uint8_t method;
    bool takes_rest;     /* further options, and any payload */
    uint32_t next;       /* in its bucket, in the order of the file */
    uint32_t entries[2]; /* the first, without Observe and with Observe 0; or RECORDING_NONE */
    uint32_t last[2];
    uint64_t hash;        /* of all that makes it differ from others */
    struct bytes key;     /* of its target; no data: of any */
    struct bytes options; /* that select an answer, encoded */
    struct bytes payload;
    const uint16_t *any; /* options that have to be there once, with whatever value */
    size_t any_count;
};

struct recording {
    _Atomic uint32_t references;
    struct recording_request *requests;
    struct recording_entry *entries;
    struct recording_answer *answers;
    uint32_t request_count, entry_count, answer_count;
    uint32_t *buckets; /* of targets; the last one is for any target */
    uint32_t bucket_count;
    struct config_arena *arena; /* owns all of the above */
    struct recording *next;     /* of the same configuration */
};

/**
 * Reads the file at @p path. What is wrong is reported as errors of @p report, with the line.
 *
 * @return a recording with one reference, or NULL: errors were reported, or loader->no_memory set.
 */
struct recording *recording_load(struct loader *loader, const char *path,
                                 void (*report)(void *context, const char *text), void *context);

/** As recording_load(), of @p text, borrowed for the call; @p path is for error messages. */
struct recording *recording_parse(struct loader *loader, const char *path, struct bytes text,
                                  void (*report)(void *context, const char *text), void *context);

/** One more reference; returns @p recording. Any thread. */
struct recording *recording_acquire(struct recording *recording);

/** Gives a reference back; the last one frees it. Takes NULL. Any thread. */
void recording_release(struct recording *recording);

/**
 * What the normal form of @p target compares by: the same bytes for the same target.
 *
 * @return how many of @p key, the caller's of RECORDING_KEY_MAX bytes; 0 where it is too long.
 */
size_t recording_key(const struct target *target, uint8_t *key);

/**
 * Where the requests for a target begin: a number of one, or RECORDING_NONE.
 *
 * @param key as of recording_key(); without data, that of requests for any target.
 * @return borrowed from @p recording; writable while it is read.
 */
uint32_t *recording_bucket(const struct recording *recording, uint8_t method, struct bytes key);

/* What is looked for; borrowed. */
struct recording_question {
    uint8_t method;
    struct bytes key;     /* of the target */
    struct bytes options; /* all of the request, encoded and checked */
    struct bytes payload;
};

/** The first request that matches, or NULL. Borrowed from @p recording. */
const struct recording_request *recording_find(const struct recording *recording,
                                               const struct recording_question *question);

#endif
