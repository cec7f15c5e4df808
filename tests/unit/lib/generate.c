/* SPDX-License-Identifier: BSD-2-Clause */
#include "generate.h"

#include <string.h>

unsigned chance_below(struct chance *chance, unsigned limit)
{
    /* splitmix64, as published by Steele, Lea and Flood. */
    chance->state += 0x9e3779b97f4a7c15u;
    uint64_t z = chance->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ (z >> 31)) % limit);
}

struct out {
    uint8_t *data;
    size_t len;
    size_t capacity;
};

static void put(struct out *out, const void *data, size_t len)
{
    if (len <= out->capacity - out->len) {
        memcpy(out->data + out->len, data, len);
        out->len += len;
    }
}

static void put_byte(struct out *out, unsigned byte)
{
    uint8_t octet = (uint8_t)byte;
    put(out, &octet, 1);
}

/* A head of major type, now and then longer than it needs to be. */
static void put_head(struct chance *chance, struct out *out, unsigned major, unsigned arg)
{
    unsigned initial = major << 5;
    bool is_long = chance_below(chance, 32) == 0;

    if (arg < 24 && !is_long) {
        put_byte(out, initial | arg);
    } else if (arg < 256) {
        put_byte(out, initial | 24);
        put_byte(out, arg);
    } else {
        put_byte(out, initial | 25);
        put_byte(out, arg >> 8);
        put_byte(out, arg & 0xff);
    }
}

static const char *const texts[] = {
    "",
    "a",
    "b",
    "a",
    "b",
    ".a",
    "...",
    "a/b",
    "a&b",
    "a:b",
    "a@b",
    "%",
    "#",
    "?",
    "!",
    "127",
    "0",
    "\xc3\xa9",
    "e\xcc\x81",
    "\xe2\x84\xaa",
    "t\xcc\x88",
    "\xf0\x9f\x98\x80",
    "a b",
    "[::1]",
    "segment-that-is-longer-than-23-bytes",
};

/* Labels with neither dots nor capitals. */
static const char *const labels[] = {"a",   "b", "a",        "example", "",
                                     "127", "0", "\xc3\xa9", "a!b",     "x:y"};

static const char *const rare[] = {".", "..", "A", "a.b", "\xff", "\xc3", "\xcc\x81"};

#define PICK(chance, list) ((list)[chance_below(chance, sizeof(list) / sizeof((list)[0]))])

static void put_string(struct chance *chance, struct out *out, unsigned major, const char *text)
{
    put_head(chance, out, major, (unsigned)strlen(text));
    put(out, text, strlen(text));
}

static void put_text(struct chance *chance, struct out *out, bool is_label)
{
    const char *text = is_label ? PICK(chance, labels) : PICK(chance, texts);
    if (chance_below(chance, 64) == 0) {
        text = PICK(chance, rare);
    }
    put_string(chance, out, 3, text);
}

/* Text before, bytes, text behind; each text may be missing. */
static void put_pet(struct chance *chance, struct out *out)
{
    static const char *const bytes[] = {"\xff", "!", ":", "\xc3", "/", "#", "a"};
    bool has_front = chance_below(chance, 2) == 0;
    bool has_back = chance_below(chance, 2) == 0;

    put_head(chance, out, 4, 1u + (has_front ? 1 : 0) + (has_back ? 1 : 0));
    if (has_front) {
        put_string(chance, out, 3, "a");
    }
    put_string(chance, out, 2, PICK(chance, bytes));
    if (has_back) {
        put_string(chance, out, 3, "b");
    }
}

static void put_item(struct chance *chance, struct out *out, bool is_label)
{
    if (chance_below(chance, 8) == 0) {
        put_pet(chance, out);
    } else {
        put_text(chance, out, is_label);
    }
}

static void put_list(struct chance *chance, struct out *out, bool may_be_null)
{
    if (may_be_null && chance_below(chance, 3) == 0) {
        put_byte(out, 0xf6);
        return;
    }
    unsigned count = chance_below(chance, 4);
    put_head(chance, out, 4, count);
    for (unsigned i = 0; i < count; i++) {
        put_item(chance, out, false);
    }
}

static void put_authority(struct chance *chance, struct out *out)
{
    static const uint8_t ip[16] = {0xfe, 0x80, [15] = 1};
    bool has_userinfo = chance_below(chance, 6) == 0;
    bool has_port = chance_below(chance, 3) == 0;
    bool has_zone = false;
    unsigned form = chance_below(chance, 4);
    unsigned count = form == 0 ? 1 : 1 + chance_below(chance, 4);

    if (form == 0) {
        has_zone = chance_below(chance, 4) == 0;
        count += has_zone ? 1 : 0;
    }
    put_head(chance, out, 4, count + (has_userinfo ? 2 : 0) + (has_port ? 1 : 0));
    if (has_userinfo) {
        put_byte(out, 0xf4);
        put_item(chance, out, false);
    }
    if (form == 0) {
        unsigned len = chance_below(chance, 2) == 0 ? 4 : 16;
        put_head(chance, out, 2, len);
        put(out, ip, len);
        if (has_zone) {
            put_string(chance, out, 3, "eth0");
        }
    } else {
        for (unsigned i = 0; i < count; i++) {
            put_item(chance, out, true);
        }
    }
    if (has_port) {
        static const unsigned ports[] = {5683, 5684, 80, 0, 65535};
        put_head(chance, out, 0, PICK(chance, ports));
    }
}

static void put_scheme(struct chance *chance, struct out *out)
{
    static const char *const names[] = {"coap", "a", "http", "x+y", "a"};
    static const unsigned numbers[] = {0, 1, 2, 4, 6, 24, 999, 0, 0, 0};

    if (chance_below(chance, 4) == 0) {
        put_string(chance, out, 3, PICK(chance, names));
    } else {
        put_head(chance, out, 1, PICK(chance, numbers));
    }
}

