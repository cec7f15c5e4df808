/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

#include <stdio.h>
#include <string.h>

static const char *const outcome_names[] = {"not played", "passed", "failed", "not-applicable"};

size_t report_count(const struct run *run, enum outcome outcome)
{
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++) {
        count += run->checks[i].outcome == outcome;
    }
    return count;
}

/* The title without the ids in front of it. */
static const char *words_of(const struct check *check)
{
    const char *title = check->scenario->title;
    size_t len;
    while ((len = strspn(title, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")) > 2 &&
           title[len] == ' ' && memchr(title, '-', len) != NULL) {
        title += len + 1;
    }
    return title;
}

void report_list(const struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        (void)printf("%-12s %s\n", run->checks[i].id, words_of(&run->checks[i]));
    }
}

/* --- text ------------------------------------------------------------------ */

static void print_failed(const struct check *check, bool is_verbose)
{
    const struct play_result *result = &check->result;
    const char *slash = strrchr(check->scenario->file, '/');
    (void)printf("  FAILED  %s  %s\n", check->id, words_of(check));
    (void)printf("          expected  %s    (%s:%d)\n", result->text != NULL ? result->text : "",
                 slash != NULL ? slash + 1 : check->scenario->file, result->line);
    if (result->got != NULL && result->got[0] != '\0') {
        (void)printf("          got       %s\n", result->got);
    }
    (void)printf("          because   %s\n", result->why);
    if (is_verbose) {
        (void)printf("\n%s\n", result->conversation);
    }
}

static void print_section(const struct run *run, const char *section, bool is_verbose)
{
    size_t counts[4] = {0};
    for (size_t i = 0; i < run->count; i++) {
        if (strcmp(run->checks[i].section, section) == 0) {
            counts[run->checks[i].outcome]++;
        }
    }
    (void)printf("%-6s %3zu passed %3zu failed %3zu not applicable\n", section,
                 counts[OUTCOME_PASSED], counts[OUTCOME_FAILED], counts[OUTCOME_NOT_APPLICABLE]);
    for (size_t i = 0; i < run->count; i++) {
        if (run->checks[i].outcome == OUTCOME_FAILED &&
            strcmp(run->checks[i].section, section) == 0) {
            print_failed(&run->checks[i], is_verbose);
        }
    }
}

static bool is_first_of_section(const struct run *run, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (strcmp(run->checks[i].section, run->checks[at].section) == 0) {
            return false;
        }
    }
    return true;
}

void report_text(const struct run *run, bool is_verbose)
{
    bool takes_any = false;
    (void)printf("The proxy takes");
    for (unsigned form = 0; form < SPEC_FORMS; form++) {
        if (run->abilities.takes[form]) {
            (void)printf("%s %s", takes_any ? "," : "", spec_form_names[form]);
            takes_any = true;
        }
    }
    (void)printf("%s; it %s, %s and %s.\nTargets are named by %s.\n\n",
                 takes_any ? "" : " no form of a target",
                 run->abilities.observes ? "observes" : "does not observe",
                 run->abilities.counts_hops ? "counts hops" : "does not count hops",
                 run->abilities.takes_blocks ? "takes blocks" : "does not take blocks",
                 spec_form_names[run->form]);
    for (size_t i = 0; i < run->count; i++) {
        if (is_first_of_section(run, i)) {
            print_section(run, run->checks[i].section, is_verbose);
        }
    }
    size_t passed = report_count(run, OUTCOME_PASSED), failed = report_count(run, OUTCOME_FAILED);
    (void)printf("\n%zu of %zu passed, %zu failed, %zu not applicable\n", passed, passed + failed,
                 failed, report_count(run, OUTCOME_NOT_APPLICABLE));
}

/* --- JSON and XML ------------------------------------------------------------ */

static void print_json_text(const char *name, const char *text, const char *behind)
{
    (void)printf("\"%s\":\"", name);
    for (; text != NULL && *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            (void)printf("\\%c", byte);
        } else if (byte < 0x20 || byte > 0x7e) {
            (void)printf("\\u%04x", (unsigned)byte);
        } else {
            (void)putchar(byte);
        }
    }
    (void)printf("\"%s", behind);
}

void report_json(const struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        const struct check *check = &run->checks[i];
        bool has_failed = check->outcome == OUTCOME_FAILED;
        (void)putchar('{');
        print_json_text("id", check->id, ",");
        print_json_text("title", words_of(check), ",");
        print_json_text("section", check->section, ",");
        print_json_text("reference", check->reference, ",");
        print_json_text("result", outcome_names[check->outcome], ",");
        print_json_text("expected", has_failed ? check->result.text : "", ",");
        print_json_text("got", has_failed ? check->result.got : "", ",");
        print_json_text("because", has_failed ? check->result.why : check->why_not, "}\n");
    }
}

static void print_xml_text(const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '<' || byte == '>' || byte == '&' || byte == '"' ||
            (byte < 0x20 && byte != '\n') || byte > 0x7e) {
            (void)printf("&#%u;", (unsigned)(byte < 0x20 ? '?' : byte));
        } else {
            (void)putchar(byte);
        }
    }
}

static void print_xml_attribute(const char *name, const char *text)
{
    (void)printf(" %s=\"", name);
    print_xml_text(text);
    (void)putchar('"');
}

void report_junit(const struct run *run)
{
    (void)printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                 "<testsuite name=\"coapcheck\" tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\">\n",
                 run->count, report_count(run, OUTCOME_FAILED),
                 report_count(run, OUTCOME_NOT_APPLICABLE));
    for (size_t i = 0; i < run->count; i++) {
        const struct check *check = &run->checks[i];
        (void)printf("  <testcase");
        print_xml_attribute("classname", check->section);
        print_xml_attribute("name",
                            pool_format(&run->scripts->pool, "%s %s", check->id, words_of(check)));
        if (check->outcome == OUTCOME_FAILED) {
            (void)printf(">\n    <failure");
            print_xml_attribute("message", check->result.why);
            (void)putchar('>');
            print_xml_text(check->result.conversation);
            (void)printf("</failure>\n  </testcase>\n");
        } else if (check->outcome == OUTCOME_NOT_APPLICABLE) {
            (void)printf(">\n    <skipped");
            print_xml_attribute("message", check->why_not);
            (void)printf("/>\n  </testcase>\n");
        } else {
            (void)printf("/>\n");
        }
    }
    (void)printf("</testsuite>\n");
}
