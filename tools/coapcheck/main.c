/* SPDX-License-Identifier: BSD-2-Clause */
/* coapcheck: checks of a CoAP forward-proxy, played over sockets (docs/SCENARIOS.md). */
#include "check.h"
#include "report.h"
#include "socket_stage.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_MS 38000u /* with PATIENCE_MS; in proportion with more */
#define SLOW_RUN_MS 420000u
#define PATIENCE_MS 2000u
#define FOLDER_MAX 4096u

enum {
    STATUS_PASSED = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
};

struct arguments {
    const char *proxy, *identity, *key, *folder, *only, *exclude, *patience;
    bool list, json, junit, all_forms, proxy_uri, slow, verbose;
};

static const char help[] =
    "usage: coapcheck --proxy URI [options]\n"
    "       coapcheck --list [options]\n"
    "\n"
    "Plays checks of RFC 7252 and what belongs to it against a CoAP forward-proxy.\n"
    "\n"
    "  --proxy URI         where the proxy is: coap, coaps, coap+tcp or coap+ws://HOST[:PORT]\n"
    "  --identity NAME     of the pre-shared key, for coaps\n"
    "  --key TEXT          the key, as the bytes of the text\n"
    "  --list              print the checks and end\n"
    "  --only LIST         only these sections and ids, as in CACHE,OBS-3\n"
    "  --exclude LIST      not these\n"
    "  --slow              also the checks that take minutes\n"
    "  --forms             also the checks of forms that the proxy does not take\n"
    "  --proxy-uri         name targets by Proxy-Uri, whatever the proxy takes\n"
    "  --json              an object a line\n"
    "  --junit             XML as JUnit has it\n"
    "  --verbose           with the conversation of each check that failed\n"
    "  --patience TIME     for each message (2s); more for a proxy on a slow machine\n"
    "  --checks FOLDER     the files of checks\n"
    "  --help, --version\n"
    "\n"
    "The exit status is 0 if no check failed, 1 if one did, 2 for wrong arguments.\n";

static int complain(const char *what, const char *text)
{
    (void)fprintf(stderr, "coapcheck: %s: %s\n", what, text);
    return STATUS_USAGE;
}

/* --- the command line -------------------------------------------------------- */

static const struct option options[] = {{"proxy", required_argument, NULL, 'p'},
                                        {"identity", required_argument, NULL, 'i'},
                                        {"key", required_argument, NULL, 'k'},
                                        {"list", no_argument, NULL, 'l'},
                                        {"only", required_argument, NULL, 'o'},
                                        {"exclude", required_argument, NULL, 'x'},
                                        {"slow", no_argument, NULL, 's'},
                                        {"forms", no_argument, NULL, 'f'},
                                        {"proxy-uri", no_argument, NULL, 'u'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"junit", no_argument, NULL, 'J'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {"patience", required_argument, NULL, 't'},
                                        {"checks", required_argument, NULL, 'c'},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'V'},
                                        {NULL, 0, NULL, 0}};

/* An option that is a flag or has a text; false: it is neither. */
static bool set_argument(struct arguments *a, int letter)
{
    const struct {
        int letter;
        const char **text;
        bool *flag;
    } rows[] = {{'p', &a->proxy, NULL},     {'i', &a->identity, NULL}, {'k', &a->key, NULL},
                {'o', &a->only, NULL},      {'x', &a->exclude, NULL},  {'c', &a->folder, NULL},
                {'l', NULL, &a->list},      {'s', NULL, &a->slow},     {'f', NULL, &a->all_forms},
                {'u', NULL, &a->proxy_uri}, {'j', NULL, &a->json},     {'J', NULL, &a->junit},
                {'v', NULL, &a->verbose},   {'t', &a->patience, NULL}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].letter == letter && rows[i].text != NULL) {
            *rows[i].text = optarg;
            return true;
        }
        if (rows[i].letter == letter) {
            *rows[i].flag = true;
            return true;
        }
    }
    return false;
}

