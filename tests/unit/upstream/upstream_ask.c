/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests through net/upstream on the real network, for the tests beside it. Reads
 * lines, and answers each with one when it is over:
 *
 *     ask TRANSPORT ADDRESS HOST|- METHOD PATH [PAYLOAD]   METHOD is a code's number
 *                          -> "response 2.05 PAYLOAD" or "failure STATUS SENT WHY|-"
 *     big BYTES TRANSPORT ADDRESS HOST|- METHOD PATH       a payload of so many bytes
 *     many COUNT TRANSPORT ADDRESS HOST|- METHOD PATH      at once -> "answered N of COUNT"
 *     keep TRANSPORT ADDRESS HOST|- PATH                   Observe 0: each response a line
 *     drop                                 the kept one is deregistered -> "dropped"
 *     credentials CA|- CERTIFICATE|- KEY|- IDENTITY|- HEX|-
 *                                          from now on -> "loaded" or "error: ..."
 *     short NUMBER                         the SSL_new() of that number from now on fails -> "set"
 *     keyless NUMBER                       so many derivations of keys for our own records fail
 *                                          from now on, as they do without memory -> "set"
 *     counters             -> "counters SESSIONS OPENED FAILURES LOST REPEATED BACKED-OFF"
 *
 * Options: --idle MS, --handshake MS, --back-off MS, --sessions N, --message BYTES,
 * --silence MS, --retransmit N, --native 0|1,
 * --openssl-records 0|1.
 */
#include "base/log.h"
#include "coap/option.h"
#include "net/dtls_record.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "net/watch.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORDS_MAX 10

static struct loop *loop;
static struct upstream *upstream;
static struct upstream_credentials *credentials;
static struct upstream_request *kept;
static struct asked *kept_asked;
static struct upstream_options options = {
    .sessions_max = 8,
    .requests_max = 1024,
    .idle_ms = 60000,
    .handshake_ms = 30000,
    .back_off_ms = 200,
    .back_off_max_ms = 1000,
    .message_bytes = 65536,
    .seed = 1,
};
static uint32_t max_retransmit = 4, ack_timeout_ms = 300;
static uint32_t is_native, has_openssl_records;
static unsigned many_left, many_count, many_good;
static unsigned long fails_after, keyless;

bool __real_records_begin(struct record_crypto *crypto, const SSL *ssl,
                          struct records *ret_records);
bool __wrap_records_begin(struct record_crypto *crypto, const SSL *ssl,
                          struct records *ret_records);

/* In place of OpenSSL's, also for libcoap. */
SSL *SSL_new(SSL_CTX *context)
{
    static SSL *(*next)(SSL_CTX *);

    if (fails_after > 0 && --fails_after == 0) {
        ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE);
        return NULL;
    }
    if (next == NULL) {
        void *found = dlsym(RTLD_NEXT, "SSL_new");
        memcpy(&next, &found, sizeof found);
    }
    return next(context);
}

#if ECONNREFUSED != 111
/* qemu-user 7.2 leaves SO_ERROR in the numbers of the machine that it runs on. */
int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict len)
{
    static int (*next)(int, int, int, void *restrict, socklen_t *restrict);
    int err = 0;

    if (next == NULL) {
        void *found = dlsym(RTLD_NEXT, "getsockopt");
        memcpy(&next, &found, sizeof found);
    }
    err = next(fd, level, name, value, len);
    if (err == 0 && level == SOL_SOCKET && name == SO_ERROR && *(int *)value == 111) {
        *(int *)value = ECONNREFUSED;
    }
    return err;
}
#endif

bool __wrap_records_begin(struct record_crypto *crypto, const SSL *ssl, struct records *ret_records)
{
    if (keyless > 0) {
        keyless--;
        return false;
    }
    return __real_records_begin(crypto, ssl, ret_records);
}

