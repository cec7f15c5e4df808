/* SPDX-License-Identifier: BSD-2-Clause */
#include "properties.h"

#include "rfc3986.h"

#include <cri/builder.h>
#include <cri/coap.h>
#include <cri/compare.h>
#include <cri/iri.h>
#include <cri/normalize.h>
#include <cri/resolve.h>

#include <stdlib.h>
#include <string.h>

/* URIs may be three times as long as what they encode, twice over; CRIs are no longer. */
#define BUFFER_SIZE (16u * PROPERTY_INPUT_MAX)

/* Give up on the property with its name. */
#define HOLDS(condition, property)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return (property);                                                                     \
        }                                                                                          \
    } while (0)

static struct cri_slice slice(const void *data, size_t len)
{
    return (struct cri_slice){data, len};
}

static bool same_bytes(struct cri_slice a, struct cri_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool fault_is_inside(enum cri_error error, const struct cri_fault *fault, size_t len)
{
    return error == CRI_OK || (fault->rule != NULL && fault->offset <= len);
}

/* --- One CRI --- */

static const char *encode_again(const struct cri *cri)
{
    static uint8_t canonical[BUFFER_SIZE];
    static uint8_t again[BUFFER_SIZE];
    size_t len;
    size_t again_len;
    struct cri decoded;

    HOLDS(cri_encode(cri, NULL, 0, &len) == CRI_ERR_SPACE, "sizing needs no room");
    HOLDS(len <= sizeof canonical && cri_encode(cri, canonical, len, &len) == CRI_OK,
          "the size is enough");
    HOLDS(cri_decode(slice(canonical, len), NULL, &decoded, NULL) == CRI_OK,
          "what was encoded decodes");
    HOLDS(cri_encode(&decoded, again, sizeof again, &again_len) == CRI_OK &&
              same_bytes(slice(canonical, len), slice(again, again_len)),
          "encoding is idempotent");
    if (cri_is_full(cri)) {
        HOLDS(cri_is_equal(cri, &decoded, true), "decode after encode is the same CRI");
    }
    /* Canonical but for NFC, which is about the text. */
    struct cri_decode_options strict = {.strict = true};
    enum cri_error error = cri_decode(slice(canonical, len), &strict, &decoded, NULL);
    HOLDS(error == CRI_OK || error == CRI_ERR_NFC, "what was encoded is canonical");
    return NULL;
}

/* Labels as one name: they have no dots of their own. */
static struct cri_slice joined(const struct cri_list *labels)
{
    static uint8_t name[BUFFER_SIZE];
    struct cri_iter iter;
    struct cri_item label;
    size_t len = 0;

    cri_iter_init(&iter, labels);
    for (bool is_first = true; cri_iter_next(&iter, &label); is_first = false) {
        if (!is_first) {
            name[len++] = '.';
        }
        if (label.text.len > 0) {
            memcpy(name + len, label.text.data, label.text.len);
        }
        len += label.text.len;
    }
    return slice(name, len);
}

static void build_front(struct cri_builder *builder, const struct cri *cri)
{
    if (cri->scheme == CRI_SCHEME_ID) {
        cri_builder_scheme(builder, cri->scheme_number);
    } else if (cri->scheme == CRI_SCHEME_NAME) {
        cri_builder_scheme_name(builder, cri->scheme_name);
    } else if (cri->authority == CRI_AUTHORITY_NULL) {
        cri_builder_discard(builder, cri->discard);
    }
    if (cri->has_userinfo) {
        cri_builder_userinfo(builder, cri->userinfo.text);
    }
    if (cri->authority == CRI_AUTHORITY_ROOTLESS) {
        cri_builder_rootless(builder);
    } else if (cri->authority == CRI_AUTHORITY_HOST_NAME) {
        cri_builder_host_name(builder, joined(&cri->labels));
    } else if (cri->authority == CRI_AUTHORITY_HOST_IP) {
        cri_builder_host_ip(builder, cri->ip, cri->has_zone ? cri->zone : slice(NULL, 0));
    }
    if (cri->has_port) {
        cri_builder_port(builder, cri->port);
    }
}

/* CRI-45: from its parts it is the same again. A text-pet-sequence is no part for the builder. */
static const char *build_again(const struct cri *cri)
{
    static uint8_t built[BUFFER_SIZE];
    static uint8_t canonical[BUFFER_SIZE];
    struct cri_builder builder;
    struct cri_iter iter;
    struct cri_item item;
    size_t len = 0;
    size_t canonical_len = 0;

    /* The builder takes an empty zone for none. */
    if ((cri->features & CRI_FEATURE_TEXT_OR_PET) != 0 || (cri->has_zone && cri->zone.len == 0)) {
        return NULL;
    }
    cri_builder_init(&builder, built, sizeof built);
    build_front(&builder, cri);
    if (cri->path.is_set) {
        cri_builder_path(&builder);
    }
    cri_iter_init(&iter, &cri->path);
    while (cri_iter_next(&iter, &item)) {
        cri_builder_segment(&builder, item.text);
    }
    if (cri->query.is_set) {
        cri_builder_query(&builder);
    }
    cri_iter_init(&iter, &cri->query);
    while (cri_iter_next(&iter, &item)) {
        cri_builder_parameter(&builder, item.text);
    }
    if (cri->has_fragment) {
        cri_builder_fragment(&builder, cri->fragment.text);
    }
    HOLDS(cri_builder_finish(&builder, &len, NULL) == CRI_OK, "the parts make a CRI");
    HOLDS(cri_encode(cri, canonical, sizeof canonical, &canonical_len) == CRI_OK &&
              same_bytes(slice(built, len), slice(canonical, canonical_len)),
          "the parts make the same CRI");
    return NULL;
}

static const char *copy(const struct cri *cri)
{
    struct cri *owned = NULL;

    HOLDS(cri_dup(cri, &owned) == CRI_OK, "there is memory");
    bool is_equal = cri_is_equal(cri, owned, true) && cri_is_same_uri(cri, owned, NULL, true);
    cri_free(owned);
    HOLDS(is_equal, "a copy is equal");
    return NULL;
}

/* CRI-38: a valid CRI converts, and converts back to itself, with the exceptions of AMB-21. */
static const char *to_uri_and_back(const struct cri *cri)
{
    static char uri[BUFFER_SIZE];
    static uint8_t back[BUFFER_SIZE];
    size_t len;
    size_t back_len;
    struct cri decoded;

    enum cri_error error = cri_uri_format(cri, NULL, uri, sizeof uri, &len, NULL);
    if (error != CRI_OK) {
        bool may_fail = !cri_is_full(cri) || cri->has_zone || error == CRI_ERR_SCHEME_UNKNOWN;
        HOLDS(may_fail, "a valid CRI has a URI");
        return NULL;
    }
    HOLDS(cri_uri_parse(slice(uri, len), NULL, back, sizeof back, &back_len, NULL) == CRI_OK,
          "the URI parses");
    HOLDS(cri_decode(slice(back, back_len), NULL, &decoded, NULL) == CRI_OK,
          "the URI's CRI decodes");
    if (cri_is_full(cri)) {
        HOLDS(cri_is_same_uri(cri, &decoded, NULL, true), "to URI and back is the same URI");
    }
    static char again[BUFFER_SIZE];
    size_t again_len;
    HOLDS(cri_uri_format(&decoded, NULL, again, sizeof again, &again_len, NULL) == CRI_OK &&
              same_bytes(slice(uri, len), slice(again, again_len)),
          "to URI is idempotent");
    return NULL;
}

static const char *to_iri_and_back(const struct cri *cri)
{
    static char iri[BUFFER_SIZE];
    static uint8_t from_iri[BUFFER_SIZE];
    static char uri[BUFFER_SIZE];
    static uint8_t from_uri[BUFFER_SIZE];
    size_t iri_len;
    size_t uri_len;
    size_t from_iri_len = 0;
    size_t from_uri_len = 0;

    enum cri_error error = cri_iri_format(cri, NULL, iri, sizeof iri, &iri_len, NULL);
    HOLDS(error == cri_uri_format(cri, NULL, uri, sizeof uri, &uri_len, NULL),
          "an IRI exists where a URI does");
    if (error != CRI_OK) {
        return NULL;
    }
    HOLDS(cri_iri_parse(slice(iri, iri_len), NULL, from_iri, sizeof from_iri, &from_iri_len,
                        NULL) == CRI_OK &&
              cri_uri_parse(slice(uri, uri_len), NULL, from_uri, sizeof from_uri, &from_uri_len,
                            NULL) == CRI_OK,
          "IRI and URI parse");
    HOLDS(same_bytes(slice(from_iri, from_iri_len), slice(from_uri, from_uri_len)),
          "IRI and URI are the same CRI");
    return NULL;
}

static const char *normalize_twice(struct cri_slice encoded, bool is_valid)
{
    static uint8_t once[BUFFER_SIZE];
    static uint8_t twice[BUFFER_SIZE];
    size_t once_len;
    size_t twice_len;
    struct cri decoded;

    enum cri_error error = cri_normalize(encoded, NULL, once, sizeof once, &once_len, NULL);
    if (error != CRI_OK) {
        /* Of valid ones only marks in great numbers, and Å and the like in an address. */
        HOLDS(!is_valid || error == CRI_ERR_NFC || error == CRI_ERR_HOST || error == CRI_ERR_PET,
              "a valid CRI normalises");
        return NULL;
    }
    struct cri_decode_options strict = {.strict = true};
    HOLDS(cri_normalize(slice(once, once_len), NULL, twice, sizeof twice, &twice_len, NULL) ==
                  CRI_OK &&
              same_bytes(slice(once, once_len), slice(twice, twice_len)),
          "normalising is idempotent");
    error = cri_decode(slice(once, once_len), &strict, &decoded, NULL);
    /* Userinfo and zone-id are not for normalising, so their text may be in any form. */
    if (error == CRI_ERR_NFC) {
        HOLDS(cri_decode(slice(once, once_len), NULL, &decoded, NULL) == CRI_OK &&
                  (decoded.has_userinfo || decoded.has_zone),
              "what was normalised is in NFC");
        return NULL;
    }
    HOLDS(error == CRI_OK, "what was normalised is strict");
    return NULL;
}

static const char *decompose(const struct cri *cri)
{
    struct cri_destination destination = {.ip = {192, 0, 2, 1}, .ip_len = 4, .port = 5683};
    struct cri_options options;
    struct cri_option list[PROPERTY_INPUT_MAX];
    static uint8_t composed[BUFFER_SIZE];
    size_t count = 0;
    size_t len;
    struct cri decoded;

    if (cri_options_init(&options, cri, &destination, NULL, NULL) != CRI_OK) {
        return NULL;
    }
    uint16_t previous = 0;
    while (cri_options_next(&options, &list[count])) {
        HOLDS(list[count].number >= previous, "options ascend");
        HOLDS(list[count].value.len <= CRI_OPTION_VALUE_MAX, "options fit");
        previous = list[count].number;
        count++;
    }
    HOLDS(!cri_options_next(&options, &list[count]), "the end stays the end");
    struct cri_composition composition = {cri->scheme_number, &destination, NULL};
    enum cri_error error =
        cri_from_options(&composition, list, count, composed, sizeof composed, &len, NULL);
    /* Characters that no name has, and a percent sign, do not come back (O2C-2, O2C-3). */
    if (error == CRI_ERR_HOST) {
        return NULL;
    }
    HOLDS(error == CRI_OK, "options compose");
    HOLDS(cri_decode(slice(composed, len), NULL, &decoded, NULL) == CRI_OK,
          "what was composed decodes");
    HOLDS(decoded.query.count == cri->query.count &&
              (decoded.path.count == cri->path.count || cri->path.count == 1),
          "composing is the inverse of decomposing");
    return NULL;
}

static bool same_place(struct cri_slice a, const uint8_t *a_start, struct cri_slice b,
                       const uint8_t *b_start)
{
    return a.len == b.len && (a.len == 0 || a.data - a_start == b.data - b_start);
}

/*
 * The decoder has a quick way for common requests, which tag 99 in front keeps it from: both
 * ways give the same.
 */
static const char *decode_by_the_rules(struct cri_slice encoded, enum cri_error error,
                                       const struct cri *cri)
{
    static uint8_t tagged[PROPERTY_INPUT_MAX + 2] = {0xd8, CRI_TAG};
    const struct cri_decode_options options = {.allow_tag99 = true};
    struct cri slow;

    if (encoded.len > 0) {
        memcpy(tagged + 2, encoded.data, encoded.len);
    }
    HOLDS(cri_decode(slice(tagged, encoded.len + 2), &options, &slow, NULL) == error,
          "the quick way decodes what the rules do");
    if (error != CRI_OK) {
        return NULL;
    }
    HOLDS(cri->scheme == slow.scheme && cri->scheme_number == slow.scheme_number &&
              cri->authority == slow.authority && cri->has_port == slow.has_port &&
              cri->port == slow.port && cri->discard == slow.discard &&
              cri->features == slow.features && cri->has_userinfo == slow.has_userinfo &&
              cri->has_zone == slow.has_zone && cri->has_fragment == slow.has_fragment,
          "the quick way gives the same fields");
    const struct cri_list *quick_lists[] = {&cri->labels, &cri->path, &cri->query};
    const struct cri_list *slow_lists[] = {&slow.labels, &slow.path, &slow.query};
    for (size_t i = 0; i < 3; i++) {
        HOLDS(quick_lists[i]->is_set == slow_lists[i]->is_set &&
                  quick_lists[i]->count == slow_lists[i]->count &&
                  same_place(quick_lists[i]->encoded, encoded.data, slow_lists[i]->encoded,
                             tagged + 2),
              "the quick way gives the same lists");
    }
    return NULL;
}

const char *property_cri(struct cri_slice encoded)
{
    static struct cri cri; /* Static, for cppcheck takes a rule's text for a part of it. */
    struct cri_fault fault = {0, NULL};
    size_t extent = 0;

    if (encoded.len > PROPERTY_INPUT_MAX) {
        return NULL;
    }
    enum cri_error error = cri_decode(encoded, NULL, &cri, &fault);
    HOLDS(fault_is_inside(error, &fault, encoded.len), "a fault has a place and a rule");
    const char *slow = encoded.len > 0 && encoded.data[0] >> 5 == 6
                           ? NULL
                           : decode_by_the_rules(encoded, error, &cri);
    if (slow != NULL) {
        return slow;
    }
    enum cri_error skip_error = cri_skip(encoded, &extent, &fault);
    HOLDS(fault_is_inside(skip_error, &fault, encoded.len), "a fault has a place and a rule");
    HOLDS(skip_error != CRI_OK || extent <= encoded.len, "the extent is inside");
    const char *broken = normalize_twice(encoded, error == CRI_OK);
    if (broken != NULL || error != CRI_OK) {
        return broken;
    }
    HOLDS(skip_error == CRI_OK && extent == encoded.len, "a CRI is skipped whole");
    for (uint32_t features = 0; features <= CRI_FEATURES_ALL; features++) {
        struct cri_decode_options options = {.features_off = ~features};
        struct cri unused;
        error = cri_decode(encoded, &options, &unused, &fault);
        HOLDS(error == ((cri.features & ~features) == 0 ? CRI_OK : CRI_ERR_FEATURE),
              "a feature that is off is an error where it is used, and only there");
    }
    static const struct {
        const char *(*check)(const struct cri *cri);
    } checks[] = {{encode_again},    {build_again},     {copy},
                  {to_uri_and_back}, {to_iri_and_back}, {decompose}};
    for (size_t i = 0; broken == NULL && i < sizeof checks / sizeof checks[0]; i++) {
        broken = checks[i].check(&cri);
    }
    return broken;
}

/* --- URIs --- */

/*
 * RFC 3986 section 6.2.2.2: unreserved octets behind the scheme mean the same when they are
 * percent-encoded. It keeps the parser from its quick ways.
 */
static const char *encode_unreserved(struct cri_slice uri, struct cri_slice encoded)
{
    static uint8_t longer[PROPERTY_INPUT_MAX + 2];
    static uint8_t again[BUFFER_SIZE];
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;
    size_t from = 0;

    /* Behind the third slash is neither scheme nor port nor address; triplets are stepped over. */
    for (unsigned slashes = 0; from < uri.len; from++) {
        const uint8_t octet = uri.data[from];
        const uint8_t lower = octet | 0x20u;
        slashes += octet == '/' ? 1 : 0;
        if (octet == '%') {
            from += 2;
        } else if (slashes >= 3 && lower >= 'a' && lower <= 'z') {
            break;
        }
    }
    if (from >= uri.len || uri.len + 2 > sizeof longer) {
        return NULL;
    }
    memcpy(longer, uri.data, from);
    longer[from] = '%';
    longer[from + 1] = (uint8_t)digits[uri.data[from] >> 4];
    longer[from + 2] = (uint8_t)digits[uri.data[from] & 15];
    memcpy(longer + from + 3, uri.data + from + 1, uri.len - from - 1);
    HOLDS(cri_uri_parse(slice(longer, uri.len + 2), NULL, again, sizeof again, &len, NULL) ==
                  CRI_OK &&
              same_bytes(encoded, slice(again, len)),
          "unreserved octets may be percent-encoded");
    return NULL;
}

const char *property_uri(struct cri_slice uri)
{
    static uint8_t encoded[BUFFER_SIZE];
    size_t len;
    struct cri cri;
    struct cri_fault fault = {0, NULL};

    if (uri.len > PROPERTY_INPUT_MAX) {
        return NULL;
    }
    enum cri_error error = cri_uri_parse(uri, NULL, encoded, sizeof encoded, &len, &fault);
    HOLDS(fault_is_inside(error, &fault, uri.len), "a fault has a place and a rule");
    if (error != CRI_OK) {
        return NULL;
    }
    size_t needed;
    HOLDS(cri_uri_parse(uri, NULL, NULL, 0, &needed, NULL) == CRI_ERR_SPACE && needed == len,
          "sizing gives the size");
    struct cri_decode_options strict = {.strict = true};
    error = cri_decode(slice(encoded, len), &strict, &cri, NULL);
    HOLDS(error == CRI_OK || error == CRI_ERR_NFC, "a URI becomes a canonical CRI");
    static uint8_t from_iri[BUFFER_SIZE];
    HOLDS(cri_iri_parse(uri, NULL, from_iri, sizeof from_iri, &needed, NULL) == CRI_OK &&
              same_bytes(slice(encoded, len), slice(from_iri, needed)),
          "a URI is an IRI");
    const char *broken = encode_unreserved(uri, slice(encoded, len));
    if (broken != NULL) {
        return broken;
    }
    struct cri_uri_options plain = {.plain_only = true};
    error = cri_uri_parse(uri, &plain, from_iri, sizeof from_iri, &needed, NULL);
    if (cri_decode(slice(encoded, len), NULL, &cri, NULL) != CRI_OK) {
        return "a URI's CRI decodes";
    }
    HOLDS((error == CRI_OK) == ((cri.features & CRI_FEATURE_TEXT_OR_PET) == 0),
          "plain_only fails just where a text-pet-sequence is needed");
    return property_cri(slice(encoded, len));
}

/* Normalise by way of a CRI; false where there is none, or no way back. */
static bool normal_uri(struct cri_slice uri, char *buffer, size_t *ret_len)
{
    static uint8_t encoded[BUFFER_SIZE];
    size_t len;
    struct cri cri;

    return cri_uri_parse(uri, NULL, encoded, sizeof encoded, &len, NULL) == CRI_OK &&
           cri_decode(slice(encoded, len), NULL, &cri, NULL) == CRI_OK &&
           cri_uri_format(&cri, NULL, buffer, BUFFER_SIZE, ret_len, NULL) == CRI_OK;
}

const char *property_rfc3986(struct cri_slice base, struct cri_slice reference)
{
    static uint8_t base_bytes[BUFFER_SIZE];
    static uint8_t reference_bytes[BUFFER_SIZE];
    static uint8_t result_bytes[BUFFER_SIZE];
    static char by_cri[BUFFER_SIZE];
    static char by_text[BUFFER_SIZE];
    static char normal[BUFFER_SIZE];
    static char normal_base[BUFFER_SIZE];
    size_t base_len;
    size_t normal_base_len;
    size_t reference_len;
    size_t result_len;
    size_t len;
    struct cri base_cri;
    struct cri reference_cri;
    struct cri result;

    if (base.len + reference.len > PROPERTY_INPUT_MAX ||
        cri_uri_parse(base, NULL, base_bytes, sizeof base_bytes, &base_len, NULL) != CRI_OK ||
        cri_uri_parse(reference, NULL, reference_bytes, sizeof reference_bytes, &reference_len,
                      NULL) != CRI_OK ||
        cri_decode(slice(base_bytes, base_len), NULL, &base_cri, NULL) != CRI_OK ||
        cri_decode(slice(reference_bytes, reference_len), NULL, &reference_cri, NULL) != CRI_OK) {
        return NULL;
    }
    bool has_host = base_cri.authority == CRI_AUTHORITY_HOST_NAME ||
                    base_cri.authority == CRI_AUTHORITY_HOST_IP;
    /* Without a host, RFC 3986 lets ".." make a rootless path root-based; 5.3 does not. */
    if (!cri_is_full(&base_cri) || !has_host) {
        return NULL;
    }
    if (cri_resolve(&base_cri, &reference_cri, result_bytes, sizeof result_bytes, &result_len,
                    NULL) != CRI_OK) {
        HOLDS(false, "with a host in the base, resolution cannot fail");
    }
    HOLDS(cri_decode(slice(result_bytes, result_len), NULL, &result, NULL) == CRI_OK,
          "what was resolved decodes");
    if (reference.len == 0) {
        result.has_fragment = false; /* AMB-3: RFC 3986 drops it. */
    }
    HOLDS(cri_uri_format(&result, NULL, by_cri, sizeof by_cri, &len, NULL) == CRI_OK,
          "what was resolved has a URI");
    /* Dot-segments of the base are gone before section 5.3 begins, but not for RFC 3986. */
    HOLDS(normal_uri(base, normal_base, &normal_base_len), "a base with a host has a URI");
    size_t text_len =
        rfc3986_resolve(slice(normal_base, normal_base_len), reference, by_text, sizeof by_text);
    size_t normal_len = 0;
    HOLDS(text_len <= sizeof by_text && normal_uri(slice(by_text, text_len), normal, &normal_len),
          "RFC 3986 gives a URI with a CRI");
    HOLDS(same_bytes(slice(by_cri, len), slice(normal, normal_len)),
          "resolution commutes with RFC 3986");
    return NULL;
}

/* --- Pairs --- */

const char *property_resolve(struct cri_slice base, struct cri_slice reference)
{
    static uint8_t result_bytes[BUFFER_SIZE];
    static uint8_t related[BUFFER_SIZE];
    static uint8_t back[BUFFER_SIZE];
    size_t result_len;
    size_t related_len;
    size_t back_len;
    struct cri base_cri;
    struct cri reference_cri;
    struct cri result;
    struct cri related_cri;

    if (base.len + reference.len > PROPERTY_INPUT_MAX ||
        cri_decode(base, NULL, &base_cri, NULL) != CRI_OK ||
        cri_decode(reference, NULL, &reference_cri, NULL) != CRI_OK) {
        return NULL;
    }
    enum cri_error error = cri_resolve(&base_cri, &reference_cri, result_bytes, sizeof result_bytes,
                                       &result_len, NULL);
    if (!cri_is_full(&base_cri)) {
        HOLDS(error == CRI_ERR_NOT_FULL, "the base has to be full");
        return NULL;
    }
    if (error != CRI_OK) {
        HOLDS(error == CRI_ERR_PATH, "resolution fails for the path only");
        return NULL;
    }
    HOLDS(result_len <= base.len + reference.len + 16, "the result is no longer than both");
    struct cri_decode_options strict = {.strict = true};
    error = cri_decode(slice(result_bytes, result_len), &strict, &result, NULL);
    HOLDS(error == CRI_OK || error == CRI_ERR_NFC, "what was resolved is canonical");
    HOLDS(cri_decode(slice(result_bytes, result_len), NULL, &result, NULL) == CRI_OK &&
              cri_is_full(&result),
          "what was resolved is full");
    HOLDS(cri_relate(&base_cri, &result, related, sizeof related, &related_len, NULL) == CRI_OK,
          "a full CRI can be related to any base");
    HOLDS(cri_decode(slice(related, related_len), NULL, &related_cri, NULL) == CRI_OK,
          "what was related decodes");
    HOLDS(cri_resolve(&base_cri, &related_cri, back, sizeof back, &back_len, NULL) == CRI_OK &&
              same_bytes(slice(back, back_len), slice(result_bytes, result_len)),
          "what was related resolves to where it came from");
    size_t reference_len;
    HOLDS(cri_encode(&reference_cri, NULL, 0, &reference_len) == CRI_ERR_SPACE,
          "sizing needs no room");
    HOLDS(related_len <= reference_len, "no reference is shorter than the related one");
    return NULL;
}

const char *property_compare(struct cri_slice a, struct cri_slice b)
{
    struct cri cri_a;
    struct cri cri_b;

    if (a.len + b.len > PROPERTY_INPUT_MAX || cri_decode(a, NULL, &cri_a, NULL) != CRI_OK ||
        cri_decode(b, NULL, &cri_b, NULL) != CRI_OK) {
        return NULL;
    }
    bool is_equal = cri_is_equal(&cri_a, &cri_b, true);
    bool is_same = cri_is_same_uri(&cri_a, &cri_b, NULL, true);
    HOLDS(cri_is_equal(&cri_a, &cri_a, true) && cri_is_same_uri(&cri_a, &cri_a, NULL, true),
          "comparison is reflexive");
    HOLDS(is_equal == cri_is_equal(&cri_b, &cri_a, true) &&
              is_same == cri_is_same_uri(&cri_b, &cri_a, NULL, true),
          "comparison is symmetric");
    HOLDS(!is_equal || is_same, "equal CRIs are the same URI");
    HOLDS(!is_equal || cri_is_equal(&cri_a, &cri_b, false), "the fragment only divides");
    static char uri_a[BUFFER_SIZE];
    static char uri_b[BUFFER_SIZE];
    size_t len_a;
    size_t len_b;
    if (cri_is_full(&cri_a) && cri_is_full(&cri_b) &&
        cri_uri_format(&cri_a, NULL, uri_a, sizeof uri_a, &len_a, NULL) == CRI_OK &&
        cri_uri_format(&cri_b, NULL, uri_b, sizeof uri_b, &len_b, NULL) == CRI_OK) {
        HOLDS(is_same == same_bytes(slice(uri_a, len_a), slice(uri_b, len_b)),
              "the same URI is the same text");
    }
    return NULL;
}

const char *property_options(struct cri_slice bytes)
{
    struct cri_option list[64];
    size_t count = 0;
    static uint8_t encoded[BUFFER_SIZE];
    size_t len;
    struct cri cri;
    struct cri_destination destination = {
        .ip = {0xfe, 0x80, [15] = 1}, .ip_len = 16, .port = 5684, .zone = slice("eth0", 4)};

    if (bytes.len > PROPERTY_INPUT_MAX) {
        return NULL;
    }
    while (bytes.len >= 2 && count < sizeof list / sizeof list[0]) {
        size_t value_len = bytes.data[1] < bytes.len - 2 ? bytes.data[1] : bytes.len - 2;
        list[count].number = bytes.data[0];
        list[count].value = slice(bytes.data + 2, value_len);
        bytes = slice(bytes.data + 2 + value_len, bytes.len - 2 - value_len);
        count++;
    }
    struct cri_composition composition = {CRI_SCHEME_COAPS, &destination, NULL};
    struct cri_fault fault = {0, NULL};
    enum cri_error error =
        cri_from_options(&composition, list, count, encoded, sizeof encoded, &len, &fault);
    HOLDS(fault_is_inside(error, &fault, count), "a fault has a place and a rule");
    if (error != CRI_OK) {
        return NULL;
    }
    struct cri_decode_options strict = {.strict = true};
    error = cri_decode(slice(encoded, len), &strict, &cri, NULL);
    HOLDS(error == CRI_OK || error == CRI_ERR_NFC, "what was composed is canonical");
    HOLDS(cri_decode(slice(encoded, len), NULL, &cri, NULL) == CRI_OK, "what was composed decodes");
    /* O2C-12 */
    struct cri_options options;
    struct cri_option option;
    static uint8_t again[BUFFER_SIZE];
    struct cri_option again_list[64];
    size_t again_count = 0;
    error = cri_options_init(&options, &cri, &destination, NULL, NULL);
    if (error == CRI_ERR_ZONE) {
        return NULL; /* A link-local address other than the destination's. */
    }
    HOLDS(error == CRI_OK, "what was composed decomposes");
    while (cri_options_next(&options, &option)) {
        again_list[again_count++] = option;
    }
    size_t again_len;
    HOLDS(cri_from_options(&composition, again_list, again_count, again, sizeof again, &again_len,
                           NULL) == CRI_OK,
          "and composes again");
    bool is_lone_empty = cri.path.count == 1 && cri.path.encoded.len == 1;
    HOLDS(is_lone_empty || same_bytes(slice(encoded, len), slice(again, again_len)), "to the same");
    return NULL;
}
