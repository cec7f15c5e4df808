/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/origin_labels.h"

#include "ops/metrics.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_OF_LABEL 64 /* a device's, and its NUL */

struct origin_label {
    struct address address;       /* a zeroed one: free */
    char name[NAME_MAX_OF_LABEL]; /* of a device; or "" */
    uint8_t transport;
    uint32_t generation;
    uint32_t used_s;
};

/* The flag is held for one walk along the table; a worker that meets it set comes again later. */
struct origin_labels {
    atomic_flag is_busy;
    struct origin_label labels[METRICS_ORIGIN_OTHER];
};

int origin_labels_new(struct origin_labels **ret_labels)
{
    struct origin_labels *labels = calloc(1, sizeof(*labels));

    if (labels == NULL) {
        return -ENOMEM;
    }
    atomic_flag_clear(&labels->is_busy);
    *ret_labels = labels;
    return 0;
}

static bool is_owned_by(const struct origin_label *label, const struct address *address,
                        const char *name, uint8_t transport)
{
    return label->transport == transport &&
           (name != NULL ? strcmp(label->name, name) == 0
                         : address_equal(&label->address, address));
}

/* The origin server's own, or one that it may have; METRICS_ORIGIN_OTHER: none. */
static unsigned find_label(const struct origin_labels *labels, const struct address *address,
                           const char *name, uint8_t transport, uint32_t now_s)
{
    unsigned oldest = METRICS_ORIGIN_OTHER;

    for (unsigned i = 0; i < METRICS_ORIGIN_OTHER; i++) {
        const struct origin_label *label = &labels->labels[i];
        bool is_free = label->address.family == ADDRESS_NONE;
        if (!is_free && is_owned_by(label, address, name, transport)) {
            return i;
        }
        bool may_go = is_free || now_s - label->used_s >= ORIGIN_LABEL_IDLE_S;
        bool is_older =
            oldest == METRICS_ORIGIN_OTHER ||
            (labels->labels[oldest].address.family != ADDRESS_NONE &&
             (is_free || now_s - label->used_s > now_s - labels->labels[oldest].used_s));
        if (may_go && is_older) {
            oldest = i;
        }
    }
    return oldest;
}

unsigned origin_labels_take(struct origin_labels *labels, const struct address *address,
                            const char *name, uint8_t transport, uint32_t now_s,
                            uint32_t *ret_generation)
{
    *ret_generation = 1;
    if (atomic_flag_test_and_set_explicit(&labels->is_busy, memory_order_acquire)) {
        return METRICS_ORIGIN_OTHER;
    }
    unsigned found = find_label(labels, address, name, transport, now_s);
    if (found != METRICS_ORIGIN_OTHER) {
        struct origin_label *label = &labels->labels[found];
        if (!is_owned_by(label, address, name, transport)) {
            (void)snprintf(label->name, sizeof(label->name), "%s", name != NULL ? name : "");
            label->address = *address;
            label->transport = transport;
            label->generation++;
        }
        label->used_s = now_s;
        *ret_generation = label->generation;
    }
    atomic_flag_clear_explicit(&labels->is_busy, memory_order_release);
    return found;
}

uint32_t origin_labels_get(struct origin_labels *labels, unsigned label,
                           char ret_text[ADDRESS_TEXT_MAX], uint8_t *ret_transport)
{
    while (atomic_flag_test_and_set_explicit(&labels->is_busy, memory_order_acquire)) {
        (void)sched_yield(); /* a worker is in find_label(), for less than a microsecond */
    }
    const struct origin_label owner = labels->labels[label];
    atomic_flag_clear_explicit(&labels->is_busy, memory_order_release);
    if (owner.name[0] != '\0') {
        (void)snprintf(ret_text, ADDRESS_TEXT_MAX, "%s", owner.name);
    } else {
        (void)address_format(&owner.address, ret_text);
    }
    *ret_transport = owner.transport;
    return owner.generation;
}
