/* SPDX-License-Identifier: BSD-2-Clause */
/* What a proxy does with Proxy-Cri: check the CRI, then take it apart into CoAP options. */
#include <cri/coap.h>

#include <stdio.h>

static void print_options(struct cri_slice value)
{
    /* The request will go to 192.0.2.1, port 5683. */
    const struct cri_destination origin = {.ip = {192, 0, 2, 1}, .ip_len = 4, .port = 5683};
    struct cri cri;
    struct cri_fault fault;
    struct cri_options options;
    struct cri_option option;

    enum cri_error error = cri_decode(value, NULL, &cri, &fault);
    if (error == CRI_OK) {
        error = cri_options_init(&options, &cri, &origin, NULL, &fault);
    }
    if (error != CRI_OK) {
        /* The class decides about the answer: 4.02 for what is wrong, 5.05 for what is not served.
         */
        const enum cri_error_class class = cri_error_class(error);
        const int is_bad = class == CRI_CLASS_MALFORMED || class == CRI_CLASS_INVALID;
        printf("%s byte %zu: %s\n", is_bad ? "4.02" : "5.05", fault.offset, fault.rule);
        return;
    }
    printf("scheme %d:", (int)cri.scheme_number);
    while (cri_options_next(&options, &option)) {
        printf(" %d=%.*s", option.number, (int)option.value.len, (const char *)option.value.data);
    }
    printf("\n");
}

int main(void)
{
    /* [-1, ["example", "net"], ["x"], ["a", "b"]] */
    static const uint8_t good[] = {0x84, 0x20, 0x82, 0x67, 'e', 'x',  'a', 'm',
                                   'p',  'l',  'e',  0x63, 'n', 'e',  't', 0x81,
                                   0x61, 'x',  0x82, 0x61, 'a', 0x61, 'b'};
    /* [-1, ["a.b"]]: a dot inside a label */
    static const uint8_t bad[] = {0x82, 0x20, 0x81, 0x63, 'a', '.', 'b'};
    /* [-3, ["h"]]: http has no CoAP options */
    static const uint8_t http[] = {0x82, 0x22, 0x81, 0x61, 'h'};

    print_options((struct cri_slice){good, sizeof(good)});
    print_options((struct cri_slice){bad, sizeof(bad)});
    print_options((struct cri_slice){http, sizeof(http)});
    return 0;
}
