/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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
    return config;
}

struct builtin {
    const char *name;
    uint32_t number, port;
    enum transport transport;
};

/* SCH-1, SCH-2 */
static const struct builtin builtins[] = {
    {"coap", 0, 5683, TRANSPORT_UDP},     {"coaps", 1, 5684, TRANSPORT_DTLS},
    {"http", 2, 80, TRANSPORT_HTTP},      {"https", 3, 443, TRANSPORT_HTTPS},
    {"coap+tcp", 6, 5683, TRANSPORT_TCP}, {"coaps+tcp", 7, 5684, TRANSPORT_TLS},
    {"coap+ws", 24, 80, TRANSPORT_WS},    {"coaps+ws", 25, 443, TRANSPORT_WSS},
};

static void test_schemes_that_are_built_in(void **state)
{
    struct config *config = load_good("");

    (void)state;
    assert_int_equal(config->scheme_count, 8);
    assert_int_equal(config->scheme_table.count, 8);
    for (size_t i = 0; i < 8; i++) {
        const struct scheme *scheme = config_scheme_by_number(config, builtins[i].number);
        assert_non_null(scheme);
        assert_ptr_equal(scheme, &config->schemes[i]);
        assert_string_equal(scheme->name, builtins[i].name);
        assert_int_equal(scheme->default_port, builtins[i].port);
        assert_int_equal(scheme->transport, builtins[i].transport);
        assert_int_equal(config->scheme_table.rows[i].number, builtins[i].number);
        assert_string_equal(config->scheme_table.rows[i].name, builtins[i].name);
        assert_int_equal(config->scheme_table.rows[i].default_port, builtins[i].port);
    }
    assert_null(config_scheme_by_number(config, 4));
    assert_null(config_scheme_by_number(config, UINT64_MAX));
    config_free(config);
}

/* MSG-27 to MSG-29: the defaults of RFC 7252 section 4.8 and what follows from them. */
static void test_default_times_are_those_of_rfc_7252(void **state)
{
    struct config *config = load_good("");
    const struct scheme *coap = config_scheme_by_number(config, 0);

    (void)state;
    assert_int_equal(coap->ack_timeout, 2000);
    assert_int_equal(coap->ack_random_factor, 150);
    assert_int_equal(coap->max_retransmit, 4);
    assert_int_equal(coap->max_transmit_span, 45000);
    assert_int_equal(coap->max_transmit_wait, 93000);
    assert_int_equal(coap->exchange_lifetime, 247000);
    assert_int_equal(coap->non_lifetime, 145000);
    assert_int_equal(config->block_keep_time, coap->exchange_lifetime); /* BLK-19 */
    config_free(config);
}

static void test_longest_times_do_not_wrap(void **state)
{
    struct config *config = load_good(
        "[scheme coap]\nack-timeout = 60s\nack-random-factor = 10\nmax-retransmit = 10\n");
    const struct scheme *coap = config_scheme_by_number(config, 0);

    (void)state;
    assert_int_equal(coap->max_transmit_span, 600000u * 1023u);
    assert_int_equal(coap->max_transmit_wait, 600000u * 2047u);
    assert_int_equal(coap->exchange_lifetime, 600000u * 1023u + 260000u);
    config_free(config);
}

static void test_scheme_of_the_registry_needs_no_number(void **state)
{
    struct config *config = load_good("[scheme URN]\ntransport = none\n");

    (void)state;
    assert_string_equal(config_scheme_by_number(config, 4)->name, "urn");
    config_free(config);
}

static void test_scheme_of_ones_own(void **state)
{
    struct config *config =
        load_good("[scheme coap+lora]\nnumber = 70000\ntransport = udp\ndefault-port = 61616\n");
    const struct scheme *scheme = config_scheme_by_number(config, 70000);

    (void)state;
    assert_non_null(scheme);
    assert_string_equal(scheme->name, "coap+lora");
    assert_int_equal(scheme->default_port, 61616);
    assert_int_equal(scheme->transport, TRANSPORT_UDP);
    assert_int_equal(config->scheme_count, 9);
    config_free(config);
}

static void test_cap_below_the_default_window_lowers_it(void **state)
{
    struct config *config = load_good("[scheme coap]\nnstart-max = 1\n");

    (void)state;
    assert_int_equal(config_scheme_by_number(config, 0)->nstart, 1);
    config_free(config);
}

static void test_fixed_congestion_control_is_nstart_1(void **state)
{
    struct config *config = load_good("[scheme coap]\ncongestion-control = fixed\n");

    (void)state;
    assert_int_equal(config_scheme_by_number(config, 0)->nstart, 1);
    assert_int_equal(config_scheme_by_number(config, 0)->nstart_max, 1);
    assert_int_equal(config_scheme_by_number(config, 1)->nstart_max, 256);
    config_free(config);
}

