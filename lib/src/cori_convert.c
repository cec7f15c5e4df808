/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoRI to CRI references and back. The differences between the forms, and their conversion, are in
 * cori.h; every result is a valid CRI reference, or an error.
 */
#include "host.h"
#include "internal.h"

#include <cri/cori.h>

/* CRI_CORI_PATH_TYPE counts from here: relative-path discards one segment. */
#define PATH_TYPE_OF_DISCARD_0 2u
#define PATH_TYPE_MAX 127u

/* --- CoRI to CRI --- */

/* A sequence, taken apart. */
struct parts {
    struct cri_slice scheme;
    struct cri_cori_option host; /* number 0: none */
    bool has_port;
    uint16_t port;
    bool has_path_type; /* given, or implied by a path in front */
    uint16_t path_type;
    size_t path_count;
    size_t query_count;
    bool has_fragment;
    struct cri_slice fragment;
};

/* A path in front has a type of its own. */
static void count_segment(struct parts *parts, bool is_first)
{
    if (is_first) {
        parts->has_path_type = true;
        parts->path_type = CRI_CORI_RELATIVE_PATH;
    }
    parts->path_count++;
}

static void take_apart(const struct cri_cori *cori, struct parts *ret_parts)
{
    struct parts parts = {0};
    struct cri_iter iter;
    struct cri_cori_option option;
    bool is_lone_empty = false;
    cri_cori_init(&iter, cori);
    for (bool is_first = true; cri_cori_next(&iter, &option); is_first = false) {
        switch (option.number) {
        case CRI_CORI_SCHEME:
            parts.scheme = option.string;
            break;
        case CRI_CORI_HOST_NAME:
        case CRI_CORI_HOST_IP:
            parts.host = option;
            break;
        case CRI_CORI_PORT:
            parts.has_port = true;
            parts.port = option.value;
            break;
        case CRI_CORI_PATH_TYPE:
            parts.has_path_type = true;
            parts.path_type = option.value;
            break;
        case CRI_CORI_PATH:
            count_segment(&parts, is_first);
            is_lone_empty = parts.path_count == 1 && option.string.len == 0;
            break;
        case CRI_CORI_QUERY:
            parts.query_count++;
            break;
        case CRI_CORI_FRAGMENT:
            parts.has_fragment = true;
            parts.fragment = option.string;
            break;
        }
    }
    const bool is_relative_path = parts.has_path_type && parts.path_type != CRI_CORI_ABSOLUTE_PATH;
    if (is_lone_empty && !is_relative_path) {
        parts.path_count = 0;
    }
    *ret_parts = parts;
}

static uint8_t to_lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20u : c;
}

/* Labels of a host name; a name that reads as an IPv4 address is one, as in its URI. */
static void put_host(struct cri_writer *writer, const struct parts *parts, bool with_port)
{
    const struct cri_slice name = parts->host.string;
    const size_t extra = with_port ? 1 : 0;
    uint8_t ip[4];
    if (parts->host.number == CRI_CORI_HOST_IP || cri__ipv4_parse(name, ip)) {
        const bool is_text = parts->host.number == CRI_CORI_HOST_NAME;
        cri__put_head(writer, CRI__MAJOR_ARRAY, 1 + extra);
        cri__put_bytes(writer, is_text ? cri__slice(ip, sizeof(ip)) : name);
    } else {
        size_t labels = 1;
        for (size_t i = 0; i < name.len; i++) {
            labels += name.data[i] == '.' ? 1 : 0;
        }
        cri__put_head(writer, CRI__MAJOR_ARRAY, labels + extra);
        for (size_t start = 0, end = 0; start <= name.len; start = end + 1) {
            for (end = start; end < name.len && name.data[end] != '.';) {
                end++;
            }
            cri__put_head(writer, CRI__MAJOR_TEXT, end - start);
            for (size_t i = start; i < end; i++) {
                const uint8_t octet = to_lower(name.data[i]);
                cri__put_raw(writer, &octet, 1);
            }
        }
    }
    if (with_port) {
        cri__put_head(writer, CRI__MAJOR_UINT, parts->port);
    }
}

