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

#define EXPECTED_MAX 8192u             /* replies */
#define EXPECTED_SPARE 16u             /* of these, for what has to be sent */
#define OUTPUT_MAX ((size_t)4 << 20)   /* bytes that the server has not taken yet */
#define REPLY_EXTRA ((size_t)64 << 10) /* of a reply, besides a value */
#define ELEMENTS_MAX 16u               /* of an array in a reply */

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

static void disconnect(struct redis_link *link)
{
    resolver_withdraw(link->question);
    link->question = NULL;
    if (link->bev != NULL) {
        bufferevent_free(link->bev);
    }
    if (link->reader != NULL) {
        redisReaderFree(link->reader);
    }
    link->bev = NULL;
    link->reader = NULL;
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

void redis_link_is_up(struct redis_link *link)
{
    link->is_ready = true;
    link->back_off_ms = REDIS_BACK_OFF_MIN_MS;
    if (link->has_complained) {
        link->has_complained = false;
        log_event(LOG_INFO, "shared_cache_up", "connection=%s", link->calls->name);
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
           evbuffer_get_length(bufferevent_get_output(link->bev)) > OUTPUT_MAX;
}

void redis_link_expect(struct redis_link *link, redis_reply_fn on_reply, uint32_t tag)
{
    unsigned at = (link->expected_first + link->expected_count++) % EXPECTED_MAX;
    link->expected[at] = (struct redis_expected){on_reply, tag};
}

bool redis_link_send(struct redis_link *link, redis_reply_fn on_reply, uint32_t tag,
                     struct redis_words *words)
{
    char *text = NULL;

    if (link->bev == NULL) {
        return false;
    }
    if (link->expected_count >= EXPECTED_MAX - 1) {
        redis_link_fail(link, "too many commands without a reply");
        return false;
    }
    long long len = redisFormatCommandArgv(&text, words->count, words->at, words->len);
    bool is_good = len > 0 && bufferevent_write(link->bev, text, (size_t)len) == 0;
    if (len > 0) {
        redisFreeCommand(text);
    }
    if (!is_good) {
        redis_link_fail(link, "out of memory");
        return false;
    }
    if (link->expected_count == 0) {
        link->waiting_since_ms = loop_now_ms(link->loop);
    }
    redis_link_expect(link, on_reply, tag);
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

/* In place of hiredis's own: a reply is at most an array of short arrays, so that a hostile server
 * cannot have much more memory than it sends bytes. */
static void *create_short_array(const redisReadTask *task, redis_count elements)
{
    const struct redis_link *link = task->privdata;
    bool is_deep = task->parent != NULL && task->parent->parent != NULL;

    return elements > (redis_count)ELEMENTS_MAX || is_deep ? NULL
                                                           : link->create_array(task, elements);
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
        take_reply(link, reply);
        freeReplyObject(reply);
        if (link->serial != serial) {
            return false;
        }
        link->partial_bytes = link->reader->len - link->reader->pos;
    }
}

static void on_link_read(struct bufferevent *bev, void *data)
{
    struct redis_link *link = data;
    struct evbuffer *input = bufferevent_get_input(bev);
    char chunk[16384];
    int len;

    loop_turn_begin(link->loop);
    while ((len = evbuffer_remove(input, chunk, sizeof chunk)) > 0) {
        link->partial_bytes += (size_t)len;
        if (redisReaderFeed(link->reader, chunk, (size_t)len) != REDIS_OK) {
            redis_link_fail(link, "out of memory");
            return;
        }
        if (!take_replies(link)) {
            return;
        }
        if (link->partial_bytes > link->options->value_bytes_max + REPLY_EXTRA) {
            redis_link_fail(link, "a reply is too long");
            return;
        }
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
    link->functions = *link->reader->fn;
    link->create_array = link->functions.createArray;
    link->functions.createArray = create_short_array;
    link->reader->fn = &link->functions;
    link->reader->privdata = link;
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
