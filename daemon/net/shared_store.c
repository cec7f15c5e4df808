/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two links: one for commands, one that is subscribed. The tick connects them again, sends the
 * beats, and ends the channel where none comes back.
 *
 *   commands: connecting -> AUTH, SELECT -> INFO (the server's run)
 *                        -> DEL of e where changes are owed -> ready
 *   channel:  connecting -> AUTH -> SUBSCRIBE -> ready
 */
#include "net/shared_store.h"

#include "net/loop.h"
#include "net/loop_internal.h"
#include "net/redis_link.h"
#include "net/redis_tls.h"
#include "net/shared_look.h"
#include "net/shared_seal.h"

#include <endian.h>
#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 250u
#define BEAT_MS 1000u    /* between beats, */
#define SILENCE_MS 3000u /* and after so long without one the channel is down */

/* What goes over the channel of a store's beats, behind its head: a kind, the id, a number. */
#define SIGN_BEAT 1u
#define SIGN_CONFIRMATION 2u
#define SIGN_LEN (1u + SHARED_ID_LEN + 8u)

#define LOOKS_MAX 1024u /* questions without an answer */
#define RUN_LEN 16u     /* of the 40 digits of a server's run */

#define SEEN_BITS (1u << 16)     /* for targets that have a generation: a bit for each name, */
#define SEEN_MAX (SEEN_BITS / 4) /* and with more targets than that all are forgotten */
#define SEEN_WORDS (SEEN_BITS / 64u)

/* A question that has no answer yet. */
struct look {
    uint64_t number;
    uint8_t entry[SHARED_NAME_LEN], target[SHARED_TARGET_LEN];
    bool makes; /* a generation, where there is none: SET goes before the rest */
};

struct shared_store {
    struct loop *loop;
    const struct shared_store_options *options;
    const struct shared_store_handler *handler;
    void *context;
    struct event *tick;
    struct resolver *resolver;
    struct redis_tls *tls; /* NULL: none */
    struct redis_link commands, channel;
    unsigned turn;                   /* which address of a name */
    char keys_begin[LOOK_BEGIN_MAX]; /* PREFIX:RUN: */
    size_t keys_begin_len;
    uint8_t id[SHARED_ID_LEN];
    char changes_name[LOOK_KEY_MAX], beat_name[LOOK_KEY_MAX];
    struct look_text look;        /* since the link is ready */
    struct look looks[LOOKS_MAX]; /* a ring */
    unsigned look_first, look_count;
    uint64_t seen[SEEN_WORDS];
    unsigned seen_count;
    uint64_t left_ms; /* of the value whose reply comes next */
    bool owes;        /* there were changes that could not be told, */
    bool is_paying;   /* and the server is being told that all targets count as changed */
    bool is_heard;    /* the channel is up */
    uint64_t heard_ms, beat_ms;
    uint64_t beats, beats_heard;         /* numbers of the last one that was sent, and heard */
    uint8_t random[64 * LOOK_FRESH_LEN]; /* for generations: those at the end have been used */
    size_t random_left;
};

static struct shared_store *store_of(const struct redis_link *link)
{
    return link->owner;
}

static void set_heard(struct shared_store *store, bool is_heard)
{
    if (store->is_heard != is_heard) {
        store->is_heard = is_heard;
        store->handler->on_channel(store->context, is_heard);
    }
}

/* ---- keys ---- */

/* Two digits for each byte, and the end of a text. */
static void put_key_hex(char *at, const uint8_t *bytes, unsigned len)
{
    *look_put_digits(at, bytes, len) = '\0';
}

/* PREFIX:RUN:KIND, and a name where there is one: the beginning is as long as LOOK_KEY_MAX allows.
 */
static void name_key(const struct shared_store *store, const char *kind, const uint8_t *name,
                     unsigned name_len, char ret_key[LOOK_KEY_MAX])
{
    char *at = ret_key;

    memcpy(at, store->keys_begin, store->keys_begin_len);
    at += store->keys_begin_len;
    memcpy(at, kind, strlen(kind) + 1);
    at += strlen(kind);
    if (name != NULL) {
        *at++ = ':';
        put_key_hex(at, name, name_len);
    }
}

/* ---- targets that have a generation ---- */

/*
 * For a target that this worker has not seen yet a generation is made with the first question, so
 * that a first miss takes one round trip; later ones do without. A bit may be that of two targets,
 * and another replica may have deleted what was seen: ask_again() is for that.
 */
static uint64_t *seen_word(struct shared_store *store, const uint8_t target[SHARED_TARGET_LEN],
                           uint64_t *ret_bit)
{
    unsigned number = (unsigned)target[0] << 8 | target[1];

    *ret_bit = (uint64_t)1 << number % 64;
    return &store->seen[number / 64];
}

static void forget_seen(struct shared_store *store)
{
    memset(store->seen, 0, sizeof store->seen);
    store->seen_count = 0;
}

static bool has_seen(struct shared_store *store, const uint8_t target[SHARED_TARGET_LEN])
{
    uint64_t bit;

    return (*seen_word(store, target, &bit) & bit) != 0;
}

static void mark_seen(struct shared_store *store, const uint8_t target[SHARED_TARGET_LEN],
                      bool has_generation)
{
    uint64_t bit, *word = seen_word(store, target, &bit);

    if (((*word & bit) != 0) == has_generation) {
        return;
    }
    if (has_generation && store->seen_count == SEEN_MAX) {
        forget_seen(store);
    }
    *word ^= bit;
    store->seen_count += has_generation ? 1u : UINT_MAX;
}

/* ---- set-up of the link for commands ---- */

/* To what may be refused without harm, by a server that is full for example. */
static void on_any(struct redis_link *link, const redisReply *reply)
{
    (void)link;
    (void)reply;
}

/* An error ends the link. */
static void on_needed(struct redis_link *link, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        redis_link_fail(link, reply->str);
    }
}

