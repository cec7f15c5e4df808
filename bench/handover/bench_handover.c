/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What handing DTLS sessions over to the next process costs: packing them, writing the file, taking
 * it, and going on with them.
 *
 * bench_handover COUNT FOLDER    COUNT sessions, each from an address of its own, with an identity
 * and a pre-shared key of its own; FOLDER is where the file of keys is written
 *
 * Prints the bytes of the file, and the CPU time of each step in microseconds a session. Nothing
 * else in the program calls these functions, so callgrind can count them by name.
 */
#include "net/credentials.h"
#include "net/dtls_internal.h"
#include "net/handover_file.h"
#include "net/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define KEY_BYTES 16u
#define SESSION_AGE_MS 1000u

static void must(bool is_good, const char *what)
{
    if (!is_good) {
        (void)fprintf(stderr, "bench_handover: %s\n", what);
        exit(1);
    }
}

static double cpu_us(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- the sessions ---- */

static void write_keys(const char *path, unsigned count)
{
    FILE *out = fopen(path, "w");

    must(out != NULL, path);
    for (unsigned i = 0; i < count; i++) {
        (void)fprintf(out, "sensor-%06u:%032x\n", i, i);
    }
    must(fclose(out) == 0, path);
}

static struct identity *identity_of(unsigned number)
{
    char name[32];
    size_t len = (size_t)snprintf(name, sizeof name, "sensor-%06u", number);
    struct identity *identity = identity_new(IDENTITY_PSK, len + 1, NULL);

    must(identity != NULL, "no memory");
    identity_add_name(identity, (const unsigned char *)name, len);
    return identity;
}

static void add_sessions(struct dtls_listener *listener, unsigned count)
{
    struct records records = {.next = 3, .newest = 7, .seen = 255, .has_cid = true, .cid_len = 4};

    for (unsigned i = 0; i < count; i++) {
        struct udp_path path = {.local = *dtls_local(listener)};
        path.remote = path.local;
        path.remote.port = 40001;
        path.remote.ip[1] = (uint8_t)(16 + (i >> 16));
        path.remote.ip[2] = (uint8_t)(i >> 8);
        path.remote.ip[3] = (uint8_t)i;
        memcpy(records.ours.key, &i, sizeof i);
        memcpy(records.theirs.key, &i, sizeof i);
        struct dtls_session *session = session_adopt(listener, &path, &records, i);
        must(session != NULL, "no memory");
        session->identity = identity_of(i);
        session->started_ms = session->used_ms = listener->now_ms - SESSION_AGE_MS;
    }
}

static uint64_t no_turn(void *context, uint64_t now_ms)
{
    (void)context, (void)now_ms;
    return UINT64_MAX;
}

static struct dtls_listener *listener_new(struct loop *loop, struct credentials *credentials,
                                          unsigned count)
{
    static const struct dtls_handler none;
    struct dtls_options options = {.udp = {.fd = -1},
                                   .credentials = credentials,
                                   .sessions_max = count,
                                   .handshakes_max = 1,
                                   .cid_bytes = 4};
    struct dtls_listener *listener = NULL;

    must(address_parse("127.0.0.1", 9, 0, &options.udp.bind), "address");
    must(dtls_listen(loop, &options, &none, NULL, &listener) == 0, "no listener");
    return listener;
}

/* ---- what is measured ---- */

struct step {
    const char *name;
    double us;
};

static void note(struct step *step, const char *name, double *at_us)
{
    double now_us = cpu_us();

    *step = (struct step){name, now_us - *at_us};
    *at_us = now_us;
}

static void go_over(struct dtls_listener *before, struct dtls_listener *after, unsigned count)
{
    struct pack body = {0}, taken = {0};
    struct unpack in = {0};
    struct step steps[5];
    enum handover_refusal why = HANDOVER_REFUSAL_COUNT;
    double at_us = cpu_us(), sum_us = 0;

    dtls_hand_over(before, NULL, &body);
    note(&steps[0], "pack", &at_us);
    int fd = handover_file_open_memory();
    must(fd >= 0 && handover_file_write(fd, &body) == 0, "not written");
    size_t bytes = body.len;
    pack_clear(&body);
    note(&steps[1], "write", &at_us);
    must(handover_file_take(fd, &taken, &in, &why), "not taken");
    note(&steps[2], "take", &at_us);
    const struct dtls_taking how = {.shift_ms = 0};
    must(dtls_take_over(after, &in, &how), "not taken over");
    note(&steps[3], "go on", &at_us);
    pack_clear(&taken);
    (void)close(fd);
    note(&steps[4], "wipe", &at_us);
    must(dtls_counters(after)->taken_over == count, "not all");
    (void)printf("sessions %u, bytes each %zu", count, bytes / count);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        (void)printf(", %s %.2f us", steps[i].name, steps[i].us / count);
        sum_us += steps[i].us;
    }
    (void)printf(", all %.1f ms\n", sum_us / 1000);
}

int main(int argc, char **argv)
{
    unsigned count = argc == 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    char path[4096], error[256] = "";
    struct loop *loop = NULL;

    must(count > 0 && count <= PSK_COUNT_MAX, "usage: bench_handover COUNT FOLDER");
    (void)snprintf(path, sizeof path, "%s/keys", argv[2]);
    write_keys(path, count);
    const struct credentials_options options = {.psk_file = path};
    struct credentials *credentials = credentials_load(&options, error, sizeof error);
    must(credentials != NULL, error);
    must(loop_new(no_turn, NULL, &loop) == 0, "no loop");
    struct dtls_listener *before = listener_new(loop, credentials, count);
    struct dtls_listener *after = listener_new(loop, credentials, count);
    add_sessions(before, count);
    go_over(before, after, count);
    return 0; /* as execve() ends it: closing says goodbye to each session */
}
