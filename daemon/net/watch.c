/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/watch.h"

#include "net/loop_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>

struct watch {
    struct loop *loop;
    struct event *event;
    watch_fn on_readable;
    void *context;
};

static void watch_on_event(evutil_socket_t fd, short what, void *context)
{
    struct watch *watch = context;

    (void)what;
    loop_turn_begin(watch->loop);
    watch->on_readable(watch->context, fd);
}

int watch_new(struct loop *loop, int fd, watch_fn on_readable, void *context,
              struct watch **ret_watch)
{
    struct watch *watch = malloc(sizeof *watch);

    if (watch == NULL) {
        return -ENOMEM;
    }
    *watch = (struct watch){.loop = loop, .on_readable = on_readable, .context = context};
    watch->event = event_new(loop->base, fd, EV_READ | EV_PERSIST, watch_on_event, watch);
    if (watch->event == NULL || event_add(watch->event, NULL) != 0) {
        watch_free(watch);
        return -ENOMEM;
    }
    *ret_watch = watch;
    return 0;
}

void watch_free(struct watch *watch)
{
    if (watch == NULL) {
        return;
    }
    if (watch->event != NULL) {
        event_free(watch->event);
    }
    free(watch);
}
