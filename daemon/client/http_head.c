/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_head.h"

#include <strings.h>

#define LENGTH_DIGITS_MAX 15u
#define CHUNK_DIGITS_MAX 7u
#define CHUNK_EXTENSION_MAX 256u

/* Fields that are in a request at most once, for each a bit of struct head_seen. */
enum head_once {
    ONCE_HOST,
    ONCE_CONTENT_LENGTH,
    ONCE_TRANSFER_ENCODING,
    ONCE_CONTENT_TYPE,
    ONCE_CONTENT_ENCODING,
    ONCE_AUTHORIZATION,
    ONCE_ORIGIN,
    ONCE_EXPECT,
    ONCE_MAX_FORWARDS,
    ONCE_COUNT,
};

struct head_seen {
    unsigned once; /* 1 << enum head_once */
    bool is_1_0;
    bool has_other_coding; /* a transfer coding but chunked */
};

/* --- bytes ---------------------------------------------------------------- */

static bool is_head_token(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool is_head_text(uint8_t byte)
{
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

static bool is_field_name(struct bytes name, const char *text)
{
    return name.len == strlen(text) && strncasecmp((const char *)name.data, text, name.len) == 0;
}

/* --- the first line ------------------------------------------------------- */

static int check_version(struct bytes version, struct head_seen *seen)
{
    static const char http[] = "HTTP/";
    if (version.len != 8 || memcmp(version.data, http, sizeof(http) - 1) != 0 ||
        version.data[6] != '.') {
        return 400;
    }
    seen->is_1_0 = version.data[7] == '0';
    bool is_known = version.data[5] == '1' && (version.data[7] == '0' || version.data[7] == '1');
    return is_known ? HTTP_HEAD_GOOD : 505;
}

/* Method, one space, target, one space, version. */
static int check_request_line(struct bytes line, struct head_seen *seen)
{
    size_t at = 0;
    while (at < line.len && is_head_token(line.data[at])) {
        at++;
    }
    if (at == 0 || at == line.len || line.data[at] != ' ') {
        return 400;
    }
    size_t target = ++at;
    while (at < line.len && line.data[at] > 0x20 && line.data[at] < 0x7f && line.data[at] != '#') {
        at++;
    }
    if (at == target || at == line.len || line.data[at] != ' ') {
        return 400;
    }
    return check_version((struct bytes){line.data + at + 1, line.len - at - 1}, seen);
}

/* --- fields --------------------------------------------------------------- */

static bool is_length(struct bytes value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') {
            return false;
        }
    }
    return value.len > 0 && value.len <= LENGTH_DIGITS_MAX;
}

static enum head_once once_of(struct bytes name)
{
    static const char *const names[ONCE_COUNT] = {
        [ONCE_HOST] = "host",
        [ONCE_CONTENT_LENGTH] = "content-length",
        [ONCE_TRANSFER_ENCODING] = "transfer-encoding",
        [ONCE_CONTENT_TYPE] = "content-type",
        [ONCE_CONTENT_ENCODING] = "content-encoding",
        [ONCE_AUTHORIZATION] = "authorization",
        [ONCE_ORIGIN] = "origin",
        [ONCE_EXPECT] = "expect",
        [ONCE_MAX_FORWARDS] = "max-forwards",
    };
    enum head_once once = ONCE_HOST;
    while (once < ONCE_COUNT && !is_field_name(name, names[once])) {
        once++;
    }
    return once;
}

static struct bytes trim_field(struct bytes value)
{
    while (value.len > 0 && (value.data[0] == ' ' || value.data[0] == '\t')) {
        value = (struct bytes){value.data + 1, value.len - 1};
    }
    while (value.len > 0 &&
           (value.data[value.len - 1] == ' ' || value.data[value.len - 1] == '\t')) {
        value.len--;
    }
    return value;
}

/* A name, a colon right after it, and text. */
static int check_field(struct bytes line, struct head_seen *seen)
{
    size_t colon = 0;
    while (colon < line.len && is_head_token(line.data[colon])) {
        colon++;
    }
    if (colon == 0 || colon == line.len || line.data[colon] != ':') {
        return 400;
    }
    struct bytes value = trim_field((struct bytes){line.data + colon + 1, line.len - colon - 1});
    enum head_once once = once_of((struct bytes){line.data, colon});
    if (once < ONCE_COUNT && (seen->once & 1u << once) != 0) {
        return 400;
    }
    seen->once |= once < ONCE_COUNT ? 1u << once : 0;
    if (once == ONCE_CONTENT_LENGTH && !is_length(value)) {
        return 400;
    }
    seen->has_other_coding |= once == ONCE_TRANSFER_ENCODING && !is_field_name(value, "chunked");
    return HTTP_HEAD_GOOD;
}

