/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cri: libcri on the command line. One table drives dispatch and usage text;
 * batch.c runs a command over its inputs.
 */
#include "cri_json.h"
#include "cri_tool.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_BYTES 65536

static const struct command commands[] = {
    {.name = "from-uri",
     .arguments = "URI",
     .help = "URI (reference) to the CRI (reference), in hexadecimal",
     .takes = TAKES_STRICT | TAKES_NORMALIZE | TAKES_JSON | TAKES_BINARY,
     .run = run_from_uri},
    {.name = "to-uri",
     .arguments = "HEX",
     .help = "CRI (reference) to the URI (reference)",
     .takes = TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_to_uri},
    {.name = "from-iri",
     .arguments = "IRI",
     .help = "IRI (reference) to the CRI (reference)",
     .takes = TAKES_STRICT | TAKES_NORMALIZE | TAKES_JSON | TAKES_BINARY,
     .run = run_from_iri},
    {.name = "to-iri",
     .arguments = "HEX",
     .help = "CRI (reference) to the IRI (reference)",
     .takes = TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_to_iri},
    {.name = "check",
     .arguments = "HEX",
     .help = "is it a CRI: \"full\", \"relative\" or what is wrong with it",
     .takes = TAKES_HREF12 | TAKES_STRICT | TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_check},
    {.name = "diag",
     .arguments = "HEX",
     .help = "CBOR to diagnostic notation, as it is encoded",
     .takes = TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_diag},
    {.name = "from-diag",
     .arguments = "TEXT",
     .help = "diagnostic notation to CBOR",
     .takes = TAKES_JSON | TAKES_BINARY,
     .run = run_from_diag},
    {.name = "resolve",
     .arguments = "HEX",
     .help = "CRI reference, resolved against --base, to the CRI",
     .takes = TAKES_BASE | TAKES_URI | TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_resolve},
    {.name = "relate",
     .arguments = "HEX",
     .help = "CRI to the shortest reference that resolves to it against --base",
     .takes = TAKES_BASE | TAKES_URI | TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_relate},
    {.name = "compare",
     .arguments = "HEX HEX",
     .help = "\"equal\" or \"different\"; in a batch, two fields a line",
     .takes = TAKES_FRAGMENT | TAKES_JSON | TAKES_URI | TAKES_BINARY,
     .is_binary_input = true,
     .fields = 2,
     .run = run_compare},
    {.name = "get",
     .arguments = "FIELD HEX",
     .help = "scheme, authority, userinfo, host, port, path, query or fragment, as in the URI",
     .takes = TAKES_URI | TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .has_field = true,
     .run = run_get},
    {.name = "normalize",
     .arguments = "HEX",
     .help = "what the creator of a CRI may do to it (never what receives it)",
     .takes = TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_normalize},
    {.name = "options",
     .arguments = "HEX",
     .help = "request CRI to the CoAP options of a request to --to, as JSON",
     .takes = TAKES_TO | TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_options},
    {.name = "from-options",
     .arguments = "JSON",
     .help = "CoAP options of a request received at --to to the CRI",
     .takes = TAKES_TO | TAKES_JSON | TAKES_BINARY,
     .run = run_from_options},
    {.name = "from-cori",
     .arguments = "HEX",
     .help = "the form of 2020 (draft-ietf-core-href-02) to the CRI reference",
     .takes = TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_from_cori},
    {.name = "to-cori",
     .arguments = "HEX",
     .help = "CRI reference to the form of 2020",
     .takes = TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_to_cori},
    {.name = "to-http",
     .arguments = "HEX",
     .help = "CRI to the URI that an HTTP-CoAP proxy serves it under (RFC 8075)",
     .takes = TAKES_PREFIX | TAKES_TEMPLATE | TAKES_URI | TAKES_JSON | TAKES_BINARY,
     .is_binary_input = true,
     .run = run_to_http},
    {.name = "from-http",
     .arguments = "URI",
     .help = "such a URI, or its path and query, to the CRI",
     .takes = TAKES_PREFIX | TAKES_TEMPLATE | TAKES_URI | TAKES_JSON | TAKES_BINARY,
     .run = run_from_http},
    {.name = "formats",
     .arguments = "[TYPE|NUMBER]",
     .help = "the Content-Formats of CoAP: number, media type, content coding",
     .list = list_formats,
     .takes = TAKES_JSON,
     .run = run_formats},
    {.name = "schemes",
     .arguments = "[NAME|NUMBER]",
     .help = "the scheme table: number, name, default port",
     .list = list_schemes,
     .takes = TAKES_JSON,
     .run = run_schemes},
    {.name = "aif",
     .arguments = "FILE...",
     .help = "what an AIF-CRI document (CBOR) grants",
     .takes = TAKES_STRICT | TAKES_JSON,
     .files = print_aif},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* Options, in the order of the usage text; val is the TAKES_* bit. */
enum { OPTION_HELP = 0x100, OPTION_VERSION = 0x101 };

static const struct option long_options[] = {
    {"base", required_argument, NULL, TAKES_BASE},
    {"to", required_argument, NULL, TAKES_TO},
    {"strict", no_argument, NULL, TAKES_STRICT},
    {"fragment", no_argument, NULL, TAKES_FRAGMENT},
    {"uri", no_argument, NULL, TAKES_URI},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"normalize", no_argument, NULL, TAKES_NORMALIZE},
    {"json", no_argument, NULL, TAKES_JSON},
    {"binary", no_argument, NULL, TAKES_BINARY},
    {"href-12", no_argument, NULL, TAKES_HREF12},
    {"prefix", required_argument, NULL, TAKES_PREFIX},
    {"template", required_argument, NULL, TAKES_TEMPLATE},
    {0},
};

