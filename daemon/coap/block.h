/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The values of Block1 and Block2 (RFC 7959 section 2.2, RFC 8323 section 6), and
 * which piece of a body they stand for. Pure arithmetic.
 */
#ifndef CRIPROXY_BLOCK_H
#define CRIPROXY_BLOCK_H

#include "coap/message.h"

#define BLOCK_SZX_MAX 6u  /* 1,024 bytes: the largest block of a datagram */
#define BLOCK_SZX_BERT 7u /* several blocks of 1,024 bytes at once, on reliable transports */
#define BLOCK_NUM_MAX 0xfffffu

struct block {
    uint32_t num;
    bool more;
    uint8_t szx;
};

/** The block that an option value of at most 3 bytes stands for. Cannot fail. */
struct block block_of(struct bytes value);

/** The value of the option as an unsigned integer of at most 3 bytes. */
static inline uint32_t block_value(const struct block *block)
{
    return block->num << 4 | (block->more ? 8u : 0u) | block->szx;
}

/** Bytes of one block; for BERT those of the unit that NUM counts. */
static inline uint32_t block_size(const struct block *block)
{
    return block->szx >= BLOCK_SZX_MAX ? 1024u : 16u << block->szx;
}

/** Where in the body the block begins, in bytes. */
static inline uint64_t block_offset(const struct block *block)
{
    return (uint64_t)block->num * block_size(block);
}

/**
 * Whether a payload of @p len bytes fits the block: exactly its size, unless it is the last one
 * (RFC 7959 section 2.2). False for a malformed message.
 */
bool block_fits_payload(const struct block *block, size_t len);

/** The largest SZX, up to 1,024 bytes, whose blocks are not above @p bytes; 0 at the least. */
uint8_t block_szx_for(size_t bytes);

/**
 * The piece of @p body that @p block asks for.
 *
 * @param ret_block  @p block with the more bit as it is for that piece.
 * @param piece_max  for BERT: most bytes to give, of which whole blocks are taken.
 * @return false where the block begins behind the end, but for block 0 of an empty body.
 */
bool block_cut(const struct block *block, struct bytes body, size_t piece_max,
               struct block *ret_block, struct bytes *ret_piece);

/* --- entity-tags of bodies that the proxy cuts into blocks --- */

#define BLOCK_ETAG_LEN 8u

/**
 * An entity-tag for a @p body that came without one, so that a client can tell whether its blocks
 * belong together (RFC 7959 section 2.4).
 *
 * @param seed of the process; an entity-tag is known again by the same seed only.
 */
void block_make_etag(uint64_t seed, struct bytes body, uint8_t ret_etag[BLOCK_ETAG_LEN]);

/**
 * Whether @p etag is from block_make_etag(): no origin server knows it (BLK-13). False for one of
 * another length.
 */
bool block_is_own_etag(uint64_t seed, struct bytes etag);

#endif