/* All options of one number, as an array of text. */
static void put_texts(struct cri_writer *writer, const struct cri_cori *cori,
                      enum cri_cori_number number, size_t count)
{
    struct cri_iter iter;
    struct cri_cori_option option;
    cri__put_head(writer, CRI__MAJOR_ARRAY, count);
    cri_cori_init(&iter, cori);
    while (count > 0 && cri_cori_next(&iter, &option)) {
        if (option.number == number) {
            cri__put_text(writer, option.string);
        }
    }
}

/*
 * Path, query and fragment, up to the last that is there. @p filler_is_null: what
 * is missing before one that is there is not set, rather than empty.
 */
static void put_local(struct cri_writer *writer, const struct cri_cori *cori,
                      const struct parts *parts, bool with_path, bool filler_is_null)
{
    const bool has_query = parts->query_count > 0;
    if (parts->path_count > 0 || with_path) {
        put_texts(writer, cori, CRI_CORI_PATH, parts->path_count);
    } else if (has_query || parts->has_fragment) {
        filler_is_null ? cri__put_null(writer) : cri__put_head(writer, CRI__MAJOR_ARRAY, 0);
    }
    if (has_query) {
        put_texts(writer, cori, CRI_CORI_QUERY, parts->query_count);
    } else if (parts->has_fragment) {
        filler_is_null ? cri__put_null(writer) : cri__put_head(writer, CRI__MAJOR_ARRAY, 0);
    }
    if (parts->has_fragment) {
        cri__put_text(writer, parts->fragment);
    }
}

static size_t count_local(const struct parts *parts, bool with_path)
{
    return parts->has_fragment      ? 3
           : parts->query_count > 0 ? 2
           : parts->path_count > 0  ? 1
           : with_path              ? 1
                                    : 0;
}

static void put_with_authority(struct cri_writer *writer, const struct cri_cori *cori,
                               const struct parts *parts, const struct cri_scheme_table *table)
{
    const struct cri_scheme *scheme =
        cori->is_absolute ? cri_scheme_by_name(table, parts->scheme) : NULL;
    const bool is_default =
        scheme != NULL && scheme->default_port == parts->port && scheme->default_port != 0;
    cri__put_head(writer, CRI__MAJOR_ARRAY, 2 + count_local(parts, false));
    if (!cori->is_absolute) {
        cri__put_null(writer);
    } else if (scheme != NULL) {
        cri__put_head(writer, CRI__MAJOR_NINT, scheme->number);
    } else {
        cri__put_text(writer, parts->scheme);
    }
    put_host(writer, parts, !is_default);
    put_local(writer, cori, parts, false, !cori->is_absolute);
}

static void put_with_discard(struct cri_writer *writer, const struct cri_cori *cori,
                             const struct parts *parts)
{
    /* [0, []] drops query and fragment as append-path does; [0] would not (AMB-5). */
    const bool with_path = parts->has_path_type && parts->path_type == CRI_CORI_APPEND_PATH;
    if (cori->count == 0) {
        cri__put_head(writer, CRI__MAJOR_ARRAY, 0);
        return;
    }
    cri__put_head(writer, CRI__MAJOR_ARRAY, 1 + count_local(parts, with_path));
    if (!parts->has_path_type) {
        cri__put_head(writer, CRI__MAJOR_UINT, 0);
    } else if (parts->path_type == CRI_CORI_ABSOLUTE_PATH) {
        cri__put_bool(writer, true);
    } else {
        cri__put_head(writer, CRI__MAJOR_UINT, parts->path_type - PATH_TYPE_OF_DISCARD_0);
    }
    put_local(writer, cori, parts, with_path, true);
}

