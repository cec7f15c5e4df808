/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `cri to-http`, `cri from-http`: under which URI an HTTP-CoAP proxy serves a CRI, and back (RFC
 * 8075 section 5). `cri formats`: Content-Formats and media types. The mapping and the table are
 * the daemon's own files, so that the tool says what criproxyd does.
 */
#include "cri_tool.h"

#include "coap/http_uri.h"
#include "coap/media.h"

#include <cri/uri.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_PREFIX "/hc/"

static struct bytes bytes_of_slice(struct cri_slice slice)
{
    return (struct bytes){slice.data, slice.len};
}

/* The path of a URI: what is behind its authority; of a path itself. */
static const char *path_of(const char *uri)
{
    const char *authority = strstr(uri, "://");
    const char *path = authority != NULL ? strchr(authority + 3, '/') : uri;
    return path != NULL ? path : "/";
}

static const char *prefix_of(const struct tool *tool)
{
    return tool->prefix != NULL ? tool->prefix : DEFAULT_PREFIX;
}

const char *mapping_error(const struct tool *tool)
{
    const char *prefix = prefix_of(tool), *path = path_of(prefix);
    size_t len = strlen(path);
    if (path[0] != '/' || path[len - 1] != '/' || strpbrk(prefix, "?#") != NULL) {
        return "--prefix wants a path, or a URI with one, that begins and ends with /";
    }
    return tool->template_text != NULL ? http_template_error(tool->template_text) : NULL;
}

static struct http_mapping mapping_of(const struct tool *tool, const char *prefix)
{
    return (struct http_mapping){
        .prefix = prefix, .template = tool->template_text != NULL ? tool->template_text : ""};
}

bool run_to_http(struct tool *tool, struct cri_slice input)
{
    const struct http_mapping mapping = mapping_of(tool, prefix_of(tool));
    char mapped[HTTP_MAPPED_MAX];
    struct cri cri;
    if (!read_identifier(tool, input, &tool->input, &cri)) {
        return false;
    }
    if (!cri_is_full(&cri)) {
        return refuse(tool, "a relative reference");
    }
    if (!format_uri(tool, &cri, &tool->second)) {
        return false;
    }
    if (memchr(tool->second.data, '#', tool->second.len) != NULL) {
        return refuse(tool, "a fragment is not sent to a server");
    }
    if (tool->second.len > HTTP_URI_MAX) {
        return refuse(tool, "longer than a proxy takes");
    }
    buffer_append(&tool->second, "", 1);
    if (http_uri_host(&mapping, (const char *)tool->second.data, mapped) == 0) {
        return refuse(tool, "longer than a proxy takes");
    }
    buffer_set_text(&tool->result, mapped);
    return true;
}

/* The target as the options asked for it: CBOR in hexadecimal, or its URI. */
static bool answer_target(struct tool *tool, const struct http_uri *uri)
{
    const struct cri_slice text = {(const uint8_t *)uri->text, uri->len};
    struct cri_fault fault = {0};
    struct cri cri;
    if (uri->kind == HTTP_URI_CRI) {
        enum cri_error error = cri_decode(text, NULL, &cri, &fault);
        if (error != CRI_OK) {
            return refuse(tool, fault.rule);
        }
        return tool->with_uri ? format_uri(tool, &cri, &tool->result) : answer_hex(tool, text);
    }
    if (!convert_uri(tool, text, &tool->second)) {
        return false;
    }
    if (!tool->with_uri) {
        return answer_hex(tool, buffer_slice(&tool->second));
    }
    return cri_decode(buffer_slice(&tool->second), NULL, &cri, &fault) == CRI_OK
               ? format_uri(tool, &cri, &tool->result)
               : refuse(tool, fault.rule);
}

bool run_from_http(struct tool *tool, struct cri_slice input)
{
    const struct http_mapping mapping = mapping_of(tool, path_of(prefix_of(tool)));
    struct http_uri uri;
    tool->input.len = 0;
    buffer_append(&tool->input, input.data, input.len);
    buffer_append(&tool->input, "", 1);
    const char *text = (const char *)tool->input.data;
    bool is_web = strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
    const char *path = is_web ? path_of(text) : text;
    const struct bytes target = {(const uint8_t *)path, strlen(path)};
    if (strlen(text) != input.len || path[0] != '/') {
        return refuse(tool, "neither a path nor a URI of http or https");
    }
    if (http_uri_find(&mapping, target, &uri) != 200) {
        return refuse(tool, uri.why);
    }
    if (uri.kind == HTTP_URI_CORE || uri.kind == HTTP_URI_OWN || uri.kind == HTTP_URI_SOCKET) {
        return refuse(tool, "a resource of the proxy itself");
    }
    return answer_target(tool, &uri);
}

/* --- Content-Formats ---------------------------------------------------------- */

/* "11050 application/json deflate" */
static void put_format(struct buffer *out, const struct media_row *row)
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%u ", row->number);
    buffer_append_text(out, number);
    buffer_append_text(out, row->type);
    if (row->coding[0] != '\0') {
        buffer_append_text(out, " ");
        buffer_append_text(out, row->coding);
    }
}

/* The number that @p text is; MEDIA_NONE if it is none. */
static uint32_t format_number(struct cri_slice text)
{
    uint32_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || number > UINT16_MAX) {
            return MEDIA_NONE;
        }
        number = number * 10 + (uint32_t)(text.data[i] - '0');
    }
    return text.len > 0 ? number : MEDIA_NONE;
}

bool run_formats(struct tool *tool, struct cri_slice input)
{
    uint32_t number = format_number(input);
    if (number == MEDIA_NONE) {
        number = media_find(NULL, bytes_of_slice(input), (struct bytes){0});
    }
    const struct media_row *row = media_by_number(NULL, number);
    if (row == NULL) {
        return refuse(tool, "no Content-Format of this media type or number");
    }
    tool->result.len = 0;
    put_format(&tool->result, row);
    return true;
}

void list_formats(struct tool *tool)
{
    size_t count = 0;
    const struct media_row *rows = media_registry(&count);
    for (size_t i = 0; i < count; i++) {
        tool->result.len = 0;
        put_format(&tool->result, &rows[i]);
        (void)print_result(tool, true);
    }
}
