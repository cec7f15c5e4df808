/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shared object for LD_PRELOAD: one allocation of the program that it is loaded into
 * returns NULL, for every caller: the program, OpenSSL, libevent, libcoap or libc.
 *
 * How it works. The environment variable CRIPROXY_FAIL_ALLOC names a file of one struct
 * control, which a test maps too. The test says which allocation is to fail, counted from
 * then on, or from the first one that the program itself makes: what the loader and
 * constructors of libraries do before main() is not ours to survive. Or the first one fails that
 * comes from a call site which is not noted in the file yet: so each call site fails once, however
 * many allocations it makes. The backtrace of the
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

/*
 * A call site is told by its innermost frames, of whatever library, and by the innermost ones of
 * the program: enough to tell apart who asks OpenSSL for what, and not every way that leads there.
 */
#define SITE_FRAMES 3
#define SITE_FRAMES_OF_PROGRAM 3
#define SITES_MAX (1u << 16) /* as tests/system/short_memory.py has it */
#define FAIL_NEW UINT64_MAX  /* fail_at: the first one from a call site that is not noted yet */
#define NOTE_NEW (UINT64_MAX - 1) /* none; all call sites are noted */

/* An unwound stack takes long; one that looks as another did is not unwound again. */
#define LOOKS_MAX (1u << 17)
#define LOOK_WORDS 192u

/* In the file, as tests/system/short_memory.py has it. */
struct control {
    _Atomic uint64_t counting; /* 0: no; 1: yes; 2: from the program's first allocation on */
    _Atomic uint64_t count;    /* allocations seen */
    _Atomic uint64_t fail_at;  /* the one of them that fails, from 1; 0: none */
    _Atomic uint64_t failed;   /* how many did */
    _Atomic uint64_t round;    /* another one: some were taken out of sites */
    _Atomic uint64_t sites[SITES_MAX]; /* hashes of those noted; 0: free */
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

/* Where this thread's stack ends; NULL before that was asked for. */
static _Thread_local const uintptr_t *stack_end;

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

/* Within the frames of an unwound stack: is_to_fail() and what is below, and malloc() itself. */
#define FRAMES_OF_OURS 3

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

/* --- call sites ------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/*
 * Add @p hash to a table of @p size places where it is not there yet; a full one takes no more.
 * @return whether it was new
 */
static bool is_new(_Atomic uint64_t *table, uint64_t size, uint64_t hash)
{
    hash += hash == 0;
    for (uint64_t i = 0; i < size; i++) {
        uint64_t none_yet = 0;
        if (atomic_compare_exchange_strong(&table[(hash + i) % size], &none_yet, hash)) {
            return true;
        }
        if (none_yet == hash) {
            return false;
        }
    }
    return false;
}

static bool is_of_program(uintptr_t address)
{
    return address >= program_start && address < program_end;
}

/* Ask for the end of this thread's stack, once. */
static void note_stack(void)
{
    pthread_attr_t attributes;
    void *start;
    size_t size;
    if (stack_end != NULL) {
        return;
    }
    is_exempt = true;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &start, &size) == 0) {
            stack_end = (const uintptr_t *)((const char *)start + size);
        }
        (void)pthread_attr_destroy(&attributes);
    }
    is_exempt = false;
}

/* Addresses of the program's code on the stack: cheap, and other where the way here is another. */
__attribute__((no_sanitize("address", "undefined"))) static uint64_t look_of_stack(uintptr_t caller)
{
    const uintptr_t *at = __builtin_frame_address(0);
    const uintptr_t *end = at + LOOK_WORDS < stack_end ? at + LOOK_WORDS : stack_end;
    uint64_t hash = mix((uintptr_t)at, caller);
    for (; at < end; at++) {
        hash = is_of_program(*at) ? mix(hash, *at) : hash;
    }
    return hash;
}

/* The same in each process, wherever its parts are loaded. */
static uint64_t place_of(void *address)
{
    Dl_info info;
    return dladdr(address, &info) == 0 ? 0
                                       : (uintptr_t)address - (uintptr_t)info.dli_fbase +
                                             (is_of_program((uintptr_t)address) ? 1u : 0u);
}

static uint64_t site_of_stack(void)
{
    struct frames frames = {.count = 0};
    uint64_t hash = 1;
    int of_program = 0;
    (void)_Unwind_Backtrace(note_frame, &frames);
    for (int i = FRAMES_OF_OURS; i < frames.count && of_program < SITE_FRAMES_OF_PROGRAM; i++) {
        bool is_ours = is_of_program((uintptr_t)frames.address[i]);
        of_program += is_ours;
        if (is_ours || i < FRAMES_OF_OURS + SITE_FRAMES) {
            hash = mix(hash, place_of(frames.address[i]));
        }
    }
    return hash;
}

/* Note the call site. @return whether it was not noted yet */
static bool is_new_site(uintptr_t caller)
{
    static _Atomic uint64_t looks[LOOKS_MAX], round_of_looks;
    uint64_t round = atomic_load(&control->round);
    if (atomic_exchange(&round_of_looks, round) != round) {
        for (unsigned i = 0; i < LOOKS_MAX; i++) {
            atomic_store_explicit(&looks[i], 0, memory_order_relaxed);
        }
    }
    note_stack();
    if (!is_new(looks, LOOKS_MAX, look_of_stack(caller))) {
        return false;
    }
    is_exempt = true;
    bool is_first = is_new(control->sites, SITES_MAX, site_of_stack());
    is_exempt = false;
    return is_first;
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
    uint64_t fail_at = atomic_load(&control->fail_at);
    uint64_t none_yet = 0;
    bool is_due = number == fail_at;
    if (fail_at >= NOTE_NEW && atomic_load(&control->failed) == 0) {
        is_due = is_new_site(from) && fail_at == FAIL_NEW;
    }
    if (!is_due) {
        return false;
    }
    if (!atomic_compare_exchange_strong(&control->failed, &none_yet, 1)) {
        return false; /* another thread was first */
    }
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
