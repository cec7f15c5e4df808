/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/libraries.h"

#include <event2/event.h>
#include <openssl/crypto.h>
#include <string.h>
#if CRI_WITH_LIBCOAP
#include <coap3/coap.h>
#endif
#if CRI_WITH_WEBSOCKETS
#include <wslay/wslay.h>
#endif

#if CRI_WITH_LIBCOAP
/* "libcoap 4.3.1" without its name. */
static const char *without_name(const char *version)
{
    const char *blank = strrchr(version, ' ');
    return blank != NULL ? blank + 1 : version;
}
#endif

const struct library *libraries(void)
{
    static struct library rows[] = {
        {.name = "openssl"},
        {.name = "libevent"},
#if CRI_WITH_LIBCOAP
        {.name = "libcoap"},
#endif
        {.name = "libcbor", .version = LIBCBOR_BUILT_WITH}, /* has no function that tells it */
#if CRI_WITH_WEBSOCKETS
        {.name = "wslay", .version = WSLAY_VERSION},
#endif
        {.name = NULL},
    };

    rows[0].version = OpenSSL_version(OPENSSL_VERSION_STRING);
    rows[1].version = event_get_version();
#if CRI_WITH_LIBCOAP
    rows[2].version = without_name(coap_package_version());
#endif
    return rows;
}

const struct feature *features(void)
{
    static const struct feature rows[] = {
        {"websockets", CRI_WITH_WEBSOCKETS},
        {"tls", CRI_WITH_TLS},
        {"libcoap", CRI_WITH_LIBCOAP},
        {"http", CRI_WITH_HTTP},
        {NULL, false},
    };

    return rows;
}
