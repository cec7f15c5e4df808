/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CBOR to diagnostic notation (RFC 8949 section 8).
 *
 * One pass over the bytes with an explicit stack of open containers, so that
 * neither nesting nor declared counts can make it recurse or allocate: deeper
 * than CRI_DIAG_DEPTH_MAX is an error, and a count that the rest of the input
 * cannot hold is refused when its head is read.
 */
#include "diag_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AI_INDEFINITE 31u
#define BREAK_BYTE 0xffu

/* Longest double in text: sign, 17 digits, point, exponent. */
#define FLOAT_TEXT_MAX 40

/* Whole numbers below this are written without an exponent. */
#define FLOAT_WHOLE_MAX 1e15

struct level {
    uint64_t left;      /* items still to come; unused when indefinite */
    uint64_t done;      /* items written */
    uint8_t major;      /* what is open; for strings: an indefinite one */
    bool is_indefinite; /* ends at a break */
};

struct formatter {
    struct cri_slice in;
    size_t pos;
    char *out;
    size_t capacity;
    size_t len;
    struct level levels[CRI_DIAG_DEPTH_MAX];
    size_t depth;
    struct cri_fault *fault;
};

/* A decoded head: major type, additional information, argument. */
struct head {
    size_t offset;
    uint64_t argument;
    uint8_t major;
    uint8_t info;
};

/* Length of the character that @p text starts with, 0 if it starts with none. */
static size_t take_character(struct cri_slice text, uint32_t *ret_code_point)
{
    const size_t len = cri__utf8_len(text.data, text.len);
    if (len == 0) {
        return 0;
    }
    uint32_t code_point = len == 1 ? text.data[0] : text.data[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        code_point = code_point << 6 | (text.data[i] & 0x3fu);
    }
    *ret_code_point = code_point;
    return len;
}

static void put(struct formatter *f, const void *bytes, size_t len)
{
    if (f->len < f->capacity) {
        const size_t room = f->capacity - f->len;
        memcpy(f->out + f->len, bytes, len < room ? len : room);
    }
    f->len += len;
}

static void put_text(struct formatter *f, const char *text)
{
    put(f, text, strlen(text));
}

static void put_number(struct formatter *f, uint64_t number)
{
    char text[24];
    const int len = snprintf(text, sizeof(text), "%" PRIu64, number);
    put(f, text, (size_t)len);
}

static enum cri_error read_head(struct formatter *f, struct head *ret_head)
{
    if (f->pos >= f->in.len) {
        return cri__fail(f->fault, CRI_ERR_TRUNCATED, f->in.len, "an item is missing");
    }
    struct head head = {.offset = f->pos};
    const uint8_t initial = f->in.data[f->pos++];
    head.major = initial >> 5;
    head.info = initial & 0x1fu;
    head.argument = head.info;
    if (head.info >= 24 && head.info <= 27) {
        const size_t len = (size_t)1 << (head.info - 24);
        if (len > f->in.len - f->pos) {
            return cri__fail(f->fault, CRI_ERR_TRUNCATED, head.offset, "a head is cut off");
        }
        head.argument = 0;
        for (size_t i = 0; i < len; i++) {
            head.argument = head.argument << 8 | f->in.data[f->pos++];
        }
    } else if (head.info > 27 && head.info < AI_INDEFINITE) {
        return cri__fail(f->fault, CRI_ERR_CBOR, head.offset,
                         "additional information 28 to 30 is reserved");
    }
    *ret_head = head;
    return CRI_OK;
}

/* -1 - argument; the argument's range ends at 2^64 - 1, the value's one below. */
static void put_negative(struct formatter *f, uint64_t argument)
{
    if (argument == UINT64_MAX) {
        put_text(f, "-18446744073709551616");
        return;
    }
    put_text(f, "-");
    put_number(f, argument + 1);
}

static void put_bytes(struct formatter *f, struct cri_slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    put_text(f, "h'");
    for (size_t i = 0; i < bytes.len; i++) {
        const char pair[2] = {digits[bytes.data[i] >> 4], digits[bytes.data[i] & 0xfu]};
        put(f, pair, sizeof(pair));
    }
    put_text(f, "'");
}

/*
 * Characters that must not reach a terminal or a line of a log unescaped: the control characters of
 * C0 and C1, line separators, and the bidirectional overrides. DEL does nothing on a terminal and
 * stays.
 */
