/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/decision.h"

#include "client/explain_question.h"
#include "client/scan.h"
#include "coap/method.h"
#include "coap/option.h"
#include "engine/engine.h"
#include "fetch/keyring.h"
#include "fetch/make.h"
#include "net/resolve.h"
#include "support/fake_client.h"
#include "support/fake_dtls.h"
#include "support/fake_net.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_MAX 120u
#define TEXT_BYTES 8192u
#define GIVEN_UP_MS 400000u /* whatever was sent */
#define BETWEEN_MS 2000u    /* so that no limit of answers a second is met */

static struct world {
    struct config *config;
    struct loop *loop;
    struct resolver *resolver;
    struct engine *engine;
    unsigned asked;
    bool is_answered;
} world;

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    return world.engine != NULL ? engine_turn(world.engine, now_ms) : UINT64_MAX;
}

static void fail_if(bool is_wrong, const char *what)
{
    if (is_wrong) {
        fprintf(stderr, "decision: %s\n", what);
        abort();
    }
}

/* --- the engine --------------------------------------------------------- */

static struct config *load(const char *const *settings, size_t count)
{
    /* Another one with coaps would need keys. */
    static const char *const listens[] = {"coap://192.0.2.9:5683", "coap://[2001:db8::9]:5683"};
    static const char *const small[] = {
        "log.access=off",        "cache.max-bytes=0",        "limits.exchanges=16",
        "limits.clients=16",     "limits.origins=16",        "limits.dedup-bytes=64KiB",
        "resolve.names=16",      "limits.origin-ports=2",    "limits.datagram-bytes=1280B",
        "block.bodies=16",       "block.bodies-bytes=64KiB", "block.body-bytes=1KiB",
        "observe.max=16",        "observe.targets=16",       "observe.bytes=64KiB",
        "limits.addresses=1024", "limits.throttled=64",      "resolve.cache-time=1s",
    };
    const size_t small_count = sizeof(small) / sizeof(small[0]);
    const char *sets[SETTINGS_MAX];
    const struct config_source source = {
        .sets = sets, .set_count = small_count + count, .listens = listens, .listen_count = 2};
    struct config_errors errors;
    struct config *config = NULL;
    char why[128];
    fail_if(count + small_count > SETTINGS_MAX, "too many settings");
    memcpy(sets, small, sizeof(small));
    memcpy(sets + small_count, settings, count * sizeof(sets[0]));
    if (config_load(&source, &errors, &config) != 0) {
        return NULL;
    }
    config->keyring = keyring_load(config, why, sizeof(why));
    if (config->keyring == NULL) {
        config_free(config);
        config = NULL;
    }
    return config;
}

static const char plain[] = "192.0.2.9:5683", plain_ipv6[] = "[2001:db8::9]:5683";

static void listen_at(const char *address)
{
    struct udp_options udp = {.fd = -1};
    fail_if(!address_parse(address, strlen(address), 0, &udp.bind) ||
                listen_udp(&world.engine->client, &udp, NULL) != 0,
            "no listener");
}

static void listen_on(void)
{
    static const char secure[] = "192.0.2.9:5684";
    struct dtls_options dtls = {.udp = {.fd = -1}, .sessions_max = 64, .handshakes_max = 64};
    listen_at(plain);
    listen_at(plain_ipv6);
    fail_if(!address_parse(secure, strlen(secure), 0, &dtls.udp.bind) ||
                listen_dtls(&world.engine->client, &dtls, NULL) != 0,
            "no listener for sessions");
}

bool decision_start(const char *const *settings, size_t count)
{
    world = (struct world){.config = load(settings, count)};
    if (world.config == NULL) {
        return false;
    }
    fake_net_start(1);
    fail_if(loop_new(on_turn, NULL, &world.loop) != 0, "no loop");
    fail_if(resolver_new(world.loop, NULL, &world.resolver) != 0, "no resolver");
    const struct engine_options options = {
        .config = world.config, .loop = world.loop, .resolver = world.resolver};
    fail_if(engine_new(&options, &world.engine) != 0, "no engine");
    listen_on();
    return true;
}

