/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/mmsg.h"

#include "base/log.h"

#include <errno.h>
#include <pthread.h>

static pthread_once_t probed = PTHREAD_ONCE_INIT;
static bool receives_slowly, sends_slowly; /* set once, before there is a socket */

/* The kernel knows no descriptor -1; a sandbox does not let the call come that far. */
static bool is_refused(int result)
{
    return result < 0 && errno != EBADF;
}

static void probe_once(void)
{
    struct mmsghdr header = {.msg_len = 0};

    receives_slowly = is_refused(recvmmsg(-1, &header, 1, MSG_DONTWAIT, NULL));
    sends_slowly = is_refused(sendmmsg(-1, &header, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (mmsg_is_slow()) {
        log_event(LOG_WARNING, "slow_calls", "refused=%s%s%s why=\"a call for each datagram\"",
                  receives_slowly ? "recvmmsg" : "", receives_slowly && sends_slowly ? "," : "",
                  sends_slowly ? "sendmmsg" : "");
    }
}

void mmsg_probe(void)
{
    (void)pthread_once(&probed, probe_once);
}

bool mmsg_is_slow(void)
{
    return receives_slowly || sends_slowly;
}

int mmsg_receive(int fd, struct mmsghdr *headers, unsigned count)
{
    if (!receives_slowly) {
        return recvmmsg(fd, headers, count, MSG_DONTWAIT, NULL);
    }
    unsigned done = 0;
    while (done < count) {
        ssize_t len = recvmsg(fd, &headers[done].msg_hdr, MSG_DONTWAIT);
        if (len < 0) {
            break;
        }
        headers[done++].msg_len = (unsigned)len;
    }
    return done > 0 ? (int)done : -1;
}

int mmsg_send(int fd, struct mmsghdr *headers, unsigned count)
{
    if (!sends_slowly) {
        return sendmmsg(fd, headers, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    unsigned done = 0;
    while (done < count) {
        ssize_t len = sendmsg(fd, &headers[done].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (len < 0) {
            break;
        }
        headers[done++].msg_len = (unsigned)len;
    }
    return done > 0 ? (int)done : -1;
}
