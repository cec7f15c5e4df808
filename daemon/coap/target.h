/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target of a request, whichever of the four forms named it. context/target.h finds it.
 *
 * Path segments and query parameters are packed: each a length byte and its
 * bytes, as no CoAP option of a target is longer than 255. So the normal form
 * of a target compares and hashes as plain bytes, whatever form it came in.
 */
#ifndef CRIPROXY_COAP_TARGET_H
#define CRIPROXY_COAP_TARGET_H

#include "base/address.h"
#include "coap/message.h"
#include "coap/option.h"
#include "coap/reason.h"
#include "coap/scheme.h"

#define TARGET_NAME_MAX 255u
#define TARGET_ZONE_MAX 16 /* a zone-id with its NUL: an interface of the host */

/* Text of a diagnostic payload, with its NUL. */
#define PROBLEM_TEXT_MAX 128

/* Why a request cannot go on, in words for the sender. */
struct problem {
    enum reason reason;
    char text[PROBLEM_TEXT_MAX]; /* empty: the reason's own words do */
};

/* Which of the forms named the target. */
enum target_form {
    TARGET_FORM_NONE, /* the request is for the proxy itself */
    TARGET_FORM_PROXY_CRI,
    TARGET_FORM_PROXY_URI,
    TARGET_FORM_PROXY_SCHEME_NUMBER,
    TARGET_FORM_PROXY_SCHEME,
    TARGET_FORM_PUBLISHED, /* a path of the proxy itself, by a section publish */
};

/* Items of a path or query, packed. */
struct segments {
    const uint8_t *packed;
    uint32_t len;
    uint32_t count;
};

struct target {
    enum target_form form;
    const struct scheme *scheme; /* borrowed from the configuration */
    bool is_name;                /* host: @a name; else @a address */
    bool is_entrance_name;       /* SNI or Host field: neither Uri-Host nor Uri-Port is */
    bool has_oscore;             /* the proxy protects requests to it with OSCORE (OSC-16) */
    uint8_t name_len;
    uint8_t name[TARGET_NAME_MAX]; /* as policy/hostname.h has it, not NUL-terminated */
    struct address address;        /* with the port, where the host is an address */
    char zone[TARGET_ZONE_MAX];    /* zone-id of the address; "": none. See fetch/zones.h */
    uint16_t port;                 /* effective: the scheme's default is filled in */
    struct segments path, query;   /* a path of one empty segment is empty (RFC 7252 section 6.4) */
};

/*
 * Options of a request that name a target, or that the proxy itself acts on;
 * data == NULL where absent. Filled by scan_options(), default_host by its caller.
 */
struct request_options {
    struct bytes proxy_cri, proxy_uri, proxy_scheme, proxy_scheme_number;
    struct bytes uri_host, uri_port;
    struct bytes multicast_timeout, hop_limit, no_response, observe, block1, block2, size2, echo;
    bool has_uri_path_or_query;
    struct bytes default_host; /* for an absent Uri-Host: SNI or Host field; not an option */
    uint16_t not_local; /* first critical option that the proxy as an endpoint cannot process */
    struct passed_options passed; /* the last: its items are not cleared */
};

/**
 * First or next item, borrowed from @p segments; @p offset starts at 0.
 *
 * @return false at the end.
 */
bool segments_next(const struct segments *segments, uint32_t *offset, struct bytes *ret_item);

/**
 * The part of the target's host in front of ".@p zone", borrowed, whatever dot ends the host; empty
 * where the host is no name below that. @p zone is in the form of policy/hostname.h; "": none.
 */
struct bytes target_below(const struct target *target, const char *zone);

/**
 * The target as a URI, for the log and for people: printable, NUL-terminated.
 *
 * @return @p buffer, the caller's; cut where it is too long, "-" where there is no target.
 */
const char *target_format(const struct target *target, char *buffer, size_t capacity);

#endif
