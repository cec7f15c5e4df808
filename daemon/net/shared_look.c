/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/shared_look.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define GENERATION_TTL_S "90000" /* longer than any answer is fresh: 25 h */
#define NAME_DIGITS ((size_t)2 * SHARED_NAME_LEN)
#define TARGET_DIGITS ((size_t)2 * SHARED_TARGET_LEN)

char *look_put_digits(char *at, const uint8_t *bytes, unsigned len)
{
    /* Of both halves of a byte at once: a digit is 0x30 more, a letter 0x27 more than that. */
    for (unsigned i = 0; i < len; i++, at += 2) {
        uint32_t halves = (uint32_t)bytes[i] >> 4 | (uint32_t)(bytes[i] & 15) << 8;
        uint32_t letters = (halves + 0x0606) >> 4 & 0x0101;
        uint32_t digits = halves + 0x3030 + letters * 0x27;
        at[0] = (char)digits;
        at[1] = (char)(digits >> 8);
    }
    return at;
}

static bool add_command(struct look_text *look, int count, const char **words, const size_t *lens)
{
    char *text = NULL;
    long long len = redisFormatCommandArgv(&text, count, words, lens);
    bool is_good = len > 0 && (size_t)len <= sizeof look->text - look->len;

    if (is_good) {
        memcpy(look->text + look->len, text, (size_t)len);
        look->len += (size_t)len;
    }
    if (len > 0) {
        redisFreeCommand(text);
    }
    return is_good;
}

/* A key of that kind, with room for a name of so many digits. @return its length */
static size_t key_with_room(const char *begin, size_t begin_len, const char *kind, size_t digits,
                            char ret_key[LOOK_KEY_MAX])
{
    size_t len = begin_len + strlen(kind);

    memcpy(ret_key, begin, begin_len);
    memcpy(ret_key + begin_len, kind, strlen(kind));
    if (digits == 0) {
        return len;
    }
    ret_key[len] = ':';
    memset(ret_key + len + 1, 0, digits);
    return len + 1 + digits;
}

/* The next room of so many bytes: zero ones, which are nowhere else in the commands. */
static size_t find_room(const struct look_text *look, size_t from, size_t len)
{
    static const char room[NAME_DIGITS];
    const char *at = memmem(look->text + from, look->len - from, room, len);

    return at != NULL ? (size_t)(at - look->text) : 0;
}

/*
 * SET comes first: in time, a generation that a change has deleted comes back as another one. PTTL
 * comes before MGET (docs/REPLICAS.md). No transaction: a server without memory takes none.
 */
bool look_prepare(struct look_text *look, const char *begin, size_t begin_len)
{
    static const char fresh[LOOK_FRESH_LEN];
    char value[LOOK_KEY_MAX], target[LOOK_KEY_MAX], all[LOOK_KEY_MAX];
    size_t value_len = key_with_room(begin, begin_len, LOOK_VALUE_KIND, NAME_DIGITS, value);
    size_t target_len = key_with_room(begin, begin_len, "g", TARGET_DIGITS, target);
    size_t all_len = key_with_room(begin, begin_len, "e", 0, all);
    const char *make[] = {"SET", target, fresh, "NX", "EX", GENERATION_TTL_S};
    const size_t make_lens[] = {3, target_len, sizeof fresh, 2, 2, sizeof GENERATION_TTL_S - 1};
    const char *left[] = {"PTTL", value};
    const size_t left_lens[] = {4, value_len};
    const char *read[] = {"MGET", value, target, all};
    const size_t read_lens[] = {4, value_len, target_len, all_len};

    look->len = 0;
    if (!add_command(look, 6, make, make_lens)) {
        return false;
    }
    look->set_len = look->len;
    if (!add_command(look, 2, left, left_lens) || !add_command(look, 4, read, read_lens)) {
        return false;
    }
    look->made = find_room(look, 0, TARGET_DIGITS);
    look->fresh = find_room(look, look->made + TARGET_DIGITS, sizeof fresh);
    look->left = find_room(look, look->fresh + sizeof fresh, NAME_DIGITS);
    look->value = find_room(look, look->left + NAME_DIGITS, NAME_DIGITS);
    look->target = find_room(look, look->value + NAME_DIGITS, TARGET_DIGITS);
    return true;
}

struct bytes look_write(struct look_text *look, const uint8_t entry[SHARED_NAME_LEN],
                        const uint8_t target[SHARED_TARGET_LEN], const uint8_t *fresh)
{
    size_t from = fresh == NULL ? look->set_len : 0;

    (void)look_put_digits(look->text + look->target, target, SHARED_TARGET_LEN);
    (void)look_put_digits(look->text + look->left, entry, SHARED_NAME_LEN);
    memcpy(look->text + look->value, look->text + look->left, NAME_DIGITS);
    if (fresh != NULL) {
        memcpy(look->text + look->made, look->text + look->target, TARGET_DIGITS);
        memcpy(look->text + look->fresh, fresh, LOOK_FRESH_LEN);
    }
    return (struct bytes){(const uint8_t *)look->text + from, look->len - from};
}