enum cri_error cri_cori_to_cri(const struct cri_cori *cori, const struct cri_scheme_table *table,
                               uint8_t *buffer, size_t capacity, size_t *ret_len,
                               struct cri_fault *ret_fault)
{
    struct cri_writer writer = {.buffer = buffer, .capacity = capacity};
    struct parts parts;
    take_apart(cori, &parts);
    if (parts.has_path_type && parts.path_type == CRI_CORI_APPEND_RELATION) {
        return cri__fail(ret_fault, CRI_ERR_NOT_EXPRESSIBLE, 0,
                         "append-relation has no equivalent in CRI references");
    }
    if (parts.host.number != 0) {
        put_with_authority(&writer, cori, &parts, table);
    } else if (parts.has_port) {
        return cri__fail(ret_fault, CRI_ERR_NOT_EXPRESSIBLE, 0,
                         "a port without a host has no equivalent in CRI references");
    } else {
        put_with_discard(&writer, cori, &parts);
    }
    size_t len = 0;
    enum cri_error error = cri__writer_finish(&writer, &len);
    if (error == CRI_OK) {
        /* A name that no host may have, a path that would need PET: let the rules decide. */
        struct cri cri;
        struct cri_fault fault = {0};
        error = cri_decode(cri__slice(buffer, len), NULL, &cri, &fault);
        if (error != CRI_OK) {
            return cri__fail(ret_fault, error, 0, fault.rule);
        }
    } else {
        (void)cri__fail(ret_fault, error, 0, cri_strerror(error));
    }
    *ret_len = len;
    return error;
}

/* --- CRI to CoRI --- */

struct emitter {
    struct cri_writer writer;
    size_t count; /* of options */
};

static void emit_number(struct emitter *out, enum cri_cori_number number)
{
    out->count++;
    cri__put_head(&out->writer, CRI__MAJOR_UINT, (uint64_t)number);
}

static void emit_text(struct emitter *out, enum cri_cori_number number, struct cri_slice text)
{
    emit_number(out, number);
    cri__put_text(&out->writer, text);
}

static void emit_uint(struct emitter *out, enum cri_cori_number number, uint64_t value)
{
    emit_number(out, number);
    cri__put_head(&out->writer, CRI__MAJOR_UINT, value);
}

static void emit_list(struct emitter *out, enum cri_cori_number number, const struct cri_list *list)
{
    struct cri_iter iter;
    struct cri_item item;
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        emit_text(out, number, item.text);
    }
}

static void emit_host(struct emitter *out, const struct cri *cri)
{
    struct cri_iter iter;
    struct cri_item label;
    if (cri->authority == CRI_AUTHORITY_HOST_IP) {
        emit_number(out, CRI_CORI_HOST_IP);
        cri__put_bytes(&out->writer, cri->ip);
        return;
    }
    size_t len = cri->labels.count - 1; /* dots; there is always a label */
    cri_iter_init(&iter, &cri->labels);
    while (cri_iter_next(&iter, &label)) {
        len += label.text.len;
    }
    emit_number(out, CRI_CORI_HOST_NAME);
    cri__put_head(&out->writer, CRI__MAJOR_TEXT, len);
    cri_iter_init(&iter, &cri->labels);
    for (bool is_first = true; cri_iter_next(&iter, &label); is_first = false) {
        cri__put_raw(&out->writer, ".", is_first ? 0 : 1);
        cri__put_raw(&out->writer, label.text.data, label.text.len);
    }
}

/* A path of one empty segment is written as none where the path is absolute. */
static bool is_lone_empty(const struct cri_list *path)
{
    struct cri_iter iter;
    struct cri_item item;
    cri_iter_init(&iter, path);
    return path->count == 1 && cri_iter_next(&iter, &item) && !item.is_pet && item.text.len == 0;
}

static void emit_discard(struct emitter *out, const struct cri *cri)
{
    if (cri->discard == CRI_DISCARD_ALL) {
        emit_uint(out, CRI_CORI_PATH_TYPE, CRI_CORI_ABSOLUTE_PATH);
    } else if (cri->discard == 1 && cri->path.count > 0) {
        return; /* the meaning of a path at the start */
    } else if (cri->discard > 0 || cri->path.is_set ||
               (cri->query.is_set && cri->query.count == 0)) {
        emit_uint(out, CRI_CORI_PATH_TYPE, cri->discard + PATH_TYPE_OF_DISCARD_0);
    }
}

struct origin {
    const struct cri_scheme *scheme; /* NULL: not in the table */
    struct cri_slice name;
    uint16_t port;
};

static void emit_all(struct emitter *out, const struct cri *cri, const struct origin *origin)
{
    const bool has_authority =
        cri->authority == CRI_AUTHORITY_HOST_NAME || cri->authority == CRI_AUTHORITY_HOST_IP;
    if (cri__is_full(cri)) {
        emit_text(out, CRI_CORI_SCHEME, origin->name);
    }
    if (has_authority) {
        emit_host(out, cri);
        emit_uint(out, CRI_CORI_PORT, origin->port);
    } else {
        emit_discard(out, cri);
    }
    if (cri->discard != CRI_DISCARD_ALL || !is_lone_empty(&cri->path)) {
        emit_list(out, CRI_CORI_PATH, &cri->path);
    }
    emit_list(out, CRI_CORI_QUERY, &cri->query);
    if (cri->has_fragment) {
        emit_text(out, CRI_CORI_FRAGMENT, cri->fragment.text);
    }
}

