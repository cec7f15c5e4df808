/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/redis_link.h"

#include "base/escape.h"
#include "base/log.h"
#include "net/loop.h"
#include "net/loop_internal.h"
#include "net/redis_tls.h"
#include "net/resolve.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define STALL_MS 3000u   /* without a reply that is due */
#define RESOLVE_MS 5000u /* for the server's name */

#define READ_BYTES 16384u /* at once */

#define EXPECTED_MAX 8192u             /* replies */
#define EXPECTED_SPARE 16u             /* of these, for what has to be sent */
#define OUTPUT_MAX ((size_t)4 << 20)   /* bytes that the server has not taken yet */
#define REPLY_EXTRA ((size_t)64 << 10) /* of a reply, besides a value */

/* ---- the end of a connection ---- */

/* An outage is told of once, and its end too. */
static void log_outage(struct redis_link *link, const char *why)
{
    char shown[256];

    if (!link->has_complained) {
        link->has_complained = true;
        escape_value(shown, sizeof shown, why, strlen(why));
        log_event(LOG_WARNING, "shared_cache_down", "connection=%s error=%s", link->calls->name,
                  shown);
    }
}

static void forget_reply(struct redis_reply *reply)
{
    for (unsigned i = 0; i < reply->count; i++) {
        free(reply->long_strings[i]);
    }
    reply->count = 0;
    reply->strings_len = 0;
}

static void disconnect(struct redis_link *link)
{
    resolver_withdraw(link->question);
    link->question = NULL;
    if (link->readable != NULL) {
        event_free(link->readable);
    }
    if (link->bev != NULL) {
        bufferevent_free(link->bev);
    }
    if (link->reader != NULL) {
        redisReaderFree(link->reader);
    }
    if (!link->reply.is_taken) {
        forget_reply(&link->reply);
    }
    link->readable = NULL;
    link->bev = NULL;
    link->reader = NULL;
    link->out_len = 0;
    link->is_ready = false;
    link->expected_count = link->changes = 0;
    link->partial_bytes = 0;
    link->serial++;
}

void redis_link_clear(struct redis_link *link)
{
    disconnect(link);
    free(link->expected);
    link->expected = NULL;
}

/* Whether or not there was a connection. */
static void end_link(struct redis_link *link, const char *why)
{
    unsigned changes = link->changes;

    log_outage(link, why);
    disconnect(link);
    link->next_try_ms = loop_now_ms(link->loop) + link->back_off_ms;
    link->back_off_ms = link->back_off_ms * 2 < REDIS_BACK_OFF_MAX_MS ? link->back_off_ms * 2
                                                                      : REDIS_BACK_OFF_MAX_MS;
    link->changes = changes;
    link->calls->on_failed(link);
    link->changes = 0;
}

void redis_link_fail(struct redis_link *link, const char *why)
{
    if (link->bev != NULL || link->question != NULL) {
        end_link(link, why);
    }
}

/* ---- commands ---- */

void redis_word(struct redis_words *words, const void *at, size_t len)
{
    words->at[words->count] = at;
    words->len[words->count++] = len;
}

void redis_text(struct redis_words *words, const char *text)
{
    redis_word(words, text, strlen(text));
}

bool redis_link_is_full(const struct redis_link *link)
{
    return link->expected_count > EXPECTED_MAX - EXPECTED_SPARE ||
           evbuffer_get_length(bufferevent_get_output(link->bev)) + link->out_len > OUTPUT_MAX;
}

void redis_link_expect(struct redis_link *link, redis_reply_fn on_reply, uint32_t tag)
{
    unsigned at = (link->expected_first + link->expected_count++) % EXPECTED_MAX;
    link->expected[at] = (struct redis_expected){on_reply, tag};
}

/* Whether @p count more replies can be expected; where not the connection has ended. */
static bool can_expect(struct redis_link *link, unsigned count)
{
    if (link->bev == NULL) {
        return false;
    }
    if (link->expected_count + count >= EXPECTED_MAX) {
        redis_link_fail(link, "too many commands without a reply");
        return false;
    }
    return true;
}

/* @p len bytes of link->out are gone: the rest is libevent's. */
static bool hand_over_output(struct redis_link *link, size_t len)
{
    bool is_good = link->out_len == len ||
                   bufferevent_write(link->bev, link->out + len, link->out_len - len) == 0;

    link->out_len = 0;
    return is_good;
}

