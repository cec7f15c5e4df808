/* SPDX-License-Identifier: BSD-2-Clause */
/* A program of another project: a URI to a CRI and back, with every header included. C and C++. */
#include <cri/aif.h>
#include <cri/builder.h>
#include <cri/coap.h>
#include <cri/compare.h>
#include <cri/cori.h>
#include <cri/cri.h>
#include <cri/diag.h>
#include <cri/error.h>
#include <cri/iri.h>
#include <cri/normalize.h>
#include <cri/resolve.h>
#include <cri/scheme.h>
#include <cri/standin.h>
#include <cri/uri.h>
#include <cri/version.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    static const char uri[] = "coap://example.org/a%2Fb?q";
    uint8_t encoded[64];
    char text[128];
    size_t len = 0;
    struct cri cri;
    struct cri_slice in;
    enum cri_error error;

    in.data = (const uint8_t *)uri;
    in.len = strlen(uri);
    error = cri_uri_parse(in, NULL, encoded, sizeof(encoded), &len, NULL);
    if (error != CRI_OK) {
        (void)fprintf(stderr, "%s\n", cri_strerror(error));
        return 1;
    }
    in.data = encoded;
    in.len = len;
    error = cri_decode(in, NULL, &cri, NULL);
    if (error == CRI_OK && cri_is_full(&cri)) {
        error = cri_uri_format(&cri, NULL, text, sizeof(text), &len, NULL);
    }
    if (error == CRI_OK) {
        (void)printf("%.*s\n", (int)len, text);
        error = cri_diag_format(in, text, sizeof(text), &len, NULL);
    }
    if (error == CRI_OK) {
        (void)printf("%.*s\n", (int)len, text);
    }
    return error == CRI_OK ? 0 : 1;
}
