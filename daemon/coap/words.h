/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options and payloads as words of a line, which people read and edit: those of recordings
 * (docs/RECORDINGS.md), in the vocabulary of scenarios. criproxyctl writes them, conf/recording.c
 * reads them. A word ends at a blank outside of quotation marks; '#' begins a comment where a word
 * would begin.
 */
#ifndef CRIPROXY_WORDS_H
#define CRIPROXY_WORDS_H

#include "coap/message.h"

#define WORDS_VALUE_MAX 1034u /* bytes of an option's value: the longest that are defined */

/* An option out of a word. */
struct option_word {
    uint16_t number;
    bool is_any; /* "accept=*": whatever the value is */
    size_t len;
    uint8_t value[WORDS_VALUE_MAX];
};

/**
 * The next word of @p line, borrowed, which gets shorter by it.
 *
 * @return false at the end. A text without its last quotation mark is a word to the end; the
 *         functions below refuse it.
 */
bool word_next(struct bytes *line, struct bytes *ret_word);

/** Whether @p word is @p text. */
bool word_is(struct bytes word, const char *text);

/**
 * An option: "max-age=60", "opt65=01", "location-path=\"a b\"", "if-none-match". Its value is what
 * the option's row allows.
 *
 * @return NULL, or what is wrong, static; @p ret_option may have changed then.
 */
const char *option_word_parse(struct bytes word, struct option_word *ret_option);

/**
 * @p option as such a word, NUL-terminated.
 *
 * @return its length, or 0 where @p capacity is not enough: 4 bytes for each of the value, and 32.
 */
size_t option_word_format(const struct option *option, char *text, size_t capacity);

/** Whether @p word is a piece of a payload: a text in quotation marks, or hex: and digits. */
bool payload_word_is(struct bytes word);

/**
 * The bytes of such a piece: never more than the word has.
 *
 * @return NULL, or what is wrong, static.
 */
const char *payload_word_parse(struct bytes word, uint8_t *bytes, size_t capacity, size_t *ret_len);

/**
 * @p payload as one such word, NUL-terminated: text where all of it is, else hex.
 *
 * @return its length, or 0 where @p capacity is not enough: 2 bytes for each of the payload, and 8.
 */
size_t payload_word_format(struct bytes payload, char *text, size_t capacity);

/** The value of a hexadecimal digit, or -1. */
int hex_digit(uint8_t c);

#endif
