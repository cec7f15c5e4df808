/* SPDX-License-Identifier: BSD-2-Clause */
#include "spec.h"

#include "script.h"

#include <cri/coap.h>
#include <cri/cri.h>
#include <cri/uri.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CRI_MAX 4096u

const char *const spec_form_names[SPEC_FORMS] = {"Proxy-Cri", "Proxy-Uri", "Proxy-Scheme",
                                                 "Proxy-Scheme-Number"};

struct reading {
    struct pool *pool;
    enum spec_form form;
    struct spec *spec;
    const char *error;
};

static bool refuse(struct reading *reading, const char *what, const char *word)
{
    if (reading->error == NULL) {
        reading->error = pool_format(reading->pool, "%s: %s", what, word);
    }
    return false;
}

/* --- values --------------------------------------------------------------- */

const char *spec_hex(struct pool *pool, const char *hex, struct wire_bytes *ret_bytes)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *bytes = pool_alloc(pool, strlen(hex) / 2 + 1);
    size_t count = 0;
    for (; *hex != '\0'; hex++) {
        const char *digit = strchr(digits, tolower((unsigned char)*hex));
        if (*hex == ' ') {
            continue;
        }
        if (digit == NULL) {
            return "not hex";
        }
        bytes[count / 2] = (uint8_t)(bytes[count / 2] << 4 | (digit - digits));
        count++;
    }
    if (count % 2 != 0) {
        return "an odd number of hex digits";
    }
    *ret_bytes = (struct wire_bytes){bytes, count / 2};
    return NULL;
}

/* One character of a quotation, with its escapes. @return how many characters it took. */
static size_t take_quoted(const char *text, uint8_t *ret_byte)
{
    *ret_byte = (uint8_t)text[0];
    if (text[0] != '\\' || text[1] == '\0') {
        return 1;
    }
    *ret_byte = (uint8_t)(text[1] == 'n' ? '\n' : text[1] == 'r' ? '\r' : text[1]);
    if (text[1] == 'x' && isxdigit((unsigned char)text[2]) && isxdigit((unsigned char)text[3])) {
        char hex[3] = {text[2], text[3], '\0'};
        *ret_byte = (uint8_t)strtoul(hex, NULL, 16);
        return 4;
    }
    return 2;
}

/*
 * "text", or "text"*900 for 900 times that, behind the @p ret_len bytes in @p buffer, which is NULL
 * where they are only counted. @return what follows, or NULL for too much.
 */
static const char *read_quoted_part(struct pool *pool, const char *word, uint8_t *buffer,
                                    size_t *ret_len)
{
    uint8_t *once = pool_alloc(pool, strlen(word) + 1);
    size_t len = 0, at = 1;
    while (word[at] != '"' && word[at] != '\0') {
        at += take_quoted(word + at, &once[len++]);
    }
    const char *behind = word + at + (word[at] == '"');
    unsigned long times = 1;
    if (*behind == '*') {
        char *end;
        errno = 0;
        times = strtoul(behind + 1, &end, 10);
        behind = end;
    }
    if (times > WIRE_MESSAGE_MAX || times * len > WIRE_MESSAGE_MAX - *ret_len) {
        return NULL;
    }
    for (unsigned long i = 0; i < times && len > 0; i++, *ret_len += len) {
        if (buffer != NULL) {
            memcpy(buffer + *ret_len, once, len);
        }
    }
    return behind;
}

/* One or more of those, with "+" between them; @return NULL or what is wrong. */
static const char *read_quoted(struct pool *pool, const char *word, struct wire_bytes *ret_bytes)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    for (unsigned turn = 0; turn < 2; turn++) { /* how long it is, and then it */
        bytes = turn == 1 ? pool_alloc(pool, len + 1) : NULL;
        len = 0;
        const char *at = read_quoted_part(pool, word, bytes, &len);
        while (at != NULL && at[0] == '+' && at[1] == '"') {
            at = read_quoted_part(pool, at + 1, bytes, &len);
        }
        if (at == NULL || *at != '\0') {
            return "not a text in quotation marks";
        }
    }
    *ret_bytes = (struct wire_bytes){bytes, len};
    return NULL;
}

