/* SPDX-License-Identifier: BSD-2-Clause */
/* Mappings between HTTP URIs and CoAP URIs (RFC 8075 section 5; HC-2, HC-3, HC-4). */
#include "support/test.h"

#include "coap/http_uri.h"

static int find(const char *template, const char *request_target, struct http_uri *ret_uri)
{
    const struct http_mapping mapping = {.prefix = "/hc/", .template = template};
    struct bytes text = {(const uint8_t *)request_target, strlen(request_target)};
    return http_uri_find(&mapping, text, ret_uri);
}

/* The examples of sections 5.3 and 5.4 in both directions, and what else a mapping may be. */
static void test_mappings_go_both_ways(void **state)
{
    (void)state;
    static const struct {
        const char *template, *hosting, *target;
    } rows[] = {
        {"", "/hc/coap://s.example.com/light", "coap://s.example.com/light"},
        {"", "/hc/coap://%5B2001:db8::1%5D/light?on", "coap://[2001:db8::1]/light?on"},
        {"", "/hc/coaps+tcp://h:61616/a%2Fb?x=%3F&y", "coaps+tcp://h:61616/a%2Fb?x=%3F&y"},
        {"", "/hc/coap://h", "coap://h"},
        {"?target_uri={+tu}", "/hc/?target_uri=coap://s.example.com/light",
         "coap://s.example.com/light"},
        {"forward/{+tu}", "/hc/forward/coaps://s.example.com/light", "coaps://s.example.com/light"},
        {"{+s}/{+hp}{+p}{+qq}", "/hc/coap/s.example.com/light", "coap://s.example.com/light"},
        {"{+s}/{+hp}{+p}{+qq}", "/hc/coap/s.example.com/light?on", "coap://s.example.com/light?on"},
        {"{+s}/{+hp}{+p}{+qq}", "/hc/coap/%5B::1%5D:99?on", "coap://[::1]:99?on"},
        {"?s={+s}&hp={+hp}&p={+p}&q={+q}",
         "/hc/?s=coap&hp=s.example.com&p=/light&q=", "coap://s.example.com/light"},
        {"?s={+s}&hp={+hp}&p={+p}&q={+q}", "/hc/?s=coaps&hp=s.example.com&p=/light&q=on",
         "coaps://s.example.com/light?on"},
        {"lab/{+hp}{+p}{+qq}", "/hc/lab/h/x?y", "coap://h/x?y"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct http_mapping mapping = {.prefix = "/hc/", .template = rows[i].template};
        struct http_uri uri;
        char hosting[HTTP_MAPPED_MAX];
        assert_null(http_template_error(rows[i].template));
        assert_int_equal(find(rows[i].template, rows[i].hosting, &uri), 200);
        assert_int_equal(uri.kind, HTTP_URI_TARGET);
        assert_string_equal(uri.text, rows[i].target);
        assert_false(uri.is_absolute);
        size_t len = http_uri_host(&mapping, rows[i].target, hosting);
        assert_int_equal(len, strlen(hosting));
        assert_string_equal(hosting, rows[i].hosting);
    }
}

static void test_what_is_no_mapping_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *template, *request_target;
        int status;
    } rows[] = {
        {"", "/hc/s.example.com/light", 400},       /* RFC 8075 section 5.3.1 */
        {"", "/hc/coap:/s.example.com/light", 400}, /* slashes merged on the way */
        {"", "/hc/", 400},
        {"", "/hc", 404},
        {"", "/", 404},
        {"", "/other", 404},
        {"", "http://h/hc/coap://h/x", 501},
        {"", "HTTPS://h/", 501},
        {"", "*", 400},
        {"", "h:80", 400},
        {"", "", 400},
        {"?target_uri={+tu}", "/hc/coap://h/x", 400},
        {"{+s}/{+hp}{+p}{+qq}", "/hc/coap//x", 400},
        {"{+s}/{+hp}{+p}{+qq}", "/hc/coap", 400},
        {"{+s}/{+hp}{+p}{+qq}", "/hc/co:ap/h/x", 400},
        {"?hp={+hp}&p={+p}", "/hc/?hp=h&p=x", 400}, /* a path begins with its slash */
        {"?hp={+hp}&p={+p}", "/hc/?hp=h&p=xy", 400},
        {"?hp={+hp}&p={+p}", "/hc/?hp=&p=/x", 400},
        {"?hp={+hp}&qq={+qq}", "/hc/?hp=h&qq=y", 400},
        {"?hp={+hp}&qq={+qq}", "/hc/?hp=h&qq=yz", 400},
        {"{cri}", "/hc/****", 400},
        {"{cri}", "/hc/", 400},
        {"{cri}", "/hc/A", 400},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_uri uri;
        if (find(rows[i].template, rows[i].request_target, &uri) != rows[i].status) {
            fail_msg("%s with %s", rows[i].request_target, rows[i].template);
        }
        assert_string_not_equal(uri.why, "");
    }
}

