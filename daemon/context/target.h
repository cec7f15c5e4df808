/* SPDX-License-Identifier: BSD-2-Clause */
/* The target of a request: the four forms that name it become one. */
#ifndef CRIPROXY_TARGET_H
#define CRIPROXY_TARGET_H

#include "coap/target.h"
#include "conf/config.h"

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
 *                from @p memory and @p config. Its zone is not resolved yet: that is
 *                done by zones_apply().
 * @return false with @p ret_problem filled where there is no target to go to.
 */
bool target_find(const struct config *config, const struct message *message,
                 const struct request_options *options, const struct address *local,
                 struct target_memory memory, struct target *ret_target,
                 struct problem *ret_problem);

/**
 * The section that protects requests to @p target, as it is named, with OSCORE: the first
 * [upstream NAME] with that key and a pattern for it. Borrowed from @p config; NULL: none does, or
 * its transport is another than UDP.
 */
const struct config_upstream *target_oscore_section(const struct config *config,
                                                    const struct target *target);

/** @return whether another replica has the security context of @p section, so that this one sends
 * nothing to its targets */
bool oscore_is_elsewhere(const struct config *config, const struct config_upstream *section);

/**
 * Sets has_oscore of @p target, for a request with encoded @p options: one that has OSCORE of its
 * own is not protected again (OSC-17). target_find() has done so; to be called where a target comes
 * from elsewhere.
 */
void target_note_oscore(const struct config *config, struct bytes options, struct target *target);

/**
 * Whether a full target and other options that name one came together (AMB-17, AMB-18), so that
 * some are overridden; that is no error.
 */
bool target_is_mixed(const struct request_options *options);

#endif
