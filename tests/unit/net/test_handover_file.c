/* SPDX-License-Identifier: BSD-2-Clause */
/* Hand-over files: taken once, and not at all where anything is wrong with them. */
#include "support/test.h"

#include "net/handover_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How much later it is than the system's clock says. */
static time_t later_ms;

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int result = __real_clock_gettime(clock, ret_time);
    ret_time->tv_sec += later_ms / 1000;
    return result;
}

static const char secret[] = "keys of a thousand sessions";

/* a hand-over file with the secret in it. */
static int written(void)
{
    struct pack body = {0};
    int fd = handover_file_open_memory();

    assert_true(fd >= 0);
    pack_bytes(&body, secret, sizeof secret);
    assert_int_equal(handover_file_write(fd, &body), 0);
    pack_clear(&body);
    return fd;
}

static off_t size_of(int fd)
{
    struct stat file;

    assert_int_equal(fstat(fd, &file), 0);
    return file.st_size;
}

/* Whatever comes of it, nothing is left. */
static void assert_refused(int fd, enum handover_refusal why)
{
    struct pack body = {0};
    struct unpack in = {0};
    enum handover_refusal said = HANDOVER_REFUSAL_COUNT;

    assert_false(handover_file_take(fd, &body, &in, &said));
    assert_int_equal(said, why);
    assert_null(body.data);
    assert_int_equal(size_of(fd), 0);
    assert_int_equal(close(fd), 0);
}

static void test_what_was_written_is_taken_once(void **state)
{
    struct pack body = {0};
    struct unpack in = {0};
    enum handover_refusal why = HANDOVER_REFUSAL_COUNT;
    int fd = written();
    (void)state;

    assert_true(handover_file_take(fd, &body, &in, &why));
    assert_int_equal(why, HANDOVER_REFUSAL_COUNT);
    size_t len = 0;
    const uint8_t *bytes = unpack_bytes(&in, &len);
    assert_int_equal(len, sizeof secret);
    assert_memory_equal(bytes, secret, len);
    assert_int_equal(in.left, 0);
    pack_clear(&body);
    assert_int_equal(size_of(fd), 0);
    assert_refused(fd, HANDOVER_REFUSAL_empty);
}

/* Two programs that were started at once, each with the file open. */
static void test_one_of_two_processes_gets_it(void **state)
{
    struct pack body = {0};
    struct unpack in = {0};
    enum handover_refusal why = HANDOVER_REFUSAL_COUNT;
    char path[64];
    int fd = written();
    off_t size = size_of(fd);
    (void)state;

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, O_RDWR | O_CLOEXEC);
    assert_true(other >= 0);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0); /* it has begun */
    assert_false(handover_file_take(fd, &body, &in, &why));
    assert_int_equal(why, HANDOVER_REFUSAL_in_use);
    assert_null(body.data);
    assert_int_equal(size_of(fd), size); /* which is the other's to read */
    assert_int_equal(close(other), 0);
    assert_true(handover_file_take(fd, &body, &in, &why));
    pack_clear(&body);
    assert_int_equal(close(fd), 0);
}

static void test_any_damage_is_noticed(void **state)
{
    (void)state;
    int first = written();
    off_t size = size_of(first);
    assert_int_equal(close(first), 0);

    for (off_t at = 0; at < size; at++) {
        struct pack body = {0};
        struct unpack in = {0};
        enum handover_refusal why = HANDOVER_REFUSAL_COUNT;
        uint8_t byte = 0;
        int fd = written();
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_false(handover_file_take(fd, &body, &in, &why));
        assert_true(why != HANDOVER_REFUSAL_COUNT);
        assert_int_equal(size_of(fd), 0);
        assert_int_equal(close(fd), 0);
        fd = written(); /* and one that ends there */
        assert_int_equal(ftruncate(fd, at), 0);
        assert_false(handover_file_take(fd, &body, &in, &why));
        assert_int_equal(close(fd), 0);
    }
}

static void test_of_another_version(void **state)
{
    int fd = written();
    (void)state;

    assert_int_equal(pwrite(fd, "\0\0\0\x63", 4, 17), 4);
    assert_refused(fd, HANDOVER_REFUSAL_other_version);
}

static void test_of_another_user_or_start(void **state)
{
    (void)state;

    for (off_t at = 21; at < 21 + 4 + 36; at += 7) {
        int fd = written();
        assert_int_equal(pwrite(fd, "\x55", 1, at), 1);
        assert_refused(fd, HANDOVER_REFUSAL_foreign);
    }
}

static void test_an_old_one(void **state)
{
    int fd = written();
    (void)state;

    later_ms = (time_t)HANDOVER_FILE_AGE_MS + 1000;
    assert_refused(fd, HANDOVER_REFUSAL_too_old);
    later_ms = 0;
    fd = written();
    later_ms = -60000; /* from the future: the clock of another system */
    assert_refused(fd, HANDOVER_REFUSAL_too_old);
    later_ms = 0;
}

