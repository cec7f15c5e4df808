/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/shared.h"

#include "cache/freshness.h"
#include "coap/option.h"
#include "fetch/admit.h"
#include "fetch/cached.h"
#include "fetch/changed.h"
#include "fetch/forward.h"
#include "fetch/side.h"
#include "net/entropy.h"
#include "net/loop.h"
#include "net/resolve.h"
#include "net/shared_seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BREAKER_LATE_MAX 5u /* answers in a row that did not come in time */
#define BREAKER_MIN_MS 500u
#define BREAKER_MAX_MS 10000u

/* Clocks of hosts may differ by so much. */
#define CLOCKS_APART_S 60u

/* Longest time that an answer is kept there; generations are kept for longer. */
#define LIFE_MAX_S 86400u

/*
 * Behind the head of net/shared_seal.h:
 * An entry:  generation, time of day when it is not fresh any more, seconds that it was fresh for
 *            when it was kept, address of the origin server, the answer as a CoAP message
 * A change:  a version, the process that tells it, its worker's store and the number that it waits
 *            for (0: it does not), the target; without a target: all targets. One of a version that
 *            is not known here, which a newer replica may tell, counts as a change of all targets;
 *            it is not confirmed.
 */
#define CHANGE_VERSION 1u
#define ORIGIN_BYTES 19u /* family, IP address, port */
#define ENTRY_FIXED (SHARED_GENERATION_LEN + 8u + 4u + ORIGIN_BYTES)
#define PROCESS_LEN 16u
#define CHANGE_FIXED (1u + PROCESS_LEN + SHARED_ID_LEN + 8u)

/* Room for what is said before the bytes of an answer: header, marker, options' heads. */
#define ENTRY_EXTRA (SHARED_HEAD_MAX + ENTRY_FIXED + CHANGE_FIXED + 64u)

struct shared {
    struct fetch_side *side;
    struct shared_store *store;
    struct shared_store_options options;
    char path[108], user[129], password[513], prefix[65]; /* copies: the snapshot may go */
    char host[RESOLVE_NAME_MAX + 1], server_name[RESOLVE_NAME_MAX + 1];
    struct shared_keys keys;
    uint8_t all_changed[SHARED_HEAD_MAX + CHANGE_FIXED];
    uint32_t untold[CHANGES_UNTOLD_SLOTS]; /* this worker's part of what siblings see */
    uint64_t untold_count;                 /* of all slots */
    uint8_t *buffer;                       /* for an entry, or what is told of a change */
    uint8_t *opened;                       /* of the same size, for what was encrypted */
    size_t buffer_bytes;
    size_t answer_bytes_max; /* of what is sent there: options and payload */
    unsigned late_in_row;
    uint32_t pause_ms; /* of the breaker */
    uint64_t paused_until_ms;
};

static bool derive_keys(struct shared *shared)
{
    const struct config *config = shared->side->context.config;
    return shared_keys_derive((struct bytes){config->cluster_secret, config->cluster_secret_len},
                              &shared->keys);
}

static bool name_of(const struct shared *shared, const uint8_t *bytes, size_t len,
                    uint8_t ret_name[SHARED_NAME_LEN])
{
    return shared_name(&shared->keys, (struct bytes){bytes, len}, ret_name);
}

static bool target_name_of(const struct shared *shared, const struct cache_key *key,
                           uint8_t ret_name[SHARED_TARGET_LEN])
{
    return shared_target_name(&shared->keys, (struct bytes){key->bytes, key->target_len}, ret_name);
}

/* ---- the breaker ---- */

static bool may_ask(const struct shared *shared)
{
    return shared_store_is_ready(shared->store) &&
           context_now_ms(&shared->side->context) >= shared->paused_until_ms;
}

