/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of the key upstream.oscore: the parameters of one OSCORE security context (RFC 8613
 * section 3.2), "KEY = VALUE" on a line each. It is read apart from the configuration, as keys and
 * certificates are, so that --check and a reload say what is wrong with it.
 */
#ifndef CRIPROXY_CONF_OSCORE_FILE_H
#define CRIPROXY_CONF_OSCORE_FILE_H

#include "net/oscore.h"

#include <stdbool.h>
#include <stddef.h>

/**
 * Reads @p file. Only its owner and group may have access to it.
 *
 * @param ret_keys  set on success; wipe it with explicit_bzero() after use.
 * @param ret_error the error: "FILE:LINE: KEY: ...", or "FILE: ..." about no line. No value of the
 *                  file is repeated.
 * @return false on error; @p ret_keys has no secret then.
 */
bool oscore_file_read(const char *file, struct oscore_keys *ret_keys, char *ret_error,
                      size_t error_capacity);

#endif
