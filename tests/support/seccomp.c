/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/seccomp.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

bool seccomp_refuse(const unsigned calls[], size_t count, int error)
{
    struct sock_filter rules[2 * SECCOMP_CALLS_MAX + 2];
    unsigned short len = 0;

    if (count > SECCOMP_CALLS_MAX) {
        return false;
    }
    rules[len++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        rules[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        rules[len++] = (struct sock_filter)BPF_STMT(
            BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA));
    }
    rules[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = len, .filter = rules};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
