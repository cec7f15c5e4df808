/* SPDX-License-Identifier: BSD-2-Clause */
/* Sender sequence numbers on disk: none comes twice, whatever happened in between. */
#include "net/oscore_state.h"

#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "00112233445566778899aabbccddeeff"

static char parent[] = "/tmp/test_oscore_state.XXXXXX";
static char directory[64], file[128];
static const char *why;

/* ---- what is made durable, in its order ---- */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from, const char *name, int into, const char *new_name);
int __wrap_renameat(int from, const char *name, int into, const char *new_name);

/* What glibc calls it on processors of 32 bits where sizes of files, or times too, have 64. */
#if defined(__GLIBC__) && __WORDSIZE == 32
#if defined(_TIME_BITS) && _TIME_BITS == 64
#define __real_fstatat __real___fstatat64_time64
#define __wrap_fstatat __wrap___fstatat64_time64
#else
#define __real_fstatat __real_fstatat64
#define __wrap_fstatat __wrap_fstatat64
#endif
#endif
int __real_fstatat(int at, const char *name, struct stat *ret_status, int flags);
int __wrap_fstatat(int at, const char *name, struct stat *ret_status, int flags);

static char calls[256];
static bool fsync_fails, fstatat_fails;

static void note_call(const char *call)
{
    size_t len = strlen(calls);

    (void)snprintf(calls + len, sizeof calls - len, "%s\n", call);
}

