/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/transport.h"

#include <cri/scheme.h>
#include <string.h>

const struct transport_row *transport_row(enum transport transport)
{
    static const struct transport_row rows[TRANSPORT_COUNT] = {
        [TRANSPORT_NONE] = {"none", "", UINT32_MAX, 0},
#define TRANSPORT(name, word, scheme, number, port, secure, stream, websocket, http)               \
    [TRANSPORT_##name] = {word, scheme, number, port},
#include "coap/transport.def"
#undef TRANSPORT
    };
    return &rows[transport];
}

const char *transport_left_out(enum transport transport)
{
    if (!CRI_WITH_WEBSOCKETS && transport_is_ws(transport)) {
        return "WebSockets";
    }
    if (!CRI_WITH_TLS && transport_is_stream(transport) && transport_is_secure(transport)) {
        return "TLS";
    }
    if (!CRI_WITH_HTTP && transport_is_http(transport)) {
        return "HTTP";
    }
    return NULL;
}

enum transport transport_by_scheme(const char *scheme, size_t len)
{
    for (int i = TRANSPORT_NONE + 1; i < TRANSPORT_COUNT; i++) {
        const char *known = transport_row((enum transport)i)->scheme;
        if (strlen(known) == len && memcmp(known, scheme, len) == 0) {
            return (enum transport)i;
        }
    }
    return TRANSPORT_NONE;
}

enum transport transport_by_number(uint64_t number)
{
    switch (number) {
#define TRANSPORT(name, word, scheme, scheme_number, port, secure, stream, websocket, http)        \
    case scheme_number:                                                                            \
        return TRANSPORT_##name;
#include "coap/transport.def"
#undef TRANSPORT
    default:
        return TRANSPORT_NONE;
    }
}
