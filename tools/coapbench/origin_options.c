/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin.h"

#include "args.h"
#include "wire.h"

#include <getopt.h>
#include <stdio.h>

enum {
    SIZE_MAX_BYTES = 1024, /* the block-less payload of RFC 7252 section 4.6 */
};

enum {
    OPT_LISTEN = 1,
    OPT_DELAY,
    OPT_JITTER,
    OPT_LOSS,
    OPT_SEED,
    OPT_SIZE,
    OPT_MAX_AGE,
    OPT_ETAG,
    OPT_SEPARATE,
    OPT_EVERYWHERE,
    OPT_TIME,
    OPT_REMOTE,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"delay", required_argument, NULL, OPT_DELAY},
    {"jitter", required_argument, NULL, OPT_JITTER},
    {"loss", required_argument, NULL, OPT_LOSS},
    {"seed", required_argument, NULL, OPT_SEED},
    {"size", required_argument, NULL, OPT_SIZE},
    {"max-age", required_argument, NULL, OPT_MAX_AGE},
    {"etag", no_argument, NULL, OPT_ETAG},
    {"separate", no_argument, NULL, OPT_SEPARATE},
    {"everywhere", no_argument, NULL, OPT_EVERYWHERE},
    {"time", required_argument, NULL, OPT_TIME},
    {"allow-remote", no_argument, NULL, OPT_REMOTE},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static void print_usage(void)
{
    puts("usage: coapbench origin [OPTION]...\n"
         "A CoAP server whose payload says what it was asked; ends on SIGTERM.\n"
         "  --listen ADDRESS:PORT  (127.0.0.1:0; the port is printed)\n"
         "  --everywhere           at every address of 127.0.0.0/8: as many servers\n"
         "  --delay DURATION       before each answer (0)\n"
         "  --jitter DURATION      up to this much more, evenly spread (0)\n"
         "  --separate             an empty ACK at once and a confirmable answer after the delay\n"
         "  --loss SHARE           lose this share of datagrams, each way: 0.1 or 10% (0)\n"
         "  --seed N               of the loss and the jitter (1)\n"
         "  --size BYTES           of the payload at least, up to 1024 (0)\n"
         "  --max-age SECONDS      send Max-Age\n"
         "  --etag                 send an ETag, and 2.03 to a request that has it\n"
         "  --time DURATION        end after this (1h)\n"
         "  --allow-remote         listen on an address that is not loopback\n"
         "  --help");
}

static int set_count(const char *name, uint64_t max, uint64_t *value, const char *text)
{
    return args_parse_count(text, max, value) == 0
               ? STATUS_OK
               : args_bad_value(name, text, "a number in range");
}

static int set_duration(const char *name, uint64_t *value, const char *text)
{
    return args_parse_duration(text, value) == 0
               ? STATUS_OK
               : args_bad_value(name, text, "a duration such as 50ms");
}

static int set_size(uint32_t *value, uint64_t max, const char *name, const char *text)
{
    uint64_t count = 0;
    int status = set_count(name, max, &count, text);

    if (status == STATUS_OK) {
        *value = (uint32_t)count;
    }
    return status;
}

static int set_option(struct origin_options *options, int option, const char *text)
{
    switch (option) {
    case OPT_LISTEN:
        return address_parse(text, &options->listen) == 0
                   ? STATUS_OK
                   : args_bad_value("listen", text, "ADDRESS:PORT");
    case OPT_DELAY:
        return set_duration("delay", &options->delay_ns, text);
    case OPT_JITTER:
        return set_duration("jitter", &options->jitter_ns, text);
    case OPT_TIME:
        return set_duration("time", &options->time_ns, text);
    case OPT_LOSS:
        return args_parse_share(text, &options->loss) == 0
                   ? STATUS_OK
                   : args_bad_value("loss", text, "a share such as 0.1 or 10%");
    case OPT_SEED:
        return set_count("seed", UINT64_MAX, &options->seed, text);
    case OPT_SIZE:
        return set_size(&options->size, SIZE_MAX_BYTES, "size", text);
    case OPT_MAX_AGE:
        options->has_max_age = true;
        return set_size(&options->max_age, UINT32_MAX, "max-age", text);
    case OPT_ETAG:
        options->etag = true;
        return STATUS_OK;
    case OPT_SEPARATE:
        options->separate = true;
        return STATUS_OK;
    case OPT_EVERYWHERE:
        options->everywhere = true;
        return STATUS_OK;
    default:
        return STATUS_USAGE; /* getopt has said why */
    }
}

int origin_options_parse(int argc, char **argv, struct origin_options *ret_options)
{
    struct origin_options options = {
        .listen = address_v4(INADDR_LOOPBACK, 0), .time_ns = 3600 * NS_PER_S, .seed = 1};
    bool allow_remote = false;
    int option;

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
    if (options.everywhere && options.listen.any.sa_family != AF_INET) {
        return args_bad_value("everywhere", "", "an IPv4 address to listen on");
    }
    if (optind < argc || (!allow_remote && !address_is_loopback(&options.listen))) {
        fputs(optind < argc ? "coapbench: origin: takes options only\n"
                            : "coapbench: origin: not a loopback address; see --allow-remote\n",
              stderr);
        return STATUS_USAGE;
    }
    *ret_options = options;
    return STATUS_OK;
}