static bool is_open_at(int fd, const char *path)
{
    struct stat opened, named;

    return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

int __wrap_fsync(int fd)
{
    char new_file[160];

    (void)snprintf(new_file, sizeof new_file, "%s.new", file);
    note_call(is_open_at(fd, parent)      ? "fsync parent"
              : is_open_at(fd, directory) ? "fsync directory"
              : is_open_at(fd, new_file)  ? "fsync file"
                                          : "fsync another");
    if (fsync_fails) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

int __wrap_renameat(int from, const char *name, int into, const char *new_name)
{
    note_call("rename");
    return __real_renameat(from, name, into, new_name);
}

int __wrap_fstatat(int at, const char *name, struct stat *ret_status, int flags)
{
    if (fstatat_fails) {
        errno = EIO;
        return -1;
    }
    return __real_fstatat(at, name, ret_status, flags);
}

#if __SIZEOF_POINTER__ == 8
/* The same call by the name that hiredis's flags (_FILE_OFFSET_BITS) give it. */
int __wrap_fstatat64(int at, const char *name, struct stat *ret_status, int flags);
int __wrap_fstatat64(int at, const char *name, struct stat *ret_status, int flags)
{
    return __wrap_fstatat(at, name, ret_status, flags);
}
#endif

/* ---- fixture ---- */

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
    calls[0] = '\0';
    fsync_fails = fstatat_fails = false;
    (void)chmod(directory, 0700);
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
    assert_true(oscore_state_is_new(state));
    assert_true(oscore_state_reserve(state, 256, &why));
    assert_int_equal(oscore_state_reserved(state), 256);
    oscore_state_close(state); /* as a crash does it: nothing more is written */
    state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_int_equal(oscore_state_reserved(state), 256);
    assert_false(oscore_state_is_new(state));
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

/* RFC 8613 appendix B.1.1: what is used again after a loss of power gives plaintext away. */
static void test_a_loss_of_power_takes_nothing_back(void **unused)
{
    (void)unused;
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_string_equal(calls, "fsync parent\nfsync file\nrename\nfsync directory\n");
    calls[0] = '\0';
    assert_true(oscore_state_reserve(state, 256, &why));
    assert_string_equal(calls, "fsync file\nrename\nfsync directory\n");
    fsync_fails = true;
    assert_false(oscore_state_reserve(state, 512, &why));
    assert_int_equal(oscore_state_reserved(state), 256);
    oscore_state_close(state);
}

static void test_a_directory_that_may_be_lost_is_not_begun_in(void **unused)
{
    (void)unused;
    fsync_fails = true;
    assert_null(oscore_state_open(directory, NAME, &why));
    assert_string_equal(why, "nothing can be written to the directory of the sequence numbers");
    fsync_fails = false;
    assert_int_not_equal(access(file, F_OK), 0);
}

/* In a directory that was there the mode of the parent is none of ours, but it is tried. */
static void test_a_first_use_syncs_the_parent_of_a_directory_that_is_there(void **unused)
{
    (void)unused;
    assert_int_equal(mkdir(directory, 0700), 0);
    oscore_state_close(oscore_state_open(directory, NAME, &why));
    assert_string_equal(calls, "fsync parent\nfsync file\nrename\nfsync directory\n");
}

static void test_a_file_that_is_gone_is_no_beginning(void **unused)
{
    (void)unused;
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_int_equal(unlink(file), 0); /* though nothing was reserved yet */
    oscore_state_close(state);
    for (int i = 0; i < 2; i++) {
        assert_null(oscore_state_open(directory, NAME, &why));
        assert_string_equal(why,
                            "the file with the sequence numbers is gone, its lock is there: the "
                            "security context needs a new master secret or ID context");
    }
}

static void test_a_file_that_cannot_be_looked_for_is_no_beginning(void **unused)
{
    (void)unused;
    assert_int_equal(mkdir(directory, 0700), 0);
    write_file("free 4096\n");
    fstatat_fails = true;
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    if (state != NULL) { /* the file could be read all the same */
        assert_int_equal(oscore_state_reserved(state), 4096);
        oscore_state_close(state);
    }
    fstatat_fails = false;
    state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_int_equal(oscore_state_reserved(state), 4096);
    oscore_state_close(state);
}

/* Every user who can read the directory can lock it; the lock must not keep a thread for ever. */
static void test_a_directory_that_stays_locked_is_refused(void **unused)
{
    (void)unused;
    assert_int_equal(mkdir(directory, 0700), 0);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_null(oscore_state_open(directory, NAME, &why));
    assert_string_equal(why, "the directory of the sequence numbers cannot be locked");
    assert_int_equal(close(fd), 0);
}

/* Killed between file and lock, or its lock removed. */
static void test_a_file_without_lock_goes_on(void **unused)
{
    (void)unused;
    assert_int_equal(mkdir(directory, 0700), 0);
    write_file("free 512\n");
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    assert_int_equal(oscore_state_reserved(state), 512);
    assert_false(oscore_state_is_new(state));
    oscore_state_close(state);
}

static void test_a_directory_that_others_may_write_to_is_refused(void **unused)
{
    static const mode_t modes[] = {0770, 0702, 01777};
    (void)unused;
    assert_int_equal(mkdir(directory, 0700), 0);
    for (unsigned i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(directory, modes[i]), 0);
        assert_null(oscore_state_open(directory, NAME, &why));
        assert_string_equal(why, "the directory of the sequence numbers belongs to another user, "
                                 "or its mode lets others write");
    }
    assert_int_equal(chmod(directory, 0755), 0);
    struct oscore_state *state = oscore_state_open(directory, NAME, &why);
    assert_non_null(state);
    oscore_state_close(state);
}

static void test_a_directory_of_another_user_is_refused(void **unused)
{
    (void)unused;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(chown(directory, 65534, 65534), 0);
    assert_null(oscore_state_open(directory, NAME, &why));
    assert_string_equal(why, "the directory of the sequence numbers belongs to another user, or "
                             "its mode lets others write");
}

static void test_a_symbolic_link_is_no_directory(void **unused)
{
    char link[96], slashes[100];

    (void)unused;
    (void)snprintf(link, sizeof link, "%s/link", parent);
    (void)snprintf(slashes, sizeof slashes, "%s//", link);
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(symlink(directory, link), 0);
    const char *const names[] = {link, slashes};
    for (unsigned i = 0; i < 2; i++) {
        assert_null(oscore_state_open(names[i], NAME, &why));
        assert_string_equal(
            why, "the directory of the sequence numbers is a symbolic link, or no directory");
    }
    assert_int_equal(unlink(link), 0);
    (void)snprintf(slashes, sizeof slashes, "%s//", directory);
    struct oscore_state *state = oscore_state_open(slashes, NAME, &why);
    assert_non_null(state);
    oscore_state_close(state);
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
        cmocka_unit_test_teardown(test_a_loss_of_power_takes_nothing_back, clear),
        cmocka_unit_test_teardown(test_a_directory_that_may_be_lost_is_not_begun_in, clear),
        cmocka_unit_test_teardown(test_a_first_use_syncs_the_parent_of_a_directory_that_is_there,
                                  clear),
        cmocka_unit_test_teardown(test_a_file_that_is_gone_is_no_beginning, clear),
        cmocka_unit_test_teardown(test_a_file_that_cannot_be_looked_for_is_no_beginning, clear),
        cmocka_unit_test_teardown(test_a_directory_that_stays_locked_is_refused, clear),
        cmocka_unit_test_teardown(test_a_file_without_lock_goes_on, clear),
        cmocka_unit_test_teardown(test_a_directory_that_others_may_write_to_is_refused, clear),
        cmocka_unit_test_teardown(test_a_directory_of_another_user_is_refused, clear),
        cmocka_unit_test_teardown(test_a_symbolic_link_is_no_directory, clear),
    };
    return cmocka_run_group_tests(tests, make_parent, remove_parent);
}
