/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Most requests have one shape, and every byte of them is as it should be: they are taken in one
 * pass here, which is half of what the rules of decode.c cost. All others, and all invalid ones,
 * are left to the rules, which give the place and the reason.
 */
#include "internal.h"

#ifndef CRI_FREESTANDING

/* Octets of [-1, ["h"], []], the shortest: two at least are left behind the head of the hosts. */
#define PLAIN_MIN 6u

/* Take a head of one or two bytes off the front of *rest. */
static inline bool plain_head(struct cri_slice *rest, enum cri__major major, size_t *ret_arg)
{
    if (rest->len < 2) { /* The last byte of a CRI may be one: the rules have those. */
        return false;
    }
    const size_t arg = (size_t)rest->data[0] - ((size_t)major << 5); /* Huge for another. */
    const bool is_long = arg == CRI__SHORT_MAX;
    if (arg > CRI__SHORT_MAX) {
        return false;
    }
    *ret_arg = is_long ? rest->data[1] : arg;
    rest->data += is_long ? 2 : 1;
    rest->len -= is_long ? 2 : 1;
    return true;
}

/* Take a text off the front of *rest that is right where the component has it. */
static inline bool plain_text(struct cri_slice *rest, enum cri__component component,
                              struct cri_slice *ret_text)
{
    if (!cri__take_short(rest, CRI__EMPTY_TEXT, ret_text)) {
        size_t len = 0;
        if (!plain_head(rest, CRI__MAJOR_TEXT, &len) || len > rest->len) {
            return false;
        }
        *ret_text = cri__slice(rest->data, len);
        rest->data += len;
        rest->len -= len;
    }
    return cri__is_plain(*ret_text, component == CRI__LABEL) &&
           !(component == CRI__SEGMENT && cri__is_dot_segment(*ret_text));
}

/* Take an array of count such texts. */
static inline bool plain_list(struct cri_slice *rest, enum cri__component component, size_t count,
                              struct cri_list *ret_list)
{
    const uint8_t *start = rest->data;
    struct cri_slice text;

    for (size_t i = 0; i < count; i++) {
        if (!plain_text(rest, component, &text)) {
            return false;
        }
    }
    ret_list->is_set = true;
    ret_list->count = count;
    ret_list->encoded = cri__slice(start, (size_t)(rest->data - start));
    return true;
}

/* Take the labels of a name, at most most of them. */
static inline bool plain_labels(struct cri_slice *rest, size_t most, struct cri_list *ret_labels)
{
    const uint8_t *start = rest->data;
    /* A label that begins with a digit or a bracket may be an address; see spells_address(). */
    const uint8_t first = start[1];
    struct cri_slice label;

    if (start[0] <= CRI__EMPTY_TEXT || start[0] >= CRI__EMPTY_TEXT + CRI__SHORT_MAX ||
        first == '[' || (first >= '0' && first <= '9')) {
        return false;
    }
    while (ret_labels->count < most && rest->len > 0 && rest->data[0] >> 5 == CRI__MAJOR_TEXT) {
        if (!plain_text(rest, CRI__LABEL, &label)) {
            return false;
        }
        ret_labels->count++;
    }
    ret_labels->is_set = true;
    ret_labels->encoded = cri__slice(start, (size_t)(rest->data - start));
    return true;
}

/* Take the 4 or 16 bytes of an address off the front of *rest, if that is what is there. */
static inline bool plain_ip(struct cri_slice *rest, struct cri_slice *ret_ip)
{
    const size_t len = (size_t)rest->data[0] - (CRI__MAJOR_BYTES << 5);
    if ((len != 4 && len != 16) || rest->len <= len) {
        return false;
    }
    *ret_ip = cri__slice(rest->data + 1, len);
    rest->data += 1 + len;
    rest->len -= 1 + len;
    return true;
}

bool cri__decode_plain(struct cri_slice rest, struct cri *ret_cri)
{
    struct cri_list labels = {0};
    struct cri_list path = {0};
    struct cri_list query = {.is_set = true};
    struct cri_slice ip = {0};
    size_t scheme = 0;
    size_t count = 0;
    uint16_t port = 0;

    /* No shorter one has a host and a path. Fewer than 24 labels and a port: one octet of head. */
    if (rest.len < PLAIN_MIN) {
        return false;
    }
    const unsigned sections = rest.data[0] - (CRI__MAJOR_ARRAY << 5);
    rest.data++;
    rest.len--;
    if (sections < 3 || sections > 4 || !plain_head(&rest, CRI__MAJOR_NINT, &scheme)) {
        return false;
    }
    const unsigned hosts = rest.data[0] - (CRI__MAJOR_ARRAY << 5);
    rest.data++;
    rest.len--;
    if (hosts < 1 || hosts >= CRI__SHORT_MAX) {
        return false;
    }
    const bool has_ip = plain_ip(&rest, &ip);
    if (!has_ip && !plain_labels(&rest, hosts, &labels)) {
        return false;
    }
    const size_t parts = has_ip ? 1 : labels.count;
    const bool has_port = parts + 1 == hosts;
    if (has_port) {
        if (rest.len < 3 || rest.data[0] != (CRI__MAJOR_UINT << 5 | 25)) {
            return false;
        }
        port = (uint16_t)(rest.data[1] << 8 | rest.data[2]);
        rest.data += 3;
        rest.len -= 3;
    } else if (parts != hosts) {
        return false;
    }
    if (!plain_head(&rest, CRI__MAJOR_ARRAY, &count) ||
        !plain_list(&rest, CRI__SEGMENT, count, &path)) {
        return false;
    }
    if (sections == 4 && (!plain_head(&rest, CRI__MAJOR_ARRAY, &count) ||
                          !plain_list(&rest, CRI__PARAMETER, count, &query))) {
        return false;
    }
    if (rest.len > 0) {
        return false;
    }
    cri__unset(ret_cri);
    ret_cri->scheme = CRI_SCHEME_ID;
    ret_cri->scheme_number = scheme;
    ret_cri->discard = CRI_DISCARD_ALL;
    ret_cri->authority = has_ip ? CRI_AUTHORITY_HOST_IP : CRI_AUTHORITY_HOST_NAME;
    ret_cri->ip = ip;
    ret_cri->has_port = has_port;
    ret_cri->port = port;
    ret_cri->labels = labels;
    ret_cri->path = path;
    ret_cri->query = query;
    return true;
}

#endif
