/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions to and from other replicas (net/peer_give.h has the rules).
 *
 * To: criproxyctl drain asks all peers at once, in threads, which of them are up and how many
 * sessions each has room for; workers serve meanwhile. Then it holds the workers as a restart does
 * (server/restart.c) until nothing is in flight, for HOLD_MS at most, and parks them. Each peer
 * that has agreed is given its part of the DTLS sessions (net/peer_shares.h), one after the other,
 * the one with the least room first; what one does not take is divided among those after it. The
 * main thread waits for that, which is bounded by times below. Workers go on afterwards, whatever
 * came of it: what they have held back of clients goes on to the takers.
 *
 * From: a thread of its own accepts connections, one at a time. What it has got becomes sessions in
 * the workers' threads.
 */
#include "net/peers.h"
#include "base/log.h"
#include "client/listen.h"
#include "net/bind.h"
#include "net/credentials.h"
#include "net/handover_file.h"
#include "net/loop.h"
#include "net/peer_shares.h"
#include "net/peer_tls.h"
#include "net/sockaddr.h"
#include "server/handover.h"
#include "server/internal.h"
#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* What is in flight has this long; the clients send their requests again after 2 s. */
#define HOLD_MS 1000u

/* For a peer to be reached, be known and agree; for all of them together to take what they are
 * given; for a taker to get it, from the time when it has agreed. */
#define SHAKE_MS 1500u
#define GIVE_MS 8000u
#define TAKE_MS 15000u

/* What both ends have to agree on. */
#define OFFER_VERSION (PEER_GIVE_VERSION << 16 | HANDOVER_FILE_VERSION)

enum exchange_state {
    EXCHANGE_NONE,
    EXCHANGE_GIVING,
    EXCHANGE_TAKING,
    EXCHANGE_CLOSED, /* drained: nothing is taken any more */
};

/* A replica that is asked to take sessions, by a thread of its own. */
struct candidate {
    const struct server *server;
    const struct config_peer *peer;
    struct peer_tls_link *link; /* NULL: it has not agreed */
    uint32_t room;
    pthread_t thread;
    bool is_asked;
};

/* Of a process with cluster.certificate. */
struct server_peers {
    struct server *server;
    struct peer_tls *tls;
    struct config_peer others[CONFIG_PEERS_MAX]; /* of the start, whatever a reload reads */
    size_t other_count;
    uint64_t sessions_max; /* tls.sessions, of the start too: the thread has no snapshot */
    struct candidate candidates[CONFIG_PEERS_MAX]; /* while sessions are given */
    size_t candidate_count;
    int listen_fd, stop_fd; /* -1: none */
    pthread_t thread;
    bool is_started;
    uint8_t from;     /* the thread's: the replica that is giving now */
    atomic_int state; /* enum exchange_state */
    _Atomic uint64_t refused[PEER_REFUSAL_COUNT];
};

static void refuse_peer(struct server_peers *peers, enum peer_refusal why, const char *where)
{
    atomic_fetch_add_explicit(&peers->refused[why], 1, memory_order_relaxed);
    log_event(LOG_WARNING, "peer_refused", "reason=%s peer=%s", peer_refusals[why].name, where);
}

/* ---- taking ---- */

/* For all workers: each does its part in its own thread. */
struct taking {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned left; /* workers */
    struct peer_taken sum;
};

struct worker_part {
    struct taking *taking;
    struct worker *worker;
    struct unpack sessions;
    int64_t shift_ms;
};

static void end_part(struct taking *taking, const struct peer_taken *taken)
{
    (void)pthread_mutex_lock(&taking->lock);
    taking->sum.taken += taken->taken;
    taking->sum.left_out += taken->left_out;
    taking->left--;
    (void)pthread_cond_signal(&taking->changed);
    (void)pthread_mutex_unlock(&taking->lock);
}

static void part_task(void *context)
{
    struct worker_part *part = context;
    struct peer_taken taken = {0};

    if (!listen_take_given(worker_clients(part->worker), &part->sessions, part->shift_ms,
                           &taken.taken, &taken.left_out)) {
        log_event(LOG_ERROR, "sessions_not_taken_over", "error=unreadable");
    }
    end_part(part->taking, &taken);
}

