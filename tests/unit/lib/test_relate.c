/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cri_relate() and cri_uri_relate() against brute force: over a small universe every
 * reference there is gets resolved against every base, and none that gives the target
 * may be shorter.
 */
#include "hex.h"
#include "rfc3986.h"

#include <cri/compare.h>
#include <cri/resolve.h>
#include <cri/uri.h>

#define ENTRIES_MAX 4096u
#define ENTRY_BYTES 40u

struct entry {
    uint8_t bytes[ENTRY_BYTES];
    size_t len;
};

struct universe {
    struct entry entries[ENTRIES_MAX];
    size_t count;
};

/* Sections as hexadecimal text; "" is one that is left out, together with all behind it. */
static const char *const paths[] = {
    "", "f6", "80", "8160", "816161", "8261616160", "8261616161", "83616161606161", "816162"};
static const char *const queries[] = {"", "f6", "80", "8160", "816161"};
static const char *const fragments[] = {"", "60", "6161"};

/* Add front and the sections if together they are a CRI reference. */
static void add(struct universe *universe, const char *front, unsigned front_count,
                const char *const sections[3])
{
    char hex[4 * ENTRY_BYTES];
    unsigned count = 0;

    /* Those behind an empty one are left out, as a CRI's trailing items are. */
    while (count < 3 && sections[count][0] != '\0') {
        count++;
    }
    snprintf(hex, sizeof hex, "8%u%s%s%s%s", front_count + count, front,
             count > 0 ? sections[0] : "", count > 1 ? sections[1] : "",
             count > 2 ? sections[2] : "");
    struct bytes bytes = bytes_from_hex(hex);
    struct cri cri;
    struct entry *entry = &universe->entries[universe->count];
    if (cri_decode(bytes_slice(&bytes), NULL, &cri, NULL) == CRI_OK) {
        assert_true(universe->count < ENTRIES_MAX && bytes.len <= ENTRY_BYTES);
        memcpy(entry->bytes, bytes.data, bytes.len);
        entry->len = bytes.len;
        universe->count++;
    }
    bytes_free(&bytes);
}

static void add_all(struct universe *universe, const char *front, unsigned front_count)
{
    for (size_t p = 0; p < ROW_COUNT(paths); p++) {
        for (size_t q = 0; q < (paths[p][0] == '\0' ? 1 : ROW_COUNT(queries)); q++) {
            for (size_t f = 0; f < (queries[q][0] == '\0' ? 1 : ROW_COUNT(fragments)); f++) {
                const char *const sections[3] = {paths[p], queries[q], fragments[f]};
                add(universe, front, front_count, sections);
            }
        }
    }
}

static const char *const authorities[] = {"8161"
                                          "68",
                                          "8161"
                                          "69",
                                          "f6", "f5"};

static void fill(struct universe *full, struct universe *references)
{
    static const char *const discards[] = {"00", "01", "02", "03", "04", "1818", "187f", "f5"};
    char front[32];

    full->count = 0;
    references->count = 0;
    for (size_t a = 0; a < ROW_COUNT(authorities); a++) {
        snprintf(front, sizeof front, "20%s", authorities[a]);
        add_all(full, front, 2);
        add_all(references, front, 2);
        snprintf(front, sizeof front, "f6%s", authorities[a]);
        add_all(references, front, 2);
    }
    for (size_t d = 0; d < ROW_COUNT(discards); d++) {
        add_all(references, discards[d], 1);
    }
    references->entries[references->count] = (struct entry){{0x80}, 1};
    references->count++;
}

static void decode_entry(const struct entry *entry, struct cri *ret_cri)
{
    assert_int_equal(cri_decode((struct cri_slice){entry->bytes, entry->len}, NULL, ret_cri, NULL),
                     CRI_OK);
}

/* Every reference's result from a base, and that relating it is no longer than the reference. */
static void check_base(const struct entry *base_entry, const struct universe *references)
{
    struct cri base;
    decode_entry(base_entry, &base);
    for (size_t r = 0; r < references->count; r++) {
        struct cri reference;
        uint8_t target_bytes[2 * ENTRY_BYTES + 16];
        uint8_t related[2 * ENTRY_BYTES + 16];
        uint8_t back[2 * ENTRY_BYTES + 16];
        size_t target_len;
        size_t related_len;
        size_t back_len;
        struct cri target;
        struct cri related_cri;
        decode_entry(&references->entries[r], &reference);
        if (cri_resolve(&base, &reference, target_bytes, sizeof target_bytes, &target_len, NULL) !=
            CRI_OK) {
            continue;
        }
        assert_int_equal(
            cri_decode((struct cri_slice){target_bytes, target_len}, NULL, &target, NULL), CRI_OK);
        assert_int_equal(cri_relate(&base, &target, related, sizeof related, &related_len, NULL),
                         CRI_OK);
        if (related_len > references->entries[r].len) {
            fail_msg("from %s, %s is shorter than %s", hex_of(base_entry->bytes, base_entry->len),
                     hex_of(references->entries[r].bytes, references->entries[r].len),
                     hex_of(related, related_len));
        }
        assert_int_equal(
            cri_decode((struct cri_slice){related, related_len}, NULL, &related_cri, NULL), CRI_OK);
        assert_int_equal(cri_resolve(&base, &related_cri, back, sizeof back, &back_len, NULL),
                         CRI_OK);
        assert_int_equal(back_len, target_len);
        assert_memory_equal(back, target_bytes, target_len);
    }
}

