/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --explain beside a whole engine: what is said is what is done. The input is lines: a target
 * as a URI, a client as --client takes it, an address that the name leads to, a digit for the
 * form and the method, and then settings, each a letter, a digit and a pattern of targets:
 *
 *   a, d   a rule that allows or denies; the digit: which clients
 *   r      a route; the digit: which way
 *   p      one of the section policy, or of others; the digit: which (no pattern)
 */
#include "support/decision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 320u
#define LINES_MAX 24u
#define SETTINGS_MAX (3 * LINES_MAX)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct settings {
    char texts[SETTINGS_MAX][LINE_BYTES];
    const char *items[SETTINGS_MAX];
    size_t count;
};

static const char *const whom[10] = {
    NULL,
    "identity=alice",
    "certificate=host.example",
    "clients=10.0.0.0/8",
    "clients=any",
    "methods=GET",
    "identity=*",
    "certificate=*",
    "transport=coaps",
    "methods=PUT",
};

static const char *const ways[10] = {
    "via=direct",
    "via=refuse",
    "via=coap://198.51.100.77",
    "via=coap://[2001:db8::77]",
    "via=coap://192.0.2.9", /* the proxy itself */
    "via=coap+tcp://198.51.100.77",
    "via=coap://198.51.100.78",
    "via=direct",
    "via=refuse",
    "via=coaps://198.51.100.77",
};

static const char *const policies[10] = {
    "policy.clients=any",           "policy.targets=deny",
    "policy.own-host=yes",          "policy.ports=any",
    "policy.require-secure-leg=no", "multicast.enabled=yes",
    "policy.echo-exempt=any",       "proxy.zones=wpan0",
    "proxy.default-zone=wpan0",     "policy.clients=10.0.0.0/8",
};

/* The next line as text; empty at the end. */
static const char *next_line(const uint8_t **data, size_t *size, char text[LINE_BYTES])
{
    const uint8_t *end = *size > 0 ? memchr(*data, '\n', *size) : NULL;
    size_t len = end != NULL ? (size_t)(end - *data) : *size;
    size_t kept = len < LINE_BYTES ? len : LINE_BYTES - 1;
    if (kept > 0) {
        memcpy(text, *data, kept);
    }
    text[kept] = '\0';
    *size -= len + (end != NULL);
    *data += len + (end != NULL);
    return text;
}

static char *new_setting(struct settings *settings)
{
    char *text = settings->texts[settings->count];
    settings->items[settings->count++] = text;
    return text;
}

static void add_line(struct settings *settings, const char *line, unsigned number)
{
    unsigned digit =
        line[0] != '\0' && line[1] >= '0' && line[1] <= '9' ? (unsigned)(line[1] - '0') : 0;
    const char *pattern = line[0] != '\0' && line[1] != '\0' ? line + 2 : "*://*";
    const char *section = line[0] == 'r' ? "route" : "access";
    const char *more = line[0] == 'r' ? ways[digit] : whom[digit];
    if (line[0] == 'p') {
        snprintf(new_setting(settings), LINE_BYTES, "%s", policies[digit]);
        return;
    }
    if (line[0] != 'a' && line[0] != 'd' && line[0] != 'r') {
        return;
    }
    snprintf(new_setting(settings), LINE_BYTES, "%s n%u.target=%.250s", section, number, pattern);
    if (more != NULL) {
        snprintf(new_setting(settings), LINE_BYTES, "%s n%u.%s", section, number, more);
    }
    if (line[0] == 'a') {
        snprintf(new_setting(settings), LINE_BYTES, "%s n%u.action=allow", section, number);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum target_form forms[] = {TARGET_FORM_PROXY_URI, TARGET_FORM_PROXY_CRI,
                                             TARGET_FORM_PROXY_SCHEME_NUMBER,
                                             TARGET_FORM_PROXY_SCHEME};
    char target[LINE_BYTES], client[LINE_BYTES], address[LINE_BYTES], how[LINE_BYTES];
    char line[LINE_BYTES];
    static struct settings settings;
    settings.count = 0;
    (void)next_line(&data, &size, target);
    (void)next_line(&data, &size, client);
    (void)next_line(&data, &size, address);
    unsigned choice = (unsigned char)next_line(&data, &size, how)[0];
    for (unsigned i = 0; i < LINES_MAX && size > 0; i++) {
        add_line(&settings, next_line(&data, &size, line), i);
    }
    const struct decision_question question = {
        .target = target,
        .client = client,
        .method = choice % 8 < 4 ? "GET" : "PUT",
        .address = address,
        .form = forms[choice % 4],
    };
    struct decision decision;
    if (decision_start(settings.items, settings.count)) {
        (void)decision_compare(&question, &decision);
        decision_stop();
    }
    return 0;
}
