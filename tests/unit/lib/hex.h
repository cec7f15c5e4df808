/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests write bytes as hexadecimal text. */
#ifndef HEX_H
#define HEX_H

#include <cri/cri.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEX_BYTES_MAX 4096u

/* Bytes of their own allocation, so that ASan sees a step beyond them. */
struct bytes {
    uint8_t *data;
    size_t len;
};

struct bytes bytes_from_hex(const char *hex);
struct bytes bytes_from_text(const char *text);
void bytes_free(struct bytes *bytes);

static inline struct cri_slice bytes_slice(const struct bytes *bytes)
{
    return (struct cri_slice){bytes->data, bytes->len};
}

/* As hexadecimal text in a static buffer, one of four in turn. */
const char *hex_of(const uint8_t *data, size_t len);

/* Decode what has to decode; *ret_bytes holds the bytes behind *ret_cri. */
void decode_hex(const char *hex, struct bytes *ret_bytes, struct cri *ret_cri);

#define ROW_COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

#endif
