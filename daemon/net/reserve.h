/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reserve of memory for libevent and OpenSSL. Both have places where they go on after an
 * allocation that failed: libevent 2.1 writes through NULL where a connection is accepted and
 * evhttp frees one that is half made, OpenSSL 3.0 uses locks that it could not make. Their
 * small allocations that the system refuses come out of here instead. That is for what is
 * under way; nothing new is begun while little of it is left.
 */
#ifndef CRIPROXY_RESERVE_H
#define CRIPROXY_RESERVE_H

#include <stdbool.h>

/**
 * Let both libraries take memory through the reserve. Once, before anything else is asked of
 * either; without effect in OpenSSL where that has allocated before.
 */
void reserve_install(void);

/** Whether no connection and no session should be begun for now. Thread-safe; one load or two. */
bool reserve_is_low(void);

#endif
