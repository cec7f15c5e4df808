/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/http_response.h"

#include "coap/block.h"
#include "coap/media.h"
#include "coap/option.h"

#include <cri/cri.h>
#include <cri/resolve.h>
#include <cri/uri.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#define CRI_ROOM 2048u      /* of a Location; longer ones are left out */
#define DIAGNOSTIC_MAX 256u /* bytes of an error page in text that are passed on */
#define SECONDS_MAX UINT32_MAX
#define LAST_MODIFIED_STRONG_S 60u /* older than this it is a strong validator */

/* --- fields ---------------------------------------------------------------- */

static const struct http_field *next_field(const struct http_response *response, const char *name,
                                           size_t *at)
{
    while (*at < response->field_count) {
        const struct http_field *field = &response->fields[(*at)++];
        /* Most differ in their first letter: a dozen names are asked for in each answer. */
        if (((field->name[0] ^ name[0]) & ~0x20) == 0 && strcasecmp(field->name, name) == 0) {
            return field;
        }
    }
    return NULL;
}

const char *http_response_field(const struct http_response *response, const char *name)
{
    size_t at = 0;
    const struct http_field *field = next_field(response, name, &at);
    return field != NULL ? field->value : NULL;
}

/* Digits, no more than SECONDS_MAX; false where there are none, or other bytes follow. */
static bool parse_seconds(const char *text, size_t len, uint32_t *ret_s)
{
    uint64_t value = 0;
    if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
        text++; /* a quoted argument (RFC 9111 section 5.2) */
        len -= 2;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text[i] - '0');
        value = value > SECONDS_MAX ? SECONDS_MAX : value;
    }
    *ret_s = (uint32_t)value;
    return len > 0;
}

/* The time of an HTTP-date (RFC 9110 section 5.6.7) in @p ret_s; false where it is none. */
static bool http_date_parse(const char *text, uint64_t *ret_s)
{
    /* IMF-fixdate, and the two obsolete forms that a recipient has to take. */
    static const char *const forms[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %e %H:%M:%S %Y"};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct tm tm = {0};
        const char *end = strptime(text, forms[i], &tm);
        if (end != NULL && *end == '\0') {
            time_t time = timegm(&tm);
            *ret_s = (uint64_t)time;
            return time >= 0;
        }
    }
    return false;
}

/* --- freshness (RFC 9111) --------------------------------------------------- */

struct cache_control {
    bool has_max_age, has_s_maxage;
    uint32_t max_age_s, s_maxage_s;
    bool is_private, is_no_cache, is_public, must_revalidate; /* is_private: or no-store */
};

static bool is_directive(const char *text, size_t len, const char *name)
{
    return strlen(name) == len && strncasecmp(text, name, len) == 0;
}

static void take_directive(struct cache_control *control, const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    size_t name_len = equals != NULL ? (size_t)(equals - text) : len;
    size_t value_len = equals != NULL ? len - name_len - 1 : 0;
    if (is_directive(text, name_len, "max-age")) {
        control->has_max_age = true;
        if (equals == NULL || !parse_seconds(equals + 1, value_len, &control->max_age_s)) {
            control->max_age_s = 0; /* invalid: stale (section 4.2.1) */
        }
    } else if (is_directive(text, name_len, "s-maxage")) {
        control->has_s_maxage = true;
        if (equals == NULL || !parse_seconds(equals + 1, value_len, &control->s_maxage_s)) {
            control->s_maxage_s = 0;
        }
    } else if (is_directive(text, name_len, "no-store") ||
               is_directive(text, name_len, "private")) {
        control->is_private = true; /* with field names, too: section 5.2.2.7 allows it */
    } else if (is_directive(text, name_len, "no-cache")) {
        control->is_no_cache = true;
    } else if (is_directive(text, name_len, "public")) {
        control->is_public = true;
    } else if (is_directive(text, name_len, "must-revalidate")) {
        control->must_revalidate = true;
    }
}

/* A comma between quotes splits nothing. */
static void take_directives(struct cache_control *control, const char *text)
{
    while (*text != '\0') {
        text += strspn(text, " \t,");
        size_t len = 0;
        bool is_quoted = false;
        while (text[len] != '\0' && (is_quoted || text[len] != ',')) {
            is_quoted ^= text[len] == '"';
            len++;
        }
        size_t trimmed = len;
        while (trimmed > 0 && (text[trimmed - 1] == ' ' || text[trimmed - 1] == '\t')) {
            trimmed--;
        }
        take_directive(control, text, trimmed);
        text += len;
    }
}

