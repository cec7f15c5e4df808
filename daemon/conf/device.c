/* SPDX-License-Identifier: BSD-2-Clause */
/* [devices] and [device NAME]: checked, and sorted so that ten thousand are found by halving. */
#include "conf/device.h"

#include "conf/loader.h"
#include "net/raw_keys.h"
#include "policy/hostname.h"

#include <stdlib.h>
#include <string.h>

#define LABEL_MAX 63u /* bytes of a label (RFC 1035 section 2.3.4) */

/* --- looking up ----------------------------------------------------------- */

/* As memcmp(), and what is shorter comes first. */
static int compare_names(struct bytes name, const char *other)
{
    size_t len = strlen(other);
    size_t common = name.len < len ? name.len : len;
    int order = common > 0 ? memcmp(name.data, other, common) : 0;
    return order != 0 ? order : (name.len > len) - (name.len < len);
}

const struct config_device *config_device_find(const struct config *config, struct bytes name)
{
    size_t first = 0, end = config->device_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const struct config_device *device = &config->devices[config->devices_by_name[middle]];
        int order = compare_names(name, device->name);
        if (order == 0) {
            return device;
        }
        first = order > 0 ? middle + 1 : first;
        end = order < 0 ? middle : end;
    }
    return NULL;
}

static const struct config_device_proof *find_proof(const struct config *config,
                                                    enum identity_kind kind, const char *name)
{
    size_t first = 0, end = config->device_proof_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const struct config_device_proof *proof = &config->device_proofs[middle];
        int order = proof->kind != kind ? (kind > proof->kind) - (kind < proof->kind)
                                        : strcmp(name, proof->name);
        if (order == 0) {
            return proof;
        }
        first = order > 0 ? middle + 1 : first;
        end = order < 0 ? middle : end;
    }
    return NULL;
}

const struct config_device *config_device_of(const struct config *config,
                                             const struct identity *identity)
{
    const struct config_device_proof *best = NULL;
    if (config->device_proof_count == 0 || !identity_is_known(identity)) {
        return NULL;
    }
    /* A certificate has several names: the first section in the order of the files. */
    for (size_t at = 0; at < identity->names_len; at += strlen(identity->names + at) + 1) {
        const struct config_device_proof *proof =
            find_proof(config, (enum identity_kind)identity->kind, identity->names + at);
        if (proof != NULL && (best == NULL || proof->device < best->device)) {
            best = proof;
        }
    }
    return best != NULL ? &config->devices[best->device] : NULL;
}

bool config_device_admits(const struct config_device *row, const struct address *address)
{
    for (size_t i = 0; i < row->range_count; i++) {
        if (address_prefix_covers(&row->ranges[i], address)) {
            return true;
        }
    }
    return false;
}

bool config_device_is(const struct config *config, const struct config_device *row,
                      const struct identity *identity, const struct address *remote)
{
    return identity != NULL ? config_device_of(config, identity) == row
                            : config_device_admits(row, remote);
}

/* --- reading -------------------------------------------------------------- */

/* One section while it is checked. */
struct device_draft {
    struct loader *loader;
    const struct named_draft *draft;
    struct config_device *row;
};

static void device_error(const struct device_draft *from, const char *key, const char *wrong)
{
    const struct place *place = named_place(CONFIG_NAMED_DEVICE, from->draft, key);
    if (place->kind == PLACE_PRESET) {
        place = named_any_place(CONFIG_NAMED_DEVICE, from->draft);
    }
    named_error(from->loader, CONFIG_NAMED_DEVICE, from->draft, place, key, "%s", wrong);
}

/* A label of a host name, so that NAME.ZONE is one (RFC 1123 section 2.1). */
static bool is_label(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t len = strlen(name);
    return len > 0 && len <= LABEL_MAX && strspn(name, plain) == len && name[0] != '-' &&
           name[len - 1] != '-';
}