/* To what tells of a change: it has to be done. */
static void on_changed(struct redis_link *link, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER) {
        link->changes--;
    } else {
        redis_link_fail(link,
                        reply->type == REDIS_REPLY_ERROR ? reply->str : "a change was not taken");
    }
}

/* It has been passed on to those that are subscribed. */
static void on_passed_on(struct redis_link *link, const redisReply *reply)
{
    uint32_t serial = link->serial;

    on_changed(link, reply);
    if (link->serial == serial) {
        store_of(link)->handler->on_passed_on(store_of(link)->context, link->tag,
                                              reply->integer > 0 ? (uint64_t)reply->integer : 0);
    }
}

/* The generation of a target is gone: what was kept of it counts no more. */
static void on_generation_deleted(struct redis_link *link, const redisReply *reply)
{
    uint32_t serial = link->serial;

    on_changed(link, reply);
    if (link->serial == serial) {
        store_of(link)->handler->on_told(store_of(link)->context, link->tag);
    }
}

/* LOOK_FRESH_LEN bytes that were not used yet, until the next call. @return NULL: there are none */
static const uint8_t *take_random(struct shared_store *store)
{
    if (store->random_left == 0 && RAND_bytes(store->random, (int)sizeof store->random) == 1) {
        store->random_left = sizeof store->random;
    }
    if (store->random_left == 0) {
        return NULL;
    }
    store->random_left -= LOOK_FRESH_LEN;
    return store->random + store->random_left;
}

/* Of all targets: random bytes, unless there are some. */
static void make_generation_of_all(struct shared_store *store)
{
    const uint8_t *fresh = take_random(store);
    char key[LOOK_KEY_MAX];
    struct redis_words words = {.count = 0};

    if (fresh != NULL) {
        name_key(store, "e", NULL, 0, key);
        redis_text(&words, "SET");
        redis_text(&words, key);
        redis_word(&words, fresh, LOOK_FRESH_LEN);
        redis_text(&words, "NX");
        (void)redis_link_send(&store->commands, on_any, 0, &words);
    }
}

