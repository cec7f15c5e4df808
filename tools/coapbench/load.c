/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The load generator: one thread, one loop.
 *
 * Each request in flight has a slot of the pending table and the wheel's timer of
 * the same number. In closed loop a slot sends its next request when it ends (or a
 * pause later); in open loop requests are due at even intervals, whatever comes back,
 * and latency counts from the time a request was due, not from when it got sent.
 *
 *        turn() --------> ask() --> SENT --(empty ACK)--> ACKED
 *          ^                |  ^_(retransmit)_|             |
 *          |                v                               v
 *        end() <------ answer, RST, or time has run out <---+
 */
#include "load_state.h"

#include "clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum {
    OPEN_IN_FLIGHT = 1 << 16,
    RAMP_PER_MS = 64, /* first requests of a closed loop, so that no queue overflows */
    POLL_MS = 20,
    LAST_ROUNDS = 1000, /* after the stop signal: batches of datagrams that are there already */
    PACE_US = 50,       /* open loop: requests that are due within this time are sent together */
};

void load_set_timer(struct load *load, uint32_t number, uint64_t delay_ns)
{
    wheel_set(&load->wheel, number, (load->now_ns + delay_ns) / NS_PER_MS + 1);
}

static void remember(struct load *load, const struct pending *request)
{
    struct load_recent *set = &load->recent[random_mix(request->token_key) % LOAD_RECENT_SETS];
    uint32_t way = set->count++ % LOAD_RECENT_WAYS;

    set->token_keys[way] = request->token_key;
    set->clients[way] = request->client;
}

static void ask_again_later(struct load *load, uint32_t number)
{
    if (load->options->rate > 0) {
        load->pending.requests[number].next_free = load->free_slot;
        load->free_slot = number;
    } else if (load->options->think_ns > 0) {
        double factor = 0.5 + random_unit(&load->random);
        load_set_timer(load, number, (uint64_t)((double)load->options->think_ns * factor));
    } else {
        request_ask(load, number);
    }
}

/* So that what was lost can be found in a capture, or in the log of a proxy. */
static void log_lost(const struct load *load, const struct pending *request, enum load_end how)
{
    union address local;
    char shown[ADDRESS_TEXT_MAX] = "none";
    socklen_t len = sizeof(local);
    bool is_up;
    int fd = link_descriptor(load->link, request->client, request->endpoint, &is_up);
    /* It began when it was due, which may be later than this turn did. */
    uint64_t waited_ns =
        load->now_ns > request->started_ns ? load->now_ns - request->started_ns : 0;
    struct timespec now;

    if (fd >= 0 && getsockname(fd, &local.any, &len) == 0) {
        address_format(&local, shown);
    }

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)fprintf(stderr,
                  "lost %s time=%lld.%03ld client=%" PRIu32
                  " from=%s session=%s sent_before_ms=%" PRIu64
                  " transmissions=%u mid=%u path=%" PRIu64 "\n",
                  load_end_name(how), (long long)now.tv_sec, now.tv_nsec / 1000000, request->client,
                  shown, is_up ? "up" : "none", waited_ns / NS_PER_MS, request->retransmits + 1u,
                  request->mid, request->path);
}

void load_end_request(struct load *load, uint32_t number, enum load_end how)
{
    struct pending *request = &load->pending.requests[number];

    load->result.counters.ends[how]++;
    if (load->options->log_lost && how != END_ANSWERED) {
        log_lost(load, request, how);
    }
    if (load->measuring && how == END_ANSWERED) {
        uint64_t now = load->now_ns > request->started_ns ? load->now_ns : request->started_ns;
        histogram_add(&load->result.latency, now - request->started_ns);
        load->result.measured_answers++;
    }
    wheel_cancel(&load->wheel, number);
    pending_remove(&load->pending, number);
    remember(load, request);
    request->state = PENDING_IDLE;
    load->in_flight--;
    ask_again_later(load, number);
}

static void on_timer(void *context, uint32_t number)
{
    struct load *load = context;
    struct pending *request = &load->pending.requests[number];

    switch (request->state) {
    case PENDING_IDLE:
        request_ask(load, number);
        return;
    case PENDING_ACKED:
        load_end_request(load, number, END_UNANSWERED);
        return;
    case PENDING_SENT:
        break;
    }
    if (!request->confirmable) {
        load_end_request(load, number, END_UNANSWERED);
    } else if (request->retransmits == load->options->max_retransmit) {
        load_end_request(load, number, END_UNACKNOWLEDGED);
    } else {
        /* What was sent last has had no answer on the session that there was, unless that was begun
         * then: timers are late by some of the time between. */
        uint64_t sent_ns = load->now_ns - request->timeout_ns - request->timeout_ns / 4;
        request->retransmits++;
        request->timeout_ns *= 2;
        load->result.counters.retransmitted++;
        load_set_timer(load, number, request->timeout_ns);
        if (load->options->reconnect > 0 && request->retransmits >= load->options->reconnect) {
            load->error = link_reopen(load->link, request->client, sent_ns);
        }
        request_transmit(load, request);
    }
}

