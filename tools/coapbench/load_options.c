/* SPDX-License-Identifier: BSD-2-Clause */
#include "load.h"

#include "args.h"
#include "clock.h"
#include "format.h"
#include "link.h"
#include "wire.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[LOAD_TYPE_COUNT] = {"con", "non", "mix"};

static const char *const scheme_names[LINK_KINDS] = {"coap", "coaps", "coap+tcp", "coaps+tcp"};

/* By code; 0 is no method. */
static const char *const method_names[LOAD_METHODS] = {"",       "get",   "post",  "put",
                                                       "delete", "fetch", "patch", "ipatch"};

enum {
    OPT_PROXY = 1,
    OPT_TARGET,
    OPT_FORM,
    OPT_TYPE,
    OPT_RATE,
    OPT_CLIENTS,
    OPT_WINDOW,
    OPT_IN_FLIGHT,
    OPT_THINK,
    OPT_COUNT,
    OPT_TIME,
    OPT_WARMUP,
    OPT_TIMEOUT,
    OPT_ACK_TIMEOUT,
    OPT_MAX_RETRANSMIT,
    OPT_RECONNECT,
    OPT_PATHS,
    OPT_PATH,
    OPT_METHODS,
    OPT_TOKEN,
    OPT_BODY,
    OPT_FORMAT,
    OPT_IDS,
    OPT_ORIGINS,
    OPT_SAME,
    OPT_NO_CHECK,
    OPT_SOCKETS,
    OPT_SCHEME,
    OPT_PSK,
    OPT_SUITES,
    OPT_RESUME,
    OPT_LOG_LOST,
    OPT_HOLD,
    OPT_SEED,
    OPT_PID,
    OPT_JSON,
    OPT_REMOTE,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"proxy", required_argument, NULL, OPT_PROXY},
    {"target", required_argument, NULL, OPT_TARGET},
    {"form", required_argument, NULL, OPT_FORM},
    {"type", required_argument, NULL, OPT_TYPE},
    {"rate", required_argument, NULL, OPT_RATE},
    {"clients", required_argument, NULL, OPT_CLIENTS},
    {"window", required_argument, NULL, OPT_WINDOW},
    {"in-flight", required_argument, NULL, OPT_IN_FLIGHT},
    {"think", required_argument, NULL, OPT_THINK},
    {"count", required_argument, NULL, OPT_COUNT},
    {"time", required_argument, NULL, OPT_TIME},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"ack-timeout", required_argument, NULL, OPT_ACK_TIMEOUT},
    {"max-retransmit", required_argument, NULL, OPT_MAX_RETRANSMIT},
    {"reconnect", required_argument, NULL, OPT_RECONNECT},
    {"paths", required_argument, NULL, OPT_PATHS},
    {"path", required_argument, NULL, OPT_PATH},
    {"methods", required_argument, NULL, OPT_METHODS},
    {"token-length", required_argument, NULL, OPT_TOKEN},
    {"body", required_argument, NULL, OPT_BODY},
    {"content-format", required_argument, NULL, OPT_FORMAT},
    {"ids", required_argument, NULL, OPT_IDS},
    {"origins", required_argument, NULL, OPT_ORIGINS},
    {"same", no_argument, NULL, OPT_SAME},
    {"no-check", no_argument, NULL, OPT_NO_CHECK},
    {"own-sockets", no_argument, NULL, OPT_SOCKETS},
    {"scheme", required_argument, NULL, OPT_SCHEME},
    {"psk", required_argument, NULL, OPT_PSK},
    {"suites", required_argument, NULL, OPT_SUITES},
    {"resume", no_argument, NULL, OPT_RESUME},
    {"hold", no_argument, NULL, OPT_HOLD},
    {"log-lost", no_argument, NULL, OPT_LOG_LOST},
    {"seed", required_argument, NULL, OPT_SEED},
    {"pid", required_argument, NULL, OPT_PID},
    {"json", no_argument, NULL, OPT_JSON},
    {"allow-remote", no_argument, NULL, OPT_REMOTE},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static void print_usage(void)
{
    puts("usage: coapbench load --proxy ADDRESS:PORT --target HOST:PORT [OPTION]...\n"
         "Sends requests through a proxy (or straight to an origin), checks every answer.\n"
         "  --proxy ADDRESS:PORT     address of the proxy\n"
         "  --target HOST:PORT       target of the requests; up to 64 of them, in turn\n"
         "  --form FORM              cri, scheme-number, uri, scheme, mix, or direct (cri)\n"
         "  --origins N              N addresses of a target in turn, counted up from its own (1)\n"
         "  --type TYPE              con, non or mix (con)\n"
         "  --clients N              number of clients, each with its own address and port (8)\n"
         "transport:\n"
         "  --scheme SCHEME          coap, coaps, coap+tcp or coaps+tcp (coap)\n"
         "  --psk IDENTITY:KEY       for coaps and coaps+tcp; the key as text\n"
         "  --suites LIST            cipher suites, OpenSSL's names (PSK-AES128-CCM8)\n"
         "  --reconnect N            a new session after N retransmissions without an answer (0)\n"
         "  --resume                 open all sessions a second time, with their tickets\n"
         "  --hold                   send nothing, print \"holding\" when all are open\n"
         "closed loop:\n"
         "  --window N               requests of one client in flight (1)\n"
         "  --in-flight N            requests of all clients in flight (clients * window)\n"
         "  --think DURATION         mean pause before the next request (0)\n"
         "open loop:\n"
         "  --rate N                 requests a second, independent of the answers\n"
         "bounds:\n"
         "  --time DURATION          of sending (10s);  --count N  requests at most\n"
         "  --warmup DURATION        time at the beginning that is not measured (1s)\n"
         "  --timeout DURATION       wait for an answer after an ACK or a NON request (100s)\n"
         "  --ack-timeout DURATION   (2s);  --max-retransmit N  (4)\n"
         "requests:\n"
         "  --paths N                different resources (1000); 0: one for each request\n"
         "  --path PATH              first segment of their paths (b)\n"
         "  --same                   no request id in the query: equal requests occur\n"
         "  --methods LIST           such as get=8,put=1,fetch=1 (get)\n"
         "  --body BYTES             payload of a PUT, POST, FETCH..., at least 16 (16)\n"
         "  --content-format TYPE    of that payload: application/json, or a number (none)\n"
         "  --token-length N         0 to 64 bytes (8)\n"
         "  --ids N                  message IDs of one source port (65536)\n"
         "  --no-check               the origin is not coapbench's: do not compare payloads\n"
         "measuring:\n"
         "  --pid PID                report CPU time for a request, and memory, of this process\n"
         "  --own-sockets            a socket for each client\n"
         "  --seed N                 to repeat a run (from the clock; printed with --json)\n"
         "  --log-lost               a line on stderr for each request that is not answered\n"
         "  --json                   one JSON object instead of text\n"
         "  --allow-remote           send to an address that is not loopback\n"
         "  --help\n"
         "Exit status: 0; 1 if an answer was wrong, none came, or the run failed; 2 usage.");
}

