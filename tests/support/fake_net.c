/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time, loops and the wire. All that will happen waits in one heap, by time and
 * then by the order in which it was posted. At each moment: what is due happens,
 * then every loop that had a part in it, or whose on_turn is due, gets its turn;
 * again until the moment is quiet; then the clock jumps to the next moment.
 */
#include "support/fake_net_internal.h"

#include "net/oscore.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A moment with more turns than this never ends. */
#define TURNS_MAX 100000u

/* Neither 0 nor small, so that a time left out or taken for a duration shows. */
#define START_MS UINT64_C(1000000)

#define LOOPS_MAX 16
#define REFUSALS_MAX 64

struct posted_task {
    struct loop_task task;
    loop_task_fn run;
    void *context;
};

struct loop {
    loop_turn_fn on_turn;
    void *context;
    uint64_t wanted_ms;
    bool is_awake; /* had a callback since its last turn */
    bool is_stopping;
    struct loop_task *tasks, **tasks_end;
};

struct refusal {
    struct address address;
    int error;
};

static struct {
    bool is_started;
    uint64_t now_ms, sequence, random;
    struct fake_link link;
    struct fake_net_stats stats;
    struct loop *loops[LOOPS_MAX];
    size_t loop_count;
    struct refusal refusals[REFUSALS_MAX];
    size_t refusal_count;
    struct fake_event **events; /* heap, the earliest first */
    size_t event_count, event_capacity;
} net;

const char *oscore_lack(void)
{
    return NULL;
}

static char any_oscore; /* there are no keys on the fake network */

struct upstream_oscore *upstream_oscore_load(const struct oscore_keys *keys, const char *directory,
                                             char *ret_error, size_t error_capacity)
{
    (void)keys;
    (void)directory;
    (void)ret_error;
    (void)error_capacity;
    return (struct upstream_oscore *)(void *)&any_oscore;
}

struct upstream_oscore *upstream_oscore_acquire(struct upstream_oscore *oscore)
{
    return oscore;
}

void upstream_oscore_release(struct upstream_oscore *oscore)
{
    (void)oscore;
}

static _Noreturn void no_memory(void)
{
    fail_msg("out of memory in the fake network");
    abort(); /* outside of a test */
}

void *fake_alloc(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        no_memory();
    }
    return memory;
}

uint64_t fake_random(void)
{
    return test_random(&net.random);
}

static bool chance(unsigned percent)
{
    return percent != 0 && fake_random() % 100 < percent;
}

/* ---- events ---- */

static bool event_before(const struct fake_event *a, const struct fake_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->sequence < b->sequence;
}

static void heap_swap(size_t a, size_t b)
{
    struct fake_event *event = net.events[a];
    net.events[a] = net.events[b];
    net.events[b] = event;
}

