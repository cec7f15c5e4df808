/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server of cache.shared on the fake network (net/shared_store.h): one, in memory, which
 * answers, confirms and tells when the test says so. Names are not keyed, and nothing has a MAC.
 *
 * It is no substitute for a server: what Redis and Valkey do is shown with real ones, in
 * tests/system/test_shared_cache.py and test_shared_workers.py. It is here for what those cannot
 * have: virtual time (a reply at 19 and at 20 ms), and the order in which replies, requests and
 * news of changes meet.
 */
#ifndef CRIPROXY_FAKE_SHARED_H
#define CRIPROXY_FAKE_SHARED_H

#include <stdbool.h>
#include <stdint.h>

struct fake_shared_counts {
    unsigned looks;    /* questions that were taken */
    unsigned puts;     /* answers to be kept */
    unsigned changes;  /* that were told */
    unsigned confirms; /* of changes that others have told */
};

/** Empty, ready, with the channel up; the counts are zero. */
void fake_shared_reset(void);

/** Whether questions are taken. */
void fake_shared_set_ready(bool is_ready);

/** The questions that wait are answered, or refused: until then none is. */
void fake_shared_answer(void);
void fake_shared_refuse(void);

/** Whether a change is confirmed in the same turn, or by fake_shared_confirm(). */
void fake_shared_hold_changes(bool is_held);

/** All changes that wait are confirmed, one by one, or as a whole. */
void fake_shared_confirm(bool as_a_whole);

/** The channel goes down, or comes up: then what the engine has is dropped. */
void fake_shared_channel(bool is_up);

/** Another process tells of the last change that this one has told. */
void fake_shared_echo(void);

/** The same in the words of another version of the proxy. */
void fake_shared_echo_version(uint8_t version);

/**
 * The next changes are passed on to @p count stores, of which none confirms by itself; 0, as in the
 * beginning: to one, which does so at once.
 */
void fake_shared_receivers(unsigned count);

/** The server says that the last change has been passed on. */
void fake_shared_passed_on(void);

/** One of its receivers confirms the last change. */
void fake_shared_confirmed(void);

/** Damages the byte at @p at of all that is kept. */
void fake_shared_damage(uint32_t at);

struct fake_shared_counts fake_shared_counts(void);

#endif