static int set_number(uint64_t min, uint64_t max, uint64_t *value, const char *name,
                      const char *text)
{
    uint64_t count;

    if (args_parse_count(text, max, &count) != 0 || count < min) {
        return args_bad_value(name, text, "a number in range");
    }
    *value = count;
    return STATUS_OK;
}

static int set_u32(uint32_t min, uint32_t max, uint32_t *value, const char *name, const char *text)
{
    uint64_t wide = 0;
    int status = set_number(min, max, &wide, name, text);

    if (status == STATUS_OK) {
        *value = (uint32_t)wide;
    }
    return status;
}

static int set_duration(uint64_t *value, const char *name, const char *text)
{
    return args_parse_duration(text, value) == 0
               ? STATUS_OK
               : args_bad_value(name, text, "a duration such as 250ms");
}

static int set_name(const char *const *names, size_t count, int *value, const char *name,
                    const char *text)
{
    *value = args_parse_name(text, names, count);
    return *value >= 0 ? STATUS_OK : args_bad_value(name, text, "one of the names in --help");
}

static int set_target(struct load_options *options, const char *text)
{
    if (options->target_count == LOAD_TARGETS_MAX ||
        target_parse(text, &options->targets[options->target_count]) != 0) {
        return args_bad_value("target", text, "HOST:PORT, at most 64 times");
    }
    options->target_count++;
    return STATUS_OK;
}

/* Segments of unreserved characters, so that every form can carry them as they are. */
static int set_path(struct load_options *options, const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._~/";
    size_t len = strlen(text);
    unsigned slashes = 0;

    for (size_t i = 0; i < len; i++) {
        slashes += text[i] == '/';
    }
    if (len >= FORM_PATH_MAX || strspn(text, allowed) != len || slashes + 2 > FORM_SEGMENTS_MAX) {
        return args_bad_value("path", text, "up to 7 short segments of letters, digits and -._~");
    }
    memcpy(options->path, text, len + 1);
    return STATUS_OK;
}