static void test_relate_is_never_longer_than_brute_force(void **state)
{
    static struct universe full;
    static struct universe references;
    (void)state;
    fill(&full, &references);
    assert_true(full.count > 100 && references.count > 500);
    for (size_t b = 0; b < full.count; b++) {
        check_base(&full.entries[b], &references);
    }
}

#define TEXT_MAX 128u

static struct cri_slice format_uri(const struct cri *cri, char text[TEXT_MAX])
{
    size_t len = 0;
    assert_int_equal(cri_uri_format(cri, NULL, text, TEXT_MAX, &len, NULL), CRI_OK);
    return (struct cri_slice){(const uint8_t *)text, len};
}

static bool is_text(struct cri_slice a, struct cri_slice b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* What RFC 3986 makes of a reference. */
static struct cri_slice resolve_text(struct cri_slice base, struct cri_slice reference,
                                     char text[TEXT_MAX])
{
    const size_t len = rfc3986_resolve(base, reference, text, TEXT_MAX);
    assert_true(len <= TEXT_MAX);
    return (struct cri_slice){(const uint8_t *)text, len};
}

/* The related URI reference means the target in both ways; gives its length. */
static size_t check_uri_relate(const struct cri *base, const struct cri *target)
{
    char base_text[TEXT_MAX];
    char target_text[TEXT_MAX];
    char text[TEXT_MAX];
    char by_text[TEXT_MAX];
    uint8_t parsed[TEXT_MAX];
    uint8_t resolved[TEXT_MAX];
    size_t len;
    size_t parsed_len;
    size_t resolved_len;
    struct cri reference;
    struct cri result;

    assert_int_equal(cri_uri_relate(base, target, NULL, text, sizeof text, &len, NULL), CRI_OK);
    const struct cri_slice related = {(const uint8_t *)text, len};
    const struct cri_slice wanted = format_uri(target, target_text);
    if (!is_text(resolve_text(format_uri(base, base_text), related, by_text), wanted)) {
        fail_msg("from %s, %.*s is not %.*s", base_text, (int)len, text, (int)wanted.len,
                 target_text);
    }
    assert_int_equal(cri_uri_parse(related, NULL, parsed, sizeof parsed, &parsed_len, NULL),
                     CRI_OK);
    assert_int_equal(cri_decode((struct cri_slice){parsed, parsed_len}, NULL, &reference, NULL),
                     CRI_OK);
    assert_int_equal(cri_resolve(base, &reference, resolved, sizeof resolved, &resolved_len, NULL),
                     CRI_OK);
    assert_int_equal(cri_decode((struct cri_slice){resolved, resolved_len}, NULL, &result, NULL),
                     CRI_OK);
    assert_true(cri_is_equal(&result, target, true));
    return len;
}

/* No reference whose URI form means the same, in both ways, is shorter. */
static void check_uri_base(const struct entry *base_entry, const struct universe *references)
{
    char base_text[TEXT_MAX];
    struct cri base;
    decode_entry(base_entry, &base);
    const struct cri_slice base_uri = format_uri(&base, base_text);
    for (size_t r = 0; r < references->count; r++) {
        char text[TEXT_MAX];
        char target_text[TEXT_MAX];
        char by_text[TEXT_MAX];
        uint8_t target_bytes[2 * ENTRY_BYTES + 16];
        size_t len;
        size_t target_len;
        struct cri reference;
        struct cri target;
        decode_entry(&references->entries[r], &reference);
        if (cri_resolve(&base, &reference, target_bytes, sizeof target_bytes, &target_len, NULL) !=
            CRI_OK) {
            continue;
        }
        assert_int_equal(
            cri_decode((struct cri_slice){target_bytes, target_len}, NULL, &target, NULL), CRI_OK);
        const size_t related_len = check_uri_relate(&base, &target);
        if (cri_uri_format(&reference, NULL, text, sizeof text, &len, NULL) != CRI_OK) {
            continue;
        }
        const struct cri_slice reference_uri = {(const uint8_t *)text, len};
        if (is_text(resolve_text(base_uri, reference_uri, by_text),
                    format_uri(&target, target_text)) &&
            related_len > len) {
            fail_msg("from %.*s, %.*s is shorter", (int)base_uri.len, base_text, (int)len, text);
        }
    }
}

static void test_uri_relate_is_never_longer_than_brute_force(void **state)
{
    static struct universe full;
    static struct universe references;
    (void)state;
    fill(&full, &references);
    for (size_t b = 0; b < full.count; b++) {
        check_uri_base(&full.entries[b], &references);
    }
}

static const struct {
    const char *id;
    const char *base;
    const char *target;
    const char *reference;
} rows[] = {
    {"the same",
     "83208161688161"
     "61",
     "83208161688161"
     "61",
     "80"},
    {"fragment",
     "83208161688161"
     "61",
     "852081616881616180"
     "6166",
     "8400f6f66166"},
    {"fragment dropped",
     "852081616881616180"
     "6166",
     "83208161688161"
     "61",
     "820080"},
    {"sibling",
     "8320816168826161"
     "6162",
     "83208161688261616163", "8201816163"},
    {"other host", "8220816168", "8220816169", "82f6816169"},
    {"other scheme", "8220816168", "8221816168", "8221816168"},
    {"root", "83208161688561616161616161616161", "8220816168", "8105"},
    {"no authority cannot be set alone", "8220816168", "8320f6816161", "8320f6816161"},
    {"rootless", "8320f5816161",
     "8320f5826161"
     "6162",
     "8200816162"},
};

static void test_relate_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        struct bytes base_bytes;
        struct bytes target_bytes;
        struct cri base;
        struct cri target;
        uint8_t buffer[64];
        size_t len;
        decode_hex(rows[i].base, &base_bytes, &base);
        decode_hex(rows[i].target, &target_bytes, &target);
        assert_int_equal(cri_relate(&base, &target, buffer, sizeof buffer, &len, NULL), CRI_OK);
        if (strcmp(hex_of(buffer, len), rows[i].reference) != 0) {
            fail_msg("%s: %s", rows[i].id, hex_of(buffer, len));
        }
        bytes_free(&base_bytes);
        bytes_free(&target_bytes);
    }
}

