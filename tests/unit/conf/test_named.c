/* SPDX-License-Identifier: BSD-2-Clause */
/* Sections that name something; what is particular to schemes is in test_scheme.c. */
#include "conf/config.h"
#include "conf/schema.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct config_errors errors;

static struct config *load_good(const char *text, const char *const *sets, size_t set_count)
{
    struct config_source source = {.file = "a.conf",
                                   .text = text,
                                   .text_len = strlen(text),
                                   .sets = sets,
                                   .set_count = set_count};
    struct config *config = NULL;
    int error = config_load(&source, &errors, &config);

    config_errors_print(&errors, "", stderr);
    assert_int_equal(error, 0);
    return config;
}

static const char two_routes[] = "[route zebra]\n"
                                 "via = coap://192.0.2.1\n"
                                 "target = coap://a.example\n"
                                 "[route ant]\n"
                                 "target = coap://b.example\n"
                                 "via = coap://Parent.Example\n"
                                 "form = proxy-uri\n"
                                 "[route zebra]\n"
                                 "target = coap://c.example\n";

static void test_sections_keep_the_order_of_the_file(void **state)
{
    struct config *config = load_good(two_routes, NULL, 0);

    (void)state;
    assert_int_equal(config->route_count, 2);
    assert_string_equal(config->routes[0].name, "zebra");
    assert_string_equal(config->routes[0].via, "coap://192.0.2.1");
    assert_int_equal(config->routes[0].form, ROUTE_FORM_PROXY_CRI);
    assert_int_equal(config->routes[0].target.count, 2);
    assert_string_equal(config->routes[0].target.items[0], "coap://a.example");
    assert_string_equal(config->routes[0].target.items[1], "coap://c.example");
    assert_string_equal(config->routes[1].name, "ant");
    assert_int_equal(config->routes[1].form, ROUTE_FORM_PROXY_URI);
    assert_int_equal(config->routes[1].pattern_count, 1);
    assert_int_equal(config->routes[1].kind, ROUTE_KIND_PARENT);
    assert_string_equal(config->routes[1].parent.name, "parent.example");
    assert_int_equal(config->routes[1].parent.address.port, 5683);
    config_free(config);
}

static void test_set_reaches_named_sections(void **state)
{
    static const char *const sets[] = {
        "route zebra.via=coap://[2001:db8::1]:61616", "route zebra.target=coap://d.example/a.b",
        "route last.one.target=coap://*", "route last.one.via=refuse"};
    struct config *config = load_good(two_routes, sets, 4);

    (void)state;
    assert_int_equal(config->route_count, 3);
    assert_string_equal(config->routes[0].via, "coap://[2001:db8::1]:61616");
    assert_int_equal(config->routes[0].target.count, 1); /* the first from a place replaces */
    assert_string_equal(config->routes[0].target.items[0], "coap://d.example/a.b");
    assert_string_equal(config->routes[2].name, "last.one");
    assert_string_equal(config->routes[2].via, "refuse");
    config_free(config);
}

static void test_kinds_have_tables_of_their_own(void **state)
{
    struct config *config =
        load_good("[upstream same]\ntarget = coaps://a.example\n"
                  "[access same]\ntarget = coap://b.example\n[access other]\ntarget = coap://*\n",
                  NULL, 0);

    (void)state;
    assert_int_equal(config->route_count, 0);
    assert_int_equal(config->upstream_count, 1);
    assert_int_equal(config->access_count, 2);
    assert_string_equal(config->upstreams[0].target.items[0], "coaps://a.example");
    assert_string_equal(config->access_rules[0].target.items[0], "coap://b.example");
    assert_string_equal(config->access_rules[1].name, "other");
    config_free(config);
}

struct bad {
    const char *text;
    const char *error; /* its start */
};

#define PUBLISH "[publish x]\ntarget = coap://h/s\npath = /x\n"
#define PUBLISHED "a.conf:4: [publish x] "

