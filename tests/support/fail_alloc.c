/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shared object for LD_PRELOAD: one allocation of the program that it is loaded into
 * returns NULL, for every caller: the program, OpenSSL, libevent, libcoap or libc.
 *
 * How it works. The environment variable CRIPROXY_FAIL_ALLOC names a file of one struct
 * control, which a test maps too. The test says which allocation is to fail, counted from
 * then on, or from the first one that the program itself makes: what the loader and
 * constructors of libraries do before main() is not ours to survive. The backtrace of the
 * failed allocation goes to standard error, so that a failing test shows where it was.
 * Beside AddressSanitizer the next malloc() in line is the sanitizer's, so leaks and wrong
 * accesses after the failure are found as always.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#define BACKTRACE_MAX 48

/* In the file, as tests/system/short_memory.py has it. */
struct control {
    _Atomic uint64_t counting; /* 0: no; 1: yes; 2: from the program's first allocation on */
    _Atomic uint64_t count;    /* allocations seen */
    _Atomic uint64_t fail_at;  /* the one of them that fails, from 1; 0: none */
    _Atomic uint64_t failed;   /* how many did */
};

static struct control none, *control = &none;
static uintptr_t program_start, program_end;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static int (*next_pthread_getattr_np)(pthread_t, pthread_attr_t *);
static void *(*next_aligned_alloc)(size_t, size_t);

/* Within the report of one failure, or the start of a thread: nothing fails there. */
static _Thread_local bool is_exempt;

/* ISO C has no conversion from an object's address to a function's. */
#define LOOK_UP(name)                                                                              \
    do {                                                                                           \
        void *found = dlsym(RTLD_NEXT, #name);                                                     \
        memcpy(&next_##name, &found, sizeof(found));                                               \
    } while (0)

static int note_program(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0) {
            program_start = info->dlpi_addr + segment->p_vaddr;
            program_end = program_start + segment->p_memsz;
        }
    }
    return 1; /* the program itself is the first */
}

static void look_up(void)
{
    LOOK_UP(malloc);
    LOOK_UP(calloc);
    LOOK_UP(realloc);
    LOOK_UP(posix_memalign);
    LOOK_UP(pthread_getattr_np);
    LOOK_UP(aligned_alloc);
}

__attribute__((constructor)) static void open_control(void)
{
    const char *path = getenv("CRIPROXY_FAIL_ALLOC");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);

    (void)dl_iterate_phdr(note_program, NULL);
    if (fd >= 0) {
        void *mapped =
            mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        (void)close(fd);
        if (mapped != MAP_FAILED) {
            control = mapped;
        }
    }
}

struct frames {
    void *address[BACKTRACE_MAX];
    int count;
};

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *where, void *context)
{
    struct frames *frames = context;

    frames->address[frames->count++] = (void *)_Unwind_GetIP(where);
    return frames->count == BACKTRACE_MAX ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* backtrace() would load a library, which the leak checker takes for a leak. */
static void report(uint64_t number)
{
    struct frames frames = {.count = 0};
    char line[64];
    int len = snprintf(line, sizeof(line), "allocation %llu fails\n", (unsigned long long)number);

    is_exempt = true;
    ssize_t written = write(STDERR_FILENO, line, (size_t)len);
    (void)written;
    (void)_Unwind_Backtrace(note_frame, &frames);
    backtrace_symbols_fd(frames.address, frames.count, STDERR_FILENO);
    is_exempt = false;
}

/* Whether the allocation that @p caller asks for is the one. */
static bool is_to_fail(const void *caller)
{
    uint64_t counting = atomic_load_explicit(&control->counting, memory_order_relaxed);
    uintptr_t from = (uintptr_t)caller;

    if (counting == 0 || is_exempt) {
        return false;
    }
    if (counting == 2) {
        if (from < program_start || from >= program_end) {
            return false;
        }
        atomic_store(&control->counting, 1);
    }
    uint64_t number = atomic_fetch_add(&control->count, 1) + 1;
    if (number != atomic_load(&control->fail_at)) {
        return false;
    }
    atomic_fetch_add(&control->failed, 1);
    report(number);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    if (next_malloc == NULL) {
        look_up();
    }
    return is_to_fail(__builtin_return_address(0)) ? NULL : next_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (next_calloc == NULL) {
        look_up();
    }
    return is_to_fail(__builtin_return_address(0)) ? NULL : next_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    if (next_realloc == NULL) {
        look_up();
    }
    /* One that frees, or shrinks to nothing, does not fail. */
    bool may_fail = size > 0;
    return may_fail && is_to_fail(__builtin_return_address(0)) ? NULL : next_realloc(old, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
    if (next_posix_memalign == NULL) {
        look_up();
    }
    return is_to_fail(__builtin_return_address(0))
               ? ENOMEM
               : next_posix_memalign(ret_memory, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    if (next_aligned_alloc == NULL) {
        look_up();
    }
    return is_to_fail(__builtin_return_address(0)) ? NULL : next_aligned_alloc(alignment, size);
}

/*
 * AddressSanitizer asks this for the stack of a thread that starts, and ends the program where it
 * fails. On a busy machine a thread that was there before the test counts may start after it.
 */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
    bool was_exempt = is_exempt;

    if (next_pthread_getattr_np == NULL) {
        look_up();
    }
    is_exempt = true;
    int error = next_pthread_getattr_np(thread, attributes);
    is_exempt = was_exempt;
    return error;
}

/* The sanitizer's copies of texts ask its own allocator, past malloc(). */

char *strndup(const char *text, size_t max)
{
    size_t len = strnlen(text, max);
    char *copy = is_to_fail(__builtin_return_address(0)) ? NULL : malloc(len + 1);

    if (copy != NULL) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

char *strdup(const char *text)
{
    return strndup(text, strlen(text));
}
