/* SPDX-License-Identifier: BSD-2-Clause */
/* criproxyd's command line. */
#include "base/log.h"
#include "client/explain.h"
#include "conf/config.h"
#include "engine/budget.h"
#include "net/libraries.h"
#include "net/reserve.h"
#include "ops/prometheus.h"
#include "policy/access.h"
#include "server/server.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EXIT_RUN_TIME = 1,
    EXIT_USAGE = 2, /* a bad command line or configuration */
};

enum option_id {
    OPTION_CONFIG = 'c',
    OPTION_HELP = 'h',
    OPTION_LISTEN = 256, /* from here on: no short form */
    OPTION_SET,
    OPTION_CHECK,
    OPTION_EXPLAIN,
    OPTION_CLIENT,
    OPTION_METHOD,
    OPTION_RESOLVES_TO,
    OPTION_TRACE,
    OPTION_VERSION,
};

/* What both getopt_long() and the help text are made of. */
struct option_row {
    enum option_id id;
    const char *name;
    const char *argument; /* NULL: takes none */
    const char *help;
};

static const struct option_row option_rows[] = {
    {OPTION_CONFIG, "config", "FILE", "read this configuration file; without it, none is read"},
    {OPTION_LISTEN, "listen", "URI", "listen on SCHEME://ADDRESS:PORT instead; repeat for more"},
    {OPTION_SET, "set", "SECTION.KEY=VALUE", "set a key of the configuration; repeat for more"},
    {OPTION_CHECK, "check-config", NULL, "check the configuration, keys and certificates, and end"},
    {OPTION_EXPLAIN, "explain", "TARGET", "show what a URI, or a CRI in hex, becomes, and end"},
    {OPTION_CLIENT, "client", "CLIENT", "with --explain: ADDRESS[,transport=T][,identity=NAME]"},
    {OPTION_METHOD, "method", "METHOD", "with --explain: method of the request, not GET"},
    {OPTION_RESOLVES_TO, "resolves-to", "ADDRESS", "with --explain: an address of the host name"},
    {OPTION_TRACE, "trace", NULL, "show each request, how it was sent on, and its end"},
    {OPTION_VERSION, "version", NULL,
     "print the versions of criproxyd and of its libraries, and end"},
    {OPTION_HELP, "help", NULL, "print this and end"},
};

#define OPTION_ROW_COUNT (sizeof(option_rows) / sizeof(option_rows[0]))

struct command_line {
    struct config_source source;
    const char **sets;    /* room for every argument */
    const char **listens; /* likewise */
    char **arguments;
    char program[4096];  /* the path of this program */
    const char *explain; /* NULL: not asked for */
    struct explain_options asking;
    bool check, trace, help, version;
};

static void print_help(FILE *out)
{
    (void)fputs("usage: criproxyd [OPTION]...\n"
                "Forward proxy for CoAP. A client names its target with Proxy-Cri, Proxy-Uri,\n"
                "Proxy-Scheme-Number or Proxy-Scheme. Without a configuration it serves clients\n"
                "of this host, on 127.0.0.1:5683 and [::1]:5683.\n\n",
                out);
    for (size_t i = 0; i < OPTION_ROW_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        char name[64];
        const char *argument = row->argument == NULL ? "" : row->argument;
        (void)snprintf(name, sizeof(name), "--%s%s%s", row->name, argument[0] == '\0' ? "" : " ",
                       argument);
        if (row->id < 256) {
            (void)fprintf(out, "  -%c, ", (char)row->id);
        } else {
            (void)fputs("      ", out);
        }
        (void)fprintf(out, "%-25s %s\n", name, row->help);
    }
    (void)fputs("\nExit status: 0; 1 on a failure at run time; 2 on a bad command line or\n"
                "configuration; with --explain 0 forwarded, 1 refused, 3 depends. Signals:\n"
                "SIGTERM and SIGINT drain and stop, the second one stops at once; SIGHUP reads\n"
                "the configuration again, SIGUSR1 opens the log file again.\n"
                "See criproxyd(8), criproxyd.conf(5).\n",
                out);
}

/* The rows as getopt_long() wants them. */
static void make_getopt_tables(struct option longs[OPTION_ROW_COUNT + 1],
                               char shorts[2 * OPTION_ROW_COUNT + 1])
{
    size_t used = 0;

    for (size_t i = 0; i < OPTION_ROW_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        longs[i] =
            (struct option){.name = row->name,
                            .has_arg = row->argument == NULL ? no_argument : required_argument,
                            .val = (int)row->id};
        if (row->id < 256) {
            shorts[used++] = (char)row->id;
            if (row->argument != NULL) {
                shorts[used++] = ':';
            }
        }
    }
    longs[OPTION_ROW_COUNT] = (struct option){0};
    shorts[used] = '\0';
}