static void test_the_absolute_form_is_a_forward_proxy_s(void **state)
{
    (void)state;
    struct http_uri uri;
    assert_int_equal(find("", "coap://[2001:db8::1]/x?y", &uri), 200);
    assert_true(uri.is_absolute);
    assert_string_equal(uri.text, "coap://[2001:db8::1]/x?y");
}

static void test_a_cri_is_decoded(void **state)
{
    (void)state;
    /* [-1, ["h"], ["x"]] */
    struct http_uri uri;
    assert_int_equal(find("{cri}", "/hc/gyCBYWiBYXg", &uri), 200);
    assert_int_equal(uri.kind, HTTP_URI_CRI);
    assert_int_equal(uri.len, 8);
    assert_memory_equal(uri.text, "\x83\x20\x81\x61\x68\x81\x61\x78", 8);
    const struct http_mapping mapping = {.prefix = "/hc/", .template = "{cri}"};
    char hosting[HTTP_MAPPED_MAX];
    assert_int_equal(http_uri_host(&mapping, "coap://h/x", hosting), 15);
    assert_string_equal(hosting, "/hc/gyCBYWiBYXg");
    assert_int_equal(http_uri_host(&mapping, "coap://h/%", hosting), 0); /* no CRI */
}

static void test_well_known_uris_are_the_proxy_s_own(void **state)
{
    (void)state;
    struct http_uri uri;
    assert_int_equal(find("", "/.well-known/core?rt=core.hc", &uri), 200);
    assert_int_equal(uri.kind, HTTP_URI_CORE);
    assert_string_equal(uri.text, "?rt=core.hc");
    assert_int_equal(find("", "/.well-known/coap", &uri), 200);
    assert_int_equal(uri.kind, HTTP_URI_SOCKET);
    assert_int_equal(find("", "/.well-known/corex", &uri), 404);
}

/* Proxy-Uri takes 1,034 bytes. */
static void test_long_uris_are_414(void **state)
{
    (void)state;
    char text[HTTP_URI_MAX + 8] = "/hc/coap://h/";
    struct http_uri uri;
    memset(text + 13, 'x', HTTP_URI_MAX + 4 - 13);
    text[HTTP_URI_MAX + 4] = '\0';
    assert_int_equal(find("", text, &uri), 200);
    assert_int_equal(uri.len, HTTP_URI_MAX);
    text[HTTP_URI_MAX + 4] = 'x';
    text[HTTP_URI_MAX + 5] = '\0';
    assert_int_equal(find("", text, &uri), 414);
}

static void test_templates_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{tu}",          "{+tu",   "{+x}",       "{+tu}{+tu}",      "{+tu}/{+s}",
        "{+s}{+hp}{+p}", "{+p}",   "none",       "{+hp}{+p}/{+hp}", "{+q}{+p}/{+hp}",
        "a\"b{+tu}",     "#{+tu}", "{cri}{+tu}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (http_template_error(bad[i]) == NULL) {
            fail_msg("%s", bad[i]);
        }
    }
    assert_null(http_template_error("{cri}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mappings_go_both_ways),
        cmocka_unit_test(test_what_is_no_mapping_is_refused),
        cmocka_unit_test(test_the_absolute_form_is_a_forward_proxy_s),
        cmocka_unit_test(test_a_cri_is_decoded),
        cmocka_unit_test(test_well_known_uris_are_the_proxy_s_own),
        cmocka_unit_test(test_long_uris_are_414),
        cmocka_unit_test(test_templates_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
