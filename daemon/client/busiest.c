/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/busiest.h"

#include "client/side.h"

#include <stdlib.h>
#include <string.h>

const struct busiest *busiest_look(struct client_side *side)
{
    if (side->busiest == NULL) {
        side->busiest = calloc(1, sizeof(*side->busiest));
    }
    if (side->busiest != NULL) {
        side->context.lab |= LAB_BUSIEST;
        side->busiest->until_ms = context_now_ms(&side->context) + BUSIEST_MS;
    }
    return side->busiest;
}

/* The address without its port, as "192.0.2.7" or "2001:db8::7". */
static void count_client(struct sketch *sketch, const struct address *client)
{
    char text[ADDRESS_TEXT_MAX];
    (void)address_format(client, text);
    char *end = strrchr(text, ':');
    char *begin = text[0] == '[' ? text + 1 : text;
    if (end != NULL) {
        *end = '\0';
    }
    size_t len = strlen(begin);
    if (begin != text && len > 0 && begin[len - 1] == ']') {
        begin[len - 1] = '\0';
    }
    sketch_add(sketch, begin);
}

void busiest_count(struct client_side *side, const struct leg *leg, const struct target *target)
{
    struct busiest *busiest = side->busiest;
    char uri[TARGET_TEXT_MAX];
    if (context_now_ms(&side->context) > busiest->until_ms) {
        busiest_free(side);
        return;
    }
    count_client(&busiest->clients, &leg->asker.path.remote);
    if (target != NULL) {
        sketch_add(&busiest->targets, describe_target(target, uri, sizeof(uri)));
    }
}

void busiest_free(struct client_side *side)
{
    free(side->busiest);
    side->busiest = NULL;
    side->context.lab &= (uint8_t)~LAB_BUSIEST;
}