/* libevent would wait for a turn of its own, and ask the kernel twice, before it writes. */
void redis_link_flush(struct redis_link *link)
{
    ssize_t sent = 0;

    if (link->out_len == 0) {
        return;
    }
    if (evbuffer_get_length(bufferevent_get_output(link->bev)) == 0) {
        sent = send(bufferevent_getfd(link->bev), link->out, link->out_len,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    /* What is wrong with the connection libevent finds, too. */
    if (!hand_over_output(link, sent > 0 ? (size_t)sent : 0)) {
        redis_link_fail(link, "out of memory");
    }
}

static bool add_output(struct redis_link *link, const void *text, size_t len)
{
    if (link->is_ready && link->tls == NULL && len <= sizeof link->out - link->out_len) {
        memcpy(link->out + link->out_len, text, len);
        link->out_len += len;
        return true;
    }
    return hand_over_output(link, 0) && bufferevent_write(link->bev, text, len) == 0;
}

static bool write_commands(struct redis_link *link, const void *text, size_t len)
{
    if (len == 0 || !add_output(link, text, len)) {
        redis_link_fail(link, "out of memory");
        return false;
    }
    if (link->expected_count == 0) {
        link->waiting_since_ms = loop_now_ms(link->loop);
    }
    return true;
}

bool redis_link_send(struct redis_link *link, redis_reply_fn on_reply, uint32_t tag,
                     struct redis_words *words)
{
    char *text = NULL;

    if (!can_expect(link, 1)) {
        return false;
    }
    long long len = redisFormatCommandArgv(&text, words->count, words->at, words->len);
    bool is_good = write_commands(link, text, len > 0 ? (size_t)len : 0);
    if (len > 0) {
        redisFreeCommand(text);
    }
    if (is_good) {
        redis_link_expect(link, on_reply, tag);
    }
    return is_good;
}

bool redis_link_send_text(struct redis_link *link, struct bytes text,
                          const redis_reply_fn *on_replies, unsigned count)
{
    if (!can_expect(link, count) || !write_commands(link, text.data, text.len)) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        redis_link_expect(link, on_replies[i], 0);
    }
    return true;
}

/* ---- replies ---- */

static void take_reply(struct redis_link *link, const redisReply *reply)
{
    if (link->expected_count == 0 && link->calls->on_message != NULL) {
        link->calls->on_message(link, reply);
    } else if (link->expected_count == 0) {
        redis_link_fail(link, "a reply that was not asked for");
    } else {
        const struct redis_expected next = link->expected[link->expected_first];
        link->expected_first = (link->expected_first + 1) % EXPECTED_MAX;
        link->expected_count--;
        link->waiting_since_ms = loop_now_ms(link->loop);
        link->tag = next.tag;
        next.on_reply(link, reply);
    }
}

/*
 * In place of hiredis's own objects, which are two allocations each: a reply is at most a short
 * array, and what is not one of four kinds ends the connection, so that a hostile server cannot
 * have much more memory than it sends bytes. They are the link's, so that hiredis frees none.
 */
static redisReply *create_reply(const redisReadTask *task)
{
    struct redis_link *link = task->privdata;
    struct redis_reply *reply = &link->reply;

    if (reply->count > REDIS_ELEMENTS_MAX) {
        return NULL;
    }
    redisReply *object = &reply->objects[reply->count];
    reply->long_strings[reply->count++] = NULL;
    *object = (redisReply){.type = task->type};
    if (task->parent != NULL) {
        redisReply *whole = task->parent->obj;
        whole->element[task->idx] = object;
    }
    return object;
}

static char *create_text(struct redis_reply *reply, size_t len)
{
    if (len < sizeof reply->strings - reply->strings_len) {
        char *at = reply->strings + reply->strings_len;
        reply->strings_len += len + 1;
        return at;
    }
    reply->long_strings[reply->count - 1] = malloc(len + 1);
    return reply->long_strings[reply->count - 1];
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    struct redis_link *link = task->privdata;
    redisReply *object = create_reply(task);

    if (object == NULL || (object->str = create_text(&link->reply, len)) == NULL) {
        return NULL;
    }
    memcpy(object->str, text, len);
    object->str[len] = '\0';
    object->len = len;
    return object;
}

static void *create_array(const redisReadTask *task, redis_count elements)
{
    struct redis_link *link = task->privdata;
    bool is_good = task->type == REDIS_REPLY_ARRAY && task->parent == NULL &&
                   elements <= (redis_count)REDIS_ELEMENTS_MAX;
    redisReply *object = is_good ? create_reply(task) : NULL;

    if (object != NULL) {
        object->elements = (size_t)elements;
        object->element = link->reply.elements;
    }
    return object;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    redisReply *object = create_reply(task);

    if (object != NULL) {
        object->type = REDIS_REPLY_INTEGER;
        object->integer = value;
    }
    return object;
}

static void *create_nil(const redisReadTask *task)
{
    redisReply *object = create_reply(task);

    if (object != NULL) {
        object->type = REDIS_REPLY_NIL; /* the task's is that of a string, or of an array */
    }
    return object;
}

static void free_nothing(void *object)
{
    (void)object;
}

#if HIREDIS_MAJOR >= 1
/* RESP3 is not spoken here. */
static void *refuse_double(const redisReadTask *task, double value, char *text, size_t len)
{
    (void)task;
    (void)value;
    (void)text;
    (void)len;
    return NULL;
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)task;
    (void)value;
    return NULL;
}
#endif

