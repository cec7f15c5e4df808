/* SPDX-License-Identifier: BSD-2-Clause */
/* `cri options` and `cri from-options`: request CRIs and CoAP options (draft
 * sections 8.1.1, 8.1.2). */
#include "cri_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_number(struct buffer *out, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    buffer_append_text(out, text);
}

static void put_option(struct buffer *out, const struct cri_option *option)
{
    put_number(out, option->number);
    buffer_append_text(out, ",");
    if (option->number != CRI_OPTION_URI_PORT) {
        json_put_string(out, option->value);
        return;
    }
    uint64_t port = 0; /* a CoAP uint: big-endian, leading zero bytes left out */
    for (size_t i = 0; i < option->value.len; i++) {
        port = port << 8 | option->value.data[i];
    }
    put_number(out, port);
}

bool run_options(struct tool *tool, struct cri_slice input)
{
    struct cri cri;
    struct cri_options options;
    struct cri_option option;
    struct cri_fault fault = {0};
    if (!read_cri(tool, input, &tool->input, &cri)) {
        return false;
    }
    enum cri_error error =
        cri_options_init(&options, &cri, tool->has_to ? &tool->to : NULL, NULL, &fault);
    if (error != CRI_OK) {
        return refuse_error(tool, error, &fault);
    }
    const struct cri_scheme *scheme = cri_scheme_by_number(NULL, cri.scheme_number);
    struct buffer *out = &tool->result;
    tool->is_json_result = true;
    buffer_set_text(out, "{\"scheme\":\"");
    buffer_append_text(out, scheme->name); /* one of Table 3, or init had failed */
    buffer_append_text(out, "\",\"options\":[");
    for (bool is_first = true; cri_options_next(&options, &option); is_first = false) {
        buffer_append_text(out, is_first ? "[" : ",[");
        put_option(out, &option);
        buffer_append_text(out, "]");
    }
    buffer_append_text(out, "]}");
    return true;
}

/* The options as the library takes them; the values of numbers go into @p numbers. */
static bool make_options(struct tool *tool, const struct json_request *request,
                         struct cri_option *options, uint8_t (*numbers)[4])
{
    for (size_t i = 0; i < request->count; i++) {
        const struct json_option *from = &request->options[i];
        const bool is_port = from->number == CRI_OPTION_URI_PORT;
        const bool is_uri = is_port || from->number == CRI_OPTION_URI_HOST ||
                            from->number == CRI_OPTION_URI_PATH ||
                            from->number == CRI_OPTION_URI_QUERY;
        if (is_uri && is_port != from->is_number) {
            return refuse(tool, is_port ? "the value of Uri-Port (7) is a number"
                                        : "the value of this option is text");
        }
        options[i].number = from->number;
        if (!from->is_number) {
            options[i].value = (struct cri_slice){request->text.data + from->offset, from->len};
            continue;
        }
        size_t len = 0;
        for (unsigned shift = 32; shift > 0; shift -= 8) {
            const uint8_t byte = (uint8_t)(from->integer >> (shift - 8));
            if (byte != 0 || len > 0) {
                numbers[i][len++] = byte;
            }
        }
        options[i].value = (struct cri_slice){numbers[i], len};
    }
    return true;
}

/* Table 3 of the draft: the variants of CoAP. */
static bool is_coap(uint64_t number)
{
    return number == CRI_SCHEME_COAP || number == CRI_SCHEME_COAPS ||
           number == CRI_SCHEME_COAP_TCP || number == CRI_SCHEME_COAPS_TCP ||
           number == CRI_SCHEME_COAP_WS || number == CRI_SCHEME_COAPS_WS;
}

/* Only the schemes of CoAP have options, and a scheme name is lower-case. */
static bool find_scheme(struct tool *tool, const struct json_request *request, uint64_t *ret_number)
{
    const struct cri_slice name = {request->text.data + request->scheme_offset,
                                   request->scheme_len};
    const struct cri_scheme *scheme = cri_scheme_by_name(NULL, name);
    if (scheme == NULL || memcmp(scheme->name, name.data, name.len) != 0 ||
        !is_coap(scheme->number)) {
        return refuse(tool, "not a scheme of CoAP");
    }
    *ret_number = scheme->number;
    return true;
}

static bool compose(struct tool *tool, const struct json_request *request,
                    struct cri_option *options)
{
    struct cri_composition composition = {.destination = tool->has_to ? &tool->to : NULL};
    struct cri_fault fault = {0};
    struct buffer *out = &tool->input;
    size_t len = 0;
    if (!find_scheme(tool, request, &composition.scheme_number)) {
        return false;
    }
    enum cri_error error = cri_from_options(&composition, options, request->count, out->data,
                                            out->capacity, &len, &fault);
    if (error == CRI_ERR_SPACE) {
        buffer_reserve(out, len);
        error = cri_from_options(&composition, options, request->count, out->data, out->capacity,
                                 &len, &fault);
    }
    if (error == CRI_OK) {
        return answer_hex(tool, (struct cri_slice){out->data, len});
    }
    /* Where it fails is an option, not a byte. */
    if (fault.offset < request->count) {
        char place[40];
        (void)snprintf(place, sizeof(place), "option %zu: ", fault.offset + 1);
        buffer_set_text(&tool->result, place);
    }
    buffer_append_text(&tool->result, fault.rule != NULL ? fault.rule : cri_strerror(error));
    return false;
}

bool run_from_options(struct tool *tool, struct cri_slice input)
{
    struct json_request *request = tool->request;
    if (!json_read_request(tool, input, request)) {
        return false;
    }
    struct cri_option *options = calloc(request->count + 1, sizeof(*options));
    uint8_t(*numbers)[4] = calloc(request->count + 1, sizeof(*numbers));
    bool is_ok = false;
    if (options == NULL || numbers == NULL) {
        (void)refuse(tool, cri_strerror(CRI_ERR_MEMORY));
    } else if (make_options(tool, request, options, numbers)) {
        is_ok = compose(tool, request, options);
    }
    free(options);
    free(numbers);
    return is_ok;
}
