/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of a DTLS session after its handshake, in both roles: order, replays, truncation,
 * forgeries, connection ids, epochs, hand-overs. unit/tls/record_play.h says what input means, and
 * what must never be.
 */
#include "unit/tls/record_play.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int is_ready;

    if (is_ready == 0) {
        is_ready = 1;
        record_play_init();
    }
    record_play(data, size);
    return 0;
}
