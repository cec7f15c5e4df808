/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Normalization Form C, with utf8proc's tables but neither its heap nor its sort.
 *
 * How it works: text is cut before every character that cannot combine with what
 * is in front of it; each cluster (a base and its marks) is decomposed, put into
 * canonical order and composed in a buffer of fixed size. A cluster of more than
 * CLUSTER_MAX characters is refused: the Stream-Safe Text Format of UAX #15 stops
 * at 30 marks, and sorting a longer row would not be linear.
 */
#include "nfc.h"

#include <utf8proc.h>

#define CLUSTER_MAX 32u
/* A canonical decomposition has at most four characters (UAX #15). */
#define DECOMPOSED_MAX (4u * CLUSTER_MAX)

/* No character below this is changed by NFC or composes with the one in front. */
#define FIRST_MARK 0x300

static int32_t decode_character(struct cri_slice text, size_t *ret_len)
{
    utf8proc_int32_t character = -1;
    utf8proc_ssize_t len = utf8proc_iterate(text.data, (utf8proc_ssize_t)text.len, &character);
    *ret_len = len > 0 ? (size_t)len : 1;
    return len > 0 ? character : -1;
}

/* Marks of all three categories, and the vowels and finals of Hangul. */
static bool combines_backwards(int32_t character)
{
    if (character < FIRST_MARK) {
        return false;
    }
    if (character >= 0x1160 && character <= 0x11ff) {
        return true;
    }
    utf8proc_category_t category = utf8proc_category(character);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
           category == UTF8PROC_CATEGORY_ME;
}

/* Canonical order: stable, by combining class, starters keep their place. */
static void order(utf8proc_int32_t *characters, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        utf8proc_int32_t moving = characters[i];
        utf8proc_propval_t class = utf8proc_get_property(moving)->combining_class;
        size_t to = i;
        while (class != 0 && to > 0 &&
               utf8proc_get_property(characters[to - 1])->combining_class > class) {
            characters[to] = characters[to - 1];
            to--;
        }
        characters[to] = moving;
    }
}

/* Compose the cluster at the start of text; false when it is over the limits. */
static bool next_cluster(struct cri_slice text, utf8proc_int32_t characters[DECOMPOSED_MAX],
                         size_t *ret_count, size_t *ret_len)
{
    size_t at = 0;
    size_t source_count = 0;
    size_t count = 0;

    while (at < text.len) {
        size_t len;
        int32_t character = decode_character(cri__slice(text.data + at, text.len - at), &len);
        if (source_count > 0 && !combines_backwards(character)) {
            break;
        }
        if (character < 0 || source_count == CLUSTER_MAX) {
            return false;
        }
        int boundary_class = 0;
        utf8proc_ssize_t added = utf8proc_decompose_char(character, characters + count,
                                                         (utf8proc_ssize_t)(DECOMPOSED_MAX - count),
                                                         UTF8PROC_DECOMPOSE, &boundary_class);
        if (added < 0 || (size_t)added > DECOMPOSED_MAX - count) {
            return false;
        }
        count += (size_t)added;
        source_count++;
        at += len;
    }
    order(characters, count);
    utf8proc_ssize_t composed = utf8proc_normalize_utf32(characters, (utf8proc_ssize_t)count,
                                                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (composed < 0) {
        return false;
    }
    *ret_count = (size_t)composed;
    *ret_len = at;
    return true;
}

/* Text that is its own NFC: all below U+0300 but the last character, which a mark may follow. */
static size_t plain_span(struct cri_slice text)
{
    size_t at = 0;
    size_t last = 0;

    while (at < text.len && text.data[at] < 0xcc) { /* U+0300 is CC 80 */
        last = at;
        at += text.data[at] < 0x80 ? 1 : 2;
    }
    return at >= text.len ? text.len : last;
}

/*
 * Capital letters of ASCII that composing has left become small ones, and may then compose
 * with their marks.
 */
static bool lower_cluster(utf8proc_int32_t *characters, size_t *count)
{
    bool is_changed = false;

    for (size_t i = 0; i < *count; i++) {
        if (characters[i] >= 'A' && characters[i] <= 'Z') {
            characters[i] += 'a' - 'A';
            is_changed = true;
        }
    }
    if (!is_changed) {
        return true;
    }
    utf8proc_ssize_t composed = utf8proc_normalize_utf32(characters, (utf8proc_ssize_t)*count,
                                                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    *count = composed < 0 ? 0 : (size_t)composed;
    return composed >= 0;
}

bool cri__nfc_next(struct cri_slice *rest, bool to_lower, uint8_t *piece,
                   struct cri_slice *ret_piece)
{
    utf8proc_int32_t characters[DECOMPOSED_MAX];
    size_t count;
    size_t len = plain_span(*rest);

    if (len > 0) {
        *ret_piece = cri__slice(rest->data, len);
    } else {
        if (!next_cluster(*rest, characters, &count, &len) ||
            (to_lower && !lower_cluster(characters, &count))) {
            return false;
        }
        size_t out = 0;
        for (size_t i = 0; i < count; i++) {
            out += (size_t)utf8proc_encode_char(characters[i], piece + out);
        }
        *ret_piece = cri__slice(piece, out);
    }
    rest->data += len;
    rest->len -= len;
    return true;
}

bool cri__is_nfc(struct cri_slice text)
{
    uint8_t piece[CRI__NFC_PIECE_MAX];
    struct cri_slice composed;

    while (text.len > 0) {
        struct cri_slice before = text;
        if (!cri__nfc_next(&text, false, piece, &composed)) {
            return false;
        }
        before.len -= text.len;
        if (!cri__slice_is_equal(before, composed)) {
            return false;
        }
    }
    return true;
}