static void commands_ready(struct shared_store *store)
{
    if (!look_prepare(&store->look, store->keys_begin, store->keys_begin_len)) {
        redis_link_fail(&store->commands, "out of memory");
        return;
    }
    redis_link_is_up(&store->commands);
    store->beat_ms = 0;
    make_generation_of_all(store);
}

/* All that was kept counts no more. */
static void on_all_deleted(struct redis_link *link, const redisReply *reply)
{
    struct shared_store *store = store_of(link);
    struct redis_words words = {.count = 0};

    if (reply->type != REDIS_REPLY_INTEGER) {
        redis_link_fail(link, reply->type == REDIS_REPLY_ERROR ? reply->str : "no answer to DEL");
        return;
    }
    store->owes = store->is_paying = false;
    store->handler->on_all_told(store->context);
    redis_text(&words, "PUBLISH");
    redis_text(&words, store->changes_name);
    redis_word(&words, store->options->all_changed.data, store->options->all_changed.len);
    link->changes++;
    if (redis_link_send(link, on_changed, 0, &words)) {
        commands_ready(store);
    }
}

/* @return false: there is none in it */
static bool read_run(struct shared_store *store, const redisReply *reply)
{
    static const char field[] = "\nrun_id:";
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, field) : NULL;

    if (at == NULL || strspn(at + sizeof field - 1, "0123456789abcdef") < RUN_LEN) {
        return false;
    }
    int len = snprintf(store->keys_begin, LOOK_BEGIN_MAX, "%s:%.*s:", store->options->prefix,
                       (int)RUN_LEN, at + sizeof field - 1);
    store->keys_begin_len = (size_t)len;
    return len > 0 && (size_t)len < LOOK_BEGIN_MAX;
}

static void on_server_info(struct redis_link *link, const redisReply *reply)
{
    struct shared_store *store = store_of(link);
    char key[LOOK_KEY_MAX];
    struct redis_words words = {.count = 0};

    if (!read_run(store, reply)) {
        redis_link_fail(link, reply->type == REDIS_REPLY_ERROR ? reply->str : "no run_id in INFO");
        return;
    }
    if (!store->owes) {
        commands_ready(store);
        return;
    }
    name_key(store, "e", NULL, 0, key);
    redis_text(&words, "DEL");
    redis_text(&words, key);
    store->is_paying = redis_link_send(link, on_all_deleted, 0, &words);
}

static bool send_auth(struct redis_link *link)
{
    const struct shared_store_options *options = store_of(link)->options;
    struct redis_words words = {.count = 0};

    if (options->password == NULL) {
        return true;
    }
    redis_text(&words, "AUTH");
    if (options->user != NULL) {
        redis_text(&words, options->user);
    }
    redis_text(&words, options->password);
    return redis_link_send(link, on_needed, 0, &words);
}

static void commands_begin(struct redis_link *link)
{
    char number[16];
    struct redis_words select = {.count = 0}, info = {.count = 0};

    (void)snprintf(number, sizeof number, "%u", store_of(link)->options->database);
    redis_text(&select, "SELECT");
    redis_text(&select, number);
    redis_text(&info, "INFO");
    redis_text(&info, "server");
    if (send_auth(link) &&
        (store_of(link)->options->database == 0 || redis_link_send(link, on_needed, 0, &select))) {
        (void)redis_link_send(link, on_server_info, 0, &info);
    }
}

/* ---- the channel ---- */

static bool string_is(const redisReply *reply, const char *text)
{
    return reply->type == REDIS_REPLY_STRING && strcmp(reply->str, text) == 0;
}

