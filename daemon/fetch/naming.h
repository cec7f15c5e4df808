/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a target is named to the next hop: to the origin server itself by Uri-*
 * options alone, to a parent proxy in one of four forms. Never more than one form
 * goes into a request (PXO-16).
 *
 * A name that is too long for one option is said with the other option of the same vocabulary
 * (Proxy-Scheme-Number or Proxy-Scheme with Uri-*), because a proxy that knows one knows the
 * other. Towards a parent Uri-Host is always there: without it a request is for the parent
 * itself. Uri-Port is left out only where all ways to read RFC 7252 section 5.10.2 agree on the
 * port. A target with a zone cannot be named to a parent at all.
 */
#ifndef CRIPROXY_NAMING_H
#define CRIPROXY_NAMING_H

#include "fetch/route.h"

#define NAMING_CRI_MAX 1023u /* Proxy-Cri (draft section 8.2.1) */
#define NAMING_URI_MAX 1034u /* Proxy-Uri (RFC 7252 section 5.10) */

/*
 * A URI of 1,034 bytes has a CRI of fewer: each separator becomes a head of 1 or 2
 * bytes, and percent-encoding shrinks. The margin is for the heads of the arrays.
 */
#define NAMING_CRI_ROOM 2048u

struct naming {
    uint16_t option;      /* Proxy-Cri, Proxy-Uri, Proxy-Scheme or -Number; 0: none of them */
    struct bytes value;   /* of that option */
    bool has_uri_options; /* Uri-Host, Uri-Port, Uri-Path and Uri-Query go along */
    struct bytes host;    /* Uri-Host; no data: none */
    bool has_port;        /* Uri-Port, of the target */
};

/* Memory that a naming may borrow from. */
struct naming_room {
    uint8_t value[NAMING_URI_MAX];
    char host[ADDRESS_TEXT_MAX];
};

/**
 * The target as its own host is told (draft section 8.1.1): Uri-Host for a name, no
 * Uri-Port, because the request goes to that very port (C2O-7, C2O-9).
 *
 * @return a naming that borrows from @p target.
 */
struct naming naming_for_origin(const struct target *target);

/**
 * The target as a parent proxy is told. A target that is too long for one form takes the other of
 * its vocabulary: Proxy-Scheme-Number for Proxy-Cri, Proxy-Scheme for Proxy-Uri, whose
 * Uri-* options have no common limit; and a scheme number over 24 bits takes Proxy-Cri.
 *
 * @param form       what the parent is to be told in.
 * @param hop        the parent: whether a port may be left out depends on its own.
 * @param room       has to live as long as @p ret_naming.
 * @param ret_naming borrows from @p target and @p room.
 * @return REASON_none; REASON_zone_route for a target with a zone, which means something
 *         on this host only (AMB-23); REASON_route_form for what neither form can say
 *         (PXO-27).
 */
enum reason naming_for_parent(const struct target *target, enum config_route_form form,
                              const struct next_hop *hop, struct naming_room *room,
                              struct naming *ret_naming);

/**
 * The target as an encoded CRI (draft section 8.1.2), with its zone where it has one.
 *
 * @return false where it does not fit, or is none: a host name with bytes that no label has.
 */
bool naming_cri(const struct target *target, uint8_t room[NAMING_CRI_ROOM], size_t *ret_len);

/** The form that a naming for a parent proxy has come to; kept in @p naming, cannot fail. */
enum config_route_form naming_form(const struct naming *naming);

#endif