static void set_reply_functions(struct redis_link *link)
{
    link->functions = (redisReplyObjectFunctions)
    {
        .createString = create_string, .createArray = create_array, .createInteger = create_integer,
        .createNil = create_nil, .freeObject = free_nothing,
#if HIREDIS_MAJOR >= 1
        .createDouble = refuse_double, .createBool = refuse_bool,
#endif
    };
    link->reader->fn = &link->functions;
    link->reader->privdata = link;
}

/* The replies that are whole. @return false: the connection has ended */
static bool take_replies(struct redis_link *link)
{
    uint32_t serial = link->serial;

    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            redis_link_fail(link, link->reader->errstr);
            return false;
        }
        if (reply == NULL) {
            return true;
        }
        link->reply.is_taken = true;
        take_reply(link, reply);
        link->reply.is_taken = false;
        forget_reply(&link->reply);
        if (link->serial != serial) {
            return false;
        }
        link->partial_bytes = link->reader->len - link->reader->pos;
    }
}

/* @return false: the connection has ended */
static bool take_input(struct redis_link *link, const char *input, size_t len)
{
    link->partial_bytes += len;
    if (redisReaderFeed(link->reader, input, len) != REDIS_OK) {
        redis_link_fail(link, "out of memory");
        return false;
    }
    if (!take_replies(link)) {
        return false;
    }
    if (link->partial_bytes > link->options->value_bytes_max + REPLY_EXTRA) {
        redis_link_fail(link, "a reply is too long");
        return false;
    }
    return true;
}

static void on_link_read(struct bufferevent *bev, void *data)
{
    struct redis_link *link = data;
    struct evbuffer *input = bufferevent_get_input(bev);
    char chunk[READ_BYTES];
    int len;

    loop_turn_begin(link->loop);
    while ((len = evbuffer_remove(input, chunk, sizeof chunk)) > 0 &&
           take_input(link, chunk, (size_t)len)) {
    }
}

static void on_link_readable(evutil_socket_t fd, short what, void *data)
{
    struct redis_link *link = data;
    char chunk[READ_BYTES];

    (void)what;
    loop_turn_begin(link->loop);
    ssize_t len = recv(fd, chunk, sizeof chunk, MSG_DONTWAIT);
    if (len > 0) {
        (void)take_input(link, chunk, (size_t)len);
    } else if (len == 0) {
        redis_link_fail(link, "closed by the server");
    } else if (errno != EAGAIN && errno != EINTR) {
        redis_link_fail(link, strerror(errno));
    }
}

/* Once there is nothing more to connect: what libevent reads is copied twice, and it asks the
 * kernel before how much there is. */
static void read_directly(struct redis_link *link)
{
    if (link->tls != NULL || link->readable != NULL) {
        return;
    }
    link->readable = event_new(link->loop->base, bufferevent_getfd(link->bev), EV_READ | EV_PERSIST,
                               on_link_readable, link);
    if (link->readable != NULL && event_add(link->readable, NULL) == 0) {
        (void)bufferevent_disable(link->bev, EV_READ);
    } else if (link->readable != NULL) { /* it goes on as it is */
        event_free(link->readable);
        link->readable = NULL;
    }
}

void redis_link_is_up(struct redis_link *link)
{
    link->is_ready = true;
    read_directly(link);
    link->back_off_ms = REDIS_BACK_OFF_MIN_MS;
    if (link->has_complained) {
        link->has_complained = false;
        log_event(LOG_INFO, "shared_cache_up", "connection=%s", link->calls->name);
    }
}

/* ---- connecting ---- */

