/* SPDX-License-Identifier: BSD-2-Clause */
/* What the options of signalling messages mean (RFC 8323 section 5), for both ends. */
#ifndef CRIPROXY_SIGNAL_H
#define CRIPROXY_SIGNAL_H

#include "coap/message.h"

#define CSM_MAX_MESSAGE_SIZE 2u
#define CSM_BLOCK_WISE_TRANSFER 4u
#define CSM_EXTENDED_TOKEN_LENGTH 6u /* RFC 8974 section 2.2.1 */
#define PING_CUSTODY 2u
#define ABORT_BAD_CSM_OPTION 2u

/**
 * Whether the connection has to be aborted for an option of @p message (section 5.2): all that
 * are known are elective, so a critical one is not understood, whatever the signal. An Abort
 * is none to answer, and has none.
 *
 * @param ret_number of that option; left alone where there is none.
 */
bool signal_has_critical(const struct message *message, uint32_t *ret_number);

/**
 * What a CSM says; what it does not say stays as it was (section 5.3).
 *
 * @param ret_message_max bytes of the longest message that the peer takes.
 * @param ret_takes_blocks whether it does BERT and block-wise transfers.
 */
void signal_read_csm(const struct message *message, uint64_t *ret_message_max,
                     bool *ret_takes_blocks);

#endif
