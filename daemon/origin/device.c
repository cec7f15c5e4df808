/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/device.h"

#include "base/log.h"
#include "conf/device.h"
#include "origin/device_wait.h"
#include "origin/origin.h"
#include "origin/relay.h"
#include "origin/side.h"
#include "origin/switchboard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int device_table_init(struct device_table *table, uint32_t capacity, uint64_t seed)
{
    struct device_table made = {.seed = seed};
    if (hash_map_init(&made.by_name, capacity, seed) != 0 ||
        hash_map_init(&made.by_number, capacity, seed) != 0) {
        device_table_clear(&made);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

static void free_device(struct device *device)
{
    hash_map_remove(&device->by_name);
    hash_map_remove(&device->by_number);
    identity_release(device->line.identity);
    atomic_fetch_sub(&device->holder->waiting, device->waiting);
    holder_release(device->holder);
    free(device);
}

void device_table_clear(struct device_table *table)
{
    struct hash_node *node;
    uint64_t cursor = 0;
    account_book_clear(&table->waits);
    while (table->by_number.buckets != NULL &&
           (node = hash_map_walk(&table->by_number, &cursor)) != NULL) {
        struct device *device = HASH_ENTRY(node, struct device, by_number);
        while (device->relays.first != NULL) {
            relay_abandon(HASH_ENTRY(device->relays.first, struct sending, on_device));
        }
        free_device(device);
        cursor = 0;
    }
    hash_map_clear(&table->by_name);
    hash_map_clear(&table->by_number);
    *table = (struct device_table){0};
}

struct device *device_named(const struct origin_side *side, struct bytes name)
{
    const struct device_table *table = &side->devices;
    struct hash_node *node =
        hash_map_find(&table->by_name, hash_bytes(name.data, name.len, table->seed));
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct device *device = HASH_ENTRY(node, struct device, by_name);
        if (strlen(device->name) == name.len && memcmp(device->name, name.data, name.len) == 0) {
            return device;
        }
    }
    return NULL;
}

/* As many as there are sections at most: names come from there. */
static struct device *get_device(struct origin_side *side, struct bytes name)
{
    struct device_table *table = &side->devices;
    struct device *device = device_named(side, name);
    if (device != NULL) {
        return device;
    }
    device = calloc(1, sizeof(*device) + name.len + 1);
    struct holder *holder = device != NULL ? holder_acquire(side->switchboard, name) : NULL;
    if (holder == NULL) {
        free(device);
        return NULL;
    }
    device->holder = holder;
    memcpy(device->name, name.data, name.len);
    device->number = ++table->last_number;
    hash_map_add(&table->by_name, &device->by_name, hash_bytes(name.data, name.len, table->seed));
    hash_map_add(&table->by_number, &device->by_number, device->number);
    return device;
}

static struct address address_of(const struct device *device)
{
    return (struct address){.family = ADDRESS_DEVICE, .scope = device->number};
}

bool device_address(struct origin_side *side, struct bytes name, struct address *ret_address)
{
    const struct device *device = get_device(side, name);
    if (device != NULL) {
        *ret_address = address_of(device);
    }
    return device != NULL;
}

struct device *device_at(const struct origin_side *side, const struct address *address)
{
    struct hash_node *node = address->family == ADDRESS_DEVICE
                                 ? hash_map_find(&side->devices.by_number, address->scope)
                                 : NULL;
    return node != NULL ? HASH_ENTRY(node, struct device, by_number) : NULL;
}

const char *device_name_at(const struct origin_side *side, const struct address *address)
{
    const struct device *device = device_at(side, address);
    return device != NULL ? device->name : NULL;
}

const char *device_format(const struct origin_side *side, const struct address *address,
                          char text[ADDRESS_TEXT_MAX])
{
    const char *name = device_name_at(side, address);
    return name != NULL ? name : address_format(address, text);
}

bool device_has_line(const struct origin_side *side, const struct address *address)
{
    const struct device *device = device_at(side, address);
    return device != NULL && holder_read(device->holder).is_held;
}

bool device_is_elsewhere(const struct origin_side *side, const struct address *address)
{
    const struct device *device = device_at(side, address);
    const struct line_holding holding =
        device != NULL ? holder_read(device->holder) : (struct line_holding){0};
    return holding.is_held && holding.worker != side->context.worker_index;
}

bool device_line_is_over(const struct origin_side *side, const struct sending *sending)
{
    const struct device *device =
        sending->origin != NULL ? device_at(side, &sending->origin->address) : NULL;
    return device == NULL || holder_read(device->holder).line != sending->line;
}

bool device_is_open(struct origin_side *side, const struct config_device *row)
{
    const struct bytes name = {(const uint8_t *)row->name, strlen(row->name)};
    struct address address;
    return device_address(side, name, &address) && device_has_line(side, &address);
}

/* --- its line -------------------------------------------------------------- */

/* Its line is open now, or, for @p why, about to end: into the log, and the trace. */
static void report_line(struct origin_side *side, const struct device *device, const char *why)
{
    char client[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    const char *event = why[0] != '\0' ? "device_closed" : "device_opened";
    const struct device_line *line = &device->line;
    if (log_is_on(LOG_INFO)) {
        log_event(LOG_INFO, event, "device=%s client=%s identity=%s scheme=%s%s%s%s", device->name,
                  address_format(&line->remote, client), identity_format(line->identity, identity),
                  transport_row(line->transport)->scheme, why[0] != '\0' ? " reason=\"" : "", why,
                  why[0] != '\0' ? "\"" : "");
    }
    if (side->context.trace && side->devices.on_line != NULL) {
        side->devices.on_line(side, device, why);
    }
}

/*
 * What was sent over lines of before is over. Telling one may end others, and have others sent over
 * the line that there is now, which stand behind them.
 */
static void end_all_before(struct origin_side *side, struct device *device)
{
    struct list_node *node;
    while ((node = device->out.first) != NULL) {
        struct sending *sending = HASH_ENTRY(node, struct sending, on_device);
        if (sending->line == device->lines) {
            break;
        }
        list_remove(&device->out, &sending->on_device);
        sending->device = NULL;
        hash_map_remove(&sending->by_message);
        sending_failed(side, sending, REASON_device_gone, NULL);
    }
}

/* It may be asked at once, whatever it owed before. */
static void resume(struct origin_side *side, const struct device *device)
{
    struct address address = address_of(device);
    struct origin *origin = origin_find(&side->origins, &address, TRANSPORT_NONE);
    if (origin != NULL) {
        origin_on_heard(side, origin);
    }
}

static void drop_line(struct origin_side *side, struct device *device, const char *why)
{
    report_line(side, device, why);
    identity_release(device->line.identity);
    device->line = (struct device_line){0};
    device->lines = holder_leave(device->holder, side->context.worker_index, device->lines);
    device->probed.remote.family = ADDRESS_NONE;
    timer_cancel(&side->context.wheel, &device->timer);
    timer_cancel(&side->context.wheel, &device->lifetime);
    metric_set(&side->context.metrics.devices, --side->devices.open_count);
}

/* --- devices.keep-alive ------------------------------------------------------ */

#define PINGS_IN_VAIN 3u
#define PING_AGAIN_MS 10000u

static void on_keep_alive(void *context, struct timer *timer, uint64_t now_ms);

static void await_keep_alive(struct origin_side *side, struct device *device)
{
    uint32_t after_ms = side->context.config->devices_keep_alive;
    uint64_t from_ms = device->heard_ms;
    if (device->pings > 0) {
        after_ms = after_ms > 0 && after_ms < PING_AGAIN_MS ? after_ms : PING_AGAIN_MS;
        from_ms = context_now_ms(&side->context);
    }
    if (after_ms > 0) {
        timer_set(&side->context.wheel, &device->timer, from_ms + after_ms, on_keep_alive);
    } else {
        timer_cancel(&side->context.wheel, &device->timer);
    }
}

void device_end(struct origin_side *side, struct device *device, const char *why)
{
    const struct device_line line = device->line;
    if (line.owner == NULL) {
        return;
    }
    drop_line(side, device, why);
    line.calls->end(line.owner, why);
    end_all_before(side, device);
    resume(side, device);
}

/* Its line ends, and no other has taken its place: what waits may wait for the next one. */
static void lose_device(struct origin_side *side, struct device *device, const char *why)
{
    device_end(side, device, why);
    device_wait_on(side, device);
}

static void ping_device(struct origin_side *side, struct device *device)
{
    const struct device_line *line = &device->line;
    uint8_t empty[MESSAGE_HEADER_LEN];
    device->pings++;
    metric_add(&side->context.metrics.upstream_pings, 1);
    if (line->calls->take_mid == NULL) {
        line->calls->ping(line->owner);
    } else if (line->calls->take_mid(line->owner, &device->ping_mid)) {
        message_write_empty(empty, MESSAGE_CON, device->ping_mid);
        (void)line->calls->send(line->owner, empty, sizeof(empty));
    }
}

static void on_keep_alive(void *context, struct timer *timer, uint64_t now_ms)
{
    struct origin_side *side = context;
    struct device *device = HASH_ENTRY(timer, struct device, timer);
    uint32_t after_ms = side->context.config->devices_keep_alive;
    bool is_due = device->pings > 0 || (after_ms > 0 && now_ms - device->heard_ms >= after_ms);
    if (device->pings >= PINGS_IN_VAIN) {
        lose_device(side, device, "the device does not answer pings");
        return;
    }
    if (is_due) {
        ping_device(side, device);
    }
    await_keep_alive(side, device);
}

/* Another address wants its place: it is asked whether it is there. */
static void doubt_device(struct origin_side *side, struct device *device)
{
    if (device->pings == 0 && context_now_ms(&side->context) - device->heard_ms >= PING_AGAIN_MS) {
        ping_device(side, device);
        await_keep_alive(side, device);
    }
}

static void on_lifetime(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    lose_device(context, HASH_ENTRY(timer, struct device, lifetime), "its registration is over");
}

void device_hold(struct origin_side *side, struct device *device, uint32_t lifetime_ms)
{
    device->until_ms = context_now_ms(&side->context) + lifetime_ms;
    timer_set(&side->context.wheel, &device->lifetime, device->until_ms, on_lifetime);
}

/* --- other workers ----------------------------------------------------------- */

static const char has_another[] = "the device has opened another session";

/* What all other workers are told: that a session has been opened. */
struct device_notice {
    _Atomic uint32_t references; /* tasks under way */
    struct holder *holder;
    struct device_word {
        struct loop_task task;
        struct device_notice *notice;
        struct origin_side *side; /* of the worker that is told */
    } words[];
};

static void drop_word(void *context)
{
    struct device_notice *notice = ((struct device_word *)context)->notice;
    if (atomic_fetch_sub(&notice->references, 1) == 1) {
        holder_release(notice->holder);
        free(notice);
    }
}

/* What was passed on to the worker of an older session. */
static void end_relays_before(struct origin_side *side, struct device *device)
{
    uint32_t line = holder_read(device->holder).line;
    struct list_node *node;
    while ((node = device->relays.first) != NULL) {
        struct sending *sending = HASH_ENTRY(node, struct sending, on_device);
        if (sending->line == line) {
            break; /* later ones are, too */
        }
        relay_cancel(side, sending);
        sending_failed(side, sending, REASON_device_gone, NULL);
    }
}

static void on_moved_elsewhere(void *context)
{
    struct device_word *word = context;
    struct origin_side *side = word->side;
    const struct holder *holder = word->notice->holder;
    const struct bytes name = {(const uint8_t *)holder->name, holder->name_len};
    struct device *device = device_named(side, name);
    if (device != NULL && device->line.owner != NULL && device->lines != holder_read(holder).line) {
        metric_add(&side->context.metrics.devices_replaced, 1);
        device_end(side, device, has_another);
    }
    if (device != NULL && device->line.owner == NULL) {
        end_relays_before(side, device);
        resume(side, device);
        side->devices.on_moved(side, device);
    }
    drop_word(word);
}

/* @return false without memory; *ret_notice is NULL where there are no others */
static bool make_notice(const struct device *device, unsigned others,
                        struct device_notice **ret_notice)
{
    struct device_notice *notice = NULL;
    if (others > 0) {
        notice = calloc(1, sizeof(*notice) + others * sizeof(notice->words[0]));
        if (notice == NULL) {
            return false;
        }
        notice->holder = holder_hold(device->holder);
    }
    *ret_notice = notice;
    return true;
}

static void post_word(const struct origin_side *side, struct device_notice *notice, unsigned at,
                      unsigned worker, loop_task_fn run)
{
    const struct switchboard_worker *other = &side->switchboard->each[worker];
    struct device_word *word = &notice->words[at];
    *word = (struct device_word){.notice = notice, .side = other->side};
    word->task = (struct loop_task){.run = run, .drop = drop_word, .context = word};
    if (loop_post_task(other->loop, &word->task) != 0) {
        drop_word(word);
    }
}

/* @p notice is given away; NULL: there are no others. */
static void tell_others(const struct origin_side *side, struct device_notice *notice)
{
    uint32_t others = side->switchboard->workers - 1;
    if (notice == NULL) {
        return;
    }
    atomic_init(&notice->references, others);
    for (unsigned i = 0, at = 0; at < others; i++) {
        if (i != side->context.worker_index) {
            post_word(side, notice, at++, i, on_moved_elsewhere);
        }
    }
}

/* Registrations that another worker would have to give way to: it sees whether they are alive. */
static void on_doubted_elsewhere(void *context)
{
    struct device_word *word = context;
    const struct holder *holder = word->notice->holder;
    const struct bytes name = {(const uint8_t *)holder->name, holder->name_len};
    struct device *device = device_named(word->side, name);
    if (device != NULL && device->line.owner != NULL) {
        doubt_device(word->side, device);
    }
    drop_word(word);
}

bool device_is_taken(struct origin_side *side, const struct config_device *row, const void *owner)
{
    const struct bytes name = {(const uint8_t *)row->name, strlen(row->name)};
    struct device *device = get_device(side, name);
    const struct line_holding holding =
        device != NULL ? holder_read(device->holder) : (struct line_holding){0};
    struct device_notice *notice = NULL;
    if (!holding.is_held) {
        return false;
    }
    if (holding.worker != side->context.worker_index) {
        if (make_notice(device, 1, &notice)) {
            atomic_init(&notice->references, 1);
            post_word(side, notice, 0, holding.worker, on_doubted_elsewhere);
        }
        return true;
    }
    if (device->line.owner == NULL || device->line.owner == owner) {
        return false;
    }
    doubt_device(side, device);
    return true;
}

/* --- opening, closing -------------------------------------------------------- */

/*
 * The window that a device has, and keeps from session to session, is one of a transport: what
 * waited for one with a connection, or was asked while there was none, is not to leave as that many
 * datagrams at once.
 */
static void take_transport(struct origin_side *side, const struct device *device)
{
    struct address address = address_of(device);
    struct origin *origin = origin_find(&side->origins, &address, TRANSPORT_NONE);
    const struct scheme *scheme = config_scheme_by_number(
        side->context.config, transport_row(device->line.transport)->number);
    if (origin != NULL && scheme != NULL) {
        origin_take_scheme(side, origin, scheme);
        window_limit(&origin->window, window_most(side->context.config, scheme));
    }
}

struct device *device_open(struct origin_side *side, const struct config_device *row,
                           const struct device_line *line)
{
    const struct bytes name = {(const uint8_t *)row->name, strlen(row->name)};
    struct device *device = get_device(side, name);
    struct device_notice *notice;
    if (device == NULL || !make_notice(device, side->switchboard->workers - 1, &notice)) {
        return NULL;
    }
    if (device->line.owner != NULL) {
        const struct device_line older = device->line;
        drop_line(side, device, has_another);
        metric_add(&side->context.metrics.devices_replaced, 1);
        if (older.owner != line->owner) {
            older.calls->end(older.owner, has_another);
        }
    }
    device->line = *line;
    (void)identity_acquire(line->identity);
    device->lines = holder_claim(device->holder, side->context.worker_index, line->transport);
    tell_others(side, notice);
    device->since_ms = context_now_ms(&side->context);
    device->heard_ms = device->since_ms;
    device->pings = 0;
    await_keep_alive(side, device);
    metric_add(&side->context.metrics.devices_opened, 1);
    metric_set(&side->context.metrics.devices, ++side->devices.open_count);
    report_line(side, device, "");
    take_transport(side, device); /* before anything is sent */
    end_all_before(side, device);
    end_relays_before(side, device);
    resume(side, device);
    return device;
}

void device_close(struct origin_side *side, struct device *device)
{
    if (side->devices.is_over || device->line.owner == NULL) {
        return;
    }
    drop_line(side, device, "its session has ended");
    end_all_before(side, device);
    resume(side, device); /* what waits need not wait for longer, or waits for the next session */
    device_wait_on(side, device);
}

void device_hear(struct origin_side *side, struct device *device)
{
    struct address address = address_of(device);
    struct origin *origin = origin_find(&side->origins, &address, TRANSPORT_NONE);
    bool was_silent = device->pings >= DEVICE_PINGS_SILENT;
    device->heard_ms = context_now_ms(&side->context);
    device->pings = 0; /* the timer that is set finds out */
    if (origin != NULL && (was_silent || origin->silence.bytes > 0)) {
        origin_on_heard(side, origin);
    }
}

void device_add_waiting(struct origin_side *side, const struct address *address, uint32_t count)
{
    struct device *device = device_at(side, address);
    if (device != NULL) {
        device->waiting += count;
        atomic_fetch_add(&device->holder->waiting, count);
    }
}

bool device_is_asked(const struct device *device)
{
    for (struct list_node *node = device->out.first; node != NULL; node = node->next) {
        if (HASH_ENTRY(node, struct sending, on_device)->stage != SENDING_AT_REST) {
            return true;
        }
    }
    return false;
}

uint32_t device_count_observed(const struct device *device)
{
    uint32_t count = 0;
    for (struct list_node *node = device->out.first; node != NULL; node = node->next) {
        const struct sending *sending = HASH_ENTRY(node, struct sending, on_device);
        count += sending->is_kept && sending->stage == SENDING_AT_REST;
    }
    return count;
}

/* --- reloads --------------------------------------------------------------- */

/* Whether the section that the device has its name from is there, and its session is still its. */
static bool device_is_configured(const struct config *config, const struct device *device,
                                 bool *ret_has_line)
{
    const struct bytes name = {(const uint8_t *)device->name, strlen(device->name)};
    const struct config_device *row = config_device_find(config, name);
    *ret_has_line =
        row != NULL && config_device_is(config, row, device->line.identity, &device->line.remote);
    return row != NULL;
}

/* There is no such device any more. */
static void end_all_relays(struct origin_side *side, struct device *device)
{
    struct list_node *node;
    while ((node = device->relays.first) != NULL) {
        struct sending *sending = HASH_ENTRY(node, struct sending, on_device);
        relay_cancel(side, sending);
        sending_failed(side, sending, REASON_device_gone, NULL);
    }
}

void device_set_config(struct origin_side *side)
{
    struct device_table *table = &side->devices;
    uint64_t cursor = 0;
    struct hash_node *node;
    while (table->by_number.buckets != NULL &&
           (node = hash_map_walk(&table->by_number, &cursor)) != NULL) {
        struct device *device = HASH_ENTRY(node, struct device, by_number);
        bool has_line;
        bool is_there = device_is_configured(side->context.config, device, &has_line);
        if (device->line.owner != NULL && !has_line) {
            device_end(side, device, "its device is not in the configuration any more");
        } else if (device->line.owner != NULL) {
            await_keep_alive(side, device);
        }
        if (!is_there) {
            end_all_relays(side, device);
            free_device(device);
            cursor = 0;
        }
    }
    relay_set_config(side);
}
