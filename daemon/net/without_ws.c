/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of conn_ws.c, upstream_ws.c and ws_*.c, where CRI_WITH_WEBSOCKETS is off. The
 * configuration refuses listeners and schemes on WebSockets then (transport_left_out()), so there
 * are none.
 */
#include "net/conn_internal.h"
#include "net/upstream_stream_internal.h"

void conn_ws_upgrade(struct conn *conn)
{
    (void)conn;
}

void conn_ws_input(struct conn *conn)
{
    (void)conn;
}

bool conn_ws_send(struct conn *conn, const uint8_t *data, size_t len)
{
    (void)conn;
    (void)data;
    (void)len;
    return false;
}

void conn_ws_goodbye(struct conn *conn)
{
    (void)conn;
}

const char *conn_ws_host(const struct conn_ws *ws)
{
    (void)ws;
    return "";
}

void conn_ws_free(struct conn_ws *ws)
{
    (void)ws;
}

bool upstream_ws_open(struct session *session)
{
    (void)session;
    return false;
}

void upstream_ws_input(struct session *session)
{
    (void)session;
}

bool upstream_ws_write(const struct upstream_ws *ws, struct bytes message)
{
    (void)ws;
    (void)message;
    return false;
}

void upstream_ws_goodbye(const struct upstream_ws *ws)
{
    (void)ws;
}

void upstream_ws_free(struct upstream_ws *ws)
{
    (void)ws;
}

int conn_upgrade(struct conn *conn, const uint8_t *head, size_t len)
{
    (void)conn;
    (void)head;
    (void)len;
    return 501;
}
