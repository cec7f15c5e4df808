/* SPDX-License-Identifier: BSD-2-Clause */
/* CONFORMANCE sections 9 and 10. */
#include "hex.h"

#include <cri/coap.h>

static const struct cri_destination v4 = {.ip = {192, 0, 2, 1}, .ip_len = 4, .port = 5683};
static const struct cri_destination v6_zone = {
    .ip = {0xfe, 0x80, [15] = 1}, .ip_len = 16, .port = 5683, .zone = {(const uint8_t *)"eth0", 4}};

/* Options as text: "3=68 7=f0b0 11=". */
static void list_options(struct cri_options *options, char *text, size_t capacity)
{
    struct cri_option option;
    size_t len = 0;

    text[0] = '\0';
    while (cri_options_next(options, &option)) {
        len += (size_t)snprintf(text + len, capacity - len, "%s%u=%s", len == 0 ? "" : " ",
                                option.number, hex_of(option.value.data, option.value.len));
        assert_true(len < capacity);
    }
}

static const struct {
    const char *id;
    const char *hex;
    const struct cri_destination *destination;
    const char *options; /* NULL: fails */
    enum cri_error error;
} decompositions[] = {
    {"C2O-1", "82f6816168", &v4, NULL, CRI_ERR_NOT_FULL},
    {"C2O-2 http", "8222816168", &v4, NULL, CRI_ERR_SCHEME_NOT_COAP},
    {"C2O-2 large", "823bffffffffffffffff816168", &v4, NULL, CRI_ERR_SCHEME_NOT_COAP},
    {"C2O-2 coaps+ws", "823819816168", &v4, "3=68 7=01bb", CRI_OK},
    {"C2O-3", "8264636f6170816168", &v4, NULL, CRI_ERR_SCHEME_NOT_COAP},
    {"C2O-4", "8520816168808060", &v4, NULL, CRI_ERR_FRAGMENT},
    {"C2O-5 path", "832081616881836161413a6162", &v4, NULL, CRI_ERR_PET_IN_OPTION},
    {"C2O-5 host",
     "822081"
     "82616141"
     "21",
     &v4, NULL, CRI_ERR_PET_IN_OPTION},
    {"C2O-6", "832082676578616d706c65636e6574816178", &v4, "3=6578616d706c652e6e6574 11=78",
     CRI_OK},
    {"C2O-7", "83208144c0000201816178", &v4, "11=78", CRI_OK},
    {"C2O-7 zones", "82208250fe8000000000000000000000000000016465746830", &v6_zone, "", CRI_OK},
    {"C2O-8", "8220815020010db8000000000000000000000001", &v4, "3=5b323030313a6462383a3a315d",
     CRI_OK},
    {"C2O-8 nowhere", "83208144c0000201816178", NULL, "3=3139322e302e322e31 11=78", CRI_OK},
    {"destination has a zone", "82208150fe800000000000000000000000000001", &v6_zone,
     "3=5b666538303a3a315d", CRI_OK},
    {"C2O-9", "822082616819f0b0", &v4, "3=68 7=f0b0", CRI_OK},
    {"C2O-9 default", "8220826168191633", &v4, "3=68", CRI_OK},
    {"C2O-9 default, nowhere", "8220826168191633", NULL, "3=68", CRI_OK},
    {"C2O-9 other scheme", "8221816168", &v4, "3=68 7=1634", CRI_OK},
    {"C2O-10 one byte", "82208261681850", &v4, "3=68 7=50", CRI_OK},
    {"C2O-10 none", "822082616800", &v4, "3=68 7=", CRI_OK},
    {"C2O-11 lone empty", "83208161688160", &v4, "3=68", CRI_OK},
    {"C2O-11 lone empty, long head",
     "832081616881"
     "7800",
     &v4, "3=68", CRI_OK},
    {"C2O-11 two empty", "8320816168826060", &v4, "3=68 11= 11=", CRI_OK},
    {"C2O-11 trailing", "832081616882616160", &v4, "3=68 11=61 11=", CRI_OK},
    {"C2O-12", "8420816168808160", &v4, "3=68 15=", CRI_OK},
    {"C2O-13", "83208161688163332f34", &v4, "3=68 11=332f34", CRI_OK},
    {"C2O-15 userinfo", "822083f461756168", &v4, NULL, CRI_ERR_USERINFO},
    {"C2O-15 no authority", "8120", &v4, NULL, CRI_ERR_NO_HOST},
    {"C2O-15 rootless", "8320f5816178", &v4, NULL, CRI_ERR_NO_HOST},
    {"C2O-15 empty host", "82208160", &v4, NULL, CRI_ERR_NO_HOST},
    {"C2O-17", "82208250fe8000000000000000000000000000016465746830", &v4, NULL, CRI_ERR_ZONE},
    {"labels with long heads",
     "82208278016"
     "17801"
     "62",
     &v4, "3=612e62", CRI_OK},
};

