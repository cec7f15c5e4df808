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
#include "conf/doc/confdoc.h"

#include <stdlib.h>
#include <string.h>

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
