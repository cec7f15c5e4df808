/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands that turn one form into another; each is a thin shell around libcri. */
#include "cri_tool.h"

#include <cri/compare.h>
#include <cri/cori.h>
#include <cri/diag.h>
#include <cri/iri.h>
#include <cri/normalize.h>
#include <cri/resolve.h>
#include <cri/uri.h>

#include <string.h>

/* The common signature of libcri's writers; @p context is the caller's own. */
typedef enum cri_error (*write_fn)(const void *context, uint8_t *buffer, size_t capacity,
                                   size_t *ret_len, struct cri_fault *ret_fault);

/* Runs a writer into @p out, once more with room when it did not fit. */
static bool write_out(struct tool *tool, write_fn write, const void *context, struct buffer *out)
{
    struct cri_fault fault = {0};
    size_t len = 0;
    enum cri_error error = write(context, out->data, out->capacity, &len, &fault);
    if (error == CRI_ERR_SPACE) {
        buffer_reserve(out, len);
        error = write(context, out->data, out->capacity, &len, &fault);
    }
    if (error != CRI_OK) {
        return refuse_error(tool, error, &fault);
    }
    out->len = len;
    return true;
}

static bool write_hex(struct tool *tool, write_fn write, const void *context)
{
    return write_out(tool, write, context, &tool->second) &&
           answer_hex(tool, buffer_slice(&tool->second));
}

/* U2C-8: a new CRI has no port that is its scheme's default. */
static const struct cri_uri_options uri_options = {.elide_default_port = true};

/* The host keeps its capital letters until they are composed; see cri/normalize.h. */
static const struct cri_uri_options raw_options = {.elide_default_port = true,
                                                   .keep_host_case = true};

/* A text that becomes a CRI. */
struct identifier {
    struct cri_slice text;
    const struct cri_uri_options *options;
    bool is_iri;
};

static enum cri_error write_identifier(const void *context, uint8_t *buffer, size_t capacity,
                                       size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct identifier *identifier = context;
    return (identifier->is_iri ? cri_iri_parse : cri_uri_parse)(
        identifier->text, identifier->options, buffer, capacity, ret_len, ret_fault);
}

bool convert_uri(struct tool *tool, struct cri_slice uri, struct buffer *bytes)
{
    const struct identifier identifier = {uri, &uri_options, false};
    return write_out(tool, write_identifier, &identifier, bytes);
}

static enum cri_error write_normalized(const void *context, uint8_t *buffer, size_t capacity,
                                       size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct cri_slice *encoded = context;
    return cri_normalize(*encoded, NULL, buffer, capacity, ret_len, ret_fault);
}

/* With --normalize the input is normalized like a user's input; with --strict a CRI's rules hold.
 */
static bool create(struct tool *tool, struct cri_slice text, bool is_iri)
{
    const struct identifier identifier = {text, tool->is_normalizing ? &raw_options : &uri_options,
                                          is_iri};
    const struct cri_decode_options options = {.strict = tool->is_strict};
    struct cri cri;
    struct cri_fault fault = {0};

    if (!write_out(tool, write_identifier, &identifier, &tool->input)) {
        return false;
    }
    struct cri_slice encoded = buffer_slice(&tool->input);
    if (tool->is_normalizing) {
        if (!write_out(tool, write_normalized, &encoded, &tool->second)) {
            return false;
        }
        encoded = buffer_slice(&tool->second);
    }
    /* The place is one in the CRI, which the user has not seen. */
    return cri_decode(encoded, &options, &cri, &fault) == CRI_OK ? answer_hex(tool, encoded)
                                                                 : refuse(tool, fault.rule);
}

static enum cri_error write_uri(const void *context, uint8_t *buffer, size_t capacity,
                                size_t *ret_len, struct cri_fault *ret_fault)
{
    return cri_uri_format(context, NULL, (char *)buffer, capacity, ret_len, ret_fault);
}

bool format_uri(struct tool *tool, const struct cri *cri, struct buffer *text)
{
    return write_out(tool, write_uri, cri, text);
}

bool run_from_uri(struct tool *tool, struct cri_slice input)
{
    return create(tool, input, false);
}

bool run_to_uri(struct tool *tool, struct cri_slice input)
{
    struct cri cri;
    return read_cri(tool, input, &tool->input, &cri) &&
           write_out(tool, write_uri, &cri, &tool->result);
}

bool run_from_iri(struct tool *tool, struct cri_slice input)
{
    return create(tool, input, true);
}

static enum cri_error write_iri(const void *context, uint8_t *buffer, size_t capacity,
                                size_t *ret_len, struct cri_fault *ret_fault)
{
    return cri_iri_format(context, NULL, (char *)buffer, capacity, ret_len, ret_fault);
}

