/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <time.h>

#define CHAIN_MAX 16u /* certificates in a file that are looked at */

static bool take_time(const ASN1_TIME *time, int64_t *ret_s)
{
    struct tm tm = {0};

    if (ASN1_TIME_to_tm(time, &tm) != 1) {
        return false;
    }
    *ret_s = (int64_t)timegm(&tm);
    return true;
}

/* A chain holds as long as all of it does. */
static bool add_times(const X509 *certificate, struct certificate_times *times)
{
    int64_t before_s = 0, after_s = 0;

    if (!take_time(X509_get0_notBefore(certificate), &before_s) ||
        !take_time(X509_get0_notAfter(certificate), &after_s)) {
        return false;
    }
    times->not_before_s = before_s > times->not_before_s ? before_s : times->not_before_s;
    times->not_after_s = after_s < times->not_after_s ? after_s : times->not_after_s;
    return true;
}

bool certificate_read_times(const char *file, struct certificate_times *ret_times)
{
    struct certificate_times times = {file, INT64_MIN, INT64_MAX};
    FILE *stream = fopen(file, "re");
    X509 *certificate = NULL;
    unsigned count = 0;
    bool is_good = true;

    if (stream == NULL) {
        return false;
    }
    while (is_good && count < CHAIN_MAX &&
           (certificate = PEM_read_X509_AUX(stream, NULL, NULL, NULL)) != NULL) {
        is_good = add_times(certificate, &times);
        X509_free(certificate);
        count++;
    }
    (void)fclose(stream);
    ERR_clear_error();
    if (is_good && count > 0) {
        *ret_times = times;
    }
    return is_good && count > 0;
}