bool loader_take_device_name(char *name)
{
    for (size_t i = 0; name[i] != '\0'; i++) {
        if (name[i] >= 'A' && name[i] <= 'Z') {
            name[i] = (char)(name[i] + ('a' - 'A'));
        }
    }
    return is_label(name);
}

/* Adds what the section lists of @p kind. @return how many there are then */
static size_t add_proofs(const struct device_draft *from, uint32_t index, enum identity_kind kind,
                         struct config_device_proof *proofs, size_t count)
{
    static const char *const keys[IDENTITY_KINDS] = {[IDENTITY_PSK] = "identity",
                                                     [IDENTITY_CERTIFICATE] = "certificate",
                                                     [IDENTITY_PUBLIC_KEY] = "public-key"};
    const struct config_list *const lists[IDENTITY_KINDS] = {
        [IDENTITY_PSK] = &from->row->identity,
        [IDENTITY_CERTIFICATE] = &from->row->certificate,
        [IDENTITY_PUBLIC_KEY] = &from->row->public_key};
    const struct config_list *list = lists[kind];
    if (kind == IDENTITY_PUBLIC_KEY && list->count > 0 && !raw_keys_are_there()) {
        device_error(from, keys[kind], RAW_KEYS_LACK);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i][0] == '\0' || strcmp(list->items[i], "*") == 0) {
            device_error(from, keys[kind], "a device is one that is known by name, not any");
        }
        proofs[count++] = (struct config_device_proof){kind, list->items[i], index};
    }
    return count;
}

static int by_proof(const void *a, const void *b)
{
    const struct config_device_proof *one = a, *other = b;
    if (one->kind != other->kind) {
        return one->kind < other->kind ? -1 : 1;
    }
    int order = strcmp(one->name, other->name);
    return order != 0 ? order : (one->device > other->device) - (one->device < other->device);
}

/* Names and indexes, to be sorted by name: qsort() has no context. */
struct named_index {
    const char *name;
    uint32_t index;
};

static int by_name(const void *a, const void *b)
{
    const struct named_index *one = a, *other = b;
    return strcmp(one->name, other->name);
}

static void sort_names(struct loader *loader, const struct named_drafts *drafts)
{
    struct config_arena *arena = loader->config->arena;
    struct named_index *names = calloc(drafts->count + 1, sizeof(*names));
    uint32_t *sorted = arena_alloc(arena, (drafts->count + 1) * sizeof(uint32_t));
    if (names == NULL || sorted == NULL) {
        loader->no_memory = true;
        free(names);
        return;
    }
    for (size_t i = 0; i < drafts->count; i++) {
        const struct config_device *row = drafts->items[i].row;
        names[i] = (struct named_index){row->name, (uint32_t)i};
    }
    qsort(names, drafts->count, sizeof(names[0]), by_name);
    for (size_t i = 0; i < drafts->count; i++) {
        sorted[i] = names[i].index;
    }
    free(names);
    loader->config->devices_by_name = sorted;
}

/* Of two sections the later one is wrong. */
static void check_unique(struct loader *loader, const struct named_drafts *drafts,
                         const struct config_device_proof *proofs, size_t count)
{
    static const char *const keys[IDENTITY_KINDS] = {[IDENTITY_PSK] = "identity",
                                                     [IDENTITY_CERTIFICATE] = "certificate",
                                                     [IDENTITY_PUBLIC_KEY] = "public-key"};
    for (size_t i = 1; i < count; i++) {
        if (proofs[i].kind == proofs[i - 1].kind &&
            strcmp(proofs[i].name, proofs[i - 1].name) == 0) {
            const struct named_draft *draft = &drafts->items[proofs[i].device];
            const struct device_draft from = {loader, draft, draft->row};
            device_error(&from, keys[proofs[i].kind], "another section device has this, too");
        }
    }
}