static struct cache_control control_of(const struct http_response *response)
{
    struct cache_control control = {0};
    const struct http_field *field;
    for (size_t at = 0; (field = next_field(response, "Cache-Control", &at)) != NULL;) {
        take_directives(&control, field->value);
    }
    return control;
}

/* Section 4.2.1, as a shared cache. */
static uint64_t lifetime_s(const struct http_response *response,
                           const struct cache_control *control)
{
    const char *expires = http_response_field(response, "Expires");
    const char *date = http_response_field(response, "Date");
    uint64_t date_s = response->received_s, expires_s = 0;
    if (control->has_s_maxage) {
        return control->s_maxage_s;
    }
    if (control->has_max_age) {
        return control->max_age_s;
    }
    if (expires == NULL || !http_date_parse(expires, &expires_s) ||
        (date != NULL && !http_date_parse(date, &date_s))) {
        return 0;
    }
    return expires_s > date_s ? expires_s - date_s : 0;
}

/* Section 4.2.3: how old it was when it came. */
static uint64_t http_age_s(const struct http_response *response)
{
    const char *age_text = http_response_field(response, "Age");
    const char *date = http_response_field(response, "Date");
    uint64_t date_s = 0, apparent = 0;
    uint32_t age = 0;
    if (age_text != NULL && !parse_seconds(age_text, strlen(age_text), &age)) {
        age = SECONDS_MAX; /* an age there is, and not known */
    }
    if (date != NULL && http_date_parse(date, &date_s) && response->received_s > date_s) {
        apparent = response->received_s - date_s;
    }
    uint64_t corrected = (uint64_t)age + response->delay_s;
    return apparent > corrected ? apparent : corrected;
}

uint32_t http_response_fresh_s(const struct http_response *response)
{
    const struct cache_control control = control_of(response);
    uint64_t lifetime =
        control.is_private || control.is_no_cache ? 0 : lifetime_s(response, &control);
    uint64_t age = lifetime > 0 ? http_age_s(response) : 0; /* dates take their time */
    uint64_t left = lifetime > age ? lifetime - age : 0;
    return left > SECONDS_MAX ? SECONDS_MAX : (uint32_t)left;
}

/*
 * Whether the answer depends on more than the cache key has (section 4.1). Of the fields that the
 * proxy sends, Accept and Accept-Encoding follow from the Accept option, which is in the key;
 * others are the same in all requests but for those that say where the request has come from.
 */
static bool varies_beyond_key(const struct http_response *response)
{
    const struct http_field *field;
    for (size_t at = 0; (field = next_field(response, "Vary", &at)) != NULL;) {
        if (strchr(field->value, '*') != NULL || strcasestr(field->value, "via") != NULL ||
            strcasestr(field->value, "max-forwards") != NULL) {
            return true;
        }
    }
    return false;
}

/* Not for a shared cache, nor for several observers. */
static bool is_unshared(const struct http_response *response, bool has_credentials)
{
    const struct cache_control control = control_of(response);
    bool may_be_shared = control.is_public || control.must_revalidate || control.has_s_maxage;
    return control.is_private || varies_beyond_key(response) ||
           (has_credentials && !may_be_shared); /* section 3.5 */
}

static bool is_for_one(const struct http_response *response, bool has_credentials)
{
    return control_of(response).is_no_cache || is_unshared(response, has_credentials);
}

/* Retry-After as seconds from now (RFC 9110 section 10.2.3). */
static bool find_retry_after(const struct http_response *response, uint32_t *ret_s)
{
    const char *text = http_response_field(response, "Retry-After");
    uint64_t date_s = 0;
    if (text == NULL) {
        return false;
    }
    if (parse_seconds(text, strlen(text), ret_s)) {
        return true;
    }
    if (!http_date_parse(text, &date_s)) {
        return false;
    }
    uint64_t left = date_s > response->received_s ? date_s - response->received_s : 0;
    *ret_s = left > SECONDS_MAX ? SECONDS_MAX : (uint32_t)left;
    return true;
}

/* --- codes ------------------------------------------------------------------ */

