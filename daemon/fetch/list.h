/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exchanges that wait for the same thing, in order. An exchange waits for one thing at a
 * time, so it is in one such list at most. exchange.h has the operations.
 */
#ifndef CRIPROXY_LIST_H
#define CRIPROXY_LIST_H

struct exchange;

/* Zeroed: empty. */
struct exchange_list {
    struct exchange *first, *last;
};

#endif
