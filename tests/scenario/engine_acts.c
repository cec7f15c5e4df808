/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine_stage.h"

#include "cache/store.h"
#include "support/fake_client.h"
#include "support/fake_conn.h"
#include "support/fake_dtls.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct words {
    char **at;
    size_t count;
};

static unsigned long long number_of(const char *text)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    return *end == '\0' ? number : UINT64_MAX;
}

/* --- names ---------------------------------------------------------------- */

/* name N = ADDRESS ... | nothing | not-found | no-answer | failed | shortage, then [after T] [ttl
 * T] */
static const char *act_name(struct engine_stage *engine, struct words words)
{
    static const char *const failures[] = {"nothing", "not-found", "no-answer", "failed",
                                           "shortage"};
    const char *addresses = "";
    enum resolve_status status = RESOLVE_OK;
    unsigned long long delay_ms = 0, ttl_ms = ULLONG_MAX;
    if (words.count < 4 || strcmp(words.at[2], "=") != 0) {
        return "name N = ADDRESS ...";
    }
    for (size_t i = 3; i < words.count; i++) {
        bool has_more = i + 1 < words.count;
        if (has_more && strcmp(words.at[i], "after") == 0) {
            if (!script_duration(words.at[++i], &delay_ms)) {
                return "not a time";
            }
        } else if (has_more && strcmp(words.at[i], "ttl") == 0) {
            if (!script_duration(words.at[++i], &ttl_ms)) {
                return "not a time";
            }
        } else {
            unsigned failure = 0;
            while (failure < 5 && strcmp(words.at[i], failures[failure]) != 0) {
                failure++;
            }
            status = failure < 5 ? (enum resolve_status)failure : status;
            addresses = failure < 5 ? addresses
                                    : pool_format(&engine->pool, "%s%s%s", addresses,
                                                  addresses[0] != '\0' ? " " : "", words.at[i]);
        }
    }
    fake_net_name(words.at[1], delay_ms, status, addresses);
    if (ttl_ms != ULLONG_MAX) {
        fake_net_name_ttl(words.at[1], (uint32_t)(ttl_ms / 1000));
    }
    return NULL;
}

/* interface NAME = NUMBER, or none */
static const char *act_interface(struct words words)
{
    unsigned long long index = words.count == 4 && strcmp(words.at[3], "none") == 0
                                   ? 0
                                   : number_of(words.at[words.count - 1]);
    if (words.count != 4 || strcmp(words.at[2], "=") != 0 || index > UINT32_MAX) {
        return "interface NAME = NUMBER|none";
    }
    fake_net_interface(words.at[1], (uint32_t)index);
    return NULL;
}

/* --- counters ------------------------------------------------------------- */

static const char *compare(struct engine_stage *engine, const char *name, uint64_t got,
                           const char *expected)
{
    uint64_t number = number_of(expected);
    bool is_right = got == number || (engine->is_at_least && number != UINT64_MAX && got > number);
    return is_right ? NULL
                    : pool_format(&engine->pool, "%s: expected %s%s, got %llu", name,
                                  engine->is_at_least ? "at least " : "", expected,
                                  (unsigned long long)got);
}

static const char *act_metric(struct engine_stage *engine, const char *name, const char *expected)
{
    size_t count;
    const struct metric_row *rows = metric_rows(&count);
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        if (strcmp(rows[i].name, name) != 0) {
            continue;
        }
        for (unsigned j = 1; j <= engine->workers; j++) {
            const struct metrics *metrics = engine_metrics(replay_worker(&engine->replay, j));
            const void *field = (const uint8_t *)metrics + rows[i].offset;
            sum += metric_get((const _Atomic uint64_t *)field);
        }
        if (rows[i].offset == offsetof(struct metrics, upstream_requests)) {
            sum -= engine->replay.passed; /* those are the passers' */
        }
        return compare(engine, name, sum, expected);
    }
    return "not a metric";
}

static const char *act_ended(struct engine_stage *engine, const char *name, const char *expected)
{
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        if (strcmp(reason_row((enum reason)i)->name, name) == 0) {
            return compare(engine, name, replay_ended(&engine->replay, (enum reason)i), expected);
        }
    }
    return "not a reason";
}

