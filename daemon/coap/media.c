/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/media.h"

#include <string.h>
#include <strings.h>

#define PARAMETERS_MAX 8u

static const struct media_row rows[] = {
#define MEDIA(number, type, coding) {number, type, coding},
#include "coap/media.def"
#undef MEDIA
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

/* A media type taken apart; everything is borrowed. */
struct media_type {
    struct bytes essence; /* type/subtype */
    struct {
        struct bytes name, value; /* a quoted value without its quotes */
    } parameters[PARAMETERS_MAX];
    size_t count;
};

const struct media_row *media_registry(size_t *ret_count)
{
    *ret_count = ROW_COUNT;
    return rows;
}

static size_t own_count(const struct media_own *own)
{
    return own != NULL ? own->count : 0;
}

const struct media_row *media_by_number(const struct media_own *own, uint32_t number)
{
    for (size_t i = 0; i < ROW_COUNT && rows[i].number <= number; i++) {
        if (rows[i].number == number) {
            return &rows[i];
        }
    }
    for (size_t i = 0; i < own_count(own); i++) {
        if (own->rows[i].number == number) {
            return &own->rows[i];
        }
    }
    return NULL;
}

/* --- media types as text (RFC 9110 section 8.3.1) ------------------------- */

static bool is_media_token(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static struct bytes media_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static bool is_same_word(struct bytes a, struct bytes b)
{
    return a.len == b.len &&
           (a.len == 0 || strncasecmp((const char *)a.data, (const char *)b.data, a.len) == 0);
}

static bool is_word(struct bytes a, const char *word)
{
    return is_same_word(a, media_of(word));
}

static size_t skip_media_blanks(struct bytes text, size_t at)
{
    while (at < text.len && (text.data[at] == ' ' || text.data[at] == '\t')) {
        at++;
    }
    return at;
}

static size_t skip_media_token(struct bytes text, size_t at)
{
    while (at < text.len && is_media_token(text.data[at])) {
        at++;
    }
    return at;
}

/* A token or a quoted string at @p at. @return where it ends; 0: it is neither. */
static size_t take_value(struct bytes text, size_t at, struct bytes *ret_value)
{
    if (at < text.len && text.data[at] == '"') {
        const uint8_t *end = memchr(text.data + at + 1, '"', text.len - at - 1);
        if (end == NULL || memchr(text.data + at, '\\', (size_t)(end - text.data) - at) != NULL) {
            return 0; /* no row has a value with an escaped byte */
        }
        *ret_value = (struct bytes){text.data + at + 1, (size_t)(end - text.data) - at - 1};
        return (size_t)(end - text.data) + 1;
    }
    size_t end = skip_media_token(text, at);
    *ret_value = (struct bytes){text.data + at, end - at};
    return end > at ? end : 0;
}

/* One parameter, from its name on. @return where it ends; 0: it is malformed. */
static size_t take_parameter(struct bytes text, size_t at, struct media_type *type)
{
    size_t equals = skip_media_token(text, at);
    if (equals == at || equals == text.len || text.data[equals] != '=' ||
        type->count == PARAMETERS_MAX) {
        return 0;
    }
    type->parameters[type->count].name = (struct bytes){text.data + at, equals - at};
    size_t end = take_value(text, equals + 1, &type->parameters[type->count].value);
    type->count++;
    return end;
}

static bool parse_media_type(struct bytes text, struct media_type *ret_type)
{
    size_t at = skip_media_blanks(text, 0);
    size_t slash = skip_media_token(text, at);
    *ret_type = (struct media_type){.count = 0};
    if (slash == at || slash == text.len || text.data[slash] != '/') {
        return false;
    }
    size_t end = skip_media_token(text, slash + 1);
    if (end == slash + 1) {
        return false;
    }
    ret_type->essence = (struct bytes){text.data + at, end - at};
    for (at = skip_media_blanks(text, end); at < text.len; at = skip_media_blanks(text, at)) {
        if (text.data[at] != ';') {
            return false;
        }
        at = skip_media_blanks(text, at + 1);
        if (at < text.len && text.data[at] != ';') {
            at = take_parameter(text, at, ret_type);
            if (at == 0) {
                return false;
            }
        }
    }
    return true;
}

bool media_is_type(struct bytes type)
{
    struct media_type parsed;
    return parse_media_type(type, &parsed);
}

/* --- comparing ------------------------------------------------------------ */

static const struct bytes *parameter_of(const struct media_type *type, struct bytes name)
{
    for (size_t i = 0; i < type->count; i++) {
        if (is_same_word(type->parameters[i].name, name)) {
            return &type->parameters[i].value;
        }
    }
    return NULL;
}

static bool has_structure(struct bytes essence, const char *suffix)
{
    size_t len = strlen(suffix);
    return essence.len > len &&
           is_word((struct bytes){essence.data + essence.len - len, len}, suffix);
}

/* Always in UTF-8, or said by their own first bytes: a charset adds nothing. */
static bool is_utf8_anyway(struct bytes essence)
{
    return has_structure(essence, "/json") || has_structure(essence, "+json") ||
           has_structure(essence, "/xml") || has_structure(essence, "+xml") ||
           is_word(essence, "application/link-format");
}

/* Charsets that mean the same become one: none for JSON, XML and links, utf-8 for plain text. */
static void normalise_charset(struct media_type *type)
{
    static const char utf8[] = "utf-8";
    bool is_plain = is_word(type->essence, "text/plain");
    struct bytes *charset = NULL;
    for (size_t i = 0; i < type->count; i++) {
        if (is_word(type->parameters[i].name, "charset")) {
            charset = &type->parameters[i].value;
            if (is_utf8_anyway(type->essence) && is_word(*charset, utf8)) {
                type->parameters[i] = type->parameters[--type->count];
                return;
            }
        }
    }
    if (is_plain && charset == NULL && type->count < PARAMETERS_MAX) {
        type->parameters[type->count].name = media_of("charset");
        charset = &type->parameters[type->count++].value;
        *charset = media_of(utf8);
    } else if (is_plain && charset != NULL && is_word(*charset, "us-ascii")) {
        *charset = media_of(utf8);
    }
}

static bool is_same_type(const struct media_type *asked, const char *known_text)
{
    struct media_type known;
    const char *essence = (const char *)asked->essence.data;
    if (strncasecmp(known_text + strspn(known_text, " \t"), essence, asked->essence.len) != 0) {
        return false; /* most rows: they need not be taken apart */
    }
    if (!parse_media_type(media_of(known_text), &known) ||
        !is_same_word(asked->essence, known.essence)) {
        return false;
    }
    normalise_charset(&known); /* of the registry's types it changes none */
    if (known.count != asked->count) {
        return false;
    }
    for (size_t i = 0; i < known.count; i++) {
        const struct bytes *value = parameter_of(asked, known.parameters[i].name);
        if (value == NULL || !is_same_word(*value, known.parameters[i].value)) {
            return false;
        }
    }
    return true;
}

/* The number of the first row with that type and coding. */
static uint32_t find_in(const struct media_row *in, size_t count, const struct media_type *asked,
                        struct bytes coding)
{
    for (size_t i = 0; i < count; i++) {
        if (is_word(coding, in[i].coding) && is_same_type(asked, in[i].type)) {
            return in[i].number;
        }
    }
    return MEDIA_NONE;
}

uint32_t media_find(const struct media_own *own, struct bytes type, struct bytes coding)
{
    struct media_type asked;
    if (!parse_media_type(type, &asked)) {
        return MEDIA_NONE;
    }
    normalise_charset(&asked);
    if (is_word(coding, "identity")) {
        coding.len = 0;
    }
    uint32_t number = find_in(rows, ROW_COUNT, &asked, coding);
    return number == MEDIA_NONE && own_count(own) > 0
               ? find_in(own->rows, own->count, &asked, coding)
               : number;
}

uint32_t media_find_loosely(const struct media_own *own, struct bytes type)
{
    static const char application[] = "application/";
    struct media_type asked;
    if (!parse_media_type(type, &asked)) {
        return MEDIA_NONE;
    }
    uint32_t exact = media_find(own, type, (struct bytes){0});
    if (exact != MEDIA_NONE) {
        return exact;
    }
    struct bytes essence = asked.essence;
    bool is_application =
        essence.len >= sizeof(application) - 1 &&
        is_word((struct bytes){essence.data, sizeof(application) - 1}, application);
    if (is_application && has_structure(essence, "+xml")) {
        return media_find(NULL, media_of("application/xml"), (struct bytes){0});
    }
    if (is_application && has_structure(essence, "+json")) {
        return media_find(NULL, media_of("application/json"), (struct bytes){0});
    }
    if (is_application && has_structure(essence, "+cbor")) {
        return media_find(NULL, media_of("application/cbor"), (struct bytes){0});
    }
    if (is_word(essence, "text/xml")) {
        return media_find(NULL, media_of("application/xml"), (struct bytes){0});
    }
    return strncasecmp((const char *)essence.data, "text/", 5) == 0 ? 0 : MEDIA_OCTET_STREAM;
}

uint32_t media_coap_payload(struct bytes type)
{
    struct media_type asked;
    if (!parse_media_type(type, &asked) || asked.count != 1 ||
        !is_word(asked.essence, "application/coap-payload") ||
        !is_word(asked.parameters[0].name, "cf")) {
        return MEDIA_NONE;
    }
    struct bytes digits = asked.parameters[0].value;
    uint32_t number = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9' || number > UINT16_MAX) {
            return MEDIA_NONE;
        }
        number = number * 10 + (uint32_t)(digits.data[i] - '0');
    }
    return digits.len > 0 && number <= UINT16_MAX ? number : MEDIA_NONE;
}

bool media_is_text(const struct media_own *own, uint32_t number)
{
    const struct media_row *row = media_by_number(own, number);
    struct media_type type;
    if (row == NULL || row->coding[0] != '\0' || !parse_media_type(media_of(row->type), &type)) {
        return false;
    }
    return strncmp(row->type, "text/", 5) == 0 || is_utf8_anyway(type.essence);
}
