/* SPDX-License-Identifier: BSD-2-Clause */
/* CONFORMANCE section 13. */
#include "hex.h"

#include <cri/scheme.h>

static struct cri_slice text(const char *name)
{
    return (struct cri_slice){(const uint8_t *)name, strlen(name)};
}

/* SCH-3 */
static void test_table_has_404_rows_in_order(void **state)
{
    size_t count;
    const struct cri_scheme *rows = cri_scheme_builtin(&count);
    (void)state;
    assert_int_equal(count, 404);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || rows[i - 1].number < rows[i].number);
        assert_ptr_equal(cri_scheme_by_number(NULL, rows[i].number), &rows[i]);
        assert_ptr_equal(cri_scheme_by_name(NULL, text(rows[i].name)), &rows[i]);
        for (const char *c = rows[i].name; *c != '\0'; c++) {
            assert_false(*c >= 'A' && *c <= 'Z');
        }
    }
}

/* SCH-1, SCH-2, SCH-4 */
static void test_table_has_the_numbers_of_the_draft(void **state)
{
    static const struct {
        uint64_t number;
        const char *name;
        uint16_t port;
    } rows[] = {
        {0, "coap", 5683},     {1, "coaps", 5684},
        {2, "http", 80},       {3, "https", 443},
        {4, "urn", 0},         {5, "did", 0},
        {6, "coap+tcp", 5683}, {7, "coaps+tcp", 5684},
        {24, "coap+ws", 80},   {25, "coaps+ws", 443},
        {1946, "data", 0},     {5477, "machineprovisioningprogressreporter", 0},
        {7874, "shttp", 0},
    };
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        const struct cri_scheme *row = cri_scheme_by_number(NULL, rows[i].number);
        assert_non_null(row);
        assert_string_equal(row->name, rows[i].name);
        assert_int_equal(row->default_port, rows[i].port);
    }
}

static void test_unknown_schemes_are_null(void **state)
{
    static const uint64_t numbers[] = {8, 23, 26, 999, 20000, UINT64_MAX};
    static const char *const names[] = {"", "c", "coapx", "zzzzzz", "a", "coap "};
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(numbers); i++) {
        assert_null(cri_scheme_by_number(NULL, numbers[i]));
    }
    for (size_t i = 0; i < ROW_COUNT(names); i++) {
        assert_null(cri_scheme_by_name(NULL, text(names[i])));
    }
    assert_null(cri_scheme_by_name(NULL, (struct cri_slice){(const uint8_t *)"coap\0", 5}));
    assert_null(cri_scheme_by_name(NULL, (struct cri_slice){(const uint8_t *)"coap\0x", 6}));
}

/* PXO-24 */
static void test_names_are_found_in_any_case(void **state)
{
    (void)state;
    assert_int_equal(cri_scheme_by_name(NULL, text("CoAPs+TCP"))->number, 7);
}

static void test_rows_of_the_caller_come_first(void **state)
{
    static const struct cri_scheme own[] = {{0, "coap", 9999}, {999, "lab", 7}};
    const struct cri_scheme_table table = {own, 2};
    (void)state;
    assert_ptr_equal(cri_scheme_by_number(&table, 0), &own[0]);
    assert_ptr_equal(cri_scheme_by_number(&table, 999), &own[1]);
    assert_ptr_equal(cri_scheme_by_name(&table, text("LAB")), &own[1]);
    assert_int_equal(cri_scheme_by_number(&table, 1)->default_port, 5684);
    assert_int_equal(cri_scheme_by_name(&table, text("https"))->number, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_has_404_rows_in_order),
        cmocka_unit_test(test_table_has_the_numbers_of_the_draft),
        cmocka_unit_test(test_unknown_schemes_are_null),
        cmocka_unit_test(test_names_are_found_in_any_case),
        cmocka_unit_test(test_rows_of_the_caller_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