static void note_late(struct shared *shared)
{
    metric_add(&shared->side->context.metrics.cache_shared_late, 1);
    if (++shared->late_in_row < BREAKER_LATE_MAX) {
        return;
    }
    /* One that is asked afterwards decides whether it is opened again, for longer. */
    shared->late_in_row = BREAKER_LATE_MAX - 1;
    shared->paused_until_ms = context_now_ms(&shared->side->context) + shared->pause_ms;
    shared->pause_ms =
        shared->pause_ms * 2 < BREAKER_MAX_MS ? shared->pause_ms * 2 : BREAKER_MAX_MS;
}

static void note_in_time(struct shared *shared)
{
    shared->late_in_row = 0;
    shared->pause_ms = BREAKER_MIN_MS;
}

/* ---- asking ---- */

/* Where the answer is looked for: without a block, so that there is one entry a body. */
static bool may_be_there(const struct fetch *fetch)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    return ticket->has_key && ticket->sharing != CACHE_SHARING_NONE && !ticket->is_alone &&
           !fetch->is_own && !fetch->is_group && !fetch->hop.is_device &&
           !fetch->hop.is_recording && ticket->key.len == ticket->key.base_len &&
           (ticket->answer == CACHE_ANSWER_MISS || ticket->answer == CACHE_ANSWER_STALE);
}

static void on_shared_late(void *context, struct timer *timer, uint64_t now_ms)
{
    struct fetch_side *side = context;
    (void)now_ms;
    note_late(side->shared);
    forward_start(side, HASH_ENTRY(timer, struct fetch, timer));
}

static uint64_t look_number(const struct fetch *fetch)
{
    uint64_t number;
    memcpy(&number, fetch->token, sizeof(number));
    return number;
}

bool shared_ask(struct fetch_side *side, struct fetch *fetch)
{
    struct shared *shared = side->shared;
    const struct cache_key *key = &fetch->ticket.key;
    uint8_t entry[SHARED_NAME_LEN], target[SHARED_TARGET_LEN];
    bool is_beginning = fetch->state == FETCH_prepared || fetch->state == FETCH_following;
    if (!is_beginning || !may_be_there(fetch)) {
        return false;
    }
    /* What this process has changed, and the server does not know yet, would be stale. */
    if (!may_ask(shared) || changes_are_untold(side->origin.changes, key->target_hash) ||
        !name_of(shared, key->bytes, key->len, entry) || !target_name_of(shared, key, target) ||
        !shared_store_look(shared->store, entry, target, look_number(fetch))) {
        metric_add(&side->context.metrics.cache_shared_skipped, 1);
        return false;
    }
    fetch_set_state(side, fetch, FETCH_sharing);
    timer_set(&side->context.wheel, &fetch->timer,
              context_now_ms(&side->context) + side->context.config->cache_shared_timeout,
              on_shared_late);
    return true;
}

/* ---- an answer from there ---- */

/* An entry, taken apart. */
struct shared_entry {
    struct bytes generation;
    uint64_t until_s; /* of the time of day */
    uint32_t life_s;  /* when it was kept */
    struct address origin;
    struct message message;
};

/* @return false where it is no address */
static bool read_entry_origin(const uint8_t at[ORIGIN_BYTES], struct address *ret_origin)
{
    *ret_origin = (struct address){.family = at[0], .port = (uint16_t)(at[17] << 8 | at[18])};
    memcpy(ret_origin->ip, at + 1, sizeof(ret_origin->ip));
    return at[0] == ADDRESS_NONE || at[0] == ADDRESS_IPV4 || at[0] == ADDRESS_IPV6;
}

static void write_entry_origin(const struct address *origin, uint8_t ret_at[ORIGIN_BYTES])
{
    memset(ret_at, 0, ORIGIN_BYTES);
    if (origin != NULL && origin->family != ADDRESS_NONE) {
        ret_at[0] = (uint8_t)origin->family;
        memcpy(ret_at + 1, origin->ip, sizeof(origin->ip));
        ret_at[17] = (uint8_t)(origin->port >> 8);
        ret_at[18] = (uint8_t)origin->port;
    }
}

