/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/fake_shared.h"

#include "base/hash.h"
#include "net/loop.h"
#include "net/shared_seal.h"
#include "support/fake_net.h"
#include "support/fake_net_internal.h"
#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 32u
#define VALUE_MAX 2048u
#define WAITING_MAX 32u

struct fake_entry {
    uint8_t name[SHARED_NAME_LEN];
    uint8_t value[VALUE_MAX];
    size_t len;
    uint64_t until_ms;
};

struct fake_generation {
    uint8_t name[SHARED_TARGET_LEN];
    uint64_t number; /* 0: none */
};

struct fake_look {
    uint8_t entry[SHARED_NAME_LEN], target[SHARED_TARGET_LEN];
    uint64_t number;
    struct shared_store *store; /* that asks */
};

struct shared_store {
    struct loop *loop;
    uint8_t id[SHARED_ID_LEN];
    const struct shared_store_handler *handler;
    void *context;
};

#define STORES_MAX 4u

static struct {
    struct shared_store *store;              /* the first one, */
    struct shared_store *stores[STORES_MAX]; /* of all workers */
    size_t store_count;
    struct fake_shared_counts counts;
    bool is_not_ready, is_held, is_down;
    struct fake_entry entries[ENTRIES_MAX];
    size_t entry_count;
    struct fake_generation generations[ENTRIES_MAX];
    size_t generation_count;
    uint64_t last_number;
    struct fake_look looks[WAITING_MAX];
    size_t look_count;
    uint32_t waiting[WAITING_MAX]; /* tags of changes */
    size_t waiting_count;
    uint8_t told[512];
    size_t told_len;
    struct shared_store *teller; /* of the last change, */
    uint64_t told_number;        /* which has this number */
    unsigned receivers;
} fake;

/* ---- what is kept ---- */

static struct fake_entry *fake_entry_find(const uint8_t *name)
{
    for (size_t i = 0; i < fake.entry_count; i++) {
        if (memcmp(fake.entries[i].name, name, SHARED_NAME_LEN) == 0) {
            return &fake.entries[i];
        }
    }
    return NULL;
}

static struct fake_generation *generation_of(const uint8_t *name)
{
    size_t i = 0;
    while (i < fake.generation_count &&
           memcmp(fake.generations[i].name, name, SHARED_TARGET_LEN) != 0) {
        i++;
    }
    if (i == fake.generation_count) {
        assert_true(i < ENTRIES_MAX);
        memcpy(fake.generations[i].name, name, SHARED_TARGET_LEN);
        fake.generations[i].number = 0;
        fake.generation_count++;
    }
    return &fake.generations[i];
}

static void answer_look(const struct fake_look *look)
{
    uint8_t generation[SHARED_GENERATION_LEN] = {0};
    struct fake_generation *of_target = generation_of(look->target);
    const struct fake_entry *kept = fake_entry_find(look->entry);
    uint64_t now_ms = loop_now_ms(fake.store->loop);
    of_target->number = of_target->number != 0 ? of_target->number : ++fake.last_number;
    memcpy(generation, &of_target->number, sizeof(of_target->number));
    struct shared_found found = {.generation = {generation, sizeof(generation)}};
    if (kept != NULL && kept->until_ms > now_ms) {
        found.value = (struct bytes){kept->value, kept->len};
        found.left_ms = kept->until_ms - now_ms;
    }
    look->store->handler->on_found(look->store->context, look->number, &found);
}

/* What it said is acted on in a turn of the loop, now. */
static void wake_engine(void)
{
    for (size_t i = 0; i < fake.store_count; i++) {
        fake_loop_wake(fake.stores[i]->loop);
    }
    fake_net_run(0);
}

/* ---- what a test says ---- */

void fake_shared_reset(void)
{
    struct shared_store *stores[STORES_MAX];
    size_t count = fake.store_count;
    memcpy(stores, fake.stores, sizeof(stores));
    memset(&fake, 0, sizeof(fake));
    memcpy(fake.stores, stores, sizeof(stores));
    fake.store_count = count;
    fake.store = count > 0 ? stores[0] : NULL;
}

void fake_shared_set_ready(bool is_ready)
{
    fake.is_not_ready = !is_ready;
}

void fake_shared_answer(void)
{
    for (size_t i = 0; i < fake.look_count; i++) {
        answer_look(&fake.looks[i]);
    }
    fake.look_count = 0;
    wake_engine();
}

