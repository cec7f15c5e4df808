/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: the buffer of section 5.3 is a struct cri that begins as a copy of the base; the
 * part of the base's path that stays is kept as a prefix, and encoding writes prefix and path as
 * one array.
 */
#include <cri/resolve.h>

#include "relate.h"

/* The items of the list after the first count, borrowed from it; count is at most the list's. */
static struct cri_list cri__list_behind(const struct cri_list *list, size_t count)
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

/* The first count items of the list, borrowed from it; count is at most the list's. */
static struct cri_list cri__list_front(const struct cri_list *list, size_t count)
{
    struct cri_list front = {true, count, {list->encoded.data, 0}};
    struct cri_list behind = cri__list_behind(list, count);

    front.encoded.len = list->encoded.len - behind.encoded.len;
    return front;
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

/* --- the shortest reference from a base to a target --- */

/*
 * How it works: there are few kinds of references, and within each the shortest is
 * known, so each is sized and the smallest wins:
 *
 *   - the target itself;
 *   - [null, authority, ...], where the schemes are the same;
 *   - [true, ...], where the authorities are the same too;
 *   - [n, ...] with n >= 1: n has to remove everything behind the segments that both
 *     paths begin with. A larger n removes more, so that more has to be written
 *     again, and its own head is no shorter: only the smallest is worth a look;
 *   - [0, path, ...], where the target's path continues the base's;
 *   - [0, null, query, ...] and [0, null, null, fragment], where the paths, and the
 *     queries, are the same.
 *
 * Which sections can be left out behind these is decided by the encoder.
 *
 * Where a URI reference is wanted the candidates are the same, and the length is that
 * of their text; some have none. Then [n, ...] with one more than the smallest n is
 * another: a path that ends there ("..", not the reference without a path).
 */

static size_t size_of(const struct cri__best *best, const struct cri *candidate)
{
    if (best->uri_len != NULL) {
        return best->uri_len(best->table, candidate);
    }
    struct cri_writer writer = {NULL, 0, 0};
    cri__put_cri(&writer, candidate, NULL);
    return writer.len;
}

static void offer(struct cri__best *best, const struct cri *candidate)
{
    size_t len = size_of(best, candidate);

    if (len < best->len) {
        best->reference = *candidate;
        best->len = len;
    }
}

/* A reference that sets the target's value there, without a list if an empty one means the same. */
static struct cri candidate(const struct cri *target, uint16_t discard, struct cri_list path)
{
    struct cri reference = {.discard = discard, .path = path, .query = target->query};

