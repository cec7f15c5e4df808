/* SPDX-License-Identifier: BSD-2-Clause */
/* Host names in their one form, and what is none. */
#include "policy/hostname.h"
#include "support/test.h"

#include <string.h>

struct row {
    const char *text;
    const char *form; /* NULL: see kind */
    enum hostname_kind kind;
};

static void check(const struct row *row, size_t len)
{
    uint8_t room[HOSTNAME_MAX];
    struct hostname name = {.text = room};
    print_message("    %s\n", row->text);
    assert_int_equal(hostname_read((const uint8_t *)row->text, len, &name), row->kind);
    if (row->form != NULL) {
        assert_int_equal(name.len, strlen(row->form));
        assert_memory_equal(name.text, row->form, name.len);
        /* The form of a form is itself, also in its own place. */
        assert_int_equal(hostname_read(name.text, name.len, &name), row->kind);
        assert_int_equal(name.len, strlen(row->form));
        assert_memory_equal(name.text, row->form, name.len);
    }
}

static void test_hostname_has_one_form(void **state)
{
    static const struct row rows[] = {
        {"h", "h", HOSTNAME_NAME},
        {"Sensor.Example", "sensor.example", HOSTNAME_NAME},
        {"h.", "h.", HOSTNAME_NAME},
        {"_coap._udp.h-1.example", "_coap._udp.h-1.example", HOSTNAME_NAME},
        {"a!$&'()*+,;=~b", "a!$&'()*+,;=~b", HOSTNAME_NAME},
        {"1.2.3.4.h", "1.2.3.4.h", HOSTNAME_NAME},
        {"0xg", "0xg", HOSTNAME_NAME},
        {"bücher.example", "xn--bcher-kva.example", HOSTNAME_NAME},
        {"BÜCHER.Example.", "xn--bcher-kva.example.", HOSTNAME_NAME},
        {"XN--BCHER-KVA.example", "xn--bcher-kva.example", HOSTNAME_NAME},
        {"bu\xcc\x88"
         "cher.example",
         "xn--bcher-kva.example", HOSTNAME_NAME}, /* not composed */
        {"straße.example", "xn--strae-oqa.example", HOSTNAME_NAME},
        {"xn--strae-oqa", "xn--strae-oqa", HOSTNAME_NAME},
        {"xn--fiqs8s.", "xn--fiqs8s.", HOSTNAME_NAME},                     /* Chinese */
        {"_coap._udp.xn--wgbh1c", "_coap._udp.xn--wgbh1c", HOSTNAME_NAME}, /* Arabic */
        {"a.xn--zckzah.b!c", "a.xn--zckzah.b!c", HOSTNAME_NAME},           /* Japanese */
        {"xnn--a.ab--cd.r3---sn-x.xn-", "xnn--a.ab--cd.r3---sn-x.xn-", HOSTNAME_NAME}, /* none */
        {"a\xe3\x80\x82"
         "example",
         "a.example", HOSTNAME_NAME}, /* an ideographic full stop */
        {"local\xc2\xad"
         "host",
         "localhost", HOSTNAME_NAME}, /* a soft hyphen */
        {"ｌｏｃａｌｈｏｓｔ", "localhost", HOSTNAME_NAME},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check(&rows[i], strlen(rows[i].text));
    }
}

static void test_hostname_that_is_an_address(void **state)
{
    static const char *const texts[] = {"127.0.0.1", "１２７.0.0.1", "127。0。0。1"};
    static const uint8_t loopback[4] = {127, 0, 0, 1};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint8_t room[HOSTNAME_MAX];
        struct hostname name = {.text = room};
        assert_int_equal(hostname_read((const uint8_t *)texts[i], strlen(texts[i]), &name),
                         HOSTNAME_IPV4);
        assert_memory_equal(name.ipv4, loopback, sizeof(loopback));
    }
}