bool run_to_iri(struct tool *tool, struct cri_slice input)
{
    struct cri cri;
    return read_cri(tool, input, &tool->input, &cri) &&
           write_out(tool, write_iri, &cri, &tool->result);
}

/* The meaning in draft-ietf-core-href-12 of a CRI that this draft refuses: see docs/CONFORMANCE.md.
 */
static void add_href12_error(struct tool *tool)
{
    static const struct {
        const char *rule;
        const char *meant;
    } rows[] = {
        {"host label contains a dot", "; href-12: a dot that is percent-encoded in the URI"},
        {"percent-encoded bytes that belong in text",
         "; href-12: octets that are percent-encoded in the URI"},
    };
    struct cri cri;
    struct cri_fault fault = {0};

    if (tool->input.len == 0 ||
        cri_decode(buffer_slice(&tool->input), NULL, &cri, &fault) == CRI_OK) {
        return; /* Not hexadecimal, or only --strict refused it. */
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(fault.rule, rows[i].rule) == 0) {
            buffer_append_text(&tool->result, rows[i].meant);
        }
    }
}

/* And a different meaning there of a CRI that both accept. */
static void add_href12(struct tool *tool, const struct cri *cri)
{
    if (cri->has_zone) {
        buffer_append_text(&tool->result, "; href-12: the zone-id is in the URI, behind %25");
    }
    if (!cri_is_full(cri) && cri->query.is_set && cri->has_fragment) {
        buffer_append_text(&tool->result, "; href-12: resolving it drops the fragment");
    }
}

bool run_check(struct tool *tool, struct cri_slice input)
{
    struct cri cri;
    if (!read_cri(tool, input, &tool->input, &cri)) {
        if (tool->with_href12) {
            add_href12_error(tool);
        }
        return false;
    }
    buffer_set_text(&tool->result, cri_is_full(&cri) ? "full" : "relative");
    if (tool->with_href12) {
        add_href12(tool, &cri);
    }
    return true;
}

static enum cri_error write_diag(const void *context, uint8_t *buffer, size_t capacity,
                                 size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct cri_slice *encoded = context;
    return cri_diag_format(*encoded, (char *)buffer, capacity, ret_len, ret_fault);
}

bool run_diag(struct tool *tool, struct cri_slice input)
{
    if (!read_hex(tool, input, &tool->input)) {
        return false;
    }
    const struct cri_slice encoded = buffer_slice(&tool->input);
    return write_out(tool, write_diag, &encoded, &tool->result);
}

static enum cri_error write_from_diag(const void *context, uint8_t *buffer, size_t capacity,
                                      size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct cri_slice *text = context;
    return cri_diag_parse(*text, buffer, capacity, ret_len, ret_fault);
}

bool run_from_diag(struct tool *tool, struct cri_slice input)
{
    return write_hex(tool, write_from_diag, &input);
}

/* Base and reference, or base and target. */
struct pair {
    const struct cri *base;
    const struct cri *other;
};

static enum cri_error write_resolved(const void *context, uint8_t *buffer, size_t capacity,
                                     size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct pair *pair = context;
    return cri_resolve(pair->base, pair->other, buffer, capacity, ret_len, ret_fault);
}

static enum cri_error write_related(const void *context, uint8_t *buffer, size_t capacity,
                                    size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct pair *pair = context;
    return cri_relate(pair->base, pair->other, buffer, capacity, ret_len, ret_fault);
}

static enum cri_error write_related_uri(const void *context, uint8_t *buffer, size_t capacity,
                                        size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct pair *pair = context;
    return cri_uri_relate(pair->base, pair->other, NULL, (char *)buffer, capacity, ret_len,
                          ret_fault);
}

/* A URI to its view. Offsets in bytes that the user has not seen would not help. */
static bool read_uri(struct tool *tool, struct cri_slice uri, struct buffer *bytes,
                     struct cri *ret_cri)
{
    struct cri_fault fault = {0};
    return convert_uri(tool, uri, bytes) &&
           (cri_decode(buffer_slice(bytes), NULL, ret_cri, &fault) == CRI_OK ||
            refuse(tool, fault.rule));
}

bool read_identifier(struct tool *tool, struct cri_slice text, struct buffer *bytes,
                     struct cri *ret_cri)
{
    return tool->with_uri ? read_uri(tool, text, bytes, ret_cri)
                          : read_cri(tool, text, bytes, ret_cri);
}