void decision_stop(void)
{
    engine_free(world.engine);
    resolver_free(world.resolver);
    loop_free(world.loop);
    fake_net_stop();
    fake_dtls_free();
    keyring_free(world.config->keyring);
    config_free(world.config);
    world = (struct world){.engine = NULL};
}

/* --- the request -------------------------------------------------------- */

/* The message that a client sends, or the one that target_find() reads. */
struct departure {
    uint8_t datagram[2048];
    size_t len;
};

static bool find_target(const char *uri, uint8_t *memory, struct target *ret_target)
{
    uint8_t datagram[2048];
    struct message_writer writer;
    struct message message;
    struct request_options options;
    struct problem problem;
    const struct address local = {.family = ADDRESS_IPV4, .ip = {192, 0, 2, 9}};
    message_writer_init(&writer, datagram, sizeof(datagram), MESSAGE_CON, CODE_GET, 1,
                        (struct bytes){0});
    message_writer_option(&writer, OPTION_proxy_uri,
                          (struct bytes){(const uint8_t *)uri, strlen(uri)});
    return !writer.overflow && message_decode(datagram, writer.len, &message) == MESSAGE_OK &&
           scan_options(&message, &options, &problem) &&
           target_find(world.config, &message, &options, &local,
                       (struct target_memory){memory, TEXT_BYTES}, ret_target, &problem);
}

static void write_segments(struct message_writer *writer, uint16_t number,
                           const struct segments *segments)
{
    struct bytes item;
    uint32_t offset = 0;
    while (segments_next(segments, &offset, &item)) {
        message_writer_option(writer, number, item);
    }
}

static void write_uri_options(struct message_writer *writer, const struct target *target)
{
    char host[TARGET_NAME_MAX + 1] = "", ip[INET6_ADDRSTRLEN] = "";
    struct bytes value = {target->name, target->name_len};
    if (!target->is_name) {
        bool is_ipv6 = target->address.family == ADDRESS_IPV6;
        inet_ntop(is_ipv6 ? AF_INET6 : AF_INET, target->address.ip, ip, sizeof(ip));
        int len = snprintf(host, sizeof(host), is_ipv6 ? "[%s]" : "%s", ip);
        value = (struct bytes){(const uint8_t *)host, (size_t)len};
    }
    message_writer_option(writer, OPTION_uri_host, value);
    message_writer_option_uint(writer, OPTION_uri_port, target->port);
    write_segments(writer, OPTION_uri_path, &target->path);
    write_segments(writer, OPTION_uri_query, &target->query);
}

static void write_target(struct message_writer *writer, enum target_form form, const char *uri,
                         const struct target *target)
{
    uint8_t cri[NAMING_CRI_ROOM];
    size_t len = 0;
    switch (form) {
    case TARGET_FORM_NONE:
    case TARGET_FORM_PUBLISHED:
    case TARGET_FORM_PROXY_URI:
        break;
    case TARGET_FORM_PROXY_CRI:
        if (naming_cri(target, cri, &len) && len <= NAMING_CRI_MAX) {
            message_writer_option(writer, OPTION_proxy_cri, (struct bytes){cri, len});
            return;
        }
        break;
    case TARGET_FORM_PROXY_SCHEME_NUMBER:
        if (target->zone[0] == '\0') {
            write_uri_options(writer, target);
            message_writer_option_uint(writer, OPTION_proxy_scheme_number, target->scheme->number);
            return;
        }
        break;
    case TARGET_FORM_PROXY_SCHEME:
        if (target->zone[0] == '\0') {
            const char *name = target->scheme->name;
            write_uri_options(writer, target);
            message_writer_option(writer, OPTION_proxy_scheme,
                                  (struct bytes){(const uint8_t *)name, strlen(name)});
            return;
        }
        break;
    }
    message_writer_option(writer, OPTION_proxy_uri,
                          (struct bytes){(const uint8_t *)uri, strlen(uri)});
}

