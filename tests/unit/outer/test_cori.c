/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoRI: rows for decoding and conversion; resolution against the list algorithm of
 * draft-ietf-core-href-02 section 4.1, written down here as it stands there; and
 * that moving documents over changes nothing in what their references resolve to.
 */
#include "support/test.h"

#include <cri/cori.h>
#include <cri/diag.h>
#include <cri/resolve.h>
#include <cri/uri.h>

#include <stdio.h>
#include <string.h>

#define BYTES_MAX 2048
#define OPTIONS_MAX 64
#define TEXT_MAX 16

/* --- Helpers: sequences as lists, and notation --- */

struct option {
    unsigned number;
    unsigned value;
    char text[TEXT_MAX];
};

struct list {
    struct option options[OPTIONS_MAX];
    size_t count;
};

struct bytes {
    uint8_t data[BYTES_MAX];
    size_t len;
};

static struct cri_slice slice_of(const struct bytes *bytes)
{
    return (struct cri_slice){bytes->data, bytes->len};
}

static void from_notation(const char *text, struct bytes *out)
{
    struct cri_fault fault = {0};
    const struct cri_slice slice = {(const uint8_t *)text, strlen(text)};
    const enum cri_error error =
        cri_diag_parse(slice, out->data, sizeof(out->data), &out->len, &fault);
    if (error != CRI_OK) {
        fail_msg("%s: byte %zu: %s", text, fault.offset, fault.rule);
    }
}

static void assert_notation(const struct bytes *got, const char *wanted)
{
    char text[2 * BYTES_MAX];
    size_t len = 0;
    assert_int_equal(cri_diag_format(slice_of(got), text, sizeof(text) - 1, &len, NULL), CRI_OK);
    text[len] = '\0';
    assert_string_equal(text, wanted);
}

static void encode_list(const struct list *list, struct bytes *out)
{
    size_t len = 0;
    out->data[len++] = 0x98;
    out->data[len++] = (uint8_t)(2 * list->count);
    for (size_t i = 0; i < list->count; i++) {
        const struct option *option = &list->options[i];
        out->data[len++] = (uint8_t)option->number;
        if (option->number == CRI_CORI_PORT || option->number == CRI_CORI_PATH_TYPE) {
            out->data[len++] = 0x19;
            out->data[len++] = (uint8_t)(option->value >> 8);
            out->data[len++] = (uint8_t)option->value;
            continue;
        }
        const size_t text_len = strlen(option->text);
        out->data[len++] = (uint8_t)(0x60 + text_len);
        memcpy(out->data + len, option->text, text_len);
        len += text_len;
    }
    out->len = len;
}

static void decode_list(const struct cri_cori *cori, struct list *out)
{
    struct cri_iter iter;
    struct cri_cori_option option;
    out->count = 0;
    cri_cori_init(&iter, cori);
    while (cri_cori_next(&iter, &option)) {
        struct option *to = &out->options[out->count++];
        *to = (struct option){.number = option.number, .value = option.value};
        assert_true(option.string.len < TEXT_MAX);
        if (option.string.len > 0) {
            memcpy(to->text, option.string.data, option.string.len);
        }
    }
}

/* --- The draft's algorithm on lists --- */

static void append_and_normalize(struct list *out, unsigned number, const struct option *option)
{
    if (number > CRI_CORI_PATH) {
        const struct option *last = &out->options[out->count - 1];
        if (out->count >= 2 && last->number == CRI_CORI_PATH && last->text[0] == '\0' &&
            (last[-1].number < CRI_CORI_PATH_TYPE ||
             (last[-1].number == CRI_CORI_PATH_TYPE && last[-1].value == 0))) {
            out->count--;
        }
        if (number > CRI_CORI_FRAGMENT) {
            return;
        }
    }
    out->options[out->count++] = *option;
}

static void copy_until(const struct list *in, size_t start, struct list *out, unsigned end)
{
    for (size_t i = start; i < in->count && in->options[i].number < end; i++) {
        append_and_normalize(out, in->options[i].number, &in->options[i]);
    }
}