bool run_resolve(struct tool *tool, struct cri_slice input)
{
    struct cri other;
    struct cri_fault fault = {0};
    const struct pair pair = {&tool->base, &other};
    if (!tool->with_uri) {
        return read_cri(tool, input, &tool->input, &other) &&
               write_hex(tool, write_resolved, &pair);
    }
    if (!read_uri(tool, input, &tool->input, &other) ||
        !write_out(tool, write_resolved, &pair, &tool->second)) {
        return false;
    }
    return cri_decode(buffer_slice(&tool->second), NULL, &other, &fault) == CRI_OK
               ? write_out(tool, write_uri, &other, &tool->result)
               : refuse(tool, fault.rule);
}

bool run_relate(struct tool *tool, struct cri_slice input)
{
    struct cri target;
    const struct pair pair = {&tool->base, &target};
    if (tool->with_uri) {
        return read_uri(tool, input, &tool->input, &target) &&
               write_out(tool, write_related_uri, &pair, &tool->result);
    }
    return read_cri(tool, input, &tool->input, &target) && write_hex(tool, write_related, &pair);
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

/* Next field of a line, between blanks; empty when there is none. */
static struct cri_slice take_field(struct cri_slice *line)
{
    size_t start = 0;
    while (start < line->len && is_blank(line->data[start])) {
        start++;
    }
    size_t end = start;
    while (end < line->len && !is_blank(line->data[end])) {
        end++;
    }
    const struct cri_slice field = {line->data + start, end - start};
    *line = (struct cri_slice){line->data + end, line->len - end};
    return field;
}

/* The CRIs of two fields, or with --binary of standard input, where one follows the other. */
static bool take_two(struct tool *tool, struct cri_slice input, struct cri_slice *ret_first,
                     struct cri_slice *ret_second)
{
    if (!tool->is_raw_input || tool->with_uri) {
        *ret_first = take_field(&input);
        *ret_second = take_field(&input);
        return (ret_second->len > 0 && take_field(&input).len == 0) ||
               refuse(tool, "two fields were expected");
    }
    struct cri_fault fault = {0};
    size_t extent = 0;
    const enum cri_error error = cri_skip(input, &extent, &fault);
    if (error != CRI_OK) {
        return refuse_error(tool, error, &fault);
    }
    *ret_first = (struct cri_slice){input.data, extent};
    *ret_second = (struct cri_slice){input.data + extent, input.len - extent};
    return ret_second->len > 0 || refuse(tool, "two CRIs were expected");
}

bool run_compare(struct tool *tool, struct cri_slice input)
{
    struct cri a;
    struct cri b;
    struct cri_slice first = {0};
    struct cri_slice second = {0};

    if (!take_two(tool, input, &first, &second)) {
        return false;
    }
    if (!read_identifier(tool, first, &tool->input, &a)) {
        return false;
    }
    if (!read_identifier(tool, second, &tool->second, &b)) {
        /* Which of the two is meant has to be said. */
        const char *prefix = tool->with_uri ? "second URI: " : "second CRI: ";
        const size_t prefix_len = strlen(prefix);
        struct buffer *result = &tool->result;
        buffer_append_text(result, prefix);
        memmove(result->data + prefix_len, result->data, result->len - prefix_len);
        memcpy(result->data, prefix, prefix_len);
        return false;
    }
    buffer_set_text(&tool->result,
                    cri_is_equal(&a, &b, tool->with_fragment) ? "equal" : "different");
    return true;
}

bool run_normalize(struct tool *tool, struct cri_slice input)
{
    if (!read_hex(tool, input, &tool->input)) {
        return false;
    }
    const struct cri_slice encoded = buffer_slice(&tool->input);
    return write_hex(tool, write_normalized, &encoded);
}

static enum cri_error write_from_cori(const void *context, uint8_t *buffer, size_t capacity,
                                      size_t *ret_len, struct cri_fault *ret_fault)
{
    return cri_cori_to_cri(context, NULL, buffer, capacity, ret_len, ret_fault);
}

bool run_from_cori(struct tool *tool, struct cri_slice input)
{
    struct cri_cori cori;
    struct cri_fault fault = {0};
    if (!read_hex(tool, input, &tool->input)) {
        return false;
    }
    enum cri_error error = cri_cori_decode(buffer_slice(&tool->input), &cori, &fault);
    return error == CRI_OK ? write_hex(tool, write_from_cori, &cori)
                           : refuse_error(tool, error, &fault);
}

static enum cri_error write_to_cori(const void *context, uint8_t *buffer, size_t capacity,
                                    size_t *ret_len, struct cri_fault *ret_fault)
{
    return cri_cori_from_cri(context, NULL, buffer, capacity, ret_len, ret_fault);
}

bool run_to_cori(struct tool *tool, struct cri_slice input)
{
    struct cri cri;
    return read_cri(tool, input, &tool->input, &cri) && write_hex(tool, write_to_cori, &cri);
}