static void test_decompose(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(decompositions); i++) {
        struct bytes bytes;
        struct cri cri;
        struct cri_options options;
        struct cri_fault fault = {0, NULL};
        char text[256] = "";
        decode_hex(decompositions[i].hex, &bytes, &cri);
        enum cri_error error =
            cri_options_init(&options, &cri, decompositions[i].destination, NULL, &fault);
        list_options(&options, text, sizeof text); /* None after an error. */
        const char *wanted = decompositions[i].options == NULL ? "" : decompositions[i].options;
        if (error != decompositions[i].error || strcmp(text, wanted) != 0 ||
            (error != CRI_OK && fault.rule == NULL)) {
            fail_msg("%s: %s %s", decompositions[i].id, cri_strerror(error), text);
        }
        bytes_free(&bytes);
    }
}

/* A CRI with one item of len octets: C2O-14. */
static enum cri_error decompose_long(const char *front, size_t len, const char *back)
{
    char hex[2048];
    size_t at = (size_t)snprintf(hex, sizeof hex, "%s%s%0*x", front, len > 255 ? "79" : "78",
                                 len > 255 ? 4 : 2, (unsigned)len);
    for (size_t i = 0; i < len; i++) {
        at += (size_t)snprintf(hex + at, sizeof hex - at, "61");
    }
    snprintf(hex + at, sizeof hex - at, "%s", back);
    struct bytes bytes;
    struct cri cri;
    struct cri_options options;
    decode_hex(hex, &bytes, &cri);
    enum cri_error error = cri_options_init(&options, &cri, &v4, NULL, NULL);
    bytes_free(&bytes);
    return error;
}

static void test_decompose_refuses_what_no_option_holds(void **state)
{
    (void)state;
    assert_int_equal(decompose_long("832081616881", 255, ""), CRI_OK);
    assert_int_equal(decompose_long("832081616881", 256, ""), CRI_ERR_OPTION_LENGTH);
    assert_int_equal(decompose_long("84208161688081", 255, ""), CRI_OK);
    assert_int_equal(decompose_long("84208161688081", 256, ""), CRI_ERR_OPTION_LENGTH);
    assert_int_equal(decompose_long("832081616882", 255, "6161"), CRI_OK);
    assert_int_equal(decompose_long("822081", 255, ""), CRI_OK);
    assert_int_equal(decompose_long("822081", 256, ""), CRI_ERR_OPTION_LENGTH);
    assert_int_equal(decompose_long("822082", 253, "6161"), CRI_OK);
    assert_int_equal(decompose_long("822082", 254, "6161"), CRI_ERR_OPTION_LENGTH);
}

/* A struct that was made by hand may say what it has not. */
static void test_decompose_believes_no_count(void **state)
{
    static const uint8_t cut[] = {0x61};
    struct bytes bytes;
    struct cri cri;
    struct cri_options options;
    char text[256];

    (void)state;
    decode_hex("84208161688161708161"
               "71",
               &bytes, &cri);
    cri.path.encoded = (struct cri_slice){NULL, 0};
    assert_int_equal(cri_options_init(&options, &cri, &v4, NULL, NULL), CRI_OK);
    list_options(&options, text, sizeof text);
    assert_string_equal(text, "3=68 15=71");
    cri.path.encoded = (struct cri_slice){cut, sizeof cut};
    cri.query.encoded = (struct cri_slice){NULL, 0};
    assert_int_equal(cri_options_init(&options, &cri, &v4, NULL, NULL), CRI_OK);
    list_options(&options, text, sizeof text);
    assert_string_equal(text, "3=68");
    bytes_free(&bytes);
}

