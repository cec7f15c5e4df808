/* SPDX-License-Identifier: BSD-2-Clause */
/* Does an AIF-CRI document allow a request? */
#include <cri/aif.h>

#include <stdio.h>

int main(void)
{
    /* [[[["s", "temp"]], 1], [[["led"]], 5]]: GET on /s/temp, GET and PUT on /led */
    static const uint8_t bytes[] = {0x82, 0x82, 0x81, 0x82, 0x61, 's',  0x64, 't', 'e', 'm',
                                    'p',  0x01, 0x82, 0x81, 0x81, 0x63, 'l',  'e', 'd', 0x05};
    const struct cri_slice document = {bytes, sizeof(bytes)};
    const struct cri_slice path[] = {{(const uint8_t *)"led", 3}};

    const uint64_t methods = cri_aif_methods(document, false, path, 1, NULL, 0);
    printf("GET /led: %s\n", cri_aif_permits(methods, 1) ? "yes" : "no");
    printf("PUT /led: %s\n", cri_aif_permits(methods, 3) ? "yes" : "no");
    printf("DELETE /led: %s\n", cri_aif_permits(methods, 4) ? "yes" : "no");
    return 0;
}
