/* SPDX-License-Identifier: BSD-2-Clause */
/* coap-traceroute: the proxies between a client and its target, by Hop-Limit (RFC 8768). */
#include "ask.h"
#include "names.h"

#include <cri/cri.h>
#include <cri/uri.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOPS 16u
#define HOPS_MAX 255u /* of the option */
#define WAIT_MS 5000u
#define TARGET_MAX 1034u /* bytes of Proxy-Uri, and of Proxy-Cri */
#define SHOWN_MAX (4u * NAMES_MAX + 1u)
#define COLUMN 24

enum {
    STATUS_REACHED = 0,
    STATUS_NOT_REACHED = 1,
    STATUS_USAGE = 2,
};

struct arguments {
    const char *target, *proxy, *identity, *key, *form, *hops, *wait;
    bool json;
};

static const char help[] =
    "usage: coap-traceroute TARGET --proxy URI [options]\n"
    "\n"
    "Prints the CoAP forward-proxies on the way to TARGET, a URI, by Hop-Limit (RFC 8768).\n"
    "\n"
    "  --proxy URI       the first proxy: coap, coaps, coap+tcp or coap+ws://HOST[:PORT]\n"
    "  --identity NAME   of the pre-shared key, for coaps\n"
    "  --key TEXT        the key, as the bytes of the text\n"
    "  --form FORM       how the target is named: uri (Proxy-Uri, the default) or cri\n"
    "  --max-hops N      1 to 255 (16)\n"
    "  --wait TIME       for the answer of each hop, 100ms to 10m (5s)\n"
    "  --json            an object a line\n"
    "  --help, --version\n"
    "\n"
    "The exit status is 0 if the target was reached, 1 if not, 2 for wrong arguments.\n";

static const struct option options[] = {
    {"proxy", required_argument, NULL, 'p'},    {"identity", required_argument, NULL, 'i'},
    {"key", required_argument, NULL, 'k'},      {"form", required_argument, NULL, 'f'},
    {"max-hops", required_argument, NULL, 'm'}, {"wait", required_argument, NULL, 'w'},
    {"json", no_argument, NULL, 'j'},           {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},        {NULL, 0, NULL, 0}};

static int complain(const char *what, const char *text)
{
    (void)fprintf(stderr, "coap-traceroute: %s: %s\n", what, text);
    return STATUS_USAGE;
}

/* --- the command line -------------------------------------------------------- */

static bool set_argument(struct arguments *a, int letter)
{
    const struct {
        int letter;
        const char **text;
    } rows[] = {{'p', &a->proxy}, {'i', &a->identity}, {'k', &a->key},
                {'f', &a->form},  {'m', &a->hops},     {'w', &a->wait}};
    a->json = a->json || letter == 'j';
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].letter == letter) {
            *rows[i].text = optarg;
            return true;
        }
    }
    return letter == 'j';
}

/* @return -1 to go on, or the exit status. */
static int read_arguments(int argc, char **argv, struct arguments *ret_arguments)
{
    int letter;
    *ret_arguments = (struct arguments){.form = "uri"};
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (letter == 'h') {
            (void)fputs(help, stdout);
            return STATUS_REACHED;
        }
        if (letter == 'V') {
            (void)printf("coap-traceroute %s\n", TRACEROUTE_VERSION);
            return STATUS_REACHED;
        }
        if (!set_argument(ret_arguments, letter)) {
            (void)fputs("Try coap-traceroute --help.\n", stderr);
            return STATUS_USAGE;
        }
    }
    if (optind == argc) {
        return complain("missing", "TARGET");
    }
    if (optind + 1 < argc) {
        return complain("not an option", argv[optind + 1]);
    }
    ret_arguments->target = argv[optind];
    return ret_arguments->proxy == NULL ? complain("missing", "--proxy") : -1;
}

/* The value of the option that names the target, in @p buffer. @return -1, or the exit status. */
static int write_target(const struct arguments *arguments, uint8_t buffer[static TARGET_MAX],
                        struct question *question)
{
    struct cri_slice uri = {(const uint8_t *)arguments->target, strlen(arguments->target)}, cri;
    struct cri_fault fault;
    struct cri parts;
    cri.data = buffer;
    if (cri_uri_parse(uri, NULL, buffer, TARGET_MAX, &cri.len, &fault) != CRI_OK ||
        cri_decode(cri, NULL, &parts, &fault) != CRI_OK || !cri_is_full(&parts) ||
        parts.has_fragment || uri.len > TARGET_MAX) {
        return complain("not a URI that a proxy can be asked for", arguments->target);
    }
    if (strcmp(arguments->form, "cri") == 0) {
        question->form = FORM_CRI;
        question->target = (struct wire_bytes){buffer, cri.len};
        return -1;
    }
    question->form = FORM_URI;
    question->target = (struct wire_bytes){uri.data, uri.len};
    return strcmp(arguments->form, "uri") == 0
               ? -1
               : complain("--form: uri or cri was expected", arguments->form);
}