static void test_decompose_uses_the_callers_table(void **state)
{
    static const struct cri_scheme own[] = {{0, "coap", 7}};
    const struct cri_scheme_table table = {own, 1};
    struct bytes bytes;
    struct cri cri;
    struct cri_options options;
    char text[64];
    (void)state;
    decode_hex("8220816168", &bytes, &cri);
    assert_int_equal(cri_options_init(&options, &cri, &v4, &table, NULL), CRI_OK);
    list_options(&options, text, sizeof text);
    assert_string_equal(text, "3=68 7=07");
    bytes_free(&bytes);
}

struct text_option {
    uint16_t number;
    const char *value;
    size_t len; /* 0: of the text */
};

static const struct {
    const char *id;
    uint64_t scheme;
    const struct cri_destination *destination;
    struct text_option options[4];
    const char *hex; /* NULL: fails */
    enum cri_error error;
} compositions[] = {
    {"O2C-1",
     7,
     &v4,
     {{3, "h", 0}},
     "822782616819"
     "1633",
     CRI_OK},
    {"O2C-2 name", 0, &v4, {{3, "example.net", 0}}, "822082676578616d706c65636e6574", CRI_OK},
    {"O2C-2 IPv6",
     0,
     &v4,
     {{3, "[2001:db8::1]", 0}},
     "8220815020010db8000000000000000000000001",
     CRI_OK},
    {"O2C-2 IPv4", 0, &v4, {{3, "192.0.2.1", 0}}, "82208144c0000201", CRI_OK},
    {"O2C-2 no end", 0, &v4, {{3, "[::1", 0}}, NULL, CRI_ERR_HOST},
    {"O2C-2 space", 0, &v4, {{3, "a b", 0}}, NULL, CRI_ERR_HOST},
    {"O2C-2 bracket", 0, &v4, {{3, "[", 0}}, NULL, CRI_ERR_HOST},
    {"O2C-2 empty", 0, &v4, {{3, "", 0}}, NULL, CRI_ERR_NO_HOST},
    {"O2C-3", 0, &v4, {{3, "a%2eb", 0}}, NULL, CRI_ERR_HOST},
    {"O2C-4",
     0,
     &v4,
     {{3, "H.Example", 0}},
     "822082616"
     "8676578616d706c65",
     CRI_OK},
    {"O2C-5", 0, &v4, {{0, "", 0}}, "82208144c0000201", CRI_OK},
    {"O2C-5 zone",
     0,
     &v6_zone,
     {{0, "", 0}},
     "82208250fe8000000000000000000000000000016465746830",
     CRI_OK},
    {"link-local in Uri-Host",
     0,
     &v6_zone,
     {{3, "[fe80::2]", 0}},
     "82208250fe8000000000000000000000000000026465746830",
     CRI_OK},
    {"global in Uri-Host",
     0,
     &v6_zone,
     {{3, "[2001:db8::1]", 0}},
     "8220815020010db8000000000000000000000001",
     CRI_OK},
    {"nowhere", 0, NULL, {{11, "x", 0}}, NULL, CRI_ERR_NO_HOST},
    {"nowhere with host", 0, NULL, {{3, "h", 0}}, "8220816168", CRI_OK},
    {"O2C-7 default", 0, &v4, {{3, "h", 0}, {7, "\x16\x33", 2}}, "8220816168", CRI_OK},
    {"O2C-7 other", 0, &v4, {{3, "h", 0}, {7, "\x50", 1}}, "82208261681850", CRI_OK},
    {"port 0", 0, &v4, {{3, "h", 0}, {7, "", 0}}, "822082616800", CRI_OK},
    {"port with leading zero", 0, &v4, {{3, "h", 0}, {7, "\x00\x50", 2}}, "82208261681850", CRI_OK},
    {"port of three bytes", 0, &v4, {{7, "\x01\x02\x03", 3}}, NULL, CRI_ERR_OPTION_LENGTH},
    {"port twice", 0, &v4, {{7, "\x01", 1}, {7, "\x01", 1}}, NULL, CRI_ERR_OPTION_LENGTH},
    {"host twice", 0, &v4, {{3, "h", 0}, {3, "h", 0}}, NULL, CRI_ERR_HOST},
    {"port 0 without a default", 4, &v4, {{3, "h", 0}, {7, "", 0}}, "822482616800", CRI_OK},
    {"O2C-8",
     0,
     &v4,
     {{3, "h", 0}, {15, "q", 0}, {11, "a", 0}, {11, "b", 0}},
     "84208161688261616162"
     "8161"
     "71",
     CRI_OK},
    {"O2C-8 query alone", 0, &v4, {{3, "h", 0}, {15, "q", 0}}, "842081616880816171", CRI_OK},
    {"O2C-9", 0, &v4, {{3, "h", 0}, {11, "", 0}, {60, "x", 0}}, "83208161688160", CRI_OK},
    {"O2C-10", 0, &v4, {{11, "..", 0}}, NULL, CRI_ERR_PATH},
    {"O2C-11 path", 0, &v4, {{11, "\xff", 0}}, NULL, CRI_ERR_UTF8},
    {"O2C-11 query", 0, &v4, {{15, "\xff", 0}}, NULL, CRI_ERR_UTF8},
    {"O2C-11 host", 0, &v4, {{3, "\xff", 0}}, NULL, CRI_ERR_UTF8},
};