static void run_parts(struct server *server, struct worker_part *parts, struct taking *taking)
{
    static const struct peer_taken nothing;

    for (unsigned i = 0; i < server->worker_count; i++) {
        if (parts[i].sessions.at == NULL ||
            worker_post(server->workers[i], part_task, &parts[i]) != 0) {
            end_part(taking, &nothing); /* it is ending */
        }
    }
    (void)pthread_mutex_lock(&taking->lock);
    while (taking->left > 0) {
        (void)pthread_cond_wait(&taking->changed, &taking->lock);
    }
    (void)pthread_mutex_unlock(&taking->lock);
}

static uint64_t giver_clock_ms(const struct server *server)
{
    return loop_clock_us(server->loop) / 1000;
}

static struct peer_taken on_take(void *context, struct unpack *sessions)
{
    struct server_peers *peers = context;
    struct server *server = peers->server;
    struct taking taking = {.left = server->worker_count};
    struct worker_part *parts = calloc(server->worker_count, sizeof(*parts));
    /* Times of its clock become times of ours. */
    int64_t shift_ms = (int64_t)(giver_clock_ms(server) - unpack_uint(sessions, 8));

    if (parts == NULL) {
        return taking.sum;
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        parts[i] = (struct worker_part){
            .taking = &taking, .worker = server->workers[i], .shift_ms = shift_ms};
        parts[i].sessions.at = unpack_bytes(sessions, &parts[i].sessions.left);
    }
    (void)pthread_mutex_init(&taking.lock, NULL);
    (void)pthread_cond_init(&taking.changed, NULL);
    run_parts(server, parts, &taking);
    /* Of all parts together; where that fails they are told within a second. */
    (void)worker_post(server->workers[0], worker_tell_peers, server->workers[0]);
    (void)pthread_cond_destroy(&taking.changed);
    (void)pthread_mutex_destroy(&taking.lock);
    free(parts);
    log_event(LOG_INFO, "sessions_taken", "from=%u sessions=%" PRIu32 " left_out=%" PRIu32,
              peers->from, taking.sum.taken, taking.sum.left_out);
    return taking.sum;
}

/* Sessions that each worker has room for, all on one listener: an offer says how many of its own go
 * there. */
static uint32_t session_room(const struct server_peers *peers)
{
    const struct server *server = peers->server;
    uint64_t most = peers->sessions_max, room = most;

    for (unsigned i = 0; i < server->worker_count; i++) {
        uint64_t have = metric_get(&worker_metrics(server->workers[i])->sessions_fullest);
        uint64_t left = have < most ? most - have : 0;
        room = left < room ? left : room;
    }
    return room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
}

static enum peer_refusal on_begin(void *context, const struct peer_offer *offer, uint32_t *ret_room)
{
    struct server_peers *peers = context;
    int none = EXCHANGE_NONE;

    if (offer->version != OFFER_VERSION) {
        return PEER_REFUSAL_other_version;
    }
    if (offer->to != peer_book_own(peers->server->peers) ||
        !peer_book_has(peers->server->peers, offer->from)) {
        return PEER_REFUSAL_misdirected;
    }
    if (offer->workers != peers->server->worker_count) {
        return PEER_REFUSAL_other_workers;
    }
    peers->from = offer->from;
    *ret_room = session_room(peers);
    return atomic_compare_exchange_strong(&peers->state, &none, EXCHANGE_TAKING)
               ? PEER_REFUSAL_COUNT
               : PEER_REFUSAL_busy;
}

static void on_finish(void *context)
{
    struct server_peers *peers = context;
    int taking = EXCHANGE_TAKING;

    (void)atomic_compare_exchange_strong(&peers->state, &taking, EXCHANGE_NONE);
}

static void take_from_peer(struct server_peers *peers, int fd, const char *where)
{
    const struct peer_taker taker = {
        .context = peers, .begin = on_begin, .take = on_take, .finish = on_finish};
    struct peer_tls_link *link = peer_tls_accept(peers->tls, fd, peers->stop_fd, SHAKE_MS);

    if (link == NULL) {
        refuse_peer(peers, PEER_REFUSAL_stranger, where);
        return;
    }
    peer_tls_set_time(link, TAKE_MS);
    const struct peer_channel channel = peer_tls_channel(link);
    enum peer_refusal why = peer_take(&channel, &taker);
    if (why != PEER_REFUSAL_COUNT) {
        refuse_peer(peers, why, where);
    }
    peer_tls_close(link);
}

