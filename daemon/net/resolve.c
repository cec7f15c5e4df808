/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works. Each question has a c-ares channel of its own, for three reasons:
 * c-ares cannot cancel one question of many, so that one without waiters would be
 * held until its last time-out; a channel's questions share a socket, and with it a source
 * port, which leaves 16 bits for an off-path attacker to guess (RFC 5452 section 4); and a
 * new channel reads resolv.conf, so that a change of it needs no restart. The names' cache
 * of origin/names keeps channels few.
 *
 *   resolver_ask() -> c-ares --------------------> on_answer -> on_result
 *                        |  no such name, and           ^ ^
 *                        |  nsswitch.conf has more      | |
 *                        +----> system_names -----------+ |
 *         ".local" -------------^                         |
 *         "localhost" ------------------------------------+
 *
 * c-ares says which sockets it wants watched (on_socket_state) and when it wants to be called
 * (ares_timeout()). Its callbacks only note: a channel is destroyed, and a result told, when
 * c-ares has returned.
 */
#include "net/resolve.h"

#include "net/loop_internal.h"
#include "net/shortage.h"
#include "net/sockaddr.h"
#include "net/system_names.h"

#include <ares.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* c-ares doubles the time of a try: 1 + 2 for each server. */
#define TRIES 2
#define TRY_SHARES 3u
#define TRY_MS_MIN 100u

/* A socket that c-ares wants watched. */
struct watched {
    struct watched *next;
    struct resolve_question *question;
    int fd;
    struct event *event;
};

struct resolve_question {
    struct resolve_question *next, *previous;
    struct resolver *resolver;
    resolve_fn on_result;
    void *context;
    uint64_t source;
    bool may_ask_system;
    ares_channel channel;           /* with c-ares; or NULL, */
    struct system_question *system; /* with the system; or NULL: has_result */
    struct watched *watched;
    struct event *timer;
    bool has_result, is_short, is_closing;
    struct resolve_result result;
    char name[RESOLVE_NAME_MAX + 1];
};

struct resolver {
    struct loop *loop;
    struct system_names *system;
    struct resolve_question *first;
};

/* ---- the end of a question ---- */

static void watched_free(struct watched *watched)
{
    if (watched->event != NULL) {
        event_free(watched->event);
    }
    free(watched);
}

/* c-ares calls back for the remaining queries, which check is_closing. */
static void channel_close(struct resolve_question *question)
{
    if (question->channel != NULL) {
        question->is_closing = true;
        ares_destroy(question->channel);
        question->channel = NULL;
        question->is_closing = false;
    }
    while (question->watched != NULL) { /* none, as c-ares says when it closes a socket */
        struct watched *watched = question->watched;
        question->watched = watched->next;
        watched_free(watched);
    }
}

static void resolve_question_free(struct resolve_question *question)
{
    channel_close(question);
    system_names_withdraw(question->system);
    if (question->timer != NULL) {
        event_free(question->timer);
    }
    free(question);
}

static void resolve_question_unlink(struct resolve_question *question)
{
    if (question->previous != NULL) {
        question->previous->next = question->next;
    } else {
        question->resolver->first = question->next;
    }
    if (question->next != NULL) {
        question->next->previous = question->previous;
    }
}

void resolver_withdraw(struct resolve_question *question)
{
    if (question != NULL) {
        resolve_question_unlink(question);
        resolve_question_free(question);
    }
}

static void tell_result(struct resolve_question *question)
{
    struct resolve_result result = question->result;
    resolve_fn on_result = question->on_result;
    void *context = question->context;

    resolver_withdraw(question);
    on_result(context, &result);
}

/* ---- results ---- */

