/* SPDX-License-Identifier: BSD-2-Clause */
/* coapcheck: checks of a CoAP forward-proxy, played over sockets (docs/SCENARIOS.md). */
#include "check.h"
#include "report.h"
#include "socket_stage.h"

#include <getopt.h>
#include <netdb.h>
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

/* SCHEME://HOST[:PORT]; @p host and @p port have room for it. */
static bool split_proxy(const char *uri, struct proxy *proxy, char host[static 256],
                        char port[static 8])
{
    static const struct {
        const char *scheme;
        enum actor_way way;
        const char *port;
    } schemes[] = {{"coap://", WAY_UDP, "5683"},
                   {"coaps://", WAY_DTLS, "5684"},
                   {"coap+tcp://", WAY_TCP, "5683"},
                   {"coap+ws://", WAY_WS, "80"}};
    const char *at = NULL, *colon;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i].scheme);
        if (strncmp(uri, schemes[i].scheme, len) == 0) {
            at = uri + len;
            proxy->way = schemes[i].way;
            (void)snprintf(port, 8, "%s", schemes[i].port);
        }
    }
    if (at == NULL) {
        return false;
    }
    proxy->host = at;
    size_t len = at[0] == '[' ? strcspn(at, "]") : strcspn(at, ":/");
    bool is_bracketed = at[0] == '[';
    if (len == 0 || len >= 256 || (is_bracketed && at[len] != ']')) {
        return false;
    }
    (void)snprintf(host, 256, "%.*s", (int)len - is_bracketed, at + is_bracketed);
    colon = at + len + is_bracketed;
    if (*colon == ':' && strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
        strlen(colon + 1) < 6 && colon[1] != '\0') {
        (void)snprintf(port, 8, "%s", colon + 1);
        return true;
    }
    return *colon == '\0';
}

static int find_proxy(const struct arguments *arguments, struct run *run)
{
    char host[256], port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found;
    struct proxy *proxy = &run->proxy;
    if (!split_proxy(arguments->proxy, proxy, host, port)) {
        return complain("--proxy: SCHEME://HOST[:PORT] was expected", arguments->proxy);
    }
    if (proxy->way == WAY_DTLS && (arguments->identity == NULL || arguments->key == NULL)) {
        return complain("coaps needs", "--identity and --key");
    }
    proxy->identity = arguments->identity;
    proxy->key = arguments->key;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0) {
        return complain(host, gai_strerror(error));
    }
    memcpy(&proxy->address, found->ai_addr, found->ai_addrlen);
    proxy->address_len = found->ai_addrlen;
    freeaddrinfo(found);
    int status = socket_stage_find_local(proxy, &run->local);
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