static void ask_what_is_due(struct load *load)
{
    uint64_t elapsed = load->now_ns - load->start_ns;
    uint64_t due = (uint64_t)((double)elapsed / (double)NS_PER_S * (double)load->options->rate);

    for (; load->due_count < due && request_is_wanted(load); load->due_count++) {
        uint32_t number = load->free_slot;
        if (number == INDEX_NONE) {
            load->result.counters.overrun += due - load->due_count;
            load->due_count = due;
            return;
        }
        load->due_ns = load->start_ns + (uint64_t)((double)load->due_count * (double)NS_PER_S /
                                                   (double)load->options->rate);
        load->free_slot = load->pending.requests[number].next_free;
        request_ask(load, number);
    }
}

static uint64_t wait_ns(const struct load *load)
{
    uint64_t wait = wheel_next_ms(&load->wheel, POLL_MS) * NS_PER_MS;

    if (load->options->rate > 0 && load->sending) {
        uint64_t next = load->start_ns + (uint64_t)((double)(load->due_count + 1) *
                                                    (double)NS_PER_S / (double)load->options->rate);
        uint64_t until = next > load->now_ns ? next - load->now_ns : 0;
        /* To wake up for each at its time would take the core from the origin beside us. */
        until = until > PACE_US * NS_PER_US ? until : PACE_US * NS_PER_US;
        wait = until < wait ? until : wait;
    }
    return wait;
}

static int sample(const struct load *load, struct process_sample *ret)
{
    return load->options->pid > 0 ? process_sample(load->options->pid, ret) : 0;
}

static int begin_measuring(struct load *load)
{
    load->measuring = true;
    load->warm_ns = load->now_ns;
    return sample(load, &load->result.before);
}

static int stop_sending(struct load *load)
{
    load->sending = false;
    load->measuring = false;
    load->result.measured_ns = load->now_ns - load->warm_ns;
    return sample(load, &load->result.after);
}

/* The phases of a run: warm-up, measuring, waiting for open requests. */
static int step_phase(struct load *load)
{
    bool all_sent = load->options->count > 0 && load->result.counters.sent >= load->options->count;

    if (load->sending && !load->measuring &&
        load->now_ns - load->start_ns >= load->options->warmup_ns) {
        int err = begin_measuring(load);
        if (err != 0) {
            return err;
        }
    }
    if (load->sending && (all_sent || load->now_ns >= load->stop_ns || clock_stop != 0)) {
        if (!load->measuring) {
            load->warm_ns = load->now_ns; /* it ended in the warm-up: nothing was measured */
        }
        return stop_sending(load);
    }
    return 0;
}

static int turn(struct load *load)
{
    int err;

    load->now_ns = clock_now_ns();
    err = step_phase(load);
    if (err != 0) {
        return err;
    }
    wheel_advance(&load->wheel, load->now_ns / NS_PER_MS, on_timer, load);
    if (load->options->rate > 0) {
        ask_what_is_due(load);
    }
    err = link_wait(load->link, wait_ns(load));
    load->now_ns = clock_now_ns();
    if (err == 0) {
        err = link_deliver(load->link, answer_on_message, load);
    }
    return err != 0 ? err : load->error;
}

static void start_slots(struct load *load)
{
    load->free_slot = INDEX_NONE;
    for (uint32_t i = load->in_flight_cap; i-- > 0;) {
        if (load->options->rate > 0) {
            load->pending.requests[i].next_free = load->free_slot;
            load->free_slot = i;
        } else {
            load_set_timer(load, i, i / RAMP_PER_MS * NS_PER_MS);
        }
    }
}

static void count_message(void *context, uint32_t client, uint32_t endpoint, const uint8_t *data,
                          size_t len)
{
    struct load *load = context;

    load->taken_count++;
    answer_on_message(context, client, endpoint, data, len);
}

/* After the stop signal: no more waiting, but received datagrams count, so that all answers of a
 * proxy that was stopped first are found. */
static int take_what_has_come(struct load *load)
{
    for (unsigned round = 0; clock_stop != 0 && round < LAST_ROUNDS; round++) {
        uint64_t before = load->taken_count;
        int err = link_wait(load->link, 0);
        load->now_ns = clock_now_ns();
        if (err == 0) {
            err = link_deliver(load->link, count_message, load);
        }
        if (err != 0 || load->taken_count == before) {
            return err;
        }
    }
    return 0;
}

