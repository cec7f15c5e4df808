/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of libcri, and no part of the interface. Everything here begins with cri__
 * and stays hidden in the shared library.
 */
#ifndef CRI_INTERNAL_H
#define CRI_INTERNAL_H

#include <cri/builder.h>
#include <cri/cri.h>

#include <string.h>

/*
 * A freestanding build is for size: code that is only for speed is left out, and rules have no
 * text.
 */
#ifdef CRI_FREESTANDING
#define CRI__RULE(text) ""
#define CRI__APART
#else
#define CRI__RULE(text) (text)
/* Rare cases, kept out of line: inlined, each pass would pay for their stack frame. */
#define CRI__APART __attribute__((noinline))
#endif

/* Longest head: the initial byte and eight of argument. */
#define CRI__HEAD_MAX 9u

/* Major types of CBOR, as cri__put_head() takes them. */
enum cri__major {
    CRI__MAJOR_UINT = 0,
    CRI__MAJOR_NINT = 1,
    CRI__MAJOR_BYTES = 2,
    CRI__MAJOR_TEXT = 3,
    CRI__MAJOR_ARRAY = 4,
    CRI__MAJOR_MAP = 5, /* read only */
    CRI__MAJOR_TAG = 6
};

/* Kinds of CBOR items, from cri__read(). */
enum cri__kind {
    CRI__UINT,       /* arg: the value */
    CRI__NINT,       /* arg: -1 - the value */
    CRI__BYTES,      /* string */
    CRI__TEXT,       /* string; not yet checked to be UTF-8 */
    CRI__ARRAY,      /* arg: number of items, each of which has at least a byte in the input */
    CRI__MAP,        /* arg: number of pairs, likewise */
    CRI__FALSE,      /* */
    CRI__TRUE,       /* */
    CRI__NULL,       /* */
    CRI__FLOAT,      /* its value has no use in a CRI */
    CRI__END,        /* never read: stands for the end of an array */
    CRI__TAG,        /* arg: its number; from here on nothing has a place in a CRI */
    CRI__SIMPLE,     /* arg: its number; undefined is 23 */
    CRI__INDEFINITE, /* head of a string, an array or a map of indefinite length */
    CRI__BREAK       /* */
};

/* Arguments below this are in the initial byte; such heads are most of a CRI. */
#define CRI__SHORT_MAX 24u
#define CRI__EMPTY_TEXT 0x60u

/* A cursor over CBOR and the item it read last. */
struct cri__reader {
    const uint8_t *data;
    size_t len;
    size_t pos;              /* Of the next item. */
    size_t at;               /* Of the item read last. */
    enum cri__kind kind;     /* And what it was. */
    uint64_t arg;            /* See enum cri__kind. */
    struct cri_slice string; /* Borrowed from the data. */
};

/*
 * The cases that cri__read() does not handle: heads of more than one byte, major types 5 to 7, the
 * input's end. An error, with *ret_fault set, where the input is not well-formed or ends early.
 */
enum cri_error cri__read_long(struct cri__reader *reader, struct cri_fault *ret_fault);

/* The same for a head that was judged: the string or the items it announces can follow. */
enum cri_error cri__read_item(struct cri__reader *reader, struct cri_fault *ret_fault);

#ifdef CRI_FREESTANDING
/* Heads of one byte have no way of their own, which is for speed. */
static inline enum cri_error cri__read(struct cri__reader *reader, struct cri_fault *ret_fault)
{
    return cri__read_long(reader, ret_fault);
}

static inline bool cri__take_short(struct cri_slice *rest, unsigned initial,
                                   struct cri_slice *ret_string)
{
    (void)rest;
    (void)initial;
    (void)ret_string;
    return false;
}

static inline bool cri__read_short_text(struct cri__reader *reader, struct cri_slice *ret_text)
{
    (void)reader;
    (void)ret_text;
    return false;
}
#else
/* Marks in cri__short_kinds, which is by major type. */
#define CRI__COUNTS 0x40u
#define CRI__NOT_SHORT 0xffu
extern const uint8_t cri__short_kinds[8];

/*
 * Read the head of the next item, and all of it unless it contains others.
 *
 * Nearly every item has a head of one byte, which is read here. libcbor's streaming
 * decoder takes 6 ns for each, as long for a whole CRI as libcoap for a whole URI;
 * it has the rest (bench/results/libcri.md).
 */