static enum resolve_status status_of_ares(int status)
{
    switch (status) {
    case ARES_SUCCESS:
        return RESOLVE_OK;
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
    case ARES_ENONAME:
        return RESOLVE_NOT_FOUND;
    case ARES_ETIMEOUT:
        return RESOLVE_NO_ANSWER;
    case ARES_ENOMEM:
        return RESOLVE_SHORTAGE;
    default: /* "connection refused", where a socket cannot be had */
        return shortage_of_sockets() ? RESOLVE_SHORTAGE : RESOLVE_FAILED;
    }
}

static bool result_has(const struct resolve_result *result, const struct address *address)
{
    for (size_t i = 0; i < result->address_count; i++) {
        if (address_equal(&result->addresses[i], address)) {
            return true;
        }
    }
    return false;
}

static void add_ttl(struct resolve_result *result, int ttl_s)
{
    uint32_t seconds = ttl_s > 0 ? (uint32_t)ttl_s : 0;

    result->ttl_s = seconds < result->ttl_s ? seconds : result->ttl_s;
}

static void take_answer(struct resolve_result *result, const struct ares_addrinfo *info)
{
    for (const struct ares_addrinfo_cname *cname = info->cnames; cname != NULL;
         cname = cname->next) {
        add_ttl(result, cname->ttl);
    }
    for (const struct ares_addrinfo_node *node = info->nodes;
         node != NULL && result->address_count < RESOLVE_ADDRESSES_MAX; node = node->ai_next) {
        struct address address;
        sockaddr_to_address(node->ai_addr, (socklen_t)node->ai_addrlen, &address);
        address.port = 0;
        if (address.family != ADDRESS_NONE && !result_has(result, &address)) {
            result->addresses[result->address_count++] = address;
            add_ttl(result, node->ai_ttl);
        }
    }
    if (result->address_count == 0) {
        result->status = RESOLVE_NOT_FOUND;
    }
}

/* Inside c-ares: only note. */
static void resolve_on_answer(void *context, int status, int timeouts, struct ares_addrinfo *info)
{
    struct resolve_question *question = context;

    (void)timeouts;
    if (!question->is_closing) {
        question->has_result = true;
        question->result.status = status_of_ares(status);
        question->result.ttl_s = RESOLVE_TTL_UNKNOWN;
        if (status == ARES_SUCCESS && info != NULL) {
            take_answer(&question->result, info);
        }
    }
    if (info != NULL) {
        ares_freeaddrinfo(info);
    }
}

/* ---- names that only the system knows ---- */

static void on_system_result(void *context, const struct resolve_result *result)
{
    struct resolve_question *question = context;

    question->system = NULL; /* it is freed already */
    question->result = *result;
    tell_result(question);
}

/* Below "local", say; not that name itself. */
static bool is_below(const char *name, const char *label)
{
    size_t len = strlen(name), label_len = strlen(label);

    if (len > 0 && name[len - 1] == '.') {
        len--;
    }
    return len > label_len && name[len - label_len - 1] == '.' &&
           strncasecmp(name + len - label_len, label, label_len) == 0;
}

static int ask_the_system(struct resolve_question *question)
{
    const struct system_names_waiter waiter = {question->resolver->loop, on_system_result,
                                               question};
    return system_names_ask(question->resolver->system, question->name, question->source, &waiter,
                            &question->system);
}

/* DNS does not know the name, perhaps another source does. */
static bool goes_on_to_system(struct resolve_question *question)
{
    if (question->result.status != RESOLVE_NOT_FOUND || !question->may_ask_system ||
        !system_names_has_more(question->resolver->system)) {
        return false;
    }
    channel_close(question);
    return ask_the_system(question) == 0;
}

/* ---- c-ares on the loop ---- */

/* c-ares has returned: tell the result, or wait on. @p question may be gone afterwards. */
static void resolve_question_advance(struct resolve_question *question)
{
    struct timeval wait = {.tv_sec = 1};

    if (question->is_short) {
        question->result = (struct resolve_result){.status = RESOLVE_SHORTAGE};
        question->has_result = true;
    }
    if (question->has_result) {
        if (!goes_on_to_system(question)) {
            tell_result(question);
        }
        return;
    }
    (void)ares_timeout(question->channel, &wait, &wait);
    if (event_add(question->timer, &wait) != 0) {
        question->result = (struct resolve_result){.status = RESOLVE_SHORTAGE};
        tell_result(question);
    }
}

