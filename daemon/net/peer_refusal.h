/* SPDX-License-Identifier: BSD-2-Clause */
/* Why what another replica has sent is refused, by the rows of peer_refusals.def. */
#ifndef CRIPROXY_PEER_REFUSAL_H
#define CRIPROXY_PEER_REFUSAL_H

enum peer_refusal {
#define PEER_REFUSAL(name, help) PEER_REFUSAL_##name,
#include "net/peer_refusals.def"
#undef PEER_REFUSAL
    PEER_REFUSAL_COUNT,
};

#endif
