/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What [devices] and [device NAME] become: which device a host name means, and which one a client
 * is that has authenticated.
 */
#ifndef CRIPROXY_CONF_DEVICE_H
#define CRIPROXY_CONF_DEVICE_H

#include "base/identity.h"
#include "coap/message.h"
#include "conf/config.h"

/* A [device NAME] section. */
struct config_device {
    const char *name; /* one label of a host name, in lower case */
#define OPTION(section, key, type, min, max, preset, reload, help)                                 \
    CONFIG_FIELD_##type(section, key, key)
#include "conf/device_options.def"
#undef OPTION
};

/* What a device authenticates with. */
struct config_device_proof {
    enum identity_kind kind;
    const char *name; /* escaped as in base/identity.h */
    uint32_t device;  /* index of the section */
};

/** The section of the device @p name, borrowed; NULL: there is none. */
const struct config_device *config_device_find(const struct config *config, struct bytes name);

/** The section of the device with @p identity (NULL: none), borrowed; NULL: it is no device. */
const struct config_device *config_device_of(const struct config *config,
                                             const struct identity *identity);

#endif