static const struct bad bad_files[] = {
    {"[route x]\nvia = direct\n", "a.conf:2: [route x] target: needed"},
    {"[route x]\ntarget = coap://*\n", "a.conf:2: [route x] via: needed"},
    {"[route x]\ntarget = coap://*\nvia = direct\nform = proxy-uri\n",
     "a.conf:4: [route x] form: only for a route to a parent proxy"},
    {"[route x]\ntarget = coap://*\ntarget = coap:/h\nvia = direct\n",
     "a.conf:3: [route x] target: byte 0: expected SCHEME://HOST, got \"coap:/h\""},
    {"[route x]\ntarget = coap://*\nvia = parent\n", "a.conf:3: [route x] via: expected direct"},
    {"[route x]\ntarget = coap://*\nvia = http://h\n",
     "a.conf:3: [route x] via: a parent proxy is asked over CoAP, not over HTTP"},
    {"[route x]\ntarget = coap://*\nvia = coap://h/x\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://h//\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://h?q\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://u@h\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://a..b\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://a%2Fb\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://[::1\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://h:0\n", "a.conf:3: [route x] via: needs a port"},
    {"[route x]\ntarget = coap://*\nvia = coap://[fe80::1]\n",
     "a.conf:3: [route x] via: a link-local address needs its interface"},
    {"[route x]\ntarget = coap://*\nvia = coap://[fe80::1%no-such-link]\n",
     "a.conf:3: [route x] via: expected SCHEME://HOST:PORT"},
    {"[route x]\ntarget = coap://*\nvia = coap://[ff02::1]\n",
     "a.conf:3: [route x] via: a parent proxy cannot have this address"},
    {"[route x]\nnope = 1\n", "a.conf:2: [route x]: no such key: \"nope\""},
    {"[route x]\nform = proxy-pigeon\n",
     "a.conf:2: [route x] form: expected proxy-cri, proxy-scheme-number, proxy-uri or "
     "proxy-scheme, got \"proxy-pigeon\""},
    {"[route x]\nvia = direct\nvia = refuse\ntarget = coap://*\n",
     "a.conf:3: [route x] via: set twice in this file, before in line 2"},
    {"[upstream]\npsk-key = zz\npsk-identity = a\n",
     "a.conf:2: [upstream] psk-key: expected 1 to 64 bytes in hexadecimal"},
    {"[upstream]\npsk-key = 123\npsk-identity = a\n", "a.conf:2: [upstream] psk-key: expected"},
    {"[upstream]\npsk-identity = a\n", "a.conf:2: [upstream] psk-identity: needs upstream.psk-key"},
    {"[upstream]\ncertificate = a\n", "a.conf:2: [upstream] certificate: needs upstream.key"},
    {"[upstream]\npsk-identity = a\npsk-key = 00\n[upstream x]\ntarget = *://*\npsk-key =\n",
     "a.conf:5: [upstream x] psk-identity: needs upstream.psk-key"},
    {"[upstream x]\ntarget = coap://h\noscore = a\noscore-replica = left\n",
     "a.conf:4: [upstream x] oscore-replica: needs cluster.replica"},
    {"[upstream x]\ntarget = coap://h\noscore-replica = left\n[cluster]\nreplica = left\n",
     "a.conf:3: [upstream x] oscore-replica: needs oscore"},
    {"[upstream x]\ntarget = coap://h\noscore = a\n[cluster]\nsecret-file = /proc/version\n",
     "a.conf:3: [upstream x] oscore: needs oscore-replica, as cluster.secret-file says"},
    {"[upstream x]\ntarget = coap://h\noscore = a\n[cluster]\nreplica = left\n",
     "a.conf:3: [upstream x] oscore: needs oscore-replica, as cluster.replica says"},
    {"[upstream x]\ntarget = coap://h\noscore = a\n[cache]\nshared = redis://192.0.2.1\n",
     "a.conf:3: [upstream x] oscore: needs oscore-replica, as cache.shared says"},
    {"[upstream x]\nca = a\n", "a.conf:2: [upstream x] target: needed"},
    {"[upstream x]\ntarget = coap:/h\n", "a.conf:2: [upstream x] target: byte 0"},
    {"[upstream x]\ntarget = http://h\nheader = Authorization\n",
     "a.conf:3: [upstream x] header: line 1: expected a field"},
    {"[upstream x]\ntarget = http://h\nheader = X-A: b\nheader = Host: other\n",
     "a.conf:4: [upstream x] header: line 2: the proxy sets this field itself"},
    {"[upstream x]\ntarget = http://h\nheader-file = /nonexistent/lines\n",
     "a.conf:3: [upstream x] header-file: /nonexistent/lines cannot be read: No such file"},
    {"[http]\npoll = 10ms\n", "a.conf:2: [http] poll: expected 0s, or 1s or more"},
    {"[http]\nredirects = 11\n", "a.conf:2: [http] redirects: expected"},
    {"[route]\nvia = direct\n", "a.conf:1: expected the section proxy"},
    {"[route a b]\nvia = direct\n", "a.conf:1: expected the section proxy"},
    {"[route a\"b]\nvia = direct\n", "a.conf:1: expected the section proxy"},
    {"[media x]\ntype = a/b\n", "a.conf:1: expected the section proxy"},
    {"[media 065001]\ntype = a/b\n", "a.conf:1: expected the section proxy"},
    {"[media 65536]\ntype = a/b\n", "a.conf:1: expected the section proxy"},
    {"[media 65001]\ncoding = br\n", "a.conf:2: [media 65001] type: expected a media type, got"},
    {"[media 65001]\ntype = a b\n",
     "a.conf:2: [media 65001] type: expected a media type, got \"a b\""},
    {"[media 65001]\ntype = a/b\ncoding = no way\n",
     "a.conf:2: [media 65001] coding: expected a content coding, got \"no way\""},
    {"[media 50]\ntype = a/b\n",
     "a.conf:2: [media 50] type: 50 is the registered Content-Format of application/json"},
    {"[media 65001]\ntype = Application/JSON\n",
     "a.conf:2: [media 65001] type: \"Application/JSON\" is Content-Format 50 already"},
    {"[media 65001]\ntype = a/b\n[media 65002]\ntype = a/b\n",
     "a.conf:4: [media 65002] type: \"a/b\" is Content-Format 65001 already"},
    {"[publish x]\ntitle = a\n",
     "a.conf:2: [publish x] target: expected a URI, SCHEME://HOST[:PORT]/PATH[?QUERY], got \"\""},
    {"[publish x]\ntarget = /s/1\npath = /x\n", "a.conf:2: [publish x] target: expected a URI"},
    {"[publish x]\ntarget = coap://h/s#f\npath = /x\n", "a.conf:2: [publish x] target: expected"},
    {"[publish x]\ntarget = coap://u@h/s\npath = /x\n", "a.conf:2: [publish x] target: expected"},
    {"[publish x]\ntarget = ftp://h/s\npath = /x\n",
     "a.conf:2: [publish x] target: expected a scheme that is served"},
    {"[publish x]\ntarget = coap://[ff02::1]/s\npath = /x\n",
     "a.conf:2: [publish x] target: expected the name or the address of a host"},
    {"[publish x]\ntarget = coap://h:0/s\npath = /x\n",
     "a.conf:2: [publish x] target: needs a port"},
    {"[publish x]\ntarget = coap://h/%ff\npath = /x\n",
     "a.conf:2: [publish x] target: percent-encoding of a byte that is no text"},
    {"[publish x]\ntarget = coap://h/s\n",
     "a.conf:2: [publish x] path: expected a path that begins with / and does not end in /"},
    {"[publish x]\ntarget = coap://h/s\npath = /x/\n", "a.conf:3: [publish x] path: expected"},
    {"[publish x]\ntarget = coap://h/s\npath = /x?y\n", "a.conf:3: [publish x] path: expected"},
    {"[publish x]\ntarget = coap://h/s\npath = /x\n[publish y]\ntarget = coap://h\npath = /%78\n",
     "a.conf:6: [publish y] path: another section publish has this path, got \"/%78\""},
    {"[publish x]\ntarget = coap://h/s\npath = /x\nmethods = GET BREW\n",
     "a.conf:4: [publish x] methods: expected GET, POST, PUT, DELETE, FETCH, PATCH or iPATCH, got "
     "\"BREW\""},
    {"[publish x]\ntarget = coap://h/s\npath = /x\ntitle = a\\b\n",
     "a.conf:4: [publish x] title: expected text without quotes"},
    {"[publish x]\ntarget = coap://h/s\npath = /x\nresource-type = a\\b\n",
     "a.conf:4: [publish x] resource-type: expected resource types"},
    {"[publish x]\ntarget = coap://h/s\npath = /x\ninterface = a\\b\n",
     "a.conf:4: [publish x] interface: expected interface descriptions"},
    {"[publish x]\ntarget = coap://h/s\npath = /x\ncontent-format = json\n",
     "a.conf:4: [publish x] content-format: expected numbers"},
    {PUBLISH "content-format = 0 65536\n",
     PUBLISHED "content-format: expected numbers up to 65535"},
    {PUBLISH "content-format = 050\n", PUBLISHED "content-format: expected numbers"},
    {PUBLISH "content-format = 0,60\n", PUBLISHED "content-format: expected numbers"},
    {PUBLISH "title = a\xc2\x9b\n", PUBLISHED "title: expected text"}, /* CSI, of C1 */
    {PUBLISH "observable = yes;x\n", PUBLISHED "observable: expected yes or no"},
    {"[publish x]\ntarget = coap://h/s\npath = /x>;rt=y\n", "a.conf:3: [publish x] path: expected"},
    {"[device x]\nidentity = a\n", "a.conf:2: [device x] identity: needs devices.zone"},
    {"[devices]\nzone = d.example\n[device x_y]\nidentity = a\n", "a.conf:3: "},
    {"[devices]\nzone = d.example\n[device -x]\nidentity = a\n", "a.conf:3: "},
    {"[devices]\nzone = d.example\n[device x]\nidentity = *\n",
     "a.conf:4: [device x] identity: a device is one that is known by name, not any"},
    {"[devices]\nzone = d.example\n[device x]\ncertificate = a\n[device y]\nidentity = a\n"
     "certificate = a\n",
     "a.conf:7: [device y] certificate: another section device has this, too"},
    {"[devices]\nzone = d.example\n[limits]\nclients = 16\n[device a]\nidentity = a\n"
     "[device b]\nidentity = b\n[device c]\nidentity = c\n[device d]\nidentity = d\n"
     "[device e]\nidentity = e\n[device f]\nidentity = f\n[device g]\nidentity = g\n"
     "[device h]\nidentity = h\n[device i]\nidentity = i\n",
     "a.conf:22: [device i] identity: needs limits.clients of twice as many as there are devices"},
    {"[devices]\nzone = d.example\n[device x]\naddress = 192.0.2.0/24\nidentity = a\n",
     "a.conf:4: [device x] address: not together with what the device authenticates with"},
    {"[devices]\nzone = d.example\n[device x]\naddress = 192.0.2.1/33\n",
     "a.conf:4: [device x] address: "},
    {"[devices]\nzone = d..example\n",
     "a.conf:2: [devices] zone: expected a host name, under which no other hosts are"},
    {"[devices]\nzone = 192.0.2.1\n", "a.conf:2: [devices] zone: expected a host name"},
    {"[devices]\nzone = localhost\n", "a.conf:2: [devices] zone: expected a host name"},
    {"[proxy]\nnames = a b\n", "a.conf:2: [proxy] names: expected HOST or HOST:PORT, got \"a b\""},
    {"[proxy]\nnames = a:0\n", "a.conf:2: [proxy] names: expected HOST or HOST:PORT"},
    {"[proxy]\nnames = a/b\n", "a.conf:2: [proxy] names: expected HOST or HOST:PORT"},
    {"[proxy]\nnames = 0.0.0.0\n", "a.conf:2: [proxy] names: expected HOST or HOST:PORT"},
    {"[router x]\nvia = direct\n", "a.conf:1: expected the section proxy"},
};

