/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/handshake.h"

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
