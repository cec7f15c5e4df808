/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/config.h"

#include "conf/value.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct config_errors errors;

static int load_text(const char *text, struct config **ret_config)
{
    struct config_source source = {.file = "a.conf", .text = text, .text_len = strlen(text)};

    return config_load(&source, &errors, ret_config);
}

static struct config *load_good(const char *text)
{
    struct config *config = NULL;
    int error = load_text(text, &config);

    config_errors_print(&errors, "", stderr);
    assert_int_equal(error, 0);
    assert_int_equal(errors.count, 0);
    return config;
}

static void test_defaults_listen_on_loopback_only(void **state)
{
    struct config *config = NULL;

    (void)state;
    assert_int_equal(config_load(NULL, &errors, &config), 0);
    assert_int_equal(config->proxy_workers, 0);
    assert_int_equal(config->proxy_ack_delay, 250);
    assert_int_equal(config->proxy_scheme_port, SCHEME_PORT_LITERAL);
    assert_int_equal(config->limits_dedup_bytes, 16 << 20);
    assert_int_equal(config->log_level, LOG_LEVEL_INFO);
    assert_int_equal(config->listener_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(config->listeners[i].is_default);
        assert_true(address_is_loopback(&config->listeners[i].bind));
        assert_int_equal(config->listeners[i].bind.port, 5683);
    }
    config_free(config);
}

static void test_keys_of_a_file_are_taken(void **state)
{
    struct config *config = load_good("\xef\xbb\xbf# a comment\n"
                                      "[proxy]\r\n"
                                      "  workers=2 ; why not\n"
                                      "\tstrict = yes # indented is no continuation\n"
                                      "ack-delay   =   1s\n"
                                      "\n"
                                      "[ listen ]\n"
                                      "uri = coap://127.0.0.1:0\n"
                                      "uri = coap://[::1%1]\n"
                                      "[log]\n"
                                      "format=json");

    (void)state;
    assert_int_equal(config->proxy_workers, 2);
    assert_true(config->proxy_strict);
    assert_int_equal(config->proxy_ack_delay, 1000);
    assert_int_equal(config->log_format, LOG_FORMAT_JSON);
    assert_int_equal(config->listen_uri.count, 2);
    assert_string_equal(config->listen_uri.items[0], "coap://127.0.0.1:0");
    assert_int_equal(config->listeners[0].bind.port, 0);
    assert_int_equal(config->listeners[1].bind.port, 5683);
    assert_int_equal(config->listeners[1].bind.family, ADDRESS_IPV6);
    assert_false(config->listeners[1].is_default);
    config_free(config);
}

static void test_texts_are_taken_as_they_stand(void **state)
{
    const char *const sets[] = {"tls.psk-file=/etc/my keys"};
    const char *text = "[tls]\npsk-file = keys\nclient-ca =\n";
    struct config_source source = {
        .file = "a.conf", .text = text, .text_len = strlen(text), .sets = sets, .set_count = 1};
    struct config *config = NULL;
    struct config *defaults = NULL;

    (void)state;
    assert_int_equal(config_load(&source, &errors, &config), 0);
    assert_int_equal(config_load(NULL, &errors, &defaults), 0);
    assert_string_equal(config->tls_psk_file, "/etc/my keys");
    assert_string_equal(config->tls_client_ca, "");
    assert_string_equal(defaults->tls_psk_file, "");
    assert_int_equal(config_keep_started(config, defaults, NULL, NULL), 0);
    assert_string_equal(config->tls_psk_file, "/etc/my keys"); /* a reload takes it over */
    config_free(config);
    config_free(defaults);
}

static const struct {
    const char *uri;
    enum transport transport;
    uint16_t port;
} kinds[] = {
    {"coap://127.0.0.1", TRANSPORT_UDP, 5683},      {"coaps://127.0.0.1", TRANSPORT_DTLS, 5684},
    {"coap+tcp://127.0.0.1", TRANSPORT_TCP, 5683}, /* the same port, but not of UDP */
    {"coaps+tcp://127.0.0.1", TRANSPORT_TLS, 5684}, {"coap+ws://127.0.0.1", TRANSPORT_WS, 80},
    {"coaps+ws://127.0.0.1", TRANSPORT_WSS, 443},   {"http://127.0.0.2", TRANSPORT_HTTP, 80},
    {"https://127.0.0.2", TRANSPORT_HTTPS, 443},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void test_listeners_have_their_kind_and_port(void **state)
{
    const char *uris[KINDS];
    const char *const sets[] = {"tls.psk-file=keys"};
    struct config_source source = {
        .listens = uris, .listen_count = KINDS, .sets = sets, .set_count = 1};
    struct config *config = NULL;

    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        uris[i] = kinds[i].uri;
    }
    assert_int_equal(config_load(&source, &errors, &config), 0);
    assert_int_equal(config->listener_count, KINDS);
    for (size_t i = 0; i < KINDS; i++) {
        assert_int_equal(config->listeners[i].transport, kinds[i].transport);
        assert_int_equal(config->listeners[i].bind.port, kinds[i].port);
    }
    config_free(config);
}

