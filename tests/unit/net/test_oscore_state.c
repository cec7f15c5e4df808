/* SPDX-License-Identifier: BSD-2-Clause */
/* Sender sequence numbers on disk: none comes twice, whatever happened in between. */
#include "net/oscore_state.h"

#include "support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "00112233445566778899aabbccddeeff"

static char parent[] = "/tmp/test_oscore_state.XXXXXX";
static char directory[64], file[128];
static const char *why;

static int make_parent(void **state)
{
    (void)state;
    if (mkdtemp(parent) == NULL) {
        return -1;
    }
    (void)snprintf(directory, sizeof directory, "%s/state", parent);
    (void)snprintf(file, sizeof file, "%s/" NAME, directory);
    return 0;
}

static int clear(void **state)
{
    static const char *const suffixes[] = {"", ".lock", ".new"};
    char name[160];

    (void)state;
    why = NULL;
    for (unsigned i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", file, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(directory);
    return 0;
}

static int remove_parent(void **state)
{
    (void)clear(state);
    return rmdir(parent);
}

static void write_file(const char *text)
{
    FILE *out = fopen(file, "we");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void test_numbers_that_were_reserved_are_not_free_after_a_crash(void **unused)
{
    struct stat status;

    (void)unused;
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_int_equal(oscore_state_reserved(state), 0);
    assert_true(oscore_state_reserve(state, 256, &why));
    assert_int_equal(oscore_state_reserved(state), 256);
    oscore_state_close(state); /* as a crash does it: nothing more is written */
    state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_int_equal(oscore_state_reserved(state), 256);
    oscore_state_close(state);
    assert_int_equal(stat(directory, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(stat(file, &status), 0);
    assert_int_equal(status.st_mode & 0077, 0);
}

static void test_a_context_has_one_user_at_a_time(void **unused)
{
    (void)unused;
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_null(oscore_state_open(directory, NAME, &why));
    assert_string_equal(why, "another process or section uses the security context");
    oscore_state_close(state);
    state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    oscore_state_close(state);
}

static void test_a_damaged_file_is_no_beginning(void **unused)
{
    static const char *const texts[] = {
        "", "free\n", "free 12", "free x\n", "free 1099511627777\n", "0\n"};
    (void)unused;
    oscore_state_close(oscore_state_open(directory, NAME, &why));
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file(texts[i]);
        assert_null(oscore_state_open(directory, NAME, &why));
        assert_string_equal(why, "the file with the sequence numbers is damaged");
    }
}

static void test_numbers_end(void **unused)
{
    (void)unused;
    oscore_state_close(oscore_state_open(directory, NAME, &why));
    write_file("free 1099511627700\n");
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_true(oscore_state_reserve(state, OSCORE_SEQUENCE_END, &why));
    assert_false(oscore_state_reserve(state, OSCORE_SEQUENCE_END + 1, &why));
    assert_string_equal(why, "the sequence numbers of the security context are used up");
    assert_int_equal(oscore_state_reserved(state), OSCORE_SEQUENCE_END);
    oscore_state_close(state);
}

static void test_what_cannot_be_written_is_not_reserved(void **unused)
{
    char name[160];

    (void)unused;
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    (void)snprintf(name, sizeof name, "%s.new", file);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_false(oscore_state_reserve(state, 256, &why));
    assert_string_equal(why, "the sequence numbers cannot be written");
    assert_int_equal(oscore_state_reserved(state), 0);
    assert_int_equal(rmdir(name), 0);
    oscore_state_close(state);
    assert_null(oscore_state_open("/nonexistent/state", NAME, &why));
    assert_string_equal(why, "the directory of the sequence numbers cannot be opened");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_numbers_that_were_reserved_are_not_free_after_a_crash,
                                  clear),
        cmocka_unit_test_teardown(test_a_context_has_one_user_at_a_time, clear),
        cmocka_unit_test_teardown(test_a_damaged_file_is_no_beginning, clear),
        cmocka_unit_test_teardown(test_numbers_end, clear),
        cmocka_unit_test_teardown(test_what_cannot_be_written_is_not_reserved, clear),
    };
    return cmocka_run_group_tests(tests, make_parent, remove_parent);
}