static uint64_t read_entry_number(const uint8_t *at, unsigned len)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < len; i++) {
        number = number << 8 | at[i];
    }
    return number;
}

static void write_entry_number(uint64_t number, unsigned len, uint8_t *at)
{
    for (unsigned i = len; i-- > 0; number >>= 8) {
        at[i] = (uint8_t)number;
    }
}

static bool read_entry(struct bytes body, struct shared_entry *ret_entry)
{
    const uint8_t *at = body.data;
    if (body.len < ENTRY_FIXED) {
        return false;
    }
    ret_entry->generation = (struct bytes){at, SHARED_GENERATION_LEN};
    at += SHARED_GENERATION_LEN;
    ret_entry->until_s = read_entry_number(at, 8);
    ret_entry->life_s = (uint32_t)read_entry_number(at + 8, 4);
    at += 12;
    return read_entry_origin(at, &ret_entry->origin) &&
           message_decode(at + ORIGIN_BYTES, body.len - ENTRY_FIXED, &ret_entry->message) ==
               MESSAGE_OK &&
           ret_entry->message.token.len == 0 && message_is_response(&ret_entry->message);
}

/* For how long it is fresh; 0: not at all. */
static uint32_t life_left_s(const struct fetch_side *side, const struct shared_entry *entry,
                            uint64_t left_ms)
{
    uint64_t now_s = loop_wall_s(side->context.loop);
    uint64_t cap_s = side->context.config->cache_max_age / 1000;
    /* What the server says may be about an older entry, which was replaced meanwhile. */
    uint64_t left_s = left_ms / 1000 < entry->life_s ? left_ms / 1000 : entry->life_s;
    /* The server's clock counts, unless it would have us use what is over. */
    uint64_t most_s =
        entry->until_s + CLOCKS_APART_S > now_s ? entry->until_s + CLOCKS_APART_S - now_s : 0;
    left_s = left_s < most_s ? left_s : most_s;
    return (uint32_t)(left_s < cap_s ? left_s : cap_s);
}

/* What may be kept by any cache, and has no part that concerns one client. */
static bool is_plain_answer(const struct message *message)
{
    const struct answer_facts facts = freshness_facts(message->code, message->options, 0);
    return facts.use == ANSWER_STORABLE && !facts.is_partial && message->code != CODE(5, 8) &&
           !options_have(message->options, OPTION_max_age);
}

/* Gives it to all that wait, and ends the fetch. */
static void give_shared(struct fetch_side *side, struct fetch *fetch,
                        const struct shared_entry *entry, uint32_t left_s)
{
    const struct representation answer = {.code = entry->message.code,
                                          .options = entry->message.options,
                                          .payload = entry->message.payload,
                                          .max_age_s = left_s,
                                          .received_ms = context_now_ms(&side->context)};
    const struct cache_item item = {
        .key = &fetch->ticket.key,
        .representation = answer,
        .facts = freshness_facts(answer.code, answer.options, 0),
        .origin = &entry->origin,
        .changes = fetch->ticket.changes,
    };
    metric_add(&side->context.metrics.cache_shared_hits, 1);
    (void)cache_store_put(&side->cache, &item);
    fetch->ticket.answer = CACHE_ANSWER_SHARED;
    fetch->ticket.source = entry->origin;
    const struct reply reply = {
        .code = answer.code,
        .options = answer.options,
        .payload = answer.payload,
        .max_age_s = left_s == MAX_AGE_DEFAULT_S ? 0 : left_s,
        .is_aged = left_s != MAX_AGE_DEFAULT_S,
    };
    fetch_answer(side, fetch, REASON_cached, &reply);
}

static enum shared_kind entry_kind(const struct fetch *fetch)
{
    return fetch->ticket.sharing == CACHE_SHARING_SEALED ? SHARED_PRIVATE_ENTRY : SHARED_ENTRY;
}

static struct bytes key_bytes(const struct fetch *fetch)
{
    return (struct bytes){fetch->ticket.key.bytes, fetch->ticket.key.len};
}