#define LONG_50 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee"
#define LONG_200 LONG_50 LONG_50 LONG_50 LONG_50

struct bad {
    const char *text;
    const char *error; /* its start */
};

static const struct bad bad_files[] = {
    {"[proxy]\nworkers = many\n",
     "a.conf:2: [proxy] workers: expected auto or a whole number from 1 "
     "to 256, got \"many\""},
    {"[proxy]\nworkers =\n", "a.conf:2: [proxy] workers: expected auto or a whole number from 1 to "
                             "256, got \"\""},
    {"[proxy]\nack-delay = 5\n",
     "a.conf:2: [proxy] ack-delay: expected a time with its unit (ms, s, min or h) from 0 to "
     "1500ms, got \"5\""},
    {"[access a]\ntarget = \"coap://h\"\n",
     "a.conf:2: target: quotes are not part of the format, write the value without them"},
    {"[access a]\nmethods = GET \"PUT\"\n", "a.conf:2: methods: quotes are not part"},
    {"[access a]\nidentity = 'sensor'\n", "a.conf:2: identity: quotes are not part"},
    {"[upstream]\npsk-identity = a\npsk-key = 00\npsk-key-file = k\n",
     "a.conf:3: [upstream] psk-key: there is a psk-key-file too"},
    {"[upstream]\npsk-key-file = k\n",
     "a.conf:2: [upstream] psk-key-file: needs upstream.psk-identity"},
    {"[proxy]\nnope = 5\n", "a.conf:2: [proxy]: no such key: \"nope\""},
    {"[proxy]\nack_delay = 5ms\n", "a.conf:2: [proxy]: no such key: \"ack_delay\""},
    {"[proxies]\nworkers = 2\nx\n", "a.conf:1: expected the section proxy, listen, "},
    {"workers = 2\n", "a.conf:1: expected a [SECTION] before the first key, got \"workers = 2\""},
    {"[proxy]\nname = a b\n",
     "a.conf:2: [proxy] name: expected 1 to 64 printable ASCII characters without a space, got "
     "\"a b\""},
    {"[proxy]\nname =\n", "a.conf:2: [proxy] name: expected 1 to 64 printable"},
    {"[proxy]\nname = "
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
     "a.conf:2: [proxy] name: expected 1 to 64 printable"},
    {"[proxy]\nworkers\n", "a.conf:2: expected [SECTION] or KEY = VALUE, got \"workers\""},
    {"[proxy]\nworkers: 2\n", "a.conf:2: expected [SECTION] or KEY = VALUE, got \"workers: 2\""},
    {"[proxy]\n= 2\n", "a.conf:2: expected [SECTION] or KEY = VALUE, got \"= 2\""},
    {"[proxy\nworkers = 2\n", "a.conf:1: expected [SECTION] on a line of its own, got \"[proxy\""},
    {"[proxy] x\n", "a.conf:1: expected [SECTION] on a line of its own, got \"[proxy] x\""},
    {"[]\n", "a.conf:1: expected [SECTION] on a line of its own, got \"[]\""},
    {"[" LONG_50 "]\n", "a.conf:1: section name too long"},
    {"[proxy]\nworkers = 2\nstrict = no\nworkers = 3\n",
     "a.conf:4: [proxy] workers: set twice in this file, before in line 2"},
    {"[proxy]\nworkers = 2\n[log]\nlevel = info\n[proxy]\nworkers = 2\n",
     "a.conf:6: [proxy] workers: set twice in this file, before in line 2"},
    {"[proxy]\nworkers = \x01\x7f\"\n",
     "a.conf:2: control byte in the line, got \"workers = \\x01\\x7f\\\"\""},
    {"[proxy]\nworkers = \xc3\xa9\n",
     "a.conf:2: [proxy] workers: expected auto or a whole number from 1 to 256, got "
     "\"\\xc3\\xa9\""},
    {"[listen]\nuri = " LONG_200 "\n", "a.conf:2: line longer than 197 bytes"},
    {"[listen]\nuri =\n", "a.conf:2: [listen] uri: expected coap://ADDRESS:PORT, or one of these "
                          "for coap: coap coaps coap+tcp"},
    {"[listen]\nuri = coaps://127.0.0.1\n",
     "a.conf:2: [listen] uri: needs tls.certificate and tls.key, tls.raw-key or tls.psk-file, got"},
    {"[listen]\nuri = coaps+ws://127.0.0.1\n",
     "a.conf:2: [listen] uri: needs tls.certificate and tls.key, tls.raw-key or tls.psk-file, got"},
    {"[listen]\nuri = coap://127.0.0.1:9\nuri = coaps://127.0.0.1:9\n[tls]\npsk-file = a\n",
     "a.conf:3: [listen] uri: address given twice"},
    {"[tls]\ncertificate = a.pem\n", "a.conf:2: [tls] certificate: needs tls.key"},
    {"[tls]\nkey = a.key\n", "a.conf:2: [tls] key: needs tls.certificate"},
    {"[tls]\nclient-ca = a.pem\n", "a.conf:2: [tls] client-ca: needs tls.certificate"},
    {"[tls]\nrequire-client-certificate = yes\n",
     "a.conf:2: [tls] require-client-certificate: needs tls.client-ca"},
    {"[tls]\npsk-file = a\npsk-file = b\n",
     "a.conf:3: [tls] psk-file: set twice in this file, before in line 2"},
    {"[listen]\nuri = ftp://127.0.0.1\n", "a.conf:2: [listen] uri: expected coap://ADDRESS:PORT"},
    {"[listen]\nuri = https://127.0.0.1\n", "a.conf:2: [listen] uri: needs tls.certificate"},
    {"[http]\nprefix = hc/\n", "a.conf:2: [http] prefix: expected a path that begins and ends"},
    {"[http]\nprefix = /a?b/\n", "a.conf:2: [http] prefix: expected a path that begins and ends"},
    {"[http]\ntokens-file = no/such\n",
     "a.conf:2: [http] tokens-file: no/such cannot be read: No such"},
    {"[http]\ntemplate = {+x}\n", "a.conf:2: [http] template: the variables are {+tu}"},
    {"[listen]\nuri = coap://localhost\n",
     "a.conf:2: [listen] uri: expected coap://ADDRESS:PORT with an IPv4 address"},
    {"[listen]\nuri = coap://127.0.0.1:65536\n",
     "a.conf:2: [listen] uri: expected coap://ADDRESS:PORT with an IPv4 address"},
    {"[listen]\nuri = coap://127.0.0.1/path\n",
     "a.conf:2: [listen] uri: expected coap://ADDRESS:PORT with an IPv4 address"},
    {"[listen]\nuri = coap://[ff02::fd]\n",
     "a.conf:2: [listen] uri: a multicast address cannot be listened on"},
    {"[listen]\nuri = coap://127.0.0.1\nuri = coap://127.0.0.1:5683\n",
     "a.conf:3: [listen] uri: address given twice"},
    {"[listen]\nuri = coap://[::]\nuri = coap://*\n",
     "a.conf:3: [listen] uri: address given twice"},
    {"[listen]\nuri = coap://*:0\n", "a.conf:2: [listen] uri: with * a port is needed"},
    {"[listen]\nuri = coap://**\n", "a.conf:2: [listen] uri: expected coap://ADDRESS:PORT with"},
    {"[limits]\ndatagram-bytes = 2KiB\n[proxy]\nmax-token-bytes = 1025\n",
     "a.conf:4: [proxy] max-token-bytes: more than half of limits.datagram-bytes"},
    {"[include]\nfile = b.conf\n", "a.conf:2: [include] file: only a file can include another"},
    {"[include]\nfolder = b\n", "a.conf:2: [include]: no such key: \"folder\""},
    {"[proxy]\nstrickt = yes\n",
     "a.conf:2: [proxy]: no such key: \"strickt\"; did you mean strict?"},
    {"[proxy]\nwrokers = 2\n",
     "a.conf:2: [proxy]: no such key: \"wrokers\"; did you mean workers?"},
    {"[proxy]\npsk-file = a\n", "a.conf:2: [proxy]: no such key: \"psk-file\"; [tls] has it"},
    {"[access desk]\nacton = allow\n",
     "a.conf:2: [access desk]: no such key: \"acton\"; did you mean action?"},
    {"[listen]\nendpoint = coap://[::1]:0\n",
     "a.conf:2: [listen]: no such key: \"endpoint\"; it has uri, buffer-bytes, "},
};

