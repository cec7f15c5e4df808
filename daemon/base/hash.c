/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Both halves of the product of two words, XORed. */
#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 wide;

static uint64_t fold_product(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}
#else
/* Where words have 32 bits: the same value from four products of halves. */
static uint64_t fold_product(uint64_t a, uint64_t b)
{
    uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
    uint64_t low = a_low * b_low, middle = a_high * b_low + (low >> 32);
    uint64_t other = a_low * b_high + (uint32_t)middle;

    return (other << 32 | (uint32_t)low) ^ (a_high * b_high + (middle >> 32) + (other >> 32));
}
#endif

/* Odd, so that a zero word does not wipe the other one out. */
#define WORD_KEY UINT64_C(0x9e3779b97f4a7c15)
#define SEED_KEY UINT64_C(0xd1b54a32d192ed03)

uint64_t hash_mix(uint64_t a, uint64_t b)
{
    /* A multiplication spreads every bit of one word over the other's. */
    uint64_t mixed = fold_product(a ^ WORD_KEY, b ^ SEED_KEY);
    /* Words in even steps (slots, message ids) are still in even steps now, and under
     * one seed in a hundred they would share a few buckets: break the steps up. */
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* 1 to 7 bytes in a word, some of them twice: without a call or a loop. */
static inline uint64_t last_word(const uint8_t *data, size_t len)
{
    if (len >= sizeof(uint32_t)) {
        uint32_t front, back;
        memcpy(&front, data, sizeof(front));
        memcpy(&back, data + len - sizeof(back), sizeof(back));
        return front | (uint64_t)back << 32;
    }
    return data[0] | (uint64_t)data[len / 2] << 8 | (uint64_t)data[len - 1] << 16;
}

uint64_t hash_bytes(const uint8_t *data, size_t len, uint64_t seed)
{
    uint64_t hash = seed ^ len, word = 0;
    for (; len >= sizeof(word); data += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, data, sizeof(word));
        hash = fold_product(hash ^ word ^ WORD_KEY, seed ^ SEED_KEY);
    }
    if (len > 0) {
        hash ^= last_word(data, len);
    }
    return hash_mix(hash, seed); /* spreads the steps of the last word, too */
}

int hash_map_init(struct hash_map *map, size_t capacity, uint64_t seed)
{
    unsigned bits = 4;
    while (bits < 30 && ((size_t)1 << bits) < capacity) {
        bits++;
    }
    struct hash_node **buckets = calloc((size_t)1 << bits, sizeof(struct hash_node *));
    if (buckets == NULL) {
        return -ENOMEM;
    }
    *map = (struct hash_map){.buckets = buckets,
                             .shift = 64 - bits,
                             .shift_min = 64 - bits,
                             .expected = SIZE_MAX,
                             .seed = seed};
    return 0;
}

int hash_map_init_of_hashes(struct hash_map *map, size_t capacity, uint64_t seed)
{
    int error = hash_map_init(map, capacity, seed);
    map->is_of_hashes = error == 0;
    return error;
}

static struct hash_node **bucket_of(const struct hash_map *map, uint64_t key)
{
    uint64_t hash = map->is_of_hashes ? key : hash_mix(key, map->seed);
    return &map->buckets[hash >> map->shift];
}

/* Of a map that grows: so few of its buckets are filled that a key that is not there meets none. */
#define BUCKETS_PER_NODE 8u
#define BITS_SMALL 4u

static void use_bits(struct hash_map *map, unsigned bits)
{
    map->shift = 64 - bits;
    map->expected =
        map->shift == map->shift_min ? SIZE_MAX : ((size_t)1 << bits) / BUCKETS_PER_NODE;
}

void hash_map_begin_small(struct hash_map *map)
{
    use_bits(map, BITS_SMALL);
}

/* Add the nodes of @p from again, the last first, so that equal keys stay in their order. */
static void spread(struct hash_map *map, struct hash_node *from)
{
    struct hash_node *reversed = NULL, *next;
    for (; from != NULL; from = next) {
        next = from->next;
        from->next = reversed;
        reversed = from;
    }
    for (; reversed != NULL; reversed = next) {
        next = reversed->next;
        hash_map_add(map, reversed, reversed->key);
    }
}

void hash_map_expect(struct hash_map *map, size_t count)
{
    while (count > map->expected) {
        size_t used = (size_t)1 << (64 - map->shift);
        use_bits(map, 64 - map->shift + 1);
        /* Bucket i becomes 2i and 2i + 1, which have been emptied where they were in use. */
        for (size_t i = used; i-- > 0;) {
            struct hash_node *from = map->buckets[i];
            map->buckets[i] = NULL;
            spread(map, from);
        }
    }
}

void hash_map_clear(struct hash_map *map)
{
    free(map->buckets);
    *map = (struct hash_map){0};
}

void hash_map_add(struct hash_map *map, struct hash_node *node, uint64_t key)
{
    struct hash_node **bucket = bucket_of(map, key);
    *node = (struct hash_node){.next = *bucket, .link = bucket, .key = key};
    if (node->next != NULL) {
        node->next->link = &node->next;
    }
    *bucket = node;
}

void hash_map_remove(struct hash_node *node)
{
    if (node->link == NULL) {
        return;
    }
    *node->link = node->next;
    if (node->next != NULL) {
        node->next->link = node->link;
    }
    node->next = NULL;
    node->link = NULL;
}

struct hash_node *hash_map_find(const struct hash_map *map, uint64_t key)
{
    struct hash_node *node = *bucket_of(map, key);
    while (node != NULL && node->key != key) {
        node = node->next;
    }
    return node;
}

struct hash_node *hash_map_find_next(const struct hash_node *node)
{
    uint64_t key = node->key;
    do {
        node = node->next;
    } while (node != NULL && node->key != key);
    /* The map lends nodes out for change; only the walk itself is const. */
    return (struct hash_node *)(uintptr_t)node;
}

/* A cursor: the bucket, and how many of its nodes have been met. */
#define WALK_SHIFT 24u

struct hash_node *hash_map_walk(const struct hash_map *map, uint64_t *cursor)
{
    uint64_t buckets = UINT64_C(1) << (64 - map->shift);
    for (uint64_t at = *cursor >> WALK_SHIFT; at < buckets; *cursor = ++at << WALK_SHIFT) {
        uint64_t met = *cursor & ((UINT64_C(1) << WALK_SHIFT) - 1);
        struct hash_node *node = map->buckets[at];
        for (; node != NULL && met > 0; met--) {
            node = node->next;
        }
        if (node != NULL) {
            (*cursor)++;
            return node;
        }
    }
    return NULL;
}
