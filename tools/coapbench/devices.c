/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that call home: each opens a session to a proxy, on DTLS or TLS, under an identity of its
 * own, and answers what it is asked over that: GET with its identity, anything else with 2.04. Some
 * of them open another session all the time, without a word about the old one, as after a restart
 * or behind a NAT that has forgotten it.
 */
#include "address.h"
#include "clock.h"
#include "commands.h"
#include "link.h"
#include "wire.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_CLIENTS = 1,
    OPT_IDENTITY,
    OPT_KEY,
    OPT_AGAIN,
    OPT_NOTIFY,
    OPT_SCHEME,
    OPT_TIME,
    OPT_HELP,
};

enum {
    POLL_MS = 5,
    CON_PING_LEN = 4,
    ANSWER_MAX = 300,
    OBSERVE = 6, /* the option */
};

static const struct option long_options[] = {
    {"clients", required_argument, NULL, OPT_CLIENTS},
    {"identity", required_argument, NULL, OPT_IDENTITY},
    {"key", required_argument, NULL, OPT_KEY},
    {"again", required_argument, NULL, OPT_AGAIN},
    {"notify", required_argument, NULL, OPT_NOTIFY},
    {"scheme", required_argument, NULL, OPT_SCHEME},
    {"time", required_argument, NULL, OPT_TIME},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

/* The observer of a device: the last client that has asked to. */
struct observer {
    uint32_t endpoint;
    uint8_t token_len; /* 0: no request */
    uint8_t token[8];
};

struct devices {
    struct link_options link_options;
    uint64_t again, time_ns; /* reconnections a minute */
    uint64_t notify;         /* notifications a second, of all together */
    uint64_t notified, next_notified;
    struct observer *observers; /* for each device */
    struct link *link;
    uint64_t asked, next; /* so far; the next one that opens another session */
};

static void print_usage(void)
{
    puts("usage: coapbench devices [OPTION]... ADDRESS:PORT\n"
         "Sessions with a proxy, over which their devices are asked; ends on SIGTERM.\n"
         "Prints \"holding\" when all are open.\n"
         "  --clients N         devices (10)\n"
         "  --identity TEXT     of the pre-shared keys, with the device's number behind it (d-)\n"
         "  --key TEXT          of all of them (secret)\n"
         "  --scheme SCHEME     coaps, coaps+tcp, or coap+tcp, which shows no identity (coaps)\n"
         "  --notify N          notifications each second, of all that are observed (0)\n"
         "  --again N           sessions that are opened anew each minute (0)\n"
         "  --time DURATION     end after this (1h)\n"
         "  --help");
}

/* ---- being asked ---- */

/* Observe: 0 registers, anything else deregisters (RFC 7641 section 2). */
static bool takes_observer(struct devices *devices, uint32_t client, uint32_t endpoint,
                           const struct wire_message *request)
{
    struct observer *observer = &devices->observers[client];
    struct wire_option_iter iter;
    struct view value;
    uint32_t number = 0;

    wire_option_iter_init(&iter, request->options);
    while (number != OBSERVE && wire_option_iter_next(&iter, &number, &value)) {
    }
    if (number != OBSERVE || request->token.len == 0 ||
        request->token.len > sizeof(observer->token)) {
        return false;
    }
    bool is_taken = value.len == 0;
    observer->token_len = is_taken ? (uint8_t)request->token.len : 0;
    observer->endpoint = endpoint;
    memcpy(observer->token, request->token.data, request->token.len);
    return is_taken;
}

/* A notification of the next device that is observed; NON, with the count of all as its number. */
static void notify(struct devices *devices)
{
    uint64_t at = devices->next_notified++;
    uint32_t client = (uint32_t)(at % devices->link_options.clients);
    const struct observer *observer = &devices->observers[client];
    const struct wire_header header = {.type = WIRE_NON,
                                       .code = WIRE_CODE(2, 5),
                                       .mid = (uint16_t)at,
                                       .token = {observer->token, observer->token_len}};
    uint8_t bytes[ANSWER_MAX];
    char text[64];
    struct wire_writer writer;

    if (observer->token_len == 0) {
        return;
    }
    int len = snprintf(text, sizeof(text), "%s%" PRIu32, devices->link_options.identity, client);
    wire_begin(&writer, bytes, sizeof(bytes), &header);
    wire_add_uint(&writer, OBSERVE, (uint32_t)(++devices->notified & 0xffffff));
    wire_add_payload(&writer, (struct view){(const uint8_t *)text, (size_t)len});
    link_send(devices->link, client, observer->endpoint, bytes, writer.len);
}

/* What is due; a round through all devices finds one that is observed, or none is. */
static void notify_due(struct devices *devices, uint64_t passed_ns)
{
    uint64_t due = passed_ns / NS_PER_MS * devices->notify / 1000;

    for (uint32_t looked = 0; devices->notified < due && looked < devices->link_options.clients;
         looked++) {
        notify(devices);
    }
}

static void respond(struct devices *devices, uint32_t client, uint32_t endpoint,
                    const struct wire_message *request)
{
    uint8_t bytes[ANSWER_MAX];
    char text[64];
    struct wire_writer writer;
    const struct wire_header header = {
        .type = request->type == WIRE_CON ? WIRE_ACK : WIRE_NON,
        .code = request->code == WIRE_GET ? WIRE_CODE(2, 5) : WIRE_CODE(2, 4),
        .mid = request->mid,
        .token = request->token,
    };
    int len = snprintf(text, sizeof(text), "%s%" PRIu32, devices->link_options.identity, client);

    wire_begin(&writer, bytes, sizeof(bytes), &header);
    if (request->code == WIRE_GET) {
        if (takes_observer(devices, client, endpoint, request)) {
            wire_add_uint(&writer, OBSERVE, 0);
        }
        wire_add_uint(&writer, WIRE_MAX_AGE, 0);
        wire_add_payload(&writer, (struct view){(const uint8_t *)text, (size_t)len});
    }
    if (!writer.overflow) {
        devices->asked++;
        link_send(devices->link, client, endpoint, bytes, writer.len);
    }
}

static void on_message(void *context, uint32_t client, uint32_t endpoint, const uint8_t *data,
                       size_t len)
{
    struct devices *devices = context;
    struct wire_message message;

    if (!wire_decode(data, len, &message)) {
        return;
    }
    if (message.code == WIRE_EMPTY && message.type == WIRE_CON) {
        uint8_t reset[CON_PING_LEN] = {0x70, 0, data[2], data[3]};
        link_send(devices->link, client, endpoint, reset, sizeof(reset));
    } else if (message.code != WIRE_EMPTY && WIRE_CODE_CLASS(message.code) == 0) {
        respond(devices, client, endpoint, &message);
    }
}

/* ---- the loop ---- */

/* One after another, spread over all of them by a step that their number has no part of. */
static int open_again(struct devices *devices, uint64_t passed_ns)
{
    uint64_t due = passed_ns / NS_PER_MS * devices->again / 60000;

    while (devices->link->reopened < due) {
        uint64_t before = devices->link->reopened;
        uint32_t client = (uint32_t)(devices->next % devices->link_options.clients);
        int err = link_reopen(devices->link, client, UINT64_MAX);
        if (err != 0 || devices->link->reopened == before) {
            return err; /* too many at once: later */
        }
        devices->next += 7919;
    }
    return 0;
}

static int run(struct devices *devices)
{
    struct link_handshakes handshakes = {0};
    /* From the first session on: what a device is asked on a connection comes once. */
    int err = link_deliver(devices->link, on_message, devices);
    if (err == 0) {
        err = link_connect(devices->link, &handshakes);
    }
    uint64_t begin_ns = clock_now_ns();

    if (err == 0 && handshakes.failed > 0) {
        err = -ECONNREFUSED;
    }
    if (err == 0) {
        puts("holding");
        fflush(stdout);
    }
    while (err == 0 && clock_stop == 0 && clock_now_ns() - begin_ns < devices->time_ns) {
        err = open_again(devices, clock_now_ns() - begin_ns);
        notify_due(devices, clock_now_ns() - begin_ns);
        if (err == 0) {
            err = link_wait(devices->link, POLL_MS * NS_PER_MS);
        }
        if (err == 0) {
            err = link_deliver(devices->link, on_message, devices);
        }
    }
    return err;
}

/* ---- the command line ---- */

static int set_scheme(struct devices *devices, const char *text)
{
    static const struct {
        const char *name;
        enum link_kind kind;
    } schemes[] = {{"coaps", LINK_DTLS}, {"coaps+tcp", LINK_TLS}, {"coap+tcp", LINK_TCP}};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strcmp(text, schemes[i].name) == 0) {
            devices->link_options.kind = schemes[i].kind;
            return STATUS_OK;
        }
    }
    return args_bad_value("scheme", text, "coaps, coaps+tcp or coap+tcp");
}