static struct shared_room room_of(const struct shared *shared)
{
    return (struct shared_room){shared->opened, shared->buffer_bytes};
}

/* @return false: there is none that this client may have */
static bool take_entry_value(struct fetch_side *side, struct fetch *fetch,
                             const struct shared_found *found)
{
    struct shared *shared = side->shared;
    struct shared_entry entry;
    struct bytes body;
    if (!shared_unseal(&shared->keys, entry_kind(fetch), key_bytes(fetch), found->value,
                       room_of(shared), &body) ||
        !read_entry(body, &entry) || !is_plain_answer(&entry.message)) {
        metric_add(&side->context.metrics.cache_shared_refused, 1);
        return false;
    }
    uint32_t left_s = life_left_s(side, &entry, found->left_ms);
    bool is_valid = bytes_equal(entry.generation, found->generation) && left_s > 0 &&
                    !cached_has_changed(side, fetch);
    if (!is_valid || admit_answer(side, fetch->asker, &fetch->target, fetch->sending.datagram[1],
                                  &entry.origin) != REASON_none) {
        return false;
    }
    give_shared(side, fetch, &entry, left_s);
    return true;
}

static struct fetch *find_asking(struct fetch_side *side, uint64_t number)
{
    uint8_t token[sizeof(number)];
    memcpy(token, &number, sizeof(token));
    struct fetch *fetch = fetch_by_token(&side->fetches, (struct bytes){token, sizeof(token)});
    return fetch != NULL && fetch->state == FETCH_sharing ? fetch : NULL;
}

static void on_found(void *context, uint64_t number, const struct shared_found *found)
{
    struct fetch_side *side = context;
    struct fetch *fetch = find_asking(side, number);
    if (fetch == NULL) {
        return; /* too late, or its client has gone */
    }
    timer_cancel(&side->context.wheel, &fetch->timer);
    if (found == NULL) {
        note_late(side->shared);
        forward_start(side, fetch);
        return;
    }
    note_in_time(side->shared);
    if (found->generation.len == SHARED_GENERATION_LEN) {
        fetch->ticket.has_generation = true;
        memcpy(fetch->ticket.generation, found->generation.data, SHARED_GENERATION_LEN);
    }
    if (found->value.data == NULL || found->generation.len == 0 ||
        !take_entry_value(side, fetch, found)) {
        metric_add(&side->context.metrics.cache_shared_misses, 1);
        forward_start(side, fetch);
    }
}

/* ---- keeping ---- */

/* @return bytes of the entry, 0 where it does not fit */
static size_t write_entry(const struct shared *shared, const struct fetch *fetch,
                          const struct representation *answer, const struct address *from,
                          uint32_t life_s)
{
    uint8_t *at = shared->buffer + shared_head_len(&shared->keys, entry_kind(fetch));
    memcpy(at, fetch->ticket.generation, SHARED_GENERATION_LEN);
    at += SHARED_GENERATION_LEN;
    write_entry_number(loop_wall_s(shared->side->context.loop) + life_s, 8, at);
    write_entry_number(life_s, 4, at + 8);
    at += 12;
    write_entry_origin(from, at);
    at += ORIGIN_BYTES;
    size_t used = (size_t)(at - shared->buffer);
    struct message_writer writer;
    message_writer_init(&writer, at, shared->buffer_bytes - used, MESSAGE_NON, answer->code, 0,
                        (struct bytes){0});
    message_writer_all_options(&writer, answer->options);
    message_writer_payload(&writer, answer->payload);
    bool is_short = answer->options.len + answer->payload.len <= shared->answer_bytes_max;
    return writer.overflow || !is_short ? 0 : used + writer.len;
}

