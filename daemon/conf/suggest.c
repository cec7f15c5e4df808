/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The distance is that of optimal string alignment: letters changed, added, left out, and
 * pairs of neighbours swapped. Three rows of the table are enough.
 */
#include "conf/suggest.h"

#include <stddef.h>
#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned distance_between(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][SUGGEST_WORD_MAX + 1];

    for (size_t j = 0; j <= b_len; j++) {
        rows[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        const unsigned *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3];
        unsigned *row = rows[i % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned cost = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = least(above[j - 1] + cost, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], before[j - 2] + 1);
            }
        }
    }
    return rows[a_len % 3][b_len];
}

void suggest_init(struct suggestion *suggestion, const char *typed)
{
    size_t len = strlen(typed);

    *suggestion =
        (struct suggestion){.typed = typed, .distance = (len < 6 ? 1u : (unsigned)(len / 3)) + 1};
}

void suggest_consider(struct suggestion *suggestion, const char *word)
{
    size_t typed_len = strlen(suggestion->typed), len = strlen(word);

    if (typed_len > SUGGEST_WORD_MAX || len > SUGGEST_WORD_MAX) {
        return;
    }
    unsigned distance = distance_between(suggestion->typed, typed_len, word, len);
    if (distance < suggestion->distance) {
        suggestion->distance = distance;
        suggestion->word = word;
    }
}