static void oracle_resolve(const struct list *base, const struct list *reference, unsigned relation,
                           struct list *out)
{
    unsigned number = CRI_CORI_FRAGMENT;
    unsigned type = 0;
    size_t start = 0;
    out->count = 0;
    if (reference->count > 0) {
        number = reference->options[0].number;
    }
    if (number == CRI_CORI_HOST_IP) {
        number = CRI_CORI_HOST_NAME;
    } else if (number == CRI_CORI_PATH_TYPE) {
        type = reference->options[0].value;
        start = 1;
    } else if (number == CRI_CORI_PATH) {
        type = CRI_CORI_RELATIVE_PATH;
        number = CRI_CORI_PATH_TYPE;
    }
    if (number != CRI_CORI_PATH_TYPE || type == CRI_CORI_ABSOLUTE_PATH) {
        copy_until(base, 0, out, number);
    } else {
        copy_until(base, 0, out, CRI_CORI_QUERY);
        if (type == CRI_CORI_APPEND_RELATION) {
            struct option option = {.number = CRI_CORI_PATH};
            (void)snprintf(option.text, sizeof(option.text), "%u", relation);
            append_and_normalize(out, CRI_CORI_PATH, &option);
        }
        for (; type > CRI_CORI_APPEND_PATH; type--) {
            if (out->count == 0 || out->options[out->count - 1].number != CRI_CORI_PATH) {
                break;
            }
            out->count--;
        }
    }
    copy_until(reference, start, out, CRI_CORI_FRAGMENT + 1);
    append_and_normalize(out, CRI_CORI_FRAGMENT + 1, NULL);
}

/* --- Random sequences --- */

static const char *random_text(uint64_t *random)
{
    static const char *const texts[] = {"", "a", "b.", "c%d", "e/f", "?&#", "a;b", "\xc3\xa9", "~"};
    return texts[test_random_below(random, sizeof(texts) / sizeof(texts[0]))];
}

static void add(struct list *list, unsigned number, unsigned value, const char *text)
{
    struct option *option = &list->options[list->count++];
    *option = (struct option){.number = number, .value = value};
    (void)snprintf(option->text, sizeof(option->text), "%s", text);
}

static void add_local(uint64_t *random, struct list *list, bool with_path)
{
    for (uint64_t i = with_path ? test_random_below(random, 4) : 0; i > 0; i--) {
        add(list, CRI_CORI_PATH, 0, random_text(random));
    }
    for (uint64_t i = test_random_below(random, 3); i > 0; i--) {
        add(list, CRI_CORI_QUERY, 0, random_text(random));
    }
    if (test_random_below(random, 3) == 0) {
        add(list, CRI_CORI_FRAGMENT, 0, random_text(random));
    }
}

static void random_absolute(uint64_t *random, struct list *out)
{
    static const char *const schemes[] = {"coap", "http", "foo"};
    out->count = 0;
    add(out, CRI_CORI_SCHEME, 0, schemes[test_random_below(random, 3)]);
    add(out, CRI_CORI_HOST_NAME, 0, test_random_below(random, 2) == 0 ? "h" : "a.b.example");
    add(out, CRI_CORI_PORT, (unsigned)(1 + test_random_below(random, 60)), "");
    add_local(random, out, true);
}

/* All kinds but append-relation, and a port without a host, which CRI has not. */
static void random_reference(uint64_t *random, struct list *out)
{
    out->count = 0;
    switch (test_random_below(random, 6)) {
    case 0:
        random_absolute(random, out);
        return;
    case 1:
        add(out, CRI_CORI_HOST_NAME, 0, "other");
        add(out, CRI_CORI_PORT, 7, "");
        break;
    case 2:
        add(out, CRI_CORI_PATH_TYPE, 0, "");
        break;
    case 3:
        add(out, CRI_CORI_PATH_TYPE, (unsigned)(2 + test_random_below(random, 5)), "");
        break;
    case 4:
        add(out, CRI_CORI_PATH, 0, random_text(random));
        break;
    default:
        add_local(random, out, false);
        return;
    }
    add_local(random, out, true);
}

static void decode(const struct bytes *bytes, struct cri_cori *out)
{
    struct cri_fault fault = {0};
    if (cri_cori_decode(slice_of(bytes), out, &fault) != CRI_OK) {
        fail_msg("byte %zu: %s", fault.offset, fault.rule);
    }
}

/* --- Tests --- */

