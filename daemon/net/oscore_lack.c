/* SPDX-License-Identifier: BSD-2-Clause */
/* What is missing for OSCORE, with libcoap and without. */
#include "net/oscore.h"

#if CRI_WITH_LIBCOAP
#include <coap3/coap.h>
#endif
#include <stddef.h>

const char *oscore_lack(void)
{
#if !CRI_WITH_LIBCOAP
    return "built without libcoap";
#elif !CRI_WITH_OSCORE
    return "libcoap " LIBCOAP_PACKAGE_VERSION
           " has no OSCORE: built with 4.3.4 or later (as in Debian 13) it would have";
#else
    return coap_oscore_is_supported() != 0 ? NULL
                                           : "libcoap " LIBCOAP_PACKAGE_VERSION
                                             " was built without OSCORE";
#endif
}
