/* SPDX-License-Identifier: BSD-2-Clause */
/* CONFORMANCE section 5. */
#include "hex.h"

#include <cri/resolve.h>

#define FOO "85218263666f6f19126782627061627468816571756572796466726167"

static const struct {
    const char *id;
    const char *base;
    const char *reference;
    const char *result; /* NULL: fails */
} rows[] = {
    {"RES-1", "8100", "82f5816161", NULL},
    {"RES-3", FOO, "82f5816161", "83218263666f6f191267816161"},
    {"RES-3 rootless base", "836161f5816162", "82f5816178", "836161f6816178"},
    {"RES-4", FOO, "8202816161", "83218263666f6f191267816161"},
    {"RES-4 more than there are", FOO, "8209816161", "83218263666f6f191267816161"},
    {"RES-5", FOO, "8101", "83218263666f6f19126781627061"},
    {"RES-6", FOO, "8200816170", "83218263666f6f191267836270616274686170"},
    {"RES-6 empty path", FOO, "820080", "83218263666f6f19126782627061627468"},
    {"RES-7", FOO, "8300f6816161", "84218263666f6f19126782627061627468816161"},
    {"RES-7 with fragment", FOO, "8400f68161616162",
     "85218263666f6f191267826270616274688161616162"},
    {"RES-8", FOO, "8300f680", "83218263666f6f19126782627061627468"},
    {"RES-9", FOO, "8400f6f66161", "85218263666f6f19126782627061627468816571756572796161"},
    {"RES-10", FOO, "80", FOO},
    {"RES-11", FOO, "83f6826161196262816163", "8321826161196262816163"},
    {"RES-11 query", FOO, "84f6816161f6816162", "842181616180816162"},
    {"RES-11 address with zone", FOO, "82f68244c63364016465746830", "82218244c63364016465746830"},
    {"RES-11 userinfo", FOO, "82f683f461756168", "822183f461756168"},
    {"RES-12", FOO, "836161f6816162", "836161f6816162"},
    {"RES-12 null path", FOO, "8420816168f6816171", "842081616880816171"},
    {"RES-13 rootless and empty", "836161f5816162", "8101", NULL},
    {"RES-13 two slashes", "836161f6816162", "82f582606163", NULL},
    {"RES-13 two slashes from both", "836161f68160",
     "82008"
     "16163",
     NULL},
    {"one slash from both", "836161f68160", "80", "836161f68160"},
    {"RES-13 rootless without scheme", FOO, "83f6f5816178", "8321f5816178"},
    {"RES-14", FOO,
     "9802"
     "1801"
     "98017801"
     "61",
     "83218263666f6f1912678262706161"
     "61"},
};

static void test_resolve(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        struct bytes base_bytes;
        struct bytes reference_bytes;
        struct cri base;
        struct cri reference;
        uint8_t buffer[128];
        size_t len = 0;
        struct cri_fault fault = {0, NULL};
        decode_hex(rows[i].base, &base_bytes, &base);
        decode_hex(rows[i].reference, &reference_bytes, &reference);
        enum cri_error error = cri_resolve(&base, &reference, buffer, sizeof buffer, &len, &fault);
        bool is_good = rows[i].result == NULL
                           ? error != CRI_OK && fault.rule != NULL
                           : error == CRI_OK && strcmp(hex_of(buffer, len), rows[i].result) == 0;
        if (!is_good) {
            fail_msg("%s: %s %s", rows[i].id, cri_strerror(error), hex_of(buffer, len));
        }
        if (error == CRI_OK) {
            size_t needed;
            assert_int_equal(cri_resolve(&base, &reference, NULL, 0, &needed, &fault),
                             CRI_ERR_SPACE);
            assert_int_equal(needed, len);
        }
        bytes_free(&base_bytes);
        bytes_free(&reference_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resolve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
