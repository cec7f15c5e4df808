/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoRI (draft-ietf-core-href-02): decode, iterate, resolve, recompose.
 *
 * The draft's algorithms build lists; here the result of a resolution is never
 * held: it is some first options of the base and the reference's own options,
 * so both are walked, once to count and once to write.
 */
#include "internal.h"

#include <cri/cori.h>

#define NUMBER_BEGIN 0u
#define NUMBER_END 9u
#define PATH_TYPE_MAX 127u

#define BIT(number) (1u << (number))

/* The options that may follow an option (its section 4, figure 1), by number; BEGIN and END
 * included. */
static const uint16_t followers[] = {
    [NUMBER_BEGIN] = BIT(CRI_CORI_SCHEME) | BIT(CRI_CORI_HOST_NAME) | BIT(CRI_CORI_HOST_IP) |
                     BIT(CRI_CORI_PORT) | BIT(CRI_CORI_PATH_TYPE) | BIT(CRI_CORI_PATH) |
                     BIT(CRI_CORI_QUERY) | BIT(CRI_CORI_FRAGMENT) | BIT(NUMBER_END),
    [CRI_CORI_SCHEME] = BIT(CRI_CORI_HOST_NAME) | BIT(CRI_CORI_HOST_IP),
    [CRI_CORI_HOST_NAME] = BIT(CRI_CORI_PORT),
    [CRI_CORI_HOST_IP] = BIT(CRI_CORI_PORT),
    [CRI_CORI_PORT] =
        BIT(CRI_CORI_PATH) | BIT(CRI_CORI_QUERY) | BIT(CRI_CORI_FRAGMENT) | BIT(NUMBER_END),
    [CRI_CORI_PATH_TYPE] =
        BIT(CRI_CORI_PATH) | BIT(CRI_CORI_QUERY) | BIT(CRI_CORI_FRAGMENT) | BIT(NUMBER_END),
    [CRI_CORI_PATH] =
        BIT(CRI_CORI_PATH) | BIT(CRI_CORI_QUERY) | BIT(CRI_CORI_FRAGMENT) | BIT(NUMBER_END),
    [CRI_CORI_QUERY] = BIT(CRI_CORI_QUERY) | BIT(CRI_CORI_FRAGMENT) | BIT(NUMBER_END),
    [CRI_CORI_FRAGMENT] = BIT(NUMBER_END),
};

static enum cri_error check_number(const struct cri__reader *in, unsigned previous,
                                   struct cri_fault *ret_fault)
{
    if (in->kind != CRI__UINT || in->arg < CRI_CORI_SCHEME || in->arg > CRI_CORI_FRAGMENT) {
        return cri__fail(ret_fault, CRI_ERR_STRUCTURE, in->at, "not an option number");
    }
    if ((followers[previous] & BIT(in->arg)) == 0) {
        return cri__fail(ret_fault, CRI_ERR_STRUCTURE, in->at, "an option that may not stand here");
    }
    return CRI_OK;
}

static enum cri_error check_text(const struct cri__reader *in, enum cri_cori_number number,
                                 struct cri_fault *ret_fault)
{
    if (in->kind != CRI__TEXT) {
        return cri__fail(ret_fault, CRI_ERR_STRUCTURE, in->at, "the option's value is not text");
    }
    const size_t span = cri__utf8_span(in->string.data, in->string.len);
    if (span < in->string.len) {
        return cri__fail(ret_fault, CRI_ERR_UTF8, in->pos - in->string.len + span,
                         "text is not valid UTF-8");
    }
    if (number == CRI_CORI_SCHEME && !cri__is_scheme_name(in->string, false)) {
        return cri__fail(ret_fault, CRI_ERR_SCHEME, in->at, "not a scheme name in lower case");
    }
    if (number == CRI_CORI_PATH && cri__is_dot_segment(in->string)) {
        return cri__fail(ret_fault, CRI_ERR_PATH, in->at, "dot-segment in the path");
    }
    return CRI_OK;
}

