/* SPDX-License-Identifier: BSD-2-Clause */
/* The JSON interface of admin.listen, and whose requests it and the page answer. */
#ifndef CRIPROXY_SERVER_ADMIN_API_H
#define CRIPROXY_SERVER_ADMIN_API_H

#include "net/http.h"
#include "server/internal.h"

/* How its paths begin; a command of criproxyctl follows. */
#define ADMIN_API "/api/"

/**
 * Whether @p host, of the field Host, is an address, localhost, or one of admin.hosts, each with or
 * without a port: a web page can make a name of its own lead here (DNS rebinding).
 * @p host NULL: there was none.
 */
bool admin_is_own_host(const struct config *config, const char *host);

/**
 * Whether the request, which is borrowed, is none of a web page from elsewhere, as its Origin and
 * Sec-Fetch-Site have it. Its host is set.
 */
bool admin_is_own_page(const struct http_request *request);

/**
 * Answers a request whose path begins with ADMIN_API and whose host and page are ours.
 *
 * @return 0: the answer comes as a stream; or the status with which it is refused, and with 405
 *         answer->allow is set
 */
unsigned admin_api_run(struct server *server, const struct http_request *request,
                       struct http_answer *answer);

#endif