static void *accept_peers(void *context)
{
    struct server_peers *peers = context;
    struct pollfd fds[] = {{.fd = peers->listen_fd, .events = POLLIN},
                           {.fd = peers->stop_fd, .events = POLLIN}};

    (void)pthread_setname_np(pthread_self(), "peers");
    while (fds[1].revents == 0) {
        if (poll(fds, 2, -1) < 0 || fds[0].revents == 0) {
            continue;
        }
        union sockaddr_any name;
        socklen_t name_len = sizeof(name);
        struct address remote;
        char where[ADDRESS_TEXT_MAX];
        int fd = accept4(peers->listen_fd, &name.any, &name_len, SOCK_CLOEXEC);
        if (fd >= 0) {
            sockaddr_to_address(&name, name_len, &remote);
            take_from_peer(peers, fd, address_format(&remote, where));
        }
    }
    return NULL;
}

/* ---- giving ---- */

struct gift {
    struct server *server;
    struct peer_shares shares;
    struct dtls_gift now; /* for the peer whose turn it is */
    uint32_t count;
};

static void gift_pack(void *context, struct pack *out)
{
    struct gift *gift = context;

    pack_uint(out, giver_clock_ms(gift->server), 8);
    handover_pack_sessions(gift->server, &gift->now, out);
}

static void gift_forget(void *context)
{
    struct gift *gift = context;

    for (unsigned i = 0; i < gift->server->worker_count; i++) {
        gift->count += listen_forget(worker_clients(gift->server->workers[i]), &gift->now);
    }
    peer_book_give(gift->server->peers, gift->now.takers, gift->now.to);
}

static void log_not_given(const struct config_peer *peer, enum peer_refusal why)
{
    char where[ADDRESS_TEXT_MAX];

    log_event(LOG_WARNING, "sessions_not_given", "to=%u peer=%s reason=%s", peer->number,
              address_format(&peer->address, where), peer_refusals[why].name);
}

static void *ask_candidate(void *context)
{
    struct candidate *candidate = context;
    const struct server *server = candidate->server;
    const struct peer_offer offer = {.version = OFFER_VERSION,
                                     .from = peer_book_own(server->peers),
                                     .to = candidate->peer->number,
                                     .workers = server->worker_count};
    enum peer_refusal why = PEER_REFUSAL_stranger;
    struct peer_tls_link *link =
        peer_tls_connect(server->sessions->tls, &candidate->peer->address, SHAKE_MS);

    if (link != NULL) {
        const struct peer_channel channel = peer_tls_channel(link);
        why = peer_offer(&channel, &offer, &candidate->room);
    }
    if (why != PEER_REFUSAL_COUNT) {
        log_not_given(candidate->peer, why);
        peer_tls_close(link);
        link = NULL;
    }
    candidate->link = link;
    return NULL;
}

static int by_room(const void *one, const void *other)
{
    const struct candidate *a = one, *b = other;

    return (a->room > b->room) - (a->room < b->room);
}

/* All of them at once, within SHAKE_MS. Those that agree are left, the one with the least room
 * first. */
static void ask_candidates(struct server *server)
{
    struct server_peers *peers = server->sessions;
    size_t count = 0;

    for (size_t i = 0; i < peers->other_count; i++) {
        struct candidate *candidate = &peers->candidates[i];
        *candidate = (struct candidate){.server = server, .peer = &peers->others[i]};
        candidate->is_asked =
            pthread_create(&candidate->thread, NULL, ask_candidate, candidate) == 0;
    }
    for (size_t i = 0; i < peers->other_count; i++) {
        struct candidate *candidate = &peers->candidates[i];
        if (candidate->is_asked) {
            (void)pthread_join(candidate->thread, NULL);
        }
        if (candidate->link != NULL) {
            peers->candidates[count++] = *candidate;
        }
    }
    peers->candidate_count = count;
    qsort(peers->candidates, count, sizeof(*peers->candidates), by_room);
}

static void put_given(struct server *server, uint32_t given, uint32_t taken, uint8_t to)
{
    struct json_writer line;
    char buffer[256];

    json_writer_init(&line, buffer, sizeof(buffer));
    json_begin(&line);
    json_uint(&line, "given", given);
    json_uint(&line, "taken", taken);
    json_uint(&line, "to", to);
    (void)json_end(&line);
    control_tell(server, server->giving.client, &line);
}

