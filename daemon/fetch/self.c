/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/self.h"

#include "fetch/side.h"

#include <string.h>

/* What the proxy itself serves: its link list (RFC 6690), which is all there is to list. */
static const uint8_t links[] = "</.well-known/core>;ct=40";

/* Content-Format 40, application/link-format, as an encoded option: delta 12, length 1. */
static const uint8_t link_format[] = {0xc1, 40};

bool self_is_core(const struct segments *path)
{
    static const uint8_t packed[] = "\x0b.well-known\x04"
                                    "core";
    return path->len == sizeof(packed) - 1 && memcmp(path->packed, packed, path->len) == 0;
}

bool self_is_directory(const struct segments *path)
{
    static const uint8_t packed[] = "\x0b.well-known\x02"
                                    "rd";
    return path->len == sizeof(packed) - 1 && memcmp(path->packed, packed, path->len) == 0;
}

enum reason self_reason(uint8_t method, const struct segments *path)
{
    if (!self_is_core(path)) {
        return REASON_local_not_found;
    }
    return method == CODE_GET ? REASON_local : REASON_local_method;
}

enum reason self_answer_for(uint8_t method, const struct segments *path, struct reply *ret_reply)
{
    enum reason reason = self_reason(method, path);
    if (reason != REASON_local) {
        return reason;
    }
    *ret_reply = (struct reply){
        .code = CODE(2, 5),
        .options = {link_format, sizeof(link_format)},
        .payload = {links, sizeof(links) - 1},
    };
    return REASON_local;
}

void self_answer(struct fetch_side *side, struct fetch *fetch)
{
    struct reply reply;
    enum reason reason = fetch->not_local != 0 ? REASON_option_unknown
                                               : self_answer_for(fetch->sending.datagram[1],
                                                                 &fetch->target.path, &reply);
    if (reason == REASON_local) {
        fetch_answer(side, fetch, REASON_local, &reply);
    } else {
        fetch_fail(side, fetch, reason, NULL);
    }
}
