/* SPDX-License-Identifier: BSD-2-Clause */
/* The token of this process in the field Via of HTTP: one that comes back is a loop (HC-17). */
#ifndef CRIPROXY_VIA_H
#define CRIPROXY_VIA_H

/** 16 digits, the same in all threads, NUL-terminated, static. Cannot fail. */
const char *via_token(void);

#endif
