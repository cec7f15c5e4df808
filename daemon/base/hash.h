/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash map of fixed size over nodes that live in what they index: no
 * allocation after init, O(1) everywhere. Keys are 64 bits; where a key is
 * exact the node is the answer, where it is itself a hash the caller compares.
 *
 * A map may begin with few of its buckets in use, and be told how many nodes it is for
 * (hash_map_expect()): what is looked up is mostly not there, and an empty bucket is found in the
 * processor's cache where all that are in use fit into it.
 */
#ifndef CRIPROXY_HASH_H
#define CRIPROXY_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_node {
    struct hash_node *next, **link; /* link == NULL: in no map */
    uint64_t key;
};

struct hash_map {
    struct hash_node **buckets;
    unsigned shift;     /* 64 - log2 of the buckets in use */
    unsigned shift_min; /* 64 - log2 of all buckets */
    size_t expected;    /* nodes for which the buckets in use are enough */
    bool is_of_hashes;
    uint64_t seed;
};

/** The struct that @p node is @p member of. */
#define HASH_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/** Mix two words into one; keyed when one of them is secret. */
uint64_t hash_mix(uint64_t a, uint64_t b);

/** Hash of bytes under @p seed. */
uint64_t hash_bytes(const uint8_t *data, size_t len, uint64_t seed);

/** For about @p capacity nodes. @p seed keeps strangers from choosing collisions. @return 0 or
 * -ENOMEM. */
int hash_map_init(struct hash_map *map, size_t capacity, uint64_t seed);

/**
 * The same for nodes whose keys are hashes already, by hash_bytes(), hash_mix() or address_hash()
 * under a secret seed: they are not mixed again. @p seed is only kept for the caller.
 *
 * @return 0 or -ENOMEM.
 */
int hash_map_init_of_hashes(struct hash_map *map, size_t capacity, uint64_t seed);

/** Has @p map, which is empty and was just made, begin with few buckets. Cannot fail. */
void hash_map_begin_small(struct hash_map *map);

/**
 * There may be @p count nodes now: of a map that began small as many buckets are used as that
 * takes, up to all. They are not given up again. Each doubling touches all nodes; cursors of
 * hash_map_walk() begin anew.
 * Allocates nothing, cannot fail.
 */
void hash_map_expect(struct hash_map *map, size_t count);

/** Takes a zeroed map. Nodes are the caller's. */
void hash_map_clear(struct hash_map *map);

/**
 * Adds @p node, which must be in no map; the map borrows it until it is removed. Equal keys may be
 * in the map more than once. Cannot fail, allocates nothing.
 */
void hash_map_add(struct hash_map *map, struct hash_node *node, uint64_t key);

/** Removes the node, which its owner may then free; no effect on a node that is in no map. */
void hash_map_remove(struct hash_node *node);

/** A node with @p key, the newest first, or NULL. */
struct hash_node *hash_map_find(const struct hash_map *map, uint64_t key);

/** The next node with the same key, or NULL. */
struct hash_node *hash_map_find_next(const struct hash_node *node);

/**
 * All nodes in no order, one for each call, beginning with *cursor 0. Nodes that are added or
 * removed between two calls may be left out or met twice.
 *
 * @return NULL: there are no more
 */
struct hash_node *hash_map_walk(const struct hash_map *map, uint64_t *cursor);

#endif