/* What was chosen for it. */
static enum peer_gift give_to(struct gift *gift, const struct candidate *candidate)
{
    const struct peer_giver giver = {.context = gift, .pack = gift_pack, .forget = gift_forget};
    const struct peer_channel channel = peer_tls_channel(candidate->link);
    struct peer_taken taken = {0};

    gift->count = 0;
    enum peer_gift result = peer_give(&channel, &giver, &taken);
    if (result == PEER_GIFT_KEPT) {
        log_not_given(candidate->peer, PEER_REFUSAL_broken);
        peer_shares_return(&gift->shares, candidate->peer->number);
        return result;
    }
    log_event(LOG_INFO, "sessions_given", "to=%u sessions=%" PRIu32 " taken=%" PRIu32 " is_sure=%s",
              candidate->peer->number, gift->count, taken.taken,
              result == PEER_GIFT_GIVEN ? "yes" : "no");
    put_given(gift->server, gift->count, taken.taken, candidate->peer->number);
    return result;
}

/* Each candidate has an equal part of the time that is left: one that is slow takes from none. */
static enum peer_gift give_shares(struct gift *gift)
{
    const struct server_peers *peers = gift->server->sessions;
    uint64_t now_ms = loop_clock_us(gift->server->loop) / 1000, end_ms = now_ms + GIVE_MS;
    enum peer_gift worst = PEER_GIFT_KEPT;

    for (size_t i = 0; i < peers->candidate_count; i++) {
        const struct candidate *candidate = &peers->candidates[i];
        size_t replicas = peers->candidate_count - i;
        peer_tls_set_time(candidate->link, (uint32_t)((end_ms - now_ms) / replicas));
        gift->now = (struct dtls_gift){gift->shares.takers, candidate->peer->number};
        peer_shares_choose(&gift->shares, gift->now.to, candidate->room, replicas);
        enum peer_gift result = give_to(gift, candidate);
        worst = result > worst ? result : worst;
        now_ms = loop_clock_us(gift->server->loop) / 1000;
        now_ms = now_ms < end_ms ? now_ms : end_ms;
    }
    return worst;
}

/* Workers are parked. @return how it ended: the worst of all that were given */
static enum peer_gift give_sessions(struct server *server)
{
    struct gift gift = {.server = server};
    enum peer_gift result = PEER_GIFT_KEPT;

    if (peer_shares_init(&gift.shares, server->worker_count)) {
        for (unsigned i = 0; i < server->worker_count; i++) {
            listen_count_shares(worker_clients(server->workers[i]),
                                &gift.shares.counts[(size_t)i * DTLS_SHARES]);
        }
        uint64_t all = peer_shares_left(&gift.shares);
        result = give_shares(&gift);
        uint64_t kept = peer_shares_left(&gift.shares);
        if (kept > 0 && kept == all) {
            result = PEER_GIFT_KEPT; /* those that have agreed have no room */
        }
        if (kept > 0) {
            log_event(LOG_WARNING, "sessions_kept", "sessions=%" PRIu64, kept);
        }
    }
    peer_shares_clear(&gift.shares);
    return result;
}

static void dismiss_candidates(struct server_peers *peers)
{
    for (size_t i = 0; i < peers->candidate_count; i++) {
        peer_tls_close(peers->candidates[i].link);
    }
    peers->candidate_count = 0;
}

static void finish_giving(struct server *server)
{
    static const char *const ends[] = {
        [PEER_GIFT_KEPT] = "no other replica took the DTLS sessions: see the log",
        [PEER_GIFT_GIVEN] = NULL,
        [PEER_GIFT_UNSURE] = "the connection broke in the middle: DTLS sessions may be lost"};
    enum peer_gift result = server_park_workers(server) ? give_sessions(server) : PEER_GIFT_KEPT;
    bool ends_process = server->giving.ends_process;

    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_go_on(server->workers[i]);
    }
    dismiss_candidates(server->sessions);
    atomic_store(&server->sessions->state, EXCHANGE_CLOSED);
    control_finish(server, server->giving.client, ends[result]);
    server->giving = (struct giving){.is_on = false};
    if (ends_process) {
        server_drain(server, "criproxyctl");
    }
}

