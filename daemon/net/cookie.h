/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cookies that show that a peer receives what is sent to its address: a keyed hash of both
 * addresses, so that no state is kept for a cookie. The key changes each minute and the previous
 * one is still valid: a cookie lives for one to two minutes.
 *
 * Replicas with one secret (cluster.secret-file) accept each other's cookies: the keys are derived
 * from it and from the minute of the wall clock, whose neighbours are valid too, as clocks differ;
 * and only the peer's address is hashed, as each replica has another one of its own.
 *
 * For DTLS (RFC 6347 section 4.2.1) and Echo (RFC 9175 section 2.3).
 */
#ifndef CRIPROXY_COOKIE_H
#define CRIPROXY_COOKIE_H

#include "coap/message.h"
#include "net/udp.h"

#define COOKIE_LEN 32u    /* a whole one; part of it does too */
#define COOKIE_LEN_MIN 8u /* but no less */

struct cookies;
struct loop;

/**
 * @param loop has the wall clock; borrowed for as long as the cookies live
 * @param shared the secret of all replicas, borrowed for the call; empty: one of this process alone
 * @param label what the cookies are for, as for derive_key(): others have other keys
 * @return 0 or -ENOMEM, also where nothing random is to be had. Free with cookies_free().
 */
int cookies_new(const struct loop *loop, uint64_t now_ms, struct bytes shared, const char *label,
                struct cookies **ret_cookies);

/** Wipes the keys and frees; takes NULL. */
void cookies_free(struct cookies *cookies);

/**
 * @param now_ms the loop's time; as in the next function
 * @return whether @p ret_cookie has been made for the peer at @p path
 */
bool cookie_make(struct cookies *cookies, uint64_t now_ms, const struct udp_path *path,
                 uint8_t ret_cookie[COOKIE_LEN]);

/** Whether @p cookie, the first @p len bytes of one, was made for @p path and lives still. */
bool cookie_is_good(struct cookies *cookies, uint64_t now_ms, const struct udp_path *path,
                    const uint8_t *cookie, size_t len);

#endif
