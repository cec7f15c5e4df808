/* SPDX-License-Identifier: BSD-2-Clause */
/* `cri aif FILE`: the rights that an AIF-CRI document grants, one entry on each line: "GET,PUT
 * /s/temp". */
#include "cri_tool.h"

#include <cri/aif.h>
#include <cri/uri.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An AIF document is read whole; larger ones than this are a mistake. */
#define FILE_BYTES_MAX ((size_t)64 << 20)
#define READ_BYTES ((size_t)65536)

static const char *const method_names[] = {"GET",   "POST",  "PUT",   "DELETE",
                                           "FETCH", "PATCH", "iPATCH"};

#define METHOD_COUNT (sizeof(method_names) / sizeof(method_names[0]))

static void put_methods(struct buffer *out, uint64_t methods)
{
    char name[32];
    const size_t start = out->len;
    for (unsigned bit = 0; bit < 64; bit++) {
        if ((methods >> bit & 1) == 0) {
            continue;
        }
        const unsigned method = bit % CRI_AIF_DYNAMIC_SHIFT;
        const char *prefix = bit < CRI_AIF_DYNAMIC_SHIFT ? "" : "Dynamic-";
        if (method < METHOD_COUNT) {
            (void)snprintf(name, sizeof(name), "%s%s", prefix, method_names[method]);
        } else {
            (void)snprintf(name, sizeof(name), "bit-%u", bit);
        }
        buffer_append_text(out, out->len > start ? "," : "");
        buffer_append_text(out, name);
    }
    if (out->len == start) {
        buffer_append_text(out, "nothing");
    }
}

/*
 * As a URI's path and query. A host in front makes every path a URI (one that begins with an empty
 * segment is none by itself); it is left out of the output.
 */
static bool put_resource(struct tool *tool, const struct cri_aif_entry *entry)
{
    static const uint8_t label[] = {0x61, 'h'};
    static const size_t prefix_len = sizeof("coap://h") - 1;
    const struct cri cri = {.scheme = CRI_SCHEME_ID,
                            .authority = CRI_AUTHORITY_HOST_NAME,
                            .labels = {true, 1, {label, sizeof(label)}},
                            .discard = CRI_DISCARD_ALL,
                            .path = entry->path,
                            .query = entry->query};
    struct buffer *text = &tool->second;
    struct cri_fault fault = {0};
    size_t len = 0;
    enum cri_error error =
        cri_uri_format(&cri, NULL, (char *)text->data, text->capacity, &len, &fault);
    if (error == CRI_ERR_SPACE) {
        buffer_reserve(text, len);
        error = cri_uri_format(&cri, NULL, (char *)text->data, text->capacity, &len, &fault);
    }
    if (error != CRI_OK) {
        return refuse_error(tool, error, &fault);
    }
    if (entry->path.count == 0) {
        buffer_append_text(&tool->result, "/"); /* to CoAP the same as no path */
    }
    buffer_append(&tool->result, text->data + prefix_len, len - prefix_len);
    return true;
}

static bool put_entry(struct tool *tool, const struct cri_aif_entry *entry)
{
    if (entry->error != CRI_OK) {
        return refuse_error(tool, entry->error, &entry->fault);
    }
    tool->result.len = 0;
    put_methods(&tool->result, entry->methods);
    buffer_append_text(&tool->result, " ");
    return put_resource(tool, entry);
}

static bool print_document(struct tool *tool, const char *name, struct cri_slice document)
{
    struct cri_aif aif;
    struct cri_aif_entry entry;
    struct cri_fault fault = {0};
    bool is_ok = true;
    enum cri_error error = cri_aif_init(&aif, document, tool->is_strict, &fault);
    if (error != CRI_OK) {
        return print_result(tool, refuse_error(tool, error, &fault));
    }
    while (cri_aif_next(&aif, &entry)) {
        is_ok = print_result(tool, put_entry(tool, &entry)) && is_ok;
    }
    if (!is_ok) {
        (void)fprintf(stderr, "cri aif: %s: entries with an error grant nothing\n", name);
    }
    return is_ok;
}

static bool read_file(FILE *file, struct buffer *out)
{
    size_t got = 0;
    out->len = 0;
    do {
        buffer_reserve(out, out->len + READ_BYTES);
        got = fread(out->data + out->len, 1, READ_BYTES, file);
        out->len += got;
    } while (got > 0 && out->len <= FILE_BYTES_MAX);
    if (ferror(file)) {
        return false;
    }
    if (out->len > FILE_BYTES_MAX) {
        errno = EFBIG;
        return false;
    }
    return true;
}

static bool print_file(struct tool *tool, const char *name)
{
    const bool is_stdin = strcmp(name, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(name, "rb");
    const bool is_read = file != NULL && read_file(file, &tool->input);
    if (!is_read) {
        (void)fprintf(stderr, "cri aif: %s: %s\n", name, strerror(errno));
    }
    if (file != NULL && !is_stdin) {
        (void)fclose(file);
    }
    return is_read && print_document(tool, name, buffer_slice(&tool->input));
}

int print_aif(struct tool *tool, char **names, int count)
{
    bool is_ok = true;
    for (int i = 0; i < count; i++) {
        is_ok = print_file(tool, names[i]) && is_ok;
    }
    return is_ok ? EXIT_SUCCESS : EXIT_INPUT;
}
