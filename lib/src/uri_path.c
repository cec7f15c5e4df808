/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: remove_dot_segments (RFC 3986 section 5.2.4) without a stack. Going
 * through the segments from the last to the first, each ".." says that the next
 * segment which is no dot-segment falls away; at the end, how many ".." have found
 * none is known. Writing goes the same way, so the bytes are put at their place
 * from the back, for the length of all of them is known by then. Without dot-segments
 * the path is straight, and all of it goes from front to back.
 */
#include "uri_path.h"

#include "pct.h"

#include <string.h>

enum segment_kind { SEGMENT_NORMAL, SEGMENT_DOT, SEGMENT_DOT_DOT };

/* "." is unreserved, so "%2e" is the same. Gives what stands behind the dot, or no change. */
static struct cri_slice skip_dot(struct cri_slice text)
{
    size_t len = 0;
    if (text.len >= 1 && text.data[0] == '.') {
        len = 1;
    } else if (text.len >= 3 && text.data[0] == '%' && text.data[1] == '2' &&
               (text.data[2] | 0x20u) == 'e') {
        len = 3;
    }
    return cri__slice(text.data + len, text.len - len);
}

static enum segment_kind segment_kind(struct cri_slice segment)
{
    struct cri_slice rest = skip_dot(segment);
    if (rest.len == segment.len) {
        return SEGMENT_NORMAL;
    }
    if (rest.len == 0) {
        return SEGMENT_DOT;
    }
    rest = skip_dot(rest);
    return rest.len == 0 ? SEGMENT_DOT_DOT : SEGMENT_NORMAL;
}

/* Walks the segments from the back and gives those that stay. */
struct walk {
    struct cri_slice rest; /* In front of the segments given so far. */
    size_t skip;           /* Segments that fall away next. */
    bool is_over;
    bool is_last;       /* None was looked at yet. */
    bool dropped_first; /* The first segment of all did not stay. */
};

static struct walk walk_start(const struct cri__path *path)
{
    struct walk walk = {path->source, 0, !path->has_segments, true, false};
    return walk;
}

static bool walk_next(struct walk *walk, struct cri_slice *ret_segment)
{
    while (!walk->is_over) {
        size_t start = walk->rest.len;
        while (start > 0 && walk->rest.data[start - 1] != '/') {
            start--;
        }
        struct cri_slice segment = cri__slice(walk->rest.data + start, walk->rest.len - start);
        enum segment_kind kind = segment_kind(segment);
        bool was_last = walk->is_last;
        walk->is_last = false;
        walk->is_over = start == 0;
        walk->rest.len = start == 0 ? 0 : start - 1;
        if (kind == SEGMENT_DOT_DOT) {
            walk->skip++;
        }
        if (kind != SEGMENT_NORMAL && was_last) {
            /* "a/." and "a/b/.." end with "/". */
            *ret_segment = cri__slice(walk->rest.data, 0);
            walk->dropped_first = walk->is_over;
            return true;
        }
        if (kind == SEGMENT_NORMAL && walk->skip == 0) {
            *ret_segment = segment;
            return true;
        }
        if (kind == SEGMENT_NORMAL) {
            walk->skip--;
        }
        walk->dropped_first = walk->is_over;
    }
    return false;
}

/* Steps 2A and 2D: a path without "/" in front loses the dot-segments it begins with. */
static struct cri_slice strip_front(struct cri_slice source)
{
    for (;;) {
        size_t len = 0;
        while (len < source.len && source.data[len] != '/') {
            len++;
        }
        if (segment_kind(cri__slice(source.data, len)) == SEGMENT_NORMAL) {
            return source;
        }
        size_t skip = len < source.len ? len + 1 : len;
        source.data += skip;
        source.len -= skip;
    }
}

/* Length of the segment at the front of text. */
static size_t segment_extent(struct cri_slice text)
{
    const uint8_t *slash = text.len == 0 ? NULL : memchr(text.data, '/', text.len);
    return slash == NULL ? text.len : (size_t)(slash - text.data);
}

/* Count the segments of path.source, which is straight if there are no dot-segments. */
static void look_for_dots(struct cri__path *path)
{
    struct cri_slice rest = path->source;

    path->first_is_empty = path->has_segments && (rest.len == 0 || rest.data[0] == '/');
    path->is_straight = true;
    while (path->has_segments) {
        size_t len = segment_extent(rest);
        if (segment_kind(cri__slice(rest.data, len)) != SEGMENT_NORMAL) {
            path->is_straight = false;
            path->count = 0;
            return;
        }
        path->count++;
        if (len == rest.len) {
            return;
        }
        rest.data += len + 1;
        rest.len -= len + 1;
    }
}