/* What cannot be destroyed could be taken once more: its keys are not used, and no copy stays. */
static void test_one_that_cannot_be_overwritten(void **state)
{
    struct pack body = {0};
    struct unpack in = {0};
    enum handover_refusal why = HANDOVER_REFUSAL_COUNT;
    char path[64];
    int fd = written();
    (void)state;

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int read_only = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(read_only >= 0);
    assert_false(handover_file_take(read_only, &body, &in, &why));
    assert_int_equal(why, HANDOVER_REFUSAL_not_overwritten);
    assert_null(body.data);
    assert_int_equal(close(read_only), 0);
    assert_int_equal(close(fd), 0);
}

static void test_a_failed_pack_is_not_written(void **state)
{
    const struct pack body = {.has_failed = true};
    int fd = handover_file_open_memory();
    (void)state;

    assert_true(handover_file_write(fd, &body) < 0);
    assert_refused(fd, HANDOVER_REFUSAL_empty);
}

static void test_what_is_destroyed_is_overwritten(void **state)
{
    int fd = written();
    (void)state;

    assert_int_equal(handover_file_destroy(fd), 0);
    assert_int_equal(size_of(fd), 0);
    assert_refused(fd, HANDOVER_REFUSAL_empty);
}

static void test_packs_end_where_they_end(void **state)
{
    struct pack pack = {0};
    size_t len = 0;
    (void)state;

    pack_uint(&pack, 0x0102030405060708, 8);
    pack_uint(&pack, 0xfffe, 2);
    pack_bytes(&pack, "", 0);
    pack_raw(&pack, "raw", 3);
    struct unpack in = {.at = pack.data, .left = pack.len};
    assert_true(unpack_uint(&in, 8) == 0x0102030405060708);
    assert_int_equal(unpack_uint(&in, 2), 0xfffe);
    assert_non_null(unpack_bytes(&in, &len));
    assert_int_equal(len, 0);
    char raw[4] = "...";
    unpack_raw(&in, raw, 3);
    assert_string_equal(raw, "raw");
    assert_false(in.has_failed);
    assert_int_equal(unpack_uint(&in, 1), 0);
    assert_true(in.has_failed);
    /* A length of more than there is. */
    in = (struct unpack){.at = (const uint8_t *)"\xff\xff\xff\xff!", .left = 5};
    assert_null(unpack_bytes(&in, &len));
    assert_true(in.has_failed && len == 0);
    pack_clear(&pack);
}

static void test_packs_have_packs_in_them(void **state)
{
    struct pack pack = {0};
    size_t len = 0;
    (void)state;

    size_t outer = pack_open(&pack);
    pack_uint(&pack, 7, 1);
    size_t inner = pack_open(&pack);
    pack_expect(&pack, 100000);
    assert_true(pack.capacity >= 100000);
    for (unsigned i = 0; i < 2000; i++) { /* which moves all of it */
        pack_raw(&pack, "a hundred thousand bytes as fifty times 2,000....", 50);
    }
    pack_close(&pack, inner);
    pack_close(&pack, outer);
    struct unpack in = {.at = pack.data, .left = pack.len};
    const uint8_t *all = unpack_bytes(&in, &len);
    assert_int_equal(len, 1 + 4 + 100000);
    assert_int_equal(in.left, 0);
    in = (struct unpack){.at = all, .left = len};
    assert_int_equal(unpack_uint(&in, 1), 7);
    const uint8_t *text = unpack_bytes(&in, &len);
    assert_int_equal(len, 100000);
    assert_string_equal((const char *)text + len - 50,
                        "a hundred thousand bytes as fifty times 2,000....");
    assert_false(in.has_failed);
    pack_clear(&pack);
    /* One that has failed stays as it is. */
    pack = (struct pack){.has_failed = true};
    pack_close(&pack, pack_open(&pack));
    pack_expect(&pack, 1);
    assert_true(pack.has_failed && pack.data == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_taken_once),
        cmocka_unit_test(test_one_of_two_processes_gets_it),
        cmocka_unit_test(test_any_damage_is_noticed),
        cmocka_unit_test(test_of_another_version),
        cmocka_unit_test(test_of_another_user_or_start),
        cmocka_unit_test(test_an_old_one),
        cmocka_unit_test(test_one_that_cannot_be_overwritten),
        cmocka_unit_test(test_a_failed_pack_is_not_written),
        cmocka_unit_test(test_what_is_destroyed_is_overwritten),
        cmocka_unit_test(test_packs_end_where_they_end),
        cmocka_unit_test(test_packs_have_packs_in_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