static void test_resolve_does_what_the_draft_does(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < 20000; round++) {
        struct list base;
        struct list reference;
        struct list wanted;
        struct list got;
        struct bytes base_bytes;
        struct bytes reference_bytes;
        struct bytes result;
        struct cri_cori base_cori;
        struct cri_cori reference_cori;
        struct cri_cori result_cori;
        random_absolute(&random, &base);
        random_reference(&random, &reference);
        if (test_random_below(&random, 8) == 0) {
            reference.options[0] = (struct option){.number = CRI_CORI_PATH_TYPE, .value = 1};
            reference.count = 1;
        } else if (test_random_below(&random, 8) == 0) {
            reference.options[0] = (struct option){.number = CRI_CORI_PORT, .value = 9};
            reference.count = 1;
        }
        encode_list(&base, &base_bytes);
        encode_list(&reference, &reference_bytes);
        decode(&base_bytes, &base_cori);
        decode(&reference_bytes, &reference_cori);
        oracle_resolve(&base, &reference, 4711, &wanted);
        assert_int_equal(cri_cori_resolve(&base_cori, &reference_cori, 4711, result.data,
                                          sizeof(result.data), &result.len),
                         CRI_OK);
        decode(&result, &result_cori);
        assert_true(result_cori.is_absolute);
        decode_list(&result_cori, &got);
        assert_int_equal(got.count, wanted.count);
        for (size_t i = 0; i < got.count; i++) {
            assert_int_equal(got.options[i].number, wanted.options[i].number);
            assert_int_equal(got.options[i].value, wanted.options[i].value);
            assert_string_equal(got.options[i].text, wanted.options[i].text);
        }
    }
}

static void to_cri(const struct bytes *bytes, struct bytes *out, struct cri *cri)
{
    struct cri_cori cori;
    struct cri_fault fault = {0};
    decode(bytes, &cori);
    if (cri_cori_to_cri(&cori, NULL, out->data, sizeof(out->data), &out->len, &fault) != CRI_OK) {
        fail_msg("%s", fault.rule);
    }
    assert_int_equal(cri_decode(slice_of(out), NULL, cri, &fault), CRI_OK);
}

/* A path of one empty segment is none to CoRI. */
static void drop_lone_empty(struct bytes *bytes, struct cri *cri)
{
    if (cri->path.count == 1 && cri->path.encoded.len == 1) {
        struct bytes copy;
        cri->path.count = 0;
        cri->path.encoded.len = 0;
        assert_int_equal(cri_encode(cri, copy.data, sizeof(copy.data), &copy.len), CRI_OK);
        *bytes = copy;
    }
}

static void test_moving_documents_keeps_what_references_resolve_to(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < 20000; round++) {
        struct list list;
        struct bytes base;
        struct bytes reference;
        struct bytes old_result;
        struct bytes moved_base;
        struct bytes moved_reference;
        struct bytes moved_result;
        struct bytes new_result;
        struct cri_cori base_cori;
        struct cri_cori reference_cori;
        struct cri a;
        struct cri b;
        random_absolute(&random, &list);
        encode_list(&list, &base);
        random_reference(&random, &list);
        if (list.count == 0) {
            continue; /* the empty reference keeps the fragment now (AMB-3) */
        }
        encode_list(&list, &reference);
        decode(&base, &base_cori);
        /* Documents are normalized: resolve the base against itself first. */
        assert_int_equal(cri_cori_resolve(&base_cori, &base_cori, 0, old_result.data,
                                          sizeof(old_result.data), &old_result.len),
                         CRI_OK);
        base = old_result;
        decode(&base, &base_cori);
        decode(&reference, &reference_cori);
        assert_int_equal(cri_cori_resolve(&base_cori, &reference_cori, 0, old_result.data,
                                          sizeof(old_result.data), &old_result.len),
                         CRI_OK);
        to_cri(&base, &moved_base, &a);
        to_cri(&reference, &moved_reference, &b);
        struct cri_fault fault = {0};
        assert_int_equal(
            cri_resolve(&a, &b, new_result.data, sizeof(new_result.data), &new_result.len, &fault),
            CRI_OK);
        assert_int_equal(cri_decode(slice_of(&new_result), NULL, &b, NULL), CRI_OK);
        drop_lone_empty(&new_result, &b);
        to_cri(&old_result, &moved_result, &a);
        assert_int_equal(new_result.len, moved_result.len);
        assert_memory_equal(new_result.data, moved_result.data, new_result.len);
    }
}

