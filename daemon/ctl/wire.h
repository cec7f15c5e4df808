/* SPDX-License-Identifier: BSD-2-Clause */
/* The control socket as criproxyctl uses it: requests out, lines in (server/control.h). */
#ifndef CRIPROXYCTL_WIRE_H
#define CRIPROXYCTL_WIRE_H

#include "base/json.h"

#include <signal.h>

#define WIRE_LINE_MAX 65536u
#define WIRE_ARGUMENTS_MAX 16

/* A connection. Large: static, or on the heap. */
struct wire {
    int fd;
    const volatile sig_atomic_t *stop; /* not 0: a wait ends with WIRE_STOPPED; or NULL */
    size_t used, len;                  /* of buffer: read already, and there */
    char buffer[WIRE_LINE_MAX];
    char memory[WIRE_LINE_MAX + 2 * JSON_MEMBERS_MAX];
    struct json_object object; /* the last line: its members, */
    const char *line;          /* and as it came, without its end; both until the next read */
    size_t line_len;
};

enum wire_result {
    WIRE_ITEM,    /* an object */
    WIRE_END,     /* the answer is over, and was good: the object has its limit */
    WIRE_REFUSED, /* it is over with an error, which was printed */
    WIRE_BROKEN,  /* nothing more comes; the reason was printed */
    WIRE_STOPPED, /* by a signal */
};

/** @return whether it is connected; if not, the reason was printed. Close with wire_close(). */
bool wire_open(struct wire *wire, const char *path);

/** Closes the connection; the struct stays the caller's. */
void wire_close(struct wire *wire);

/** Sends a request. @return false where it cannot be sent; the reason was printed */
bool wire_ask(const struct wire *wire, const char *command, char *const *arguments, int count);

/**
 * Waits for the next line of the answer, which is borrowed from @p wire until the next read. Errors
 * are printed.
 */
enum wire_result wire_read(struct wire *wire);

/**
 * Waits for the whole answer, and gives each object to @p take (NULL: they are dropped), which
 * may fail: then the rest is read all the same, and the result is WIRE_BROKEN.
 */
enum wire_result wire_read_all(struct wire *wire,
                               bool (*take)(void *context, const struct wire *wire), void *context);

#endif
