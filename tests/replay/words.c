/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/words.h"

#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS 8
#define TEXT_MAX (3u * 66000u)

struct out {
    char *text;
    size_t len;
};

static void add_byte(struct out *out, unsigned byte)
{
    static const char digits[] = "0123456789abcdef";
    assert_true(out->len + 3 < TEXT_MAX);
    out->text[out->len++] = digits[byte >> 4 & 15];
    out->text[out->len++] = digits[byte & 15];
    out->text[out->len] = '\0';
}

static void add_text(struct out *out, const char *text)
{
    size_t len = strlen(text);
    assert_true(out->len + len + 1 < TEXT_MAX);
    memcpy(out->text + out->len, text, len + 1);
    out->len += len;
}

/* RFC 7252 section 3.1, Figure 8. */
static unsigned nibble_of(unsigned value)
{
    return value < 13 ? value : value < 269 ? 13 : 14;
}

static void add_extension(struct out *out, unsigned value)
{
    if (value >= 269) {
        add_byte(out, (value - 269) >> 8);
        add_byte(out, value - 269);
    } else if (value >= 13) {
        add_byte(out, value - 13);
    }
}

static void add_head(struct out *out, unsigned delta, unsigned len)
{
    add_byte(out, nibble_of(delta) << 4 | nibble_of(len));
    add_extension(out, delta);
    add_extension(out, len);
}

/* The value behind the sign @p kind. */
static void add_value(struct out *out, char kind, const char *value, size_t len)
{
    if (kind == '#') {
        for (unsigned long left = strtoul(value, NULL, 10); left > 0; left--) {
            add_byte(out, 'a');
        }
    } else if (kind == '=') {
        for (size_t i = 0; i < len; i++) {
            add_byte(out, (unsigned char)value[i]);
        }
    } else {
        assert_true(out->len + len + 1 < TEXT_MAX);
        memcpy(out->text + out->len, value, len);
        out->len += len;
        out->text[out->len] = '\0';
    }
}

static unsigned value_len(char kind, const char *value, size_t len)
{
    return kind == '#' ? (unsigned)strtoul(value, NULL, 10)
                       : (unsigned)(kind == '=' ? len : len / 2);
}

/* One word of the body, @p len long. */
static void add_word(struct out *out, const char *word, size_t len, unsigned *number)
{
    char *end;
    if (len >= 3 && memcmp(word, "...", 3) == 0) {
        add_text(out, "...");
        return;
    }
    if (word[0] == '/') {
        bool is_repeated = len > 1 && word[1] == '#';
        add_byte(out, 0xff);
        add_value(out, is_repeated ? '#' : ':', word + 1 + is_repeated, len - 1 - is_repeated);
        return;
    }
    unsigned next = (unsigned)strtoul(word, &end, 10);
    if (end == word || next < *number || strchr("=:#", *end) == NULL) {
        fail_msg("not an option, or not in order: \"%.*s\"", (int)len, word);
        return;
    }
    const char *value = end + 1;
    size_t left = len - (size_t)(value - word);
    add_head(out, next - *number, value_len(*end, value, left));
    add_value(out, *end, value, left);
    *number = next;
}

const char *words(const char *head, const char *body)
{
    static char texts[TEXTS][TEXT_MAX];
    static unsigned turn;
    struct out out = {.text = texts[turn++ % TEXTS]};
    unsigned number = 0;
    add_text(&out, head);
    add_text(&out, " ");
    for (const char *at = body + strspn(body, " "); *at != '\0';) {
        size_t len = strcspn(at, " ");
        add_word(&out, at, len, &number);
        at += len;
        at += strspn(at, " ");
    }
    return out.text;
}
