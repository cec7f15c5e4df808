/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Diagnostic notation to CBOR.
 *
 * One pass over the text with an explicit stack. The length of a head is known
 * only when its container or string ends, so one byte is reserved for it and the
 * content moved up when it needs more; with at most CRI_DIAG_DEPTH_MAX levels
 * that stays linear. Once the output no longer fits, only its size is counted.
 */
#include "diag_internal.h"
#include "host.h"

#ifndef CRI_WITHOUT_URI
#include <cri/iri.h>
#endif

#include <math.h>
#include <string.h>

/* Bytes of a URI in a cri'' literal that has escapes; others may be of any length. */
#define ESCAPED_URI_MAX 256u

#define BREAK_BYTE 0xffu
#define AI_INDEFINITE 31u

/* The tokens that are allowed at the reader's position. */
enum expect {
    EXPECT_ITEM,          /* an item */
    EXPECT_ITEM_OR_CLOSE, /* just after an opening bracket */
    EXPECT_COLON,         /* between key and value */
    EXPECT_COMMA_OR_CLOSE /* after an item */
};

struct open_item {
    size_t start;       /* of its head in the output */
    size_t offset;      /* in the text, for the diagnosis */
    uint64_t count;     /* items inside; a map counts keys and values */
    uint8_t major;      /* DIAG_ARRAY, DIAG_MAP, DIAG_TAG; for chunks the string's type */
    bool is_indefinite; /* written with "_" */
};

struct parser {
    struct cri_slice in;
    size_t pos;
    uint8_t *out;
    size_t capacity;
    size_t len;
    struct open_item levels[CRI_DIAG_DEPTH_MAX];
    size_t depth;
    enum expect expect;
    struct cri_fault *fault;
};

static enum cri_error fail_at(const struct parser *p, size_t offset, const char *rule)
{
    return cri__fail(p->fault, CRI_ERR_NOTATION, offset, rule);
}

static enum cri_error fail(const struct parser *p, const char *rule)
{
    return fail_at(p, p->pos, rule);
}

static void put(struct parser *p, uint8_t byte)
{
    if (p->len < p->capacity) {
        p->out[p->len] = byte;
    }
    p->len++;
}

static size_t head_len(uint64_t argument)
{
    return argument < 24             ? 1
           : argument <= 0xffu       ? 2
           : argument <= 0xffffu     ? 3
           : argument <= 0xffffffffu ? 5
                                     : 9;
}

static void put_head(struct parser *p, uint8_t major, uint64_t argument)
{
    static const uint8_t infos[] = {0, 0, 24, 25, 0, 26, 0, 0, 0, 27};
    const size_t len = head_len(argument);
    const uint8_t info = len == 1 ? (uint8_t)argument : infos[len];
    put(p, (uint8_t)(major << 5 | info));
    for (size_t i = len - 1; i > 0; i--) {
        put(p, (uint8_t)(argument >> (8 * (i - 1))));
    }
}

/* Writes the head of the item that began at @p start, where one byte was reserved for it. */
static void close_head(struct parser *p, size_t start, uint8_t major, uint64_t argument)
{
    const size_t extra = head_len(argument) - 1;
    const size_t end = p->len + extra;
    if (extra > 0 && end <= p->capacity) {
        memmove(p->out + start + 1 + extra, p->out + start + 1, p->len - start - 1);
    }
    p->len = start;
    put_head(p, major, argument);
    p->len = end;
}

static bool at(const struct parser *p, char c)
{
    return p->pos < p->in.len && p->in.data[p->pos] == (uint8_t)c;
}

static bool take(struct parser *p, char c)
{
    if (!at(p, c)) {
        return false;
    }
    p->pos++;
    return true;
}

static bool take_word(struct parser *p, const char *word)
{
    const size_t len = strlen(word);
    if (len > p->in.len - p->pos || memcmp(p->in.data + p->pos, word, len) != 0) {
        return false;
    }
    p->pos += len;
    return true;
}

/* Blanks and comments. */
static enum cri_error skip_blanks(struct parser *p)
{
    while (p->pos < p->in.len) {
        const uint8_t c = p->in.data[p->pos];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            p->pos++;
        } else if (c == '#' || c == '/') {
            const size_t start = p->pos++;
            const uint8_t end = c == '#' ? '\n' : '/';
            while (p->pos < p->in.len && p->in.data[p->pos] != end) {
                p->pos++;
            }
            if (c == '/' && !take(p, '/')) {
                return fail_at(p, start, "a comment does not end");
            }
        } else {
            break;
        }
    }
    return CRI_OK;
}

