/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/stop.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile sig_atomic_t stop_asked;

static void ctl_on_stop_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

void stop_on_signals(unsigned time_s)
{
    const struct sigaction action = {.sa_handler = ctl_on_stop_signal};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(time_s);
}

bool stop_take_count(const char *name, const char *text, uint64_t most, uint64_t *ret)
{
    char *end = NULL;

    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || text[0] == '-' || value == 0 || value > most || errno != 0) {
        (void)fprintf(stderr, "criproxyctl: --%s: expected 1 to %" PRIu64 ", got %s\n", name, most,
                      text);
        return false;
    }
    *ret = value;
    return true;
}

bool stop_take_options(int argc, char **argv, unsigned *ret_time_s, int *ret_first)
{
    static const struct option longs[] = {{"time", required_argument, NULL, 't'},
                                          {NULL, 0, NULL, 0}};
    uint64_t value = 0;
    int option;

    optind = 0; /* another command line than before */
    while ((option = getopt_long(argc, argv, "t:", longs, NULL)) != -1) {
        if (option != 't' || !stop_take_count("time", optarg, 86400, &value)) {
            return false;
        }
    }
    *ret_time_s = (unsigned)value;
    *ret_first = optind;
    return true;
}
