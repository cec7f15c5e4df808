/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of a lab (context/faults.h) on the way to an origin server: of whole requests, for all
 * carriers. Those of single datagrams are in carrier_udp.c. Only for a side that has faults.
 */
#ifndef CRIPROXY_FAULTY_H
#define CRIPROXY_FAULTY_H

#include "context/faults.h"
#include "origin/carrier.h"

/**
 * Send the request as struct carrier's send() does, unless a fault answers it, keeps it, or has
 * it find its connection closed. Fails as send() does; @p sending is borrowed as there.
 */
enum carrier_result faulty_send(struct origin_side *side, struct sending *sending);

/** What of the plan happens, into the trace; both are borrowed for the call. Cannot fail. */
void faulty_note(struct origin_side *side, struct sending *sending, const struct fault_plan *plan);

#endif