size_t generate_cri(struct chance *chance, bool is_full, uint8_t *buffer, size_t capacity)
{
    struct out out = {buffer, 0, capacity};
    bool is_discard = !is_full && chance_below(chance, 4) != 0;
    unsigned count = is_discard ? 1 + chance_below(chance, 4) : 2 + chance_below(chance, 4);

    put_head(chance, &out, 4, count);
    if (is_discard) {
        if (chance_below(chance, 4) == 0) {
            put_byte(&out, 0xf5);
        } else {
            put_head(chance, &out, 0, chance_below(chance, 5));
        }
        count -= 1;
    } else {
        if (is_full) {
            put_scheme(chance, &out);
        } else {
            put_byte(&out, 0xf6);
        }
        unsigned form = chance_below(chance, 8);
        if (form == 0) {
            put_byte(&out, 0xf5);
        } else if (form == 1) {
            put_byte(&out, 0xf6);
        } else {
            put_authority(chance, &out);
        }
        count -= 2;
    }
    for (unsigned i = 0; i < count && i < 2; i++) {
        put_list(chance, &out, i + 1 < count);
    }
    if (count > 2) {
        put_item(chance, &out, false);
    }
    return out.len;
}

static void put_pieces(struct chance *chance, struct out *out, const char *const *pieces,
                       unsigned piece_count, unsigned count_limit)
{
    unsigned count = chance_below(chance, count_limit);
    for (unsigned i = 0; i < count; i++) {
        const char *piece = pieces[chance_below(chance, piece_count)];
        put(out, piece, strlen(piece));
    }
}

size_t generate_uri(struct chance *chance, bool is_full, char *buffer, size_t capacity)
{
    static const char *const schemes[] = {"coap:", "COAPS:", "a:", "http:", "x+y:"};
    static const char *const hosts[] = {"a",   "B",   "example", ".",   "%2e", "%41", "%c3%a9",
                                        "%ff", "%21", "!",       "127", "%3a", "0",   "-"};
    static const char *const paths[] = {"a",  "b",    "/",   "/",      "/",   ".",
                                        "..", "/../", "/./", "%2e",    "%2F", "%3b",
                                        ";",  ":",    "%20", "%c3%a9", "%ff", "e%cc%81"};
    static const char *const queries[] = {"a", "&", "=", "%26", "%2f", "?", "%23", "b", "%ff"};
    struct out out = {(uint8_t *)buffer, 0, capacity};

    if (is_full || chance_below(chance, 4) == 0) {
        const char *scheme = PICK(chance, schemes);
        put(&out, scheme, strlen(scheme));
    }
    if (is_full || chance_below(chance, 4) == 0) {
        static const char *const ports[] = {"", ":", ":80", ":05683", ":5684"};
        const char *port = PICK(chance, ports);
        put(&out, "//", 2);
        if (chance_below(chance, 8) == 0) {
            put(&out, "u%40:@", 6);
        }
        if (chance_below(chance, 8) == 0) {
            put(&out, "[fe80::1]", 9);
        } else {
            put_pieces(chance, &out, hosts, sizeof hosts / sizeof hosts[0], 5);
        }
        put(&out, port, strlen(port));
        if (chance_below(chance, 4) != 0) {
            put(&out, "/", 1);
            put_pieces(chance, &out, paths, sizeof paths / sizeof paths[0], 9);
        }
    } else {
        put_pieces(chance, &out, paths, sizeof paths / sizeof paths[0], 9);
    }
    if (chance_below(chance, 3) == 0) {
        put(&out, "?", 1);
        put_pieces(chance, &out, queries, sizeof queries / sizeof queries[0], 6);
    }
    if (chance_below(chance, 3) == 0) {
        put(&out, "#", 1);
        put_pieces(chance, &out, queries, sizeof queries / sizeof queries[0], 4);
    }
    return out.len;
}

size_t generate_options(struct chance *chance, uint8_t *buffer, size_t capacity)
{
    static const char *const hosts[] = {"a.Example",     "h",   "192.0.2.1", "[fe80::1]",
                                        "[2001:db8::1]", "a%b", "",          "\xc3\xa9"};
    static const char *const ports[] = {"", "\x50", "\x16\x33", "\x16\x34"};
    struct out out = {buffer, 0, capacity};
    unsigned count = chance_below(chance, 8);

    for (unsigned i = 0; i < count; i++) {
        static const unsigned numbers[] = {3, 7, 11, 11, 15, 15, 60};
        unsigned number = PICK(chance, numbers);
        const char *value = number == 3   ? PICK(chance, hosts)
                            : number == 7 ? PICK(chance, ports)
                                          : PICK(chance, texts);
        put_byte(&out, number);
        put_byte(&out, (unsigned)strlen(value));
        put(&out, value, strlen(value));
    }
    return out.len;
}

size_t generate_damage(struct chance *chance, uint8_t *buffer, size_t len, size_t capacity)
{
    unsigned count = 1 + chance_below(chance, 3);

    for (unsigned i = 0; i < count && len > 0; i++) {
        size_t at = chance_below(chance, (unsigned)len);
        unsigned kind = chance_below(chance, 3);
        if (kind == 0) {
            buffer[at] = (uint8_t)chance_below(chance, 256);
        } else if (kind == 1) {
            memmove(buffer + at, buffer + at + 1, len - at - 1);
            len--;
        } else if (len < capacity) {
            memmove(buffer + at + 1, buffer + at, len - at);
            buffer[at] = (uint8_t)chance_below(chance, 256);
            len++;
        }
    }
    return len;
}