static void on_question_timer(evutil_socket_t fd, short what, void *context)
{
    struct resolve_question *question = context;

    (void)fd;
    (void)what;
    loop_turn_begin(question->resolver->loop);
    if (question->system != NULL) {
        return;
    }
    if (!question->has_result) {
        ares_process_fd(question->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }
    resolve_question_advance(question);
}

static void on_socket(evutil_socket_t fd, short what, void *context)
{
    struct resolve_question *question = ((struct watched *)context)->question;

    loop_turn_begin(question->resolver->loop);
    ares_process_fd(question->channel, what & EV_READ ? fd : ARES_SOCKET_BAD,
                    what & EV_WRITE ? fd : ARES_SOCKET_BAD);
    resolve_question_advance(question);
}

static int watch_socket(struct resolve_question *question, int fd, short what)
{
    struct watched *watched = malloc(sizeof *watched);

    if (watched == NULL) {
        return -ENOMEM;
    }
    *watched = (struct watched){.question = question, .fd = fd};
    watched->event = event_new(question->resolver->loop->base, fd, (short)(what | EV_PERSIST),
                               on_socket, watched);
    if (watched->event == NULL || event_add(watched->event, NULL) != 0) {
        watched_free(watched);
        return -ENOMEM;
    }
    watched->next = question->watched;
    question->watched = watched;
    return 0;
}

/* Inside c-ares. */
static void on_socket_state(void *context, ares_socket_t fd, int readable, int writable)
{
    struct resolve_question *question = context;
    short what = (short)((readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));

    for (struct watched **link = &question->watched; *link != NULL; link = &(*link)->next) {
        if ((*link)->fd == fd) {
            struct watched *watched = *link;
            *link = watched->next;
            watched_free(watched);
            break;
        }
    }
    if (what != 0 && watch_socket(question, fd, what) != 0) {
        question->is_short = true;
    }
}

/* ---- asking ---- */

/*
 * RFC 6761 section 6.3: "localhost" and names below it are loopback, whatever /etc/hosts and DNS
 * have. So a host without such a line, as a bare container is, has these names, too.
 */
static bool is_localhost(const char *name)
{
    return strcasecmp(name, "localhost") == 0 || strcasecmp(name, "localhost.") == 0 ||
           is_below(name, "localhost");
}

static int give_loopback(struct resolve_question *question)
{
    static const struct address loopback[] = {
        {.family = ADDRESS_IPV4, .ip = {127, 0, 0, 1}},
        {.family = ADDRESS_IPV6, .ip = {[15] = 1}},
    };
    const struct timeval at_once = {0};
    struct resolve_result *result = &question->result;

    *result = (struct resolve_result){.status = RESOLVE_OK,
                                      .ttl_s = RESOLVE_TTL_UNKNOWN,
                                      .address_count = sizeof loopback / sizeof loopback[0]};
    memcpy(result->addresses, loopback, sizeof loopback);
    question->has_result = true;
    return event_add(question->timer, &at_once) == 0 ? 0 : -ENOMEM;
}

/* As ares_set_servers_ports_csv() wants them. @return 0 or -errno */
static int set_servers(ares_channel channel, const struct resolve_query *query)
{
    size_t room = 1, used = 0;

    for (size_t i = 0; i < query->server_count; i++) {
        room += strlen(query->servers[i]) + 1;
    }
    char *list = malloc(room);
    if (list == NULL) {
        return -ENOMEM;
    }
    list[0] = '\0';
    for (size_t i = 0; i < query->server_count; i++) {
        int written =
            snprintf(list + used, room - used, "%s%s", i > 0 ? "," : "", query->servers[i]);
        used += (size_t)written;
    }
    int status = ares_set_servers_ports_csv(channel, list);
    free(list);
    return status == ARES_SUCCESS ? 0 : status == ARES_ENOMEM ? -ENOMEM : -EINVAL;
}

static int channel_open(struct resolve_question *question, const struct resolve_query *query)
{
    static char lookups[] = "fb"; /* /etc/hosts, then DNS */
    size_t servers = query->server_count > 1 ? query->server_count : 2;
    uint32_t try_ms = query->timeout_ms / (TRY_SHARES * (uint32_t)servers);
    struct ares_options options = {
        .timeout = (int)(try_ms > TRY_MS_MIN ? try_ms : TRY_MS_MIN),
        .tries = TRIES,
        .lookups = lookups,
        .sock_state_cb = on_socket_state,
        .sock_state_cb_data = question,
    };
    int status = ares_init_options(&question->channel, &options,
                                   ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                                       ARES_OPT_SOCK_STATE_CB);
    if (status != ARES_SUCCESS) {
        question->channel = NULL;
        return status == ARES_ENOMEM ? -ENOMEM : -EMFILE; /* resolv.conf could not be opened */
    }
    return query->server_count > 0 ? set_servers(question->channel, query) : 0;
}

static int ask_dns(struct resolve_question *question, const struct resolve_query *query)
{
    const struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct timeval wait = {0};
    int err = channel_open(question, query);

    if (err != 0) {
        return err;
    }
    ares_getaddrinfo(question->channel, question->name, NULL, &hints, resolve_on_answer, question);
    if (!question->has_result && !question->is_short) {
        wait.tv_sec = 1;
        (void)ares_timeout(question->channel, &wait, &wait);
    }
    return event_add(question->timer, &wait) == 0 ? 0 : -ENOMEM; /* also for a result at once */
}

int resolver_ask(struct resolver *resolver, const struct resolve_query *query, resolve_fn on_result,
                 void *context, struct resolve_question **ret_question)
{
    if (!resolve_is_host_name(query->name, query->name_len)) {
        return -EINVAL;
    }
    struct resolve_question *question = calloc(1, sizeof *question);
    if (question == NULL) {
        return -ENOMEM;
    }
    question->resolver = resolver;
    question->on_result = on_result;
    question->context = context;
    question->source = query->source;
    question->may_ask_system = query->may_ask_system && resolver->system != NULL;
    memcpy(question->name, query->name, query->name_len);
    question->timer = evtimer_new(resolver->loop->base, on_question_timer, question);
    int err = -ENOMEM;
    if (question->timer != NULL) {
        /* RFC 6762 section 22.1: names under .local are not DNS's. */
        bool is_local = question->may_ask_system && is_below(question->name, "local");
        err = is_localhost(question->name) ? give_loopback(question)
              : is_local                   ? ask_the_system(question)
                                           : ask_dns(question, query);
    }
    if (err != 0) {
        resolve_question_free(question);
        return err;
    }
    question->next = resolver->first;
    if (resolver->first != NULL) {
        resolver->first->previous = question;
    }
    resolver->first = question;
    *ret_question = question;
    return 0;
}

/* ---- life ---- */

int resolver_new(struct loop *loop, struct system_names *system, struct resolver **ret_resolver)
{
    /* Counted: a call for each resolver. The daemon makes them before it starts threads. */
    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
        return -ENOMEM;
    }
    struct resolver *resolver = calloc(1, sizeof *resolver);
    if (resolver == NULL) {
        ares_library_cleanup();
        return -ENOMEM;
    }
    *resolver = (struct resolver){.loop = loop, .system = system};
    *ret_resolver = resolver;
    return 0;
}

void resolver_free(struct resolver *resolver)
{
    if (resolver == NULL) {
        return;
    }
    while (resolver->first != NULL) {
        resolver_withdraw(resolver->first);
    }
    free(resolver);
    ares_library_cleanup();
}