static inline enum cri_error cri__read(struct cri__reader *reader, struct cri_fault *ret_fault)
{
    size_t left = reader->len - reader->pos;

    reader->at = reader->pos;
    if (left > 0) {
        const uint8_t *item = reader->data + reader->pos;
        size_t arg = item[0] & 0x1fu;
        unsigned kind = cri__short_kinds[item[0] >> 5];
        bool has_room = (kind & CRI__COUNTS) == 0 || arg < left;
        if (arg < CRI__SHORT_MAX && kind != CRI__NOT_SHORT && has_room) {
            reader->kind = (enum cri__kind)(kind & ~CRI__COUNTS);
            reader->arg = arg;
            reader->string.data = item + 1;
            reader->string.len = arg;
            bool is_string = reader->kind == CRI__BYTES || reader->kind == CRI__TEXT;
            reader->pos += is_string ? 1 + arg : 1;
            return CRI_OK;
        }
    }
    return cri__read_long(reader, ret_fault);
}

/*
 * Take a string with a head of one byte off the front of *rest: initial is the head
 * of an empty one. False when it is something else, or longer than *rest is.
 */
static inline bool cri__take_short(struct cri_slice *rest, unsigned initial,
                                   struct cri_slice *ret_string)
{
    if (rest->len == 0) {
        return false;
    }
    size_t len = (size_t)rest->data[0] - initial; /* Huge where the head is another. */
    if (len >= CRI__SHORT_MAX || len >= rest->len) {
        return false;
    }
    ret_string->data = rest->data + 1;
    ret_string->len = len;
    rest->data += 1 + len;
    rest->len -= 1 + len;
    return true;
}

/* The same for a text at the front of the reader's rest. */
static inline bool cri__read_short_text(struct cri__reader *reader, struct cri_slice *ret_text)
{
    struct cri_slice rest = {reader->data + reader->pos, reader->len - reader->pos};

    if (!cri__take_short(&rest, CRI__EMPTY_TEXT, ret_text)) {
        return false;
    }
    reader->at = reader->pos;
    reader->pos += 1 + ret_text->len;
    return true;
}
#endif

/**
 * Whether the head of the last item that was read is longer than necessary: an error in
 * deterministic CBOR.
 */
bool cri__head_is_long(const struct cri__reader *reader);

/*
 * Output goes through a struct cri_writer, into the caller's buffer. Bytes that do not fit are
 * only counted, and cri__writer_finish() gives the error.
 */
void cri__put_head(struct cri_writer *writer, enum cri__major major, uint64_t arg);
void cri__put_bool(struct cri_writer *writer, bool value);
void cri__put_null(struct cri_writer *writer);
void cri__put_raw(struct cri_writer *writer, const void *data, size_t len);
void cri__put_text(struct cri_writer *writer, struct cri_slice text);
void cri__put_bytes(struct cri_writer *writer, struct cri_slice bytes);
void cri__put_item(struct cri_writer *writer, const struct cri_item *item);

/** Length in bytes of the shortest head that holds arg. */
size_t cri__head_len(uint64_t arg);

/* CRI_OK, or CRI_ERR_SPACE when it did not fit; *ret_len is the number of bytes needed. */
enum cri_error cri__writer_finish(const struct cri_writer *writer, size_t *ret_len);

/**
 * Encodes the CRI, with the items of prefix before those of the path. prefix may be NULL; it does
 * not count as a path that is set. Bytes that do not fit are only counted by the writer.
 */
void cri__put_cri(struct cri_writer *writer, const struct cri *cri, const struct cri_list *prefix);

/**
 * Number of sections after the first ones that have to be written, given that of a prefix; cannot
 * fail.
 */
unsigned cri__local_count(const struct cri *cri, bool is_discard, size_t prefix_count);

/**
 * Writes the outer array's head and a discard section, or [] for a lone discard 0. Bytes that do
 * not fit are only counted by the writer.
 */
void cri__put_discard(struct cri_writer *writer, const struct cri *cri, unsigned count);

/*
 * Whether a program's options are known here. Their size tells of the header it was compiled
 * with: 0 of the first one, of known bytes. Fields of a later one have to be at their
 * default, 0.
 */
bool cri__options_are_known(const void *options, size_t size, size_t known);

/* cri_is_full() without a call. */
static inline bool cri__is_full(const struct cri *cri)
{
    return cri->scheme != CRI_SCHEME_NOT_SET;
}

/* Store where and why, if the caller wants to know; gives back error. */
#ifdef CRI_FREESTANDING
enum cri_error cri__fail_at(struct cri_fault *ret_fault, enum cri_error error, size_t offset);
#define cri__fail(ret_fault, error, offset, rule)                                                  \
    ((void)(rule), cri__fail_at(ret_fault, error, offset))
#else
static inline enum cri_error cri__fail(struct cri_fault *ret_fault, enum cri_error error,
                                       size_t offset, const char *rule)
{
    if (ret_fault != NULL) {
        ret_fault->offset = offset;
        ret_fault->rule = rule;
    }
    return error;
}
#endif

static inline struct cri_slice cri__slice(const uint8_t *data, size_t len)
{
    struct cri_slice slice = {data, len};
    return slice;
}

