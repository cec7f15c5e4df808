/* SPDX-License-Identifier: BSD-2-Clause */
/* Links of a document are resolved against its CRI; buffers grow by the size reported. */
#include <cri/resolve.h>
#include <cri/uri.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reference in text, resolved against base and printed as a URI. */
static int print_link(const struct cri *base, const char *text)
{
    const struct cri_slice uri = {(const uint8_t *)text, strlen(text)};
    uint8_t encoded[128];
    char target[128];
    struct cri reference;
    struct cri_fault fault = {0, "no memory"};
    size_t len = 0;
    uint8_t *resolved = NULL;

    if (cri_uri_parse(uri, NULL, encoded, sizeof(encoded), &len, &fault) == CRI_OK &&
        cri_decode((struct cri_slice){encoded, len}, NULL, &reference, &fault) == CRI_OK &&
        /* Without a buffer only the size comes back. */
        cri_resolve(base, &reference, NULL, 0, &len, &fault) == CRI_ERR_SPACE) {
        resolved = malloc(len);
    }
    struct cri result;
    const int is_ok =
        resolved != NULL && cri_resolve(base, &reference, resolved, len, &len, &fault) == CRI_OK &&
        cri_decode((struct cri_slice){resolved, len}, NULL, &result, &fault) == CRI_OK &&
        cri_uri_format(&result, NULL, target, sizeof(target), &len, &fault) == CRI_OK;
    if (is_ok) {
        printf("%-8s %.*s\n", text, (int)len, target);
    } else {
        printf("%-8s byte %zu: %s\n", text, fault.offset, fault.rule);
    }
    free(resolved);
    return is_ok;
}

int main(void)
{
    /* [-2, ["foo", 4711], ["pa", "th"], ["query"]] */
    static const uint8_t base_bytes[] = {0x84, 0x21, 0x82, 0x63, 'f', 'o', 'o',  0x19,
                                         0x12, 0x67, 0x82, 0x62, 'p', 'a', 0x62, 't',
                                         'h',  0x81, 0x65, 'q',  'u', 'e', 'r',  'y'};
    struct cri base;

    if (cri_decode((struct cri_slice){base_bytes, sizeof(base_bytes)}, NULL, &base, NULL) !=
        CRI_OK) {
        return 1;
    }
    const int is_ok = print_link(&base, "x") & print_link(&base, "../y?z") &
                      print_link(&base, "/root") & print_link(&base, "//bar#f");
    (void)print_link(&base, "no good");
    return is_ok ? 0 : 1;
}
