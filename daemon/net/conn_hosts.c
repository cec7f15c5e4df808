/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many connections each client has, by its address: so that one of them cannot
 * take the places of all. Of an IPv6 address only the first 64 bits count, as a host
 * may have any of the addresses below them.
 */
#include "net/conn_internal.h"
#include "net/entropy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NETWORK_BYTES 8u /* of an IPv6 address */

struct conn_host {
    struct hash_node node;
    struct address address; /* without port, and what does not count */
    uint32_t count;
};

int conn_hosts_init(struct conn_listener *listener)
{
    struct entropy *entropy = malloc(sizeof *entropy); /* 4 kB: not for the stack of a worker */

    if (entropy == NULL) {
        return -ENOMEM;
    }
    entropy_init(entropy);
    int error =
        hash_map_init(&listener->hosts, listener->options.connections_max, entropy_u64(entropy));
    free(entropy);
    return error;
}

static struct address counted(const struct address *remote)
{
    struct address address = *remote;

    address.port = 0;
    if (address.family == ADDRESS_IPV6) {
        memset(address.ip + NETWORK_BYTES, 0, sizeof address.ip - NETWORK_BYTES);
    }
    return address;
}

static struct conn_host *find(const struct conn_listener *listener, const struct address *address,
                              uint64_t key)
{
    struct hash_node *node = hash_map_find(&listener->hosts, key);

    for (; node != NULL; node = hash_map_find_next(node)) {
        struct conn_host *host = HASH_ENTRY(node, struct conn_host, node);
        if (address_equal(&host->address, address)) {
            return host;
        }
    }
    return NULL;
}

bool conn_hosts_enter(struct conn_listener *listener, const struct address *remote,
                      struct conn_host **ret_host)
{
    uint32_t max = listener->options.connections_per_address;
    struct address address = counted(remote);
    uint64_t key = address_hash(&address, listener->hosts.seed);

    *ret_host = NULL;
    if (max == 0) {
        return true;
    }
    struct conn_host *host = find(listener, &address, key);
    if (host == NULL) {
        host = calloc(1, sizeof *host);
        if (host == NULL) {
            return false;
        }
        host->address = address;
        hash_map_add(&listener->hosts, &host->node, key);
    }
    if (host->count >= max) {
        return false; /* never a new one: max is not 0 */
    }
    host->count++;
    *ret_host = host;
    return true;
}

void conn_hosts_leave(struct conn_host *host)
{
    if (host != NULL && --host->count == 0) {
        hash_map_remove(&host->node);
        free(host);
    }
}
