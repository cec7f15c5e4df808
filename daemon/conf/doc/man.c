/* SPDX-License-Identifier: BSD-2-Clause */
/* The generated parts of criproxyd.conf(5) and criproxyd(8), in mdoc. */
#include "conf/doc/confdoc.h"

#include "coap/message.h"
#include "coap/reason.h"
#include "conf/value.h"
#include "net/handshake.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH 78

/* One word; backslashes are roff's, and so are dots and quotes at the start of a line. */
static size_t write_word(FILE *out, const char *word, size_t len, bool at_start)
{
    size_t written = 0;

    if (at_start && (word[0] == '.' || word[0] == '\'')) {
        (void)fputs("\\&", out);
        written += 2;
    }
    for (size_t i = 0; i < len; i++) {
        if (word[i] == '\\') {
            (void)fputs("\\e", out);
            written += 2;
        } else {
            (void)fputc(word[i], out);
            written++;
        }
    }
    return written;
}

/* Running text: every sentence begins a line of its own, and long ones are wrapped. */
static void write_text(FILE *out, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > WIDTH) {
            (void)fputc('\n', out);
            column = 0;
        }
        if (column > 0) {
            (void)fputc(' ', out);
            column++;
        }
        column += write_word(out, text, len, column == 0);
        bool sentence = len > 0 && text[len - 1] == '.' && text[len] == ' ' &&
                        text[len + 1] >= 'A' && text[len + 1] <= 'Z';
        text += len;
        text += strspn(text, " ");
        if (sentence) {
            (void)fputc('\n', out);
            column = 0;
        }
    }
    (void)fputc('\n', out);
}

static void man_write_row(FILE *out, const struct config_row *row)
{
    char expected[VALUE_TEXT_MAX];

    (void)fprintf(out, ".It Ic %s\n", schema_key(row).text);
    write_text(out, row->help);
    (void)fprintf(out, ".Pp\nTakes %s.\n", doc_expected(row, expected));
    if (strcmp(row->preset, CONFIG_NO_DEFAULT) != 0) {
        (void)fprintf(out, "Default:\n.Li %s .\n", row->preset);
    }
    (void)fprintf(out, "%s\n", row->live ? "A reload applies it." : "A change needs a restart.");
}

static void man_write_named(FILE *out, const struct doc_section *section,
                            const struct config_named_kind *kind)
{
    (void)fprintf(out, ".Ss Sections %s NAME\n", section->name);
    write_text(out, section->help);
    (void)fputs(".Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < kind->row_count; i++) {
        man_write_row(out, &kind->rows[i]);
    }
    (void)fputs(".El\n", out);
}

void doc_write_man_rows(FILE *out)
{
    for (const struct doc_section *section = doc_sections(); section->name != NULL; section++) {
        const struct config_row *row = NULL;
        size_t index = 0;
        (void)fprintf(out, ".Ss Section %s\n", section->name);
        write_text(out, section->help);
        (void)fputs(".Bl -tag -width Ds\n", out);
        while ((row = doc_next_row(section->name, &index)) != NULL) {
            man_write_row(out, row);
        }
        (void)fputs(".El\n", out);
    }
    (void)fputs(".Ss Sections scheme NAME\n"
                "A section for a scheme, such as\n.Li [scheme coap] .\n"
                "The defaults of\n.Ic number , default-port\nand\n.Ic transport\n"
                "are those of the schemes that are built in, which\n.Pa schemes.conf\nlists.\n"
                "Any other name in the registry of scheme numbers brings its number along.\n"
                ".Bl -tag -width Ds\n",
                out);
    const struct config_named_kind *scheme = &config_named_kinds[CONFIG_NAMED_SCHEME];
    for (size_t i = 0; i < scheme->row_count; i++) {
        man_write_row(out, &scheme->rows[i]);
    }
    (void)fputs(".El\n", out);
    for (size_t i = 0; i < CONFIG_NAMED_COUNT; i++) {
        if (i != CONFIG_NAMED_SCHEME) {
            man_write_named(out, &doc_named_sections()[i], &config_named_kinds[i]);
        }
    }
}

static void man_write_reasons(FILE *out)
{
    (void)fputs(".Bl -tag -width Ds\n", out);
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        const struct reason_row *row = reason_row((enum reason)i);
        (void)fprintf(out, ".It Li %s", row->name);
        if (row->code != 0) {
            (void)fprintf(out, " Pq %u.%02u", CODE_CLASS(row->code), CODE_DETAIL(row->code));
        }
        (void)fputc('\n', out);
        write_text(out, row->help);
        if (row->diagnostic[0] != '\0') {
            (void)fprintf(out, "The answer begins with\n.Dq %s .\n", row->diagnostic);
        }
    }
    (void)fputs(".El\n", out);
}

/* What follows from each reason, as reasons.def has it. */
static void write_consequences(FILE *out)
{
    (void)fputs(".Pp\n"
                "What follows from a reason, in columns:\n"
                ".Bl -tag -width Ds\n"
                ".It Li about\n"
                "what failed: the client or its request, the target or the way to it, the origin\n"
                "server or the network before it, the proxy itself; or that nothing did\n"
                ".Pq Li success .\n"
                "It is the label\n.Li about\nof the counter\n"
                ".Li criproxyd_requests_ended_total .\n"
                ".It Li acted\n"
                "the origin server may have carried out a request that had been sent to it, so a\n"
                "cached answer of its target is stale where the method is not safe.\n"
                ".It Li stale\n"
                "an answer that is no longer fresh is given in its place, see\n"
                ".Ic cache.stale-if-error .\n"
                ".It Li elsewhere\n"
                "another address of the target's name is tried.\n"
                ".It Li again\n"
                "an observation is registered again.\n"
                ".El\n"
                ".Bl -column \"certificate_refused\" \"success\" \"acted\" \"stale\" \"elsewhere\" "
                "\"again\"\n"
                ".It Sy reason Ta Sy about Ta Sy acted Ta Sy stale Ta Sy elsewhere Ta Sy again\n",
                out);
    for (unsigned i = REASON_none + 1; i < REASON_COUNT; i++) {
        const struct reason_row *row = reason_row((enum reason)i);
        (void)fprintf(out, ".It Li %s Ta %s Ta %s Ta %s Ta %s Ta %s\n", row->name,
                      reason_about_name(row->about), row->may_have_acted ? "maybe" : "no",
                      row->may_be_helped_stale ? "yes" : "no",
                      row->may_do_better_elsewhere ? "yes" : "no", row->may_pass ? "yes" : "no");
    }
    (void)fputs(".El\n", out);
}

static void man_write_handshakes(FILE *out)
{
    (void)fputs(".Pp\n"
                "A handshake of a client that fails has a word in the log lines\n"
                ".Li dtls_handshake_failed\nand\n.Li stream_handshake_failed ,\n"
                "which is the label\n.Li reason\nof the counter\n"
                ".Li criproxyd_handshakes_failed_total :\n"
                ".Bl -tag -width Ds\n",
                out);
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        (void)fprintf(out, ".It Li %s\n", handshake_name((enum handshake)i));
        write_text(out, handshake_help((enum handshake)i));
    }
    (void)fputs(".El\n", out);
}

void doc_write_man_reasons(FILE *out)
{
    man_write_reasons(out);
    write_consequences(out);
    man_write_handshakes(out);
}