static void heap_push(struct fake_event *event)
{
    if (net.event_count == net.event_capacity) {
        net.event_capacity = net.event_capacity == 0 ? 64 : 2 * net.event_capacity;
        net.events = realloc(net.events, net.event_capacity * sizeof(struct fake_event *));
        if (net.events == NULL) {
            no_memory();
        }
    }
    size_t at = net.event_count++;
    net.events[at] = event;
    while (at > 0 && event_before(net.events[at], net.events[(at - 1) / 2])) {
        heap_swap(at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

/* @return NULL when nothing is under way. */
static struct fake_event *heap_pop(void)
{
    if (net.events == NULL || net.event_count == 0) {
        return NULL;
    }
    struct fake_event *first = net.events[0];
    net.events[0] = net.events[--net.event_count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < net.event_count; child++) {
            if (event_before(net.events[child], net.events[least])) {
                least = child;
            }
        }
        if (least == at) {
            return first;
        }
        heap_swap(at, least);
        at = least;
    }
}

struct fake_event *fake_event_new(void (*happen)(struct fake_event *event), const uint8_t *data,
                                  size_t len)
{
    struct fake_event *event = fake_alloc(sizeof *event + len);
    event->happen = happen;
    event->len = len;
    if (len != 0) {
        memcpy(event->data, data, len);
    }
    return event;
}

void fake_event_post(struct fake_event *event, uint64_t delay_ms)
{
    event->at_ms = net.now_ms + delay_ms;
    event->sequence = net.sequence++;
    heap_push(event);
}

void fake_events_clear(void)
{
    while (net.event_count > 0) {
        free(heap_pop());
    }
    free(net.events);
    net.events = NULL;
    net.event_capacity = 0;
}

/* ---- life ---- */

void fake_net_start(uint64_t seed)
{
    /* A test that failed has left everything as it was: forget it. */
    memset(&net, 0, sizeof net);
    net.is_started = true;
    net.now_ms = START_MS;
    net.random = seed;
    fake_udp_stop();
    fake_resolve_stop();
    fake_peers_free();
}

void fake_net_stop(void)
{
    assert_true(net.is_started);
    if (net.loop_count != 0) {
        fail_msg("%zu loops were not freed", net.loop_count);
    }
    if (fake_udp_open_count() != 0) {
        fail_msg("%zu sockets were not closed", fake_udp_open_count());
    }
    if (fake_resolver_count() != 0) {
        fail_msg("%zu resolvers were not freed", fake_resolver_count());
    }
    fake_events_clear();
    fake_udp_stop();
    fake_resolve_stop();
    fake_peers_free();
    net.is_started = false;
}

uint64_t fake_net_now_ms(void)
{
    return net.now_ms;
}

void fake_net_set_link(const struct fake_link *link)
{
    assert_true(link->delay_min_ms <= link->delay_max_ms);
    net.link = *link;
}

const struct fake_net_stats *fake_net_stats(void)
{
    return &net.stats;
}

/* ---- loop.h ---- */

int loop_new(loop_turn_fn on_turn, void *context, struct loop **ret_loop)
{
    if (!net.is_started) {
        fail_msg("loop_new() before fake_net_start()");
    }
    assert_true(net.loop_count < LOOPS_MAX);
    struct loop *loop = fake_alloc(sizeof *loop);
    *loop = (struct loop){
        .on_turn = on_turn, .context = context, .is_awake = true, .wanted_ms = UINT64_MAX};
    loop->tasks_end = &loop->tasks;
    net.loops[net.loop_count++] = loop;
    *ret_loop = loop;
    return 0;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL) {
        return;
    }
    if (fake_udp_is_open_on(loop)) {
        fail_msg("loop_free() while one of its sockets is open");
    }
    size_t at = 0;
    while (at < net.loop_count && net.loops[at] != loop) {
        at++;
    }
    if (at == net.loop_count) {
        fail_msg("loop_free() of a loop that does not exist (any more)");
    }
    net.loops[at] = net.loops[--net.loop_count];
    while (loop->tasks != NULL) {
        struct loop_task *task = loop->tasks;
        loop->tasks = task->next;
        task->drop(task->context);
    }
    free(loop);
}

int loop_post_task(struct loop *loop, struct loop_task *task)
{
    task->next = NULL;
    *loop->tasks_end = task;
    loop->tasks_end = &task->next;
    loop->is_awake = true;
    return 0;
}

static void run_posted(void *context)
{
    struct posted_task posted = *(struct posted_task *)context;
    free(context);
    posted.run(posted.context);
}

int loop_post(struct loop *loop, loop_task_fn task, void *context)
{
    struct posted_task *posted = fake_alloc(sizeof *posted);
    *posted = (struct posted_task){.task = {.run = run_posted, .drop = free, .context = posted},
                                   .run = task,
                                   .context = context};
    return loop_post_task(loop, &posted->task);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    (void)loop;
    return net.now_ms;
}

uint64_t loop_now_us(const struct loop *loop)
{
    return loop_now_ms(loop) * 1000;
}

uint64_t loop_clock_us(const struct loop *loop)
{
    return loop_now_ms(loop) * 1000; /* computing takes no time here */
}

uint64_t loop_wall_s(const struct loop *loop)
{
    return UINT64_C(1600000000) + loop_now_ms(loop) / 1000;
}

void loop_stop(struct loop *loop)
{
    loop->is_stopping = true;
}

static bool loop_is_stopping(void *context)
{
    struct loop *loop = context;
    return loop->is_stopping;
}

int loop_run(struct loop *loop)
{
    loop->is_stopping = false;
    if (!fake_net_run_until(UINT64_MAX - net.now_ms, loop_is_stopping, loop)) {
        fail_msg("loop_run(): nothing will ever happen again, and loop_stop() was not called");
    }
    return 0;
}

void fake_loop_wake(struct loop *loop)
{
    loop->is_awake = true;
}

static void loop_run_tasks(struct loop *loop)
{
    /* Tasks that tasks post wait for the next turn, as in the real loop. */
    struct loop_task *task = loop->tasks;
    loop->tasks = NULL;
    loop->tasks_end = &loop->tasks;
    while (task != NULL) {
        struct loop_task *next = task->next; /* running may free it */
        task->run(task->context);
        task = next;
    }
}

static void loop_turn(struct loop *loop)
{
    loop->is_awake = false;
    loop_run_tasks(loop);
    loop->wanted_ms = loop->on_turn(loop->context, net.now_ms);
    net.stats.turns++;
    if (fake_udp_has_output(loop)) {
        fail_msg("on_turn returned and left output unflushed");
    }
}

/* ---- time ---- */

/* What is due now, then the turns it calls for. @return whether anything happened. */
static bool moment_step(void)
{
    bool happened = false;

    while (net.event_count > 0 && net.events[0]->at_ms <= net.now_ms) {
        struct fake_event *event = heap_pop();
        event->happen(event);
        free(event);
        happened = true;
    }
    for (size_t i = 0; i < net.loop_count; i++) {
        struct loop *loop = net.loops[i];
        if (loop->is_awake || loop->wanted_ms <= net.now_ms) {
            loop_turn(loop);
            happened = true;
        }
    }
    return happened;
}

static uint64_t next_moment_ms(void)
{
    uint64_t next_ms = net.event_count > 0 ? net.events[0]->at_ms : UINT64_MAX;

    for (size_t i = 0; i < net.loop_count; i++) {
        if (net.loops[i]->wanted_ms < next_ms) {
            next_ms = net.loops[i]->wanted_ms;
        }
    }
    return next_ms;
}

static bool holds(bool (*when)(void *context), void *context)
{
    return when != NULL && when(context);
}

/* All that happens before the clock moves. @return whether @p when came to hold. */
static bool moment_run(bool (*when)(void *context), void *context)
{
    for (unsigned steps = 0; moment_step(); steps++) {
        if (holds(when, context)) {
            return true;
        }
        if (steps > TURNS_MAX) {
            fail_msg("turns without end at %" PRIu64 " ms", net.now_ms);
        }
    }
    return holds(when, context);
}

bool fake_net_run_until(uint64_t ms, bool (*when)(void *context), void *context)
{
    uint64_t end_ms = net.now_ms + ms;

    assert_true(net.is_started);
    for (size_t i = 0; i < net.loop_count; i++) {
        fake_loop_wake(net.loops[i]);
    }
    while (!moment_run(when, context)) {
        uint64_t next_ms = next_moment_ms();
        if (next_ms > end_ms || next_ms == UINT64_MAX) {
            if (end_ms != UINT64_MAX) {
                net.now_ms = end_ms;
            }
            return false;
        }
        net.now_ms = next_ms;
    }
    return true;
}

void fake_net_run(uint64_t ms)
{
    fake_net_run_until(ms, NULL, NULL);
}

/* ---- the wire ---- */

static struct refusal *refusal_find(const struct address *address)
{
    for (size_t i = 0; i < net.refusal_count; i++) {
        if (address_equal(&net.refusals[i].address, address)) {
            return &net.refusals[i];
        }
    }
    return NULL;
}

void fake_net_refuse(const char *text, int error)
{
    struct address address;

    assert_true(address_parse(text, strlen(text), 0, &address));
    struct refusal *refusal = refusal_find(&address);
    if (refusal == NULL) {
        assert_true(net.refusal_count < REFUSALS_MAX);
        refusal = &net.refusals[net.refusal_count++];
    }
    *refusal = (struct refusal){.address = address, .error = error};
}

static uint64_t link_delay_ms(void)
{
    return net.link.delay_min_ms +
           fake_random() % (net.link.delay_max_ms - net.link.delay_min_ms + UINT64_C(1));
}

static void datagram_arrives(struct fake_event *event)
{
    const struct refusal *refusal = refusal_find(&event->to);

    if (refusal != NULL && refusal->error != 0) {
        if (event->socket != NULL) {
            fake_wire_error(event->socket, &event->to, refusal->error, event->data, event->len);
        }
        net.stats.lost++;
        return;
    }
    enum fake_fate fate = fake_peer_deliver(&event->from, &event->to, event->data, event->len);
    if (fate == FAKE_NOT_MINE) {
        fate = fake_udp_deliver(&event->from, &event->to, event->data, event->len);
    }
    if (fate == FAKE_NOT_MINE) {
        fake_peer_stray(&event->from, &event->to, event->data, event->len);
    }
    if (fate == FAKE_DELIVERED) {
        net.stats.delivered++;
    } else {
        net.stats.lost++;
    }
}

static void wire_carry(struct udp_socket *socket, const struct address *from,
                       const struct address *to, const uint8_t *data, size_t len)
{
    struct fake_event *event = fake_event_new(datagram_arrives, data, len);
    uint64_t delay_ms = link_delay_ms();

    event->socket = socket;
    event->from = *from;
    event->to = *to;
    if (chance(net.link.reorder_percent)) {
        delay_ms += 1 + fake_random() % (net.link.delay_max_ms + UINT64_C(10));
    }
    if (len > 0 && chance(net.link.corrupt_percent)) {
        size_t at = (size_t)(fake_random() % len);
        event->data[at] = (uint8_t)(event->data[at] ^ 1u << fake_random() % 8);
        net.stats.corrupted++;
    }
    fake_event_post(event, delay_ms);
}

void fake_wire_send(struct udp_socket *socket, const struct address *from, const struct address *to,
                    const uint8_t *data, size_t len)
{
    net.stats.sent++;
    if (chance(net.link.loss_percent)) {
        net.stats.lost++;
        return;
    }
    wire_carry(socket, from, to, data, len);
    if (chance(net.link.duplicate_percent)) {
        net.stats.duplicated++;
        wire_carry(socket, from, to, data, len);
    }
}

static void error_arrives(struct fake_event *event)
{
    fake_udp_deliver_error(event->socket, &event->to, event->error, event->data, event->len);
}

void fake_wire_error(struct udp_socket *socket, const struct address *remote, int error,
                     const uint8_t *quoted, size_t quoted_len)
{
    struct fake_event *event = fake_event_new(error_arrives, quoted, quoted_len);

    event->socket = socket;
    event->to = *remote;
    event->error = error;
    fake_event_post(event, link_delay_ms());
}
