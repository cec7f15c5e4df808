/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/signal.h"

#include "coap/frame.h"
#include "coap/option.h"

bool signal_has_critical(const struct message *message, uint32_t *ret_number)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, message->options);
    while (message->code != CODE_ABORT && option_iter_next(&iter, &option)) {
        if (option_is_critical(option.number)) {
            *ret_number = option.number;
            return true;
        }
    }
    return false;
}

void signal_read_csm(const struct message *message, uint64_t *ret_message_max,
                     bool *ret_takes_blocks)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        /* One with a length out of range is as good as unknown (RFC 7252 section 5.4.3). */
        if (option.number == CSM_MAX_MESSAGE_SIZE && option.value.len <= sizeof(uint32_t)) {
            *ret_message_max = option_uint(option.value);
        } else if (option.number == CSM_BLOCK_WISE_TRANSFER) {
            *ret_takes_blocks = true;
        }
    }
}