/* questions = N, withdrawn = N, in-flight = N: to the resolver, of those; requests in the engine */
static const char *act_figure(struct engine_stage *engine, struct words words)
{
    uint64_t got = words.at[0][0] == 'q'   ? fake_net_questions()
                   : words.at[0][0] == 'w' ? fake_net_questions_withdrawn()
                                           : engine_in_flight(engine->replay.engine);
    return words.count == 3 && strcmp(words.at[1], "=") == 0
               ? compare(engine, words.at[0], got, words.at[2])
               : "questions|withdrawn|in-flight = NUMBER";
}

/* metric NAME = N, ended NAME = N; several on a line */
static const char *act_count(struct engine_stage *engine, struct words words)
{
    const char *fault = NULL;
    for (size_t i = 1; i + 2 < words.count && fault == NULL; i += 3) {
        engine->is_at_least = strcmp(words.at[i + 1], ">=") == 0;
        if (!engine->is_at_least && strcmp(words.at[i + 1], "=") != 0) {
            return "NAME = NUMBER, or NAME >= NUMBER";
        }
        fault = strcmp(words.at[0], "metric") == 0
                    ? act_metric(engine, words.at[i], words.at[i + 2])
                    : act_ended(engine, words.at[i], words.at[i + 2]);
    }
    engine->is_at_least = false;
    return words.count % 3 != 1 ? "NAME = NUMBER" : fault;
}

/* --- the network ---------------------------------------------------------- */

/* link loss=30% delay=10ms..20ms duplicate=5% reorder=5% corrupt=5% */
static const char *act_link(struct words words)
{
    struct fake_link link = {0};
    const struct {
        const char *name;
        unsigned *percent;
    } shares[] = {{"loss=", &link.loss_percent},
                  {"duplicate=", &link.duplicate_percent},
                  {"reorder=", &link.reorder_percent},
                  {"corrupt=", &link.corrupt_percent}};
    for (size_t i = 1; i < words.count; i++) {
        bool is_known = false;
        for (size_t j = 0; j < sizeof(shares) / sizeof(shares[0]); j++) {
            size_t len = strlen(shares[j].name);
            if (strncmp(words.at[i], shares[j].name, len) == 0) {
                *shares[j].percent = (unsigned)strtoul(words.at[i] + len, NULL, 10);
                is_known = true;
            }
        }
        if (strncmp(words.at[i], "delay=", 6) == 0) {
            char *end;
            link.delay_min_ms = (uint32_t)strtoul(words.at[i] + 6, &end, 10);
            end += strspn(end, "ms.");
            link.delay_max_ms = *end != '\0' ? (uint32_t)strtoul(end, NULL, 10) : link.delay_min_ms;
            is_known = true;
        }
        if (!is_known) {
            return "link loss=N% delay=Nms..Nms duplicate=N% reorder=N% corrupt=N%";
        }
    }
    fake_net_set_link(&link);
    return NULL;
}

/* A further listener: for datagrams, or where clients with @p way connect from then on. */
static const char *act_listen(struct engine_stage *engine, const char *address, const char *way)
{
    struct udp_options listen = {.fd = -1, .want_local = true};
    if (!address_parse(address, strlen(address), 5683, &listen.bind)) {
        return "not an address";
    }
    if (way != NULL) {
        return engine_stage_listen(engine, way, &listen.bind);
    }
    return listen_udp(&engine->replay.engine->client, &listen, NULL) == 0 ? NULL
                                                                          : "cannot listen there";
}

/* --- actors --------------------------------------------------------------- */