static const char *read_cri(struct pool *pool, const char *uri, struct wire_bytes *ret_bytes)
{
    uint8_t *bytes = pool_alloc(pool, CRI_MAX);
    size_t len;
    struct cri_uri_options options = {.elide_default_port = true};
    struct cri_slice text = {(const uint8_t *)uri, strlen(uri)};
    if (cri_uri_parse(text, &options, bytes, CRI_MAX, &len, NULL) != CRI_OK) {
        return "a URI that has no CRI";
    }
    *ret_bytes = (struct wire_bytes){bytes, len};
    return NULL;
}

static bool read_number(const char *text, char **ret_end, uint64_t *ret_number)
{
    errno = 0;
    *ret_number = strtoull(text, ret_end, 10);
    return isdigit((unsigned char)*text) && errno == 0;
}

static void set_uint(struct pool *pool, uint64_t number, struct wire_bytes *ret_bytes)
{
    uint8_t *bytes = pool_alloc(pool, 8);
    *ret_bytes = (struct wire_bytes){bytes, wire_put_uint(number, bytes)};
}

/* NUMBER/MORE/SIZE, where SIZE is 16 to 1024 or bert. */
static const char *read_block(struct pool *pool, const char *text, struct wire_bytes *ret_bytes)
{
    char *end;
    uint64_t number, more, size;
    unsigned szx = 0;
    if (!read_number(text, &end, &number) || *end != '/' || !read_number(end + 1, &end, &more) ||
        *end != '/' || number > 0xfffff || more > 1) {
        return "not a block, as in 0/1/64";
    }
    if (strcmp(end + 1, "bert") == 0) {
        szx = 7;
    } else {
        if (!read_number(end + 1, &end, &size) || *end != '\0') {
            return "not a block, as in 0/1/64";
        }
        while (szx < 6 && (16u << szx) != size) {
            szx++;
        }
        if ((16u << szx) != size) {
            return "not a size of blocks";
        }
    }
    set_uint(pool, number << 4 | more << 3 | szx, ret_bytes);
    return NULL;
}

static const char *read_plain(struct pool *pool, const char *text, enum value_format format,
                              struct wire_bytes *ret_bytes)
{
    uint64_t number;
    char *end;
    if (strncmp(text, "hex:", 4) == 0) {
        return spec_hex(pool, text + 4, ret_bytes);
    }
    if (text[0] == '"') {
        return read_quoted(pool, text, ret_bytes);
    }
    switch (format) {
    case VALUE_UINT:
        if (!read_number(text, &end, &number) || *end != '\0') {
            return "not a number";
        }
        set_uint(pool, number, ret_bytes);
        return NULL;
    case VALUE_BLOCK:
        return read_block(pool, text, ret_bytes);
    case VALUE_CRI:
        return read_cri(pool, text, ret_bytes);
    case VALUE_TEXT:
        *ret_bytes = (struct wire_bytes){(const uint8_t *)text, strlen(text)};
        return NULL;
    case VALUE_OPAQUE:
        break;
    }
    return spec_hex(pool, text, ret_bytes);
}

static size_t capture_name_len(const char *text)
{
    size_t len = 0;
    while (isalnum((unsigned char)text[len]) || text[len] == '-' || text[len] == '_') {
        len++;
    }
    return len;
}

/* $a, !$a, >$a, $b!$a, $b>$a. */
static const char *read_capture(struct pool *pool, const char *text, struct value *ret_value)
{
    ret_value->kind = VALUE_CAPTURE;
    if (*text == '$') {
        size_t len = capture_name_len(text + 1);
        ret_value->capture = pool_text(pool, text + 1, len);
        text += 1 + len;
    }
    if (*text == '\0') {
        return NULL;
    }
    if ((*text != '!' && *text != '>') || text[1] != '$' || text[2] == '\0' ||
        text[2 + capture_name_len(text + 2)] != '\0') {
        return "not a capture";
    }
    ret_value->relation = *text;
    ret_value->other = pool_text(pool, text + 2, strlen(text + 2));
    return NULL;
}