static bool take_digit(struct parser *p, unsigned base, unsigned *ret_digit)
{
    const int digit = p->pos < p->in.len ? cri__hex_value(p->in.data[p->pos]) : -1;
    if (digit < 0 || (unsigned)digit >= base) {
        return false;
    }
    p->pos++;
    *ret_digit = (unsigned)digit;
    return true;
}

static unsigned take_base(struct parser *p)
{
    if (take_word(p, "0x")) {
        return 16;
    }
    if (take_word(p, "0o")) {
        return 8;
    }
    return take_word(p, "0b") ? 2 : 10;
}

/*
 * Digits up to 2^64, which is one more than fits: @p ret_is_2_64 says so, for the
 * smallest negative integer of CBOR.
 */
static enum cri_error take_magnitude(struct parser *p, uint64_t *ret_value, bool *ret_is_2_64)
{
    const unsigned base = take_base(p);
    unsigned digit = 0;
    uint64_t value = 0;
    bool is_2_64 = false;
    if (!take_digit(p, base, &digit)) {
        return fail(p, "a number has no digits");
    }
    do {
        uint64_t next = 0;
        if (is_2_64 || __builtin_mul_overflow(value, (uint64_t)base, &next)) {
            /* 16 * 2^60 and its like wrap to 0 with the digit 0. */
            if (is_2_64 || next != 0 || digit != 0 || value != UINT64_MAX / base + 1) {
                return fail(p, "a number is outside the range of CBOR");
            }
            is_2_64 = true;
        } else if (__builtin_add_overflow(next, (uint64_t)digit, &next)) {
            if (next != 0) {
                return fail(p, "a number is outside the range of CBOR");
            }
            is_2_64 = true;
        }
        value = next;
    } while (take_digit(p, base, &digit));
    *ret_value = value;
    *ret_is_2_64 = is_2_64;
    return CRI_OK;
}

static enum cri_error open_item(struct parser *p, uint8_t major, bool is_indefinite, size_t offset)
{
    if (p->depth == CRI_DIAG_DEPTH_MAX) {
        return fail_at(p, offset, "nested too deep");
    }
    p->levels[p->depth++] = (struct open_item){
        .start = p->len, .offset = offset, .major = major, .is_indefinite = is_indefinite};
    return CRI_OK;
}

static enum cri_error parse_float(struct parser *p, size_t len, double value)
{
    uint8_t bytes[CRI__FLOAT_BYTES_MAX];

    if (len == CRI__FLOAT_TOO_LONG) {
        return fail(p, "a floating-point number has too many digits");
    }
    if (isinf(value)) {
        return fail(p, "a number is outside the range of CBOR");
    }
    p->pos += len;
    len = cri__float_encode(value, bytes);
    for (size_t i = 0; i < len; i++) {
        put(p, bytes[i]);
    }
    return CRI_OK;
}

/* NaN and the infinities: halves, with the values of RFC 8949 section 4.2.2. */
static bool take_special(struct parser *p)
{
    static const struct {
        const char *word;
        uint8_t high;
    } named[] = {{"NaN", 0x7e}, {"Infinity", 0x7c}, {"-Infinity", 0xfc}};
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        if (take_word(p, named[i].word)) {
            put(p, DIAG_SIMPLE << 5 | 25);
            put(p, named[i].high);
            put(p, 0);
            return true;
        }
    }
    return false;
}

static enum cri_error parse_number(struct parser *p)
{
    const size_t start = p->pos;
    double number = 0;
    const size_t float_len =
        cri__float_parse(cri__slice(p->in.data + p->pos, p->in.len - p->pos), &number);
    if (float_len > 0) {
        return parse_float(p, float_len, number);
    }
    const bool is_negative = take(p, '-');
    uint64_t value = 0;
    bool is_2_64 = false;
    enum cri_error err = take_magnitude(p, &value, &is_2_64);
    if (err != CRI_OK) {
        return err;
    }
    if (is_2_64 && !is_negative) {
        return fail_at(p, start, "a number is outside the range of CBOR");
    }
    if (is_negative && (value != 0 || is_2_64)) {
        put_head(p, DIAG_NEGATIVE, value - 1); /* of 2^64, held as 0: wraps to 2^64 - 1 */
        return CRI_OK;
    }
    if (!is_negative && take(p, '(')) {
        err = open_item(p, DIAG_TAG, false, start);
        put_head(p, DIAG_TAG, value);
        p->expect = EXPECT_ITEM;
        return err;
    }
    put_head(p, DIAG_UNSIGNED, value);
    return CRI_OK;
}

