/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of libcri share with each other; no part of the interface.
 * Everything here begins with cri__ and stays hidden in the shared library.
 */
#ifndef CRI_INTERNAL_H
#define CRI_INTERNAL_H

#include <cri/cri.h>

/* Major types of CBOR, as cri__put_head() takes them. */
enum cri__major {
    CRI__MAJOR_UINT = 0,
    CRI__MAJOR_NINT = 1,
    CRI__MAJOR_BYTES = 2,
    CRI__MAJOR_TEXT = 3,
    CRI__MAJOR_ARRAY = 4,
    CRI__MAJOR_TAG = 6
};

/* What a CBOR item is, as cri__read() tells. */
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
    CRI__FLOAT,      /* number */
    CRI__END,        /* never read: stands for the end of an array */
    CRI__TAG,        /* arg: its number; from here on nothing has a place in a CRI */
    CRI__SIMPLE,     /* arg: its number; undefined is 23 */
    CRI__INDEFINITE, /* head of a string, an array or a map of indefinite length */
    CRI__BREAK       /* */
};

/* A cursor over CBOR and the item it read last. */
struct cri__reader {
    const uint8_t *data;
    size_t len;
    size_t pos;              /* Of the next item. */
    size_t at;               /* Of the item read last. */
    enum cri__kind kind;     /* And what it was. */
    uint64_t arg;            /* See enum cri__kind. */
    struct cri_slice string; /* Borrowed from the data. */
    double number;           /* Of a CRI__FLOAT. */
};

/* Read the head of the next item, and all of it unless it contains others. */
enum cri_error cri__read(struct cri__reader *reader, struct cri_fault *ret_fault);

/* Whether the head of the item read last is longer than it needs to be. */
bool cri__head_is_long(const struct cri__reader *reader);

/* Output into a caller's buffer; what does not fit is counted all the same. */
struct cri__writer {
    uint8_t *buffer;
    size_t capacity;
    size_t len; /* Needed so far. */
};

void cri__put_head(struct cri__writer *writer, enum cri__major major, uint64_t arg);
void cri__put_bool(struct cri__writer *writer, bool value);
void cri__put_null(struct cri__writer *writer);
void cri__put_raw(struct cri__writer *writer, const void *data, size_t len);
void cri__put_text(struct cri__writer *writer, struct cri_slice text);
void cri__put_bytes(struct cri__writer *writer, struct cri_slice bytes);
void cri__put_item(struct cri__writer *writer, const struct cri_item *item);
/* The items alone, without the array's head, each with the shortest head. */
void cri__put_items(struct cri__writer *writer, const struct cri_list *list);

/* Length of the shortest head that holds arg. */
size_t cri__head_len(uint64_t arg);

/* CRI_OK, or CRI_ERR_SPACE when it did not fit; *ret_len is what was needed. */
enum cri_error cri__writer_finish(const struct cri__writer *writer, size_t *ret_len);

/*
 * Encode, with the items of prefix before those of the path. prefix may
 * be NULL; it does not count as a path that is set.
 */
void cri__put_cri(struct cri__writer *writer, const struct cri *cri, const struct cri_list *prefix);

/* How many sections behind the first ones have to be written, given that of a prefix. */
unsigned cri__local_count(const struct cri *cri, bool is_discard, size_t prefix_count);

/* The outer array's head and a discard section, or [] for a lone discard 0. */
void cri__put_discard(struct cri__writer *writer, const struct cri *cri, unsigned count);

/* Store where and why, if the caller wants to know; gives back error. */
static inline enum cri_error cri__fail(struct cri_fault *ret_fault, enum cri_error error,
                                       size_t offset, const char *rule)
{
    if (ret_fault != NULL) {
        ret_fault->offset = offset;
        ret_fault->rule = rule;
    }
    return error;
}

static inline struct cri_slice cri__slice(const uint8_t *data, size_t len)
{
    struct cri_slice slice = {data, len};
    return slice;
}

bool cri__slice_is_equal(struct cri_slice a, struct cri_slice b);

