/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: each part is written at once. An array's head is kept to one byte while its items
 * come; when it is complete and has 24 or more, they are moved. The outer array has at most five
 * items, so its head is written last, in the first byte. What lies in the parts themselves is for
 * the decoder to check, at the end: one place has the rules.
 */
#include <cri/builder.h>

#include "internal.h"

#include <string.h>

/* The last part; the parts that may follow come after it. */
enum stage { AT_START, AT_FIRST, AT_USERINFO, AT_HOST, AT_PORT, AT_PATH, AT_QUERY, AT_END };

/* Flags. */
#define IS_FULL 0x01u
#define IS_DISCARD 0x02u
#define HAS_AUTHORITY 0x04u /* array or true */
#define IS_OPEN 0x08u       /* an array, from head_at on */
#define HAS_PATH 0x10u      /* set, not a null in its place */
#define HAS_QUERY 0x20u
#define HAS_FRAGMENT 0x40u

static bool build_has(const struct cri_builder *builder, unsigned flag)
{
    return (builder->flags & flag) != 0;
}

static void build_set(struct cri_builder *builder, unsigned flag)
{
    builder->flags = (uint8_t)(builder->flags | flag);
}

static void build_put_head(struct cri_builder *builder, enum cri__major major, uint64_t arg)
{
    builder->count++;
    cri__put_head(&builder->out, major, arg);
}

static void build_put_octet(struct cri_builder *builder, const char *octet)
{
    builder->count++;
    cri__put_raw(&builder->out, octet, 1);
}

static void build_put_text(struct cri_builder *builder, struct cri_slice text)
{
    builder->count++;
    cri__put_text(&builder->out, text);
}

static void build_open(struct cri_builder *builder)
{
    builder->head_at = builder->out.len;
    builder->count = 0;
    builder->out.len++;
    builder->flags |= IS_OPEN;
}

static void build_close(struct cri_builder *builder)
{
    const size_t items_at = builder->head_at + 1;
    const size_t more = cri__head_len(builder->count) - 1;
    struct cri_writer writer = {builder->out.buffer, builder->out.capacity, builder->head_at};

    if (!build_has(builder, IS_OPEN)) {
        return;
    }
    if (more > 0 && builder->out.len <= builder->out.capacity &&
        more <= builder->out.capacity - builder->out.len) {
        memmove(builder->out.buffer + items_at + more, builder->out.buffer + items_at,
                builder->out.len - items_at);
    }
    builder->out.len += more;
    cri__put_head(&writer, CRI__MAJOR_ARRAY, builder->count);
    builder->flags &= (uint8_t)~IS_OPEN;
    if (builder->stage == AT_PATH) {
        builder->path_count = builder->count;
        builder->path_end = builder->out.len;
    } else if (builder->stage == AT_QUERY) {
        builder->query_count = builder->count;
        builder->query_end = builder->out.len;
    }
}

static bool build_fail(struct cri_builder *builder, const char *rule)
{
    if (builder->error == CRI_OK) {
        builder->error = CRI_ERR_ARGUMENT;
        builder->rule = rule;
    }
    return false;
}

/* Whether a part that may stand behind @p last comes in time. */
static bool build_in_time(struct cri_builder *builder, enum stage last)
{
    if (builder->error != CRI_OK) {
        return false;
    }
    return builder->stage <= (uint8_t)last ||
           build_fail(builder, CRI__RULE("a part is out of order or there twice"));
}

void cri_builder_init(struct cri_builder *builder, uint8_t *buffer, size_t capacity)
{
    memset(builder, 0, sizeof *builder);
    builder->out.buffer = buffer;
    builder->out.capacity = capacity;
    builder->out.len = 1; /* the outer array's head */
    builder->discard = CRI_DISCARD_ALL;
}

/* --- scheme and discard --- */

static bool build_first(struct cri_builder *builder, unsigned flag)
{
    if (!build_in_time(builder, AT_START)) {
        return false;
    }
    builder->stage = AT_FIRST;
    build_set(builder, flag);
    return true;
}

void cri_builder_scheme(struct cri_builder *builder, uint64_t number)
{
    if (build_first(builder, IS_FULL)) {
        build_put_head(builder, CRI__MAJOR_NINT, number);
    }
}