/* Whether length and bytes are the same; true for two empty slices, false for other lengths. */
bool cri__slice_is_equal(struct cri_slice a, struct cri_slice b);

/* --- check.c: the rules beyond the CDDL --- */

/* Which part of a CRI a text stands in. */
enum cri__component { CRI__USERINFO, CRI__LABEL, CRI__SEGMENT, CRI__PARAMETER, CRI__FRAGMENT };

/* Classes of octets in URIs, for cri__octet_class(). */
#define CRI__OTHER_UNRESERVED 0x01u
#define CRI__CAPITAL 0x02u
#define CRI__DOT 0x04u
#define CRI__UNRESERVED (CRI__OTHER_UNRESERVED | CRI__CAPITAL | CRI__DOT)
#define CRI__OTHER_SUB_DELIM 0x08u
#define CRI__AMPERSAND 0x10u
#define CRI__SUB_DELIM (CRI__OTHER_SUB_DELIM | CRI__AMPERSAND)
#define CRI__COLON 0x20u
#define CRI__AT 0x40u
#define CRI__SLASH 0x80u /* "/" and "?" */
extern const uint8_t cri__octet_classes[256];

/* Length in bytes of the prefix of text that is in the classes. */
static inline size_t cri__class_span(struct cri_slice text, unsigned classes)
{
    size_t len = 0;
    while (len < text.len && (cri__octet_classes[text.data[len]] & classes) != 0) {
        len++;
    }
    return len;
}

/* Classes of the ASCII octets that may stand raw in the text of a component (section 6.1). */
extern const uint8_t cri__raw_classes_of[5];

static inline unsigned cri__raw_classes(enum cri__component component)
{
    return cri__raw_classes_of[component];
}

#ifdef CRI_FREESTANDING
bool cri__is_unreserved(uint8_t octet);
#else
static inline bool cri__is_unreserved(uint8_t octet)
{
    return (cri__octet_classes[octet] & CRI__UNRESERVED) != 0;
}
#endif

/* Whether an ASCII octet is in them. */
bool cri__stands_for_itself(uint8_t octet, enum cri__component component);

/* Length of the UTF-8 character at the start of data, 0 when there is none. */
size_t cri__utf8_len(const uint8_t *data, size_t len);

/* Offset of the first byte that is not UTF-8; len when all is. */
size_t cri__utf8_span(const uint8_t *data, size_t len);

/*
 * Looks for bytes that a label must not have: CRI_OK, or an error, where *ret_offset counts from
 * the start of the text.
 */

#ifdef CRI_FREESTANDING
/* Every text gets the closer look. */
static inline bool cri__is_plain(struct cri_slice text, bool is_label)
{
    (void)text;
    (void)is_label;
    return false;
}
#else
/* Eight octets at a time: every octet of the result has its high bit set, or all are clear. */
#define CRI__EACH(octet) (0x0101010101010101u * (octet))

/* All octets of a text of 1 to 8 of them in one word, some of them twice. */
static inline uint64_t cri__gather(const uint8_t *data, size_t len)
{
    if (len >= 4) {
        uint32_t front;
        uint32_t back;
        memcpy(&front, data, sizeof front);
        memcpy(&back, data + len - sizeof back, sizeof back);
        return front | (uint64_t)back << 32;
    }
    return data[0] | (uint64_t)data[len / 2] << 8 | (uint64_t)data[len - 1] << 16;
}

/* Not zero when one of the octets is over 0x7f. */
static inline uint64_t cri__find_non_ascii(uint64_t octets)
{
    return octets & CRI__EACH(0x80u);
}

/* Not zero when one is over 0x7f, a dot or a capital letter. */
static inline uint64_t cri__find_not_label(uint64_t octets)
{
    uint64_t against_dot = octets ^ CRI__EACH((unsigned)'.');
    uint64_t dots = (against_dot - CRI__EACH(1u)) & ~against_dot;
    uint64_t from_a = octets + CRI__EACH(0x80u - 'A');
    uint64_t behind_z = octets + CRI__EACH(0x80u - 'Z' - 1u);
    return (octets | dots | (from_a & ~behind_z)) & CRI__EACH(0x80u);
}

/* Whether the text can only be right: false sends it to a closer look. */
static inline bool cri__is_plain(struct cri_slice text, bool is_label)
{
    uint64_t found = 0;

    if (text.len == 0) {
        return true;
    }
    if (text.len <= 8) {
        uint64_t octets = cri__gather(text.data, text.len);
        return (is_label ? cri__find_not_label(octets) : cri__find_non_ascii(octets)) == 0;
    }
    for (size_t at = 0;;) {
        uint64_t octets;
        memcpy(&octets, text.data + at, sizeof octets);
        found |= is_label ? cri__find_not_label(octets) : cri__find_non_ascii(octets);
        if (at + sizeof octets == text.len) {
            return found == 0;
        }
        at += sizeof octets;
        if (text.len - at < sizeof octets) {
            at = text.len - sizeof octets; /* Some once more, rather than one by one. */
        }
    }
}
#endif

