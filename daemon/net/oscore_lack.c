/* SPDX-License-Identifier: BSD-2-Clause */
/* What is missing for OSCORE, with libcoap and without. */
#include "net/oscore.h"

#if CRI_WITH_LIBCOAP
#include <coap3/coap.h>
#endif
#include <stddef.h>

/* coap_oscore_is_supported() and the sessions that take a security context. */
#define OSCORE_LIBCOAP 4003004u

const char *oscore_lack(void)
{
#if !CRI_WITH_LIBCOAP
    return "built without libcoap";
#elif LIBCOAP_VERSION < OSCORE_LIBCOAP
    return "libcoap " LIBCOAP_PACKAGE_VERSION
           " has no OSCORE: built with 4.3.4 or later (as in Debian 13) it would have";
#else
    if (coap_oscore_is_supported() == 0) {
        return "libcoap " LIBCOAP_PACKAGE_VERSION " was built without OSCORE";
    }
    return "OSCORE is not built in";
#endif
}
