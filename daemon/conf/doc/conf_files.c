/* SPDX-License-Identifier: BSD-2-Clause */
/* criproxyd.conf with every key at its default, and schemes.conf. */
#include "conf/doc/confdoc.h"

#include "conf/config.h"
#include "conf/value.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH 80

static void write_wrapped(FILE *out, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > WIDTH) {
            (void)fputc('\n', out);
            column = 0;
        }
        if (column == 0) {
            column = (size_t)fprintf(out, "# %.*s", (int)len, text);
        } else {
            column += (size_t)fprintf(out, " %.*s", (int)len, text);
        }
        text += len;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

static void write_key(FILE *out, const struct config_row *row, const char *value)
{
    (void)fprintf(out, "#%s = %s\n", schema_key(row).text, value);
}

static void write_list(FILE *out, const struct config_row *row)
{
    const char *at = row->preset;

    while (*at != '\0') {
        size_t len = strcspn(at, " ");
        (void)fprintf(out, "#%s = %.*s\n", schema_key(row).text, (int)len, at);
        at += len;
        at += strspn(at, " ");
    }
}

static void files_write_row(FILE *out, const struct config_row *row)
{
    char expected[VALUE_TEXT_MAX];
    char line[VALUE_TEXT_MAX + 64];

    (void)fputc('\n', out);
    write_wrapped(out, row->help);
    (void)snprintf(line, sizeof(line), "Takes %s%s.", doc_expected(row, expected),
                   row->live ? "" : "; needs a restart");
    write_wrapped(out, line);
    if (row->type == CONFIG_TYPE_LIST) {
        write_list(out, row);
    } else if (strcmp(row->preset, CONFIG_NO_DEFAULT) == 0) {
        (void)fprintf(out, "#%s =\n", schema_key(row).text);
    } else {
        write_key(out, row, row->preset);
    }
}

/* A whole section as a comment: it would need values that have no default. */
static void files_write_named(FILE *out, const struct doc_section *section,
                              const struct config_named_kind *kind)
{
    char expected[VALUE_TEXT_MAX];

    (void)fprintf(out, "\n# [%s NAME]\n", section->name);
    write_wrapped(out, section->help);
    for (size_t i = 0; i < kind->row_count; i++) {
        const struct config_row *row = &kind->rows[i];
        char line[VALUE_TEXT_MAX + 64];
        (void)fputs("#\n", out);
        write_wrapped(out, row->help);
        (void)snprintf(line, sizeof(line), "Takes %s.", doc_expected(row, expected));
        write_wrapped(out, line);
        if (strcmp(row->preset, CONFIG_NO_DEFAULT) == 0) {
            (void)fprintf(out, "# %s =\n", schema_key(row).text);
        } else {
            (void)fprintf(out, "# %s = %s\n", schema_key(row).text, row->preset);
        }
    }
}

static void write_intro(FILE *out)
{
    (void)fputs(
        "# SPDX-License-Identifier: BSD-2-Clause\n"
        "# criproxyd.conf: every key at its default. Generated from the daemon's own tables.\n"
        "#\n"
        "# KEY = VALUE lines in [SECTION]s. A comment starts with # or ; at the start of a\n"
        "# line or after a blank. Check a changed file with criproxyd -c FILE --check-config;\n"
        "# SIGHUP makes a running criproxyd read it anew. See criproxyd.conf(5).\n",
        out);
}

void doc_write_conf(FILE *out)
{
    char text[VALUE_TEXT_MAX];

    write_intro(out);
    for (const struct doc_section *section = doc_sections(); section->name != NULL; section++) {
        const struct config_row *row = NULL;
        size_t index = 0;
        (void)fprintf(out, "\n[%s]\n", section->name);
        write_wrapped(out, section->help);
        while ((row = doc_next_row(section->name, &index)) != NULL) {
            files_write_row(out, row);
        }
    }
    for (size_t i = 0; i < CONFIG_NAMED_COUNT; i++) {
        if (i != CONFIG_NAMED_SCHEME) {
            files_write_named(out, &doc_named_sections()[i], &config_named_kinds[i]);
        }
    }
    (void)fputs(
        "\n# The keys of a scheme, at the defaults of coap; see schemes.conf for the others.\n"
        "[scheme coap]\n",
        out);
    const struct config_named_kind *scheme = &config_named_kinds[CONFIG_NAMED_SCHEME];
    for (size_t i = 0; i < scheme->row_count; i++) {
        struct config_row row = scheme->rows[i];
        char preset[VALUE_TEXT_MAX];
        struct config *config = NULL;
        struct config_errors *errors = calloc(1, sizeof(struct config_errors));
        if (errors == NULL || config_load(NULL, errors, &config) != 0) {
            abort();
        }
        (void)snprintf(preset, sizeof(preset), "%s",
                       value_format(&row, value_load(&config->schemes[0], &row), text));
        row.preset = preset;
        files_write_row(out, &row);
        config_free(config);
        free(errors);
    }
}

/* The keys that differ between schemes; the others are the same for all. */
static const char *const scheme_keys[] = {"number", "default-port", "transport"};

void doc_write_schemes(FILE *out)
{
    struct config *config = NULL;
    struct config_errors *errors = calloc(1, sizeof(struct config_errors));
    char text[VALUE_TEXT_MAX];

    if (errors == NULL || config_load(NULL, errors, &config) != 0) {
        abort();
    }
    (void)fputs("# SPDX-License-Identifier: BSD-2-Clause\n"
                "# schemes.conf: the schemes that are built in. Generated from the daemon's own "
                "tables.\n"
                "#\n"
                "# This is an example: nothing changes by including it, [include] file =\n"
                "# schemes.conf in criproxyd.conf. Copy a section to change a scheme or to add\n"
                "# one; its other keys are in criproxyd.conf(5).\n",
                out);
    for (size_t i = 0; i < config->scheme_count; i++) {
        (void)fprintf(out, "\n[scheme %s]\n", config->schemes[i].name);
        for (size_t k = 0; k < sizeof(scheme_keys) / sizeof(scheme_keys[0]); k++) {
            const struct config_row *row = schema_find_named(CONFIG_NAMED_SCHEME, scheme_keys[k]);
            (void)fprintf(out, "%s = %s\n", scheme_keys[k],
                          value_format(row, value_load(&config->schemes[i], row), text));
        }
    }
    config_free(config);
    free(errors);
}
