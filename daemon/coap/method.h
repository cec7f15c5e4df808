/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of methods (RFC 7252 section 12.1.1, RFC 8132 section 6). */
#ifndef CRIPROXY_METHOD_H
#define CRIPROXY_METHOD_H

#include <stddef.h>
#include <stdint.h>

/** "GET", "POST", ...; "EMPTY" for 0.00; "unknown method". Static text. */
const char *method_name(uint8_t code);

/** The method with that @p name of @p len bytes; CODE_EMPTY where there is none. */
uint8_t method_find(const char *name, size_t len);

#endif