static uint8_t code_of_error(unsigned status)
{
    switch (status) {
#define ANSWER(number, class, detail)                                                              \
    case number:                                                                                   \
        return CODE(class, detail);
#include "coap/http_answers.def"
#undef ANSWER
    default:
        return status < 500 ? CODE(4, 0) : CODE(5, 0);
    }
}

/* CH-4; 0: no such answer to this method. */
static uint8_t code_of_success(unsigned status, uint8_t method)
{
    bool is_done = status == 200 || status == 202 || status == 204 || status == 205;
    switch (method) {
    case CODE_GET:
        return status == 200 || status == 203 || status == 204 ? CODE(2, 5) : 0;
    case CODE_DELETE:
        return is_done && status != 205 ? CODE(2, 2) : 0;
    default:
        return status == 201 ? CODE(2, 1) : is_done ? CODE(2, 4) : 0;
    }
}

/* 0: the answer makes no sense, or leads elsewhere. */
static uint8_t code_of_status(unsigned status, uint8_t method)
{
    if (method == CODE_DELETE && (status == 404 || status == 410)) {
        return CODE(2, 2); /* RFC 7252 section 10.1.4 */
    }
    if (status == 304) {
        return method == CODE_GET ? CODE(2, 3) : 0; /* RFC 7252 section 5.9.1.3 */
    }
    if (status >= 200 && status < 300) {
        return code_of_success(status, method);
    }
    return status >= 400 && status < 600 ? code_of_error(status) : 0;
}

/* --- what goes along ---------------------------------------------------------- */

struct mapping {
    const struct http_response *response;
    const struct http_question *question;
    struct http_mapped *mapped;
    uint8_t etag[HTTP_TAG_ETAG_MAX];
    size_t etag_len;
    uint32_t format; /* Content-Format, or MEDIA_NONE */
    bool has_max_age;
    uint32_t max_age_s;
    bool has_location;
    struct location *location; /* where that is: not cleared in each answer, for its size */
};

struct location {
    uint8_t room[CRI_ROOM]; /* an encoded CRI: */
    struct cri target;
};

static void set_words(struct mapping *mapping, uint8_t code, const char *words)
{
    mapping->mapped->code = code;
    mapping->mapped->payload = (struct bytes){(const uint8_t *)words, strlen(words)};
    mapping->format = MEDIA_NONE;
    mapping->etag_len = 0;
}

static struct bytes response_text_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, text != NULL ? strlen(text) : 0};
}

/* As far as whole characters go; nothing where it is no UTF-8. */
static struct bytes diagnostic_of(struct bytes body)
{
    size_t at = 0, end = body.len < DIAGNOSTIC_MAX ? body.len : DIAGNOSTIC_MAX;
    while (at < end) {
        uint8_t c = body.data[at];
        size_t more = c < 0x80 ? 0 : (c & 0xe0) == 0xc0 ? 1 : (c & 0xf0) == 0xe0 ? 2 : 3;
        if (c >= 0x80 && (c < 0xc2 || c > 0xf4)) {
            return (struct bytes){0};
        }
        if (at + more >= end && more > 0) {
            break;
        }
        for (size_t i = 1; i <= more; i++) {
            if ((body.data[at + i] & 0xc0) != 0x80) {
                return (struct bytes){0};
            }
        }
        at += 1 + more;
    }
    return (struct bytes){body.data, at};
}

/* Whether a reader would take it for UTF-8 text, or not as coded, and be wrong. */
static bool would_be_misread(struct bytes type, struct bytes coding)
{
    const char *charset = strcasestr((const char *)type.data, "charset=");
    bool is_utf8 = charset == NULL || strncasecmp(charset + 8, "utf-8", 5) == 0 ||
                   strncasecmp(charset + 8, "\"utf-8", 6) == 0 ||
                   strncasecmp(charset + 8, "us-ascii", 8) == 0;
    bool is_coded = coding.len > 0 && strcasecmp((const char *)coding.data, "identity") != 0;
    return is_coded || !is_utf8;
}