/* A request's bytes live until it is over. */
struct asked {
    struct asked *next, **link;
    bool is_one_of_many;
    bool is_kept;
    uint8_t token[8];
    uint8_t bytes[512];
    uint8_t *payload;
};

static struct asked *all;

static void over(struct asked *asked)
{
    *asked->link = asked->next;
    if (asked->next != NULL) {
        asked->next->link = asked->link;
    }
    free(asked->payload);
    free(asked);
}

static void one_of_many(bool is_good)
{
    many_good += is_good;
    if (--many_left == 0) {
        printf("answered %u of %u\n", many_good, many_count);
    }
}

static void on_response(void *context, void *user, const struct message *response)
{
    struct asked *asked = user;
    (void)context;
    if (asked->is_one_of_many) {
        one_of_many(CODE_CLASS(response->code) == 2);
    } else {
        bool is_notification = options_have(response->options, OPTION_observe);
        printf("%s %u.%02u %zu %.*s\n", is_notification ? "notification" : "response",
               CODE_CLASS(response->code), CODE_DETAIL(response->code), response->payload.len,
               response->payload.len < 100 ? (int)response->payload.len : 100,
               response->payload.data != NULL ? (const char *)response->payload.data : "");
    }
    fflush(stdout);
    if (!asked->is_kept) {
        over(asked);
    }
}

static const char *status_name(enum upstream_status status)
{
    switch (status) {
    case UPSTREAM_REFUSED:
        return "refused";
    case UPSTREAM_CONNECT_TIMEOUT:
        return "connect-timeout";
    case UPSTREAM_HANDSHAKE_FAILED:
        return "handshake-failed";
    case UPSTREAM_BAD_CERTIFICATE:
        return "bad-certificate";
    case UPSTREAM_CERTIFICATE_EXPIRED:
        return "certificate-expired";
    case UPSTREAM_CERTIFICATE_UNKNOWN:
        return "certificate-unknown";
    case UPSTREAM_NAME_MISMATCH:
        return "name-mismatch";
    case UPSTREAM_CLOSED:
        return "closed";
    case UPSTREAM_TIMEOUT:
        return "timeout";
    case UPSTREAM_RESET:
        return "reset";
    case UPSTREAM_INVALID:
        return "invalid";
    case UPSTREAM_DISPLACED:
        return "displaced";
    case UPSTREAM_FULL:
        return "full";
    case UPSTREAM_BACKING_OFF:
        return "backing-off";
    case UPSTREAM_MESSAGE_TOO_LARGE:
        return "too-large";
    case UPSTREAM_UNSUPPORTED:
        return "unsupported";
    case UPSTREAM_NO_MEMORY:
        return "no-memory";
    case UPSTREAM_OSCORE_UNKNOWN:
    case UPSTREAM_OSCORE_REPLAYED:
    case UPSTREAM_OSCORE_UNDECRYPTED:
    case UPSTREAM_OSCORE_REFUSED:
    case UPSTREAM_OSCORE_UNPROTECTED:
    case UPSTREAM_OSCORE_UNVERIFIED:
    case UPSTREAM_OSCORE_STATE:
    case UPSTREAM_OSCORE_IN_USE:
        return "oscore";
    }
    return "?";
}

static void on_failure(void *context, void *user, const struct upstream_failure *failure)
{
    struct asked *asked = user;
    (void)context;
    if (asked->is_one_of_many) {
        one_of_many(false);
    } else {
        printf("failure %s %s %s\n", status_name(failure->status),
               failure->was_sent ? "sent" : "unsent", failure->why != NULL ? failure->why : "-");
    }
    fflush(stdout);
    if (asked->is_kept) {
        kept = NULL;
    }
    over(asked);
}

static const struct upstream_handler handler = {.on_response = on_response,
                                                .on_failure = on_failure};

static bool transport_of(const char *word, enum transport *ret_transport)
{
    for (int i = TRANSPORT_NONE; i < TRANSPORT_COUNT; i++) {
        if (strcmp(word, transport_row((enum transport)i)->word) == 0) {
            *ret_transport = (enum transport)i;
            return transport_has_session(*ret_transport);
        }
    }
    return false;
}

