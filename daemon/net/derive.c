/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/derive.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

#define LABEL_MAX 32u /* with its NUL, which ends it: no label is the beginning of another */
#define INFO_MAX 128u

/* What else is derived from the same file has another salt. */
static const char hkdf_salt[] = "criproxy cluster 1";

bool derive_key(struct bytes secret, const char *label, struct bytes info, uint8_t *ret_key,
                size_t key_len)
{
    uint8_t bound[LABEL_MAX + INFO_MAX];
    size_t label_len = strlen(label) + 1;
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret.data,
                                          secret.len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)hkdf_salt,
                                          sizeof hkdf_salt - 1),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, bound, label_len + info.len),
        OSSL_PARAM_construct_end(),
    };
    bool is_good = false;

    memset(ret_key, 0, key_len);
    if (label_len > LABEL_MAX || info.len > INFO_MAX) {
        return false;
    }
    memcpy(bound, label, label_len);
    if (info.len > 0) {
        memcpy(bound + label_len, info.data, info.len);
    }
    EVP_KDF *hkdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = hkdf == NULL ? NULL : EVP_KDF_CTX_new(hkdf);
    if (context != NULL) {
        is_good = EVP_KDF_derive(context, ret_key, key_len, params) == 1;
    }
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(hkdf);
    if (!is_good) {
        OPENSSL_cleanse(ret_key, key_len);
        ERR_clear_error();
    }
    return is_good;
}
