/* SPDX-License-Identifier: BSD-2-Clause */
/* Section 7.1, CONFORMANCE section 8. */
#include "hex.h"

#include <cri/standin.h>

static const struct {
    const char *id;
    uint32_t enabled;
    const char *hex;
    const char *expanded; /* NULL: fails */
    enum cri_error error;
} rows[] = {
    {"none there", 0x0f, "8220816168", "8220816168", CRI_OK},
    {"not enabled", 0, "822081d54168", "822081d54168", CRI_OK},
    {"another enabled", CRI_STAND_IN_BASE16, "822081d54168", "822081d54168", CRI_OK},
    {"base64url of one", CRI_STAND_IN_BASE64URL,
     "83208161688"
     "1d541fb",
     "832081616881"
     "622d77",
     CRI_OK},
    {"base64url of two", CRI_STAND_IN_BASE64URL,
     "83208161688"
     "1d542fbff",
     "832081616881"
     "632d5f38",
     CRI_OK},
    {"base64url of three", CRI_STAND_IN_BASE64URL,
     "83208161688"
     "1d543fbffbf",
     "832081616881"
     "642d5f2d5f",
     CRI_OK},
    {"base64url of none", CRI_STAND_IN_BASE64URL,
     "83208161688"
     "1d540",
     "832081616881"
     "60",
     CRI_OK},
    {"base64 of one", CRI_STAND_IN_BASE64,
     "83208161688"
     "1d641fb",
     "832081616881"
     "642b773d3d",
     CRI_OK},
    {"base64 of two", CRI_STAND_IN_BASE64,
     "83208161688"
     "1d642fbff",
     "832081616881"
     "642b2f383d",
     CRI_OK},
    {"base64 of four", CRI_STAND_IN_BASE64,
     "83208161688"
     "1d64401020304",
     "832081616881"
     "684151494442413d3d",
     CRI_OK},
    {"base16", CRI_STAND_IN_BASE16,
     "83208161688"
     "1d742ab0f",
     "832081616881"
     "6441423046",
     CRI_OK},
    {"base16, small", CRI_STAND_IN_BASE16_LOWER,
     "83208161688"
     "1d86c42ab0f",
     "832081616881"
     "6461623066",
     CRI_OK},
    {"on an array", CRI_STAND_IN_BASE16, "832081616881d780", NULL, CRI_ERR_TAG},
    {"on nothing", CRI_STAND_IN_BASE16, "832081616881d7", NULL, CRI_ERR_TRUNCATED},
    {"trailing bytes", CRI_STAND_IN_BASE16,
     "80"
     "80",
     NULL, CRI_ERR_TRAILING_BYTES},
    {"indefinite", CRI_STAND_IN_BASE16, "9fff", NULL, CRI_ERR_INDEFINITE},
    {"nothing", CRI_STAND_IN_BASE16, "", NULL, CRI_ERR_TRUNCATED},
};

static void test_expand_stand_ins(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        struct bytes bytes = bytes_from_hex(rows[i].hex);
        uint8_t buffer[64];
        size_t len = 0;
        struct cri_fault fault = {0, NULL};
        enum cri_error error = cri_expand_stand_ins(bytes_slice(&bytes), rows[i].enabled, buffer,
                                                    sizeof buffer, &len, &fault);
        const char *got = error == CRI_OK ? hex_of(buffer, len) : "";
        const char *wanted = rows[i].expanded == NULL ? "" : rows[i].expanded;
        if (error != rows[i].error || strcmp(got, wanted) != 0) {
            fail_msg("%s: %s %s", rows[i].id, cri_strerror(error), got);
        }
        if (error == CRI_OK) {
            assert_int_equal(
                cri_expand_stand_ins(bytes_slice(&bytes), rows[i].enabled, NULL, 0, &len, &fault),
                CRI_ERR_SPACE);
        }
        bytes_free(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expand_stand_ins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
