/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/handshake.h"

#include "base/address.h"
#include "base/identity.h"
#include "base/log.h"

const struct handshake_row handshake_rows[HANDSHAKE_COUNT] = {
#define HANDSHAKE(name, help) {#name, help},
#include "net/handshakes.def"
#undef HANDSHAKE
};

void handshake_log(const char *event, const struct handshake_failure *failure)
{
    char client[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    bool is_known = identity_is_known(failure->identity);

    if (log_is_on(LOG_WARNING)) {
        log_event(LOG_WARNING, event, "client=%s%s%s reason=%s detail=\"%s\"",
                  address_format(failure->remote, client), is_known ? " identity=" : "",
                  is_known ? identity_format(failure->identity, identity) : "",
                  handshake_rows[failure->why].name, failure->detail);
    }
}
