/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines with arrows (docs/SCENARIOS.md): "a > MESSAGE -> h MESSAGE" is "a > MESSAGE" and
 * "h < MESSAGE". An arrow without a message means that the one on its left has come as it was sent.
 */
#ifndef SCENARIO_ARROW_H
#define SCENARIO_ARROW_H

#include "pool.h"

enum {
    ARROW_PARTS_MAX = 32, /* of a line */
};

/**
 * Take @p text apart at the arrows that stand between blanks outside of quotation marks.
 *
 * @param ret_lines  ARROW_PARTS_MAX lines at most, of @p pool; @p text itself where it has no
 * arrow.
 * @param ret_why    Set where 0 is returned: why the line means nothing.
 * @return how many lines.
 */
size_t arrow_lines(struct pool *pool, const char *text, const char **ret_lines,
                   const char **ret_why);

#endif
