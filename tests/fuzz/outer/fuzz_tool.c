/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cri tool's commands, one line each: the first byte chooses the command and its
 * options, the rest is the input. Whatever comes in, the answer is one line.
 */
#include "cri_json.h"
#include "cri_tool.h"
#include "fuzz.h"

typedef bool (*run_fn)(struct tool *tool, struct cri_slice input);

static const run_fn commands[] = {
    run_from_options, run_options,   run_compare,  run_resolve, run_relate, run_normalize,
    run_from_uri,     run_to_uri,    run_from_iri, run_to_iri,  run_check,  run_diag,
    run_from_diag,    run_from_cori, run_to_cori,  run_schemes,
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* [-2, ["foo", 4711], ["pa", "th"], ["q"]] */
static const uint8_t base_bytes[] = {0x84, 0x21, 0x82, 0x63, 'f',  'o', 'o', 0x19, 0x12, 0x67,
                                     0x82, 0x62, 'p',  'a',  0x62, 't', 'h', 0x81, 0x61, 'q'};

static void set_up(struct tool *tool, uint8_t choice)
{
    const struct cri_slice base = {base_bytes, sizeof(base_bytes)};
    tool->is_strict = (choice & 0x10u) != 0;
    tool->with_uri = (choice & 0x20u) != 0;
    tool->with_fragment = (choice & 0x40u) != 0;
    tool->has_to = (choice & 0x80u) != 0;
    assert(parse_destination("[fe80::1%eth0]:5683", &tool->to));
    assert(cri_decode(base, NULL, &tool->base, NULL) == CRI_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_request request = {0};
    struct tool tool = {.request = &request};
    if (size == 0) {
        return 0;
    }
    set_up(&tool, data[0]);
    const struct cri_slice input = {data + 1, size - 1};
    /* Lines have no line end in them; neither may the answer. */
    if (size > 1 && memchr(input.data, '\n', input.len) != NULL) {
        return 0;
    }
    const bool is_ok = commands[data[0] % COMMAND_COUNT](&tool, input);
    assert(is_ok || tool.result.len > 0);
    assert(tool.result.len == 0 || memchr(tool.result.data, '\n', tool.result.len) == NULL);
    buffer_free(&tool.input);
    buffer_free(&tool.second);
    buffer_free(&tool.result);
    json_request_free(&request);
    return 0;
}