static inline bool cri__is_dot_segment(struct cri_slice text)
{
    return (text.len == 1 && text.data[0] == '.') ||
           (text.len == 2 && text.data[0] == '.' && text.data[1] == '.');
}

/* Offset of an octet that must not stand in a byte string of a PET; len when there is none. */

/**
 * Whether the labels would read as an IP address once they are joined (AMB-12), which is an error
 * in a host.
 */
bool cri__labels_spell_address(const struct cri_list *labels);

/**
 * Whether the name fits the grammar of RFC 3986 section 3.1: in its canonical form, which is lower
 * case, or in any case; false for other text.
 */
bool cri__is_scheme_name(struct cri_slice name, bool any_case);

/**
 * The constraints of section 2.3 on a full CRI without a host, whose sections are right by
 * themselves. NULL if all hold, else the broken rule as static text.
 */
const char *cri__check_full_path(const struct cri *cri);

/* --- decode_plain.c --- */

/*
 * Decode [scheme-id, [+label, ?port], [*segment], ?[*parameter]], all of it plain text, with
 * heads of one or two bytes. False for anything else, and then *ret_cri is not touched.
 */
#ifdef CRI_FREESTANDING
static inline bool cri__decode_plain(struct cri_slice rest, struct cri *ret_cri)
{
    (void)rest;
    (void)ret_cri;
    return false;
}
#else
bool cri__decode_plain(struct cri_slice rest, struct cri *ret_cri);
#endif

/* --- decode.c --- */

/*
 * Decode a CRI-local-part, [path, ?query] of section 8.3, at the start of encoded;
 * a missing query is not set. *ret_extent is its length in bytes.
 */
enum cri_error cri__decode_local_part(struct cri_slice encoded, bool strict,
                                      struct cri_list *ret_path, struct cri_list *ret_query,
                                      size_t *ret_extent, struct cri_fault *ret_fault);

/**
 * cri_decode() for the input of a creator: a scheme name with capital letters, and labels with
 * capital letters and dots, are no error, and cri_normalize() corrects them. @p ret_cri borrows
 * from @p encoded.
 */
enum cri_error cri__decode_raw(struct cri_slice encoded, struct cri *ret_cri,
                               struct cri_fault *ret_fault);

/* --- equal.c --- */

/**
 * Whether two items have the same text, in whatever encoding; false for different texts. Allocates
 * nothing.
 */
bool cri__item_is_equal(const struct cri_item *a, const struct cri_item *b);

/**
 * Whether the authority sections are the same except for userinfo and labels; false for different
 * kinds of authority.
 */
bool cri__authority_frame_is_equal(const struct cri *a, const struct cri *b);

/** Whether the authority sections are the same; false for different kinds of authority. */
bool cri__authority_is_equal(const struct cri *a, const struct cri *b);

/* Whether both have the same items, in whatever encoding; false where only one is set. */
bool cri__list_is_equal(const struct cri_list *a, const struct cri_list *b);

/* --- nfc.c --- */

/* Whether UTF-8 text is in Normalization Form C (false also past the limits of nfc.c). */
#ifdef CRI_FREESTANDING
static inline bool cri__is_nfc(struct cri_slice text)
{
    (void)text; /* Without the tables of Unicode this is unknown. */
    return true;
}
#else
bool cri__is_nfc(struct cri_slice text);
#endif

/* --- cri.c: reading items that were checked before --- */

/*
 * All zero. It stands in a file of its own to be copied: where it sees the zeros gcc
 * writes "rep stos", whose start alone takes as long as reading two labels.
 */
extern const struct cri cri__zeros;

static inline void cri__unset(struct cri *cri)
{
#ifdef CRI_FREESTANDING
    memset(cri, 0, sizeof *cri);
#else
    *cri = cri__zeros;
#endif
}

/* cri__next_text() where the head has more than one byte. */
bool cri__next_long_text(struct cri_iter *iter, struct cri_slice *ret_text);

/* The text of the next item, where none is a text-pet-sequence; false at the end. */
static inline bool cri__next_text(struct cri_iter *iter, struct cri_slice *ret_text)
{
    return cri__take_short(&iter->rest, CRI__EMPTY_TEXT, ret_text) ||
           (iter->rest.len > 0 && cri__next_long_text(iter, ret_text));
}

/* Length of the head at data and its argument; 0 when it does not fit into len bytes. */
size_t cri__head(const uint8_t *data, size_t len, uint64_t *ret_arg);

#endif