static void test_bad_sections_are_refused_with_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
        struct config_source source = {
            .file = "a.conf", .text = bad_files[i].text, .text_len = strlen(bad_files[i].text)};
        struct config *config = NULL;
        assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
        print_message("%s\n", errors.text[0]);
        assert_memory_equal(errors.text[0], bad_files[i].error, strlen(bad_files[i].error));
    }
}

/* CH-12: lines of both, in this order; comments and empty lines are none. */
static void test_header_lines_come_from_keys_and_a_file(void **state)
{
    static const char *const bad[] = {"X-B: c\nContent-Length: 5\n", "X-B: c\001d\n", "X-B\n"};
    char name[] = "/tmp/criproxy-lines-XXXXXX", text[256];
    int fd = mkstemp(name);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(dprintf(fd, "# of the gateway\n\nX-B: c\r\n"), 26);
    (void)snprintf(text, sizeof(text),
                   "[upstream x]\ntarget = http://h\nheader = X-A: b\nheader-file = %s\n", name);
    struct config *config = load_good(text, NULL, 0);
    assert_int_equal(config->upstreams[0].line_count, 2);
    assert_string_equal(config->upstreams[0].lines[0], "X-A: b");
    assert_string_equal(config->upstreams[0].lines[1], "X-B: c");
    assert_true(config->has_web_credentials);
    config_free(config);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct config_source source = {
            .file = "a.conf", .text = text, .text_len = strlen(text)};
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, bad[i], strlen(bad[i]), 0), strlen(bad[i]));
        assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
        assert_non_null(strstr(errors.text[0], "[upstream x] header-file: line "));
        assert_null(strstr(errors.text[0], "X-B")); /* it may be a secret */
    }
    (void)close(fd);
    (void)unlink(name);
}