/* @return -1 to go on, or the exit status. */
static int read_arguments(int argc, char **argv, struct arguments *ret_arguments)
{
    int letter;
    *ret_arguments = (struct arguments){.folder = NULL};
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (letter == 'h') {
            (void)fputs(help, stdout);
            return STATUS_PASSED;
        }
        if (letter == 'V') {
            (void)printf("coapcheck %s\n", COAPCHECK_VERSION);
            return STATUS_PASSED;
        }
        if (!set_argument(ret_arguments, letter)) {
            (void)fputs("Try coapcheck --help.\n", stderr);
            return STATUS_USAGE;
        }
    }
    return optind == argc ? -1 : complain("not an option", argv[optind]);
}

static int find_proxy(const struct arguments *arguments, struct run *run)
{
    run->proxy.identity = arguments->identity;
    run->proxy.key = arguments->key;
    const char *fault = proxy_find(arguments->proxy, &run->proxy);
    if (fault != NULL) {
        return complain(fault, arguments->proxy);
    }
    int status = socket_stage_find_local(&run->proxy, &run->local);
    return status == 0 ? -1 : complain(arguments->proxy, strerror(-status));
}

/* Where the files of checks were installed with this program; else where the build meant them to
 * be. */
static const char *folder_of_checks(char folder[static FOLDER_MAX])
{
    static const char below[] = "/../share/criproxy/coapcheck";
    ssize_t len = readlink("/proc/self/exe", folder, FOLDER_MAX - sizeof(below));
    char *slash = len > 0 ? memrchr(folder, '/', (size_t)len) : NULL;
    if (slash == NULL) {
        return COAPCHECK_FOLDER;
    }
    memcpy(slash, below, sizeof(below));
    return access(folder, R_OK) == 0 ? folder : COAPCHECK_FOLDER;
}

/* --- the run ------------------------------------------------------------------- */

static int play(const struct arguments *arguments, struct run *run)
{
    int status = find_proxy(arguments, run);
    if (status >= 0) {
        return status;
    }
    run->plays_slow = arguments->slow;
    run->plays_all_forms = arguments->all_forms;
    run->shows_progress = isatty(STDERR_FILENO) == 1;
    run->patience_ms = PATIENCE_MS;
    if (arguments->patience != NULL && (!script_duration(arguments->patience, &run->patience_ms) ||
                                        run->patience_ms < 100 || run->patience_ms > 60000)) {
        return complain("--patience: 100ms to 60s was expected", arguments->patience);
    }
    run->end_ms =
        link_now_ms() + (arguments->slow ? SLOW_RUN_MS : RUN_MS) * run->patience_ms / PATIENCE_MS;
    check_probe(run);
    if (arguments->proxy_uri) {
        run->form = SPEC_PROXY_URI;
    }
    check_play(run);
    if (arguments->json) {
        report_json(run);
    } else if (arguments->junit) {
        report_junit(run);
    } else {
        report_text(run, arguments->verbose);
    }
    return report_count(run, OUTCOME_FAILED) == 0 ? STATUS_PASSED : STATUS_FAILED;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct run run = {.count = 0};
    char folder[FOLDER_MAX];
    int status = read_arguments(argc, argv, &arguments);
    if (status >= 0) {
        return status;
    }
    if (arguments.proxy == NULL && !arguments.list) {
        return complain("missing", "--proxy (or --list)");
    }
    (void)signal(SIGPIPE, SIG_IGN);
    status = STATUS_USAGE;
    if (check_load(&run, arguments.folder != NULL ? arguments.folder : folder_of_checks(folder))) {
        check_select(&run, arguments.only, arguments.exclude);
        if (arguments.list) {
            report_list(&run);
            status = STATUS_PASSED;
        } else {
            status = run.count > 0 ? play(&arguments, &run)
                                   : complain("no check has this id or section",
                                              arguments.only != NULL ? arguments.only : "");
        }
    }
    check_clear(&run);
    return status;
}
