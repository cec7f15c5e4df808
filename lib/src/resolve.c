/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: the buffer of section 5.3 is a struct cri that begins as a copy of the base; the
 * part of the base's path that stays is kept as a prefix, and encoding writes prefix and path as
 * one array.
 */
#include <cri/resolve.h>

#include "internal.h"

struct cri_list cri__list_front(const struct cri_list *list, size_t count)
{
    struct cri_list front = {true, count, {list->encoded.data, 0}};
    struct cri_list behind = cri__list_behind(list, count);

    front.encoded.len = list->encoded.len - behind.encoded.len;
    return front;
}

struct cri_list cri__list_behind(const struct cri_list *list, size_t count)
{
    struct cri_iter iter;
    struct cri_item item;

    cri_iter_init(&iter, list);
    for (size_t i = 0; i < count; i++) {
        if (!cri_iter_next(&iter, &item)) {
            break;
        }
    }
    struct cri_list behind = {true, list->count - count, iter.rest};
    return behind;
}

static void clear_query(struct cri *buffer)
{
    buffer->query = (struct cri_list){.is_set = true};
    buffer->has_fragment = false;
}

/* Step 3. The part of the base's path that stays goes into *ret_prefix. */
static void discard(struct cri *buffer, const struct cri *reference, struct cri_list *ret_prefix)
{
    size_t count = buffer->path.count;
    size_t drop = reference->discard < count ? reference->discard : count;

    if (reference->discard == CRI_DISCARD_ALL) {
        drop = count;
        if (buffer->authority == CRI_AUTHORITY_ROOTLESS) {
            buffer->authority = CRI_AUTHORITY_NULL;
        }
    }
    *ret_prefix = cri__list_front(&buffer->path, count - drop);
    buffer->path = (struct cri_list){.is_set = true};
    if (reference->discard != 0) {
        clear_query(buffer);
    }
}

static void copy_authority(struct cri *buffer, const struct cri *reference)
{
    buffer->authority = reference->authority;
    buffer->has_userinfo = reference->has_userinfo;
    buffer->userinfo = reference->userinfo;
    buffer->labels = reference->labels;
    buffer->ip = reference->ip;
    buffer->has_zone = reference->has_zone;
    buffer->zone = reference->zone;
    buffer->has_port = reference->has_port;
    buffer->port = reference->port;
}

/* Steps 2 to 5, for a reference without a scheme. */
static void merge(struct cri *buffer, const struct cri *reference, struct cri_list *ret_prefix)
{
    discard(buffer, reference, ret_prefix);
    if (reference->authority != CRI_AUTHORITY_NULL) {
        copy_authority(buffer, reference);
    }
    if (reference->path.is_set) {
        buffer->path = reference->path;
        clear_query(buffer);
    }
    if (reference->query.is_set) {
        clear_query(buffer);
        buffer->query = reference->query;
    }
    if (reference->has_fragment) {
        buffer->has_fragment = true;
        buffer->fragment = reference->fragment;
    }
}

/* RES-13. The path is in two parts, so that its first segment may be in either. */
static const char *check_result(const struct cri *buffer, const struct cri_list *prefix)
{
    if (buffer->authority == CRI_AUTHORITY_HOST_NAME ||
        buffer->authority == CRI_AUTHORITY_HOST_IP) {
        return NULL;
    }
    struct cri whole = *buffer;
    if (prefix->count > 0) {
        whole.path = *prefix;
    }
    const char *rule = cri__check_full_path(&whole);
    if (rule == NULL && prefix->count == 1 && buffer->path.count > 0 &&
        whole.authority == CRI_AUTHORITY_NULL) {
        struct cri_iter iter;
        struct cri_item first;
        cri_iter_init(&iter, prefix);
        if (cri_iter_next(&iter, &first) && !first.is_pet && first.text.len == 0) {
            rule = "path without authority begins with an empty segment";
        }
    }
    return rule;
}

enum cri_error cri_resolve(const struct cri *base, const struct cri *reference, uint8_t *buffer,
                           size_t capacity, size_t *ret_len, struct cri_fault *ret_fault)
{
    struct cri_writer writer = {buffer, capacity, 0};
    struct cri_list prefix = {true, 0, {NULL, 0}};

    if (!cri__is_full(base)) {
        return cri__fail(ret_fault, CRI_ERR_NOT_FULL, 0, "base is not a full CRI");
    }
    if (cri__is_full(reference)) {
        cri__put_cri(&writer, reference, NULL); /* RES-12 */
    } else {
        struct cri result = *base;
        merge(&result, reference, &prefix);
        const char *rule = check_result(&result, &prefix);
        if (rule != NULL) {
            return cri__fail(ret_fault, CRI_ERR_PATH, 0, rule);
        }
        cri__put_cri(&writer, &result, &prefix);
    }
    enum cri_error error = cri__writer_finish(&writer, ret_len);
    return error == CRI_OK ? error : cri__fail(ret_fault, error, 0, "buffer too small");
}