/* One "name" or "name=weight"; false when it is neither. */
static bool add_method(struct load_options *options, const char *item, size_t len)
{
    char name[16];
    uint64_t weight = 1;
    size_t name_len = strcspn(item, "=,");
    int code;

    if (len >= sizeof(name)) {
        return false;
    }
    memcpy(name, item, len);
    name[len] = '\0';
    if (name_len < len) {
        name[name_len] = '\0';
        if (args_parse_count(name + name_len + 1, 1000, &weight) != 0) {
            return false;
        }
    }
    code = args_parse_name(name, method_names, LOAD_METHODS);
    if (code <= 0) {
        return false;
    }
    options->weights[code] += (unsigned)weight;
    options->weight_sum += (unsigned)weight;
    return options->weight_sum <= 100000;
}

static int set_methods(struct load_options *options, const char *text)
{
    const char *item = text;

    memset(options->weights, 0, sizeof(options->weights));
    options->weight_sum = 0;
    for (;;) {
        size_t len = strcspn(item, ",");
        if (!add_method(options, item, len)) {
            return args_bad_value("methods", text, "a list such as get=8,put=1");
        }
        if (item[len] == '\0') {
            break;
        }
        item += len + 1;
    }
    return options->weight_sum > 0 ? STATUS_OK
                                   : args_bad_value("methods", text, "a weight above 0");
}

/* The text is of the command line: it stays, and the colon becomes the end of the first part. */
static int set_psk(struct load_options *options, char *text)
{
    char *colon = strchr(text, ':');

    if (colon == NULL || colon == text || colon[1] == '\0') {
        return args_bad_value("psk", text, "IDENTITY:KEY");
    }
    *colon = '\0';
    options->identity = text;
    options->key = colon + 1;
    return STATUS_OK;
}

static int set_pid(struct load_options *options, const char *text)
{
    uint64_t pid = 0;
    int status = set_number(1, INT32_MAX, &pid, "pid", text);

    options->pid = (pid_t)pid;
    return status;
}

static int set_named(struct load_options *options, int option, const char *text)
{
    int value = 0;
    int status = option == OPT_FORM ? set_name(form_names, FORM_COUNT, &value, "form", text)
                                    : set_name(type_names, LOAD_TYPE_COUNT, &value, "type", text);

    if (status == STATUS_OK && option == OPT_FORM) {
        options->form = (enum form)value;
    } else if (status == STATUS_OK) {
        options->type = (enum load_type)value;
    }
    return status;
}

static int set_flag(struct load_options *options, int option)
{
    switch (option) {
    case OPT_SAME:
        options->id_in_query = false;
        return STATUS_OK;
    case OPT_NO_CHECK:
        options->check = false;
        return STATUS_OK;
    case OPT_SOCKETS:
        options->own_sockets = true;
        return STATUS_OK;
    case OPT_JSON:
        options->json = true;
        return STATUS_OK;
    case OPT_RESUME:
        options->resume = true;
        return STATUS_OK;
    case OPT_LOG_LOST:
        options->log_lost = true;
        return STATUS_OK;
    case OPT_HOLD:
        options->hold = true;
        return STATUS_OK;
    default:
        return STATUS_USAGE; /* getopt has said why */
    }
}

static int set_time(struct load_options *options, int option, const char *text)
{
    switch (option) {
    case OPT_THINK:
        return set_duration(&options->think_ns, "think", text);
    case OPT_TIME:
        return set_duration(&options->time_ns, "time", text);
    case OPT_WARMUP:
        return set_duration(&options->warmup_ns, "warmup", text);
    case OPT_TIMEOUT:
        return set_duration(&options->timeout_ns, "timeout", text);
    case OPT_ACK_TIMEOUT:
        return set_duration(&options->ack_timeout_ns, "ack-timeout", text);
    default:
        return set_flag(options, option);
    }
}

static int set_count(struct load_options *options, int option, const char *text)
{
    switch (option) {
    case OPT_RATE:
        return set_number(1, 10000000, &options->rate, "rate", text);
    case OPT_CLIENTS:
        return set_u32(1, LINK_CLIENTS_MAX, &options->clients, "clients", text);
    case OPT_WINDOW:
        return set_u32(1, LOAD_IN_FLIGHT_MAX, &options->window, "window", text);
    case OPT_IN_FLIGHT:
        return set_u32(1, LOAD_IN_FLIGHT_MAX, &options->in_flight, "in-flight", text);
    case OPT_COUNT:
        return set_number(1, UINT64_MAX, &options->count, "count", text);
    case OPT_MAX_RETRANSMIT:
        return set_u32(0, 20, &options->max_retransmit, "max-retransmit", text);
    case OPT_RECONNECT:
        return set_u32(0, 20, &options->reconnect, "reconnect", text);
    case OPT_PATHS:
        return set_u32(0, UINT32_MAX, &options->paths, "paths", text);
    case OPT_TOKEN:
        return set_u32(0, LOAD_TOKEN_MAX, &options->token_len, "token-length", text);
    case OPT_BODY:
        return set_u32(0, LOAD_BODY_MAX, &options->body_len, "body", text);
    case OPT_FORMAT:
        options->has_format = true;
        return format_parse(text, &options->format) == 0
                   ? STATUS_OK
                   : args_bad_value("content-format", text, "a media type or a number");
    case OPT_ORIGINS:
        return set_u32(1, LOAD_ORIGINS_MAX, &options->origins, "origins", text);
    case OPT_IDS:
        return set_u32(1, LOAD_IDS_MAX, &options->ids, "ids", text);
    case OPT_SEED:
        return set_number(0, UINT64_MAX, &options->seed, "seed", text);
    default:
        return set_time(options, option, text);
    }
}

