/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/recording.h"

#include "base/arena.h"
#include "base/hash.h"
#include "coap/option.h"
#include "coap/target.h"
#include "policy/pattern.h"

#include <stdlib.h>
#include <string.h>

/* --- targets ---------------------------------------------------------------- */

static bool key_append(uint8_t *key, size_t *len, const void *bytes, size_t count)
{
    if (count > RECORDING_KEY_MAX - *len) {
        return false;
    }
    if (count > 0) {
        memcpy(key + *len, bytes, count);
    }
    *len += count;
    return true;
}

size_t recording_key(const struct target *target, uint8_t *key)
{
    const size_t name_len = target->is_name ? target_name_len(target) : 0;
    const uint32_t numbers[] = {target->scheme->number, target->port, target->is_name,
                                (uint32_t)(target->is_name ? name_len : target->address.family),
                                target->path.len};
    size_t len = 0;
    bool fits =
        key_append(key, &len, numbers, sizeof(numbers)) &&
        (target->is_name ? key_append(key, &len, target->name, name_len)
                         : key_append(key, &len, target->address.ip, sizeof(target->address.ip))) &&
        key_append(key, &len, target->zone, strlen(target->zone)) &&
        key_append(key, &len, target->path.packed, target->path.len) &&
        key_append(key, &len, target->query.packed, target->query.len);
    return fits ? len : 0;
}

/* --- references ------------------------------------------------------------- */

struct recording *recording_acquire(struct recording *recording)
{
    atomic_fetch_add_explicit(&recording->references, 1, memory_order_relaxed);
    return recording;
}

void recording_release(struct recording *recording)
{
    if (recording != NULL &&
        atomic_fetch_sub_explicit(&recording->references, 1, memory_order_acq_rel) == 1) {
        arena_free(recording->arena);
        free(recording);
    }
}

/* --- which request ---------------------------------------------------------- */

uint32_t *recording_bucket(const struct recording *recording, uint8_t method, struct bytes key)
{
    uint64_t hash = key.data == NULL ? 0 : hash_bytes(key.data, key.len, method);
    return &recording->buckets[key.data == NULL ? recording->bucket_count
                                                : hash % recording->bucket_count];
}

static bool takes_any(const struct recording_request *request, uint16_t number)
{
    for (size_t i = 0; i < request->any_count; i++) {
        if (request->any[i] == number) {
            return true;
        }
    }
    return false;
}

static bool has_all_of_any(const struct recording_request *request, struct bytes options)
{
    for (size_t i = 0; i < request->any_count; i++) {
        if (!options_have(options, request->any[i])) {
            return false;
        }
    }
    return true;
}

/* Both in ascending order: what is in the recording has to be there, in that order. */
static bool options_match(const struct recording_request *request, struct bytes options)
{
    struct option_iter asked, recorded;
    struct option option, wanted = {0};
    option_iter_init(&asked, options);
    option_iter_init(&recorded, request->options);
    bool has_wanted = option_iter_next(&recorded, &wanted);
    while (option_iter_next(&asked, &option)) {
        if (!option_selects(option.number)) {
            continue;
        }
        if (has_wanted && option.number == wanted.number &&
            bytes_equal(option.value, wanted.value)) {
            has_wanted = option_iter_next(&recorded, &wanted);
        } else if (!takes_any(request, option.number) && !request->takes_rest) {
            return false;
        }
    }
    return !has_wanted && has_all_of_any(request, options);
}

static bool request_matches(const struct recording_request *request,
                            const struct recording_question *question)
{
    return request->method == question->method &&
           (request->key.data == NULL || bytes_equal(request->key, question->key)) &&
           (request->takes_rest || bytes_equal(request->payload, question->payload)) &&
           options_match(request, question->options);
}

const struct recording_request *recording_find(const struct recording *recording,
                                               const struct recording_question *question)
{
    const struct bytes any = {0};
    uint32_t first[] = {*recording_bucket(recording, question->method, question->key),
                        *recording_bucket(recording, question->method, any)};
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t at = first[i]; at != RECORDING_NONE; at = recording->requests[at].next) {
            if (request_matches(&recording->requests[at], question)) {
                return &recording->requests[at];
            }
        }
    }
    return NULL;
}
