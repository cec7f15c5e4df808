/* SPDX-License-Identifier: BSD-2-Clause */
/* Normalization Form C; see nfc.c. */
#ifndef CRI_NFC_H
#define CRI_NFC_H

#include "internal.h"

/* Room for one composed cluster: 128 characters of four bytes. */
#define CRI__NFC_PIECE_MAX 512u

/*
 * Take the next stretch off *rest, which is valid UTF-8 and not empty; *ret_piece
 * is its NFC, in *rest's bytes or in piece (CRI__NFC_PIECE_MAX bytes). False when
 * a character has too many marks. With to_lower, a capital letter of ASCII that is left
 * once it was composed with its marks becomes a small one, and composes as such (t and
 * U+0308 do, T does not); so E with U+0301 and U+00C9 give the same. Letters in the rest's
 * own bytes are the caller's.
 */
bool cri__nfc_next(struct cri_slice *rest, bool to_lower, uint8_t *piece,
                   struct cri_slice *ret_piece);

#endif