static void test_an_unknown_section_is_told_all_there_are(void **state)
{
    struct config_source source = {.file = "a.conf", .text = "[nope]\n", .text_len = 7};
    struct config *config = NULL;

    (void)state;
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    assert_non_null(strstr(errors.text[0], "resolve, "));
    assert_non_null(strstr(errors.text[0], "include, scheme NAME, route NAME, upstream NAME, "
                                           "access NAME, limit NAME, media NAME, publish NAME, "
                                           "fault NAME or device NAME, got \"nope\""));
}

static void test_a_section_is_told_what_is_near(void **state)
{
    static const char *const near[][2] = {
        {"[polcy]\n", "got \"polcy\"; did you mean [policy]?"},
        {"[acces desk]\n", "got \"acces desk\"; did you mean [access NAME]?"},
        {"[includes]\n", "got \"includes\"; did you mean [include]?"},
        {"[rout]\n", "got \"rout\"; did you mean [route NAME]?"},
        {"[access]\n", "got \"access\"; did you mean [access NAME]?"},
        {"[nonsense]\n", "got \"nonsense\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        struct config_source source = {
            .file = "a.conf", .text = near[i][0], .text_len = strlen(near[i][0])};
        struct config *config = NULL;
        assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
        const char *got = strstr(errors.text[0], "got ");
        assert_non_null(got);
        assert_string_equal(got, near[i][1]);
    }
}