static const struct {
    unsigned bit;
    const char *text; /* in a synopsis */
    const char *help;
} option_texts[] = {
    {TAKES_STRICT, "[--strict]",
     "refuse trailing defaults, heads longer than needed, text not in NFC"},
    {TAKES_NORMALIZE, "[--normalize]", "what `cri normalize` does, as for text that a user typed"},
    {TAKES_HREF12, "[--href-12]", "say what draft-ietf-core-href-12 meant where it differs"},
    {TAKES_BASE, "--base HEX", "the base, a full CRI (with --uri: a URI)"},
    {TAKES_PREFIX, "[--prefix PATH]", "the proxy's http.prefix, or a URI that ends with it; /hc/"},
    {TAKES_TEMPLATE, "[--template TEXT]", "the proxy's http.template; {+tu}"},
    {TAKES_URI, "[--uri]", "URIs in place of CRIs"},
    {TAKES_FRAGMENT, "[--fragment]", "let the fragment count"},
    {TAKES_JSON, "[--json]", "each line is {\"result\":...} or {\"error\":...}"},
    {TAKES_BINARY, "[--binary]",
     "CRIs are bytes: all of standard input is one (or two), and so is a result"},
    {TAKES_TO, "[--to IP:PORT]", "destination of the request; an IPv6 address in brackets"},
};

static void print_synopsis(FILE *out, const struct command *command)
{
    (void)fprintf(out, "cri %s", command->name);
    for (size_t i = 0; i < sizeof(option_texts) / sizeof(option_texts[0]); i++) {
        if ((command->takes & option_texts[i].bit) != 0) {
            (void)fprintf(out, " %s", option_texts[i].text);
        }
    }
    (void)fprintf(out, " %s\n", command->arguments);
}

static void print_usage(FILE *out)
{
    (void)fputs("cri: Constrained Resource Identifiers (draft-ietf-core-href-30)\n\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)fputs("  ", out);
        print_synopsis(out, &commands[i]);
        (void)fprintf(out, "      %s\n", commands[i].help);
    }
    (void)fputs("\nWithout an argument, or with -, each line of standard input is one input and\n"
                "gives one line of output; a bad one gives \"error: REASON\".\n"
                "Exit status: 0; 1 if any input was bad; 2 for a bad command line.\n\n"
                "  cri COMMAND --help     says what a command takes\n"
                "  cri --version\n",
                out);
}