void shared_keep(struct fetch_side *side, const struct fetch *fetch,
                 const struct representation *answer, const struct address *from)
{
    struct shared *shared = side->shared;
    const struct cache_ticket *ticket = &fetch->ticket;
    uint8_t name[SHARED_NAME_LEN];
    if (ticket->sharing == CACHE_SHARING_NONE) {
        return;
    }
    uint32_t life_s = freshness_left_s(answer, context_now_ms(&side->context));
    uint32_t cap_s = side->context.config->cache_max_age / 1000;
    life_s = life_s < cap_s ? life_s : cap_s;
    life_s = life_s < LIFE_MAX_S ? life_s : LIFE_MAX_S;
    if (life_s == 0 || answer->code == CODE(5, 8) || freshness_is_partial(answer->options)) {
        return;
    }
    size_t len = write_entry(shared, fetch, answer, from, life_s);
    bool is_sent =
        len > 0 && name_of(shared, ticket->key.bytes, ticket->key.len, name) &&
        shared_seal(&shared->keys, entry_kind(fetch), key_bytes(fetch), shared->buffer, len) &&
        shared_store_put(shared->store, name, (struct bytes){shared->buffer, len},
                         (uint64_t)life_s * 1000);
    metric_add(is_sent ? &side->context.metrics.cache_shared_kept
                       : &side->context.metrics.cache_shared_unkept,
               1);
}

/* ---- changes ---- */

/* What is told of a change; @p target empty: of all targets. @return its length, 0: none */
static size_t write_change(const struct shared *shared, uint8_t *at, size_t capacity,
                           struct bytes target, uint64_t number)
{
    size_t head = shared_head_len(&shared->keys, SHARED_CHANGE),
           len = head + CHANGE_FIXED + target.len;
    if (len > capacity) {
        return 0;
    }
    uint8_t *process = at + head + 1;
    at[head] = CHANGE_VERSION;
    memcpy(process, process_token(), PROCESS_LEN);
    memset(process + PROCESS_LEN, 0, SHARED_ID_LEN);
    if (number != 0) {
        memcpy(process + PROCESS_LEN, shared_store_id(shared->store), SHARED_ID_LEN);
    }
    write_entry_number(number, 8, process + PROCESS_LEN + SHARED_ID_LEN);
    if (target.len > 0) {
        memcpy(at + head + CHANGE_FIXED, target.data, target.len);
    }
    return shared_seal(&shared->keys, SHARED_CHANGE, (struct bytes){0}, at, len) ? len : 0;
}

bool shared_is_ready(const struct fetch_side *side)
{
    return shared_store_is_ready(side->shared->store);
}

void shared_change(struct fetch_side *side, const struct cache_key *target, uint64_t number)
{
    struct shared *shared = side->shared;
    uint8_t name[SHARED_TARGET_LEN];
    if (shared == NULL) {
        return;
    }
    uint32_t slot = changes_untold_slot(target->target_hash);
    const struct bytes bytes = {target->bytes, target->target_len};
    size_t len = write_change(shared, shared->buffer, shared->buffer_bytes, bytes, number);
    bool has_name = len > 0 && target_name_of(shared, target, name);
    shared->untold[slot]++;
    shared->untold_count++;
    changes_add_untold(side->origin.changes, slot, 1);
    shared_store_change(shared->store, has_name ? name : NULL, (struct bytes){shared->buffer, len},
                        slot, number);
}

/* The server knows of @p count changes of the slot. */
static void take_told(struct fetch_side *side, uint32_t slot, uint32_t count)
{
    side->shared->untold[slot] -= count;
    side->shared->untold_count -= count;
    changes_add_untold(side->origin.changes, slot, 0u - count);
}

static void on_told(void *context, uint32_t tag)
{
    take_told(context, tag, 1);
}

static void on_all_told(void *context)
{
    struct fetch_side *side = context;
    for (uint32_t slot = 0; slot < CHANGES_UNTOLD_SLOTS; slot++) {
        if (side->shared->untold[slot] > 0) {
            take_told(side, slot, side->shared->untold[slot]);
        }
    }
}

static bool matches_all(void *context, const struct target *target, uint32_t scheme)
{
    (void)context;
    (void)target;
    (void)scheme;
    return true;
}

