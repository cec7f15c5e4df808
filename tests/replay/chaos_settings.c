/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration, which changes. */
#include "replay/chaos.h"

static const char *const common[] = {
    "limits.exchanges=40",
    "limits.clients=16",
    "limits.origins=16",
    "resolve.names=16",
    "limits.datagram-bytes=1280B",
    "limits.dedup-bytes=64KiB",
    "limits.origin-queue=4",
    "limits.exchanges-per-client=12",
    "cache.max-bytes=64KiB",
    "cache.followers=3",
    "block.bodies-bytes=64KiB",
    "block.bodies=16",
    "observe.max=20",
    "observe.targets=12",
    "observe.bytes=64KiB",
    "multicast.enabled=yes",
};

/* What one configuration has and another has not. */
static const char *const choices[][2] = {
    {"policy.clients=any", "policy.clients=192.0.2.0/24"},
    {"policy.ports=any", "policy.ports=1-65535"},
    {"policy.own-host=yes", "policy.own-host=yes"},
    {"policy.require-secure-leg=no", "policy.require-secure-leg=yes"},
    {"policy.echo-exempt=192.0.2.0/26", "policy.echo-exempt=any"},
    {"cache.coalesce=yes", "cache.coalesce=no"},
    {"cache.stale-if-error=1h", "cache.stale-if-error=0s"},
    {"cache.secure-targets=shared", "cache.secure-targets=private"},
    {"block.size=64", "block.size=512"},
    {"block.whole-bytes=100B", "block.whole-bytes=1232B"},
    {"block.body-bytes=4KiB", "block.body-bytes=1KiB"},
    {"observe.notifications=con", "observe.notifications=mirror"},
    {"proxy.no-response=forward", "proxy.no-response=proxy"},
    {"proxy.hop-limit=yes", "proxy.hop-limit=no"},
    {"scheme coap.nstart=4", "scheme coap.nstart=1"},
    {"limits.client-rate=0", "limits.client-rate=20"},
    {"limits.address-rate=0", "limits.address-rate=20"},
    {"limits.unverified-rate=0", "limits.unverified-rate=3"},
    {"limits.rejections=1000", "limits.rejections=2"},
    {"proxy.max-token-bytes=64", "proxy.max-token-bytes=8"},
    {"observe.retry=60s", "observe.retry=0s"},
};

/* One of these, or none. */
static const char *const extras[][3] = {
    {NULL},
    {"route parent.target=coap://h/p", "route parent.via=coap://192.0.2.6", NULL},
    {"route parent.target=*://h/p", "route parent.via=coap+tcp://192.0.2.6", NULL},
    {"route never.target=*://g", "route never.via=refuse", NULL},
    {"access not.target=*://h/y", "access not.action=deny", NULL},
    {"access not.target=*://192.0.2.0/29", "access not.action=deny", NULL},
    {"access not.clients=192.0.2.65/32", "access not.action=deny", NULL},
    {"limit one.clients=192.0.2.7/32", "limit one.exchanges=2", NULL},
};

/* Room for common, choices, extras and the end. */
_Static_assert(sizeof(common) / sizeof(common[0]) + sizeof(choices) / sizeof(choices[0]) + 4 <=
                   SETTINGS_MAX,
               "");

void chaos_settings(const char *settings[SETTINGS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
        settings[count++] = common[i];
    }
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        settings[count++] = choices[i][one_in(3) ? 1 : 0];
    }
    const char *const *extra = extras[below(sizeof(extras) / sizeof(extras[0]))];
    for (size_t i = 0; i < 3 && extra[i] != NULL; i++) {
        settings[count++] = extra[i];
    }
    settings[count] = NULL;
}
