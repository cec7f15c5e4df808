/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/digest.h"

#include <openssl/err.h>
#include <openssl/evp.h>

bool digest_sha256(const uint8_t *data, size_t len, uint8_t ret_digest[DIGEST_LEN])
{
    unsigned made = 0;
    bool is_good = EVP_Digest(data, len, ret_digest, &made, EVP_sha256(), NULL) == 1;
    if (!is_good) {
        ERR_clear_error();
    }
    return is_good && made == DIGEST_LEN;
}
