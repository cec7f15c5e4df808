/* SPDX-License-Identifier: BSD-2-Clause */
/* What [upstream NAME] sections mean: their patterns. */
#include "conf/loader.h"

void loader_check_upstreams(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_UPSTREAM];

    for (size_t i = 0; i < drafts->count && !loader->no_memory; i++) {
        const struct named_draft *draft = &drafts->items[i];
        struct config_upstream *upstream = draft->row;
        upstream->patterns = named_patterns(loader, CONFIG_NAMED_UPSTREAM, draft, "target",
                                            &upstream->target, true, &upstream->pattern_count);
    }
}
