/* SPDX-License-Identifier: BSD-2-Clause */
/* Places: where requests go, found by transport, address, name and credentials. */
#include "net/client_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- places ---- */

static uint64_t place_key(const struct upstream *upstream, const struct upstream_target *target)
{
    uint64_t seed = upstream->places.seed;
    uint64_t key = hash_mix(address_hash(&target->address, seed), (uint64_t)target->transport + 1);
    if (target->host != NULL) {
        key = hash_mix(key, hash_bytes((const uint8_t *)target->host, strlen(target->host), seed));
    }
    return key;
}

static bool is_same_credentials(const struct upstream_target *a, const struct upstream_target *b)
{
    return !transport_is_secure(a->transport) || a->credentials == b->credentials ||
           memcmp(credentials_digest(a->credentials), credentials_digest(b->credentials),
                  UPSTREAM_DIGEST_LEN) == 0;
}

static bool client_place_is_for(const struct place *place, const struct upstream_target *target)
{
    const struct upstream_target *own = &place->target;
    return own->transport == target->transport && address_equal(&own->address, &target->address) &&
           (own->host == NULL) == (target->host == NULL) &&
           (own->host == NULL || strcmp(own->host, target->host) == 0) &&
           is_same_credentials(own, target);
}

static void place_unlink(struct place *place)
{
    struct upstream *upstream = place->upstream;
    *(place->newer != NULL ? &place->newer->older : &upstream->newest) = place->older;
    *(place->older != NULL ? &place->older->newer : &upstream->oldest) = place->newer;
}

static void place_link(struct place *place)
{
    struct upstream *upstream = place->upstream;
    place->newer = NULL;
    place->older = upstream->newest;
    *(upstream->newest != NULL ? &upstream->newest->newer : &upstream->oldest) = place;
    upstream->newest = place;
}

/* A place whose session is inside a callback is not freed, either. */
static bool place_is_idle(const struct place *place)
{
    const struct session *inside = place->upstream->inside;
    return place->waiting.count == 0 && place->out_count == 0 &&
           (inside == NULL || inside->place != place);
}

/* It has no requests, waiting or out. */
void place_free(struct place *place)
{
    struct upstream *upstream = place->upstream;
    struct session *next;
    for (struct session *session = upstream->sessions; session != NULL; session = next) {
        next = session->next;
        if (session->place == place) {
            session_close(session);
        }
    }
    for (struct place **link = &upstream->due_places; *link != NULL; link = &(*link)->next_due) {
        if (*link == place) {
            *link = place->next_due;
            break;
        }
    }
    timer_cancel(&upstream->wheel, &place->timer);
    hash_map_remove(&place->node);
    account_discharge(&upstream->accounts, &place->holding);
    place_unlink(place);
    upstream_credentials_release(place->target.credentials);
    upstream->place_count--;
    free(place);
}

/* The one that was used longest ago and has nothing to do. */
static bool evict_place(struct upstream *upstream)
{
    for (struct place *place = upstream->oldest; place != NULL; place = place->newer) {
        if (place_is_idle(place)) {
            place_free(place);
            return true;
        }
    }
    return false;
}

/* All of its requests fail; their handlers are called in the next turn. */
static void place_clear(struct place *place)
{
    struct upstream *upstream = place->upstream;
    place_fail_waiting(place, UPSTREAM_DISPLACED, NULL);
    for (struct session *session = upstream->sessions; session != NULL; session = session->next) {
        while (session->place == place && session->out.first != NULL) {
            request_fail(upstream, session->out.first, UPSTREAM_DISPLACED, NULL);
        }
    }
}

/*
 * All of them are busy: the source that holds most gives up the one that it used first, to
 * another that holds fewer (base/account.h).
 */
static bool displace_place(struct upstream *upstream, const struct address *source)
{
    bool is_owed;
    struct holding *holding = account_yield(&upstream->accounts, source, 1, &is_owed);
    if (!is_owed) {
        return false;
    }
    struct place *place = HASH_ENTRY(holding, struct place, holding);
    if (upstream->inside != NULL && upstream->inside->place == place) {
        return false; /* it is at work for this very newcomer */
    }
    account_note_displaced(holding);
    place_clear(place);
    place_free(place);
    return true;
}

static void place_charge(struct place *place, const struct address *source)
{
    account_discharge(&place->upstream->accounts, &place->holding);
    account_charge(&place->upstream->accounts, &place->holding, source, 1);
}

static struct place *place_find(const struct upstream *upstream,
                                const struct upstream_target *target, uint64_t key)
{
    struct hash_node *node = hash_map_find(&upstream->places, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct place *place = HASH_ENTRY(node, struct place, node);
        if (client_place_is_for(place, target)) {
            return place;
        }
    }
    return NULL;
}

/* @return NULL with @p ret_status. */
struct place *place_get(struct upstream *upstream, const struct upstream_target *target,
                        enum upstream_status *ret_status)
{
    uint64_t key = place_key(upstream, target);
    struct place *place = place_find(upstream, target, key);
    if (place != NULL) {
        place_unlink(place);
        place_link(place);
        place_charge(place, &target->source);
        return place;
    }
    *ret_status = UPSTREAM_FULL;
    if (upstream->place_count >= upstream->options.sessions_max && !evict_place(upstream) &&
        !displace_place(upstream, &target->source)) {
        return NULL;
    }
    *ret_status = UPSTREAM_NO_MEMORY;
    bool is_usable = (target->host == NULL || strlen(target->host) <= UPSTREAM_HOST_MAX) &&
                     (target->credentials != NULL || !transport_is_secure(target->transport));
    place = is_usable ? calloc(1, sizeof *place) : NULL;
    if (place == NULL) {
        return NULL;
    }
    place->upstream = upstream;
    place->target = *target;
    if (target->host != NULL) {
        memcpy(place->host, target->host, strlen(target->host));
        place->target.host = place->host;
    }
    if (target->credentials != NULL) {
        (void)upstream_credentials_acquire(target->credentials);
    }
    place_link(place);
    place_charge(place, &target->source);
    hash_map_add(&upstream->places, &place->node, key);
    upstream->place_count++;
    return place;
}

void place_fail_waiting(struct place *place, enum upstream_status status, const char *why)
{
    while (place->waiting.first != NULL) {
        request_fail(place->upstream, place->waiting.first, status, why);
    }
}

/* A failure is one of the session as a whole: each in a row doubles the wait. */
void place_back_off(struct place *place)
{
    const struct upstream_options *options = &place->upstream->options;
    uint64_t wait_ms = options->back_off_ms;
    for (uint32_t i = 0; i < place->failures && wait_ms < options->back_off_max_ms; i++) {
        wait_ms *= 2;
    }
    if (wait_ms > options->back_off_max_ms) {
        wait_ms = options->back_off_max_ms;
    }
    place->failures++;
    place->retry_ms = place->upstream->now_ms + wait_ms;
}
