/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the documents about the configuration from the tables that the daemon uses, so that they
 * always agree: the commented criproxyd.conf, schemes.conf, the manual page criproxyd.conf(5),
 * CONFIGURATION.md, and the list of reasons in criproxyd(8).
 *
 *   confdoc KIND [--template FILE] [--check FILE]
 *
 * writes KIND to standard output, or with --check compares it with what is there.
 */
#include "coap/message.h"
#include "coap/reason.h"
#include "conf/config.h"
#include "conf/schema.h"
#include "conf/value.h"
#include "net/handshake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the sections are ---- */

/* A section of the configuration and its purpose. */
struct doc_section {
    const char *name;
    const char *help;
};

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
    {"devices",
     "Devices that call home: origin servers that cannot be reached, and open a session with the "
     "proxy themselves. Each has a section \"device NAME\"."},
    {"multicast", "Requests to groups."},
    {"cache", "Stored answers, and requests that wait for the same answer."},
    {"upstream",
     "Sessions with origin servers and parent proxies over DTLS, TCP, TLS and WebSockets: keys, "
     "certificates and limits."},
    {"resolve", "How host names are resolved."},
    {"cluster", "What replicas behind one load balancer have in common."},
    {"admin", "How a running proxy is monitored and controlled."},
    {"lab", "Test labs, where things go wrong on purpose."},
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
    {"media", "The media type of a Content-Format that the registry of CoAP does not have, for "
              "HTTP on either side; NAME is the number, such as [media 65001]."},
    {"publish",
     "A path of the proxy's own that stands for a target elsewhere: clients ask the proxy as "
     "if it were the origin server, and need not name a target (a reverse proxy, RFC "
     "7252 section 5.7.3)."},
    {"fault",
     "What goes wrong on purpose, in a lab: needs lab.enabled = yes. The first section that "
     "matches a message decides, then those that criproxyctl fault add has added. With target, it "
     "is about messages between the proxy and origin servers, for these targets; with client "
     "alone, about messages between clients and the proxy; with both, about messages to origin "
     "servers on behalf of these clients. Every worker counts messages by itself."},
    {"device", "A device that calls home: over the session that a client has opened which "
               "authenticates with one of these, requests for coap://NAME.ZONE go to it, with "
               "devices.zone as ZONE; or to where it has registered from, over UDP. Letters, "
               "digits and hyphens may be in NAME."},
    {NULL, NULL},
};

_Static_assert(sizeof(named_sections) / sizeof(named_sections[0]) == CONFIG_NAMED_COUNT + 1,
               "a new kind of named section is described here");

/*
 * The kinds of named sections, static, in the order of enum config_named; ends with a NULL name.
 */
static const struct doc_section *doc_named_sections(void)
{
    return named_sections;
}

/*
 * The sections in the order of options.def, static; ends with a NULL name. Aborts if a section has
 * no description.
 */
static const struct doc_section *doc_sections(void)
{
    check_sections();
    return sections;
}

/* The rows of @p section, one after the other; NULL after the last. @p index begins at 0. */
static const struct config_row *doc_next_row(const char *section, size_t *index)
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

/*
 * Describes the values of a key: "a size with its unit ... from 0 to 256MiB". Returns @p text, the
 * caller's buffer of VALUE_TEXT_MAX bytes, or a static text.
 */
static const char *doc_expected(const struct config_row *row, char *text)
{
    return value_expected(row, text);
}

/* ---- criproxyd.conf with every key at its default, and schemes.conf ---- */

#define CONF_WIDTH 80

static void write_wrapped(FILE *out, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > CONF_WIDTH) {
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

static void doc_write_conf(FILE *out)
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

static void doc_write_schemes(FILE *out)
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

/* ---- the generated parts of criproxyd.conf(5) and criproxyd(8), in mdoc ---- */

#define MAN_WIDTH 78

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
        if (column > 0 && column + 1 + len > MAN_WIDTH) {
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

static void doc_write_man_rows(FILE *out)
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

static const char *elsewhere_word(const struct reason_row *row)
{
    const char *yes = row->is_kept ? "kept" : "yes";
    return row->may_do_better_elsewhere ? yes : "no";
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
                "With kept there was a server, and this stays the reason where the others\n"
                "have none.\n"
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
                      row->may_be_helped_stale ? "yes" : "no", elsewhere_word(row),
                      row->may_pass ? "yes" : "no");
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
        (void)fprintf(out, ".It Li %s\n", handshake_rows[i].name);
        write_text(out, handshake_rows[i].help);
    }
    (void)fputs(".El\n", out);
}

struct man_refusal {
    const char *name, *help;
};

static void man_write_refusals(FILE *out, const char *text, const struct man_refusal *rows,
                               size_t count)
{
    (void)fprintf(out, ".Pp\n%s.Bl -tag -width Ds\n", text);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, ".It Li %s\n", rows[i].name);
        write_text(out, rows[i].help);
    }
    (void)fputs(".El\n", out);
}

