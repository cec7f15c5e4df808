/* SPDX-License-Identifier: BSD-2-Clause */
/* criproxyctl fronts: requests by the transport that they came over. */
#include "server/control.h"

#include "coap/transport.h"
#include "ops/metrics.h"
#include "server/internal.h"

#include <stdlib.h>

/* How many durations are in it. */
static uint64_t durations_in(const struct histogram *histogram)
{
    uint64_t count = 0;

    for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
        count += metric_get(&histogram->buckets[i]);
    }
    return count;
}

static void put_front(struct json_writer *lines, const struct metrics *sum, enum transport front,
                      uint64_t requests)
{
    const struct histogram *forwarded = &sum->durations[front][0];

    json_begin(lines);
    json_text(lines, "front", front == TRANSPORT_NONE ? "other" : transport_row(front)->scheme);
    json_uint(lines, "requests", requests);
    json_uint(lines, "cached", durations_in(&sum->durations[front][1]));
    json_uint(lines, "forwarded", durations_in(forwarded));
    json_uint(lines, "forwarded_us", metric_get(&forwarded->sum_us));
    (void)json_end(lines);
}

void control_fronts(struct control_client *client)
{
    uint64_t requests[TRANSPORT_COUNT] = {0}, count;
    struct metrics *sum = calloc(1, sizeof(struct metrics));
    char buffer[256 * TRANSPORT_COUNT];
    enum transport front = TRANSPORT_NONE;
    struct json_writer lines;
    struct metric_end end;

    if (sum == NULL) {
        control_end(client, "out of memory");
        return;
    }
    server_sum_metrics(client->server, sum);
    for (unsigned i = 0; i < METRICS_SERIES; i++) {
        if (metrics_series_get(sum, i, &end, &front, &count)) {
            requests[front] += count;
        }
    }
    json_writer_init(&lines, buffer, sizeof(buffer));
    for (unsigned i = TRANSPORT_NONE; i < TRANSPORT_COUNT; i++) {
        if (requests[i] > 0) {
            put_front(&lines, sum, (enum transport)i, requests[i]);
        }
    }
    free(sum);
    control_send(client, &lines);
    control_end(client, NULL);
}