/* Of another one's, or without the secret, it is refused; a beat of before says nothing. */
static void take_sign(struct shared_store *store, struct bytes sealed)
{
    struct bytes body;
    uint64_t number;

    if (!shared_unseal(store->options->keys, SHARED_SIGN, (struct bytes){0}, sealed,
                       (struct shared_room){0}, &body) ||
        body.len != SIGN_LEN || memcmp(body.data + 1, store->id, SHARED_ID_LEN) != 0) {
        store->handler->on_refused(store->context);
        return;
    }
    memcpy(&number, body.data + 1 + SHARED_ID_LEN, sizeof number);
    number = be64toh(number);
    if (body.data[0] == SIGN_CONFIRMATION) {
        store->handler->on_confirmed(store->context, number);
    } else if (body.data[0] == SIGN_BEAT && number > store->beats_heard && number <= store->beats) {
        store->beats_heard = number;
        store->heard_ms = loop_now_ms(store->loop);
        set_heard(store, store->commands.is_ready);
    }
}

static void channel_take(struct shared_store *store, const redisReply *name,
                         const redisReply *message)
{
    if (message->type != REDIS_REPLY_STRING) {
        redis_link_fail(&store->channel, "a message that is none");
    } else if (string_is(name, store->beat_name)) {
        take_sign(store, (struct bytes){(const uint8_t *)message->str, message->len});
    } else if (string_is(name, store->changes_name)) {
        store->handler->on_change(store->context,
                                  (struct bytes){(const uint8_t *)message->str, message->len});
    }
}

static void channel_message(struct redis_link *link, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        !string_is(reply->element[0], "message")) {
        redis_link_fail(link, "no message on the channel");
    } else {
        channel_take(store_of(link), reply->element[1], reply->element[2]);
    }
}

static void on_subscribed(struct redis_link *link, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        !string_is(reply->element[0], "subscribe")) {
        redis_link_fail(link, reply->type == REDIS_REPLY_ERROR ? reply->str : "not subscribed");
    } else if (link->expected_count == 0) {
        redis_link_is_up(link);
        store_of(link)->beat_ms = 0; /* it is up when one has come */
    }
}

static void channel_begin(struct redis_link *link)
{
    struct redis_words words = {.count = 0};

    redis_text(&words, "SUBSCRIBE");
    redis_text(&words, store_of(link)->beat_name);
    redis_text(&words, store_of(link)->changes_name);
    /* One reply for each channel, and nothing comes between them: they are one command. */
    if (send_auth(link) && redis_link_send(link, on_subscribed, 0, &words)) {
        redis_link_expect(link, on_subscribed, 0);
    }
}

/* ---- the two links ---- */

static void on_commands_failed(struct redis_link *link)
{
    struct shared_store *store = store_of(link);

    store->turn++; /* the next address, for both links: they have to reach one server */
    /* What was sent last may not have been done: of changes that is assumed. */
    store->owes = store->owes || link->changes > 0 || store->is_paying;
    store->is_paying = false;
    store->look_count = 0; /* their owners wait for a time only */
    forget_seen(store);
    set_heard(store, false);
}

static void on_channel_failed(struct redis_link *link)
{
    set_heard(store_of(link), false);
}

static const struct redis_link_calls commands_calls = {
    .name = "commands", .begin = commands_begin, .on_failed = on_commands_failed};
static const struct redis_link_calls channel_calls = {.name = "channel",
                                                      .begin = channel_begin,
                                                      .on_message = channel_message,
                                                      .on_failed = on_channel_failed};

/* @return false without memory */
static bool prepare_link(struct shared_store *store, struct redis_link *link,
                         const struct redis_link_calls *calls)
{
    link->loop = store->loop;
    link->resolver = store->resolver;
    link->tls = store->tls;
    link->turn = &store->turn;
    link->options = store->options;
    link->calls = calls;
    link->owner = store;
    return redis_link_init(link);
}

/* ---- beats and confirmations ---- */

static void name_beats(const struct shared_store *store, const uint8_t id[SHARED_ID_LEN],
                       char ret_name[LOOK_KEY_MAX])
{
    int len = snprintf(ret_name, LOOK_KEY_MAX, "%s:beat:", store->options->prefix);

    if (len > 0) {
        put_key_hex(ret_name + len, id, SHARED_ID_LEN);
    }
}