static int set_devices_option(struct devices *devices, int option, const char *text)
{
    uint64_t count;

    switch (option) {
    case OPT_CLIENTS:
        if (args_parse_count(text, LINK_CLIENTS_MAX, &count) != 0 || count == 0) {
            return args_bad_value("clients", text, "a number in range");
        }
        devices->link_options.clients = (uint32_t)count;
        return STATUS_OK;
    case OPT_IDENTITY:
        devices->link_options.identity = text;
        return STATUS_OK;
    case OPT_KEY:
        devices->link_options.key = text;
        return STATUS_OK;
    case OPT_AGAIN:
        return args_parse_count(text, 1000000, &devices->again) == 0
                   ? STATUS_OK
                   : args_bad_value("again", text, "a number in range");
    case OPT_NOTIFY:
        return args_parse_count(text, 1000000, &devices->notify) == 0
                   ? STATUS_OK
                   : args_bad_value("notify", text, "a number in range");
    case OPT_SCHEME:
        return set_scheme(devices, text);
    case OPT_TIME:
        return args_parse_duration(text, &devices->time_ns) == 0
                   ? STATUS_OK
                   : args_bad_value("time", text, "a duration such as 50s");
    default:
        return STATUS_USAGE; /* getopt has said why */
    }
}

static int parse_devices(int argc, char **argv, struct devices *devices)
{
    int option, status = STATUS_OK;

    while (status == STATUS_OK &&
           (option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == OPT_HELP) {
            print_usage();
            return -1;
        }
        status = set_devices_option(devices, option, optarg);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (optind + 1 != argc || address_parse(argv[optind], &devices->link_options.peer) != 0 ||
        !address_is_loopback(&devices->link_options.peer)) {
        fputs("coapbench: devices: expected ADDRESS:PORT on loopback\n", stderr);
        return STATUS_USAGE;
    }
    return STATUS_OK;
}

int devices_main(int argc, char **argv)
{
    struct devices devices = {.link_options = {.clients = 10,
                                               .kind = LINK_DTLS,
                                               .identity = "d-",
                                               .are_devices = true,
                                               .key = "secret",
                                               .suites = "PSK-AES128-CCM8"},
                              .time_ns = 3600 * NS_PER_S};
    int status = parse_devices(argc, argv, &devices);

    if (status != STATUS_OK) {
        return status < 0 ? STATUS_OK : status;
    }
    clock_catch_signals();
    link_raise_descriptor_limit();
    devices.observers = calloc(devices.link_options.clients, sizeof(*devices.observers));
    int err = devices.observers == NULL ? -ENOMEM : link_open(&devices.link_options, &devices.link);
    if (err == 0) {
        err = run(&devices);
    }
    uint64_t reopened = err == 0 ? devices.link->reopened : 0;
    link_close(devices.link);
    free(devices.observers);
    if (err != 0) {
        return args_failed("devices", err);
    }
    printf("asked %" PRIu64 ", opened again %" PRIu64 ", notified %" PRIu64 "\n", devices.asked,
           reopened, devices.notified);
    return STATUS_OK;
}
