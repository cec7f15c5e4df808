/* SPDX-License-Identifier: BSD-2-Clause */
/* A URI becomes a CRI, and its parts are read without copying any of them. */
#include <cri/diag.h>
#include <cri/uri.h>

#include <stdio.h>
#include <string.h>

static void print_list(const char *what, const struct cri_list *list)
{
    struct cri_iter iter;
    struct cri_item item;

    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        if (item.is_pet) {
            printf("%s: has percent-encoded bytes\n", what);
        } else {
            printf("%s: %.*s\n", what, (int)item.text.len, (const char *)item.text.data);
        }
    }
}

int main(void)
{
    static const char text[] = "coap://sensor.example:61616/temp/a%2Fb?unit=%C2%B0C";
    const struct cri_slice uri = {(const uint8_t *)text, strlen(text)};
    uint8_t encoded[128];
    char notation[256];
    size_t len = 0;
    struct cri cri;
    struct cri_fault fault;

    enum cri_error error = cri_uri_parse(uri, NULL, encoded, sizeof(encoded), &len, &fault);
    if (error != CRI_OK) {
        printf("%s: byte %zu: %s\n", cri_strerror(error), fault.offset, fault.rule);
        return 1;
    }
    const struct cri_slice bytes = {encoded, len};
    if (cri_decode(bytes, NULL, &cri, &fault) != CRI_OK ||
        cri_diag_format(bytes, notation, sizeof(notation), &len, &fault) != CRI_OK) {
        printf("byte %zu: %s\n", fault.offset, fault.rule);
        return 1;
    }
    printf("%zu bytes: %.*s\n", bytes.len, (int)len, notation);
    printf("scheme number: %d, port: %d\n", (int)cri.scheme_number, cri.port);
    print_list("label", &cri.labels);
    print_list("path", &cri.path);
    print_list("query", &cri.query);
    return 0;
}