static void test_bad_files_are_refused_with_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
        struct config *config = NULL;
        assert_int_equal(load_text(bad_files[i].text, &config), -EINVAL);
        assert_null(config);
        print_message("%s\n", errors.text[0]);
        assert_int_equal(errors.count, 1);
        assert_memory_equal(errors.text[0], bad_files[i].error, strlen(bad_files[i].error));
    }
}

/* Every length around inih's own limit: whole, or refused, but never cut. */
static void test_no_line_length_is_cut_silently(void **state)
{
    (void)state;
    for (int len = 150; len < 250; len++) {
        char text[512];
        struct config *config = NULL;
        int used =
            snprintf(text, sizeof(text), "[listen]\nuri = coap://127.0.0.1:%0*d\n", len, 5683);
        assert_in_range(used, 1, sizeof(text) - 1);
        assert_int_equal(load_text(text, &config), -EINVAL);
        assert_int_equal(errors.count, 1);
        assert_non_null(strstr(errors.text[0], strlen("uri = coap://127.0.0.1:") + (size_t)len > 197
                                                   ? "line longer than"
                                                   : "expected coap://"));
    }
}

static void test_nul_byte_is_refused(void **state)
{
    static const char text[] = "[proxy]\nworkers = 2\0 3\n";
    struct config_source source = {.text = text, .text_len = sizeof(text) - 1};
    struct config *config = NULL;

    (void)state;
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    assert_string_equal(errors.text[0],
                        "text:2: control byte in the line, got \"workers = 2\\x00 3\"");
}

