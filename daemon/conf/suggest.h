/* SPDX-License-Identifier: BSD-2-Clause */
/* The word that a mistyped one was probably meant to be. */
#ifndef CRIPROXY_CONF_SUGGEST_H
#define CRIPROXY_CONF_SUGGEST_H

/* Longer words are not compared. */
#define SUGGEST_WORD_MAX 64

/* The nearest of the words that have been considered. */
struct suggestion {
    const char *typed;
    const char *word; /* NULL: none is near enough */
    unsigned distance;
};

/** @p typed is borrowed. */
void suggest_init(struct suggestion *suggestion, const char *typed);

/**
 * Consider @p word, which is borrowed as long as the suggestion is used. Near enough is one
 * letter in three typed wrong, left out, added or swapped with the next, and one in any case;
 * of words equally near the first is kept.
 */
void suggest_consider(struct suggestion *suggestion, const char *word);

#endif
