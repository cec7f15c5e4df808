/* SPDX-License-Identifier: BSD-2-Clause */
/* What [publish NAME] and proxy.names become; struct config has tables of these. */
#ifndef CRIPROXY_CONF_PUBLISH_H
#define CRIPROXY_CONF_PUBLISH_H

#include "coap/target.h"
#include "conf/config.h"

/* A [publish NAME] section: a path of the proxy's own that stands for a target elsewhere. */
struct config_publish {
    const char *name;
#define OPTION(section, key, type, min, max, preset, reload, help)                                 \
    CONFIG_FIELD_##type(section, key, key)
#include "conf/publish_options.def"
#undef OPTION
    /* Derived from these. */
    struct segments prefix;     /* of path */
    const struct target *leads; /* target, to whose path and query the rest is appended */
    uint8_t method_set;         /* bit 0: GET */
    const char *link;           /* in link-format (RFC 6690) */
};

/* One of proxy.names: a host under which clients know the proxy itself. */
struct config_own_name {
    struct bytes name;      /* lower case; empty: an address */
    struct address address; /* port 0: that of any listener with the scheme's transport */
};

#endif
