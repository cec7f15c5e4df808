/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/method.h"

#include "coap/message.h"

static const char *const names[] = {
    [CODE_EMPTY] = "EMPTY", [CODE_GET] = "GET",       [CODE_POST] = "POST",
    [CODE_PUT] = "PUT",     [CODE_DELETE] = "DELETE", [CODE_FETCH] = "FETCH",
    [CODE_PATCH] = "PATCH", [CODE_IPATCH] = "iPATCH",
};

#define NAMES (sizeof(names) / sizeof(names[0]))

const char *method_name(uint8_t code)
{
    return code < NAMES ? names[code] : "unknown method";
}

uint8_t method_find(const char *name, size_t len)
{
    for (size_t code = CODE_GET; code < NAMES; code++) {
        if (strlen(names[code]) == len && memcmp(names[code], name, len) == 0) {
            return (uint8_t)code;
        }
    }
    return CODE_EMPTY;
}