static void on_link_event(struct bufferevent *bev, short what, void *data)
{
    struct redis_link *link = data;
    int error = EVUTIL_SOCKET_ERROR(), one = 1;

    loop_turn_begin(link->loop);
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        (void)setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    } else if ((what & BEV_EVENT_ERROR) != 0) {
        const char *why = link->tls == NULL ? NULL : redis_tls_error(bev);
        redis_link_fail(link, why != NULL ? why : strerror(error));
    } else {
        redis_link_fail(link, "closed by the server");
    }
}

static bool start_connecting(struct redis_link *link, const struct address *address)
{
    const struct shared_store_options *options = link->options;
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    union sockaddr_any name;

    if (options->path == NULL) {
        socklen_t len = sockaddr_from_address(address, &name);
        return bufferevent_socket_connect(link->bev, &name.any, (int)len) == 0;
    }
    size_t len = strlen(options->path);
    if (len >= sizeof path.sun_path) {
        return false;
    }
    memcpy(path.sun_path, options->path, len + 1);
    return bufferevent_socket_connect(link->bev, (const struct sockaddr *)&path,
                                      (int)sizeof path) == 0;
}

static struct bufferevent *new_link_bev(struct redis_link *link)
{
    int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;

    return link->tls == NULL ? bufferevent_socket_new(link->loop->base, -1, options)
                             : redis_tls_bufferevent(link->tls, link->loop->base, options);
}

static void connect_link(struct redis_link *link, const struct address *address)
{
    link->bev = new_link_bev(link);
    link->reader = redisReaderCreate();
    if (link->bev == NULL || link->reader == NULL) {
        disconnect(link); /* again at the next tick */
        return;
    }
    set_reply_functions(link);
    bufferevent_setcb(link->bev, on_link_read, NULL, on_link_event, link);
    uint32_t serial = link->serial;
    if (!start_connecting(link, address) ||
        bufferevent_enable(link->bev, EV_READ | EV_WRITE) != 0) {
        redis_link_fail(link, errno != 0 ? strerror(errno) : "no connection");
    } else if (link->serial == serial) {
        link->calls->begin(link);
    }
}

static int compare_addresses(const void *a, const void *b)
{
    const struct address *one = a, *other = b;

    return one->family != other->family ? (int)one->family - (int)other->family
                                        : memcmp(one->ip, other->ip, sizeof one->ip);
}

/* DNS gives addresses in any order: sorted, so that both links reach the same server. */
static void on_server_resolved(void *context, const struct resolve_result *result)
{
    struct redis_link *link = context;
    struct address addresses[RESOLVE_ADDRESSES_MAX];
    size_t count = result->address_count;

    loop_turn_begin(link->loop);
    link->question = NULL; /* it is over */
    if (result->status != RESOLVE_OK || count == 0 || count > RESOLVE_ADDRESSES_MAX) {
        end_link(link, "the name of the server has no address");
        return;
    }
    memcpy(addresses, result->addresses, count * sizeof *addresses);
    qsort(addresses, count, sizeof *addresses, compare_addresses);
    struct address *address = &addresses[*link->turn % count];
    address->port = link->options->address.port;
    connect_link(link, address);
}

static void resolve_server(struct redis_link *link)
{
    const struct shared_store_options *options = link->options;
    const struct resolve_query query = {
        .name = options->host,
        .name_len = strlen(options->host),
        .servers = options->name_servers,
        .server_count = options->name_server_count,
        .timeout_ms = RESOLVE_MS,
        .may_ask_system = options->may_ask_system,
    };

    link->asked_ms = loop_now_ms(link->loop);
    if (resolver_ask(link->resolver, &query, on_server_resolved, link, &link->question) != 0) {
        link->question = NULL;
        link->next_try_ms = link->asked_ms + link->back_off_ms;
    }
}

void redis_link_connect(struct redis_link *link)
{
    if (link->options->host != NULL) {
        resolve_server(link);
    } else {
        connect_link(link, &link->options->address);
    }
}

void redis_link_tick(struct redis_link *link, uint64_t now_ms)
{
    if (link->question != NULL) {
        if (now_ms - link->asked_ms >= RESOLVE_MS) {
            redis_link_fail(link, "no answer to the question for the server's name");
        }
    } else if (link->bev == NULL) {
        if (now_ms >= link->next_try_ms) {
            redis_link_connect(link);
        }
    } else if (link->expected_count > 0 && now_ms - link->waiting_since_ms >= STALL_MS) {
        redis_link_fail(link, "no reply within three seconds");
    }
}

bool redis_link_init(struct redis_link *link)
{
    link->back_off_ms = REDIS_BACK_OFF_MIN_MS;
    link->expected = calloc(EXPECTED_MAX, sizeof *link->expected);
    return link->expected != NULL;
}