static void take_option(struct command_line *line, enum option_id id, const char *argument)
{
    switch (id) {
    case OPTION_CONFIG:
        line->source.file = argument;
        break;
    case OPTION_LISTEN:
        line->listens[line->source.listen_count++] = argument;
        break;
    case OPTION_SET:
        line->sets[line->source.set_count++] = argument;
        break;
    case OPTION_CHECK:
        line->check = true;
        break;
    case OPTION_EXPLAIN:
        line->explain = argument;
        break;
    case OPTION_CLIENT:
        line->asking.client = argument;
        break;
    case OPTION_METHOD:
        line->asking.method = argument;
        break;
    case OPTION_RESOLVES_TO:
        line->asking.address = argument;
        break;
    case OPTION_TRACE:
        line->trace = true;
        break;
    case OPTION_VERSION:
        line->version = true;
        break;
    case OPTION_HELP:
        line->help = true;
        break;
    }
}

/* False with the reason on standard error. */
static bool parse_arguments(int argc, char **argv, struct command_line *line)
{
    struct option longs[OPTION_ROW_COUNT + 1];
    char shorts[2 * OPTION_ROW_COUNT + 1];
    int id;

    make_getopt_tables(longs, shorts);
    while ((id = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (id == '?') { /* getopt_long() has said what is wrong */
            (void)fputs("Try criproxyd --help.\n", stderr);
            return false;
        }
        if (id == OPTION_CONFIG && line->source.file != NULL) {
            (void)fputs("criproxyd: more than one configuration file; one can include others\n",
                        stderr);
            return false;
        }
        take_option(line, (enum option_id)id, optarg);
    }
    if (optind < argc) {
        (void)fprintf(stderr, "criproxyd: unexpected argument: %s\nTry criproxyd --help.\n",
                      argv[optind]);
        return false;
    }
    if (line->explain == NULL && (line->asking.client != NULL || line->asking.method != NULL ||
                                  line->asking.address != NULL)) {
        (void)fputs("criproxyd: --client, --method and --resolves-to need --explain TARGET\n",
                    stderr);
        return false;
    }
    return true;
}

/* 0 with the configuration, or the exit status with the reasons on standard error. */
static int load(const struct config_source *source, struct config **ret_config)
{
    struct config_errors *errors = calloc(1, sizeof(struct config_errors));
    int error = errors == NULL ? -ENOMEM : config_load(source, errors, ret_config);

    if (error == -EINVAL) {
        config_errors_print(errors, log_prefix(LOG_ERROR), stderr);
    } else if (error != 0) {
        (void)fprintf(stderr, "%scriproxyd: %s\n", log_prefix(LOG_ERROR), strerror(-error));
    }
    free(errors);
    return error == 0 ? 0 : error == -EINVAL ? EXIT_USAGE : EXIT_RUN_TIME;
}

static int explain(const struct command_line *line, const struct config *config)
{
    const char *problem = explain_check(config, &line->asking);

    if (problem != NULL) {
        (void)fprintf(stderr, "criproxyd: %s\n", problem);
        return EXIT_USAGE;
    }
    return (int)explain_target(config, &line->asking, line->explain, stdout).outcome;
}

static void print_scheme(const struct scheme *scheme, FILE *out)
{
    (void)fprintf(out, "scheme: %s number=%u default-port=%u ", scheme->name, scheme->number,
                  scheme->default_port);
    if (scheme->transport != TRANSPORT_NONE) {
        (void)fprintf(out, "forwarded over %s\n", transport_row(scheme->transport)->word);
    } else {
        (void)fputs("not forwarded\n", out);
    }
}

/* The number of rules, and the entries of their AIF documents; faulty ones are shown (AIF-5). */
static void print_access(const struct access *access, FILE *out)
{
    (void)fprintf(out, "access rules: %u, other targets: %s\n", access->rule_count,
                  access->is_open ? "allowed" : "denied");
    for (uint32_t i = 0; i < access->rule_count; i++) {
        const struct access_rule *rule = &access->rules[i];
        if (rule->aif != NULL) {
            (void)fprintf(out, "access: %s aif grants for %zu resources\n", rule->name,
                          aif_table_count(rule->aif));
        }
        if (rule->aif_fault.what != NULL) {
            (void)fprintf(out, "access: %s aif entry without effect: byte %zu: %s\n", rule->name,
                          rule->aif_fault.offset, rule->aif_fault.what);
        }
    }
}

/* What the tables take from the start, and all that the limits allow (engine/budget.h). */
static void print_memory(const struct config *config, FILE *out)
{
    unsigned workers = server_count_workers(config);

    (void)fprintf(out,
                  "memory: at least %" PRIu64 " MiB for tables, at most %" PRIu64
                  " MiB, with %u worker%s\n",
                  workers * budget_tables_bytes(config) >> 20, budget_bytes(config, workers) >> 20,
                  workers, workers == 1 ? "" : "s");
}

/* A few lines for people: workers, memory, listeners, schemes, routes, access rules. */
static void print_summary(const struct config *config, FILE *out)
{
    if (config->proxy_workers == 0) {
        (void)fprintf(out, "workers: one for each processor\n");
    } else {
        (void)fprintf(out, "workers: %u\n", config->proxy_workers);
    }
    print_memory(config, out);
    for (size_t i = 0; i < config->listener_count; i++) {
        const struct config_listener *listener = &config->listeners[i];
        (void)fprintf(out, "listens: %s%s\n", listener->uri,
                      listener->is_default ? " (default)" : "");
    }
    for (size_t i = 0; i < config->scheme_count; i++) {
        print_scheme(&config->schemes[i], out);
    }
    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *route = &config->routes[i];
        (void)fprintf(out, "route: %s via %s\n", route->name, route->via);
    }
    print_access(config->access, out);
}