/* Scheme name and port, which CoRI always has. */
static enum cri_error find_origin(const struct cri *cri, const struct cri_scheme_table *table,
                                  struct origin *ret_origin, struct cri_fault *ret_fault)
{
    struct origin origin = {.port = cri->port};
    if (cri->scheme == CRI_SCHEME_ID) {
        origin.scheme = cri_scheme_by_number(table, cri->scheme_number);
        if (origin.scheme == NULL) {
            return cri__fail(ret_fault, CRI_ERR_SCHEME_UNKNOWN, 0, "no scheme has this number");
        }
        size_t len = 0;
        while (origin.scheme->name[len] != '\0') {
            len++;
        }
        origin.name = cri__slice((const uint8_t *)origin.scheme->name, len);
    } else if (cri->scheme == CRI_SCHEME_NAME) {
        origin.scheme = cri_scheme_by_name(table, cri->scheme_name);
        origin.name = cri->scheme_name;
    }
    if (!cri->has_port) {
        if (origin.scheme == NULL || origin.scheme->default_port == 0) {
            return cri__fail(ret_fault, CRI_ERR_NOT_EXPRESSIBLE, 0,
                             "no port, and no default port is known");
        }
        origin.port = origin.scheme->default_port;
    }
    *ret_origin = origin;
    return CRI_OK;
}

/* Parts of a CRI that CoRI cannot express. */
static enum cri_error check_expressible(const struct cri *cri, struct cri_fault *ret_fault)
{
    if (cri->authority == CRI_AUTHORITY_ROOTLESS ||
        (cri__is_full(cri) && cri->authority == CRI_AUTHORITY_NULL)) {
        return cri__fail(ret_fault, CRI_ERR_NO_HOST, 0, "CoRI needs a host");
    }
    if (cri->has_userinfo) {
        return cri__fail(ret_fault, CRI_ERR_USERINFO, 0, "CoRI has no userinfo");
    }
    if (cri->has_zone) {
        return cri__fail(ret_fault, CRI_ERR_ZONE, 0, "CoRI has no zone-id");
    }
    if ((cri->features & CRI_FEATURE_TEXT_OR_PET) != 0) {
        return cri__fail(ret_fault, CRI_ERR_NOT_EXPRESSIBLE, 0, "CoRI has no text-pet-sequences");
    }
    if (cri->discard != CRI_DISCARD_ALL && cri->discard > PATH_TYPE_MAX - PATH_TYPE_OF_DISCARD_0) {
        return cri__fail(ret_fault, CRI_ERR_NOT_EXPRESSIBLE, 0,
                         "CoRI discards at most 125 segments");
    }
    return CRI_OK;
}

enum cri_error cri_cori_from_cri(const struct cri *cri, const struct cri_scheme_table *table,
                                 uint8_t *buffer, size_t capacity, size_t *ret_len,
                                 struct cri_fault *ret_fault)
{
    const bool has_authority =
        cri->authority == CRI_AUTHORITY_HOST_NAME || cri->authority == CRI_AUTHORITY_HOST_IP;
    struct origin origin = {0};
    enum cri_error error = check_expressible(cri, ret_fault);
    if (error == CRI_OK && has_authority) {
        error = find_origin(cri, table, &origin, ret_fault);
    }
    if (error != CRI_OK) {
        return error;
    }
    struct emitter counting = {0};
    emit_all(&counting, cri, &origin);
    struct emitter out = {.writer = {.buffer = buffer, .capacity = capacity}};
    cri__put_head(&out.writer, CRI__MAJOR_ARRAY, 2 * (uint64_t)counting.count);
    emit_all(&out, cri, &origin);
    error = cri__writer_finish(&out.writer, ret_len);
    if (error != CRI_OK) {
        (void)cri__fail(ret_fault, error, 0, cri_strerror(error));
    }
    return error;
}
