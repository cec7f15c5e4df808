/* SPDX-License-Identifier: BSD-2-Clause */
#include "hex.h"

#define VALUE(name, number, class, message) CRI_##name,
static const enum cri_error all[] = {CRI_ERROR_MAP(VALUE)};
#undef VALUE

static void test_every_error_has_its_own_message(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(all); i++) {
        assert_string_not_equal(cri_strerror(all[i]), "unknown error");
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(cri_strerror(all[i]), cri_strerror(all[j]));
        }
    }
}

static void test_errors_have_their_classes(void **state)
{
    (void)state;
    assert_int_equal(cri_error_class(CRI_OK), CRI_CLASS_OK);
    assert_int_equal(cri_error_class(CRI_ERR_SPACE), CRI_CLASS_RESOURCE);
    assert_int_equal(cri_error_class(CRI_ERR_UTF8), CRI_CLASS_MALFORMED);
    assert_int_equal(cri_error_class(CRI_ERR_HOST), CRI_CLASS_INVALID);
    assert_int_equal(cri_error_class(CRI_ERR_FEATURE), CRI_CLASS_UNSUPPORTED);
    assert_int_equal(cri_error_class(CRI_ERR_ZONE), CRI_CLASS_CONVERSION);
}

static void test_foreign_numbers_are_unknown(void **state)
{
    (void)state;
    assert_string_equal(cri_strerror((enum cri_error)12345), "unknown error");
    assert_int_equal(cri_error_class((enum cri_error)12345), CRI_CLASS_MISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_error_has_its_own_message),
        cmocka_unit_test(test_errors_have_their_classes),
        cmocka_unit_test(test_foreign_numbers_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
