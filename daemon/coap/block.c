/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/block.h"

#include "base/hash.h"

#include <string.h>

struct block block_of(struct bytes value)
{
    uint32_t number = option_uint(value);
    return (struct block){
        .num = number >> 4,
        .more = (number & 8u) != 0,
        .szx = (uint8_t)(number & 7u),
    };
}

bool block_fits_payload(const struct block *block, size_t len)
{
    uint32_t size = block_size(block);
    if (block->szx == BLOCK_SZX_BERT) {
        return !block->more || (len > 0 && len % size == 0);
    }
    return block->more ? len == size : len <= size;
}

uint8_t block_szx_for(size_t bytes)
{
    uint8_t szx = BLOCK_SZX_MAX;
    while (szx > 0 && (16u << szx) > bytes) {
        szx--;
    }
    return szx;
}

bool block_cut(const struct block *block, struct bytes body, size_t piece_max,
               struct block *ret_block, struct bytes *ret_piece)
{
    uint64_t offset = block_offset(block);
    uint32_t size = block_size(block);
    if (offset > body.len || (offset == body.len && offset > 0)) {
        return false;
    }
    size_t left = body.len - (size_t)offset;
    size_t most = size;
    if (block->szx == BLOCK_SZX_BERT && piece_max > size) {
        most = piece_max - piece_max % size;
    }
    *ret_block = *block;
    ret_block->more = left > most;
    *ret_piece = (struct bytes){body.data + offset, left > most ? most : left};
    return true;
}

/* Half of it says what the body is, half that it is ours. */
void block_make_etag(uint64_t seed, struct bytes body, uint8_t ret_etag[BLOCK_ETAG_LEN])
{
    uint32_t content = (uint32_t)hash_bytes(body.data, body.len, seed);
    uint32_t proof = (uint32_t)hash_mix(content, seed);
    memcpy(ret_etag, &content, sizeof(content));
    memcpy(ret_etag + sizeof(content), &proof, sizeof(proof));
}

bool block_is_own_etag(uint64_t seed, struct bytes etag)
{
    uint32_t content, proof;
    if (etag.len != BLOCK_ETAG_LEN) {
        return false;
    }
    memcpy(&content, etag.data, sizeof(content));
    memcpy(&proof, etag.data + sizeof(content), sizeof(proof));
    return proof == (uint32_t)hash_mix(content, seed);
}
