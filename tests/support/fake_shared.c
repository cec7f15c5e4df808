/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * There is no fake of the server that replicas share: with cache.shared an engine on the fake
 * network does not start, as in a build without Redis. tests/system/test_shared_cache.py has real
 * servers.
 */
#include "net/without_redis.c"