static const char *act_fails(struct words words)
{
    static const struct {
        const char *name;
        enum upstream_status status;
    } ways[] = {
        {"refused", UPSTREAM_REFUSED},
        {"connect-timeout", UPSTREAM_CONNECT_TIMEOUT},
        {"handshake-failed", UPSTREAM_HANDSHAKE_FAILED},
        {"bad-certificate", UPSTREAM_BAD_CERTIFICATE},
        {"certificate-expired", UPSTREAM_CERTIFICATE_EXPIRED},
        {"certificate-unknown", UPSTREAM_CERTIFICATE_UNKNOWN},
        {"name-mismatch", UPSTREAM_NAME_MISMATCH},
        {"closed", UPSTREAM_CLOSED},
        {"timeout", UPSTREAM_TIMEOUT},
        {"reset", UPSTREAM_RESET},
        {"invalid", UPSTREAM_INVALID},
        {"full", UPSTREAM_FULL},
        {"displaced", UPSTREAM_DISPLACED},
        {"backing-off", UPSTREAM_BACKING_OFF},
        {"message-too-large", UPSTREAM_MESSAGE_TOO_LARGE},
        {"unsupported", UPSTREAM_UNSUPPORTED},
        {"no-memory", UPSTREAM_NO_MEMORY},
        {"oscore-unknown", UPSTREAM_OSCORE_UNKNOWN},
        {"oscore-replayed", UPSTREAM_OSCORE_REPLAYED},
        {"oscore-undecrypted", UPSTREAM_OSCORE_UNDECRYPTED},
        {"oscore-refused", UPSTREAM_OSCORE_REFUSED},
        {"oscore-unprotected", UPSTREAM_OSCORE_UNPROTECTED},
        {"oscore-unverified", UPSTREAM_OSCORE_UNVERIFIED},
        {"oscore-state", UPSTREAM_OSCORE_STATE},
        {"oscore-in-use", UPSTREAM_OSCORE_IN_USE},
    };
    bool was_sent = !(words.count > 2 && strcmp(words.at[2], "unsent") == 0);
    const char *why = words.count > 3 ? words.at[3] : NULL;
    for (unsigned i = 0; words.count > 1 && i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(words.at[1], ways[i].name) == 0) {
            fake_client_fail(ways[i].status, was_sent, why);
            fake_net_run(0);
            return NULL;
        }
    }
    return "fails HOW [sent|unsent [WHY]]";
}

static const char *act_of_session(struct actor *actor, struct words words)
{
    const char *fault = engine_session_act(actor, words.at, words.count);
    if (fault == NULL || fault[0] != '\0') {
        return fault;
    }
    if (strcmp(words.at[0], "fails") == 0) {
        return act_fails(words);
    }
    if (strcmp(words.at[0], "cancelled") == 0) {
        return fake_client_is_cancelled() ? NULL : "the request is still wanted";
    }
    return "a session fails, or is cancelled";
}

/* Nothing has come or gone for the idle time: "kept", or after what time it is closed. */
static const char *act_idles(struct fake_stream *stream, struct words words)
{
    unsigned long long ms = 0;
    uint32_t said = fake_stream_idle(stream);
    fake_net_run(0);
    if (words.count == 2 && strcmp(words.at[1], "kept") == 0) {
        return said == CONN_NOT_IDLE ? NULL : "the connection is not kept";
    }
    if (words.count != 2 || !script_duration(words.at[1], &ms)) {
        return "idles kept|TIME";
    }
    return said == ms ? NULL : "the connection is closed at another time, or kept";
}

/* needed idle|observes|asks|device */
static const char *act_needed(enum conn_need need, struct words words)
{
    static const char *const names[] = {
        [CONN_IDLE] = "idle",
        [CONN_OBSERVES] = "observes",
        [CONN_ASKS] = "asks",
        [CONN_DEVICE] = "device",
    };
    if (words.count != 2) {
        return "needed idle|observes|asks|device";
    }
    return strcmp(words.at[1], names[need]) == 0 ? NULL : names[need];
}