static void test_absolute_sequences_come_back_unchanged(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < 5000; round++) {
        struct list list;
        struct bytes encoded;
        struct bytes normal;
        struct bytes moved;
        struct bytes back;
        struct bytes uri;
        struct bytes from_uri;
        struct cri_cori cori;
        struct cri cri;
        random_absolute(&random, &list);
        encode_list(&list, &encoded);
        decode(&encoded, &cori);
        assert_int_equal(
            cri_cori_resolve(&cori, &cori, 0, normal.data, sizeof(normal.data), &normal.len),
            CRI_OK);
        to_cri(&normal, &moved, &cri);
        assert_int_equal(
            cri_cori_from_cri(&cri, NULL, back.data, sizeof(back.data), &back.len, NULL), CRI_OK);
        assert_int_equal(back.len, normal.len);
        assert_memory_equal(back.data, normal.data, back.len);
        /* ... and the URI is the same, but for the slash of an empty path. */
        decode(&normal, &cori);
        assert_int_equal(cri_cori_recompose(&cori, (char *)uri.data, sizeof(uri.data), &uri.len),
                         CRI_OK);
        const struct cri_uri_options options = {.elide_default_port = true};
        assert_int_equal(cri_uri_parse(slice_of(&uri), &options, from_uri.data,
                                       sizeof(from_uri.data), &from_uri.len, NULL),
                         CRI_OK);
        assert_int_equal(cri_decode(slice_of(&from_uri), NULL, &cri, NULL), CRI_OK);
        drop_lone_empty(&from_uri, &cri);
        assert_int_equal(from_uri.len, moved.len);
        assert_memory_equal(from_uri.data, moved.data, moved.len);
    }
}