static int run_loop(struct load *load)
{
    load->start_ns = load->now_ns;
    load->stop_ns = load->now_ns + load->options->time_ns;
    load->sending = true;
    start_slots(load);
    while (load->sending || (load->in_flight > 0 && clock_stop == 0)) {
        int err = turn(load);
        if (err != 0) {
            return err;
        }
    }
    int err = take_what_has_come(load);
    if (err != 0) {
        return err;
    }
    load->result.counters.ends[END_UNFINISHED] += load->in_flight;
    load->result.total_ns = clock_now_ns() - load->start_ns;
    load->result.counters.refused = load->link->refused;
    load->result.counters.foreign = load->link->foreign;
    load->result.counters.reopened = load->link->reopened;
    return 0;
}

/* The cost of a handshake is the difference of the samples. */
static int bring_up(struct load *load, struct load_sessions *ret_sessions)
{
    int err = sample(load, &ret_sessions->before);

    if (err == 0) {
        err = link_connect(load->link, &ret_sessions->handshakes);
    }
    if (err == 0) {
        err = sample(load, &ret_sessions->after);
    }
    if (err == 0 && ret_sessions->handshakes.failed > 0 && ret_sessions->handshakes.done == 0) {
        err = -ECONNREFUSED;
    }
    return err;
}

static int bring_up_all(struct load *load)
{
    int err = bring_up(load, &load->result.sessions);

    if (err == 0 && load->options->resume && load->options->kind != LINK_UDP) {
        err = bring_up(load, &load->result.resumed);
    }
    load->now_ns = clock_now_ns();
    return err;
}

static void ignore_message(void *context, uint32_t client, uint32_t endpoint, const uint8_t *data,
                           size_t len)
{
    (void)context;
    (void)client;
    (void)endpoint;
    (void)data;
    (void)len;
}

/* Prints when all sessions are open, for a script that waits for it, and keeps them. */
static int hold(struct load *load)
{
    uint64_t end_ns = clock_now_ns() + load->options->time_ns;
    int err = 0;

    puts("holding");
    fflush(stdout);
    while (err == 0 && clock_stop == 0 && clock_now_ns() < end_ns) {
        err = link_wait(load->link, POLL_MS * NS_PER_MS);
        if (err == 0) {
            err = link_deliver(load->link, ignore_message, load);
        }
    }
    return err;
}

static uint32_t cap_in_flight(const struct load_options *options)
{
    uint64_t cap = (uint64_t)options->clients * options->window;

    if (options->rate > 0) {
        cap = OPEN_IN_FLIGHT;
    }
    if (options->in_flight > 0 && (options->rate > 0 || options->in_flight < cap)) {
        cap = options->in_flight;
    }
    return cap < LOAD_IN_FLIGHT_MAX ? (uint32_t)cap : LOAD_IN_FLIGHT_MAX;
}

static int open_load(struct load *load)
{
    struct link_options link = {.peer = load->options->peer,
                                .clients = load->options->clients,
                                .own_sockets = load->options->own_sockets,
                                .kind = load->options->kind,
                                .identity = load->options->identity,
                                .key = load->options->key,
                                .suites = load->options->suites};
    int err;

    load->now_ns = clock_now_ns();
    load->random = (struct random){load->options->seed};
    load->in_flight_cap = cap_in_flight(load->options);
    load->clients = calloc(load->options->clients, sizeof(*load->clients));
    load->recent = calloc(LOAD_RECENT_SETS, sizeof(*load->recent));
    load->acked = calloc(LOAD_ACKED, sizeof(*load->acked));
    if (load->clients == NULL || load->recent == NULL || load->acked == NULL) {
        return -ENOMEM;
    }
    err = pending_init(&load->pending, load->in_flight_cap, load->options->token_len);
    if (err == 0) {
        err = wheel_init(&load->wheel, load->in_flight_cap, load->now_ns / NS_PER_MS);
    }
    return err == 0 ? link_open(&link, &load->link) : err;
}

static void close_load(struct load *load)
{
    link_close(load->link);
    wheel_clear(&load->wheel);
    pending_clear(&load->pending);
    free(load->acked);
    free(load->recent);
    free(load->clients);
    free(load);
}

uint64_t load_wrong(const struct load_counters *counters)
{
    return counters->ends[END_WRONG] + counters->wrong_client + counters->wrong_mid;
}

int load_run(const struct load_options *options, struct load_result *ret_result)
{
    struct load *load = calloc(1, sizeof(*load));
    int err;

    if (load == NULL) {
        return -ENOMEM;
    }
    load->options = options;
    err = open_load(load);
    if (err == 0) {
        err = bring_up_all(load);
    }
    if (err == 0) {
        err = options->hold ? hold(load) : run_loop(load);
    }
    if (err == 0) {
        *ret_result = load->result;
    }
    close_load(load);
    return err;
}
