/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which origin servers have a label of their own in the metrics. A table of
 * METRICS_ORIGINS - 1 labels that all workers share, so that a label means the same origin
 * server in each of them; other origin servers share METRICS_ORIGIN_OTHER.
 *
 * A new origin server takes a free label, or that of the one that has not answered for longest, if
 * that is ORIGIN_LABEL_IDLE_S ago or more. So busy origin servers keep theirs, however many targets
 * a client names. The counters of a label end with its owner; the next owner begins at 0.
 *
 * A device that calls home has its name for a label: its address is a number that each worker
 * gives.
 *
 * Workers look at the table once in a while (ORIGIN_LABEL_LOOK_S), not for each answer, and
 * never wait for it.
 */
#ifndef CRIPROXY_ORIGIN_LABELS_H
#define CRIPROXY_ORIGIN_LABELS_H

#include "base/address.h"

#include <stdint.h>

#define ORIGIN_LABEL_IDLE_S 300u
#define ORIGIN_LABEL_LOOK_S 10u

struct origin_labels;

/** @return 0 or -ENOMEM. Free with free(), after all workers. */
int origin_labels_new(struct origin_labels **ret_labels);

/**
 * The label of the origin server at @p address over @p transport (enum
 * config_scheme_transport), which has answered at @p now_s. From any thread.
 *
 * @param name of a device (conf/device.h), copied: tells it from others in place of @p address;
 *        NULL: it is none.
 * @param ret_generation of the label: counts its owners, from 1.
 * @return less than METRICS_ORIGINS
 */
unsigned origin_labels_take(struct origin_labels *labels, const struct address *address,
                            const char *name, uint8_t transport, uint32_t now_s,
                            uint32_t *ret_generation);

/**
 * The owner of a label, as people are shown it: the name of a device, or an address. From any
 * thread.
 *
 * @return the generation of the label; 0: it has no owner
 */
uint32_t origin_labels_get(struct origin_labels *labels, unsigned label,
                           char ret_text[ADDRESS_TEXT_MAX], uint8_t *ret_transport);

#endif