static enum cri_error check_value(const struct cri__reader *in, enum cri_cori_number number,
                                  struct cri_fault *ret_fault)
{
    switch (number) {
    case CRI_CORI_HOST_IP:
        if (in->kind != CRI__BYTES || (in->string.len != 4 && in->string.len != 16)) {
            return cri__fail(ret_fault, CRI_ERR_HOST, in->at, "not an address of 4 or 16 bytes");
        }
        return CRI_OK;
    case CRI_CORI_PORT:
        if (in->kind != CRI__UINT || in->arg > UINT16_MAX) {
            return cri__fail(ret_fault, CRI_ERR_STRUCTURE, in->at, "not a port");
        }
        return CRI_OK;
    case CRI_CORI_PATH_TYPE:
        if (in->kind != CRI__UINT || in->arg > PATH_TYPE_MAX) {
            return cri__fail(ret_fault, CRI_ERR_STRUCTURE, in->at, "not a path type");
        }
        return CRI_OK;
    case CRI_CORI_SCHEME:
    case CRI_CORI_HOST_NAME:
    case CRI_CORI_PATH:
    case CRI_CORI_QUERY:
    case CRI_CORI_FRAGMENT:
        break;
    }
    return check_text(in, number, ret_fault);
}

/* The options, the array's head having been read. */
static enum cri_error check_options(struct cri__reader *in, size_t count,
                                    struct cri_fault *ret_fault)
{
    unsigned previous = NUMBER_BEGIN;
    for (size_t i = 0; i < count; i++) {
        enum cri_error error = cri__read(in, ret_fault);
        if (error == CRI_OK) {
            error = check_number(in, previous, ret_fault);
        }
        if (error != CRI_OK) {
            return error;
        }
        previous = (unsigned)in->arg;
        error = cri__read(in, ret_fault);
        if (error == CRI_OK) {
            error = check_value(in, (enum cri_cori_number)previous, ret_fault);
        }
        if (error != CRI_OK) {
            return error;
        }
    }
    if ((followers[previous] & BIT(NUMBER_END)) == 0) {
        return cri__fail(ret_fault, CRI_ERR_STRUCTURE, in->pos, "an option is missing at the end");
    }
    return CRI_OK;
}

enum cri_error cri_cori_decode(struct cri_slice encoded, struct cri_cori *ret_cori,
                               struct cri_fault *ret_fault)
{
    struct cri__reader in = {.data = encoded.data, .len = encoded.len};
    enum cri_error error = cri__read(&in, ret_fault);
    if (error != CRI_OK) {
        return error;
    }
    if (in.kind == CRI__INDEFINITE) {
        return cri__fail(ret_fault, CRI_ERR_INDEFINITE, in.at, "indefinite length");
    }
    if (in.kind != CRI__ARRAY || in.arg % 2 != 0) {
        return cri__fail(ret_fault, CRI_ERR_STRUCTURE, in.at,
                         "not an array of option numbers and values");
    }
    struct cri_cori cori = {.count = (size_t)in.arg / 2};
    const size_t start = in.pos;
    error = check_options(&in, cori.count, ret_fault);
    if (error != CRI_OK) {
        return error;
    }
    if (in.pos < encoded.len) {
        return cri__fail(ret_fault, CRI_ERR_TRAILING_BYTES, in.pos, "bytes after the array");
    }
    cori.encoded = cri__slice(encoded.data + start, encoded.len - start);
    struct cri_iter iter;
    struct cri_cori_option first;
    cri_cori_init(&iter, &cori);
    cori.is_absolute = cri_cori_next(&iter, &first) && first.number == CRI_CORI_SCHEME;
    *ret_cori = cori;
    return CRI_OK;
}

void cri_cori_init(struct cri_iter *iter, const struct cri_cori *cori)
{
    iter->rest = cori->encoded;
}

/* One head of a checked sequence; for a string its content is taken too. */
static uint64_t take(struct cri_slice *rest, struct cri_slice *ret_string)
{
    uint64_t arg = 0;
    const uint8_t major = rest->data[0] >> 5;
    size_t len = cri__head(rest->data, rest->len, &arg);
    if (major == CRI__MAJOR_BYTES || major == CRI__MAJOR_TEXT) {
        *ret_string = cri__slice(rest->data + len, (size_t)arg);
        len += (size_t)arg;
    }
    *rest = cri__slice(rest->data + len, rest->len - len);
    return arg;
}

bool cri_cori_next(struct cri_iter *iter, struct cri_cori_option *ret_option)
{
    if (iter->rest.len == 0) {
        return false;
    }
    struct cri_cori_option option = {0};
    option.number = (enum cri_cori_number)take(&iter->rest, &option.string);
    const uint64_t arg = take(&iter->rest, &option.string);
    option.value = option.string.data == NULL ? (uint16_t)arg : 0;
    *ret_option = option;
    return true;
}
