/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/resolve.h"

#include <strings.h>

static bool is_label_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* Digits alone, or what begins with 0x: a lax resolver reads an IPv4 address. */
static bool is_number_label(const char *label, size_t len)
{
    bool is_all_digits = true;

    for (size_t i = 0; i < len; i++) {
        is_all_digits = is_all_digits && label[i] >= '0' && label[i] <= '9';
    }
    return is_all_digits || (len >= 2 && strncasecmp(label, "0x", 2) == 0);
}

/*
 * Stricter than a DNS name could be, on purpose: c-ares and the C library read escapes ("\."),
 * zones ("%lo"), and addresses in brackets or of digits in what else may come.
 */
bool resolve_is_host_name(const char *name, size_t len)
{
    size_t label = 0; /* where the last label starts */

    if (len == 0 || len > RESOLVE_NAME_MAX) {
        return false;
    }
    if (name[len - 1] == '.') {
        len--; /* a fully qualified name */
    }
    for (size_t i = 0; i < len; i++) {
        if (name[i] == '.') {
            if (i == label || i - label > 63) {
                return false;
            }
            label = i + 1;
        } else if (!is_label_byte(name[i])) {
            return false;
        }
    }
    return label < len && len - label <= 63 && !is_number_label(name + label, len - label);
}