static void test_recompose_writes_the_drafts_uris(void **state)
{
    (void)state;
    static const struct {
        const char *cori;
        const char *uri;
    } rows[] = {
        {"[1, \"coap\", 3, h'C6336401', 4, 5683, 6, \".well-known\", 6, \"core\"]",
         "coap://198.51.100.1:5683/.well-known/core"},
        {"[1, \"coap\", 2, \"h\", 4, 80]", "coap://h:80/"},
        {"[1, \"coap\", 2, \"h\", 4, 80, 7, \"q\"]", "coap://h:80/?q"},
        {"[1, \"coap\", 2, \"h\", 4, 80, 8, \"f\"]", "coap://h:80/#f"},
        {"[1, \"coap\", 2, \"h\", 4, 80, 6, \"\", 7, \"\", 7, \"a&b\", 8, \"/?&\"]",
         "coap://h:80/?&a%26b#/?&"},
        {"[1, \"coap\", 2, \"a:\\u00e9\", 4, 0, 6, \"a/b:@%\"]", "coap://a%3A%C3%A9:0/a%2Fb:@%25"},
        {"[1, \"coap\", 3, h'20010db8000000000000000000000001', 4, 65535, 6, \"'\"]",
         "coap://[2001:db8::1]:65535/'"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes encoded;
        struct cri_cori cori;
        char uri[256];
        size_t len = 0;
        from_notation(rows[i].cori, &encoded);
        decode(&encoded, &cori);
        assert_int_equal(cri_cori_recompose(&cori, uri, sizeof(uri) - 1, &len), CRI_OK);
        uri[len] = '\0';
        assert_string_equal(uri, rows[i].uri);
        assert_int_equal(cri_cori_recompose(&cori, uri, len - 1, &len), CRI_ERR_SPACE);
        assert_int_equal(len, strlen(rows[i].uri));
    }
}

/* Rows that go both ways, and rows that only lead over. */
static void test_conversion_rows(void **state)
{
    (void)state;
    static const struct {
        const char *cori;
        const char *cri;
        bool both_ways;
    } rows[] = {
        {"[]", "[]", true},
        {"[1, \"coap\", 2, \"h\", 4, 5683]", "[-1, [\"h\"]]", true},
        {"[1, \"coap\", 2, \"h\", 4, 5683, 6, \"\"]", "[-1, [\"h\"]]", false},
        {"[1, \"coap\", 2, \"h\", 4, 5683, 6, \"\", 6, \"a\"]", "[-1, [\"h\"], [\"\", \"a\"]]",
         true},
        {"[1, \"coap\", 2, \"H.Example\", 4, 80]", "[-1, [\"h\", \"example\", 80]]", false},
        {"[1, \"coap\", 2, \"192.0.2.1\", 4, 80]", "[-1, [h'c0000201', 80]]", false},
        {"[1, \"coap\", 2, \"\", 4, 80]", "[-1, [\"\", 80]]", true},
        {"[1, \"foo\", 2, \"h.\", 4, 80, 8, \"\"]", "[\"foo\", [\"h\", \"\", 80], [], [], \"\"]",
         true},
        {"[1, \"coap\", 3, h'c0000201', 4, 1, 7, \"q\"]", "[-1, [h'c0000201', 1], [], [\"q\"]]",
         true},
        {"[2, \"h\", 4, 80, 6, \"a\"]", "[null, [\"h\", 80], [\"a\"]]", true},
        {"[2, \"h\", 4, 80, 8, \"f\"]", "[null, [\"h\", 80], null, null, \"f\"]", true},
        {"[5, 0]", "[true]", true},
        {"[5, 0, 6, \"\"]", "[true]", false},
        {"[5, 0, 6, \"\", 6, \"\"]", "[true, [\"\", \"\"]]", true},
        {"[5, 0, 7, \"q\"]", "[true, null, [\"q\"]]", true},
        {"[5, 2]", "[0, []]", true},
        {"[5, 2, 6, \"a\", 8, \"f\"]", "[0, [\"a\"], null, \"f\"]", true},
        {"[5, 2, 8, \"f\"]", "[0, [], null, \"f\"]", true},
        {"[5, 2, 7, \"q\"]", "[0, [], [\"q\"]]", true},
        {"[7, \"q\"]", "[0, null, [\"q\"]]", true},
        {"[8, \"f\"]", "[0, null, null, \"f\"]", true},
        {"[6, \"a\"]", "[1, [\"a\"]]", true},
        {"[6, \"\"]", "[1, [\"\"]]", true},
        {"[5, 3, 6, \"a\"]", "[1, [\"a\"]]", false},
        {"[5, 3]", "[1]", true},
        {"[5, 4, 7, \"q\"]", "[2, null, [\"q\"]]", true},
        {"[5, 127]", "[125]", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes encoded;
        struct bytes moved;
        struct bytes back;
        struct cri cri;
        print_message("%s\n", rows[i].cori);
        from_notation(rows[i].cori, &encoded);
        to_cri(&encoded, &moved, &cri);
        assert_notation(&moved, rows[i].cri);
        if (rows[i].both_ways) {
            assert_int_equal(
                cri_cori_from_cri(&cri, NULL, back.data, sizeof(back.data), &back.len, NULL),
                CRI_OK);
            assert_notation(&back, rows[i].cori);
            size_t len = 0;
            assert_int_equal(cri_cori_from_cri(&cri, NULL, NULL, 0, &len, NULL), CRI_ERR_SPACE);
            assert_int_equal(len, back.len);
        }
    }
}

static void test_what_cri_cannot_say_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *cori;
        enum cri_error error;
    } rows[] = {
        {"[5, 1]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[5, 1, 6, \"a\"]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[4, 80]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[4, 80, 6, \"a\"]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[1, \"coap\", 2, \"[::1]\", 4, 80]", CRI_ERR_HOST},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes encoded;
        struct bytes out;
        struct cri_cori cori;
        struct cri_fault fault = {0};
        print_message("%s\n", rows[i].cori);
        from_notation(rows[i].cori, &encoded);
        decode(&encoded, &cori);
        assert_int_equal(cri_cori_to_cri(&cori, NULL, out.data, sizeof(out.data), &out.len, &fault),
                         rows[i].error);
        assert_non_null(fault.rule);
    }
}

static void test_what_cori_cannot_say_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *cri;
        enum cri_error error;
    } rows[] = {
        {"[-1]", CRI_ERR_NO_HOST},
        {"[\"a\", true, [\"b\"]]", CRI_ERR_NO_HOST},
        {"[null, true, [\"b\"]]", CRI_ERR_NO_HOST},
        {"[-1, [false, \"u\", \"h\"]]", CRI_ERR_USERINFO},
        {"[-1, [h'fe800000000000000000000000000001', \"eth0\"]]", CRI_ERR_ZONE},
        {"[-1, [[\"a\", h'ff']]]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[1, [[h'ff']]]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[0, null, null, [h'ff']]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[126]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[null, [\"h\"]]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[\"foo\", [\"h\"]]", CRI_ERR_NOT_EXPRESSIBLE},
        {"[-1000, [\"h\", 80]]", CRI_ERR_SCHEME_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes encoded;
        struct bytes out;
        struct cri cri;
        struct cri_fault fault = {0};
        print_message("%s\n", rows[i].cri);
        from_notation(rows[i].cri, &encoded);
        assert_int_equal(cri_decode(slice_of(&encoded), NULL, &cri, NULL), CRI_OK);
        assert_int_equal(
            cri_cori_from_cri(&cri, NULL, out.data, sizeof(out.data), &out.len, &fault),
            rows[i].error);
        assert_non_null(fault.rule);
    }
}

