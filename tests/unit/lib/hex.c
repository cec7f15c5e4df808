/* SPDX-License-Identifier: BSD-2-Clause */
#include "hex.h"

#include <stdlib.h>

static unsigned digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = strchr(digits, c);
    if (c == '\0' || at == NULL) {
        fail_msg("not hexadecimal: %c", c);
    }
    return (unsigned)(at - digits);
}

static struct bytes allocate(size_t len)
{
    struct bytes bytes = {malloc(len == 0 ? 1 : len), len};
    assert_non_null(bytes.data);
    return bytes;
}

struct bytes bytes_from_hex(const char *hex)
{
    struct bytes bytes = allocate(strlen(hex) / 2);
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.data[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    }
    return bytes;
}

struct bytes bytes_from_text(const char *text)
{
    struct bytes bytes = allocate(strlen(text));
    memcpy(bytes.data, text, bytes.len);
    return bytes;
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    bytes->data = NULL;
}

const char *hex_of(const uint8_t *data, size_t len)
{
    static char texts[4][2 * HEX_BYTES_MAX + 1];
    static unsigned turn;
    char *text = texts[turn++ % 4];

    for (size_t i = 0; i < len && i < HEX_BYTES_MAX; i++) {
        snprintf(text + 2 * i, 3, "%02x", data[i]);
    }
    text[2 * (len < HEX_BYTES_MAX ? len : HEX_BYTES_MAX)] = '\0';
    return text;
}

void decode_hex(const char *hex, struct bytes *ret_bytes, struct cri *ret_cri)
{
    struct cri_fault fault = {0, ""};

    *ret_bytes = bytes_from_hex(hex);
    if (cri_decode(bytes_slice(ret_bytes), NULL, ret_cri, &fault) != CRI_OK) {
        fail_msg("%s: byte %zu: %s", hex, fault.offset, fault.rule);
    }
}