/* False where the target fits no message. */
static bool make_request(const struct decision_question *question, struct departure *sending)
{
    uint8_t memory[TEXT_BYTES];
    uint8_t token[2] = {(uint8_t)(world.asked >> 8), (uint8_t)world.asked};
    struct message_writer writer;
    struct target target;
    /* For a bad target there is one form to say it in. */
    bool is_good = find_target(question->target, memory, &target);
    enum target_form form = is_good ? question->form : TARGET_FORM_PROXY_URI;
    if (is_good && target.is_name) {
        char name[TARGET_NAME_MAX + 1];
        memcpy(name, target.name, target.name_len);
        name[target.name_len] = '\0';
        fake_net_name(name, 0, RESOLVE_OK, question->address);
    }
    message_writer_init(&writer, sending->datagram, sizeof(sending->datagram), MESSAGE_CON,
                        method_find(question->method, strlen(question->method)),
                        (uint16_t)world.asked, (struct bytes){token, sizeof(token)});
    if (is_good && !target.is_name && address_is_multicast(&target.address)) {
        message_writer_option_uint(&writer, OPTION_multicast_timeout, 1);
    }
    write_target(&writer, form, question->target, &target);
    sending->len = writer.len;
    return !writer.overflow;
}

/* --- what becomes of it ------------------------------------------------- */

static void on_answer(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    (void)context;
    (void)peer;
    (void)datagram;
    world.is_answered = true;
}

static void send_in_the_clear(const struct address *from, const struct departure *sending)
{
    char text[ADDRESS_TEXT_MAX];
    const char *proxy = from->family == ADDRESS_IPV6 ? plain_ipv6 : plain;
    struct address to;
    struct fake_peer *peer = fake_peer_new(address_format(from, text));
    fail_if(!address_parse(proxy, strlen(proxy), 0, &to), "no address");
    fake_peer_on_datagram(peer, on_answer, NULL);
    fake_peer_send_bytes(peer, &to, sending->datagram, sending->len);
    fake_net_run(0);
    fake_peer_close(peer);
}

/* @return the session, for the caller to close. */
static struct dtls_session *send_in_session(const struct address *from,
                                            const struct identity *identity,
                                            const struct departure *sending)
{
    char text[ADDRESS_TEXT_MAX], hex[2 * sizeof(sending->datagram) + 1];
    uint8_t answer[2048];
    size_t len;
    struct dtls_session *session = fake_dtls_open(address_format(from, text));
    if (identity != NULL && identity->kind == IDENTITY_PSK) {
        fake_dtls_identify(session, identity_name(identity), NULL);
    } else if (identity != NULL) {
        fake_dtls_certify(session, identity_name(identity));
    }
    for (size_t i = 0; i < sending->len; i++) {
        snprintf(hex + 2 * i, 3, "%02x", sending->datagram[i]);
    }
    fake_dtls_send(session, hex);
    fake_net_run(0);
    world.is_answered = fake_dtls_take(session, answer, sizeof(answer), &len);
    return session;
}

static void count_ends(uint64_t counts[REASON_COUNT])
{
    const struct metrics *metrics = engine_metrics(world.engine);
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        counts[i] = metric_get(&metrics->ended[i]);
    }
}

/* What is still in flight has been sent to a host that does not answer. */
static struct decision see_decision(const uint64_t before[REASON_COUNT])
{
    uint64_t after[REASON_COUNT];
    struct decision decision = {.is_forwarded = engine_in_flight(world.engine) > 0};
    count_ends(after);
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        if (after[i] != before[i]) {
            decision.reason = (enum reason)i;
        }
    }
    return decision;
}