/* --set takes any byte; a file of the configuration has neither quotes nor control characters. */
static void test_hostile_attributes_of_a_path_are_refused(void **state)
{
    static const char *const keys[] = {"title", "resource-type", "interface", "content-format"};
    static const char *const values[] = {
        "a\";rt=\"b", "a\\",  "a\\\"",          "\x01", "a\tb", "a\nb",    "a\r\nX-Y: z",
        "a\x1b[2Jb",  "\x7f", "a\xe2\x80\xa8z", "\xff", "\xc3", "\xc0\xa2" /* a quote */};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
            char set[64], wanted[64];
            (void)snprintf(set, sizeof(set), "publish x.%s=%s", keys[i], values[j]);
            (void)snprintf(wanted, sizeof(wanted), " %s: ", keys[i]);
            const char *const sets[] = {set};
            struct config_source source = {
                .file = "a.conf", .text = PUBLISH, .text_len = strlen(PUBLISH)};
            struct config *config = NULL;
            source.sets = sets;
            source.set_count = 1;
            assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
            assert_non_null(strstr(errors.text[0], wanted));
        }
    }
}

static void test_number_of_sections_is_bounded(void **state)
{
    enum { COUNT = 300 };
    char *text = NULL;
    size_t text_len = 0;
    FILE *out = open_memstream(&text, &text_len);

    (void)state;
    assert_non_null(out);
    for (int i = 0; i < COUNT; i++) {
        (void)fprintf(out, "[route x%d]\ntarget = coap://*\nvia = direct\n", i);
    }
    assert_int_equal(fclose(out), 0);
    struct config_source source = {.file = "a.conf", .text = text, .text_len = text_len};
    struct config *config = NULL;
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    assert_int_equal(errors.count, 2 * (COUNT - 256));
    assert_string_equal(errors.text[0], "a.conf:770: [route x256]: more than 256 of them");
    free(text);
}

/* It goes to workers as bytes; without it what replicas tell each other is not sealed. */
static void test_the_secret_of_a_cluster_is_that_of_its_file(void **state)
{
    static const char secret[] = "0123456789abcdef0123456789abcdef";
    char name[] = "/tmp/criproxy-secret-XXXXXX", text[128];
    int fd = mkstemp(name);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, secret, sizeof(secret) - 1), sizeof(secret) - 1);
    assert_int_equal(close(fd), 0);
    snprintf(text, sizeof(text), "[cluster]\nsecret-file = %s\n", name);
    struct config *config = load_good(text, NULL, 0);
    assert_int_equal(config->cluster_secret_len, sizeof(secret) - 1);
    assert_non_null(config->cluster_secret);
    assert_memory_equal(config->cluster_secret, secret, sizeof(secret) - 1);
    config_free(config);
    assert_int_equal(unlink(name), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections_keep_the_order_of_the_file),
        cmocka_unit_test(test_set_reaches_named_sections),
        cmocka_unit_test(test_kinds_have_tables_of_their_own),
        cmocka_unit_test(test_bad_sections_are_refused_with_the_place),
        cmocka_unit_test(test_header_lines_come_from_keys_and_a_file),
        cmocka_unit_test(test_an_unknown_section_is_told_all_there_are),
        cmocka_unit_test(test_a_section_is_told_what_is_near),
        cmocka_unit_test(test_hostile_attributes_of_a_path_are_refused),
        cmocka_unit_test(test_number_of_sections_is_bounded),
        cmocka_unit_test(test_the_secret_of_a_cluster_is_that_of_its_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
