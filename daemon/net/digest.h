/* SPDX-License-Identifier: BSD-2-Clause */
/* SHA-256 by OpenSSL; tests link a stand-in. */
#ifndef CRIPROXY_DIGEST_H
#define CRIPROXY_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_LEN 32u

/** SHA-256 of @p data, which is borrowed. @return false where OpenSSL has no memory. */
bool digest_sha256(const uint8_t *data, size_t len, uint8_t ret_digest[DIGEST_LEN]);

#endif