static void man_write_all_refusals(FILE *out)
{
    static const struct man_refusal handovers[] = {
#define HANDOVER_REFUSAL(name, text, help) {#name, help},
#include "net/handover_refusals.def"
#undef HANDOVER_REFUSAL
    };
    static const struct man_refusal peers[] = {
#define PEER_REFUSAL(name, help) {#name, help},
#include "net/peer_refusals.def"
#undef PEER_REFUSAL
    };

    man_write_refusals(out,
                       "What the process before has left is refused with the log line\n"
                       ".Li handover_refused\nor\n.Li sessions_not_taken_over ;\n"
                       "the counter\n.Li criproxyd_handovers_refused_total\nhas the label\n"
                       ".Li reason :\n",
                       handovers, sizeof handovers / sizeof handovers[0]);
    man_write_refusals(out,
                       "What another replica has sent is refused for a reason which is the label\n"
                       ".Li reason\nof the counter\n.Li criproxyd_peers_refused_total :\n",
                       peers, sizeof peers / sizeof peers[0]);
}

static void doc_write_man_reasons(FILE *out)
{
    man_write_reasons(out);
    write_consequences(out);
    man_write_handshakes(out);
    man_write_all_refusals(out);
}

/* ---- CONFIGURATION.md, the keys as tables ---- */

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

static void doc_write_markdown(FILE *out)
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

/* ---- the program ---- */

struct kind {
    const char *name;
    void (*write)(FILE *out);
    bool fills_template; /* write() goes where the template has a line "@ROWS@" */
};

static const struct kind kinds[] = {
    {"criproxyd.conf", doc_write_conf, false},      {"schemes.conf", doc_write_schemes, false},
    {"criproxyd.conf.5", doc_write_man_rows, true}, {"CONFIGURATION.md", doc_write_markdown, false},
    {"criproxyd.8", doc_write_man_reasons, true},
};

/* NULL with the reason on standard error. The caller frees it. */
static char *read_whole(const char *name)
{
    enum { MAX = 1 << 20 };
    FILE *file = fopen(name, "re");
    char *text = calloc(1, MAX + 1);
    bool good = file != NULL && text != NULL;

    if (good) {
        size_t len = fread(text, 1, MAX, file);
        good = ferror(file) == 0 && feof(file) != 0 && len < MAX;
    }
    if (!good) {
        (void)fprintf(stderr, "confdoc: %s cannot be read\n", name);
        free(text);
        text = NULL;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

static bool write_filled(const struct kind *kind, const char *template_name, FILE *out)
{
    static const char mark[] = "@ROWS@\n";
    char *text = template_name == NULL ? NULL : read_whole(template_name);
    const char *at = text == NULL ? NULL : strstr(text, mark);

    if (at == NULL) {
        (void)fprintf(stderr, "confdoc: %s needs a template with a line @ROWS@\n", kind->name);
        free(text);
        return false;
    }
    (void)fwrite(text, 1, (size_t)(at - text), out);
    kind->write(out);
    (void)fputs(at + sizeof(mark) - 1, out);
    free(text);
    return true;
}

static bool write_kind(const struct kind *kind, const char *template_name, FILE *out)
{
    if (kind->fills_template) {
        return write_filled(kind, template_name, out);
    }
    kind->write(out);
    return true;
}

/* 0 if the file @p name has the text that would be written. */
static int confdoc_check(const struct kind *kind, const char *template_name, const char *name)
{
    char *made = NULL;
    size_t made_len = 0;
    FILE *out = open_memstream(&made, &made_len);
    bool good = out != NULL && write_kind(kind, template_name, out);

    if (out != NULL) {
        good = fclose(out) == 0 && good;
    }
    char *there = good ? read_whole(name) : NULL;
    bool same = there != NULL && strcmp(made, there) == 0;
    if (there != NULL && !same) {
        (void)fprintf(stderr, "confdoc: %s is not what is generated; build the target \"docs\"\n",
                      name);
    }
    free(made);
    free(there);
    return same ? 0 : 1;
}

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct kind *kind = argc < 2 ? NULL : find_kind(argv[1]);
    const char *template_name = NULL;
    const char *check_name = NULL;
    int used = 2;

    for (; used + 1 < argc; used += 2) {
        if (strcmp(argv[used], "--template") == 0) {
            template_name = argv[used + 1];
        } else if (strcmp(argv[used], "--check") == 0) {
            check_name = argv[used + 1];
        } else {
            break;
        }
    }
    if (kind == NULL || used != argc) {
        (void)fputs("usage: confdoc KIND [--template FILE] [--check FILE]\n", stderr);
        return 2;
    }
    if (check_name != NULL) {
        return confdoc_check(kind, template_name, check_name);
    }
    return write_kind(kind, template_name, stdout) && fflush(stdout) == 0 ? 0 : 1;
}
