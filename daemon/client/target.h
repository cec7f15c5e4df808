/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a request is for: the four forms that name a target become one.
 *
 * Path segments and query parameters are packed: each a length byte and its
 * bytes, as no CoAP option of a target is longer than 255. So the normal form
 * of a target compares and hashes as plain bytes, whatever form it came in.
 */
#ifndef CRIPROXY_TARGET_H
#define CRIPROXY_TARGET_H

#include "base/address.h"
#include "coap/message.h"
#include "coap/reason.h"
#include "conf/config.h"
#include "net/interfaces.h"

#define TARGET_NAME_MAX 255u

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
    uint8_t name_len;
    uint8_t name[TARGET_NAME_MAX]; /* as policy/hostname.h has it, not NUL-terminated */
    struct address address;        /* with the port, where the host is an address */
    char zone[INTERFACE_NAME_MAX]; /* zone-id of the address; "": none. See client/zones.h */
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
};

/* Memory that target_find() may use; what it leaves there belongs to the target. */
struct target_memory {
    uint8_t *bytes;
    size_t capacity;
};

/**
 * Find the target of a request (TGT and PXO in docs/CONFORMANCE.md).
 *
 * @param message the request; its options have been scanned into @p options.
 * @param local   where it was received: stands in for an absent Uri-Host and Uri-Port.
 *                Its port is 0 where that is the default of the scheme it came over.
 * @param ret_target form TARGET_FORM_NONE for a request to the proxy itself. Borrows
 *                from @p memory and @p config. What its zone means is for zones_apply()
 *                to say.
 * @return false with @p ret_problem filled where there is no target to go to.
 */
bool target_find(const struct config *config, const struct message *message,
                 const struct request_options *options, const struct address *local,
                 struct target_memory memory, struct target *ret_target,
                 struct problem *ret_problem);

/**
 * Whether a full target and other options that name one came together (AMB-17, AMB-18), so that
 * some are overridden; that is no error.
 */
bool target_is_mixed(const struct request_options *options);

/**
 * First or next item, borrowed from @p segments; @p offset starts at 0.
 *
 * @return false at the end.
 */
bool segments_next(const struct segments *segments, uint32_t *offset, struct bytes *ret_item);

/**
 * The target as a URI, for the log and for people: printable, NUL-terminated.
 *
 * @return @p buffer, the caller's; cut where it is too long, "-" where there is no target.
 */
const char *target_format(const struct target *target, char *buffer, size_t capacity);

#endif
