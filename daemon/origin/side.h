/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine has towards origin servers: names and their addresses, servers, source ports. */
#ifndef CRIPROXY_ORIGIN_SIDE_H
#define CRIPROXY_ORIGIN_SIDE_H

#include "cache/changes.h"
#include "cache/key.h"
#include "context/context.h"
#include "origin/names.h"
#include "origin/origin.h"
#include "origin/throttle.h"

struct origin_side {
    struct context context;
    struct resolver *resolver; /* borrowed */
    struct name_table names;
    struct origin_table origins;
    struct throttle_table throttles;
    struct changes *changes; /* borrowed; its seed is that of all cache keys */
    uint8_t key_memory[CACHE_KEY_MAX];
};

#endif