/* All that a start would read; sockets are left alone. */
static int check(struct config *config)
{
    if (!server_check_credentials(config)) {
        return EXIT_USAGE;
    }
    /* A proxy that runs tries this program before it gives it its sockets. */
    if (getenv(HANDOVER_VARIABLE) != NULL) {
        if (server_try(config) != 0) {
            return EXIT_RUN_TIME;
        }
        (void)puts(HANDOVER_READY);
    }
    (void)puts("configuration ok");
    print_summary(config, stdout);
    return 0;
}

/* A line with the features that are built in, or those that are not; none where there is none. */
static void print_features(const char *word, bool is_built_in)
{
    bool has_begun = false;

    for (const struct feature *feature = features(); feature->name != NULL; feature++) {
        if (feature->is_built_in == is_built_in) {
            (void)printf("%s %s", has_begun ? "" : word, feature->name);
            has_begun = true;
        }
    }
    if (has_begun) {
        (void)puts("");
    }
}

static void print_version(void)
{
    (void)puts("criproxyd " CRIPROXYD_VERSION);
    libraries_load();
    for (const struct library *library = libraries(); library->name != NULL; library++) {
        (void)printf("  %-11s %s%s%s\n", library->name, library->version,
                     library->use != NULL ? ", " : "", library->use != NULL ? library->use : "");
    }
    print_features("with:", true);
    print_features("without:", false);
}

static int run(const struct command_line *line)
{
    struct config *config = NULL;

    if (line->help) {
        print_help(stdout);
        return 0;
    }
    if (line->version) {
        print_version();
        return 0;
    }
    log_open(STDERR_FILENO);
    int status = load(&line->source, &config);
    if (status != 0) {
        return status;
    }
    if (line->check) {
        status = check(config);
        config_free(config);
        return status;
    }
    if (line->explain != NULL) {
        status = explain(line, config);
        config_free(config);
        return status;
    }
    const struct server_start how = {.source = &line->source,
                                     .arguments = line->arguments,
                                     .program = line->program,
                                     .trace = line->trace};
    return server_run(&how, config);
}

/*
 * The path by which the program was started, so that what an upgrade has put there is found; the
 * file that runs where a search has found it.
 */
static void find_program(const char *name, char *ret_path, size_t capacity)
{
    char folder[2048] = "";
    bool is_path = strchr(name, '/') != NULL;

    if (is_path && name[0] != '/' && getcwd(folder, sizeof(folder)) == NULL) {
        is_path = false;
    }
    int len =
        is_path ? snprintf(ret_path, capacity, "%s%s%s", folder, folder[0] != '\0' ? "/" : "", name)
                : (int)readlink("/proc/self/exe", ret_path, capacity - 1);
    ret_path[len > 0 && (size_t)len < capacity ? (size_t)len : 0] = '\0';
}

int main(int argc, char **argv)
{
    static struct command_line line;
    size_t room = (size_t)argc + 1;
    int status = EXIT_RUN_TIME;

    reserve_install();
    line.arguments = argv;
    find_program(argc > 0 ? argv[0] : "", line.program, sizeof(line.program));
    line.sets = calloc(room, sizeof(const char *));
    line.listens = calloc(room, sizeof(const char *));
    line.source.sets = line.sets;
    line.source.listens = line.listens;
    if (line.sets != NULL && line.listens != NULL) {
        status = parse_arguments(argc, argv, &line) ? run(&line) : EXIT_USAGE;
    } else {
        (void)fprintf(stderr, "criproxyd: %s\n", strerror(ENOMEM));
    }
    free(line.sets);
    free(line.listens);
    if (fflush(stdout) != 0 && status == 0) {
        status = EXIT_RUN_TIME;
    }
    return status;
}