/* CH-8: the Content-Format of what has a payload. */
static void map_format(struct mapping *mapping)
{
    struct bytes type = response_text_of(http_response_field(mapping->response, "Content-Type"));
    struct bytes coding =
        response_text_of(http_response_field(mapping->response, "Content-Encoding"));
    if (mapping->mapped->payload.len == 0 || type.len == 0) {
        return;
    }
    mapping->format = media_find(mapping->question->media, type, coding);
    if (mapping->format == MEDIA_NONE && media_coap_payload(type) != MEDIA_NONE &&
        coding.len == 0) {
        mapping->format = media_coap_payload(type);
    }
    if (mapping->format != MEDIA_NONE) {
        return;
    }
    if (mapping->question->refuses_unmapped) {
        set_words(mapping, CODE(5, 2), "media type without a content-format");
    } else if (would_be_misread(type, coding)) {
        mapping->format = MEDIA_OCTET_STREAM;
    }
}

/* An error: its text is the diagnostic payload, what has a format goes as that (RFC 7252 5.5.2). */
static void map_error(struct mapping *mapping)
{
    struct bytes type = response_text_of(http_response_field(mapping->response, "Content-Type"));
    struct bytes coding =
        response_text_of(http_response_field(mapping->response, "Content-Encoding"));
    uint32_t format =
        type.len > 0 ? media_find(mapping->question->media, type, coding) : MEDIA_NONE;
    mapping->etag_len = 0;
    if (format == 0) {
        mapping->mapped->payload = diagnostic_of(mapping->response->body);
    } else if (format != MEDIA_NONE) {
        mapping->format = format;
    } else {
        mapping->mapped->payload = (struct bytes){0}; /* a page for people */
    }
}

/* RFC 7252 section 5.10.4: another format than the one that was asked for is no answer. */
static void check_accept(struct mapping *mapping)
{
    struct bytes value;
    if (mapping->mapped->code == CODE(2, 5) && mapping->mapped->payload.len > 0 &&
        option_find(mapping->question->request->options, OPTION_accept, &value) &&
        option_uint(value) != mapping->format) {
        set_words(mapping, CODE(4, 6), "the server has another media type");
    }
}

/* The validator of a 304: its own, or the only one that it can be about. */
static bool map_valid(struct mapping *mapping)
{
    struct option_iter iter;
    struct option option;
    unsigned count = 0;
    bool has_own = mapping->etag_len > 0;
    if (mapping->question->known.len > 0) {
        count++;
        if (mapping->etag_len == 0) {
            memcpy(mapping->etag, mapping->question->known.data, mapping->question->known.len);
            mapping->etag_len = mapping->question->known.len;
        }
    }
    option_iter_init(&iter, mapping->question->request->options);
    while (option_iter_next(&iter, &option) && option.number <= OPTION_etag) {
        if (option.number == OPTION_etag) {
            count++;
            if (mapping->etag_len == 0 && option.value.len <= HTTP_TAG_ETAG_MAX) {
                memcpy(mapping->etag, option.value.data, option.value.len);
                mapping->etag_len = option.value.len;
            }
        }
    }
    mapping->mapped->payload = (struct bytes){0};
    return mapping->etag_len > 0 && (count == 1 || (count > 1 && has_own));
}

/* --- Location (CH-4) ----------------------------------------------------------- */