static void put_utf8(struct parser *p, uint32_t c)
{
    if (c < 0x80) {
        put(p, (uint8_t)c);
        return;
    }
    if (c < 0x800) {
        put(p, (uint8_t)(0xc0u | c >> 6));
    } else {
        if (c < 0x10000) {
            put(p, (uint8_t)(0xe0u | c >> 12));
        } else {
            put(p, (uint8_t)(0xf0u | c >> 18));
            put(p, (uint8_t)(0x80u | (c >> 12 & 0x3fu)));
        }
        put(p, (uint8_t)(0x80u | (c >> 6 & 0x3fu)));
    }
    put(p, (uint8_t)(0x80u | (c & 0x3fu)));
}

static bool take_hex4(struct parser *p, uint32_t *ret_value)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned digit = 0;
        if (!take_digit(p, 16, &digit)) {
            return false;
        }
        value = value << 4 | digit;
    }
    *ret_value = value;
    return true;
}

/* After "\u": a scalar value, of a surrogate pair where it takes two. */
static enum cri_error parse_unicode_escape(struct parser *p)
{
    uint32_t c = 0;
    uint32_t low = 0;
    if (!take_hex4(p, &c)) {
        return fail(p, "\\u needs four hexadecimal digits");
    }
    if (c >= 0xd800 && c < 0xdc00) {
        if (!take_word(p, "\\u") || !take_hex4(p, &low) || low < 0xdc00 || low > 0xdfff) {
            return fail(p, "a surrogate without its other half");
        }
        c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
    } else if (c >= 0xdc00 && c <= 0xdfff) {
        return fail(p, "a surrogate without its other half");
    }
    put_utf8(p, c);
    return CRI_OK;
}

static enum cri_error parse_escape(struct parser *p)
{
    static const char named[] = "b\bt\tn\nf\fr\r\"\"\\\\//''";
    if (take(p, 'u')) {
        return parse_unicode_escape(p);
    }
    for (size_t i = 0; i + 1 < sizeof(named); i += 2) {
        if (take(p, named[i])) {
            put(p, (uint8_t)named[i + 1]);
            return CRI_OK;
        }
    }
    return fail(p, "an unknown escape");
}

/* Text between quotes; the input as a whole was checked to be UTF-8. */
static enum cri_error parse_quoted(struct parser *p, char quote)
{
    const size_t offset = p->pos++;
    const size_t start = p->len;
    put(p, 0);
    while (!take(p, quote)) {
        if (p->pos == p->in.len) {
            return fail_at(p, offset, "a string does not end");
        }
        const uint8_t c = p->in.data[p->pos];
        if (c < 0x20) {
            return fail(p, "a control character in a string");
        }
        p->pos++;
        if (c != '\\') {
            put(p, c);
            continue;
        }
        enum cri_error err = parse_escape(p);
        if (err != CRI_OK) {
            return err;
        }
    }
    close_head(p, start, quote == '"' ? DIAG_TEXT : DIAG_BYTES, p->len - start - 1);
    return CRI_OK;
}

static enum cri_error parse_hex(struct parser *p)
{
    const size_t offset = p->pos - 2;
    const size_t start = p->len;
    put(p, 0);
    for (;;) {
        enum cri_error err = skip_blanks(p);
        if (err != CRI_OK) {
            return err;
        }
        unsigned high = 0;
        unsigned low = 0;
        if (take(p, '\'')) {
            break;
        }
        if (p->pos == p->in.len) {
            return fail_at(p, offset, "a string does not end");
        }
        if (!take_digit(p, 16, &high)) {
            return fail(p, "not a hexadecimal digit");
        }
        err = skip_blanks(p);
        if (err != CRI_OK) {
            return err;
        }
        if (!take_digit(p, 16, &low)) {
            return fail(p, "an odd number of hexadecimal digits");
        }
        put(p, (uint8_t)(high << 4 | low));
    }
    close_head(p, start, DIAG_BYTES, p->len - start - 1);
    return CRI_OK;
}

#ifndef CRI_WITHOUT_URI
/*
 * Behind cri' or CRI' (draft-bormann-core-cri-diagnostic-notation): a URI or IRI reference, up
 * to the quote, as its CRI reference. Of escapes a URI needs only that of the quote.
 */
static enum cri_error parse_cri(struct parser *p)
{
    const size_t start = p->pos;
    uint8_t unescaped[ESCAPED_URI_MAX];
    size_t unescaped_len = 0;
    bool has_escape = false;

