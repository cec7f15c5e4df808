/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of each request, reported once: it is counted, gets a line in the access log and, for a
 * trace, a block of lines with the options that were sent on and the events on the way. Traces are
 * --trace in labs, in the log, and criproxyctl trace, live.
 *
 * Never payloads, key material, or bytes that a terminal could take for commands.
 */
#ifndef CRIPROXY_TRACE_H
#define CRIPROXY_TRACE_H

#include "base/rate.h"
#include "base/timer.h"
#include "client/request.h"
#include "coap/message.h"
#include "coap/reason.h"
#include "coap/target.h"
#include "fetch/ticket.h"
#include "ops/events.h"

struct client_side;
struct device;
struct fault_plan;
struct origin_side;

#define TRACE_TAPS_MAX 4u
#define TRACE_FILTER_MAX 128u

/* A request and its outcome; borrowed for the time of the call. */
struct trace_view {
    const char *client, *target, *reason;     /* target: "" where there is none */
    char identity[IDENTITY_TEXT_MAX];         /* or "" */
    char code[8];                             /* "2.05"; "": none was given here */
    const char *method, *form, *rule, *cache; /* static, or of the configuration; "": not known */
    struct bytes route;                       /* empty: none */
    const char *origin;                       /* device_format(); NULL: it was sent nowhere */
    uint64_t exchange;                        /* its number; 0: it became none */
    uint64_t us;                              /* how long it took, from its beginning */
    const char *text; /* the block, lines with their ends; NULL: no request, only `lost` */
    size_t text_len;
    uint64_t lost; /* requests before it that this reader wanted, and did not get */
    bool is_more;  /* no request, but more about one that was shown, about a message or a device */
};

/*
 * A reader of a live trace. The engine's thread calls emit, which must not block, and returns
 * whether it has taken the request: else it is counted as lost. What is over the limit costs no
 * more than the comparisons; of what was lost last the reader is told within a second.
 */
struct trace_tap {
    uint64_t id;                     /* 0: this slot is free */
    char client[TRACE_FILTER_MAX];   /* the client's address begins so; "": any */
    char target[TRACE_FILTER_MAX];   /* the target's URI has this in it; "": any */
    char reason[TRACE_FILTER_MAX];   /* name of the reason; "": any */
    char identity[TRACE_FILTER_MAX]; /* the identity has this in it; "": any */
    uint32_t per_s;                  /* requests in a second; 0: no limit */
    bool (*emit)(void *context, uint64_t id, const struct trace_view *view);
    void *context;
    struct rate given; /* of per_s, both the tracer's alone */
    uint64_t lost;     /* since the reader was last told */
};

struct tracer {
    bool to_log;
    struct timer tell_lost; /* set while a reader has to be told of what it did not get */
    struct trace_tap taps[TRACE_TAPS_MAX];
};

/** Blocks into the log from now on. @return 0 or -ENOMEM */
int trace_to_log(struct client_side *side);

/** @return 0; -ENOSPC: TRACE_TAPS_MAX there are; -ENOMEM */
int trace_add_tap(struct client_side *side, const struct trace_tap *tap);
void trace_remove_tap(struct client_side *side, uint64_t id);

/** Ends all traces and frees their memory. Takes a side that was never traced. */
void trace_clear(struct client_side *side);

/**
 * A request ended for @p reason; the client is given @p code (0: nothing). It is
 * counted by request_finish(): the delivery of its answer may still fail.
 */
void trace_ended(struct client_side *side, struct request *request, enum reason reason,
                 uint8_t code);

/**
 * Counts a request that has ended. All arguments are borrowed for the call.
 * @param code of the answer; 0: none.
 * @param upstream transport on which it was sent, as in struct metric_end; 0: it was not sent.
 */
void trace_count(struct client_side *side, const struct leg *leg, enum reason reason, uint8_t code,
                 uint8_t upstream);

/**
 * Shows that the separate answer of @p request was delivered or given up, and the events since it
 * was sent. @p request is borrowed for the call.
 */
void trace_delivered(struct client_side *side, const struct request *request);

/**
 * Shows a request that was answered from the cache, with @p code, that was not kept. All
 * arguments are borrowed for the call.
 */
void trace_hit(struct client_side *side, const struct leg *leg, const struct target *target,
               const struct message *request, uint8_t code);

/**
 * Shows a request that was not kept, which the proxy itself has answered with @p code. All
 * arguments are borrowed for the call.
 * @param target NULL if there is none, or if it is the proxy itself.
 */
void trace_answered(struct client_side *side, const struct leg *leg, const struct target *target,
                    const struct message *request, const struct problem *problem, uint8_t code);

/**
 * Shows what a fault of a lab does to a message of the client at @p client, or to it; while there
 * is a trace. @p client and @p plan are borrowed for the call.
 */
void trace_fault(struct client_side *side, const struct address *client, bool is_from,
                 const struct fault_plan *plan);

/**
 * Shows that @p device, borrowed for the call, has opened a session (or has registered), or, for
 * @p why, that it ends (with the reason device_gone); while there is a trace. To filters the client
 * is the device, and the target coap://NAME.ZONE/.
 *
 * @param below of the client's side.
 * @param why empty: it is open now.
 */
void trace_device(struct origin_side *below, const struct device *device, const char *why);

/*
 * What a request became, in words: for the trace and --explain. All text is
 * printable, bounded and NUL-terminated.
 */

/** Room for a target in a line of the log; what is longer is cut. */
#define TARGET_TEXT_MAX 512

/**
 * The target as a URI without its query, which may hold secrets.
 *
 * @return @p text, the caller's; cut where it is too long.
 */
const char *describe_target(const struct target *target, char *text, size_t capacity);

/** The target as a CRI in diagnostic notation. */
const char *describe_cri(const struct target *target, char *text, size_t capacity);

/** In which way the target was named: "Proxy-Cri", "published", "none". Static text. */
const char *describe_form(enum target_form form);

/**
 * Options of an encoded message: `Uri-Host "h", Uri-Path "x", 65 h'01'`.
 *
 * @return @p text, the caller's: "none" for a message without options or a malformed one; cut
 *         where it is too long.
 */
const char *describe_options(const uint8_t *datagram, size_t len, char *text, size_t capacity);

#endif
