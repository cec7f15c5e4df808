/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of `coapbench origin`. */
#ifndef COAPBENCH_ORIGIN_H
#define COAPBENCH_ORIGIN_H

#include "address.h"

#include <stdbool.h>
#include <stdint.h>

struct origin_options {
    union address listen;
    uint64_t delay_ns, jitter_ns; /* before an answer; jitter is added, evenly spread */
    uint64_t time_ns;             /* end after this */
    uint64_t seed;
    double loss;      /* share of datagrams lost, each way */
    uint32_t size;    /* bytes of payload at least; the echo line is never cut */
    uint32_t max_age; /* seconds */
    bool has_max_age;
    bool etag;
    bool everywhere; /* at every address of 127.0.0.0/8, at the port of listen */
    bool separate;   /* empty ACK first, then a confirmable answer */
};

/** STATUS_OK: run; -1: help was printed; else an exit status. */
int origin_options_parse(int argc, char **argv, struct origin_options *ret_options);

#endif