static void test_long_comments_are_no_error(void **state)
{
    config_free(load_good("[proxy]\n# " LONG_200 LONG_200 "\nworkers = 2 ; " LONG_200 "\n"));
    (void)state;
}

static void test_all_errors_are_collected_up_to_a_cap(void **state)
{
    struct config *config = NULL;
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof(text), "[proxy]\n");

    (void)state;
    for (int i = 0; i < 30; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "nope = 1\n");
    }
    assert_true(used < sizeof(text));
    assert_int_equal(load_text(text, &config), -EINVAL);
    assert_int_equal(errors.count, 30);
    char *printed = NULL;
    size_t printed_len = 0;
    FILE *out = open_memstream(&printed, &printed_len);
    assert_non_null(out);
    config_errors_print(&errors, "", out);
    (void)fclose(out);
    assert_non_null(strstr(printed, "a.conf:21: [proxy]: no such key: \"nope\"\nand 10 more\n"));
    free(printed);
}

static int load_sets(const char *const *sets, size_t count, struct config **ret_config)
{
    static const char text[] = "[proxy]\nworkers = 2\n[listen]\nuri = coap://127.0.0.1:1\n";
    struct config_source source = {
        .text = text, .text_len = strlen(text), .sets = sets, .set_count = count};

    return config_load(&source, &errors, ret_config);
}

/* The field of a key has the value that @p text stands for. */
static void assert_row(const struct config *config, const char *section, const char *key,
                       const char *text)
{
    const struct config_row *row = config_rows;
    struct config *other = malloc(sizeof(*other));
    uint64_t value = 0;

    while (strcmp(row->section, section) != 0 || strcmp(row->name, key) != 0) {
        row++;
    }
    assert_non_null(other);
    memcpy(other, config, sizeof(*other));
    assert_true(value_parse(row, text, &value));
    value_store(other, row, value);
    if (memcmp(other, config, sizeof(*other)) != 0) {
        fail_msg("%s.%s is not %s", section, key, text);
    }
    free(other);
}

static void test_set_wins_over_the_file(void **state)
{
    static const char *const sets[] = {"proxy.workers=3", "proxy.workers=4",
                                       "scheme coap.nstart-max=9"};
    struct config *config = NULL;

    (void)state;
    assert_int_equal(load_sets(sets, 3, &config), 0);
    assert_int_equal(config->proxy_workers, 4);
    assert_int_equal(config_scheme_by_number(config, 0)->nstart_max, 9);
    assert_int_equal(config->listener_count, 1);
    config_free(config);
}