/* @p words: TRANSPORT ADDRESS HOST METHOD PATH [PAYLOAD] */
static struct upstream_request *ask(char **words, size_t payload_len, bool is_one_of_many,
                                    bool is_kept)
{
    static uint64_t counter;
    struct asked *asked = calloc(1, sizeof *asked);
    asked->link = &all;
    asked->next = all;
    if (all != NULL) {
        all->link = &asked->next;
    }
    all = asked;
    struct upstream_target target = {.credentials = credentials,
                                     .ack_timeout_ms = ack_timeout_ms,
                                     .ack_random_factor = 150,
                                     .max_retransmit = max_retransmit};
    struct message_writer writer = {.buffer = asked->bytes, .capacity = sizeof asked->bytes};

    if (!transport_of(words[0], &target.transport) ||
        !address_parse(words[1], strlen(words[1]), 0, &target.address)) {
        over(asked);
        printf("error: %s %s\n", words[0], words[1]);
        return NULL;
    }
    target.host = strcmp(words[2], "-") != 0 ? words[2] : NULL;
    asked->is_one_of_many = is_one_of_many;
    asked->is_kept = is_kept;
    kept_asked = is_kept ? asked : kept_asked;
    counter++;
    memcpy(asked->token, &counter, sizeof asked->token);
    if (is_kept) {
        message_writer_option_uint(&writer, OPTION_observe, 0);
    }
    message_writer_option(&writer, OPTION_uri_path,
                          (struct bytes){(const uint8_t *)words[4], strlen(words[4])});
    struct message message = {.code = (uint8_t)strtoul(words[3], NULL, 10),
                              .token = {asked->token, sizeof asked->token},
                              .options = {asked->bytes, writer.len}};
    if (words[5] != NULL) {
        payload_len = strlen(words[5]);
    }
    if (payload_len > 0) {
        asked->payload = malloc(payload_len);
        memset(asked->payload, 'x', payload_len);
        if (words[5] != NULL) {
            memcpy(asked->payload, words[5], payload_len);
        }
        message.payload = (struct bytes){asked->payload, payload_len};
    }
    return upstream_send(upstream, &target, &message, is_kept, asked);
}

static const char *or_null(const char *word)
{
    return strcmp(word, "-") != 0 ? word : NULL;
}

static void load(char **words)
{
    char why[256] = "";
    const struct upstream_credentials_options wanted = {
        .ca_file = or_null(words[0]),
        .certificate_file = or_null(words[1]),
        .key_file = or_null(words[2]),
        .psk_identity = or_null(words[3]),
        .psk_key_hex = or_null(words[4]),
    };
    struct upstream_credentials *fresh = upstream_credentials_load(&wanted, why, sizeof why);
    if (fresh == NULL) {
        printf("error: %s\n", why);
        return;
    }
    upstream_credentials_release(credentials);
    credentials = fresh;
    printf("loaded\n");
}

static void print_counters(void)
{
    const struct upstream_counters *c = upstream_counters(upstream);
    printf("counters %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
           " %" PRIu64 " %" PRIu64 "\n",
           c->sessions, c->sessions_opened, c->handshake_failures, c->sessions_lost,
           c->requests_repeated, c->backed_off, c->records_unopened, c->sessions_resumed);
}