static void test_decode_errors_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *hex;
        enum cri_error error;
        size_t offset;
    } rows[] = {
        {"nothing", "", CRI_ERR_TRUNCATED, 0},
        {"not an array", "a0", CRI_ERR_STRUCTURE, 0},
        {"indefinite array", "9fff", CRI_ERR_INDEFINITE, 0},
        {"odd number of items", "8106", CRI_ERR_STRUCTURE, 0},
        {"missing value", "8206", CRI_ERR_TRUNCATED, 0},
        {"option number 0", "820060", CRI_ERR_STRUCTURE, 1},
        {"option number 9", "820960", CRI_ERR_STRUCTURE, 1},
        {"option number is text", "826060", CRI_ERR_STRUCTURE, 1},
        {"scheme alone", "820161 61", CRI_ERR_STRUCTURE, 4},
        {"scheme in upper case", "84 01 61 41 02 60", CRI_ERR_SCHEME, 2},
        {"host without port", "82 02 61 68", CRI_ERR_STRUCTURE, 4},
        {"scheme and port", "84 01 61 61 04 00", CRI_ERR_STRUCTURE, 4},
        {"two hosts", "84 02 61 68 03 44 00 00 00 00", CRI_ERR_STRUCTURE, 4},
        {"address of 5 bytes", "84 03 45 0000000000 04 00", CRI_ERR_HOST, 2},
        {"port 65536", "82 04 1a 00010000", CRI_ERR_STRUCTURE, 2},
        {"negative port", "82 04 20", CRI_ERR_STRUCTURE, 2},
        {"path type 128", "82 05 18 80", CRI_ERR_STRUCTURE, 2},
        {"path type after port", "84 04 00 05 00", CRI_ERR_STRUCTURE, 3},
        {"query before path", "84 07 60 06 60", CRI_ERR_STRUCTURE, 3},
        {"two fragments", "84 08 60 08 60", CRI_ERR_STRUCTURE, 3},
        {"path is a number", "82 06 00", CRI_ERR_STRUCTURE, 2},
        {"dot-segment", "84 06 61 61 06 62 2e 2e", CRI_ERR_PATH, 5},
        {"not UTF-8", "82 07 62 61 ff", CRI_ERR_UTF8, 4},
        {"bytes behind", "80 00", CRI_ERR_TRAILING_BYTES, 1},
        {"2^63 items", "9b 8000000000000000", CRI_ERR_TRUNCATED, 0},
        {"text of 2^63 bytes", "82 06 7b 8000000000000000", CRI_ERR_TRUNCATED, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes encoded;
        struct cri_cori cori;
        struct cri_fault fault = {0};
        print_message("%s\n", rows[i].name);
        encoded.len = test_hex(rows[i].hex, encoded.data, sizeof(encoded.data));
        assert_int_equal(cri_cori_decode(slice_of(&encoded), &cori, &fault), rows[i].error);
        assert_int_equal(fault.offset, rows[i].offset);
        assert_non_null(fault.rule);
    }
}

static void test_only_absolute_sequences_are_bases(void **state)
{
    (void)state;
    struct bytes encoded;
    struct cri_cori cori;
    uint8_t out[64];
    size_t len = 0;
    from_notation("[6, \"a\"]", &encoded);
    decode(&encoded, &cori);
    assert_false(cori.is_absolute);
    assert_int_equal(cri_cori_resolve(&cori, &cori, 0, out, sizeof(out), &len), CRI_ERR_NOT_FULL);
    assert_int_equal(cri_cori_recompose(&cori, (char *)out, sizeof(out), &len), CRI_ERR_NOT_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resolve_does_what_the_draft_does),
        cmocka_unit_test(test_moving_documents_keeps_what_references_resolve_to),
        cmocka_unit_test(test_absolute_sequences_come_back_unchanged),
        cmocka_unit_test(test_recompose_writes_the_drafts_uris),
        cmocka_unit_test(test_conversion_rows),
        cmocka_unit_test(test_what_cri_cannot_say_is_an_error),
        cmocka_unit_test(test_what_cori_cannot_say_is_an_error),
        cmocka_unit_test(test_decode_errors_say_where),
        cmocka_unit_test(test_only_absolute_sequences_are_bases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