static bool is_escaped(uint32_t c)
{
    return c < 0x20 || (c >= 0x80 && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

static void put_escape(struct formatter *f, uint32_t c)
{
    static const char named[] = "\bb\tt\nn\ff\rr\"\"\\\\";
    for (size_t i = 0; i + 1 < sizeof(named); i += 2) {
        if (c == (uint8_t)named[i]) {
            put(f, "\\", 1);
            put(f, &named[i + 1], 1);
            return;
        }
    }
    char text[8];
    const int len = snprintf(text, sizeof(text), "\\u%04x", (unsigned)c & 0xffffu);
    put(f, text, (size_t)len);
}

static enum cri_error put_string(struct formatter *f, struct cri_slice text, size_t offset)
{
    put_text(f, "\"");
    for (size_t i = 0; i < text.len;) {
        uint32_t c = 0;
        const size_t len = take_character((struct cri_slice){text.data + i, text.len - i}, &c);
        if (len == 0) {
            return cri__fail(f->fault, CRI_ERR_UTF8, offset + i, "text is not UTF-8");
        }
        if (c == '"' || c == '\\' || is_escaped(c)) {
            put_escape(f, c);
        } else {
            put(f, text.data + i, len);
        }
        i += len;
    }
    put_text(f, "\"");
    return CRI_OK;
}

/* RFC 8949 appendix D. */
static double half_to_double(uint64_t half)
{
    const unsigned exponent = (unsigned)(half >> 10 & 0x1fu);
    const uint32_t mantissa = (uint32_t)(half & 0x3ffu);
    double value = 0;
    if (exponent == 0) {
        value = (double)mantissa / 16777216.0; /* 2^24 */
    } else if (exponent != 31) {
        value = (double)((uint64_t)(mantissa + 1024) << exponent) / 33554432.0; /* 2^25 */
    } else {
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    }
    return half & 0x8000u ? -value : value;
}

static double float_of_head(const struct head *head)
{
    if (head->info == 25) {
        return half_to_double(head->argument);
    }
    if (head->info == 26) {
        const uint32_t bits = (uint32_t)head->argument;
        float value = 0;
        memcpy(&value, &bits, sizeof(value));
        return (double)value;
    }
    double value = 0;
    memcpy(&value, &head->argument, sizeof(value));
    return value;
}

/* The fewest digits that read back as the same number; always a point or an exponent. */
static void put_float(struct formatter *f, double value)
{
    if (isnan(value)) {
        put_text(f, "NaN");
        return;
    }
    if (isinf(value)) {
        put_text(f, value < 0 ? "-Infinity" : "Infinity");
        return;
    }
    char text[FLOAT_TEXT_MAX];
    int len = 0;
    if (value > -FLOAT_WHOLE_MAX && value < FLOAT_WHOLE_MAX && (double)(int64_t)value == value) {
        len = snprintf(text, sizeof(text), "%.1f", value);
    }
    for (int precision = 1; len == 0 || strtod(text, NULL) != value; precision++) {
        len = snprintf(text, sizeof(text), "%.*g", precision, value); /* ends: 17 always do */
    }
    bool is_float = false; /* A whole number of 16 or 17 digits would read as an integer. */
    for (int i = 0; i < len; i++) {
        /* The program's locale may have another decimal point. */
        if (strchr("+-0123456789e", text[i]) == NULL) {
            text[i] = '.';
        }
        is_float = is_float || text[i] == '.' || text[i] == 'e';
    }
    put(f, text, (size_t)len);
    put_text(f, is_float ? "" : ".0");
}

static enum cri_error put_simple(struct formatter *f, const struct head *head)
{
    if (head->info >= 25 && head->info <= 27) {
        put_float(f, float_of_head(head));
        return CRI_OK;
    }
    if (head->info == 24 && head->argument < 32) {
        return cri__fail(f->fault, CRI_ERR_CBOR, head->offset,
                         "a simple value below 32 in two bytes");
    }
    static const char *const named[] = {"false", "true", "null", "undefined"};
    if (head->argument >= 20 && head->argument <= 23) {
        put_text(f, named[head->argument - 20]);
        return CRI_OK;
    }
    put_text(f, "simple(");
    put_number(f, head->argument);
    put_text(f, ")");
    return CRI_OK;
}

/* The separator between the items of the innermost container. */
static void put_separator(struct formatter *f)
{
    if (f->depth == 0) {
        return;
    }
    struct level *level = &f->levels[f->depth - 1];
    if (level->done == 0) {
        return;
    }
    const bool is_value = level->major == DIAG_MAP && level->done % 2 == 1;
    put_text(f, is_value ? ": " : ", ");
}

static const char *closing(uint8_t major)
{
    return major == DIAG_ARRAY ? "]" : major == DIAG_MAP ? "}" : ")";
}

/* An item is whole: so may be the containers around it. */
static void item_done(struct formatter *f)
{
    while (f->depth > 0) {
        struct level *level = &f->levels[f->depth - 1];
        level->done++;
        if (level->is_indefinite || --level->left > 0) {
            return;
        }
        put_text(f, closing(level->major));
        f->depth--;
    }
}

static enum cri_error open_level(struct formatter *f, const struct head *head, uint64_t count)
{
    const bool is_indefinite = head->info == AI_INDEFINITE;
    /* Every item takes a byte: a larger count cannot be true. */
    if (!is_indefinite && count > f->in.len - f->pos) {
        return cri__fail(f->fault, CRI_ERR_TRUNCATED, head->offset,
                         "more items announced than there are bytes");
    }
    if (f->depth == CRI_DIAG_DEPTH_MAX) {
        return cri__fail(f->fault, CRI_ERR_CBOR, head->offset, "nested too deep");
    }
    f->levels[f->depth++] =
        (struct level){.left = count, .major = head->major, .is_indefinite = is_indefinite};
    return CRI_OK;
}

static enum cri_error open_container(struct formatter *f, const struct head *head)
{
    const bool is_array = head->major == DIAG_ARRAY;
    uint64_t count = head->argument;
    if (head->info == AI_INDEFINITE) {
        put_text(f, is_array ? "[_ " : "{_ ");
        return open_level(f, head, 0);
    }
    put_text(f, is_array ? "[" : "{");
    if (!is_array) {
        count = count > UINT64_MAX / 2 ? UINT64_MAX : count * 2;
    }
    enum cri_error err = open_level(f, head, count);
    if (err == CRI_OK && count == 0) {
        put_text(f, closing(head->major));
        f->depth--;
        item_done(f);
    }
    return err;
}

static enum cri_error put_definite_string(struct formatter *f, const struct head *head)
{
    if (head->argument > f->in.len - f->pos) {
        return cri__fail(f->fault, CRI_ERR_TRUNCATED, head->offset,
                         "a string is longer than the input");
    }
    const size_t offset = f->pos;
    const struct cri_slice content = {f->in.data + offset, (size_t)head->argument};
    f->pos += content.len;
    if (head->major == DIAG_TEXT) {
        enum cri_error err = put_string(f, content, offset);
        if (err != CRI_OK) {
            return err;
        }
    } else {
        put_bytes(f, content);
    }
    item_done(f);
    return CRI_OK;
}

static enum cri_error put_indefinite_string(struct formatter *f, const struct head *head)
{
    if (f->pos < f->in.len && f->in.data[f->pos] == BREAK_BYTE) {
        f->pos++;
        put_text(f, head->major == DIAG_TEXT ? "\"\"_" : "''_");
        item_done(f);
        return CRI_OK;
    }
    put_text(f, "(_ ");
    return open_level(f, head, 0);
}

static enum cri_error put_break(struct formatter *f, const struct head *head)
{
    const struct level *level = f->depth > 0 ? &f->levels[f->depth - 1] : NULL;
    if (level == NULL || !level->is_indefinite ||
        (level->major == DIAG_MAP && level->done % 2 == 1)) {
        return cri__fail(f->fault, CRI_ERR_CBOR, head->offset, "a break out of place");
    }
    put_text(f, closing(level->major));
    f->depth--;
    item_done(f);
    return CRI_OK;
}

/* Inside an indefinite string only definite strings of its kind may stand. */
static bool is_wrong_chunk(const struct formatter *f, const struct head *head)
{
    if (f->depth == 0) {
        return false;
    }
    const uint8_t major = f->levels[f->depth - 1].major;
    return (major == DIAG_BYTES || major == DIAG_TEXT) &&
           (head->major != major || head->info == AI_INDEFINITE);
}

static enum cri_error put_scalar(struct formatter *f, const struct head *head)
{
    enum cri_error err = CRI_OK;
    if (head->info == AI_INDEFINITE) {
        return cri__fail(f->fault, CRI_ERR_CBOR, head->offset,
                         "indefinite length where there is none");
    }
    if (head->major == DIAG_UNSIGNED) {
        put_number(f, head->argument);
    } else if (head->major == DIAG_NEGATIVE) {
        put_negative(f, head->argument);
    } else if (head->major == DIAG_TAG) {
        put_number(f, head->argument);
        put_text(f, "(");
        return open_level(f, head, 1);
    } else {
        err = put_simple(f, head);
    }
    if (err == CRI_OK) {
        item_done(f);
    }
    return err;
}

static enum cri_error put_item(struct formatter *f)
{
    struct head head;
    enum cri_error err = read_head(f, &head);
    if (err != CRI_OK) {
        return err;
    }
    if (head.major == DIAG_SIMPLE && head.info == AI_INDEFINITE) {
        return put_break(f, &head);
    }
    if (is_wrong_chunk(f, &head)) {
        return cri__fail(f->fault, CRI_ERR_CBOR, head.offset,
                         "not a chunk of an indefinite-length string");
    }
    put_separator(f);
    switch (head.major) {
    case DIAG_BYTES:
    case DIAG_TEXT:
        return head.info == AI_INDEFINITE ? put_indefinite_string(f, &head)
                                          : put_definite_string(f, &head);
    case DIAG_ARRAY:
    case DIAG_MAP:
        return open_container(f, &head);
    default:
        return put_scalar(f, &head);
    }
}

enum cri_error cri_diag_format(struct cri_slice encoded, char *buffer, size_t capacity,
                               size_t *ret_len, struct cri_fault *ret_fault)
{
    struct formatter f;
    f.in = encoded;
    f.pos = 0;
    f.out = buffer;
    f.capacity = capacity;
    f.len = 0;
    f.depth = 0;
    f.fault = ret_fault;
    do {
        enum cri_error err = put_item(&f);
        if (err != CRI_OK) {
            return err;
        }
    } while (f.depth > 0);
    if (f.pos < encoded.len) {
        return cri__fail(ret_fault, CRI_ERR_TRAILING_BYTES, f.pos, "bytes after the item");
    }
    *ret_len = f.len;
    return f.len <= capacity ? CRI_OK
                             : cri__fail(ret_fault, CRI_ERR_SPACE, 0, "the buffer is too small");
}
