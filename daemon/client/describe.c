/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets and options in words, for the trace, the access log and --explain. */
#include "base/escape.h"
#include "client/trace.h"
#include "coap/media.h"
#include "coap/option.h"
#include "fetch/make.h"

#include <cri/diag.h>
#include <cri/uri.h>
#include <stdio.h>
#include <string.h>

/* Longest piece of an option's value that is shown. */
#define VALUE_TEXT_MAX 160

const char *describe_form(enum target_form form)
{
    switch (form) {
    case TARGET_FORM_NONE:
        return "none";
    case TARGET_FORM_PROXY_CRI:
        return "Proxy-Cri";
    case TARGET_FORM_PROXY_URI:
        return "Proxy-Uri";
    case TARGET_FORM_PROXY_SCHEME_NUMBER:
        return "Proxy-Scheme-Number";
    case TARGET_FORM_PROXY_SCHEME:
        return "Proxy-Scheme";
    case TARGET_FORM_PUBLISHED:
        return "published";
    }
    return "none";
}

const char *describe_target(const struct target *target, char *text, size_t capacity)
{
    struct target shown = *target;
    shown.query = (struct segments){0};
    return target_format(&shown, text, capacity);
}

const char *describe_cri(const struct target *target, char *text, size_t capacity)
{
    char uri[4096];
    uint8_t encoded[NAMING_CRI_ROOM];
    size_t len, text_len;
    struct cri_uri_options how = {.elide_default_port = true};
    target_format(target, uri, sizeof(uri));
    struct cri_slice from = {(const uint8_t *)uri, strlen(uri)};
    /* A zone has no place in a URI (draft section 6.1). */
    bool good = target->zone[0] != '\0'
                    ? naming_cri(target, encoded, &len)
                    : cri_uri_parse(from, &how, encoded, sizeof(encoded), &len, NULL) == CRI_OK;
    if (!good || cri_diag_format((struct cri_slice){encoded, len}, text, capacity - 1, &text_len,
                                 NULL) != CRI_OK) {
        snprintf(text, capacity, "(too long to show)");
        return text;
    }
    text[text_len] = '\0';
    return text;
}

/* "uri_path" of options.def as "Uri-Path". */
static void option_title(uint16_t number, char *title, size_t capacity)
{
    const struct option_row *row = option_row(number);
    if (row == NULL) {
        snprintf(title, capacity, "%u", number);
        return;
    }
    size_t i = 0;
    for (bool start = true; row->name[i] != '\0' && i + 1 < capacity; i++) {
        char c = row->name[i];
        title[i] = c == '_' ? '-' : start && c >= 'a' && c <= 'z' ? (char)(c - 0x20) : c;
        start = c == '_';
    }
    title[i] = '\0';
}

/* " (application/json)" of a Content-Format of the registry; "" of other options. */
static void media_title(const struct option *option, char title[VALUE_TEXT_MAX])
{
    bool is_media = option->number == OPTION_content_format || option->number == OPTION_accept;
    const struct media_row *row =
        is_media ? media_by_number(NULL, option_uint(option->value)) : NULL;
    title[0] = '\0';
    if (row != NULL) {
        snprintf(title, VALUE_TEXT_MAX, " (%s%s%s)", row->type, row->coding[0] != '\0' ? ", " : "",
                 row->coding);
    }
}

static size_t describe_option(const struct option *option, char *text, size_t capacity)
{
    char title[40], value[VALUE_TEXT_MAX];
    option_title(option->number, title, sizeof(title));
    size_t shown = option->value.len < VALUE_TEXT_MAX / 4 ? option->value.len : VALUE_TEXT_MAX / 4;
    int len;
    if (option_kind(option->number) == OPTION_KIND_STRING) {
        escape_text(value, sizeof(value), (const char *)option->value.data, option->value.len);
        len = snprintf(text, capacity, "%s \"%s\"", title, value);
    } else if (option_kind(option->number) == OPTION_KIND_UINT) {
        media_title(option, value);
        len = snprintf(text, capacity, "%s %u%s", title, option_uint(option->value), value);
    } else {
        value[0] = '\0';
        for (size_t i = 0; i < shown; i++) {
            snprintf(value + 2 * i, 3, "%02x", option->value.data[i]);
        }
        len = snprintf(text, capacity, "%s h'%s%s'", title, value,
                       shown < option->value.len ? "..." : "");
    }
    return len < 0 || (size_t)len >= capacity ? 0 : (size_t)len;
}

const char *describe_options(const uint8_t *datagram, size_t len, char *text, size_t capacity)
{
    struct message message;
    struct option_iter iter;
    struct option option;
    size_t used = 0;
    snprintf(text, capacity, "none");
    if (message_decode(datagram, len, &message) != MESSAGE_OK) {
        return text;
    }
    option_iter_init(&iter, message.options);
    while (option_iter_next(&iter, &option)) {
        size_t separator = used > 0 ? 2 : 0;
        if (capacity - used < separator + 8) {
            break;
        }
        size_t added =
            describe_option(&option, text + used + separator, capacity - used - separator - 4);
        if (added == 0) {
            snprintf(text + used, 4, "...");
            break;
        }
        memcpy(text + used, ", ", separator);
        used += separator + added;
    }
    return text;
}