static void print_command_help(FILE *out, const struct command *command)
{
    print_synopsis(out, command);
    (void)fprintf(out, "  %s\n", command->help);
    for (size_t i = 0; i < sizeof(option_texts) / sizeof(option_texts[0]); i++) {
        if ((command->takes & option_texts[i].bit) != 0) {
            (void)fprintf(out, "  %-16s %s\n", option_texts[i].text, option_texts[i].help);
        }
    }
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int fail_usage(const struct command *command, const char *what, const char *value)
{
    (void)fprintf(stderr, "cri %s: %s%s%s\n", command->name, what, value != NULL ? ": " : "",
                  value != NULL ? value : "");
    (void)fputs("usage: ", stderr);
    print_synopsis(stderr, command);
    return EXIT_USAGE;
}

/* Reads the base once for all inputs. */
static int prepare_base(struct tool *tool, const struct command *command)
{
    const struct cri_slice text = {(const uint8_t *)tool->base_text, strlen(tool->base_text)};
    bool is_ok = false;
    if (tool->with_uri) {
        struct cri_fault fault = {0};
        is_ok = convert_uri(tool, text, &tool->base_bytes);
        if (is_ok &&
            cri_decode(buffer_slice(&tool->base_bytes), NULL, &tool->base, &fault) != CRI_OK) {
            is_ok = refuse(tool, fault.rule);
        }
    } else {
        is_ok = read_cri(tool, text, &tool->base_bytes, &tool->base);
    }
    if (is_ok && !cri_is_full(&tool->base)) {
        is_ok = refuse(tool, tool->with_uri ? "a relative reference" : "not a full CRI");
    }
    if (!is_ok) {
        buffer_append(&tool->result, "", 1);
        return fail_usage(command, "bad --base", (const char *)tool->result.data);
    }
    return EXIT_SUCCESS;
}

static int take_option(struct tool *tool, const struct command *command, int option)
{
    switch (option) {
    case TAKES_BASE:
        tool->base_text = optarg;
        break;
    case TAKES_TO:
        tool->has_to = true;
        if (!parse_destination(optarg, &tool->to)) {
            return fail_usage(command, "--to wants IP:PORT or [IPV6]:PORT, not", optarg);
        }
        break;
    case TAKES_PREFIX:
        tool->prefix = optarg;
        break;
    case TAKES_TEMPLATE:
        tool->template_text = optarg;
        break;
    case TAKES_STRICT:
        tool->is_strict = true;
        break;
    case TAKES_NORMALIZE:
        tool->is_normalizing = true;
        break;
    case TAKES_HREF12:
        tool->with_href12 = true;
        break;
    case TAKES_JSON:
        tool->with_json = true;
        break;
    case TAKES_BINARY:
        tool->is_binary = true;
        break;
    case TAKES_FRAGMENT:
        tool->with_fragment = true;
        break;
    default:
        tool->with_uri = true;
        break;
    }
    return EXIT_SUCCESS;
}

/* Options of a command; -1: all is well, otherwise the exit status. */
static int parse_options(struct tool *tool, const struct command *command, int argc, char **argv)
{
    int option = 0;
    int index = 0;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", long_options, &index)) != -1) {
        if (option == 'h' || option == OPTION_HELP) {
            print_command_help(stdout, command);
            return EXIT_SUCCESS;
        }
        if (option == ':') {
            return fail_usage(command, "a value is missing", argv[optind - 1]);
        }
        if (option == '?') {
            return fail_usage(command, "unknown option (-- goes before an argument like this)",
                              argv[optind - 1]);
        }
        if (option == OPTION_VERSION || (command->takes & (unsigned)option) == 0) {
            return fail_usage(command, "this option is not for this command",
                              long_options[index].name);
        }
        const int status = take_option(tool, command, option);
        if (status != EXIT_SUCCESS) {
            return status;
        }
    }
    if ((command->takes & TAKES_BASE) != 0 && tool->base_text == NULL) {
        return fail_usage(command, "--base is missing", NULL);
    }
    const char *wrong = mapping_error(tool);
    if (wrong != NULL) {
        return fail_usage(command, wrong, NULL);
    }
    if (tool->base_text != NULL) {
        const int status = prepare_base(tool, command);
        return status == EXIT_SUCCESS ? -1 : status;
    }
    return -1;
}

static int run_command(struct tool *tool, const struct command *command, int argc, char **argv)
{
    int status = parse_options(tool, command, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (tool->with_json && tool->is_binary) {
        return fail_usage(command, "--json and --binary exclude each other", NULL);
    }
    if (command->has_field) {
        if (optind == argc || !is_field(argv[optind])) {
            return fail_usage(command, "which component", argv[optind]);
        }
        tool->field = argv[optind++];
    }
    const int count = argc - optind;
    if (count == 0 && command->list != NULL) {
        command->list(tool);
        return EXIT_SUCCESS;
    }
    if (command->files != NULL && count == 0) {
        return fail_usage(command, "a file is missing", NULL);
    }
    return command->files != NULL ? command->files(tool, argv + optind, count)
                                  : run_inputs(tool, command, argv + optind, count);
}

/* Output that could not be written makes the whole run a failure. */
static int finish_output(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("cri: standard output");
        return EXIT_INPUT;
    }
    return status;
}

static void tool_clear(struct tool *tool)
{
    buffer_free(&tool->base_bytes);
    buffer_free(&tool->input);
    buffer_free(&tool->second);
    buffer_free(&tool->result);
    json_request_free(tool->request);
}

int main(int argc, char **argv)
{
    struct json_request request = {0};
    struct tool tool = {.request = &request};
    const char *name = argc > 1 ? argv[1] : "";
    (void)setvbuf(stdout, NULL, _IOFBF, OUTPUT_BYTES);

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        const struct command *about = argc > 2 ? find_command(argv[2]) : NULL;
        if (about != NULL) {
            print_command_help(stdout, about);
        } else {
            print_usage(stdout);
        }
        return finish_output(EXIT_SUCCESS);
    }
    if (strcmp(name, "--version") == 0) {
        (void)puts("cri " CRI_TOOL_VERSION);
        return finish_output(EXIT_SUCCESS);
    }
    const struct command *command = find_command(name);
    if (command == NULL) {
        (void)fprintf(stderr, "cri: %s%s; `cri --help` lists the commands\n",
                      argc > 1 ? "unknown command: " : "no command", name);
        return EXIT_USAGE;
    }
    const int status = finish_output(run_command(&tool, command, argc - 1, argv + 1));
    tool_clear(&tool);
    return status;
}