/* One key sizes the tables; what is set stays, before or after it, in a file or not. */
static void test_size_gives_defaults_and_sets_nothing(void **state)
{
    struct config *medium = load_good("[proxy]\nsize = medium\n");
    struct config *config = NULL;

    (void)state;
    assert_int_equal(config_load(NULL, &errors, &config), 0);
    assert_int_equal(config->proxy_size, PROXY_SIZE_MEDIUM);
#define SIZED(section, key, small, large)                                                          \
    assert_true(config->section##_##key == medium->section##_##key);
#include "conf/sizes.def"
#undef SIZED
    config_free(config);

    struct config *small = load_good("[limits]\nclients = 70000\n[proxy]\nsize = small\n"
                                     "[cache]\nmax-bytes = 16MiB\n");
    struct config *large = load_good("[proxy]\nsize = large\n");
    assert_int_equal(small->limits_clients, 70000);
    assert_int_equal(small->cache_max_bytes, 16 << 20);
    assert_int_equal(small->limits_exchanges, 1024);
    assert_int_equal(small->limits_dedup_bytes, 1 << 20);
    assert_int_equal(large->limits_clients, 524288);
    unsigned grown = 0;
#define SIZED(section, key, small_text, large_text)                                                \
    grown += large->section##_##key > medium->section##_##key;                                     \
    assert_true(large->section##_##key >= medium->section##_##key);                                \
    assert_true(small->section##_##key <= medium->section##_##key);
#include "conf/sizes.def"
#undef SIZED
    assert_true(grown > 20);
    config_free(medium);
    config_free(small);
    config_free(large);

    config = load_good("[proxy]\nsize = small\n");
#define SIZED(section, key, small_text, large_text) assert_row(config, #section, #key, small_text);
#include "conf/sizes.def"
#undef SIZED
    config_free(config);
}

/* Issue 17: many at once wait for a window that has to open; a slow origin server leaves some. */
static void test_a_queue_has_three_quarters_of_the_exchanges(void **state)
{
    static const char *const sizes[] = {"[proxy]\nsize = small\n", "[proxy]\nsize = medium\n",
                                        "[proxy]\nsize = large\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct config *config = load_good(sizes[i]);
        assert_int_equal(config->limits_origin_queue, config->limits_exchanges / 4 * 3);
        config_free(config);
    }
}

static void test_first_set_of_a_list_replaces_and_the_next_adds(void **state)
{
    static const char *const sets[] = {"listen.uri=coap://127.0.0.1:2",
                                       "listen.uri=coap://127.0.0.1:3"};
    struct config *config = NULL;

    (void)state;
    assert_int_equal(load_sets(sets, 2, &config), 0);
    assert_int_equal(config->listener_count, 2);
    assert_int_equal(config->listeners[0].bind.port, 2);
    assert_int_equal(config->listeners[1].bind.port, 3);
    config_free(config);
}

static void test_listen_replaces_the_configured_listeners(void **state)
{
    static const char *const listens[] = {"coap://127.0.0.1:7", "coap://127.0.0.1:8"};
    static const char *const sets[] = {"listen.uri=coap://127.0.0.1:2"};
    struct config_source source = {
        .sets = sets, .set_count = 1, .listens = listens, .listen_count = 2};
    struct config *config = NULL;

    (void)state;
    assert_int_equal(config_load(&source, &errors, &config), 0);
    assert_int_equal(config->listener_count, 2);
    assert_int_equal(config->listeners[0].bind.port, 7);
    config_free(config);
}

static void test_an_asterisk_is_both_families(void **state)
{
    static const char *const listens[] = {"coap+tcp://*", "coap://*:7"};
    static const char *const uris[] = {"coap+tcp://[::]", "coap+tcp://0.0.0.0", "coap://[::]:7",
                                       "coap://0.0.0.0:7"};
    static const unsigned ports[] = {5683, 5683, 7, 7};
    struct config_source source = {.listens = listens, .listen_count = 2};
    struct config *config = NULL;

    (void)state;
    assert_int_equal(config_load(&source, &errors, &config), 0);
    assert_int_equal(config->listener_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct config_listener *listener = &config->listeners[i];
        assert_string_equal(listener->uri, uris[i]);
        assert_int_equal(listener->bind.port, ports[i]);
        assert_int_equal(listener->bind.family, i % 2 == 0 ? ADDRESS_IPV6 : ADDRESS_IPV4);
        assert_true(listener->may_lack);
        assert_false(listener->is_default);
    }
    config_free(config);
}

static const struct bad bad_sets[] = {
    {"", "--set: expected SECTION.KEY=VALUE, got \"\""},
    {"proxy", "--set: expected SECTION.KEY=VALUE, got \"proxy\""},
    {"workers=2", "--set: expected SECTION.KEY=VALUE"},
    {"proxy.workers", "--set: expected SECTION.KEY=VALUE"},
    {".workers=2", "--set: expected SECTION.KEY=VALUE"},
    {"proxy." LONG_200 "=2", "--set: expected SECTION.KEY=VALUE"},
    {LONG_200 ".workers=2", "--set: expected the section proxy"},
    {"proxy.workers=0", "--set: [proxy] workers: expected auto or a whole number"},
    {"scheme.number=2", "--set: expected the section proxy"},
    {"scheme 1x.number=2", "--set: expected the section proxy"},
    {"include.file=x", "--set: [include] file: only a file can include another"},
};

static void test_bad_sets_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_sets) / sizeof(bad_sets[0]); i++) {
        struct config *config = NULL;
        assert_int_equal(load_sets(&bad_sets[i].text, 1, &config), -EINVAL);
        print_message("%s\n", errors.text[0]);
        assert_int_equal(errors.count, 1);
        assert_memory_equal(errors.text[0], bad_sets[i].error, strlen(bad_sets[i].error));
    }
}