static void sort_proofs(struct loader *loader, const struct named_drafts *drafts)
{
    size_t max = 0, count = 0;
    for (size_t i = 0; i < drafts->count; i++) {
        const struct config_device *row = drafts->items[i].row;
        max += row->identity.count + row->certificate.count + row->public_key.count;
    }
    struct config_device_proof *proofs =
        arena_alloc(loader->config->arena, (max + 1) * sizeof(struct config_device_proof));
    if (proofs == NULL) {
        loader->no_memory = true;
        return;
    }
    for (size_t i = 0; i < drafts->count; i++) {
        const struct device_draft from = {loader, &drafts->items[i], drafts->items[i].row};
        size_t before = count;
        for (unsigned kind = IDENTITY_NONE + 1; kind < IDENTITY_KINDS; kind++) {
            count = add_proofs(&from, (uint32_t)i, (enum identity_kind)kind, proofs, count);
        }
        if (count == before && from.row->address.count == 0) {
            device_error(&from, "identity", "needed, or certificate, public-key, or address");
        } else if (count > before && from.row->address.count > 0) {
            device_error(&from, "address", "not together with what the device authenticates with");
        }
    }
    qsort(proofs, count, sizeof(proofs[0]), by_proof);
    check_unique(loader, drafts, proofs, count);
    loader->config->device_proofs = proofs;
    loader->config->device_proof_count = count;
}

static void take_device_ranges(struct loader *loader, const struct named_drafts *drafts)
{
    for (size_t i = 0; i < drafts->count && !loader->no_memory; i++) {
        struct config_device *row = drafts->items[i].row;
        row->range_count = loader_take_ranges(loader, CONFIG_NAMED_DEVICE, &drafts->items[i],
                                              "address", &row->address, &row->ranges);
        loader->config->device_range_count += row->range_count;
    }
}

/* --- the section devices --------------------------------------------------- */

static void zone_error(struct loader *loader, const char *wrong)
{
    const struct config_row *row = schema_find("devices", "zone");
    loader_error(loader, &loader->set_at[row - config_rows], "devices", "zone", "%s", wrong);
}

/* In the one form of names (policy/hostname.h), without a dot at its end. */
static void take_device_zone(struct loader *loader)
{
    struct config *config = loader->config;
    const char *text = config->devices_zone;
    uint8_t room[HOSTNAME_MAX];
    struct hostname name = {.text = room};
    if (text[0] == '\0') {
        return;
    }
    if (hostname_read((const uint8_t *)text, strlen(text), &name) != HOSTNAME_NAME ||
        name.len + LABEL_MAX + 1 > HOSTNAME_MAX || hostname_is_localhost(name.text, name.len)) {
        zone_error(loader, "expected a host name, under which no other hosts are");
        return;
    }
    size_t len = name.len - (name.text[name.len - 1] == '.');
    const char *zone = arena_text(config->arena, (const char *)name.text, len);
    loader->no_memory = loader->no_memory || zone == NULL;
    config->devices_zone = zone != NULL ? zone : text; /* others look at it before the end */
}

void loader_check_devices(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_DEVICE];
    take_device_zone(loader);
    if (drafts->count > 0 && loader->config->devices_zone[0] == '\0') {
        const struct device_draft from = {loader, &drafts->items[0], drafts->items[0].row};
        device_error(&from, "identity", "needs devices.zone");
    }
    /* A client that is a device keeps its place: the other half is for all others. */
    if (drafts->count > loader->config->limits_clients / 2) {
        const struct named_draft *draft = &drafts->items[drafts->count - 1];
        const struct device_draft from = {loader, draft, draft->row};
        device_error(&from, "identity",
                     "needs limits.clients of twice as many as there are devices");
    }
    if (!loader->no_memory) {
        sort_names(loader, drafts);
    }
    if (!loader->no_memory) {
        sort_proofs(loader, drafts);
        take_device_ranges(loader, drafts);
    }
}