/* To the store with @p id. */
static void publish_sign(struct shared_store *store, uint8_t kind, const uint8_t id[SHARED_ID_LEN],
                         uint64_t number, redis_reply_fn on_reply)
{
    const struct shared_keys *keys = store->options->keys;
    char name[LOOK_KEY_MAX];
    uint8_t text[SHARED_HEAD_MAX + SIGN_LEN];
    size_t head = shared_head_len(keys, SHARED_SIGN);
    uint64_t sent = htobe64(number);
    struct redis_words words = {.count = 0};

    text[head] = kind;
    memcpy(text + head + 1, id, SHARED_ID_LEN);
    memcpy(text + head + 1 + SHARED_ID_LEN, &sent, sizeof sent);
    if (!shared_seal(keys, SHARED_SIGN, (struct bytes){0}, text, head + SIGN_LEN)) {
        return; /* without memory: as one that is lost */
    }
    name_beats(store, id, name);
    redis_text(&words, "PUBLISH");
    redis_text(&words, name);
    redis_word(&words, text, head + SIGN_LEN);
    (void)redis_link_send(&store->commands, on_reply, 0, &words);
}

/* ---- the tick ---- */

static void send_beat(struct shared_store *store, uint64_t now_ms)
{
    store->beat_ms = now_ms;
    publish_sign(store, SIGN_BEAT, store->id, ++store->beats, on_needed);
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
    struct shared_store *store = data;

    (void)fd;
    (void)what;
    loop_turn_begin(store->loop);
    uint64_t now_ms = loop_now_ms(store->loop);
    redis_link_tick(&store->commands, now_ms);
    redis_link_tick(&store->channel, now_ms);
    if (store->is_heard && now_ms - store->heard_ms >= SILENCE_MS) {
        redis_link_fail(&store->channel, "nothing heard for three seconds");
        set_heard(store, false);
    }
    if (store->commands.is_ready && store->channel.is_ready &&
        (store->beat_ms == 0 || now_ms - store->beat_ms >= BEAT_MS)) {
        send_beat(store, now_ms);
    }
}

/* ---- the store ---- */

/* @return false without random bytes */
static bool name_channels(struct shared_store *store)
{
    if (RAND_bytes(store->id, (int)sizeof store->id) != 1) {
        return false;
    }
    (void)snprintf(store->changes_name, sizeof store->changes_name, "%s:changes",
                   store->options->prefix);
    name_beats(store, store->id, store->beat_name);
    return true;
}

/* @return 0 or -errno */
static int start_tls(struct shared_store *store)
{
    const struct shared_store_options *options = store->options;
    const struct redis_tls_options files = {options->server_name, options->ca_file,
                                            options->certificate_file, options->key_file};

    return options->has_tls ? redis_tls_new(&files, &store->tls) : 0;
}

int shared_store_new(struct loop *loop, struct resolver *resolver,
                     const struct shared_store_options *options,
                     const struct shared_store_handler *handler, void *context,
                     struct shared_store **ret_store)
{
    static const struct timeval period = {.tv_usec = TICK_MS * 1000};
    struct shared_store *store = calloc(1, sizeof *store);

    if (store == NULL) {
        return -ENOMEM;
    }
    store->loop = loop;
    store->resolver = resolver;
    store->options = options;
    store->handler = handler;
    store->context = context;
    int error = start_tls(store);
    if (error != 0) {
        shared_store_free(store);
        return error;
    }
    store->tick = event_new(loop->base, -1, EV_PERSIST, on_tick, store);
    if (store->tick == NULL || !prepare_link(store, &store->commands, &commands_calls) ||
        !prepare_link(store, &store->channel, &channel_calls) || !name_channels(store) ||
        event_add(store->tick, &period) != 0) {
        shared_store_free(store);
        return -ENOMEM;
    }
    redis_link_connect(&store->commands);
    redis_link_connect(&store->channel);
    *ret_store = store;
    return 0;
}

