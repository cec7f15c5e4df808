/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys from the secret that replicas share (cluster.secret-file), by HKDF with SHA-256 (RFC 5869).
 * Each use has a label of its own, so that no key says anything about another one.
 */
#ifndef CRIPROXY_DERIVE_H
#define CRIPROXY_DERIVE_H

#include "coap/message.h"

#define DERIVED_KEY_LEN 32u /* bytes of a key, where nothing asks for another length */

/**
 * The key of @p label from @p secret: the same for all processes with both and the same @p info.
 * All arguments are borrowed for the call.
 *
 * @param label what the key is for, at most 31 characters
 * @param info what it is bound to besides, at most 128 bytes; may be empty
 * @param key_len bytes of @p ret_key, at most 255 times 32
 * @return false without memory; @p ret_key is all zeros then
 */
bool derive_key(struct bytes secret, const char *label, struct bytes info, uint8_t *ret_key,
                size_t key_len);

#endif