/* closes, moves, moves ADDRESS, reached ADDRESS, room BYTES, needed idle|device */
static const char *act_of_dtls(struct engine_stage *engine, struct actor *actor, struct words words)
{
    struct endpoint *endpoint = actor->end;
    const char *verb = words.at[0];
    if (strcmp(verb, "closes") == 0) {
        fake_dtls_close(endpoint->session);
        fake_net_run(0);
    } else if (strcmp(verb, "moves") == 0 && words.count == 1) {
        endpoint->session = fake_dtls_replace(endpoint->session);
        engine_stage_establish(actor);
    } else if (strcmp(verb, "moves") == 0) {
        endpoint->moved_to = pool_format(&engine->pool, "%s", words.at[1]);
    } else if (strcmp(verb, "needed") == 0) {
        bool is_needed = fake_dtls_is_needed(endpoint->session);
        return act_needed(is_needed ? CONN_DEVICE : CONN_IDLE, words);
    } else if (strcmp(verb, "reached") == 0 && words.count == 2) {
        return fake_dtls_was_at(endpoint->session, words.at[1]) ? NULL : "at another address";
    } else if (strcmp(verb, "room") == 0 && words.count == 2) {
        fake_dtls_set_room(endpoint->session, (size_t)number_of(words.at[1]));
    } else {
        return "a session closes, moves, moves ADDRESS, is reached ADDRESS, is needed, or has "
               "room BYTES";
    }
    return NULL;
}

static const char *act_of_stream(struct actor *actor, struct words words)
{
    struct endpoint *endpoint = actor->end;
    const char *verb = words.at[0];
    if (strcmp(verb, "is") == 0 && endpoint->stream == NULL) { /* is refused */
        return engine_stage_is_refused(actor) ? NULL : "the connection is accepted";
    } else if (endpoint->stream == NULL) {
        return "there is no connection";
    } else if (strcmp(verb, "closes") == 0) {
        fake_stream_close(endpoint->stream);
        fake_net_run(0);
    } else if (strcmp(verb, "stops") == 0 || strcmp(verb, "reads") == 0) {
        fake_stream_stop_reading(endpoint->stream, *verb == 's');
    } else if (strcmp(verb, "idles") == 0) {
        return act_idles(endpoint->stream, words);
    } else if (strcmp(verb, "needed") == 0) {
        return act_needed(fake_stream_need(endpoint->stream), words);
    } else if (strcmp(verb, "paused") == 0) {
        return fake_stream_is_paused(endpoint->stream) ? NULL : "the proxy goes on reading";
    } else {
        return "a client connects, closes, stops reading, reads on, idles, is needed or is paused";
    }
    return NULL;
}

/*
 * An ICMP error for the last datagram, as of a closed port or a router without a route;
 * "misquoted": with each byte of its message ID and token wrong in turn; "cut": without all of its
 * token.
 */
static const char *act_refuses(struct endpoint *endpoint, struct words words)
{
    static const struct {
        const char *verb, *why;
        int error;
    } errors[] = {{"refuses", "", ECONNREFUSED},
                  {"unreachable", "", EHOSTUNREACH},
                  {"unreachable", "network", ENETUNREACH},
                  {"unreachable", "filtered", EACCES},
                  {"unreachable", "too-big", EMSGSIZE}};
    struct fake_datagram quoted = endpoint->last;
    const char *last = words.at[words.count - 1];
    bool is_misquoted = strcmp(last, "misquoted") == 0, is_cut = strcmp(last, "cut") == 0;
    const char *why = words.count > 1u + (is_misquoted || is_cut) ? words.at[1] : "";
    size_t at = 0, head = 4u + (quoted.data[0] & 15u); /* header and token */
    while (at < sizeof(errors) / sizeof(errors[0]) &&
           (strcmp(errors[at].verb, words.at[0]) != 0 || strcmp(errors[at].why, why) != 0)) {
        at++;
    }
    if (at == sizeof(errors) / sizeof(errors[0])) {
        return "refuses, or unreachable [network|filtered|too-big], [misquoted|cut]";
    }
    for (size_t i = 2; is_misquoted && i < head; i++) {
        quoted.data[i] ^= 1;
        fake_peer_reject(endpoint->peer, &quoted, errors[at].error);
        quoted.data[i] ^= 1;
    }
    if (!is_misquoted) {
        quoted.len = is_cut ? head - 1 : quoted.len;
        fake_peer_reject(endpoint->peer, &quoted, errors[at].error);
    }
    fake_net_run(0);
    return NULL;
}