/* What was kept, or asked for, before now counts no more: changes may have been missed. */
static void drop_first_level(struct fetch_side *side)
{
    (void)cache_flush(&side->cache, matches_all, NULL);
    side->changes_floor = changes_pass(side->origin.changes);
}

static void take_change(struct fetch_side *side, struct bytes body)
{
    if (memcmp(body.data + 1, process_token(), PROCESS_LEN) == 0) {
        return; /* all workers of this process know */
    }
    metric_add(&side->context.metrics.cache_shared_changes, 1);
    if (body.len == CHANGE_FIXED) {
        drop_first_level(side);
        return;
    }
    const struct cache_key target = cache_key_of_bytes(
        body.data + CHANGE_FIXED, (uint32_t)(body.len - CHANGE_FIXED), side->origin.changes->seed);
    changes_note(side->origin.changes, target.target_hash);
    cache_store_invalidate(&side->cache, &target);
}

static void on_change_confirmed(void *context, uint64_t number)
{
    changed_confirmed(context, number);
}

static void on_sign_refused(void *context)
{
    struct fetch_side *side = context;
    metric_add(&side->context.metrics.cache_shared_unsigned, 1);
}

static void on_change_passed(void *context, uint32_t number, uint64_t receivers)
{
    changed_passed_on(context, number, receivers);
}

/* Confirmed when nothing from before is given here any more. */
static void on_change(void *context, struct bytes told)
{
    struct fetch_side *side = context;
    const struct shared *shared = side->shared;
    struct bytes body;
    bool is_open = shared_unseal(&shared->keys, SHARED_CHANGE, (struct bytes){0}, told,
                                 room_of(shared), &body) &&
                   body.len > 0;
    if (is_open && body.data[0] != CHANGE_VERSION) {
        drop_first_level(side); /* of something that it says in its way */
        is_open = false;
    }
    if (!is_open || body.len < CHANGE_FIXED || body.len > CHANGE_FIXED + CACHE_KEY_MAX) {
        metric_add(&side->context.metrics.cache_shared_refused, 1);
        return;
    }
    take_change(side, body);
    const uint8_t *teller = body.data + 1 + PROCESS_LEN;
    uint64_t number = read_entry_number(teller + SHARED_ID_LEN, 8);
    if (number != 0 && memcmp(teller, shared_store_id(shared->store), SHARED_ID_LEN) == 0) {
        changed_confirmed(side, number);
    } else if (number != 0) {
        shared_store_confirm(shared->store, teller, number);
    }
}

static void on_channel(void *context, bool is_up)
{
    struct fetch_side *side = context;
    if (is_up) {
        drop_first_level(side);
    }
    metric_set(&side->context.metrics.cache_shared_up, is_up);
}

uint64_t shared_owes(const struct fetch_side *side)
{
    return side->shared != NULL ? side->shared->untold_count : 0;
}

bool shared_hears(const struct fetch_side *side)
{
    return shared_store_hears(side->shared->store);
}

/* ---- beginning and end ---- */

/* A copy, NULL of a text that is empty. */
static const char *copy_option(const char *text, char *room, size_t capacity)
{
    (void)snprintf(room, capacity, "%s", text == NULL ? "" : text);
    return room[0] != '\0' ? room : NULL;
}

static void renew_all_changed(struct shared *shared)
{
    size_t len = write_change(shared, shared->all_changed, sizeof(shared->all_changed),
                              (struct bytes){0}, 0);
    shared->options.all_changed = (struct bytes){shared->all_changed, len};
}

/* What its certificate has to have: without the port, brackets and zone. */
static void name_server(struct shared *shared, const struct config_shared *server)
{
    char text[ADDRESS_TEXT_MAX];
    if (server->host != NULL) {
        (void)copy_option(server->host, shared->server_name, sizeof(shared->server_name));
        return;
    }
    const char *at = address_format(&server->address, text);
    const char *end = at[0] == '[' ? "%]" : ":";
    at += at[0] == '[';
    (void)snprintf(shared->server_name, sizeof(shared->server_name), "%.*s", (int)strcspn(at, end),
                   at);
}