void shared_store_free(struct shared_store *store)
{
    if (store == NULL) {
        return;
    }
    redis_link_clear(&store->commands);
    redis_link_clear(&store->channel);
    redis_tls_free(store->tls);
    if (store->tick != NULL) {
        event_free(store->tick);
    }
    free(store);
}

void shared_store_flush(struct shared_store *store)
{
    redis_link_flush(&store->commands);
}

bool shared_store_is_ready(const struct shared_store *store)
{
    return store->commands.is_ready;
}

bool shared_store_hears(const struct shared_store *store)
{
    return store->is_heard;
}

/* ---- questions ---- */

/* For how long the server keeps a value: asked for before the value itself. */
static void on_left(struct redis_link *link, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER) {
        store_of(link)->left_ms = reply->integer > 0 ? (uint64_t)reply->integer : 0;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        store_of(link)->left_ms = 0;
    } else {
        redis_link_fail(link, "no number for PTTL");
    }
}

/*
 * The value, and the generations of its target and of all, at one moment.
 * @return false: it is something else
 */
static bool read_found(const redisReply *reply, struct shared_found *ret_found,
                       uint8_t ret_generation[SHARED_GENERATION_LEN], bool *ret_lacks_all)
{
    bool is_known = true;

    *ret_found = (struct shared_found){0};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3) {
        return false;
    }
    redisReply *const *at = reply->element;
    for (unsigned i = 0; i < 3; i++) {
        if (at[i]->type != REDIS_REPLY_STRING && at[i]->type != REDIS_REPLY_NIL) {
            return false;
        }
        is_known =
            is_known &&
            (i == 0 || (at[i]->type == REDIS_REPLY_STRING && (size_t)at[i]->len == LOOK_FRESH_LEN));
    }
    *ret_lacks_all = at[2]->type == REDIS_REPLY_NIL;
    if (is_known) {
        memcpy(ret_generation, at[1]->str, LOOK_FRESH_LEN);
        memcpy(ret_generation + LOOK_FRESH_LEN, at[2]->str, LOOK_FRESH_LEN);
        ret_found->generation = (struct bytes){ret_generation, SHARED_GENERATION_LEN};
    }
    if (is_known && at[0]->type == REDIS_REPLY_STRING) {
        ret_found->value = (struct bytes){(const uint8_t *)at[0]->str, (size_t)at[0]->len};
    }
    return true;
}

static void on_entry_read(struct redis_link *link, const redisReply *reply);

/* @return false where it cannot be sent now */
static bool send_look(struct shared_store *store, const struct look *look)
{
    static const redis_reply_fn on_replies[] = {on_any, on_left, on_entry_read};
    const unsigned count = sizeof on_replies / sizeof *on_replies;
    struct redis_link *link = &store->commands;

    if (!link->is_ready || store->look_count == LOOKS_MAX || redis_link_is_full(link)) {
        return false;
    }
    const uint8_t *fresh = look->makes ? take_random(store) : NULL;
    if (look->makes && fresh == NULL) {
        return false;
    }
    unsigned first = look->makes ? 0 : 1;
    struct bytes text = look_write(&store->look, look->entry, look->target, fresh);
    if (!redis_link_send_text(link, text, on_replies + first, count - first)) {
        return false;
    }
    store->looks[(store->look_first + store->look_count++) % LOOKS_MAX] = *look;
    return true;
}

/*
 * Where a target that was seen has no generation any more it is made, and asked for again: what
 * another replica has made meanwhile counts.
 * @return false where there is one, or it cannot be made
 */
static bool ask_again(struct shared_store *store, struct look *look,
                      const struct shared_found *found, bool lacks_all)
{
    if (lacks_all) {
        make_generation_of_all(store);
    }
    mark_seen(store, look->target, found->generation.len > 0);
    if (look->makes || found->generation.len > 0) {
        return false;
    }
    look->makes = true;
    return send_look(store, look);
}