static bool is_same_slice(struct cri_slice a, struct cri_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool is_same_authority(const struct cri *a, const struct cri *b)
{
    return a->scheme == CRI_SCHEME_ID && b->scheme == CRI_SCHEME_ID &&
           a->scheme_number == b->scheme_number && a->authority == b->authority &&
           is_same_slice(a->labels.encoded, b->labels.encoded) && is_same_slice(a->ip, b->ip) &&
           a->has_port == b->has_port && a->port == b->port && !b->has_userinfo;
}

static bool parse_uri(const char *text, uint8_t room[CRI_ROOM], struct cri *ret_cri)
{
    static const struct cri_uri_options options = {.elide_default_port = true, .plain_only = true};
    size_t len = 0;
    return cri_uri_parse((struct cri_slice){(const uint8_t *)text, strlen(text)}, &options, room,
                         CRI_ROOM, &len, NULL) == CRI_OK &&
           cri_decode((struct cri_slice){room, len}, NULL, ret_cri, NULL) == CRI_OK;
}

static void map_location(struct mapping *mapping)
{
    const char *text = http_response_field(mapping->response, "Location");
    uint8_t base_room[CRI_ROOM], reference_room[CRI_ROOM];
    struct cri base, reference;
    struct location *location = mapping->location;
    size_t len = 0;
    mapping->has_location = text != NULL && mapping->question->url != NULL &&
                            parse_uri(mapping->question->url, base_room, &base) &&
                            parse_uri(text, reference_room, &reference) &&
                            cri_resolve(&base, &reference, location->room, sizeof(location->room),
                                        &len, NULL) == CRI_OK &&
                            cri_decode((struct cri_slice){location->room, len}, NULL,
                                       &location->target, NULL) == CRI_OK &&
                            is_same_authority(&base, &location->target);
}

bool http_response_redirect(const struct http_response *response, const char *url, uint8_t method,
                            uint8_t *buffer, size_t capacity, struct bytes *ret_cri)
{
    const char *location = http_response_field(response, "Location");
    unsigned status = response->status;
    bool is_kept = status == 307 || status == 308;
    bool is_redirect =
        is_kept || (method == CODE_GET && (status == 301 || status == 302 || status == 303));
    char text[CRI_ROOM];
    uint8_t base_room[CRI_ROOM], reference_room[CRI_ROOM];
    struct cri base, reference, target;
    size_t len = location != NULL ? strcspn(location, "#") : 0;
    if (!is_redirect || location == NULL || len >= sizeof(text)) {
        return false;
    }
    memcpy(text, location, len);
    text[len] = '\0';
    bool is_good = parse_uri(url, base_room, &base) &&
                   parse_uri(text, reference_room, &reference) &&
                   cri_resolve(&base, &reference, buffer, capacity, &len, NULL) == CRI_OK &&
                   cri_decode((struct cri_slice){buffer, len}, NULL, &target, NULL) == CRI_OK;
    *ret_cri = (struct bytes){buffer, is_good ? len : 0};
    return is_good && cri_is_full(&target);
}

static void write_items(struct message_writer *writer, uint16_t number, const struct cri_list *list)
{
    struct cri_iter iter;
    struct cri_item item;
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        if (!item.is_pet && item.text.len <= UINT8_MAX) {
            message_writer_option(writer, number, (struct bytes){item.text.data, item.text.len});
        }
    }
}

/* --- all of it ------------------------------------------------------------------ */

static bool is_part_of_body(const struct http_response *response)
{
    return response->more || response->offset > 0;
}

/* Which part of the representation the payload is. */
static void write_block(const struct mapping *mapping, struct message_writer *writer)
{
    const struct http_response *response = mapping->response;
    struct block block = {.more = response->more, .szx = BLOCK_SZX_BERT};
    if (mapping->mapped->code != CODE(2, 5) || !is_part_of_body(response)) {
        return;
    }
    block.num = (uint32_t)(response->offset / block_size(&block));
    message_writer_option_uint(writer, OPTION_block2, block_value(&block));
    if (block.num == 0 && response->length > 0 && response->length <= UINT32_MAX) {
        message_writer_option_uint(writer, OPTION_size2, (uint32_t)response->length);
    }
}

static void write_answer_options(const struct mapping *mapping, bool with_location,
                                 struct message_writer *writer)
{
    if (mapping->etag_len > 0) {
        message_writer_option(writer, OPTION_etag,
                              (struct bytes){mapping->etag, mapping->etag_len});
    }
    if (mapping->mapped->is_observed) {
        message_writer_option_uint(writer, OPTION_observe, 0);
    }
    if (with_location) {
        write_items(writer, OPTION_location_path, &mapping->location->target.path);
    }
    if (mapping->format != MEDIA_NONE) {
        message_writer_option_uint(writer, OPTION_content_format, mapping->format);
    }
    if (mapping->has_max_age) {
        message_writer_option_uint(writer, OPTION_max_age, mapping->max_age_s);
    }
    if (with_location) {
        write_items(writer, OPTION_location_query, &mapping->location->target.query);
    }
    write_block(mapping, writer);
}

/* Max-Age in so many words, since 60 seconds would be the default. */
static void map_max_age(struct mapping *mapping)
{
    uint8_t code = mapping->mapped->code;
    mapping->has_max_age = code == CODE(2, 5) || code == CODE(2, 3) || CODE_CLASS(code) > 2;
    mapping->max_age_s = mapping->mapped->is_private ? 0 : http_response_fresh_s(mapping->response);
    if (mapping->mapped->is_observed && mapping->max_age_s < mapping->question->poll_s) {
        mapping->max_age_s = mapping->question->poll_s; /* then it is asked about again */
    }
    if (code == CODE(4, 29) || code == CODE(5, 3)) {
        (void)find_retry_after(mapping->response, &mapping->max_age_s);
    }
}