static int set_scheme(struct load_options *options, const char *text)
{
    int kind = 0;
    int status = set_name(scheme_names, LINK_KINDS, &kind, "scheme", text);

    options->kind = (enum link_kind)kind;
    return status;
}

static int set_option(struct load_options *options, int option, char *text)
{
    switch (option) {
    case OPT_PROXY:
        return address_parse(text, &options->peer) == 0
                   ? STATUS_OK
                   : args_bad_value("proxy", text, "ADDRESS:PORT");
    case OPT_TARGET:
        return set_target(options, text);
    case OPT_FORM:
    case OPT_TYPE:
        return set_named(options, option, text);
    case OPT_PATH:
        return set_path(options, text);
    case OPT_METHODS:
        return set_methods(options, text);
    case OPT_PID:
        return set_pid(options, text);
    case OPT_SCHEME:
        return set_scheme(options, text);
    case OPT_PSK:
        return set_psk(options, text);
    case OPT_SUITES:
        options->suites = text;
        return STATUS_OK;
    default:
        return set_count(options, option, text);
    }
}

static int complain(const char *what)
{
    fprintf(stderr, "coapbench: load: %s\n", what);
    return STATUS_USAGE;
}

static int check_options(const struct load_options *options, bool allow_remote)
{
    if (options->peer.any.sa_family == AF_UNSPEC) {
        return complain("--proxy is required");
    }
    if (options->target_count == 0 && options->form != FORM_DIRECT && !options->hold) {
        return complain("--target is required, except with --form direct");
    }
    for (unsigned i = 0; options->origins > 1 && i < options->target_count; i++) {
        if (options->targets[i].address_len != 4) {
            return complain("--origins needs targets with IPv4 addresses");
        }
    }
    if (!allow_remote && !address_is_loopback(&options->peer)) {
        return complain("--proxy is not a loopback address; see --allow-remote");
    }
    if ((options->kind == LINK_DTLS || options->kind == LINK_TLS) && options->key == NULL) {
        return complain("--psk is required for coaps and coaps+tcp");
    }
    if ((options->resume || options->hold) && options->kind == LINK_UDP) {
        return complain("--resume and --hold are for sessions and connections");
    }
    if (options->rate > 0 && options->think_ns > 0) {
        return complain("--think is for the closed loop, without --rate");
    }
    return STATUS_OK;
}

int load_options_parse(int argc, char **argv, struct load_options *ret_options)
{
    struct load_options options = {.clients = 8,
                                   .window = 1,
                                   .time_ns = 10 * NS_PER_S,
                                   .warmup_ns = NS_PER_S,
                                   .timeout_ns = 100 * NS_PER_S,
                                   .ack_timeout_ns = 2 * NS_PER_S,
                                   .max_retransmit = 4,
                                   .paths = 1000,
                                   .path = "b",
                                   .weight_sum = 1,
                                   .token_len = 8,
                                   .ids = LOAD_IDS_MAX,
                                   .origins = 1,
                                   .id_in_query = true,
                                   .check = true,
                                   .suites = "PSK-AES128-CCM8",
                                   .seed = clock_now_ns()};
    bool allow_remote = false;
    int option;

    options.weights[WIRE_GET] = 1;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        int status = STATUS_OK;
        if (option == OPT_HELP) {
            print_usage();
            return -1;
        }
        if (option == OPT_REMOTE) {
            allow_remote = true;
        } else {
            status = set_option(&options, option, optarg);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (optind < argc) {
        return complain("takes options only");
    }
    if (options.kind == LINK_TCP || options.kind == LINK_TLS) {
        options.type = LOAD_NON; /* nothing is acknowledged or sent again (RFC 8323 section 3) */
    }
    *ret_options = options;
    return check_options(ret_options, allow_remote);
}
