/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/doc/confdoc.h"

#include "conf/value.h"

#include <stdlib.h>
#include <string.h>

static const struct doc_section sections[] = {
    {"proxy", "What the proxy does with requests."},
    {"listen", "Where clients reach the proxy."},
    {"tls",
     "Keys and certificates of the secure listeners. After a reload new sessions use the new "
     "ones; open sessions keep theirs."},
    {"stream", "Clients on reliable transports: TCP, TLS and WebSockets."},
    {"http",
     "Clients that speak HTTP (RFC 8075), on listeners with the schemes http and https. They are "
     "clients as all others: the sections policy, access and limits hold for them."},
    {"policy", "Which clients are served, and which targets all of them may reach. Sections "
               "\"access NAME\" add to this."},
    {"limits", "The size of every table, and how much of it one client may take. Memory does not "
               "grow beyond these limits, whatever clients send."},
    {"block", "Bodies in blocks (RFC 7959). Blocks pass through where both sides can use the same "
              "ones; these keys are for bodies that the proxy itself splits or joins."},
    {"observe",
     "Observations (RFC 7641): one registration with the origin server for all clients of a "
     "resource."},
    {"multicast", "Requests to groups."},
    {"cache", "Stored answers, and requests that wait for the same answer."},
    {"upstream",
     "Sessions with origin servers and parent proxies over DTLS, TCP, TLS and WebSockets: keys, "
     "certificates and limits."},
    {"resolve", "How host names are resolved."},
    {"admin", "How a running proxy is monitored and controlled."},
    {"log", "What is logged, and where."},
    {NULL, NULL},
};

/* A new section of options.def has to be described above before anything is written. */
static void check_sections(void)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        size_t at = 0;
        while (sections[at].name != NULL &&
               strcmp(sections[at].name, config_rows[i].section) != 0) {
            at++;
        }
        if (sections[at].name == NULL) {
            (void)fprintf(stderr, "confdoc: section %s is not described\n", config_rows[i].section);
            abort();
        }
    }
}

/* [scheme NAME] has words of its own in each document. */
static const struct doc_section named_sections[] = {
    {"scheme", "A scheme to change or to add."},
    {"route",
     "Where requests for some targets go: to a parent proxy, straight to the target, or nowhere. "
     "The first section with a pattern that matches decides, in the order in which the files name "
     "them; what none matches goes straight."},
    {"upstream", "Keys and certificates for some targets. Keys that are not set are as in the "
                 "section upstream."},
    {"access", "Which clients may use which methods on which targets. The first section that "
               "matches decides, in the order in which the files name them. Keys select clients, "
               "targets and methods; a key that is not set selects all of them."},
    {"limit", "Limits for each of some clients, for each worker. The first section that matches a "
              "client decides."},
    {NULL, NULL},
};

_Static_assert(sizeof(named_sections) / sizeof(named_sections[0]) == CONFIG_NAMED_COUNT + 1,
               "a new kind of named section is described here");

const struct doc_section *doc_named_sections(void)
{
    return named_sections;
}

const struct doc_section *doc_sections(void)
{
    check_sections();
    return sections;
}

const struct config_row *doc_next_row(const char *section, size_t *index)
{
    while (*index < CONFIG_ROW_COUNT) {
        const struct config_row *row = &config_rows[*index];
        ++*index;
        if (strcmp(row->section, section) == 0) {
            return row;
        }
    }
    return NULL;
}

const char *doc_expected(const struct config_row *row, char *text)
{
    return value_expected(row, text);
}