void fake_shared_refuse(void)
{
    for (size_t i = 0; i < fake.look_count; i++) {
        struct shared_store *store = fake.looks[i].store;
        store->handler->on_found(store->context, fake.looks[i].number, NULL);
    }
    fake.look_count = 0;
    wake_engine();
}

void fake_shared_hold_changes(bool is_held)
{
    fake.is_held = is_held;
}

void fake_shared_confirm(bool as_a_whole)
{
    for (size_t i = 0; i < fake.waiting_count && !as_a_whole; i++) {
        fake.store->handler->on_told(fake.store->context, fake.waiting[i]);
    }
    fake.waiting_count = 0;
    if (as_a_whole) {
        fake.store->handler->on_all_told(fake.store->context);
    }
    wake_engine();
}

void fake_shared_channel(bool is_up)
{
    fake.is_down = !is_up;
    for (size_t i = 0; i < fake.store_count; i++) {
        fake.stores[i]->handler->on_channel(fake.stores[i]->context, is_up);
    }
    wake_engine();
}

void fake_shared_echo(void)
{
    assert_true(fake.told_len > 18);
    fake.told[2] ^= 1; /* the name of the process begins there, and behind it the teller's */
    memset(fake.told + 18, 0xee, SHARED_ID_LEN);
    fake.store->handler->on_change(fake.store->context, (struct bytes){fake.told, fake.told_len});
    wake_engine();
}

void fake_shared_echo_version(uint8_t version)
{
    fake.told[1] = version;
    fake_shared_echo();
}

void fake_shared_receivers(unsigned count)
{
    fake.receivers = count;
}

void fake_shared_passed_on(void)
{
    fake.teller->handler->on_passed_on(fake.teller->context, (uint32_t)fake.told_number,
                                       fake.receivers);
    wake_engine();
}

void fake_shared_confirmed(void)
{
    fake.teller->handler->on_confirmed(fake.teller->context, fake.told_number);
    wake_engine();
}

void fake_shared_damage(uint32_t at)
{
    for (size_t i = 0; i < fake.entry_count; i++) {
        assert_true(at < fake.entries[i].len);
        fake.entries[i].value[at] ^= 0xff;
    }
}

struct fake_shared_counts fake_shared_counts(void)
{
    return fake.counts;
}

/* ---- net/shared_store.h ---- */

int shared_store_new(struct loop *loop, struct resolver *resolver,
                     const struct shared_store_options *options,
                     const struct shared_store_handler *handler, void *context,
                     struct shared_store **ret_store)
{
    struct shared_store *store = calloc(1, sizeof(*store));
    (void)resolver;
    (void)options;
    if (store == NULL) {
        return -ENOMEM;
    }
    assert_true(fake.store_count < STORES_MAX);
    *store = (struct shared_store){.loop = loop, .handler = handler, .context = context};
    memset(store->id, 0x11 * (int)(fake.store_count + 1), sizeof(store->id));
    fake.stores[fake.store_count++] = store;
    fake.store = fake.stores[0];
    *ret_store = store;
    return 0;
}

void shared_store_free(struct shared_store *store)
{
    for (size_t i = 0; i < fake.store_count; i++) {
        if (fake.stores[i] == store) {
            fake.stores[i] = fake.stores[--fake.store_count];
        }
    }
    fake.store = fake.store_count > 0 ? fake.stores[0] : NULL;
    free(store);
}

void shared_store_flush(struct shared_store *store)
{
    (void)store;
}

bool shared_store_is_ready(const struct shared_store *store)
{
    (void)store;
    return !fake.is_not_ready;
}

bool shared_store_hears(const struct shared_store *store)
{
    (void)store;
    return !fake.is_down;
}

bool shared_store_look(struct shared_store *store, const uint8_t entry[SHARED_NAME_LEN],
                       const uint8_t target[SHARED_TARGET_LEN], uint64_t number)
{
    assert_true(fake.look_count < WAITING_MAX);
    struct fake_look *look = &fake.looks[fake.look_count++];
    memcpy(look->entry, entry, SHARED_NAME_LEN);
    memcpy(look->target, target, SHARED_TARGET_LEN);
    look->number = number;
    look->store = store;
    fake.counts.looks++;
    return true;
}