/* The servers for names are the snapshot's. */
static void borrow_name_servers(struct shared *shared)
{
    const struct config *config = shared->side->context.config;
    shared->options.name_servers = config->resolve_servers.items;
    shared->options.name_server_count = config->resolve_servers.count;
    shared->options.may_ask_system = config->resolve_system == RESOLVE_SYSTEM_AUTO;
}

static const char *path_option(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static int open_store(struct fetch_side *side)
{
    static const struct shared_store_handler handler = {
        on_found,    on_change,        on_channel,          on_told,
        on_all_told, on_change_passed, on_change_confirmed, on_sign_refused};
    struct shared *shared = side->shared;
    const struct config *config = side->context.config;
    size_t entry_bytes = (size_t)config->cache_shared_entry_bytes;
    shared->side = side;
    shared->pause_ms = BREAKER_MIN_MS;
    shared->answer_bytes_max = entry_bytes;
    shared->buffer_bytes =
        (entry_bytes > CACHE_KEY_MAX ? entry_bytes : CACHE_KEY_MAX) + ENTRY_EXTRA;
    shared->buffer = malloc(shared->buffer_bytes);
    shared->opened = malloc(shared->buffer_bytes);
    if (shared->buffer == NULL || shared->opened == NULL || !derive_keys(shared)) {
        return -ENOMEM;
    }
    shared->options = (struct shared_store_options){
        .path = copy_option(config->shared.path, shared->path, sizeof(shared->path)),
        .address = config->shared.address,
        .host = copy_option(config->shared.host, shared->host, sizeof(shared->host)),
        .has_tls = config->shared.has_tls,
        .server_name = shared->server_name,
        .ca_file = path_option(config->cache_shared_ca),
        .certificate_file = path_option(config->cache_shared_certificate),
        .key_file = path_option(config->cache_shared_key),
        .database = config->shared.database,
        .user = copy_option(config->cache_shared_user, shared->user, sizeof(shared->user)),
        .password =
            copy_option(config->shared.password, shared->password, sizeof(shared->password)),
        .prefix = copy_option(config->cache_shared_prefix, shared->prefix, sizeof(shared->prefix)),
        .value_bytes_max = shared->buffer_bytes,
        .keys = &shared->keys,
    };
    name_server(shared, &config->shared);
    borrow_name_servers(shared);
    renew_all_changed(shared);
    return shared_store_new(side->context.loop, side->origin.resolver, &shared->options, &handler,
                            side, &shared->store);
}

int shared_open(struct fetch_side *side)
{
    if (side->context.config->cache_shared[0] == '\0' || !cache_store_is_on(&side->cache)) {
        return 0;
    }
    side->shared = calloc(1, sizeof(*side->shared));
    return side->shared == NULL || !changed_open(side) ? -ENOMEM : open_store(side);
}

void shared_close(struct fetch_side *side)
{
    struct shared *shared = side->shared;
    changed_close(side);
    if (shared != NULL) {
        shared_store_free(shared->store);
        on_all_told(side); /* siblings may go on */
        shared_keys_clear(&shared->keys);
        free(shared->buffer);
        if (shared->opened != NULL) {
            explicit_bzero(shared->opened, shared->buffer_bytes);
            free(shared->opened);
        }
        explicit_bzero(shared, sizeof(*shared));
        free(shared);
        side->shared = NULL;
    }
}

void shared_flush(struct fetch_side *side)
{
    shared_store_flush(side->shared->store);
}

void shared_set_config(struct fetch_side *side)
{
    if (side->shared != NULL) {
        (void)derive_keys(side->shared); /* without memory nothing there is understood */
        renew_all_changed(side->shared);
        borrow_name_servers(side->shared);
    }
}