const char *server_give(struct server *server, uint64_t client, bool ends_process)
{
    int none = EXCHANGE_NONE;

    if (server->restart.state != RESTART_NONE) {
        return "a restart is in progress";
    }
    if (server->giving.is_on) {
        return "sessions are being given";
    }
    (void)atomic_compare_exchange_strong(&server->sessions->state, &none, EXCHANGE_GIVING);
    if (none == EXCHANGE_TAKING) {
        return "sessions of another replica are being taken over: try again";
    }
    ask_candidates(server);
    for (unsigned i = 0; i < server->worker_count; i++) {
        (void)worker_tell(server->workers[i], WORKER_HOLD);
    }
    /* They hear of it behind that: no client is refused what its taker will answer. */
    int error = server->is_draining ? 0 : server_pause(server, true);
    if (error != 0) {
        for (unsigned i = 0; i < server->worker_count; i++) {
            worker_go_on(server->workers[i]);
        }
        dismiss_candidates(server->sessions);
        return strerror(-error);
    }
    server->giving = (struct giving){.is_on = true,
                                     .ends_process = ends_process,
                                     .client = client,
                                     .deadline_ms = loop_clock_us(server->loop) / 1000 + HOLD_MS};
    return NULL;
}

uint64_t server_give_turn(struct server *server, uint64_t now_ms)
{
    bool is_quiet = true;

    if (!server->giving.is_on) {
        return UINT64_MAX;
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        is_quiet = is_quiet && (worker_state(server->workers[i]) & WORKER_QUIET) != 0;
    }
    if (!is_quiet && now_ms < server->giving.deadline_ms) {
        return server->giving.deadline_ms;
    }
    finish_giving(server);
    return UINT64_MAX;
}

void server_peers_pause(struct server *server, bool is_paused)
{
    int before = is_paused ? EXCHANGE_NONE : EXCHANGE_CLOSED;

    if (server->sessions != NULL) {
        (void)atomic_compare_exchange_strong(&server->sessions->state, &before,
                                             is_paused ? EXCHANGE_CLOSED : EXCHANGE_NONE);
    }
}

/* ---- begin and end ---- */

void server_peers_close(struct server *server)
{
    struct server_peers *peers = server->sessions;
    static const uint64_t one = 1;

    if (peers == NULL) {
        return;
    }
    if (peers->is_started) {
        ssize_t put = write(peers->stop_fd, &one, sizeof(one));
        (void)put;
        (void)pthread_join(peers->thread, NULL);
    }
    if (peers->listen_fd >= 0) {
        (void)close(peers->listen_fd);
    }
    if (peers->stop_fd >= 0) {
        (void)close(peers->stop_fd);
    }
    dismiss_candidates(peers);
    peer_tls_free(peers->tls);
    peers->tls = NULL;
    peers->is_started = false;
    peers->listen_fd = peers->stop_fd = -1;
}

int server_peers_open(struct server *server)
{
    const struct config *config = server_config(server);
    char error_text[256] = "";

    if (config->cluster_certificate[0] == '\0') {
        return 0;
    }
    struct server_peers *peers = calloc(1, sizeof(*peers));
    if (peers == NULL) {
        return -ENOMEM;
    }
    peers->server = server;
    peers->listen_fd = peers->stop_fd = -1;
    peers->sessions_max = config->tls_sessions;
    for (size_t i = 0; i < config->cluster.peer_count && i < CONFIG_PEERS_MAX; i++) {
        peers->others[peers->other_count++] = config->cluster.peers[i];
    }
    server->sessions = peers;
    credentials_check_secrecy(config->cluster_key);
    peers->tls = peer_tls_load(config->cluster_certificate, config->cluster_key, config->cluster_ca,
                               error_text, sizeof(error_text));
    if (peers->tls == NULL) {
        log_event(LOG_ERROR, "cluster_failed", "error=\"%s\"", error_text);
        return -EINVAL;
    }
    peers->stop_fd = eventfd(0, EFD_CLOEXEC);
    peers->listen_fd = bind_socket(BIND_STREAM, &config->cluster.listen, false);
    if (peers->stop_fd < 0 || peers->listen_fd < 0) {
        return peers->listen_fd < 0 ? peers->listen_fd : -errno;
    }
    int error = pthread_create(&peers->thread, NULL, accept_peers, peers);
    peers->is_started = error == 0;
    return -error;
}

void server_peers_count(const struct server *server, struct metrics *sum)
{
    for (unsigned i = 0; server->sessions != NULL && i < PEER_REFUSAL_COUNT; i++) {
        metric_add(&sum->peers_refused[i],
                   atomic_load_explicit(&server->sessions->refused[i], memory_order_relaxed));
    }
}