static void test_hostname_that_is_none(void **state)
{
    static const struct row rows[] = {
        {"", NULL, HOSTNAME_EMPTY},
        {".", NULL, HOSTNAME_EMPTY},
        {"..", NULL, HOSTNAME_EMPTY},
        {".a", NULL, HOSTNAME_EMPTY},
        {"a..b", NULL, HOSTNAME_EMPTY},
        {"a..", NULL, HOSTNAME_EMPTY},
        {"ü。。b", NULL, HOSTNAME_EMPTY},
        {"a b", NULL, HOSTNAME_BYTE},
        {"a%2eb", NULL, HOSTNAME_BYTE},
        {"a/b", NULL, HOSTNAME_BYTE},
        {"a@b", NULL, HOSTNAME_BYTE},
        {"a:1", NULL, HOSTNAME_BYTE},
        {"::1", NULL, HOSTNAME_BYTE},
        {"a\x7f", NULL, HOSTNAME_BYTE},
        {"a\n", NULL, HOSTNAME_BYTE},
        {"a／b", NULL, HOSTNAME_BYTE}, /* maps to a slash */
        {"127.3", NULL, HOSTNAME_NUMBER},
        {"2130706435", NULL, HOSTNAME_NUMBER},
        {"0x7f000003", NULL, HOSTNAME_NUMBER},
        {"0X7F.1", NULL, HOSTNAME_NUMBER},
        {"017700000003", NULL, HOSTNAME_NUMBER},
        {"127.0.0.1.", NULL, HOSTNAME_NUMBER},
        {"127.0.0.01", NULL, HOSTNAME_NUMBER},
        {"256.0.0.1", NULL, HOSTNAME_NUMBER},
        {"h.0x", NULL, HOSTNAME_NUMBER},
        {"h.1.", NULL, HOSTNAME_NUMBER},
        {"１２７.3", NULL, HOSTNAME_NUMBER},
        {"\xc3", NULL, HOSTNAME_IDNA},
        {"\xc3\xbc.\xff", NULL, HOSTNAME_IDNA},
        {"☃.example", NULL, HOSTNAME_IDNA},
        {"xn--ü.example", NULL, HOSTNAME_IDNA},
        {"a\xe2\x80\x8d"
         "b",
         NULL, HOSTNAME_IDNA}, /* a joiner without anything to join */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check(&rows[i], strlen(rows[i].text));
    }
    const struct row nul = {"a\0b", NULL, HOSTNAME_BYTE}, wide = {"ü\0b", NULL, HOSTNAME_IDNA};
    check(&nul, 3);
    check(&wide, 4);
}

/* "xn--" and what no U-label becomes: garbage, plain ASCII, what IDNA forbids or maps. */
static void test_a_label_that_is_none(void **state)
{
    static const char *const texts[] = {
        "xn--",
        "xn--.example",
        "a.xn--.example",
        "xn--a",
        "XN--A.example.",
        "xn--99999999",
        "xn--bcher-kva-",
        "xn--bcher!kva",
        "xn--bcher-kv\xc3\xa4",
        "xn--abc-",        /* "abc" */
        "xn--n3h.example", /* a snowman */
        "xn--bcher-2pa",   /* with a capital */
        "xn--bucher-xyd",  /* not composed */
        "xn--ab-m1t",      /* a joiner without anything to join */
        "xn--jm6c",        /* a ligature */
        "xn--a-wbb",       /* begins with an accent */
        "xn--xn---3ra",    /* two prefixes */
        "xn--bcher-kva.xn--a",
        "xn--bcher-kva.xn--a.xn--bcher-kva",
        "xn--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-kva",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check(&(struct row){texts[i], NULL, HOSTNAME_IDNA}, strlen(texts[i]));
    }
}

static void test_hostname_length(void **state)
{
    uint8_t text[HOSTNAME_MAX + 1], room[HOSTNAME_MAX];
    struct hostname name = {.text = room};
    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(hostname_read(text, HOSTNAME_MAX, &name), HOSTNAME_NAME);
    assert_int_equal(name.len, HOSTNAME_MAX);
    assert_int_equal(hostname_read(text, HOSTNAME_MAX + 1, &name), HOSTNAME_BYTE);
    memcpy(text + 100, "ü", 2); /* a label of an IDN has 63 bytes at most */
    assert_int_equal(hostname_read(text, HOSTNAME_MAX, &name), HOSTNAME_IDNA);
}

static void test_localhost(void **state)
{
    static const char *const is[] = {"localhost", "LocalHost.", "a.localhost", "b.a.localhost.",
                                     "ｌｏｃａｌｈｏｓｔ"};
    static const char *const is_not[] = {
        "localhost.example", "notlocalhost", "localhosts", "localhost.localdomain",
        "localhost6",        "host",         "h."};
    (void)state;
    for (size_t i = 0; i < sizeof(is) / sizeof(is[0]) + sizeof(is_not) / sizeof(is_not[0]); i++) {
        uint8_t room[HOSTNAME_MAX];
        struct hostname name = {.text = room};
        bool is_one = i < sizeof(is) / sizeof(is[0]);
        const char *text = is_one ? is[i] : is_not[i - sizeof(is) / sizeof(is[0])];
        print_message("    %s\n", text);
        assert_int_equal(hostname_read((const uint8_t *)text, strlen(text), &name), HOSTNAME_NAME);
        assert_int_equal(hostname_is_localhost(name.text, name.len), is_one);
    }
    assert_false(hostname_is_localhost((const uint8_t *)"", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostname_has_one_form),
        cmocka_unit_test(test_hostname_that_is_an_address),
        cmocka_unit_test(test_hostname_that_is_none),
        cmocka_unit_test(test_a_label_that_is_none),
        cmocka_unit_test(test_hostname_length),
        cmocka_unit_test(test_localhost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
