/* SPDX-License-Identifier: BSD-2-Clause */
/* The shortest URI reference from a base to a target; how, is in resolve.c. */
#include <cri/uri.h>

#include "relate.h"

static size_t uri_len(const struct cri_scheme_table *table, const struct cri *candidate)
{
    size_t len = 0;
    enum cri_error error = cri_uri_format(candidate, table, NULL, 0, &len, NULL);
    return error == CRI_OK || error == CRI_ERR_SPACE ? len : SIZE_MAX;
}

/* Two CRIs, and a writer's parameters as everywhere.
 * NOLINTNEXTLINE(readability-function-size) */
enum cri_error cri_uri_relate(const struct cri *base, const struct cri *target,
                              const struct cri_scheme_table *table, char *buffer, size_t capacity,
                              size_t *ret_len, struct cri_fault *ret_fault)
{
    struct cri__best best = {.uri_len = uri_len, .table = table};
    enum cri_error error = cri__find_best(base, target, &best, ret_fault);

    if (error != CRI_OK) {
        return error;
    }
    /* Without any the target's own URI says what is in the way. */
    return cri_uri_format(best.len == SIZE_MAX ? target : &best.reference, table, buffer, capacity,
                          ret_len, ret_fault);
}