    while (!take(p, '\'')) {
        if (p->pos == p->in.len) {
            return fail_at(p, start - 1, "a string does not end");
        }
        bool is_escape = at(p, '\\');
        has_escape = has_escape || is_escape;
        p->pos += is_escape ? 1 : 0;
        if (is_escape && !at(p, '\'')) {
            return fail(p, "an unknown escape");
        }
        if (unescaped_len < sizeof unescaped) {
            unescaped[unescaped_len++] = p->in.data[p->pos];
        } else if (has_escape) {
            return fail(p, "a URI with escapes is too long");
        }
        p->pos++;
    }
    struct cri_slice uri = cri__slice(p->in.data + start, p->pos - 1 - start);
    if (has_escape) {
        uri = cri__slice(unescaped, unescaped_len);
    }
    const size_t room = p->len < p->capacity ? p->capacity - p->len : 0;
    struct cri_fault fault = {0, ""};
    size_t len = 0;
    enum cri_error error =
        cri_iri_parse(uri, NULL, room > 0 ? p->out + p->len : NULL, room, &len, &fault);
    if (error != CRI_OK && error != CRI_ERR_SPACE) {
        return fail_at(p, start + (has_escape ? 0 : fault.offset), fault.rule);
    }
    p->len += len;
    return CRI_OK;
}
#endif

/* A string by itself, or, before "_", an indefinite one without chunks. */
static enum cri_error parse_string(struct parser *p)
{
    const size_t start = p->len;
    const uint8_t major = at(p, '"') ? DIAG_TEXT : DIAG_BYTES;
    enum cri_error err = CRI_OK;
    if (take_word(p, "h'")) {
        return parse_hex(p);
    }
    err = parse_quoted(p, at(p, '"') ? '"' : '\'');
    if (err == CRI_OK && p->len == start + 1 && take(p, '_')) {
        p->len = start;
        put(p, (uint8_t)((unsigned)major << 5 | AI_INDEFINITE));
        put(p, BREAK_BYTE);
    }
    return err;
}

static enum cri_error parse_simple(struct parser *p)
{
    static const struct {
        const char *word;
        uint8_t value;
    } named[] = {{"false", 20}, {"true", 21}, {"null", 22}, {"undefined", 23}};
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        if (take_word(p, named[i].word)) {
            put_head(p, DIAG_SIMPLE, named[i].value);
            return CRI_OK;
        }
    }
    const size_t start = p->pos;
    uint64_t value = 0;
    bool is_2_64 = false;
    if (!take_word(p, "simple(")) {
        return fail(p, "not an item");
    }
    enum cri_error err = take_magnitude(p, &value, &is_2_64);
    if (err != CRI_OK) {
        return err;
    }
    if (is_2_64 || value > 255 || (value >= 24 && value < 32)) {
        return fail_at(p, start, "not a simple value");
    }
    if (!take(p, ')')) {
        return fail(p, "a closing parenthesis is missing");
    }
    put_head(p, DIAG_SIMPLE, value);
    return CRI_OK;
}

/* Chunks of an indefinite string take their type from the first of them. */
static enum cri_error parse_open(struct parser *p)
{
    const size_t offset = p->pos;
    const uint8_t bracket = p->in.data[p->pos++];
    const bool is_indefinite = take(p, '_');
    const uint8_t major = bracket == '[' ? DIAG_ARRAY : bracket == '{' ? DIAG_MAP : DIAG_BYTES;
    if (bracket == '(' && !is_indefinite) {
        return fail_at(p, offset, "not an item");
    }
    if (bracket == '(') {
        enum cri_error err = skip_blanks(p);
        if (err != CRI_OK) {
            return err;
        }
    }
    const uint8_t type = bracket == '(' && at(p, '"') ? DIAG_TEXT : major;
    enum cri_error err = open_item(p, type, is_indefinite, offset);
    put(p, (uint8_t)((unsigned)type << 5 | AI_INDEFINITE));
    p->expect = bracket == '(' ? EXPECT_ITEM : EXPECT_ITEM_OR_CLOSE;
    return err;
}