void cri_builder_scheme_name(struct cri_builder *builder, struct cri_slice name)
{
    if (build_first(builder, IS_FULL)) {
        build_put_text(builder, name);
    }
}

void cri_builder_discard(struct cri_builder *builder, unsigned discard)
{
    if (discard > CRI_DISCARD_ALL) {
        (void)build_fail(builder, CRI__RULE("discard over 127"));
    } else if (build_first(builder, IS_DISCARD)) {
        builder->discard = (uint16_t)discard;
        if (discard == CRI_DISCARD_ALL) {
            build_put_octet(builder, "\xf5");
        } else {
            build_put_head(builder, CRI__MAJOR_UINT, discard);
        }
    }
}

/* --- authority --- */

/* Before the first part of an authority: null for a scheme that is not there. */
static bool build_authority(struct cri_builder *builder, enum stage last)
{
    if (!build_in_time(builder, last)) {
        return false;
    }
    if (build_has(builder, IS_DISCARD)) {
        return build_fail(builder, CRI__RULE("discard with an authority"));
    }
    if (builder->stage == AT_START) {
        build_put_octet(builder, "\xf6");
    }
    return true;
}

static bool build_authority_array(struct cri_builder *builder, enum stage last, enum stage stage)
{
    if (!build_authority(builder, last)) {
        return false;
    }
    if (!build_has(builder, IS_OPEN)) {
        build_open(builder);
        build_set(builder, HAS_AUTHORITY);
    }
    builder->stage = (uint8_t)stage;
    return true;
}

void cri_builder_rootless(struct cri_builder *builder)
{
    if (build_authority(builder, AT_FIRST)) {
        build_put_octet(builder, "\xf5");
        build_set(builder, HAS_AUTHORITY);
        builder->stage = AT_PORT;
    }
}

void cri_builder_userinfo(struct cri_builder *builder, struct cri_slice userinfo)
{
    if (build_authority_array(builder, AT_FIRST, AT_USERINFO)) {
        build_put_octet(builder, "\xf4");
        build_put_text(builder, userinfo);
    }
}

/* Converts the last text to lower case, if there was room for it. */
static void build_lower(struct cri_builder *builder, size_t len)
{
    if (builder->out.len > builder->out.capacity) {
        return;
    }
    for (size_t i = builder->out.len - len; i < builder->out.len; i++) {
        uint8_t octet = builder->out.buffer[i];
        builder->out.buffer[i] = octet >= 'A' && octet <= 'Z' ? octet | 0x20u : octet;
    }
}

void cri_builder_host_name(struct cri_builder *builder, struct cri_slice name)
{
    size_t start = 0;

    if (!build_authority_array(builder, AT_USERINFO, AT_HOST)) {
        return;
    }
    for (size_t i = 0; i <= name.len; i++) {
        if (i == name.len || name.data[i] == '.') {
            build_put_text(builder, cri__slice(i > 0 ? name.data + start : NULL, i - start));
            build_lower(builder, i - start);
            start = i + 1;
        }
    }
}

void cri_builder_host_ip(struct cri_builder *builder, struct cri_slice ip, struct cri_slice zone)
{
    if (!build_authority_array(builder, AT_USERINFO, AT_HOST)) {
        return;
    }
    builder->count++;
    cri__put_bytes(&builder->out, ip);
    if (zone.len > 0) {
        build_put_text(builder, zone);
    }
}

void cri_builder_port(struct cri_builder *builder, uint16_t port)
{
    if (builder->stage != AT_HOST) {
        (void)build_fail(builder, CRI__RULE("a port has to follow a host"));
    } else if (build_in_time(builder, AT_HOST)) {
        build_put_head(builder, CRI__MAJOR_UINT, port);
        builder->stage = AT_PORT;
    }
}

/* --- the local part --- */

/* From scheme, authority or discard to the sections behind them. */
static void build_local(struct cri_builder *builder)
{
    build_close(builder);
    if (builder->stage == AT_START) {
        cri_builder_discard(builder, 0);
    }
    builder->local_at = builder->out.len;
    if (build_has(builder, IS_FULL) && !build_has(builder, HAS_AUTHORITY)) {
        build_put_octet(builder, "\xf6");
    }
}