static const char *read_value(struct pool *pool, const char *text, enum value_format format,
                              struct value *ret_value)
{
    char *end;
    *ret_value = (struct value){.kind = VALUE_EXACT};
    if (text[0] == '$' || ((text[0] == '!' || text[0] == '>') && text[1] == '$')) {
        return read_capture(pool, text, ret_value);
    }
    if (strcmp(text, "*") == 0) {
        ret_value->kind = VALUE_ANY;
        return NULL;
    }
    if (text[0] == '~' && text[1] == '"') {
        ret_value->kind = VALUE_CONTAINS;
        return read_quoted(pool, text + 1, &ret_value->bytes);
    }
    if (format == VALUE_UINT && read_number(text, &end, &ret_value->low) &&
        strncmp(end, "..", 2) == 0 && read_number(end + 2, &end, &ret_value->high) &&
        *end == '\0') {
        ret_value->kind = VALUE_RANGE;
        return NULL;
    }
    return read_plain(pool, text, format, &ret_value->bytes);
}

/* --- words of a message --------------------------------------------------- */

static bool add_option(struct reading *reading, uint32_t number, struct value value)
{
    if (reading->spec->option_count == SPEC_OPTIONS_MAX) {
        return refuse(reading, "too many options", "");
    }
    reading->spec->options[reading->spec->option_count++] = (struct spec_option){number, value};
    return true;
}

/* Of the message, as far as it was read: options of signalling messages have numbers of their own.
 */
static uint8_t code_so_far(const struct reading *reading)
{
    return reading->spec->code_count > 0 ? reading->spec->codes[0] : 0;
}

static bool add_option_text(struct reading *reading, const char *name, const char *text)
{
    uint8_t code = code_so_far(reading);
    uint32_t number = option_number(name, strlen(name), code);
    struct value value;
    if (number == UINT32_MAX) {
        return refuse(reading, "not an option", name);
    }
    const char *fault = read_value(reading->pool, text, option_format(number, code), &value);
    return fault == NULL ? add_option(reading, number, value) : refuse(reading, fault, text);
}

/* One segment of a path or parameter of a query, with %XX decoded. */
static bool add_part(struct reading *reading, const char *name, const char *text, size_t len)
{
    uint8_t *bytes = pool_alloc(reading->pool, len + 1);
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        bytes[count] = (uint8_t)text[i];
        if (text[i] == '%' && i + 2 < len && isxdigit((unsigned char)text[i + 1]) &&
            isxdigit((unsigned char)text[i + 2])) {
            char hex[3] = {text[i + 1], text[i + 2], '\0'};
            bytes[count] = (uint8_t)strtoul(hex, NULL, 16);
            i += 2;
        }
        count++;
    }
    struct value value = {.kind = VALUE_EXACT, .bytes = {bytes, count}};
    return add_option(reading, option_number(name, strlen(name), 0), value);
}

/* "/a/b?c&d": Uri-Path and Uri-Query; "/" alone is neither. */
static bool read_path(struct reading *reading, const char *word)
{
    size_t path_len = strcspn(word, "?");
    reading->spec->has_path = true;
    if (path_len > 1) {
        for (size_t at = 1; at <= path_len;) {
            size_t len = strcspn(word + at, "/?");
            if (!add_part(reading, "uri-path", word + at, len)) {
                return false;
            }
            at += len + 1;
        }
    }
    if (word[path_len] == '?') {
        for (const char *at = word + path_len; *at != '\0';) {
            size_t len = strcspn(at + 1, "&");
            if (!add_part(reading, "uri-query", at + 1, len)) {
                return false;
            }
            at += 1 + len;
        }
    }
    return true;
}

