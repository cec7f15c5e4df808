/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reserve of memory for libevent and OpenSSL. Both have places where they go on after an
 * allocation that failed: libevent 2.1 writes through NULL where a connection is accepted and
 * evhttp frees one that is half made, OpenSSL 3.0 uses locks that it could not make, and 3.5
 * frees a record layer of DTLS twice when it could not make the next. Their smaller allocations
 * that the system refuses come out of here instead. That is for what is under way; nothing new
 * is begun while little of it is left.
 *
 * It has 256 slots of 1 KiB and 64 of 8 KiB in static memory, resident only once used. OpenSSL
 * makes the place for a thread's errors at its first error; each thread makes one error when it
 * starts, as that place would stay in the reserve.
 */
#ifndef CRIPROXY_RESERVE_H
#define CRIPROXY_RESERVE_H

#include <stdbool.h>

/**
 * Let both libraries take memory through the reserve, and begin the calling thread. Once, before
 * anything else is asked of either; without effect in OpenSSL where that has allocated before.
 */
void reserve_install(void);

/**
 * For each other thread that uses OpenSSL, first thing: OpenSSL allocates what keeps the thread's
 * errors now. It would do so at the thread's first error, which may be that memory ran out, and
 * hold the slots of the reserve until the thread ends.
 */
void reserve_begin_thread(void);

/**
 * Whether memory is so short that no connection and no session should be started. Thread-safe; two
 * loads.
 */
bool reserve_is_low(void);

#endif
