/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records each call of a program made with -finstrument-functions, which calls the two
 * functions below: loaded before the C library, whose own do nothing. The record is a shared
 * mapping of the file that WALK_RECORD names, for bench/walk/run to read while the program runs.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORDS_MAX (1u << 24) /* the start of the program takes some 200,000 */

struct record {
    uint64_t function; /* 0: a return */
    uint64_t thread;
};

struct walk {
    _Atomic uint64_t count;
    uint64_t unused;
    struct record records[RECORDS_MAX];
};

static struct walk *walk;

#define NOT_RECORDED __attribute__((no_instrument_function))

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

__attribute__((constructor)) NOT_RECORDED static void walk_open(void)
{
    const char *path = getenv("WALK_RECORD");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = fd >= 0 && ftruncate(fd, sizeof *walk) == 0
                       ? mmap(NULL, sizeof *walk, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                       : MAP_FAILED;
    if (mapped == MAP_FAILED) {
        _exit(127);
    }
    walk = mapped;
}

NOT_RECORDED static void note(uint64_t function)
{
    static _Thread_local uint64_t thread;
    uint64_t place = walk != NULL ? atomic_fetch_add(&walk->count, 1) : RECORDS_MAX;

    if (thread == 0) {
        thread = (uint64_t)syscall(SYS_gettid);
    }
    if (place < RECORDS_MAX) {
        walk->records[place] = (struct record){.function = function, .thread = thread};
    }
}

NOT_RECORDED void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    note((uint64_t)(uintptr_t)function);
}

NOT_RECORDED void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
    note(0);
}
