/* SPDX-License-Identifier: BSD-2-Clause */
/* RFC 8075 section 7, table 2, row by row, written out once more; HC-7. */
#include "support/test.h"

#include "client/http_status.h"

static const struct {
    uint8_t code;
    int bare, with_payload;
} table_2[] = {
    {CODE(2, 1), 201, 201},
    {CODE(2, 2), 204, 200},
    {CODE(2, 3), 304, 200},
    {CODE(2, 4), 204, 200},
    {CODE(2, 5), 200, 200},
    {CODE(4, 0), 400, 400},
    {CODE(4, 1), 403, 403},
    {CODE(4, 2), 500, 500},
    {CODE(4, 3), 403, 403},
    {CODE(4, 4), 404, 404},
    {CODE(4, 5), 400, 400},
    {CODE(4, 6), 406, 406},
    {CODE(4, 12), 412, 412},
    {CODE(4, 13), 413, 413},
    {CODE(4, 15), 415, 415},
    {CODE(5, 0), 500, 500},
    {CODE(5, 1), 501, 501},
    {CODE(5, 2), 502, 502},
    {CODE(5, 3), 503, 503},
    {CODE(5, 4), 504, 504},
    {CODE(5, 5), 502, 502},
    /* HC-7, and the RFCs that came after */
    {CODE(4, 8), 408, 408},
    {CODE(4, 29), 429, 429},
    {CODE(5, 8), 508, 508},
    {CODE(4, 9), 409, 409},
    {CODE(4, 22), 422, 422},
};

static void test_every_row_of_table_2(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table_2) / sizeof(table_2[0]); i++) {
        assert_int_equal(http_status_of(table_2[i].code, false), table_2[i].bare);
        assert_int_equal(http_status_of(table_2[i].code, true), table_2[i].with_payload);
        assert_string_not_equal(http_status_phrase(table_2[i].bare), "Status");
        assert_string_not_equal(http_status_phrase(table_2[i].with_payload), "Status");
    }
}

/* RFC 7252 section 5.9: an unknown code is the generic one of its class. */
static void test_every_code_has_a_status(void **state)
{
    (void)state;
    for (unsigned code = 0; code <= UINT8_MAX; code++) {
        int status = http_status_of((uint8_t)code, false);
        unsigned class = CODE_CLASS(code);
        bool is_response = class == 2 || class == 4 || class == 5;
        int least = class == 4 && code != CODE(4, 2) ? 400 : is_response && class == 2 ? 200 : 500;
        assert_in_range(status, least, least + 99 + (class == 2 ? 100 : 0));
    }
    assert_int_equal(http_status_of(CODE(2, 30), false), 204);
    assert_int_equal(http_status_of(CODE(4, 30), false), 400);
    assert_int_equal(http_status_of(CODE(5, 30), false), 500);
    assert_int_equal(http_status_of(CODE(3, 1), false), 502);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_of_table_2),
        cmocka_unit_test(test_every_code_has_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