static void test_short_ack_timeout_with_a_window_asked_for(void **state)
{
    struct config *config =
        load_good("[scheme coap]\ncongestion-control = window\nack-timeout = 200ms\n");

    (void)state;
    assert_int_equal(config_scheme_by_number(config, 0)->ack_timeout, 200);
    config_free(config);
}

struct bad {
    const char *text;
    const char *error; /* its start */
};

static const struct bad bad_schemes[] = {
    /* MSG-30 */
    {"[scheme coap]\nack-timeout = 999ms\n",
     "a.conf:2: [scheme coap] ack-timeout: below 1s needs congestion-control = window"},
    {"[scheme coap]\ncongestion-control = fixed\nack-timeout = 999ms\n",
     "a.conf:3: [scheme coap] ack-timeout: below 1s needs congestion-control = window"},
    {"[scheme coap]\ncongestion-control = fixed\nnstart = 2\n",
     "a.conf:3: [scheme coap] nstart: above 1 needs congestion-control = window"},
    {"[scheme coap]\nnstart-max = 2\ncongestion-control = fixed\n",
     "a.conf:2: [scheme coap] nstart-max: above 1 needs congestion-control = window"},
    {"[scheme coap]\ncongestion-control = window\nack-random-factor = 0.99\n",
     "a.conf:3: [scheme coap] ack-random-factor: expected a number with at most two decimals from "
     "1.00 to 10.00, got \"0.99\""},
    {"[scheme coap]\nnstart = 8\nnstart-max = 7\n",
     "a.conf:2: [scheme coap] nstart: above nstart-max, which is 7"},
    {"[scheme mine]\ntransport = udp\n", "a.conf:2: [scheme mine] number: needed"},
    {"[scheme mine]\nnumber = 0\n", "a.conf:2: [scheme mine] number: 0 is the number of coap too"},
    {"[scheme mine]\nnumber = 4\n",
     "a.conf:2: [scheme mine] number: 4 is the registered number of urn"},
    {"[scheme mine]\nnumber = 4294967295\n",
     "a.conf:2: [scheme mine] number: expected a whole number from 0 to 4294967294"},
    {"[scheme coaps+tcp]\nupstream-type = mirror\n",
     "a.conf:2: [scheme coaps+tcp] upstream-type: mirror is for schemes with transport = udp or "
     "dtls"},
    {"[scheme coap]\nprobing-rate = 0\n",
     "a.conf:2: [scheme coap] probing-rate: expected a whole number from 1 to 1000000"},
    {"[scheme coap]\ntransport = carrier-pigeon\n",
     "a.conf:2: [scheme coap] transport: expected none, udp, dtls, tcp, tls, ws, wss, http or "
     "https, got"},
    {"[scheme coap]\ntransport = http\n",
     "a.conf:2: [scheme coap] transport: http is for the scheme of that name only"},
    {"[scheme coap]\nnope = 1\n", "a.conf:2: [scheme coap]: no such key: \"nope\""},
    {"[scheme coap]\nnstart = 2\n[scheme coap]\nnstart = 2\n",
     "a.conf:4: [scheme coap] nstart: set twice in this file, before in line 2"},
    {"[scheme -x]\nnumber = 70000\n", "a.conf:1: expected the section proxy"},
    {"[scheme a b]\nnumber = 70000\n", "a.conf:1: expected the section proxy"},
};

static void test_bad_schemes_are_refused_with_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_schemes) / sizeof(bad_schemes[0]); i++) {
        struct config *config = NULL;
        assert_int_equal(load_text(bad_schemes[i].text, &config), -EINVAL);
        print_message("%s\n", errors.text[0]);
        assert_int_equal(errors.count, 1);
        assert_memory_equal(errors.text[0], bad_schemes[i].error, strlen(bad_schemes[i].error));
    }
}

static void test_number_of_schemes_is_bounded(void **state)
{
    char text[4096];
    size_t used = 0;
    struct config *config = NULL;

    (void)state;
    for (int i = 0; i < 40; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "[scheme x%d]\nnumber = %d\n", i,
                                 80000 + i);
    }
    assert_true(used < sizeof(text));
    assert_int_equal(load_text(text, &config), -EINVAL);
    assert_int_equal(errors.count, 40 - 24);
    assert_string_equal(errors.text[0], "a.conf:50: [scheme x24]: more than 32 of them");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schemes_that_are_built_in),
        cmocka_unit_test(test_default_times_are_those_of_rfc_7252),
        cmocka_unit_test(test_longest_times_do_not_wrap),
        cmocka_unit_test(test_scheme_of_the_registry_needs_no_number),
        cmocka_unit_test(test_scheme_of_ones_own),
        cmocka_unit_test(test_cap_below_the_default_window_lowers_it),
        cmocka_unit_test(test_fixed_congestion_control_is_nstart_1),
        cmocka_unit_test(test_short_ack_timeout_with_a_window_asked_for),
        cmocka_unit_test(test_bad_schemes_are_refused_with_the_place),
        cmocka_unit_test(test_number_of_schemes_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