static void on_entry_read(struct redis_link *link, const redisReply *reply)
{
    struct shared_store *store = store_of(link);
    uint8_t generation[SHARED_GENERATION_LEN];
    struct shared_found found = {0};
    bool is_error = reply->type == REDIS_REPLY_ERROR, lacks_all = false;

    if (!is_error && !read_found(reply, &found, generation, &lacks_all)) {
        redis_link_fail(link, "an answer that is none");
        return;
    }
    struct look look = store->looks[store->look_first];
    store->look_first = (store->look_first + 1) % LOOKS_MAX;
    store->look_count--;
    found.left_ms = store->left_ms;
    if (found.left_ms == 0) {
        found.value = (struct bytes){0};
    }
    if (!is_error && ask_again(store, &look, &found, lacks_all)) {
        return;
    }
    store->handler->on_found(store->context, look.number, is_error ? NULL : &found);
}

bool shared_store_look(struct shared_store *store, const uint8_t entry[SHARED_NAME_LEN],
                       const uint8_t target[SHARED_TARGET_LEN], uint64_t number)
{
    struct look look = {.number = number, .makes = !has_seen(store, target)};

    memcpy(look.entry, entry, SHARED_NAME_LEN);
    memcpy(look.target, target, SHARED_TARGET_LEN);
    return send_look(store, &look);
}

bool shared_store_put(struct shared_store *store, const uint8_t entry[SHARED_NAME_LEN],
                      struct bytes value, uint64_t ttl_ms)
{
    char key[LOOK_KEY_MAX], ttl[24];
    struct redis_words words = {.count = 0};

    if (!store->commands.is_ready || redis_link_is_full(&store->commands)) {
        return false;
    }
    name_key(store, LOOK_VALUE_KIND, entry, SHARED_NAME_LEN, key);
    (void)snprintf(ttl, sizeof ttl, "%llu", (unsigned long long)ttl_ms);
    redis_text(&words, "SET");
    redis_text(&words, key);
    redis_word(&words, value.data, value.len);
    redis_text(&words, "PX");
    redis_text(&words, ttl);
    return redis_link_send(&store->commands, on_any, 0, &words);
}

void shared_store_change(struct shared_store *store, const uint8_t target[SHARED_TARGET_LEN],
                         struct bytes told, uint32_t tag, uint64_t number)
{
    struct redis_link *link = &store->commands;
    char key[LOOK_KEY_MAX];
    struct redis_words del = {.count = 0}, publish = {.count = 0};

    if (target == NULL || !link->is_ready || redis_link_is_full(link)) {
        if (link->is_ready || store->is_paying) { /* what is on its way may come too early */
            redis_link_fail(link, "a change could not be told");
        }
        store->owes = true;
        return;
    }
    mark_seen(store, target, false);
    name_key(store, "g", target, SHARED_TARGET_LEN, key);
    redis_text(&del, "DEL"); /* which a server that is full does, too */
    redis_text(&del, key);
    redis_text(&publish, "PUBLISH");
    redis_text(&publish, store->changes_name);
    redis_word(&publish, told.data, told.len);
    link->changes += 2;
    if (redis_link_send(link, on_generation_deleted, tag, &del)) {
        (void)redis_link_send(link, number != 0 ? on_passed_on : on_changed, (uint32_t)number,
                              &publish);
    } else {
        store->owes = true;
    }
}

const uint8_t *shared_store_id(const struct shared_store *store)
{
    return store->id;
}

void shared_store_confirm(struct shared_store *store, const uint8_t id[SHARED_ID_LEN],
                          uint64_t number)
{
    if (store->commands.is_ready && !redis_link_is_full(&store->commands)) {
        publish_sign(store, SIGN_CONFIRMATION, id, number, on_any);
    }
}
