/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of [scheme NAME], and the times that follow from it (RFC 7252 section 4.8). */
#include "conf/loader.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LATENCY_MS 100000u /* RFC 7252 section 4.8.2 */

static const struct place *scheme_place_of(const struct named_draft *draft, const char *key)
{
    return named_place(CONFIG_NAMED_SCHEME, draft, key);
}

static bool is_set(const struct named_draft *draft, const char *key)
{
    return scheme_place_of(draft, key)->kind != PLACE_PRESET;
}

#define scheme_error(loader, draft, place, key, ...)                                               \
    named_error(loader, CONFIG_NAMED_SCHEME, draft, place, key, __VA_ARGS__)

/* A number leads to one name: in this table, and in the registry that libcri has. */
static void check_number(struct loader *loader, size_t index)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_SCHEME];
    const struct named_draft *draft = &drafts->items[index];
    const struct scheme *row = draft->row;
    const struct place *place = scheme_place_of(draft, "number");
    uint32_t number = row->number;

    if (number == SCHEME_NUMBER_NONE && place->kind != PLACE_PRESET) {
        return; /* the value was no number, which was reported */
    }
    if (number == SCHEME_NUMBER_NONE) {
        scheme_error(loader, draft, named_any_place(CONFIG_NAMED_SCHEME, draft), "number",
                     "needed, because the registry of scheme numbers has no such name");
        return;
    }
    for (size_t i = 0; i < index; i++) {
        const struct named_draft *other = &drafts->items[i];
        const struct scheme *other_row = other->row;
        if (other_row->number == number) {
            scheme_error(loader, draft,
                         place->kind == PLACE_PRESET ? scheme_place_of(other, "number") : place,
                         "number", "%u is the number of %s too", number, other_row->name);
            return;
        }
    }
    const struct cri_scheme *known = cri_scheme_by_number(NULL, number);
    if (known != NULL && strcmp(known->name, row->name) != 0) {
        scheme_error(loader, draft, place, "number", "%u is the registered number of %s", number,
                     known->name);
    }
}

/*
 * RFC 7252 section 4.8.1: ACK_TIMEOUT must not be decreased nor NSTART increased
 * without a mechanism that keeps congestion control safe (MSG-30). Our window is
 * one; for an ACK_TIMEOUT below one second it has to be asked for by name.
 */
static void check_congestion(struct loader *loader, const struct named_draft *draft)
{
    struct scheme *row = draft->row;

    if (row->congestion_control == CONGESTION_FIXED) {
        if (is_set(draft, "nstart") && row->nstart > 1) {
            scheme_error(loader, draft, scheme_place_of(draft, "nstart"), "nstart",
                         "above 1 needs congestion-control = window (RFC 7252 section 4.8.1)");
        }
        if (is_set(draft, "nstart-max") && row->nstart_max > 1) {
            scheme_error(loader, draft, scheme_place_of(draft, "nstart-max"), "nstart-max",
                         "above 1 needs congestion-control = window (RFC 7252 section 4.8.1)");
        }
        row->nstart = 1;
        row->nstart_max = 1;
    } else if (!is_set(draft, "nstart") && row->nstart > row->nstart_max) {
        row->nstart = row->nstart_max; /* a cap below our default lowers it */
    } else if (row->nstart > row->nstart_max) {
        scheme_error(loader, draft, scheme_place_of(draft, "nstart"), "nstart",
                     "above nstart-max, which is %u", row->nstart_max);
    }
    bool window_by_name =
        is_set(draft, "congestion-control") && row->congestion_control == CONGESTION_WINDOW;
    if (row->ack_timeout < 1000 && !window_by_name) {
        scheme_error(loader, draft, scheme_place_of(draft, "ack-timeout"), "ack-timeout",
                     "below 1s needs congestion-control = window in the same section "
                     "(RFC 7252 section 4.8.1)");
    }
}

/* Preset schemes lose a transport that is left out; one that is asked for is refused. */
static void check_build(struct loader *loader, const struct named_draft *draft)
{
    const struct scheme *row = draft->row;
    const char *lacks = transport_left_out(row->transport);

    if (lacks != NULL) {
        scheme_error(loader, draft, scheme_place_of(draft, "transport"), "transport",
                     "built without %s", lacks);
    }
}

/* Connections have no types of messages; libcoap's sessions on DTLS have CON. */
static void check_type(struct loader *loader, const struct named_draft *draft)
{
    const struct scheme *row = draft->row;

    if (row->upstream_type == UPSTREAM_TYPE_MIRROR && !transport_is_datagram(row->transport)) {
        scheme_error(loader, draft, scheme_place_of(draft, "upstream-type"), "upstream-type",
                     "mirror is for schemes with transport = udp or dtls");
    }
}

/* A URL has the scheme of its transport: no other scheme can be reached over HTTP. */
static void check_transport(struct loader *loader, const struct named_draft *draft)
{
    struct scheme *row = draft->row;

    if (transport_is_http(row->transport) &&
        strcmp(row->name, transport_row(row->transport)->scheme) != 0) {
        scheme_error(loader, draft, scheme_place_of(draft, "transport"), "transport",
                     "%s is for the scheme of that name only", transport_row(row->transport)->word);
        row->transport = TRANSPORT_NONE;
    }
}

/* RFC 7252 section 4.8.2; the rows' limits keep every product below 2^32. */
static void derive_times(struct scheme *row)
{
    uint64_t longest = (uint64_t)row->ack_timeout * row->ack_random_factor / 100;
    uint64_t span = longest * ((UINT64_C(1) << row->max_retransmit) - 1);
    uint64_t wait = longest * ((UINT64_C(2) << row->max_retransmit) - 1);

    row->silent_after = (uint32_t)(3 * longest);
    row->max_transmit_span = (uint32_t)span;
    row->max_transmit_wait = (uint32_t)wait;
    row->exchange_lifetime = (uint32_t)(span + 2u * MAX_LATENCY_MS + row->ack_timeout);
    row->non_lifetime = (uint32_t)(span + MAX_LATENCY_MS);
}

static int compare_numbers(const void *a, const void *b)
{
    const struct scheme *left = a;
    const struct scheme *right = b;

    return (left->number > right->number) - (left->number < right->number);
}

/* The drafts become the snapshot's two tables. */
static void freeze(struct loader *loader)
{
    struct config *config = loader->config;
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_SCHEME];
    size_t count = drafts->count;
    struct scheme *schemes = arena_alloc(config->arena, count * sizeof(struct scheme));
    struct cri_scheme *rows = arena_alloc(config->arena, count * sizeof(struct cri_scheme));

    if (schemes == NULL || rows == NULL) {
        loader->no_memory = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(&schemes[i], drafts->items[i].row, sizeof(schemes[i]));
    }
    qsort(schemes, count, sizeof(struct scheme), compare_numbers);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct cri_scheme){.number = schemes[i].number,
                                      .name = schemes[i].name,
                                      .default_port = (uint16_t)schemes[i].default_port};
    }
    config->schemes = schemes;
    config->scheme_count = count;
    config->scheme_table = (struct cri_scheme_table){.rows = rows, .count = count};
}

void loader_check_schemes(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_SCHEME];

    for (size_t i = 0; i < drafts->count; i++) {
        check_number(loader, i);
        check_congestion(loader, &drafts->items[i]);
        check_type(loader, &drafts->items[i]);
        check_build(loader, &drafts->items[i]);
        check_transport(loader, &drafts->items[i]);
        derive_times(drafts->items[i].row);
    }
    freeze(loader);
}
