/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <time.h>

static bool take_time(const ASN1_TIME *time, int64_t *ret_s)
{
    struct tm tm = {0};

    if (ASN1_TIME_to_tm(time, &tm) != 1) {
        return false;
    }
    *ret_s = (int64_t)timegm(&tm);
    return true;
}

bool certificate_read_times(const char *file, struct certificate_times *ret_times)
{
    struct certificate_times times = {.file = file};
    FILE *stream = fopen(file, "re");
    X509 *certificate = NULL;

    if (stream == NULL) {
        return false;
    }
    certificate = PEM_read_X509_AUX(stream, NULL, NULL, NULL);
    (void)fclose(stream);
    bool is_good = certificate != NULL &&
                   take_time(X509_get0_notBefore(certificate), &times.not_before_s) &&
                   take_time(X509_get0_notAfter(certificate), &times.not_after_s);
    X509_free(certificate);
    ERR_clear_error();
    if (is_good) {
        *ret_times = times;
    }
    return is_good;
}