    reference.path.is_set = path.count > 0;
    reference.query.is_set = target->query.count > 0;
    reference.has_fragment = target->has_fragment;
    reference.fragment = target->fragment;
    return reference;
}

static void offer_authority(struct cri__best *best, const struct cri *target)
{
    struct cri reference = *target;

    if (target->authority == CRI_AUTHORITY_NULL) {
        return; /* null would mean that it is not set. */
    }
    reference.scheme = CRI_SCHEME_NOT_SET;
    reference.path.is_set = target->path.count > 0;
    reference.query.is_set = target->query.count > 0;
    offer(best, &reference);
}

static size_t common_count(const struct cri_list *a, const struct cri_list *b)
{
    struct cri_iter iter_a;
    struct cri_iter iter_b;
    struct cri_item item_a;
    struct cri_item item_b;
    size_t count = 0;

    cri_iter_init(&iter_a, a);
    cri_iter_init(&iter_b, b);
    while (cri_iter_next(&iter_a, &item_a) && cri_iter_next(&iter_b, &item_b) &&
           cri__item_is_equal(&item_a, &item_b)) {
        count++;
    }
    return count;
}

/*
 * Discard 0: the base's path stays, and what is behind it as long as nothing is set.
 * Of references of one length the first offered wins, which is the one that sets least.
 */
static void offer_append(struct cri__best *best, const struct cri *base, const struct cri *target)
{
    struct cri reference = candidate(target, 0, cri__list_behind(&target->path, base->path.count));
    bool has_same_path = target->path.count == base->path.count;
    bool has_same_query = has_same_path && cri__list_is_equal(&base->query, &target->query);
    bool has_same_fragment =
        base->has_fragment == target->has_fragment &&
        (!base->has_fragment || cri__item_is_equal(&base->fragment, &target->fragment));

    if (has_same_query && (has_same_fragment || target->has_fragment)) {
        struct cri bare = reference;
        bare.query = (struct cri_list){.is_set = false};
        /* The empty URI reference keeps the fragment here (AMB-3), elsewhere it does not. */
        bare.has_fragment = target->has_fragment && (best->uri_len != NULL || !has_same_fragment);
        offer(best, &bare);
    }
    reference.query.is_set = true;
    if (has_same_path) {
        offer(best, &reference);
    }
    reference.query.is_set = target->query.count > 0;
    reference.path.is_set = true;
    offer(best, &reference);
}

static void offer_discard(struct cri__best *best, const struct cri *base, const struct cri *target,
                          size_t drop)
{
    size_t keep = base->path.count > drop ? base->path.count - drop : 0;

    /*
     * Without an authority RFC 3986 5.2 gives something else where nothing is left of the
     * base's path: "../x" becomes "/x" behind a rootless one, "x" rootless behind none.
     */
    bool is_other =
        keep == 0 && (base->authority == CRI_AUTHORITY_ROOTLESS
                          ? drop > 1
                          : base->authority == CRI_AUTHORITY_NULL && base->path.count == 0);
    if (drop < CRI_DISCARD_ALL && !(best->uri_len != NULL && is_other)) {
        struct cri reference =
            candidate(target, (uint16_t)drop, cri__list_behind(&target->path, keep));
        offer(best, &reference);
    }
}

static void offer_discards(struct cri__best *best, const struct cri *base, const struct cri *target)
{
    if (cri__authority_is_equal(base, target)) {
        size_t common = common_count(&base->path, &target->path);
        size_t drop = base->path.count - common;
        if (drop == 0) {
            offer_append(best, base, target);
            drop = 1;
        }
        offer_discard(best, base, target, drop);
        if (best->uri_len != NULL) {
            offer_discard(best, base, target, drop + 1);
        }
    }
    struct cri kept = *base;
    if (kept.authority == CRI_AUTHORITY_ROOTLESS) {
        kept.authority = CRI_AUTHORITY_NULL; /* The same result as discard true. */
    }
    if (cri__authority_is_equal(&kept, target)) {
        struct cri reference = candidate(target, CRI_DISCARD_ALL, target->path);
        offer(best, &reference);
    }
}

static bool has_same_scheme(const struct cri *a, const struct cri *b)
{
    return a->scheme == b->scheme &&
           (a->scheme == CRI_SCHEME_ID ? a->scheme_number == b->scheme_number
                                       : cri__slice_is_equal(a->scheme_name, b->scheme_name));
}

enum cri_error cri__find_best(const struct cri *base, const struct cri *target,
                              struct cri__best *best, struct cri_fault *ret_fault)
{
    best->len = SIZE_MAX;
    if (!cri__is_full(base) || !cri__is_full(target)) {
        return cri__fail(ret_fault, CRI_ERR_NOT_FULL, 0,
                         cri__is_full(base) ? "target is not a full CRI"
                                            : "base is not a full CRI");
    }
    if (has_same_scheme(base, target)) {
        offer_discards(best, base, target);
        offer_authority(best, target);
    }
    offer(best, target);
    return CRI_OK;
}

enum cri_error cri_relate(const struct cri *base, const struct cri *target, uint8_t *buffer,
                          size_t capacity, size_t *ret_len, struct cri_fault *ret_fault)
{
    struct cri_writer writer = {buffer, capacity, 0};
    struct cri__best best = {.uri_len = NULL};
    enum cri_error error = cri__find_best(base, target, &best, ret_fault);

    if (error != CRI_OK) {
        return error;
    }
    cri__put_cri(&writer, &best.reference, NULL);
    error = cri__writer_finish(&writer, ret_len);
    return error == CRI_OK ? error : cri__fail(ret_fault, error, 0, "buffer too small");
}