static size_t segment_len(struct cri_slice segment, bool has_pet)
{
    struct cri_writer writer = {NULL, 0, 0};
    cri__put_source(&writer, segment, CRI__SEGMENT, has_pet, false);
    return writer.len;
}

void cri__path_scan(struct cri_slice source, bool is_relative, struct cri__path *ret_path)
{
    struct cri__path path = {.source = source, .is_relative = is_relative};
    bool has_slash = source.len > 0 && source.data[0] == '/';

    if (!has_slash && !is_relative) {
        path.source = strip_front(source);
        has_slash = path.source.len > 0 && path.source.data[0] == '/';
    }
    path.has_segments = path.source.len > 0;
    if (has_slash) {
        path.source.data++;
        path.source.len--;
    }
    path.is_rooted = has_slash;
    look_for_dots(&path);
    if (path.is_straight) {
        *ret_path = path;
        return;
    }
    struct walk walk = walk_start(&path);
    struct cri_slice segment;
    while (walk_next(&walk, &segment)) {
        path.count++;
        path.encoded_len += segment_len(segment, true);
        path.first_is_empty = segment.len == 0;
    }
    path.surplus = walk.skip;
    path.is_rooted = has_slash || walk.dropped_first;
    *ret_path = path;
}

bool cri__path_take_plain(struct cri_slice *rest, bool is_relative, struct cri__path *ret_path)
{
    const unsigned classes = cri__raw_classes(CRI__SEGMENT);
    struct cri_slice left = *rest;
    const bool is_rooted = left.len > 0 && left.data[0] == '/';
    const uint8_t *start = left.data + (is_rooted ? 1 : 0);
    size_t count = 0;

    while (left.len > 0) {
        if (count > 0 || is_rooted) { /* The slash in front of the segment. */
            left.data++;
            left.len--;
        }
        size_t len = cri__class_span(left, classes);
        uint8_t end = len < left.len ? left.data[len] : '#';
        if (cri__is_dot_segment(cri__slice(left.data, len)) ||
            (end != '/' && end != '?' && end != '#')) {
            return false;
        }
        left.data += len;
        left.len -= len;
        if (count == 0 && len == 0 && !is_rooted && end != '/') {
            break; /* An empty path. */
        }
        count++;
        if (end != '/') {
            break;
        }
    }
    *ret_path = (struct cri__path){
        .source = cri__slice(start, count == 0 ? 0 : (size_t)(left.data - start)),
        .has_segments = count > 0,
        .is_rooted = is_rooted,
        .is_relative = is_relative,
        .count = count,
        .first_is_empty = count > 0 && (start == left.data || start[0] == '/'),
        .is_straight = true,
        .is_raw = true,
    };
    *rest = left;
    return true;
}

bool cri__path_has_pet(const struct cri__path *path)
{
    struct walk walk = walk_start(path);
    struct cri_slice segment;
    bool has_pet = false;
    size_t offset;
    const char *rule;

    while (!has_pet && walk_next(&walk, &segment)) {
        if (cri__source_check(segment, CRI__SEGMENT, true, &has_pet, &offset, &rule) != CRI_OK) {
            break; /* Not reached: the path was checked. */
        }
    }
    return has_pet;
}

static void put_straight_path(struct cri_writer *writer, const struct cri__path *path)
{
    struct cri_slice rest = path->source;

    for (size_t i = 0; i < path->count; i++) {
        size_t len = segment_extent(rest);
        if (path->is_raw) {
            cri__put_plain_text(writer, cri__slice(rest.data, len));
        } else {
            cri__put_source(writer, cri__slice(rest.data, len), CRI__SEGMENT, path->has_pet, false);
        }
        size_t slash = len < rest.len ? 1 : 0;
        rest.data += len + slash;
        rest.len -= len + slash;
    }
}

void cri__put_path(struct cri_writer *writer, const struct cri__path *path)
{
    if (path->is_straight) {
        put_straight_path(writer, path);
        return;
    }
    bool fits =
        writer->len <= writer->capacity && path->encoded_len <= writer->capacity - writer->len;

    if (fits && path->count > 0) {
        size_t end = writer->len + path->encoded_len;
        struct walk walk = walk_start(path);
        struct cri_slice segment;
        while (walk_next(&walk, &segment)) {
            size_t len = segment_len(segment, path->has_pet);
            struct cri_writer part = {writer->buffer + (end - len), len, 0};
            cri__put_source(&part, segment, CRI__SEGMENT, path->has_pet, false);
            end -= len;
        }
    }
    writer->len += path->encoded_len;
}
