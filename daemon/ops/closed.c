/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/closed.h"

struct closed_client *closed_add(struct closed_clients *closed, const struct identity *identity)
{
    struct closed_client *row = &closed->rows[closed->next++ % CLOSED_MAX];

    row->identity[0] = '\0';
    if (identity_is_known(identity)) {
        (void)identity_format(identity, row->identity);
    }
    return row;
}