static void write_file(const char *folder, const char *name, const char *text, char path[256])
{
    assert_in_range(snprintf(path, 256, "%s/%s", folder, name), 1, 255);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static void test_included_files_win_and_are_found_beside_the_file(void **state)
{
    char folder[] = "/tmp/test_config.XXXXXX";
    char first[256];
    char second[256];
    struct config *config = NULL;

    (void)state;
    assert_non_null(mkdtemp(folder));
    write_file(folder, "a.conf", "[include]\nfile = b.conf\n[proxy]\nworkers = 2\nstrict = yes\n",
               first);
    write_file(folder, "b.conf", "[proxy]\nworkers = 3\n", second);
    struct config_source source = {.file = first};
    assert_int_equal(config_load(&source, &errors, &config), 0);
    assert_int_equal(config->proxy_workers, 3);
    assert_true(config->proxy_strict);
    config_free(config);

    write_file(folder, "b.conf", "[include]\nfile = a.conf\nfile = nowhere.conf\n", second);
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    assert_int_equal(errors.count, 2);
    assert_non_null(strstr(errors.text[0], "b.conf:2: [include] file: included already"));
    assert_non_null(strstr(errors.text[1], "nowhere.conf: cannot be read: No such file"));
    (void)unlink(first);
    (void)unlink(second);
    (void)rmdir(folder);
}

static void test_a_pattern_includes_what_matches(void **state)
{
    static const char *const names[] = {"20-b.conf", "10-a.conf", "notes.txt"};
    static const char *const texts[] = {"[proxy]\nworkers = 3\n", "[proxy]\nworkers = 2\n", "no"};
    char folder[] = "/tmp/test_config.XXXXXX";
    char first[256], others[3][256], many[70][256];
    struct config *config = NULL;

    (void)state;
    assert_non_null(mkdtemp(folder));
    write_file(folder, "main.conf", "[include]\nfile = *.conf\nfile = [x]*\n", first);
    for (size_t i = 0; i < 3; i++) {
        write_file(folder, names[i], texts[i], others[i]);
    }
    struct config_source source = {.file = first};
    assert_int_equal(config_load(&source, &errors, &config), 0);
    assert_int_equal(config->proxy_workers, 3); /* by name, and never itself */
    config_free(config);

    write_file(folder, names[1], "[include]\nfile = none.d/*\n", others[1]);
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    assert_int_equal(errors.count, 1);
    assert_non_null(strstr(errors.text[0], "10-a.conf:2: [include] file: the folder cannot be"));

    write_file(folder, names[1], "[proxy]\n\nstrict = maybe\n", others[1]);
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    assert_int_equal(errors.count, 1);
    assert_non_null(strstr(errors.text[0], "/10-a.conf:3: [proxy] strict: expected yes or no"));

    write_file(folder, names[1], "", others[1]);
    for (size_t i = 0; i < 70; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "30-%zu.conf", i);
        write_file(folder, name, "", many[i]);
    }
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    assert_int_equal(errors.count, 1);
    assert_non_null(strstr(errors.text[0], "main.conf:2: [include] file: more than 64 files"));
    for (size_t i = 0; i < 70; i++) {
        (void)unlink(many[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        (void)unlink(others[i]);
    }
    (void)unlink(first);
    (void)rmdir(folder);
}

static void test_a_folder_is_no_file(void **state)
{
    struct config_source source = {.file = "/"};
    struct config *config = NULL;

    (void)state;
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    assert_string_equal(errors.text[0], "/: cannot be read: Is a directory");
}

static void note_key(void *context, const char *key)
{
    FILE *noted = context;

    assert_true(fprintf(noted, "%s ", key) > 0);
}

static void test_reload_takes_live_keys_and_names_the_others(void **state)
{
    struct config *running = load_good("[proxy]\nworkers = 2\nack-delay = 1s\n"
                                       "[listen]\nuri = coap://127.0.0.1:1\n");
    struct config *fresh = load_good("[proxy]\nworkers = 3\nack-delay = 2ms\n"
                                     "[listen]\nuri = coap://127.0.0.1:2\n"
                                     "[scheme coap]\nack-timeout = 3s\n");
    char noted[200] = "";
    FILE *notes = fmemopen(noted, sizeof(noted), "w");

    (void)state;
    assert_non_null(notes);
    assert_int_equal(config_keep_started(fresh, running, note_key, notes), 0);
    assert_int_equal(fclose(notes), 0);
    config_free(running);
    assert_string_equal(noted, "proxy.workers ");
    assert_int_equal(fresh->proxy_workers, 2);
    assert_int_equal(fresh->proxy_ack_delay, 2);
    assert_string_equal(fresh->listeners[0].uri, "coap://127.0.0.1:2");
    assert_int_equal(fresh->listeners[0].bind.port, 2);
    assert_int_equal(config_scheme_by_number(fresh, 0)->ack_timeout, 3000);
    config_free(fresh);
}

/* A value of each type that keys with START have: the running one stays, texts as copies. */
static void test_reload_keeps_what_only_a_start_can_change(void **state)
{
    struct config *running = load_good("[admin]\nsocket = /run/a\nlisten = http://127.0.0.1:1\n"
                                       "[listen]\nbuffer-bytes = 1MiB\n"
                                       "[stream]\nweb-pages = yes\nidle-timeout = 7min\n"
                                       "[tls]\nsessions = 7\n"
                                       "[cluster]\npeers = 1=127.0.0.1:1\npeers = 2=127.0.0.1:2\n");
    struct config *fresh = load_good("[admin]\nsocket = /run/b\nlisten = http://127.0.0.1:1\n"
                                     "[cluster]\npeers = 1=127.0.0.1:1\npeers = 3=127.0.0.1:2\n"
                                     "[log]\nfile = /tmp/log\n");
    char noted[200] = "";
    FILE *notes = fmemopen(noted, sizeof(noted), "w");

    (void)state;
    assert_non_null(notes);
    assert_int_equal(config_keep_started(fresh, running, note_key, notes), 0);
    assert_int_equal(fclose(notes), 0);
    config_free(running);
    assert_string_equal(noted, "listen.buffer-bytes tls.sessions stream.idle-timeout "
                               "stream.web-pages cluster.peers admin.socket log.file ");
    assert_string_equal(fresh->admin_socket, "/run/a");
    assert_string_equal(fresh->admin_listen, "http://127.0.0.1:1");
    assert_string_equal(fresh->log_file, "");
    assert_int_equal(fresh->listen_buffer_bytes, 1 << 20);
    assert_int_equal(fresh->tls_sessions, 7);
    assert_int_equal(fresh->stream_idle_timeout, 420000);
    assert_true(fresh->stream_web_pages);
    assert_int_equal(fresh->cluster_peers.count, 2);
    assert_string_equal(fresh->cluster_peers.items[1], "2=127.0.0.1:2");
    config_free(fresh);
}

/* conf/criproxyd.conf with every key uncommented, one "#key = value" a line. */
static struct config *load_shipped_file(void)
{
    char *text = NULL;
    size_t text_len = 0;
    char line[512];
    FILE *file = fopen(SHIPPED_CONF, "r");
    FILE *out = open_memstream(&text, &text_len);

    assert_non_null(file);
    assert_non_null(out);
    while (fgets(line, sizeof(line), file) != NULL) {
        bool is_key = line[0] == '#' && line[1] != ' ' && strstr(line, " = ") != NULL;
        assert_true(fputs(is_key ? line + 1 : line, out) >= 0);
    }
    (void)fclose(file);
    (void)fclose(out);
    struct config *config = load_good(text);
    free(text);
    return config;
}

/* resolve.servers: addresses, or the system's. */
static void test_dns_servers(void **state)
{
    static const struct {
        const char *text;
        int count; /* -1: refused */
    } rows[] = {
        {"[resolve]\nservers = system\n", 0},
        {"[resolve]\nservers = 192.0.2.1\nservers = [2001:db8::1]:5353\n", 2},
        {"[resolve]\nservers = 192.0.2.1,192.0.2.2\n", -1},
        {"[resolve]\nservers = ns.example\n", -1},
        {"[resolve]\nservers = 192.0.2.1:0\n", -1},
        {"[resolve]\nservers = 0.0.0.0\n", -1},
        {"[resolve]\nservers = 192.0.2.1\nservers = system\n", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config_source source = {.text = rows[i].text, .text_len = strlen(rows[i].text)};
        struct config *config = NULL;
        int error = config_load(&source, &errors, &config);
        print_message("    %s", rows[i].text);
        assert_int_equal(error, rows[i].count < 0 ? -EINVAL : 0);
        if (error == 0) {
            assert_int_equal(config->resolve_servers.count, rows[i].count);
            config_free(config);
        }
    }
}

static void test_the_shipped_file_says_the_defaults(void **state)
{
    struct config *shipped = load_shipped_file();
    struct config *defaults = NULL;
    const struct config_named_kind *scheme = &config_named_kinds[CONFIG_NAMED_SCHEME];

    (void)state;
    assert_int_equal(config_load(NULL, &errors, &defaults), 0);
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        if (config_rows[i].type != CONFIG_TYPE_LIST && config_rows[i].type != CONFIG_TYPE_TEXT) {
            assert_int_equal(value_load(shipped, &config_rows[i]),
                             value_load(defaults, &config_rows[i]));
        }
    }
    assert_int_equal(shipped->listener_count, defaults->listener_count);
    for (size_t i = 0; i < shipped->listener_count; i++) {
        assert_true(address_equal(&shipped->listeners[i].bind, &defaults->listeners[i].bind));
        assert_false(shipped->listeners[i].is_default); /* every key was really taken */
    }
    for (size_t i = 0; i < scheme->row_count; i++) {
        assert_int_equal(value_load(&shipped->schemes[0], &scheme->rows[i]),
                         value_load(&defaults->schemes[0], &scheme->rows[i]));
    }
    config_free(shipped);
    config_free(defaults);
}

static void test_the_shipped_schemes_change_nothing(void **state)
{
    struct config_source source = {.file = SHIPPED_SCHEMES};
    struct config *shipped = NULL;
    struct config *defaults = NULL;
    const struct config_named_kind *scheme = &config_named_kinds[CONFIG_NAMED_SCHEME];

    (void)state;
    assert_int_equal(config_load(NULL, &errors, &defaults), 0);
    assert_int_equal(config_load(&source, &errors, &shipped), 0);
    assert_int_equal(shipped->scheme_count, defaults->scheme_count);
    for (size_t i = 0; i < shipped->scheme_count; i++) {
        assert_string_equal(shipped->schemes[i].name, defaults->schemes[i].name);
        for (size_t k = 0; k < scheme->row_count; k++) {
            assert_int_equal(value_load(&shipped->schemes[i], &scheme->rows[k]),
                             value_load(&defaults->schemes[i], &scheme->rows[k]));
        }
    }
    config_free(shipped);
    config_free(defaults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_listen_on_loopback_only),
        cmocka_unit_test(test_keys_of_a_file_are_taken),
        cmocka_unit_test(test_listeners_have_their_kind_and_port),
        cmocka_unit_test(test_texts_are_taken_as_they_stand),
        cmocka_unit_test(test_bad_files_are_refused_with_the_place),
        cmocka_unit_test(test_no_line_length_is_cut_silently),
        cmocka_unit_test(test_nul_byte_is_refused),
        cmocka_unit_test(test_long_comments_are_no_error),
        cmocka_unit_test(test_all_errors_are_collected_up_to_a_cap),
        cmocka_unit_test(test_set_wins_over_the_file),
        cmocka_unit_test(test_size_gives_defaults_and_sets_nothing),
        cmocka_unit_test(test_a_queue_has_three_quarters_of_the_exchanges),
        cmocka_unit_test(test_first_set_of_a_list_replaces_and_the_next_adds),
        cmocka_unit_test(test_listen_replaces_the_configured_listeners),
        cmocka_unit_test(test_an_asterisk_is_both_families),
        cmocka_unit_test(test_bad_sets_are_refused),
        cmocka_unit_test(test_included_files_win_and_are_found_beside_the_file),
        cmocka_unit_test(test_a_pattern_includes_what_matches),
        cmocka_unit_test(test_a_folder_is_no_file),
        cmocka_unit_test(test_reload_takes_live_keys_and_names_the_others),
        cmocka_unit_test(test_reload_keeps_what_only_a_start_can_change),
        cmocka_unit_test(test_the_shipped_file_says_the_defaults),
        cmocka_unit_test(test_dns_servers),
        cmocka_unit_test(test_the_shipped_schemes_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