static void test_compose(void **state)
{
    static uint8_t empty; /* A value that is there, of no bytes. */
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(compositions); i++) {
        struct cri_option options[4];
        size_t count = 0;
        for (; count < 4 && compositions[i].options[count].value != NULL; count++) {
            const struct text_option *option = &compositions[i].options[count];
            size_t len = option->len == 0 ? strlen(option->value) : option->len;
            options[count].number = option->number;
            options[count].value =
                (struct cri_slice){len == 0 ? &empty : (const uint8_t *)option->value, len};
        }
        const struct cri_composition composition = {compositions[i].scheme,
                                                    compositions[i].destination, NULL};
        uint8_t buffer[128];
        size_t len = 0;
        struct cri_fault fault = {0, NULL};
        enum cri_error error =
            cri_from_options(&composition, options, count, buffer, sizeof buffer, &len, &fault);
        const char *got = error == CRI_OK ? hex_of(buffer, len) : "";
        const char *wanted = compositions[i].hex == NULL ? "" : compositions[i].hex;
        if (error != compositions[i].error || strcmp(got, wanted) != 0 ||
            (error != CRI_OK && fault.rule == NULL)) {
            fail_msg("%s: %s %s", compositions[i].id, cri_strerror(error), got);
        }
    }
}

static void test_compose_refuses_long_values(void **state)
{
    static uint8_t text[256];
    const struct cri_composition composition = {0, &v4, NULL};
    static const uint16_t numbers[] = {3, 11, 15};
    (void)state;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < ROW_COUNT(numbers); i++) {
        struct cri_option option = {numbers[i], {text, 255}};
        size_t len;
        assert_int_equal(cri_from_options(&composition, &option, 1, NULL, 0, &len, NULL),
                         CRI_ERR_SPACE);
        option.value.len = 256;
        assert_int_equal(cri_from_options(&composition, &option, 1, NULL, 0, &len, NULL),
                         CRI_ERR_OPTION_LENGTH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decompose),
        cmocka_unit_test(test_decompose_refuses_what_no_option_holds),
        cmocka_unit_test(test_decompose_believes_no_count),
        cmocka_unit_test(test_decompose_uses_the_callers_table),
        cmocka_unit_test(test_compose),
        cmocka_unit_test(test_compose_refuses_long_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