/* The options of a URI, by libcri (RFC 7252 section 6.4), and its scheme. */
static bool add_uri_options(struct reading *reading, const char *uri, const char *scheme)
{
    struct wire_bytes bytes;
    struct cri cri;
    struct cri_options options;
    struct cri_option option;
    if (read_cri(reading->pool, uri, &bytes) != NULL ||
        cri_decode((struct cri_slice){bytes.data, bytes.len}, NULL, &cri, NULL) != CRI_OK ||
        cri_options_init(&options, &cri, NULL, NULL, NULL) != CRI_OK) {
        return refuse(reading, "a URI that no options say", uri);
    }
    while (cri_options_next(&options, &option)) {
        struct value value = {.kind = VALUE_EXACT};
        value.bytes.data = (const uint8_t *)pool_text(
            reading->pool, (const char *)option.value.data, option.value.len);
        value.bytes.len = option.value.len;
        if (!add_option(reading, option.number, value)) {
            return false;
        }
    }
    if (reading->form == SPEC_PROXY_SCHEME) {
        return add_option_text(reading, "proxy-scheme", scheme);
    }
    return add_option_text(
        reading, "proxy-scheme-number",
        pool_format(reading->pool, "%llu", (unsigned long long)cri.scheme_number));
}

static bool read_uri(struct reading *reading, const char *word)
{
    switch (reading->form) {
    case SPEC_PROXY_CRI:
        return add_option_text(reading, "proxy-cri", word);
    case SPEC_PROXY_URI:
        return add_option_text(reading, "proxy-uri", word);
    case SPEC_PROXY_SCHEME:
    case SPEC_PROXY_SCHEME_NUMBER:
    case SPEC_FORMS:
        break;
    }
    return add_uri_options(reading, word, pool_text(reading->pool, word, strcspn(word, ":")));
}

/* "2.05", "GET", "4.xx", and alternatives between bars. */
static bool read_codes(struct spec *spec, const char *word)
{
    size_t count = 0;
    for (const char *at = word; count < SPEC_CODES_MAX; at++) {
        size_t len = strcspn(at, "|");
        bool is_class = len == 4 && isdigit((unsigned char)at[0]) && strncmp(at + 1, ".xx", 3) == 0;
        uint8_t code = is_class ? WIRE_CODE((unsigned)(at[0] - '0'), 0) : 0;
        if (!is_class && !code_parse(at, len, &code)) {
            return false;
        }
        spec->codes[count] = code;
        spec->is_class[count++] = is_class;
        at += len;
        if (*at == '\0') {
            spec->code_count = count;
            return true;
        }
    }
    return false;
}

static bool read_type(struct spec *spec, const char *word)
{
    static const char *const types[] = {"CON", "NON", "ACK", "RST"};
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(word, types[i]) == 0) {
            spec->has_type = true;
            spec->type = (enum wire_type)i;
            return true;
        }
    }
    return false;
}

/* A word that says something all by itself. */
static bool read_mark(struct spec *spec, const char *word)
{
    const struct {
        const char *word;
        bool *flag;
    } marks[] = {{"nothing", &spec->is_nothing},
                 {"closed", &spec->is_closed},
                 {"again", &spec->is_again},
                 {"slowly", &spec->is_slow},
                 {"...", &spec->is_rest}};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (strcmp(word, marks[i].word) == 0) {
            *marks[i].flag = true;
            return true;
        }
    }
    return read_type(spec, word) || read_codes(spec, word);
}

/* "within 2s", "for 2s", "after 2s..3s". */
static bool read_time(struct reading *reading, const char *word, const char *text)
{
    struct spec *spec = reading->spec;
    const char *dots = strstr(text, "..");
    spec->has_time = true;
    if (strcmp(word, "after") != 0) {
        return script_duration(text, &spec->within_ms) ||
               refuse(reading, "not a time, as in 300ms or 2s", text);
    }
    if (dots == NULL ||
        !script_duration(pool_text(reading->pool, text, (size_t)(dots - text)), &spec->after_ms) ||
        !script_duration(dots + 2, &spec->within_ms)) {
        return refuse(reading, "not a span of time, as in 2s..3s", text);
    }
    return true;
}