static struct decision ask_engine(const struct explain_question *who,
                                  const struct departure *sending)
{
    uint64_t before[REASON_COUNT];
    struct address from = who->request.client.address;
    from.port = (uint16_t)(1024 + world.asked % 60000);
    world.is_answered = false;
    count_ends(before);
    struct dtls_session *session = NULL;
    if (who->request.client.scheme == CRI_SCHEME_COAPS) {
        session = send_in_session(&from, who->identity, sending);
    } else {
        send_in_the_clear(&from, sending);
    }
    struct decision decision = see_decision(before);
    fail_if(decision.is_forwarded && world.is_answered, "answered and in flight");
    if (session != NULL) {
        fake_dtls_close(session);
    }
    fake_net_run(decision.is_forwarded ? GIVEN_UP_MS : BETWEEN_MS);
    struct fake_datagram stray;
    while (fake_net_take(&stray)) {
    }
    return decision;
}

/* --- both --------------------------------------------------------------- */

static _Noreturn void fail_both(const struct decision_question *question,
                                const struct explain_options *asking,
                                const struct decision *decision)
{
    fprintf(stderr, "%s %s in form %d, by %s, at %s: the proxy %s %s; explained (%s) as\n",
            question->method, question->target, (int)question->form, question->client,
            question->address, decision->is_forwarded ? "forwards" : "refuses",
            reason_row(decision->reason)->name, asking->address != NULL ? asking->address : "-");
    (void)explain_target(world.config, asking, question->target, stderr);
    abort();
}

/*
 * Whether what is said fits what is done. @p is_anybody: the client may turn out to be another;
 * @p is_open: that, or the address was not said.
 */
static bool agrees(const struct explain_result *said, const struct decision *done, bool is_anybody,
                   bool is_open)
{
    switch (said->outcome) {
    case EXPLAIN_FORWARDED:
        return done->is_forwarded;
    case EXPLAIN_REFUSED:
        /* What is not served in the clear has no answer, and no reason; Echo may come first. */
        return !done->is_forwarded &&
               (is_anybody || done->reason == said->reason ||
                done->reason == REASON_echo_required ||
                (done->reason == REASON_none &&
                 (said->reason == REASON_client_unknown || said->reason == REASON_client_refused)));
    case EXPLAIN_DEPENDS:
        return is_open || done->reason == REASON_echo_required;
    }
    return false;
}

static struct explain_result ask_explain(const struct explain_options *asking, const char *target)
{
    static char text[4 * TEXT_BYTES];
    FILE *out = fmemopen(text, sizeof(text), "w");
    fail_if(out == NULL, "no memory");
    struct explain_result result = explain_target(world.config, asking, target, out);
    (void)fclose(out);
    return result;
}

bool decision_compare(const struct decision_question *question, struct decision *ret_decision)
{
    struct explain_question who;
    struct departure sending;
    struct explain_options asking = {question->client, question->method, question->address};
    if (explain_question_init(world.config, &asking, &who) != NULL) {
        return false;
    }
    uint32_t scheme = who.request.client.scheme;
    bool is_client =
        (scheme == CRI_SCHEME_COAP && who.identity == NULL) || scheme == CRI_SCHEME_COAPS;
    world.asked++;
    if (!is_client || !make_request(question, &sending)) {
        explain_question_clear(&who);
        return false;
    }
    struct decision decision = ask_engine(&who, &sending);
    bool is_anybody = scheme == CRI_SCHEME_COAPS && who.identity == NULL;
    explain_question_clear(&who);
    struct explain_result with_address = ask_explain(&asking, question->target);
    if (!agrees(&with_address, &decision, is_anybody, is_anybody)) {
        fail_both(question, &asking, &decision);
    }
    asking.address = NULL;
    struct explain_result without = ask_explain(&asking, question->target);
    if (!agrees(&without, &decision, is_anybody, true)) {
        fail_both(question, &asking, &decision);
    }
    *ret_decision = decision;
    return true;
}
