/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/handshake.h"

#include "base/address.h"
#include "base/identity.h"
#include "base/log.h"

void handshake_log(const char *event, const struct handshake_failure *failure)
{
    char client[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    bool is_known = identity_is_known(failure->identity);

    if (log_is_on(LOG_WARNING)) {
        log_event(LOG_WARNING, event, "client=%s%s%s reason=%s detail=\"%s\"",
                  address_format(failure->remote, client), is_known ? " identity=" : "",
                  is_known ? identity_format(failure->identity, identity) : "",
                  handshake_name(failure->why), failure->detail);
    }
}

const char *handshake_name(enum handshake handshake)
{
    static const char *const names[] = {
#define HANDSHAKE(name, help) #name,
#include "net/handshakes.def"
#undef HANDSHAKE
    };
    return names[handshake];
}

const char *handshake_help(enum handshake handshake)
{
    static const char *const helps[] = {
#define HANDSHAKE(name, help) help,
#include "net/handshakes.def"
#undef HANDSHAKE
    };
    return helps[handshake];
}