static void handle(char *line)
{
    char *words[WORDS_MAX + 1] = {0};
    size_t count = 0;
    for (char *at = line; *at != '\0' && count < WORDS_MAX;) {
        size_t len = strcspn(at, " ");
        words[count++] = at;
        at += len;
        if (*at == ' ') {
            *at = '\0';
            at++;
        }
    }
    if (count >= 6 && strcmp(words[0], "ask") == 0) {
        (void)ask(words + 1, 0, false, false);
    } else if (count == 7 && strcmp(words[0], "big") == 0) {
        (void)ask(words + 2, strtoul(words[1], NULL, 10), false, false);
    } else if (count == 7 && strcmp(words[0], "many") == 0) {
        many_left = many_count = (unsigned)strtoul(words[1], NULL, 10);
        many_good = 0;
        for (unsigned i = 0; i < many_count; i++) {
            (void)ask(words + 2, 0, true, false);
        }
    } else if (count == 5 && strcmp(words[0], "keep") == 0) {
        char get[] = "1";
        char *request[] = {words[1], words[2], words[3], get, words[4], NULL};
        kept = ask(request, 0, false, true);
    } else if (count == 1 && strcmp(words[0], "drop") == 0) {
        if (kept != NULL) {
            upstream_cancel(upstream, kept, true);
            over(kept_asked);
        }
        kept = NULL;
        printf("dropped\n");
    } else if (count == 6 && strcmp(words[0], "credentials") == 0) {
        load(words + 1);
    } else if (count == 2 && strcmp(words[0], "short") == 0) {
        fails_after = strtoul(words[1], NULL, 10);
        printf("set\n");
    } else if (count == 2 && strcmp(words[0], "keyless") == 0) {
        keyless = strtoul(words[1], NULL, 10);
        printf("set\n");
    } else if (count == 1 && strcmp(words[0], "counters") == 0) {
        print_counters();
    } else {
        printf("error: what?\n");
    }
    fflush(stdout);
}

static void on_input(void *context, int fd)
{
    static char buffer[4096];
    static size_t len;
    (void)context;
    ssize_t got = read(fd, buffer + len, sizeof buffer - 1 - len);
    if (got <= 0) {
        loop_stop(loop);
        return;
    }
    len += (size_t)got;
    buffer[len] = '\0';
    for (char *end; (end = strchr(buffer, '\n')) != NULL;) {
        *end = '\0';
        handle(buffer);
        len -= (size_t)(end + 1 - buffer);
        memmove(buffer, end + 1, len + 1);
    }
}

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    return upstream != NULL ? upstream_turn(upstream, now_ms) : UINT64_MAX;
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        uint32_t *value;
    } settings[] = {
        {"--idle", &options.idle_ms},
        {"--handshake", &options.handshake_ms},
        {"--back-off", &options.back_off_ms},
        {"--back-off-max", &options.back_off_max_ms},
        {"--sessions", &options.sessions_max},
        {"--message", &options.message_bytes},
        {"--silence", &options.silence_ms},
        {"--retransmit", &max_retransmit},
        {"--ack-timeout", &ack_timeout_ms},
        {"--native", &is_native},
        {"--openssl-records", &has_openssl_records},
    };
    for (int i = 1; i + 1 < argc; i += 2) {
        for (size_t j = 0; j < sizeof settings / sizeof settings[0]; j++) {
            if (strcmp(argv[i], settings[j].name) == 0) {
                *settings[j].value = (uint32_t)strtoul(argv[i + 1], NULL, 10);
            }
        }
    }
    options.has_openssl_records = has_openssl_records != 0;
    options.engine = is_native != 0 ? UPSTREAM_ENGINE_NATIVE : UPSTREAM_ENGINE_LIBCOAP;
    (void)signal(SIGPIPE, SIG_IGN); /* as the daemon does: a peer may close at any time */
    log_set(LOG_ERROR, false);      /* what is tested is on standard output */
    if (loop_new(on_turn, NULL, &loop) != 0 ||
        upstream_new(loop, &options, &handler, NULL, &upstream) != 0) {
        return 1;
    }
    struct watch *input;
    if (watch_new(loop, STDIN_FILENO, on_input, NULL, &input) != 0) {
        return 1;
    }
    int error = loop_run(loop);
    watch_free(input);
    upstream_free(upstream);
    while (all != NULL) {
        over(all);
    }
    upstream_credentials_release(credentials);
    loop_free(loop);
    return error == 0 ? 0 : 1;
}
