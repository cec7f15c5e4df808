/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists of links (RFC 6690), put together link by link, each of which has to match the query of
 * the request (section 4.1).
 */
#ifndef CRIPROXY_LINKS_H
#define CRIPROXY_LINKS_H

#include "coap/target.h"

struct links {
    const struct segments *query; /* of the request, which is the filter; borrowed */
    char *text;                   /* not NUL-terminated */
    size_t len, capacity;
};

/**
 * Add @p link, such as `</x>;rt="a b";obs`, if it matches the filter: a parameter NAME=VALUE asks
 * for an attribute with that value, or one of several, where it is a list; VALUE* for one that
 * begins so; href for the link's URI; a NAME alone for an attribute of any value. All have to hold.
 * A link that does not fit is left out.
 */
void links_add(struct links *links, struct bytes link);

#endif
