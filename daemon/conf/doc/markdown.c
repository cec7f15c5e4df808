/* SPDX-License-Identifier: BSD-2-Clause */
/* CONFIGURATION.md: the keys as tables. */
#include "conf/doc/confdoc.h"

#include "conf/value.h"

#include <string.h>

static void write_default(FILE *out, const struct config_row *row)
{
    const char *at = row->preset;

    if (strcmp(at, CONFIG_NO_DEFAULT) == 0) {
        return;
    }
    while (*at != '\0') {
        size_t len = row->type == CONFIG_TYPE_LIST ? strcspn(at, " ") : strlen(at);
        (void)fprintf(out, "%s`%.*s`", at == row->preset ? "" : " ", (int)len, at);
        at += len;
        at += strspn(at, " ");
    }
}

static void write_row(FILE *out, const struct config_row *row)
{
    char expected[VALUE_TEXT_MAX];

    (void)fprintf(out, "| `%s` | %s | ", schema_key(row).text, doc_expected(row, expected));
    write_default(out, row);
    (void)fprintf(out, " | %s | %s |\n", row->live ? "live" : "restart", row->help);
}

static void write_head(FILE *out)
{
    (void)fputs("| key | takes | default | reload | what it does |\n|---|---|---|---|---|\n", out);
}

static void write_named(FILE *out, const struct doc_section *section,
                        const struct config_named_kind *kind)
{
    (void)fprintf(out,
                  "\n## [%s NAME]\n\n%s On the command line: `--set \"%s NAME.KEY=VALUE\"`.\n\n",
                  section->name, section->help, section->name);
    write_head(out);
    for (size_t i = 0; i < kind->row_count; i++) {
        write_row(out, &kind->rows[i]);
    }
}

void doc_write_markdown(FILE *out)
{
    (void)fputs(
        "# Configuration of criproxyd\n\n"
        "Generated from the daemon's own tables; the same in a manual page: "
        "[criproxyd.conf(5)](man/criproxyd.conf.5). A file with every key at its default is "
        "[conf/criproxyd.conf](../conf/criproxyd.conf).\n\n"
        "Keys are set as `KEY = VALUE` in a `[SECTION]` of the file given with `-c`, or on the "
        "command line with `--set SECTION.KEY=VALUE`, which wins. *live*: SIGHUP takes a change "
        "over; *restart*: it does not. A file includes others with `file = NAME` in the section "
        "`[include]`; they are read after it, in their order, and win.\n",
        out);
    for (const struct doc_section *section = doc_sections(); section->name != NULL; section++) {
        const struct config_row *row = NULL;
        size_t index = 0;
        (void)fprintf(out, "\n## [%s]\n\n%s\n\n", section->name, section->help);
        write_head(out);
        while ((row = doc_next_row(section->name, &index)) != NULL) {
            write_row(out, row);
        }
    }
    (void)fputs(
        "\n## [scheme NAME]\n\n"
        "One section for each scheme to change or to add, for example `[scheme coap]`. "
        "[conf/schemes.conf](../conf/schemes.conf) lists the schemes that are built in, with "
        "their values of the first three keys. On the command line: "
        "`--set \"scheme coap.ack-timeout=3s\"`.\n\n",
        out);
    write_head(out);
    const struct config_named_kind *scheme = &config_named_kinds[CONFIG_NAMED_SCHEME];
    for (size_t i = 0; i < scheme->row_count; i++) {
        write_row(out, &scheme->rows[i]);
    }
    for (size_t i = 0; i < CONFIG_NAMED_COUNT; i++) {
        if (i != CONFIG_NAMED_SCHEME) {
            write_named(out, &doc_named_sections()[i], &config_named_kinds[i]);
        }
    }
}