bool shared_store_put(struct shared_store *store, const uint8_t entry[SHARED_NAME_LEN],
                      struct bytes value, uint64_t ttl_ms)
{
    struct fake_entry *kept = fake_entry_find(entry);
    if (kept == NULL) {
        assert_true(fake.entry_count < ENTRIES_MAX);
        kept = &fake.entries[fake.entry_count++];
    }
    assert_true(value.len <= VALUE_MAX);
    memcpy(kept->name, entry, SHARED_NAME_LEN);
    memcpy(kept->value, value.data, value.len);
    kept->len = value.len;
    kept->until_ms = loop_now_ms(store->loop) + ttl_ms;
    fake.counts.puts++;
    return true;
}

void shared_store_change(struct shared_store *store, const uint8_t target[SHARED_TARGET_LEN],
                         struct bytes told, uint32_t tag, uint64_t number)
{
    assert_true(target != NULL && told.len <= sizeof(fake.told));
    memcpy(fake.told, told.data, told.len);
    fake.told_len = told.len;
    generation_of(target)->number = 0;
    fake.counts.changes++;
    fake.teller = store;
    fake.told_number = number;
    if (fake.receivers == 0 && number != 0) {
        store->handler->on_passed_on(store->context, (uint32_t)number, 1);
        store->handler->on_confirmed(store->context, number);
    }
    if (!fake.is_held) {
        store->handler->on_told(store->context, tag);
        return;
    }
    assert_true(fake.waiting_count < WAITING_MAX);
    fake.waiting[fake.waiting_count++] = tag;
}

const uint8_t *shared_store_id(const struct shared_store *store)
{
    return store->id;
}

void shared_store_confirm(struct shared_store *store, const uint8_t id[SHARED_ID_LEN],
                          uint64_t number)
{
    (void)store;
    assert_true(number != 0 && id[0] == id[1]);
    fake.counts.confirms++;
}

/* ---- net/shared_seal.h: a version; names depend on the secret that was derived from last ---- */

static uint64_t hash_of_secret;

static const char kind_letters[SHARED_KEYS] = {
    [SHARED_ENTRY] = 'e', [SHARED_PRIVATE_ENTRY] = 'p', [SHARED_CHANGE] = 'c', [SHARED_SIGN] = 's'};

bool shared_keys_derive(struct bytes secret, struct shared_keys *keys)
{
    hash_of_secret = hash_bytes(secret.data, secret.len, 0);
    *keys = (struct shared_keys){.has_secret = false};
    return true;
}

void shared_keys_clear(struct shared_keys *keys)
{
    (void)keys;
}

bool shared_name(const struct shared_keys *keys, struct bytes key,
                 uint8_t ret_name[SHARED_NAME_LEN])
{
    (void)keys;
    for (unsigned i = 0; i < SHARED_NAME_LEN / 8; i++) {
        uint64_t part = hash_bytes(key.data, key.len, hash_of_secret + i);
        memcpy(ret_name + 8 * (size_t)i, &part, sizeof(part));
    }
    return true;
}

bool shared_target_name(const struct shared_keys *keys, struct bytes key,
                        uint8_t ret_name[SHARED_TARGET_LEN])
{
    uint8_t name[SHARED_NAME_LEN];
    bool is_good = shared_name(keys, key, name);
    memcpy(ret_name, name, SHARED_TARGET_LEN);
    return is_good;
}

size_t shared_head_len(const struct shared_keys *keys, enum shared_kind kind)
{
    (void)keys;
    (void)kind;
    return 1;
}

bool shared_seal(const struct shared_keys *keys, enum shared_kind kind, struct bytes key,
                 uint8_t *at, size_t len)
{
    (void)keys;
    (void)key;
    assert_true(len > 0);
    at[0] = (uint8_t)kind_letters[kind];
    return true;
}

bool shared_unseal(const struct shared_keys *keys, enum shared_kind kind, struct bytes key,
                   struct bytes sealed, struct shared_room room, struct bytes *ret_body)
{
    (void)keys;
    (void)key;
    (void)room;
    bool is_good = sealed.len > 0 && sealed.data[0] == (uint8_t)kind_letters[kind];
    *ret_body = is_good ? (struct bytes){sealed.data + 1, sealed.len - 1} : (struct bytes){0};
    return is_good;
}
