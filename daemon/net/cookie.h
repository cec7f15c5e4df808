/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cookies that show that a peer receives what is sent to its address: a keyed hash of both
 * addresses, so that no state is kept for a cookie. The key changes each minute and the previous
 * one is still valid: a cookie lives for one to two minutes.
 *
 * For DTLS (RFC 6347 section 4.2.1) and Echo (RFC 9175 section 2.3).
 */
#ifndef CRIPROXY_COOKIE_H
#define CRIPROXY_COOKIE_H

#include "net/udp.h"

#define COOKIE_LEN 32u    /* a whole one; part of it does too */
#define COOKIE_LEN_MIN 8u /* but no less */

struct cookies;

/** @return 0 or -ENOMEM, also where nothing random is to be had */
int cookies_new(uint64_t now_ms, struct cookies **ret_cookies);

/** Wipes the keys and frees; takes NULL. */
void cookies_free(struct cookies *cookies);

/** @return whether @p ret_cookie has been made for the peer at @p path */
bool cookie_make(struct cookies *cookies, uint64_t now_ms, const struct udp_path *path,
                 uint8_t ret_cookie[COOKIE_LEN]);

/** Whether @p cookie, the first @p len bytes of one, was made for @p path and lives still. */
bool cookie_is_good(struct cookies *cookies, uint64_t now_ms, const struct udp_path *path,
                    const uint8_t *cookie, size_t len);

#endif