/* What the fields are together. A coding that is not known is told last: it says that the request
 * is well-formed otherwise (RFC 9112 sections 6.1 and 6.3). */
static int check_together(const struct head_seen *seen)
{
    bool has_length = (seen->once & 1u << ONCE_CONTENT_LENGTH) != 0;
    bool has_coding = (seen->once & 1u << ONCE_TRANSFER_ENCODING) != 0;
    bool has_host = (seen->once & 1u << ONCE_HOST) != 0;
    if ((has_coding && (has_length || seen->is_1_0)) || (!has_host && !seen->is_1_0)) {
        return 400;
    }
    return seen->has_other_coding ? 501 : HTTP_HEAD_GOOD;
}

/* --- the whole ------------------------------------------------------------ */

/* The line that begins at @p at, without its CR LF, which are there. */
static struct bytes line_at(struct bytes head, size_t at)
{
    const uint8_t *end = memchr(head.data + at, '\n', head.len - at);
    return (struct bytes){head.data + at, (size_t)(end - head.data) - at - 1};
}

static int check_lines(struct bytes head, const struct http_head_limits *limits)
{
    struct head_seen seen = {.once = 0};
    struct bytes line = line_at(head, 0);
    int status = check_request_line(line, &seen);
    unsigned fields = 0;
    for (size_t at = line.len + 2; status == HTTP_HEAD_GOOD && at < head.len - 2;
         at += line.len + 2) {
        line = line_at(head, at);
        status = ++fields > limits->fields ? 431 : check_field(line, &seen);
    }
    return status == HTTP_HEAD_GOOD ? check_together(&seen) : status;
}

/* Where the head ends; 0: not yet; SIZE_MAX: a byte is in it that must not be, or a folded line. */
static size_t find_head_end(struct bytes input, size_t most, size_t *scanned)
{
    size_t at = *scanned, len = input.len < most ? input.len : most;
    for (; at < len; at++) {
        uint8_t byte = input.data[at];
        uint8_t last = at > 0 ? input.data[at - 1] : 0;
        bool is_fold = last == '\n' && (byte == ' ' || byte == '\t');
        bool is_end = byte == '\r' || byte == '\n';
        if (is_fold || (byte == '\n') != (last == '\r') || (!is_end && !is_head_text(byte))) {
            return SIZE_MAX;
        }
        if (byte == '\n' && at >= 3 && input.data[at - 2] == '\n') {
            *scanned = at;
            return at + 1;
        }
    }
    *scanned = at;
    return 0;
}

int http_head_check(struct bytes input, const struct http_head_limits *limits, size_t *scanned,
                    size_t *ret_len)
{
    if (input.len > 0 && !is_head_token(input.data[0])) {
        return 400;
    }
    size_t end = find_head_end(input, limits->bytes, scanned);
    if (end == SIZE_MAX) {
        return 400;
    }
    if (end == 0 && input.len >= limits->bytes) {
        return memchr(input.data, '\n', limits->bytes) == NULL ? 414 : 431;
    }
    if (end == 0) {
        return HTTP_HEAD_PARTIAL;
    }
    *ret_len = end;
    return check_lines((struct bytes){input.data, end}, limits);
}

/* --- chunks --------------------------------------------------------------- */

enum chunk_state {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_LINE_START, /* behind the last chunk: of a trailer field, or of the empty line */
    CHUNK_FIELD_NAME,
    CHUNK_FIELD_VALUE,
    CHUNK_FIELD_LF,
    CHUNK_LAST_LF,
    CHUNK_END,
};