static bool read_named(struct reading *reading, const char *word, const char *sign)
{
    struct spec *spec = reading->spec;
    const char *name = pool_text(reading->pool, word, (size_t)(sign - word));
    const char *fault;
    if (strcmp(name, "mid") == 0) {
        fault = read_value(reading->pool, sign + 1, VALUE_UINT, &spec->mid);
    } else if (strcmp(name, "token") == 0) {
        fault = read_value(reading->pool, sign + 1, VALUE_OPAQUE, &spec->token);
    } else if (strcmp(name, "payload") == 0) {
        fault = read_value(reading->pool, sign + 1, VALUE_TEXT, &spec->payload);
    } else {
        return add_option_text(reading, name, sign + 1);
    }
    return fault == NULL || refuse(reading, fault, word);
}

static bool read_word(struct reading *reading, const char *word)
{
    struct spec *spec = reading->spec;
    const char *sign = strchr(word, '=');
    const char *scheme = strstr(word, "://");
    if (read_mark(spec, word)) {
        return true;
    }
    if (word[0] == '"' || word[0] == '~' || strncmp(word, "hex:", 4) == 0) {
        const char *fault = read_value(reading->pool, word, VALUE_TEXT, &spec->payload);
        return fault == NULL || refuse(reading, fault, word);
    }
    if (word[0] == '@') {
        spec->label = word + 1;
        return true;
    }
    if (word[0] == '/' && word[1] == '/') {
        size_t len = strcspn(word + 2, "/?");
        spec->host = pool_text(reading->pool, word + 2, len);
        return read_path(reading, word + 2 + len);
    }
    if (word[0] == '/') {
        return read_path(reading, word);
    }
    if (scheme != NULL && (sign == NULL || scheme < sign)) {
        return read_uri(reading, word);
    }
    if (sign != NULL) {
        return read_named(reading, word, sign);
    }
    if (word[0] == '-') {
        uint32_t number = option_number(word + 1, strlen(word + 1), 0);
        struct value value = {.kind = VALUE_ABSENT};
        return number != UINT32_MAX ? add_option(reading, number, value)
                                    : refuse(reading, "not an option", word);
    }
    if (option_number(word, strlen(word), code_so_far(reading)) == UINT32_MAX) {
        return refuse(reading, "not a code, type, option, target or payload", word);
    }
    return add_option_text(reading, word, "hex:"); /* an empty value */
}

const char *spec_parse(struct pool *pool, char **words, size_t count, enum spec_form form,
                       struct spec *ret_spec)
{
    struct reading reading = {.pool = pool, .form = form, .spec = ret_spec};
    const char *time_word = NULL;
    memset(ret_spec, 0, sizeof(*ret_spec));
    for (size_t i = 0; i < count && reading.error == NULL; i++) {
        bool is_time = strcmp(words[i], "within") == 0 || strcmp(words[i], "for") == 0 ||
                       strcmp(words[i], "after") == 0;
        if (strcmp(words[i], "bytes") == 0) {
            char *text = pool_text(pool, "", 0);
            for (i++; i < count && words[i][0] != '@'; i++) {
                text = pool_format(pool, "%s%s", text, words[i]);
            }
            i--; /* "@name" is read as in any message */
            ret_spec->is_bytes = true;
            ret_spec->payload.bytes = (struct wire_bytes){(const uint8_t *)text, strlen(text)};
        } else if (is_time && i + 1 < count) {
            time_word = words[i++];
            (void)read_time(&reading, time_word, words[i]);
        } else {
            (void)read_word(&reading, words[i]);
        }
    }
    if (reading.error == NULL && time_word != NULL && ret_spec->is_nothing != (*time_word == 'f')) {
        return ret_spec->is_nothing ? "nothing comes \"for\" a time, as in: nothing for 3s"
                                    : "a message comes \"within\" a time, or \"after 2s..3s\"";
    }
    return reading.error;
}
