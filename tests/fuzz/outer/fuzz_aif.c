/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AIF-CRI documents: each entry lies inside the document, behind the one before,
 * and what it grants for its own path and query the whole document grants too.
 */
#include "fuzz.h"

#include <cri/aif.h>

#define VALUES_MAX 16

/* The items as a request's option values; false if it has none such. */
static bool values_of(const struct cri_list *list, struct cri_slice values[VALUES_MAX])
{
    struct cri_iter iter;
    struct cri_item item;
    size_t count = 0;
    if (list->count > VALUES_MAX) {
        return false;
    }
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        if (item.is_pet) {
            return false;
        }
        values[count++] = item.text;
    }
    assert(count == list->count);
    return true;
}

static void check_entry(struct cri_slice document, bool is_strict,
                        const struct cri_aif_entry *entry)
{
    struct cri_slice path[VALUES_MAX];
    struct cri_slice query[VALUES_MAX];
    if (entry->error != CRI_OK) {
        assert(entry->fault.rule != NULL);
        assert(entry->fault.offset >= entry->offset && entry->fault.offset <= document.len);
        return;
    }
    if (values_of(&entry->path, path) && values_of(&entry->query, query)) {
        assert(cri_aif_entry_matches(entry, path, entry->path.count, query, entry->query.count));
        const uint64_t methods = cri_aif_methods(document, is_strict, path, entry->path.count,
                                                 query, entry->query.count);
        assert((methods & entry->methods) == entry->methods);
    }
}

static void check_document(struct cri_slice document, bool is_strict)
{
    struct cri_aif aif;
    struct cri_aif_entry entry;
    struct cri_fault fault = {0};
    size_t end = 0;
    size_t checked = 0;
    if (cri_aif_init(&aif, document, is_strict, &fault) != CRI_OK) {
        assert(fault.rule != NULL && fault.offset <= document.len);
        return;
    }
    while (cri_aif_next(&aif, &entry)) {
        assert(entry.offset >= end && entry.offset < document.len);
        end = entry.offset + 1;
        if (checked++ < VALUES_MAX) { /* each is a walk through the document */
            check_entry(document, is_strict, &entry);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct cri_slice document = {data, size};
    check_document(document, false);
    check_document(document, true);
    return 0;
}