/* --- check.c: the rules beyond the CDDL --- */

/* Which part of a CRI a text stands in. */
enum cri__component { CRI__USERINFO, CRI__LABEL, CRI__SEGMENT, CRI__PARAMETER, CRI__FRAGMENT };

/* Classes of octets in URIs, for cri__octet_class(). */
#define CRI__UNRESERVED 0x01u
#define CRI__SUB_DELIM 0x02u
#define CRI__COLON 0x04u
#define CRI__AT 0x08u
#define CRI__SLASH 0x10u /* "/" and "?" */
#define CRI__AMPERSAND 0x20u
#define CRI__HEX 0x40u
extern const uint8_t cri__octet_classes[256];

static inline bool cri__is_unreserved(uint8_t octet)
{
    return (cri__octet_classes[octet] & CRI__UNRESERVED) != 0;
}

/* Length of the UTF-8 character at the start of data, 0 when there is none. */
size_t cri__utf8_len(const uint8_t *data, size_t len);

/* Offset of the first byte that is not UTF-8; len when all is. */
size_t cri__utf8_span(const uint8_t *data, size_t len);

/*
 * Check a text of a component that is UTF-8 already: CRI_OK, or an error, where
 * *ret_offset counts from the start of the text.
 */
enum cri_error cri__check_label(struct cri_slice text, size_t *ret_offset, const char **ret_rule);

static inline bool cri__is_dot_segment(struct cri_slice text)
{
    return (text.len == 1 && text.data[0] == '.') ||
           (text.len == 2 && text.data[0] == '.' && text.data[1] == '.');
}

/* Offset of an octet that must not stand in a byte string of a PET; len when there is none. */
size_t cri__pet_minimal_span(struct cri_slice bytes);

/* Whether the labels would read as an IP address once they are joined (AMB-12). */
bool cri__labels_spell_address(const struct cri_list *labels);

/* The grammar of RFC 3986 section 3.1, in its canonical form or in any case. */
bool cri__is_scheme_name(struct cri_slice name);
bool cri__is_scheme_name_any_case(struct cri_slice name);

/*
 * The constraints of section 2.3 on a full CRI without a host, whose sections are
 * right by themselves. Gives NULL, or the rule that is broken.
 */
const char *cri__check_full_path(const struct cri *cri);

/* --- decode.c --- */

/*
 * Decode a CRI-local-part, [path, ?query] of section 8.3, at the start of encoded;
 * a missing query is not set. *ret_extent is its length in bytes.
 */
enum cri_error cri__decode_local_part(struct cri_slice encoded, bool strict,
                                      struct cri_list *ret_path, struct cri_list *ret_query,
                                      size_t *ret_extent, struct cri_fault *ret_fault);

/*
 * cri_decode(), for the input of a creator: a scheme name with capital letters, and
 * labels with capital letters and dots, pass, for cri_normalize() to mend them.
 */
enum cri_error cri__decode_raw(struct cri_slice encoded, struct cri *ret_cri,
                               struct cri_fault *ret_fault);

/* Whether two items have the same text, however they were written. */
bool cri__item_is_equal(const struct cri_item *a, const struct cri_item *b);

/* Whether everything of the authority section is the same. */
bool cri__authority_is_equal(const struct cri *a, const struct cri *b);

bool cri__list_is_equal(const struct cri_list *a, const struct cri_list *b);

/* The list's first count items, or what is behind them; count is at most the list's. */
struct cri_list cri__list_front(const struct cri_list *list, size_t count);
struct cri_list cri__list_behind(const struct cri_list *list, size_t count);

/* --- nfc.c --- */

/* Whether UTF-8 text is in Normalization Form C (false also past the limits of nfc.c). */
bool cri__is_nfc(struct cri_slice text);

/* --- cri.c: reading items that were checked before --- */

/* Length of the head at data and its argument; 0 when it does not fit into len bytes. */
size_t cri__head(const uint8_t *data, size_t len, uint64_t *ret_arg);

#endif