/* A section that is not given, in front of one that is. */
static void build_put_absent(struct cri_builder *builder)
{
    build_put_octet(builder, build_has(builder, IS_FULL) ? "\x80" : "\xf6");
}

static void build_path(struct cri_builder *builder)
{
    build_local(builder);
    builder->stage = AT_PATH;
}

static void build_query(struct cri_builder *builder)
{
    if (builder->stage < AT_PATH) {
        build_path(builder);
        build_put_absent(builder);
    }
    build_close(builder);
    builder->stage = AT_QUERY;
}

void cri_builder_path(struct cri_builder *builder)
{
    if (build_in_time(builder, AT_PORT)) {
        build_path(builder);
        build_open(builder);
        build_set(builder, HAS_PATH);
    }
}

void cri_builder_segment(struct cri_builder *builder, struct cri_slice text)
{
    if (builder->stage != AT_PATH) {
        cri_builder_path(builder);
    }
    if (builder->error == CRI_OK) {
        build_put_text(builder, text);
    }
}

void cri_builder_query(struct cri_builder *builder)
{
    if (build_in_time(builder, AT_PATH)) {
        build_query(builder);
        build_open(builder);
        build_set(builder, HAS_QUERY);
    }
}

void cri_builder_parameter(struct cri_builder *builder, struct cri_slice text)
{
    if (builder->stage != AT_QUERY) {
        cri_builder_query(builder);
    }
    if (builder->error == CRI_OK) {
        build_put_text(builder, text);
    }
}

void cri_builder_fragment(struct cri_builder *builder, struct cri_slice text)
{
    if (!build_in_time(builder, AT_QUERY)) {
        return;
    }
    if (builder->stage < AT_QUERY) {
        build_query(builder);
        build_put_absent(builder);
    }
    build_close(builder);
    build_put_text(builder, text);
    build_set(builder, HAS_FRAGMENT);
    builder->stage = AT_END;
}

/* --- the end --- */

/* How many sections of the local part stay: trailing defaults do not (section 5.1). */
static unsigned build_local_count(const struct cri_builder *builder)
{
    struct cri cri;

    cri__unset(&cri);
    cri.discard = builder->discard;
    cri.path.is_set = build_has(builder, HAS_PATH);
    cri.path.count = builder->path_count;
    cri.query.is_set = build_has(builder, HAS_QUERY);
    cri.query.count = builder->query_count;
    cri.has_fragment = build_has(builder, HAS_FRAGMENT);
    return cri__local_count(&cri, build_has(builder, IS_DISCARD), 0);
}

/* Length without trailing defaults; the outer array's count in *ret_count. */
static size_t build_trimmed_len(const struct cri_builder *builder, unsigned *ret_count)
{
    unsigned count = build_local_count(builder);
    unsigned first = build_has(builder, IS_DISCARD) ? 1 : 2;
    const size_t ends[] = {builder->local_at, builder->path_end, builder->query_end,
                           builder->out.len};

    if (count == 0 && build_has(builder, IS_DISCARD) && builder->discard == 0) {
        *ret_count = 0; /* [] says the same as [0] */
        return 1;
    }
    if (count == 0 && build_has(builder, IS_FULL) && !build_has(builder, HAS_AUTHORITY)) {
        first = 1;
    }
    *ret_count = first + count;
    return ends[count];
}

enum cri_error cri_builder_finish(struct cri_builder *builder, size_t *ret_len,
                                  struct cri_fault *ret_fault)
{
    unsigned count;
    struct cri checked;

    if (builder->error == CRI_OK && builder->stage < AT_PATH) {
        build_path(builder);
    }
    if (builder->error != CRI_OK) {
        return cri__fail(ret_fault, builder->error, builder->out.len, builder->rule);
    }
    build_close(builder);
    size_t len = build_trimmed_len(builder, &count);
    if (len > builder->out.capacity) {
        *ret_len = len;
        return cri__fail(ret_fault, CRI_ERR_SPACE, 0, "buffer too small");
    }
    struct cri_writer head = {builder->out.buffer, builder->out.capacity, 0};
    cri__put_head(&head, CRI__MAJOR_ARRAY, count);
    enum cri_error error =
        cri_decode(cri__slice(builder->out.buffer, len), NULL, &checked, ret_fault);
    if (error == CRI_OK) {
        *ret_len = len;
    }
    return error;
}
