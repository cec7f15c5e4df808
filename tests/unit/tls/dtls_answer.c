/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A DTLS server on the real network, for clients of others: answers CoAP
 * requests with 2.05 and the client's identity, sends anything else back.
 *
 *     dtls_answer [psk=FILE] [certificate=FILE key=FILE] [ca=FILE]
 *
 * Prints its port, then lives until standard input ends; prints its counters then.
 */
#include "net/credentials.h"
#include "net/dtls.h"
#include "net/loop.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct loop *loop;
static struct dtls_listener *listener;

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    uint64_t next_ms = dtls_turn(listener, now_ms);
    dtls_flush(listener);
    return next_ms;
}

static void on_datagram(void *context, struct dtls_session *session,
                        const struct datagram *datagram)
{
    const char *name = identity_name(dtls_session_identity(session));
    size_t token_len = datagram->len > 0 ? datagram->data[0] & 0x0fu : 0;
    uint8_t answer[4 + 8 + 1 + IDENTITY_NAME_MAX];
    size_t name_len = strlen(name);
    (void)context;

    if (datagram->len < 4 || datagram->data[0] >> 6 != 1 || token_len > 8 ||
        datagram->len < 4 + token_len) {
        dtls_send(session, datagram->data, datagram->len);
        return;
    }
    memcpy(answer, datagram->data, 4 + token_len);
    answer[0] = (uint8_t)(0x40 | (datagram->data[0] & 0x30) | token_len);
    if ((datagram->data[0] & 0x30) == 0) {
        answer[0] = (uint8_t)(0x60 | token_len); /* CON: piggybacked */
    }
    answer[1] = 0x45;
    answer[4 + token_len] = 0xff;
    memcpy(answer + 5 + token_len, name, name_len);
    dtls_send(session, answer, 4 + token_len + (name_len > 0 ? 1 + name_len : 0));
}

static void on_close(void *context, struct dtls_session *session, const char *why)
{
    (void)context;
    (void)session;
    (void)fprintf(stderr, "close: %s\n", why);
}

static void stop(void *context)
{
    loop_stop(context);
}

static void *wait_for_end(void *context)
{
    char buffer[64];

    while (read(STDIN_FILENO, buffer, sizeof buffer) > 0) {
    }
    (void)loop_post(context, stop, context);
    return NULL;
}

static const char *argument(int count, char **values, const char *name)
{
    size_t len = strlen(name);

    for (int i = 1; i < count; i++) {
        if (strncmp(values[i], name, len) == 0 && values[i][len] == '=') {
            return values[i] + len + 1;
        }
    }
    return NULL;
}

static int serve(struct credentials *credentials)
{
    static const struct dtls_handler handler = {.on_datagram = on_datagram, .on_close = on_close};
    struct dtls_options options = {.udp = {.fd = -1},
                                   .credentials = credentials,
                                   .sessions_max = 10000,
                                   .handshakes_max = 1000,
                                   .handshake_ms = 10000};
    pthread_t thread;

    address_set_ip(&options.udp.bind, (const uint8_t[]){127, 0, 0, 1}, 4, 0);
    if (loop_new(on_turn, NULL, &loop) != 0 ||
        dtls_listen(loop, &options, &handler, NULL, &listener) != 0 ||
        pthread_create(&thread, NULL, wait_for_end, loop) != 0) {
        return 1;
    }
    printf("%u\n", dtls_local(listener)->port);
    (void)fflush(stdout);
    int error = loop_run(loop);
    (void)pthread_join(thread, NULL);
    const struct dtls_counters *counters = dtls_counters(listener);
    uint64_t failures = 0;
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        failures += counters->failed[i];
    }
    printf("handshakes %" PRIu64 " resumptions %" PRIu64 " failures %" PRIu64 "\n",
           counters->handshakes, counters->resumptions, failures);
    dtls_close_listener(listener);
    loop_free(loop);
    return error == 0 ? 0 : 1;
}

int main(int count, char **values)
{
    const struct credentials_options options = {
        .psk_file = argument(count, values, "psk"),
        .certificate_file = argument(count, values, "certificate"),
        .key_file = argument(count, values, "key"),
        .client_ca_file = argument(count, values, "ca"),
    };
    char error[512];
    struct credentials *credentials = credentials_load(&options, error, sizeof error);

    if (credentials == NULL) {
        (void)fprintf(stderr, "%s\n", error);
        return 2;
    }
    int status = serve(credentials);
    credentials_release(credentials);
    return status;
}
