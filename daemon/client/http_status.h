/* SPDX-License-Identifier: BSD-2-Clause */
/* Between CoAP's codes and HTTP's methods and statuses (http_status.def). */
#ifndef CRIPROXY_HTTP_STATUS_H
#define CRIPROXY_HTTP_STATUS_H

#include "coap/message.h"

/**
 * The HTTP status of a response code; of an unknown one that of x.00 in its class, 502 where it is
 * no response code.
 */
int http_status_of(uint8_t code, bool has_payload);

/** The words of a status line for @p status, static: "Not Found"; "Status" for an unknown one. */
const char *http_status_phrase(int status);

/** The word of a status in the log, static: "http_404"; "http" for an unknown one. */
const char *http_status_word(int status);

#endif