/* @return -1, or the exit status. */
static int read_limits(const struct arguments *arguments, unsigned *ret_hops,
                       struct question *question)
{
    unsigned long long wait_ms = WAIT_MS;
    char *end = NULL;
    unsigned long hops = arguments->hops != NULL ? strtoul(arguments->hops, &end, 10) : HOPS;
    if (hops == 0 || hops > HOPS_MAX || (end != NULL && *end != '\0')) {
        return complain("--max-hops: 1 to 255 was expected", arguments->hops);
    }
    if (arguments->wait != NULL &&
        (!script_duration(arguments->wait, &wait_ms) || wait_ms < 100 || wait_ms > 600000)) {
        return complain("--wait: 100ms to 10m was expected", arguments->wait);
    }
    *ret_hops = (unsigned)hops;
    question->wait_ms = (unsigned)wait_ms;
    return -1;
}

/* --- what is printed ------------------------------------------------------------ */

/* Visible ASCII as it is, other bytes as \xNN, those of JSON's own as JSON has them; with a NUL. */
static void show_bytes(const uint8_t *bytes, size_t len, bool is_json, char *text)
{
    for (size_t i = 0; i < len; i++) {
        bool is_plain = bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\\' &&
                        !(is_json && bytes[i] == '"');
        if (is_plain) {
            *text++ = (char)bytes[i];
        } else {
            text += snprintf(text, sizeof("\\u0000"), is_json ? "\\u%04x" : "\\x%02x", bytes[i]);
        }
    }
    *text = '\0';
}

/* The name that counts: that of the proxy where the request ended, which is the last one. */
static const char *last_name(const struct reply *reply, char shown[static SHOWN_MAX])
{
    size_t end = reply->names_len, start;
    while (end > 0 && reply->names[end - 1] == ' ') {
        end--;
    }
    for (start = end; start > 0 && reply->names[start - 1] != ' '; start--) {
    }
    show_bytes(reply->names + start, end - start, false, shown);
    return start == end ? "(no name)" : shown;
}

static void print_json(unsigned hop, const struct reply *reply)
{
    char names[6 * NAMES_MAX + 1], code[NAME_TEXT_MAX];
    if (reply->fault != NULL) {
        (void)printf("{\"hop\":%u,\"fault\":\"%s\"}\n", hop, reply->fault);
        return;
    }
    show_bytes(reply->names, reply->names_len, true, names);
    (void)snprintf(code, sizeof(code), "%d.%02d", reply->code >> 5, reply->code & 31);
    (void)printf("{\"hop\":%u,\"code\":\"%s\",\"names\":\"%s\",\"milliseconds\":%llu.%03llu}\n",
                 hop, code, names, reply->time_us / 1000, reply->time_us % 1000);
}

static void print_line(unsigned hop, const struct reply *reply, bool is_hop, bool is_target)
{
    char shown[SHOWN_MAX];
    if (reply->fault != NULL) {
        (void)printf("%3u  *  %s\n", hop, reply->fault);
        return;
    }
    const char *name = is_hop ? last_name(reply, shown) : is_target ? "(target)" : "(refused)";
    (void)printf("%3u  %-*s %6llu.%03llu ms", hop, COLUMN, name, reply->time_us / 1000,
                 reply->time_us % 1000);
    (void)(is_hop ? printf("\n") : printf("  %d.%02d\n", reply->code >> 5, reply->code & 31));
}

/* --- the way ---------------------------------------------------------------------- */

/*
 * Whether an answer with @p code is the target's. Errors that a proxy gives in place of a target
 * are taken for a proxy's: 4.00 to 4.03 and 4.29 for what it does not allow, 5.02 to 5.05 for
 * what does not answer (RFC 7252 sections 5.7, 5.9 and 5.10).
 */
static bool is_from_target(uint8_t code)
{
    static const uint8_t of_proxies[] = {WIRE_CODE(4, 0), WIRE_CODE(4, 1),  WIRE_CODE(4, 2),
                                         WIRE_CODE(4, 3), WIRE_CODE(4, 29), WIRE_CODE(5, 2),
                                         WIRE_CODE(5, 3), WIRE_CODE(5, 4),  WIRE_CODE(5, 5)};
    return memchr(of_proxies, code, sizeof(of_proxies)) == NULL;
}

static int walk(const struct question *question, unsigned hops, bool is_json)
{
    for (unsigned hop = 1; hop <= hops; hop++) {
        struct reply reply;
        ask(question, hop, &reply);
        bool is_hop = reply.fault == NULL && reply.code == WIRE_CODE(5, 8);
        bool is_target = reply.fault == NULL && !is_hop && is_from_target(reply.code);
        if (is_json) {
            print_json(hop, &reply);
        } else {
            print_line(hop, &reply, is_hop, is_target);
        }
        (void)fflush(stdout);
        if (is_target) {
            return STATUS_REACHED;
        }
        if (!is_hop && !reply.is_silent) {
            return STATUS_NOT_REACHED;
        }
    }
    return STATUS_NOT_REACHED;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct proxy proxy;
    struct question question = {.proxy = &proxy};
    uint8_t target[TARGET_MAX];
    unsigned hops = 0;
    int status = read_arguments(argc, argv, &arguments);
    status = status < 0 ? write_target(&arguments, target, &question) : status;
    status = status < 0 ? read_limits(&arguments, &hops, &question) : status;
    if (status >= 0) {
        return status;
    }
    proxy = (struct proxy){.identity = arguments.identity, .key = arguments.key};
    const char *fault = proxy_find(arguments.proxy, &proxy);
    if (fault != NULL) {
        return complain(fault, arguments.proxy);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    return walk(&question, hops, arguments.json);
}
