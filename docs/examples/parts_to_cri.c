/* SPDX-License-Identifier: BSD-2-Clause */
/* A CRI from its parts: what a constrained client does, which has no URI. */
#include <cri/builder.h>
#include <cri/coap.h>

#include <stdio.h>
#include <string.h>

static struct cri_slice slice(const char *text)
{
    return (struct cri_slice){(const uint8_t *)text, strlen(text)};
}

int main(void)
{
    uint8_t encoded[64];
    size_t len = 0;
    struct cri_builder builder;
    struct cri_fault fault;

    cri_builder_init(&builder, encoded, sizeof(encoded));
    cri_builder_scheme(&builder, CRI_SCHEME_COAP);
    cri_builder_host_name(&builder, slice("sensor.example"));
    cri_builder_port(&builder, 61616);
    cri_builder_segment(&builder, slice("temp"));
    cri_builder_parameter(&builder, slice("unit=C"));
    enum cri_error error = cri_builder_finish(&builder, &len, &fault);
    if (error != CRI_OK) {
        printf("%s: %s\n", cri_strerror(error), fault.rule);
        return 1;
    }
    for (size_t i = 0; i < len; i++) {
        printf("%02x", encoded[i]);
    }
    printf("\n");
    return 0;
}
