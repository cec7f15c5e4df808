/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/admission.h"

#include "client/side.h"
#include "policy/access.h"

bool admit_datagram(struct client_side *side, const struct address *remote)
{
    /* A flood comes from few addresses, or from none twice: the last one is worth a look. */
    if (side->admitted_epoch == side->context.policy_epoch &&
        address_same_host(&side->admitted, remote)) {
        return true;
    }
    const struct access_client client = access_client_of(remote, CRI_SCHEME_COAP, NULL);
    if (access_standing(side->context.config->access, &client) == STANDING_NONE) {
        const struct refusal_note note = {
            .client = remote, .kind = REFUSAL_POLICY, .word = "policy.clients"};
        metric_add(&side->context.metrics.datagrams_refused, 1);
        refusals_log(&side->refusals, &note, "datagram_refused");
        return false;
    }
    side->admitted = *remote;
    side->admitted_epoch = side->context.policy_epoch;
    return true;
}

bool admit_connection(const struct client_side *side, const struct address *remote, uint32_t scheme,
                      const struct identity *identity)
{
    const struct access_client client = access_client_of(remote, scheme, identity);
    return access_standing(side->context.config->access, &client) != STANDING_NONE;
}

enum reason admit_client(const struct client_side *side, struct leg *leg)
{
    struct peer *peer = leg->peer;
    const struct asker *asker = &leg->asker;
    const struct access_client client =
        access_client_of(&asker->path.remote, asker->scheme, asker->identity);
    if (peer->standing_epoch != side->context.policy_epoch) {
        peer->standing = (uint8_t)access_standing(side->context.config->access, &client);
        peer->limits = access_limits(side->context.config->access, &client);
        peer->standing_epoch = side->context.policy_epoch;
    }
    leg->asker.standing = peer->standing;
    return leg->asker.standing == STANDING_NONE ? access_refusal(&client) : REASON_none;
}
