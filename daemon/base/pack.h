/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers and bytes one after the other, for a hand-over to the next process (net/handover_file.h):
 * big endian, a length of four bytes before what has one. What is in it may be keys, so memory is
 * wiped before it is given back.
 *
 * Errors stick: a pack that has failed takes nothing more, an unpack gives zeros, and both are
 * asked once, at the end.
 */
#ifndef CRIPROXY_PACK_H
#define CRIPROXY_PACK_H

#include "base/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. */
struct pack {
    uint8_t *data; /* heap */
    size_t len, capacity;
    bool has_failed; /* there was no memory */
};

/* What is left to be read; the bytes are borrowed. */
struct unpack {
    const uint8_t *at;
    size_t left;
    bool has_failed; /* they ended too soon, or make no sense */
};

/**
 * Memory for @p len more bytes at once, where much is to come: without it memory doubles, and what
 * is there is copied and wiped each time. Sets has_failed where there is none.
 */
void pack_expect(struct pack *pack, size_t len);

/** The lowest @p bytes bytes of @p value, 1 to 8. */
void pack_uint(struct pack *pack, uint64_t value, unsigned bytes);

/** @p len bytes, copied, without a length: the reader knows it. */
void pack_raw(struct pack *pack, const void *data, size_t len);

/** The length in four bytes, then the bytes, copied. */
void pack_bytes(struct pack *pack, const void *data, size_t len);

/**
 * Begins what unpack_bytes() reads, where its length is known at the end only; what is packed until
 * pack_close() is in it. May be nested.
 *
 * @return for pack_close()
 */
size_t pack_open(struct pack *pack);

/** Ends what pack_open() has begun at @p at; more than 4 GiB, which is too much, sets has_failed.
 * Cannot fail otherwise. */
void pack_close(struct pack *pack, size_t at);

/** An address of any family, field by field. The fields are copied. */
void pack_address(struct pack *pack, const struct address *address);

/** Wipes and frees; the struct is the caller's, and empty again. */
void pack_clear(struct pack *pack);

/** @return 0 where they are not there */
uint64_t unpack_uint(struct unpack *in, unsigned bytes);

/** Copies @p len bytes to @p ret; zeros where they are not there. */
void unpack_raw(struct unpack *in, void *ret, size_t len);

/**
 * What pack_bytes() has written; borrowed from what is unpacked.
 *
 * @return NULL, with length 0, where it is not there; never NULL otherwise
 */
const uint8_t *unpack_bytes(struct unpack *in, size_t *ret_len);

/** What pack_address() has written, a copy; zero, with has_failed set, where it is no address. */
struct address unpack_address(struct unpack *in);

#endif
