/* SPDX-License-Identifier: BSD-2-Clause */
/* `cri schemes`: the scheme table of the draft's Appendix B. */
#include "cri_tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "0 coap 5683"; a dash where the scheme has no default port. */
static void put_scheme(struct buffer *out, const struct cri_scheme *scheme)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRIu64 " ", scheme->number);
    buffer_append_text(out, text);
    buffer_append_text(out, scheme->name);
    (void)snprintf(text, sizeof(text), " %u", scheme->default_port);
    buffer_append_text(out, scheme->default_port == 0 ? " -" : text);
}

static bool parse_number(struct cri_slice text, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' ||
            __builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text.data[i] - '0'), &number)) {
            return false;
        }
    }
    *ret_number = number;
    return text.len > 0;
}

bool run_schemes(struct tool *tool, struct cri_slice input)
{
    uint64_t number = 0;
    const struct cri_scheme *scheme = parse_number(input, &number)
                                          ? cri_scheme_by_number(NULL, number)
                                          : cri_scheme_by_name(NULL, input);
    if (scheme == NULL) {
        return refuse(tool, "no scheme of this name or number");
    }
    tool->result.len = 0;
    put_scheme(&tool->result, scheme);
    return true;
}

void list_schemes(struct tool *tool)
{
    size_t count = 0;
    const struct cri_scheme *rows = cri_scheme_builtin(&count);
    for (size_t i = 0; i < count; i++) {
        tool->result.len = 0;
        put_scheme(&tool->result, &rows[i]);
        (void)print_result(tool, true);
    }
}
