/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that the proxy sends for itself: to observe a resource, to move a body
 * in blocks. They go the way of a client's request, and their answers come back to
 * the part of the proxy that has asked.
 */
#ifndef CRIPROXY_INTERNAL_H
#define CRIPROXY_INTERNAL_H

#include "coap/reason.h"
#include "fetch/make.h"

struct reply;

/* What becomes of the answers. */
struct internal_handler {
    /*
     * The answer has come (REASON_answered), or the request has failed; @p reply is then
     * what a client would be told. Borrowed during the call.
     *
     * @return true to have the exchange stay, in state observing: after an answer for
     *         further ones under its token, after a failure to be sent again later with
     *         forward_again(). Else it is over when the call returns: forget it.
     */
    bool (*on_answer)(struct engine *engine, void *owner, struct exchange *exchange,
                      enum reason reason, const struct reply *reply);
    /*
     * The session that further answers would have come over has ended; NULL: that ends the
     * exchange.
     *
     * @return whether the exchange stays, as its owner will send it again.
     */
    bool (*on_lost)(struct engine *engine, void *owner, struct exchange *exchange);
};

/** For an exchange that has no owner any more: it is over with its answer, which is dropped. */
extern const struct internal_handler internal_unowned;

/**
 * Send a request for @p owner.
 *
 * @param recipe       its leg says whether the method is safe, and on behalf of whom: path.remote,
 *                     scheme, identity, standing and rule, as policy asks for them. Without
 *                     an address it is for nobody, and gets what policy gives to strangers.
 *                     Its hop and route do not count: they are found anew.
 * @param ret_exchange set before anything is done with it; the handler may be called, and
 *                     the exchange be over, before this returns.
 * @return REASON_none, and the handler is called for the end unless internal_cancel() is; or
 *         why it could not be begun, and it is not called.
 */
enum reason internal_start(struct engine *engine, const struct exchange_recipe *recipe,
                           const struct internal_handler *handler, void *owner,
                           struct exchange **ret_exchange);

/**
 * What @p exchange, in state observing, would get further answers over has gone.
 *
 * @return whether it stays all the same; if not, it is to be ended.
 */
bool internal_lost(struct engine *engine, struct exchange *exchange);

/**
 * It is not wanted any more: let go of it without a call.
 *
 * @param reason why what it was for has ended.
 */
void internal_cancel(struct engine *engine, struct exchange *exchange, enum reason reason);

#endif
