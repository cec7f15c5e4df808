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
    {"limits", "The size of every table, and what one peer may take of it. Nothing a stranger "
               "sends makes memory grow past what these say."},
    {"resolve", "Host names. The system's own resolver is asked."},
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