static enum cri_error parse_item(struct parser *p)
{
    const uint8_t c = p->in.data[p->pos];
    const uint8_t major = p->depth > 0 ? p->levels[p->depth - 1].major : DIAG_ARRAY;
    const bool is_text = c == '"';
    const bool is_bytes = c == '\'' || c == 'h';
    if ((major == DIAG_TEXT && !is_text) || (major == DIAG_BYTES && !is_bytes)) {
        return fail(p, "not a chunk of an indefinite-length string");
    }
    p->expect = EXPECT_COMMA_OR_CLOSE;
    if (c == '[' || c == '{' || c == '(') {
        return parse_open(p);
    }
    if (take_special(p)) {
        return CRI_OK;
    }
#ifndef CRI_WITHOUT_URI
    if (take_word(p, "cri'")) {
        return parse_cri(p);
    }
    if (take_word(p, "CRI'")) {
        put_head(p, DIAG_TAG, CRI_TAG);
        return parse_cri(p);
    }
#endif
    if (c == '-' || (c >= '0' && c <= '9')) {
        return parse_number(p);
    }
    return is_text || is_bytes ? parse_string(p) : parse_simple(p);
}

static char closing(uint8_t major)
{
    return major == DIAG_ARRAY ? ']' : major == DIAG_MAP ? '}' : ')';
}

static enum cri_error parse_close(struct parser *p)
{
    const struct open_item *level = &p->levels[p->depth - 1];
    const uint64_t count = level->major == DIAG_MAP ? level->count / 2 : level->count;
    if (level->is_indefinite) {
        put(p, BREAK_BYTE);
    } else if (level->major != DIAG_TAG) {
        close_head(p, level->start, level->major, count);
    }
    p->depth--;
    p->expect = EXPECT_COMMA_OR_CLOSE;
    return CRI_OK;
}

/* After a whole item: counts it, and sets the tokens that may follow. */
static void count_item(struct parser *p)
{
    if (p->depth == 0) {
        return;
    }
    struct open_item *level = &p->levels[p->depth - 1];
    level->count++;
    if (level->major == DIAG_MAP && level->count % 2 == 1) {
        p->expect = EXPECT_COLON;
    }
}

static enum cri_error parse_punctuation(struct parser *p)
{
    const uint8_t major = p->levels[p->depth - 1].major;
    if (p->expect == EXPECT_COLON) {
        p->expect = EXPECT_ITEM;
        return take(p, ':') ? CRI_OK : fail(p, "a colon is missing");
    }
    if (take(p, closing(major))) {
        enum cri_error err = parse_close(p);
        count_item(p);
        return err;
    }
    if (major == DIAG_TAG || !take(p, ',')) {
        return fail(p, "a comma or a closing bracket is missing");
    }
    p->expect = EXPECT_ITEM;
    return CRI_OK;
}

static enum cri_error step(struct parser *p)
{
    enum cri_error err = skip_blanks(p);
    if (err != CRI_OK) {
        return err;
    }
    if (p->pos == p->in.len) {
        return p->depth == 0 ? fail(p, "nothing here")
                             : fail_at(p, p->levels[p->depth - 1].offset, "this is never closed");
    }
    const bool can_close =
        p->expect == EXPECT_ITEM_OR_CLOSE && at(p, closing(p->levels[p->depth - 1].major));
    if (can_close || p->expect == EXPECT_COLON || p->expect == EXPECT_COMMA_OR_CLOSE) {
        return parse_punctuation(p);
    }
    const size_t depth = p->depth;
    err = parse_item(p);
    if (err == CRI_OK && p->depth == depth) {
        count_item(p);
    }
    return err;
}

static enum cri_error check_utf8(const struct parser *p)
{
    const size_t span = cri__utf8_span(p->in.data, p->in.len);
    return span == p->in.len ? CRI_OK
                             : cri__fail(p->fault, CRI_ERR_UTF8, span, "the notation is not UTF-8");
}

enum cri_error cri_diag_parse(struct cri_slice text, uint8_t *buffer, size_t capacity,
                              size_t *ret_len, struct cri_fault *ret_fault)
{
    struct parser p;
    p.in = text;
    p.pos = 0;
    p.out = buffer;
    p.capacity = capacity;
    p.len = 0;
    p.depth = 0;
    p.expect = EXPECT_ITEM;
    p.fault = ret_fault;
    enum cri_error err = check_utf8(&p);
    if (err != CRI_OK) {
        return err;
    }
    do {
        err = step(&p);
        if (err != CRI_OK) {
            return err;
        }
    } while (p.depth > 0);
    err = skip_blanks(&p);
    if (err != CRI_OK) {
        return err;
    }
    if (p.pos < text.len) {
        return fail(&p, "something follows the item");
    }
    *ret_len = p.len;
    return p.len <= capacity ? CRI_OK
                             : cri__fail(ret_fault, CRI_ERR_SPACE, 0, "the buffer is too small");
}
