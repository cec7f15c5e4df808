/* SPDX-License-Identifier: BSD-2-Clause */
/* Files with a security context: what is taken, and the words for what is not. */
#include "conf/oscore_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char name[] = "/tmp/test_oscore_file.XXXXXX";
static char error[512];
static struct oscore_keys keys;

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(name);
    return fd >= 0 && close(fd) == 0 ? 0 : -1;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(name);
}

static bool read_bytes(const char *text, size_t len, mode_t mode)
{
    FILE *file = fopen(name, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(name, mode), 0);
    memset(&keys, 0xee, sizeof keys);
    error[0] = '\0';
    return oscore_file_read(name, &keys, error, sizeof error);
}

static bool read_text(const char *text)
{
    return read_bytes(text, strlen(text), 0600);
}

/* Without the name of the file. */
static void assert_error(const char *expected)
{
    assert_memory_equal(error, name, strlen(name));
    assert_string_equal(error + strlen(name), expected);
}

#define SECRET "master-secret = 0102030405060708090a0b0c0d0e0f10\n"

static void test_keys_are_bytes_in_any_order_and_case(void **state)
{
    (void)state;
    assert_true(read_text("# RFC 8613 C.1.1\n\n"
                          "master-salt = 9E7CA92223786340   ; comment\r\n"
                          "  recipient-id=01\n" SECRET "sender-id =\n"
                          "id-context = 37cbf3210017a2d3\n"
                          "aead-algorithm = AES-CCM-16-64-256"));
    assert_int_equal(keys.sender_id.len, 0);
    assert_int_equal(keys.recipient_id.len, 1);
    assert_int_equal(keys.recipient_id.bytes[0], 1);
    assert_int_equal(keys.master_secret.len, 16);
    assert_int_equal(keys.master_secret.bytes[15], 0x10);
    assert_int_equal(keys.master_salt.len, 8);
    assert_int_equal(keys.master_salt.bytes[0], 0x9e);
    assert_int_equal(keys.id_context.len, 8);
    assert_string_equal(keys.aead_algorithm, "AES-CCM-16-64-256");
    assert_string_equal(keys.hkdf_algorithm, "HKDF-SHA-256");
}

static void test_algorithms_have_the_defaults_of_the_rfc(void **state)
{
    (void)state;
    assert_true(read_text(SECRET "sender-id = 01\nrecipient-id = 02\n"));
    assert_string_equal(keys.aead_algorithm, "AES-CCM-16-64-128");
    assert_string_equal(keys.hkdf_algorithm, "HKDF-SHA-256");
    assert_int_equal(keys.master_salt.len, 0);
    assert_int_equal(keys.id_context.len, 0);
}

static void test_errors_name_file_line_and_key(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"sender-id = 0\n", ":1: sender-id: expected bytes in hexadecimal"},
        {"\n# x\nsender-id = 0x\n", ":3: sender-id: expected bytes in hexadecimal"},
        {"sender-id = 0102030405060708\n", ":1: sender-id: expected 0 to 7 bytes, got 8"},
        {"master-secret = 00112233\n", ":1: master-secret: expected 16 to 64 bytes, got 4"},
        {"id-context =\n", ":1: id-context: expected 1 to 32 bytes, got 0"},
        {"sender-id = 01\nsender-id = 02\n", ":2: sender-id: given twice"},
        {"aead-algorithm = ROT13\n",
         ":1: aead-algorithm: expected AES-CCM-16-64-128 or AES-CCM-16-64-256"},
        {"hkdf-algorithm = MD5\n", ":1: hkdf-algorithm: expected HKDF-SHA-256"},
        {"[oscore]\n", ":1: expected KEY = VALUE"},
        {"[oscore] = 1\n", ":1: there are no sections in this file"},
        {"sender-id: 01\n", ":1: expected KEY = VALUE"},
        {"= 01\n", ":1: expected KEY = VALUE"},
        {"key = 01\n", ":1: unknown key; there are sender-id, recipient-id, master-secret, "
                       "master-salt, id-context, aead-algorithm, hkdf-algorithm"},
        {"sender-id = 01\nrecipient-id = 02\n", ": master-secret: missing"},
        {SECRET "recipient-id = 02\n", ": sender-id: missing"},
        {SECRET "sender-id = 01\n", ": recipient-id: missing"},
        {SECRET "sender-id = 0a\nrecipient-id = 0A\n", ": sender-id and recipient-id are the same"},
        {"", ": sender-id: missing"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_false(read_text(rows[i].text));
        assert_error(rows[i].error);
        assert_int_equal(keys.master_secret.len, 0xee); /* untouched */
    }
}

static void test_lines_have_a_limit(void **state)
{
    char text[4096];

    (void)state;
    memset(text, '0', sizeof text);
    memcpy(text, "master-secret = ", 16);
    assert_false(read_bytes(text, sizeof text, 0600));
    assert_error(":1: longer than 190 bytes");
    memset(text, '\n', sizeof text);
    assert_false(read_bytes(text, sizeof text, 0600));
    assert_error(":201: more than 200 lines");
}

static void test_a_file_that_others_may_read_is_refused(void **state)
{
    const char text[] = SECRET "sender-id = 01\nrecipient-id = 02\n";

    (void)state;
    assert_true(read_bytes(text, sizeof text - 1, 0640));
    assert_false(read_bytes(text, sizeof text - 1, 0604));
    assert_memory_equal(error + strlen(name),
                        ": others have access to it (mode 604): chmod o= ", 47);
}

static void test_what_cannot_be_read_says_why(void **state)
{
    (void)state;
    assert_false(oscore_file_read("/nonexistent", &keys, error, sizeof error));
    assert_string_equal(error, "/nonexistent: cannot be read: No such file or directory");
    assert_false(oscore_file_read("/tmp", &keys, error, sizeof error));
    assert_string_equal(error, "/tmp: is no regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_bytes_in_any_order_and_case),
        cmocka_unit_test(test_algorithms_have_the_defaults_of_the_rfc),
        cmocka_unit_test(test_errors_name_file_line_and_key),
        cmocka_unit_test(test_lines_have_a_limit),
        cmocka_unit_test(test_a_file_that_others_may_read_is_refused),
        cmocka_unit_test(test_what_cannot_be_read_says_why),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
