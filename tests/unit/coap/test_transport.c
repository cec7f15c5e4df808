/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of transport.def against libcri's registry, and the predicates that are made of them. */
#include "support/test.h"

#include "coap/transport.h"

#include <cri/scheme.h>
#include <string.h>

static void test_rows_are_those_of_the_registry(void **state)
{
    (void)state;
    for (int i = TRANSPORT_NONE + 1; i < TRANSPORT_COUNT; i++) {
        const struct transport_row *row = transport_row((enum transport)i);
        const struct cri_scheme *known = cri_scheme_by_number(NULL, row->number);
        assert_non_null(known);
        assert_string_equal(row->scheme, known->name);
        assert_int_equal(row->default_port, known->default_port);
    }
}

static void test_a_transport_is_found_by_scheme_and_number(void **state)
{
    (void)state;
    for (int i = TRANSPORT_NONE + 1; i < TRANSPORT_COUNT; i++) {
        const struct transport_row *row = transport_row((enum transport)i);
        assert_int_equal(transport_by_number(row->number), i);
        assert_int_equal(transport_by_scheme(row->scheme, strlen(row->scheme)), i);
    }
    assert_int_equal(transport_by_number(4), TRANSPORT_NONE);
    assert_int_equal(transport_by_number(UINT64_C(1) << 32 | CRI_SCHEME_COAPS), TRANSPORT_NONE);
    assert_int_equal(transport_by_scheme("coap+tcp", 5), TRANSPORT_NONE);
    assert_int_equal(transport_by_scheme("", 0), TRANSPORT_NONE);
}

/*
 * Written out once more, by the names of the schemes: "coaps" and "https" are secure, "+" and
 * "http" are streams.
 */
static void test_predicates_follow_the_scheme(void **state)
{
    (void)state;
    for (int i = TRANSPORT_NONE; i < TRANSPORT_COUNT; i++) {
        enum transport transport = (enum transport)i;
        const char *scheme = transport_row(transport)->scheme;
        bool is_http = strncmp(scheme, "http", 4) == 0;
        bool is_secure = strncmp(scheme, "coaps", 5) == 0 || strcmp(scheme, "https") == 0;
        bool is_stream = strchr(scheme, '+') != NULL || is_http;
        assert_int_equal(transport_is_http(transport), is_http);
        assert_int_equal(transport_is_secure(transport), is_secure);
        assert_int_equal(transport_is_stream(transport), is_stream);
        assert_int_equal(transport_is_ws(transport), strstr(scheme, "+ws") != NULL);
        assert_int_equal(transport_is_datagram(transport), scheme[0] != '\0' && !is_stream);
        assert_int_equal(transport_has_session(transport), is_secure || is_stream);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_those_of_the_registry),
        cmocka_unit_test(test_a_transport_is_found_by_scheme_and_number),
        cmocka_unit_test(test_predicates_follow_the_scheme),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
