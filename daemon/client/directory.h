/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices without credentials that register over UDP, as at a resource directory (RFC 9176 section
 * 5.1, simple registration):
 *
 *     device --POST /.well-known/rd?ep=boiler&lt=3600--> proxy   4.01 with Echo, without state
 *     device --the same, with that Echo----------------> proxy   directory_take()
 *     device <--GET /.well-known/core, Accept: 40------- proxy   unless the cache has its answer
 *     device --2.05------------------------------------> proxy   directory_done()
 *     device <--2.04------------------------------------ proxy
 *
 * What it is asked is a request of its own for coap://NAME.ZONE/.well-known/core, so cache, window
 * and trace are those of every request; any answer shows that it is a CoAP server. The links are
 * for the cache alone: nothing else is looked up in them.
 *
 * An Echo value of ours is needed each time, of exempt and of verified clients, too: a
 * sender that forges the address of a device can neither register nor shorten a registration.
 */
#ifndef CRIPROXY_DIRECTORY_H
#define CRIPROXY_DIRECTORY_H

#include "client/request.h"
#include "coap/target.h"

struct client_side;
struct device;

/* What is asked of a device that registers. */
struct directory_question {
    struct target target;
    struct message message;
};

/* A request to register; borrowed. */
struct directory_request {
    const struct message *message;
    const struct segments *query;
    struct bytes echo; /* the Echo option; no data: none */
};

/**
 * A device registers, by @p request over @p leg.
 *
 * @param ret_question what it is to be asked before it is answered; borrows from the message.
 * @return false with @p ret_problem filled: REASON_echo_required; REASON_local_method;
 *         registration_invalid, _refused or _taken; REASON_proxy_busy. Nothing has changed then.
 */
bool directory_take(struct client_side *side, struct leg *leg,
                    const struct directory_request *request,
                    struct directory_question *ret_question, struct problem *ret_problem);

/** coap://NAME.ZONE/ of the device with the section @p name, which is copied. Cannot fail. */
struct target directory_target(const struct client_side *side, const char *name);

/** The answer to a registration that has succeeded; static. */
struct reply directory_done(void);

/**
 * The device that @p request, whose fetch fails for @p reason, has registered, which was never
 * heard of: its line is to end, but not before the fetch. NULL: it was registered before, or that
 * says nothing about it.
 */
struct device *directory_unheard(const struct client_side *side, const struct request *request,
                                 enum reason reason);

#endif
