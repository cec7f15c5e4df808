/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/libraries.h"

#include "net/raw_keys.h"

#include <ares.h>
#include <event2/event.h>
#include <openssl/crypto.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>
#if CRI_WITH_IDN
#include <idn2.h>
#endif
#if CRI_WITH_LIBCOAP
#include <coap3/coap.h>
#endif
#if CRI_WITH_WEBSOCKETS
#include <wslay/wslay.h>
#endif
#if CRI_WITH_REDIS
#include <hiredis/hiredis.h>
#endif
#if CRI_WITH_HTTP
#include "net/web_library.h"

#include <http_parser.h>
#endif

#define LIBRARIES_MAX 12u

#if CRI_WITH_LIBCOAP
/* "libcoap 4.3.1" without its name. */
static const char *without_name(const char *version)
{
    const char *blank = strrchr(version, ' ');
    return blank != NULL ? blank + 1 : version;
}
#endif

#if CRI_WITH_HTTP
static const char *version_of_http_parser(void)
{
    static char text[16];
    unsigned long version = http_parser_version();
    (void)snprintf(text, sizeof(text), "%lu.%lu.%lu", version >> 16 & 255, version >> 8 & 255,
                   version & 255);
    return text;
}
#endif

const struct library *libraries(void)
{
    static struct library rows[LIBRARIES_MAX];
    size_t count = 0;

    rows[count++] = (struct library){"openssl", OpenSSL_version(OPENSSL_VERSION_STRING), NULL};
    rows[count++] = (struct library){"libevent", event_get_version(), NULL};
    rows[count++] = (struct library){"c_ares", ares_version(NULL), NULL};
#if CRI_WITH_LIBCOAP
    rows[count++] = (struct library){"libcoap", without_name(coap_package_version()), NULL};
#endif
    /* libcbor has no function that tells it. */
    rows[count++] = (struct library){"libcbor", LIBCBOR_BUILT_WITH, NULL};
#if CRI_WITH_IDN
    rows[count++] = (struct library){"libidn2", idn2_check_version(NULL), NULL};
#endif
    rows[count++] = (struct library){"utf8proc", utf8proc_version(), NULL};
#if CRI_WITH_WEBSOCKETS
    rows[count++] = (struct library){"wslay", WSLAY_VERSION, NULL};
#endif
#if CRI_WITH_HTTP
    rows[count++] = (struct library){"http_parser", version_of_http_parser(), NULL};
    rows[count++] = (struct library){"libcurl", web_library_version(), NULL};
#endif
#if CRI_WITH_REDIS
    /* No function tells it. */
    rows[count++] = (struct library){"hiredis", HIREDIS_BUILT_WITH, "RESP2"};
#endif
    rows[count] = (struct library){.name = NULL};
    return rows;
}

void libraries_load(void)
{
#if CRI_WITH_HTTP
    (void)web_library_load(0);
#endif
}

const struct feature *features(void)
{
    static const struct feature rows[] = {
        {"websockets", CRI_WITH_WEBSOCKETS},
        {"tls", CRI_WITH_TLS},
        {"libcoap", CRI_WITH_LIBCOAP},
        {"http", CRI_WITH_HTTP},
        {"redis", CRI_WITH_REDIS},
        {"idn", CRI_WITH_IDN},
        {"raw-public-keys", OPENSSL_VERSION_NUMBER >= RAW_KEYS_OPENSSL},
        {NULL, false},
    };

    return rows;
}
