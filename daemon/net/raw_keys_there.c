/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/raw_keys.h"

#include <openssl/opensslv.h>

bool raw_keys_are_there(void)
{
    return OPENSSL_VERSION_NUMBER >= RAW_KEYS_OPENSSL;
}