static int hex_value(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static bool take_size_byte(struct http_chunks *chunks, uint8_t byte)
{
    int digit = hex_value(byte);
    if (digit >= 0) {
        chunks->left = chunks->left << 4 | (unsigned)digit;
        return ++chunks->digits <= CHUNK_DIGITS_MAX;
    }
    chunks->state = byte == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
    bool is_good = chunks->digits > 0 && (byte == '\r' || byte == ';');
    chunks->digits = 0;
    return is_good;
}

static bool take_extension_byte(struct http_chunks *chunks, uint8_t byte)
{
    if (byte == '\r') {
        chunks->state = CHUNK_SIZE_LF;
        return true;
    }
    return is_head_text(byte) && ++chunks->digits <= CHUNK_EXTENSION_MAX;
}

/* A byte that has to be @p wanted, and then @p next. */
static bool take_fixed(struct http_chunks *chunks, uint8_t byte, uint8_t wanted,
                       enum chunk_state next)
{
    chunks->state = next;
    return byte == wanted;
}

/* What a sender must not put behind the body, as another reader might go by it. */
static bool is_forbidden_trailer(const struct http_chunks *chunks)
{
    const struct bytes name = {chunks->name, chunks->name_len};
    return chunks->name_len <= sizeof(chunks->name) &&
           (is_field_name(name, "transfer-encoding") || is_field_name(name, "content-length") ||
            is_field_name(name, "host"));
}

static bool take_name_byte(struct http_chunks *chunks, uint8_t byte)
{
    if (byte == ':') {
        chunks->state = CHUNK_FIELD_VALUE;
        return chunks->name_len > 0 && !is_forbidden_trailer(chunks);
    }
    if (chunks->name_len < sizeof(chunks->name)) {
        chunks->name[chunks->name_len] = byte;
    }
    chunks->name_len++;
    return is_head_token(byte);
}

/* A folded line begins with a blank, which is in no name. */
static bool take_line_start(struct http_chunks *chunks, uint8_t byte)
{
    if (byte == '\r') {
        chunks->state = CHUNK_LAST_LF;
        return true;
    }
    chunks->state = CHUNK_FIELD_NAME;
    chunks->name_len = 0;
    return take_name_byte(chunks, byte);
}

static bool take_value_byte(struct http_chunks *chunks, uint8_t byte)
{
    if (byte == '\r') {
        chunks->state = CHUNK_FIELD_LF;
        return true;
    }
    return is_head_text(byte);
}

/* Count a byte behind the last chunk, and a field where it begins one; false: it is too many. */
static bool count_trailer_byte(struct http_chunks *chunks, uint8_t byte)
{
    struct http_head_limits *left = &chunks->trailer;
    if (chunks->state < CHUNK_LINE_START || chunks->state == CHUNK_LAST_LF || byte == '\r') {
        return true;
    }
    if (left->bytes == 0 || (chunks->state == CHUNK_LINE_START && left->fields == 0)) {
        return false;
    }
    left->bytes--;
    left->fields -= chunks->state == CHUNK_LINE_START ? 1 : 0;
    return true;
}

static bool take_chunk_byte(struct http_chunks *chunks, uint8_t byte)
{
    switch ((enum chunk_state)chunks->state) {
    case CHUNK_SIZE:
        return take_size_byte(chunks, byte);
    case CHUNK_EXTENSION:
        return take_extension_byte(chunks, byte);
    case CHUNK_SIZE_LF:
        chunks->digits = 0;
        return take_fixed(chunks, byte, '\n', chunks->left > 0 ? CHUNK_DATA : CHUNK_LINE_START);
    case CHUNK_DATA_CR:
        return take_fixed(chunks, byte, '\r', CHUNK_DATA_LF);
    case CHUNK_DATA_LF:
        return take_fixed(chunks, byte, '\n', CHUNK_SIZE);
    case CHUNK_LINE_START:
        return take_line_start(chunks, byte);
    case CHUNK_FIELD_NAME:
        return take_name_byte(chunks, byte);
    case CHUNK_FIELD_VALUE:
        return take_value_byte(chunks, byte);
    case CHUNK_FIELD_LF:
        return take_fixed(chunks, byte, '\n', CHUNK_LINE_START);
    case CHUNK_LAST_LF:
        return take_fixed(chunks, byte, '\n', CHUNK_END);
    case CHUNK_DATA:
    case CHUNK_END:
        break;
    }
    return false;
}

size_t http_chunks_check(struct http_chunks *chunks, struct bytes input)
{
    size_t at = 0;
    while (at < input.len && chunks->state != CHUNK_END) {
        if (chunks->state != CHUNK_DATA) {
            if (!count_trailer_byte(chunks, input.data[at])) {
                return HTTP_CHUNKS_LONG;
            }
            if (!take_chunk_byte(chunks, input.data[at++])) {
                return HTTP_CHUNKS_BAD;
            }
            continue;
        }
        size_t step = input.len - at < chunks->left ? input.len - at : (size_t)chunks->left;
        at += step;
        chunks->left -= step;
        chunks->state = chunks->left == 0 ? CHUNK_DATA_CR : CHUNK_DATA;
    }
    return at;
}

bool http_chunks_ended(const struct http_chunks *chunks)
{
    return chunks->state == CHUNK_END;
}
