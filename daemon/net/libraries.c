/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/libraries.h"

#include <coap3/coap.h>
#include <event2/event.h>
#include <openssl/crypto.h>
#include <string.h>
#include <wslay/wslay.h>

/* "libcoap 4.3.1" without its name. */
static const char *without_name(const char *version)
{
    const char *blank = strrchr(version, ' ');
    return blank != NULL ? blank + 1 : version;
}

const struct library *libraries(void)
{
    static struct library rows[] = {
        {.name = "openssl"},
        {.name = "libcoap"},
        {.name = "libevent"},
        {.name = "libcbor", .version = LIBCBOR_BUILT_WITH}, /* has no function that tells it */
        {.name = "wslay", .version = WSLAY_VERSION},
        {.name = NULL},
    };

    rows[0].version = OpenSSL_version(OPENSSL_VERSION_STRING);
    rows[1].version = without_name(coap_package_version());
    rows[2].version = event_get_version();
    return rows;
}