/* From now on at a further address of the proxy's, which is the one that answers, too (MSG-24). */
static const char *act_uses(struct endpoint *endpoint, const char *address)
{
    endpoint->is_elsewhere = address_parse(address, strlen(address), 5683, &endpoint->proxy);
    return endpoint->is_elsewhere ? NULL : "not an address";
}

static const char *act_of_peer(struct actor *actor, struct words words)
{
    struct endpoint *endpoint = actor->end;
    const char *verb = words.at[0];
    if (strcmp(verb, "loses") == 0 && words.count == 2) {
        fake_peer_lose(endpoint->peer, (unsigned)number_of(words.at[1]));
    } else if (strcmp(verb, "leaves") == 0) {
        fake_peer_close(endpoint->peer);
        endpoint->has_left = true;
        actor->ignores_rest = true;
    } else if (strcmp(verb, "refuses") == 0 || strcmp(verb, "unreachable") == 0) {
        return act_refuses(endpoint, words);
    } else if (strcmp(verb, "uses") == 0 && words.count == 2) {
        return act_uses(endpoint, words.at[1]);
    } else {
        return "an actor loses N, leaves, refuses, is unreachable or uses ADDRESS";
    }
    return NULL;
}

static bool is_any(void *context, const struct target *target, uint32_t scheme)
{
    (void)context;
    (void)target;
    (void)scheme;
    return true;
}

const char *engine_stage_act(void *context, struct actor *actor, char **words, size_t count)
{
    struct engine_stage *engine = context;
    struct words all = {words, count};
    if (actor != NULL && (actor->way == WAY_WEB || (actor->way == WAY_HTTP && count > 1 &&
                                                    strchr("<>", words[0][0]) != NULL))) {
        return engine_web_act(engine, actor, words, count);
    }
    if (actor != NULL) {
        struct endpoint *endpoint = actor->end;
        return actor->way == WAY_SESSION   ? act_of_session(actor, all)
               : endpoint->peer != NULL    ? act_of_peer(actor, all)
               : endpoint->session != NULL ? act_of_dtls(engine, actor, all)
                                           : act_of_stream(actor, all);
    }
    const char *fault = engine_session_act(NULL, words, count);
    if (fault == NULL || fault[0] != '\0') {
        return fault;
    }
    fault = engine_told_act(engine, words, count);
    if (fault == NULL || fault[0] != '\0') {
        return fault;
    }
    if (strcmp(words[0], "name") == 0) {
        return act_name(engine, all);
    }
    if (strcmp(words[0], "interface") == 0) {
        return act_interface(all);
    }
    if (strcmp(words[0], "metric") == 0 || strcmp(words[0], "ended") == 0) {
        return act_count(engine, all);
    }
    if (strcmp(words[0], "questions") == 0 || strcmp(words[0], "withdrawn") == 0 ||
        strcmp(words[0], "in-flight") == 0) {
        return act_figure(engine, all);
    }
    if (strcmp(words[0], "flush") == 0 && count == 1) {
        (void)cache_flush(&engine->replay.engine->fetch.cache, is_any, NULL);
        return NULL;
    }
    if (strcmp(words[0], "drain") == 0 && count == 1) {
        for (unsigned i = 1; i <= engine->workers; i++) {
            engine_drain(replay_worker(&engine->replay, i));
        }
        return NULL;
    }
    if (strcmp(words[0], "resolver") == 0 && count == 2) { /* it has no descriptor, or has */
        fake_net_resolver_fails(strcmp(words[1], "fails") == 0 ? EMFILE : 0);
        return NULL;
    }
    if (strcmp(words[0], "host") == 0 && count == 3 && strcmp(words[2], "ipv6") == 0) {
        bool has_none = strcmp(words[1], "without") == 0;
        fake_net_refuse_sockets(has_none ? ADDRESS_IPV6 : ADDRESS_NONE,
                                has_none ? EAFNOSUPPORT : 0);
        return NULL;
    }
    if (strcmp(words[0], "link") == 0) {
        return act_link(all);
    }
    if (strcmp(words[0], "listen") == 0 && (count == 2 || count == 3)) {
        return act_listen(engine, words[1], count == 3 ? words[2] : NULL);
    }
    return "not a line of a scenario: no such actor, word or definition";
}
