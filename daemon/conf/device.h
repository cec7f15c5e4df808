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
#include "policy/ranges.h"

/* A [device NAME] section. */
struct config_device {
    const char *name; /* one label of a host name, in lower case */
#define OPTION(section, key, type, min, max, preset, reload, help)                                 \
    CONFIG_FIELD_##type(section, key, key)
#include "conf/device_options.def"
#undef OPTION
    const struct address_prefix *ranges; /* where it may register from, over UDP */
    size_t range_count;
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

/** Whether the device of @p row may register from @p address, over UDP; all borrowed. */
bool config_device_admits(const struct config_device *row, const struct address *address);

/**
 * The session is of the device of @p row still: of one that has authenticated with @p identity, or
 * of one without (NULL), which is at @p remote; all are borrowed.
 */
bool config_device_is(const struct config *config, const struct config_device *row,
                      const struct identity *identity, const struct address *remote);

#endif
