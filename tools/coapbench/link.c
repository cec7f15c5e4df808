/* SPDX-License-Identifier: BSD-2-Clause */
#include "link.h"

int link_open(const struct link_options *options, struct link **ret_link)
{
    static int (*const open[LINK_KINDS])(const struct link_options *, struct link **) = {
        [LINK_UDP] = link_open_udp,
        [LINK_DTLS] = link_open_dtls,
        [LINK_TCP] = link_open_stream,
        [LINK_TLS] = link_open_stream,
    };

    return open[options->kind](options, ret_link);
}
