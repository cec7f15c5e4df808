/* SPDX-License-Identifier: BSD-2-Clause */
/* The options and results of `coapbench load`. */
#ifndef COAPBENCH_LOAD_H
#define COAPBENCH_LOAD_H

#include "address.h"
#include "form.h"
#include "histogram.h"
#include "link.h"
#include "process.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum load_type {
    LOAD_CON,
    LOAD_NON,
    LOAD_TYPE_MIX, /* one or the other by chance */
    LOAD_TYPE_COUNT,
};

enum {
    LOAD_TARGETS_MAX = 64,
    LOAD_METHODS = 8, /* codes 1 to 7 */
    LOAD_TOKEN_MAX = 64,
    LOAD_BODY_MAX = 1024,
    LOAD_IDS_MAX = 1 << 16,
    LOAD_ORIGINS_MAX = 1 << 20,
    LOAD_IN_FLIGHT_MAX = 1 << 18,
    LOAD_TEXT_MAX = 48,    /* of a diagnostic payload, as it is counted */
    LOAD_REASONS_MAX = 64, /* different ones */
};

struct load_options {
    union address peer; /* the proxy; for FORM_DIRECT the origin */
    struct target targets[LOAD_TARGETS_MAX];
    unsigned target_count;
    uint32_t origins; /* addresses of each target in turn, counted up from its own */
    enum form form;
    enum load_type type;
    uint64_t rate; /* requests a second; 0: closed loop */
    uint32_t clients;
    uint32_t window;    /* closed loop: requests of one client in flight */
    uint32_t in_flight; /* of all clients; 0: clients * window, or the cap in open loop */
    uint64_t think_ns;  /* closed loop: mean pause, spread from half to one and a half */
    uint64_t count;     /* requests; 0: until time runs out */
    uint64_t time_ns, warmup_ns;
    uint64_t timeout_ns; /* of a NON request, and of an acknowledged CON request */
    uint64_t ack_timeout_ns;
    unsigned max_retransmit;
    unsigned reconnect; /* retransmissions after which a client opens a new session; 0: never */
    uint32_t paths;     /* different resources; 0: every request has its own */
    char path[FORM_PATH_MAX];
    unsigned weights[LOAD_METHODS]; /* by method code */
    unsigned weight_sum;
    uint32_t ids; /* message ids of one endpoint before the client moves on */
    unsigned token_len, body_len;
    bool has_format; /* of the payload, a Content-Format: */
    uint16_t format;
    bool id_in_query; /* each request is unlike every other */
    bool check;       /* 2.xx payloads are echo lines */
    bool own_sockets;
    enum link_kind kind;
    const char *identity, *key, *suites; /* of coaps and coaps+tcp; borrowed */
    bool log_lost;                       /* a line for each request without an answer */
    bool resume;                         /* a second time, with tickets, before requests are sent */
    bool hold;                           /* no requests: sessions are brought up and kept */
    uint64_t seed;
    pid_t pid; /* the process whose CPU time and memory are measured; 0: none */
    bool json;
};

/* Every request ends for exactly one of these. */
enum load_end {
    END_ANSWERED,       /* by a response with the right token, whatever its code */
    END_WRONG,          /* by a response whose payload belongs to another request */
    END_RESET,          /* by a RST */
    END_UNACKNOWLEDGED, /* CON: all retransmissions and their time ran out */
    END_UNANSWERED,     /* NON, or an acknowledged CON: no answer in time */
    END_UNFINISHED,     /* still open at the stop signal */
    END_COUNT,
};

/** As it is printed. */
const char *load_end_name(enum load_end how);

struct load_reason {
    uint8_t code;
    char text[LOAD_TEXT_MAX];
    uint64_t count;
};

/* Counters of the whole run, from the first request to the last answer. */
struct load_counters {
    uint64_t sent, retransmitted;
    uint64_t ends[END_COUNT];
    uint64_t codes[256];
    uint64_t wrong_client; /* an answer whose token is another client's */
    uint64_t wrong_mid;    /* an ACK whose message id is not its token's request's */
    uint64_t unknown;      /* an answer to a token that we do not know (any more) */
    uint64_t late;         /* an answer once more, or after its request had ended */
    uint64_t malformed;
    uint64_t overrun; /* open loop: requests not sent because too many were in flight */
    uint64_t refused, foreign;
    uint64_t reopened;                            /* sessions, for want of an answer */
    struct load_reason reasons[LOAD_REASONS_MAX]; /* diagnostic texts of 4.xx and 5.xx */
    unsigned reason_count;
};

/* Sessions or connections opened before the first request, and their cost. */
struct load_sessions {
    struct link_handshakes handshakes;
    struct process_sample before, after; /* of pid; zero without */
};

struct load_result {
    struct load_sessions sessions, resumed; /* zero over UDP, and without resume */
    struct load_counters counters;
    /* From the end of the warm-up to the end of sending. */
    uint64_t measured_ns, measured_answers;
    struct histogram latency;
    struct process_sample before, after; /* of pid; zero without */
    uint64_t total_ns;
};

/** STATUS_OK: run; -1: help was printed; else an exit status. */
int load_options_parse(int argc, char **argv, struct load_options *ret_options);

/** Wrong answers of every kind. */
uint64_t load_wrong(const struct load_counters *counters);

/** Run to the end. @return 0 or -errno. */
int load_run(const struct load_options *options, struct load_result *ret_result);

/** As text, or as one JSON object on one line. */
void report_text(const struct load_options *options, const struct load_result *result);
void report_json(const struct load_options *options, const struct load_result *result);

#endif
