/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/http_line.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Those that say what the message is, how it is sent, and what the client asked for. */
static bool is_own_field(const char *name, size_t len)
{
    static const char *const names[] = {"Accept",
                                        "Accept-Encoding",
                                        "Connection",
                                        "Content-Encoding",
                                        "Content-Length",
                                        "Content-Type",
                                        "Expect",
                                        "Host",
                                        "If-Match",
                                        "If-Modified-Since",
                                        "If-None-Match",
                                        "If-Range",
                                        "If-Unmodified-Since",
                                        "Keep-Alive",
                                        "Max-Forwards",
                                        "Proxy-Connection",
                                        "Range",
                                        "TE",
                                        "Trailer",
                                        "Transfer-Encoding",
                                        "Upgrade",
                                        "Via"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) == len && strncasecmp(names[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

const char *http_line_error(const char *line)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strspn(line, token);
    const char *value = line + len + (line[len] == ':');
    value += strspn(value, " \t");
    if (len == 0 || line[len] != ':' || *value == '\0') {
        return "expected a field, as in Name: value";
    }
    for (const char *at = value; *at != '\0'; at++) {
        if (((unsigned char)*at < 0x20 && *at != '\t') || *at == 0x7f) {
            return "a control character in the value";
        }
    }
    return is_own_field(line, len) ? "the proxy sets this field itself" : NULL;
}
