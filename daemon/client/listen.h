/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The listeners of one engine: opened at the start and by reloads, and closed by
 * reloads without losing what came in over them.
 *
 *   in use --engine_unlisten()--> retiring --nothing in flight, or time is up--> closed
 *
 * Newcomers at a listener that retires get 5.03 and are not accepted as connections;
 * connections are told to go (Release), sessions hear close_notify at the end.
 * The other operations are in engine.h.
 */
#ifndef CRIPROXY_LISTEN_H
#define CRIPROXY_LISTEN_H

#include <stdint.h>

struct engine;

/**
 * Send the datagrams that are queued on all sockets of listeners; one that the system refuses is
 * lost.
 */
void listen_flush(struct engine *engine);

/** Time-outs of DTLS handshakes and sessions. @return when to be called next */
uint64_t listen_turn(struct engine *engine, uint64_t now_ms);

/**
 * Closes the sockets that connections are accepted on; connections that are open stay. Cannot
 * fail.
 */
void listen_stop_accepting(struct engine *engine);

/** Closes and frees all listeners with their sessions and connections; when the engine ends. */
void listen_close_all(struct engine *engine);

#endif
