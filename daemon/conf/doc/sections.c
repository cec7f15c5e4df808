/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/doc/confdoc.h"

#include "conf/value.h"

#include <stdlib.h>
#include <string.h>

static const struct doc_section sections[] = {
    {"proxy", "What the proxy does with requests."},
    {"listen", "Where clients reach the proxy."},
    {"tls", "Keys and certificates of the secure listeners. Each new session takes what a reload "
            "has brought; sessions that are there go on."},
    {"stream", "Clients on reliable transports: coap+tcp and those above it."},
    {"policy",
     "Who is served, and what everybody may reach. More than this is said by the sections "
     "\"access NAME\"."},
    {"limits", "The size of every table, and what one peer may take of it. Nothing a stranger "
               "sends makes memory grow past what these say."},
    {"block",
     "Bodies in blocks (RFC 7959). Where both sides can, blocks pass through and nothing is "
     "kept; these are for where they cannot."},
    {"observe",
     "Clients that observe resources: one registration with the origin server for all of "
     "them."},
    {"multicast", "Requests to groups."},
    {"cache", "Answers that are kept and given again, and requests that wait for the same answer."},
    {"upstream",
     "Sessions with origin servers and parent proxies that are not reached over plain UDP: what "
     "is shown to them and asked of them, and how long they are kept."},
    {"resolve", "Host names, asked for in /etc/hosts and of DNS servers."},
    {"admin", "How the running proxy is watched and controlled."},
    {"log", "What is written to standard error."},
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
    {"upstream", "What is different from the section upstream for some targets. A key that is not "
                 "given is as there."},
    {"access", "Who may do what with some targets. The first section that matches decides, in the "
               "order in which the files name them. Keys select clients, targets and methods; one "
               "that is not given selects nothing away."},
    {"limit",
     "What each of some clients may take, for each worker. The first section that is for a "
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