static void test_relate_wants_full_cris(void **state)
{
    struct bytes full_bytes;
    struct bytes relative_bytes;
    struct cri full;
    struct cri relative;
    struct cri_fault fault;
    size_t len;
    (void)state;
    decode_hex("8220816168", &full_bytes, &full);
    decode_hex("8101", &relative_bytes, &relative);
    assert_int_equal(cri_relate(&full, &relative, NULL, 0, &len, &fault), CRI_ERR_NOT_FULL);
    assert_int_equal(cri_relate(&relative, &full, NULL, 0, &len, &fault), CRI_ERR_NOT_FULL);
    bytes_free(&full_bytes);
    bytes_free(&relative_bytes);
}

/* Removing over 127 segments has no discard; from 24 on, true may be shorter. */
static void test_relate_from_deep_paths(void **state)
{
    static char base_hex[1024];
    (void)state;
    for (unsigned depth = 20; depth < 150; depth++) {
        size_t at = (size_t)snprintf(base_hex, sizeof base_hex, "832081616898%02x", depth + 1);
        at += (size_t)snprintf(base_hex + at, sizeof base_hex - at, "6178");
        for (unsigned i = 0; i < depth; i++) {
            at += (size_t)snprintf(base_hex + at, sizeof base_hex - at, "6161");
        }
        struct bytes base_bytes;
        struct bytes target_bytes;
        struct cri base;
        struct cri target;
        uint8_t buffer[64];
        size_t len;
        decode_hex(base_hex, &base_bytes, &base);
        decode_hex("832081616882617861"
                   "79",
                   &target_bytes, &target);
        assert_int_equal(cri_relate(&base, &target, buffer, sizeof buffer, &len, NULL), CRI_OK);
        char wanted[32];
        if (depth < 24) {
            snprintf(wanted, sizeof wanted, "82%02x816179", depth);
        } else if (depth <= 127) {
            snprintf(wanted, sizeof wanted, "8218%02x816179", depth);
        } else {
            snprintf(wanted, sizeof wanted, "82f58261786179");
        }
        assert_string_equal(hex_of(buffer, len), wanted);
        bytes_free(&base_bytes);
        bytes_free(&target_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relate_is_never_longer_than_brute_force),
        cmocka_unit_test(test_uri_relate_is_never_longer_than_brute_force),
        cmocka_unit_test(test_relate_examples),
        cmocka_unit_test(test_relate_wants_full_cris),
        cmocka_unit_test(test_relate_from_deep_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