/* The client has to see whether the next part is of the same representation (BLK-10). */
static void map_part_tag(struct mapping *mapping)
{
    const struct bytes tag = mapping->question->part_tag;
    if (is_part_of_body(mapping->response) && mapping->etag_len == 0 &&
        tag.len <= HTTP_TAG_ETAG_MAX && tag.len > 0) {
        memcpy(mapping->etag, tag.data, tag.len);
        mapping->etag_len = tag.len;
    }
}

static enum reason map_by_code(struct mapping *mapping)
{
    uint8_t code = mapping->mapped->code;
    if (code == 0) {
        unsigned status = mapping->response->status;
        bool leads_elsewhere = status / 100 == 3 && status != 304;
        set_words(mapping, CODE(5, 2),
                  leads_elsewhere ? "redirect not followed" : "unexpected http status");
    } else if (code == CODE(2, 3)) {
        return map_valid(mapping) ? REASON_none : REASON_origin_invalid;
    } else if (CODE_CLASS(code) > 2) {
        map_error(mapping);
    } else if (code == CODE(2, 2)) {
        mapping->etag_len = 0;
        mapping->mapped->payload =
            mapping->response->status == 200 ? mapping->response->body : (struct bytes){0};
        map_format(mapping);
    } else {
        map_format(mapping);
        check_accept(mapping);
        map_part_tag(mapping);
    }
    return REASON_none;
}

enum reason http_response_map(const struct http_response *response,
                              const struct http_question *question, uint8_t *buffer,
                              size_t capacity, struct http_mapped *ret_mapped)
{
    struct http_mapped mapped = {
        .code = code_of_status(response->status, question->request->code),
        .is_private = question->is_elsewhere || is_for_one(response, question->has_credentials),
        .payload = response->body,
    };
    struct location location;
    struct mapping mapping = {.response = response,
                              .question = question,
                              .mapped = &mapped,
                              .format = MEDIA_NONE,
                              .location = &location};
    const char *etag = http_response_field(response, "ETag");
    if (etag != NULL && !question->is_elsewhere) {
        mapping.etag_len = http_tag_take(question->tags, etag, mapping.etag);
    }
    enum reason reason = map_by_code(&mapping);
    if (reason != REASON_none) {
        return reason;
    }
    bool is_state = mapped.code == CODE(2, 5) || mapped.code == CODE(2, 3);
    mapped.is_observed = !question->is_elsewhere &&

                         question->poll_s > 0 && is_state &&
                         !is_unshared(response, question->has_credentials);
    if (mapped.code == CODE(2, 1)) {
        map_location(&mapping);
    }
    map_max_age(&mapping);
    struct message_writer writer = {.buffer = buffer, .capacity = capacity};
    write_answer_options(&mapping, mapping.has_location, &writer);
    if (writer.overflow) { /* it would say what was made, half of it would lie */
        writer = (struct message_writer){.buffer = buffer, .capacity = capacity};
        write_answer_options(&mapping, false, &writer);
    }
    mapped.options = (struct bytes){buffer, writer.len};
    *ret_mapped = mapped;
    return REASON_none;
}

bool http_response_can_resume(const struct http_response *response, uint64_t seed,
                              uint8_t ret_etag[HTTP_TAG_ETAG_MAX])
{
    const char *etag = http_response_field(response, "ETag");
    const char *modified = http_response_field(response, "Last-Modified");
    const char *date = http_response_field(response, "Date");
    uint64_t modified_s, date_s = response->received_s;
    if (etag != NULL && etag[0] == '"') {
        return true;
    }
    if (modified == NULL || !http_date_parse(modified, &modified_s) ||
        (date != NULL && !http_date_parse(date, &date_s)) ||
        date_s < modified_s + LAST_MODIFIED_STRONG_S) {
        return false;
    }
    const uint64_t facts[] = {modified_s, response->length};
    block_make_etag(seed, (struct bytes){(const uint8_t *)facts, sizeof(facts)}, ret_etag);
    return true;
}
