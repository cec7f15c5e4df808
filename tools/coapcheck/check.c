/* SPDX-License-Identifier: BSD-2-Clause */
#include "check.h"

#include "socket_stage.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 40u
#define SCRIPTS_MAX 64u

/* --- loading --------------------------------------------------------------- */

static int is_scenario_file(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".scn") == 0;
}

/* What stands in the last parentheses of the title. */
static const char *reference_of(struct script *script, const char *title)
{
    const char *open = strstr(title, "(RFC");
    const char *close = open != NULL ? strchr(open, ')') : NULL;
    return close != NULL ? pool_text(&script->pool, open + 1, (size_t)(close - open) - 1) : "";
}

static void add_checks(struct run *run, struct script *script)
{
    for (size_t i = 0; i < script->count; i++) {
        const struct script_scenario *scenario = &script->scenarios[i];
        struct check *check = &run->checks[run->count++];
        size_t section_len = strcspn(scenario->id, "-");
        unsigned same = 0;
        *check = (struct check){.scenario = scenario,
                                .section = pool_text(&script->pool, scenario->id, section_len),
                                .reference = reference_of(script, scenario->title)};
        for (size_t j = 0; j + 1 < run->count; j++) {
            same += strcmp(run->checks[j].scenario->id, scenario->id) == 0;
        }
        if (same > 0) {
            (void)snprintf(check->id, sizeof(check->id), "%.24s%c", scenario->id,
                           (char)('a' + (same - 1) % 26));
        } else {
            (void)snprintf(check->id, sizeof(check->id), "%.24s", scenario->id);
        }
    }
}

static bool load_file(struct run *run, const char *folder, const char *name)
{
    char path[4096];
    const char *error = NULL;
    if (run->script_count == SCRIPTS_MAX ||
        (size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path)) {
        return false;
    }
    struct script *script = &run->scripts[run->script_count++];
    if (!script_load(script, path, &error)) {
        (void)fprintf(stderr, "coapcheck: %s\n", error);
        return false;
    }
    struct check *checks = realloc(run->checks, (run->count + script->count) * sizeof(*checks));
    if (checks == NULL) {
        return false;
    }
    run->checks = checks;
    add_checks(run, script);
    return true;
}

bool check_load(struct run *run, const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_scenario_file, alphasort);
    bool is_good = count > 0;
    run->scripts = calloc(SCRIPTS_MAX, sizeof(*run->scripts));
    for (int i = 0; i < count; i++) {
        is_good = is_good && run->scripts != NULL && load_file(run, folder, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    if (count <= 0) {
        (void)fprintf(stderr, "coapcheck: no checks in %s\n", folder);
    }
    return is_good;
}

void check_clear(struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        play_result_clear(&run->checks[i].result);
    }
    for (size_t i = 0; i < run->script_count; i++) {
        script_clear(&run->scripts[i]);
    }
    free(run->checks);
    free(run->scripts);
    run->checks = NULL;
    run->scripts = NULL;
    run->count = run->script_count = 0;
}

/* Whether @p list has the section, the id, or the id without its row. */
static bool is_listed_in(const char *list, const struct check *check)
{
    const char *id = check->id;
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        bool is_section = strlen(check->section) == len && strncmp(list, check->section, len) == 0;
        bool is_id = strncmp(list, id, len) == 0 && (id[len] == '\0' || id[len] == '.');
        if (len > 0 && (is_section || is_id)) {
            return true;
        }
        list += len + (list[len] == ',');
    }
    return false;
}

void check_select(struct run *run, const char *only, const char *exclude)
{
    size_t kept = 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct check *check = &run->checks[i];
        if ((only == NULL || is_listed_in(only, check)) &&
            (exclude == NULL || !is_listed_in(exclude, check))) {
            run->checks[kept++] = *check;
        }
    }
    run->count = kept;
}

/* --- what applies ----------------------------------------------------------- */

static bool scenario_has(const struct script_scenario *scenario, const char *words)
{
    for (size_t i = 0; i < scenario->count; i++) {
        if (strstr(scenario->lines[i].text, words) != NULL) {
            return true;
        }
    }
    return false;
}

static const char *why_not_by_form(const struct run *run, const struct script_scenario *scenario)
{
    static const char *const words[SPEC_FORMS] = {
        "proxy-cri=", "proxy-uri=", "proxy-scheme=", " proxy-scheme-number"};
    static const char *const reasons[SPEC_FORMS] = {
        "the proxy does not take Proxy-Cri", "the proxy does not take Proxy-Uri",
        "the proxy does not take Proxy-Scheme", "the proxy does not take Proxy-Scheme-Number"};
    for (unsigned form = 0; form < SPEC_FORMS && !run->plays_all_forms; form++) {
        if (!run->abilities.takes[form] && scenario_has(scenario, words[form])) {
            return reasons[form];
        }
    }
    return NULL;
}

/* Static text where the check says nothing about this proxy; NULL: it is played. */
static const char *why_not(const struct run *run, const struct script_scenario *scenario)
{
    bool is_datagram = run->proxy.way == WAY_UDP || run->proxy.way == WAY_DTLS;
    const struct {
        const char *words;
        bool is_met;
        const char *reason;
    } needs[] = {
        {"needs datagrams", is_datagram, "about the message layer of datagrams"},
        {"needs udp", run->proxy.way == WAY_UDP, "about UDP"},
        {"needs connections", !is_datagram, "about reliable transports"},
        {"needs tcp", run->proxy.way == WAY_TCP, "about TCP"},
        {"needs minutes", run->plays_slow, "takes minutes (--slow)"},
        {"needs observe", run->abilities.observes, "the proxy does not observe"},
        {"needs hop-limit", run->abilities.counts_hops, "the proxy does not count hops"},
        {"needs blocks", run->abilities.takes_blocks, "the proxy does not take blocks"},
    };
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        if (!needs[i].is_met && scenario_has(scenario, needs[i].words)) {
            return needs[i].reason;
        }
    }
    return why_not_by_form(run, scenario);
}

/* --- playing ---------------------------------------------------------------- */

static void play_one(const struct run *run, const struct script_scenario *scenario,
                     enum spec_form form, struct play_result *ret_result)
{
    struct socket_stage sockets = {.proxy = &run->proxy,
                                   .local = run->local,
                                   .end_ms = run->end_ms,
                                   .patience_ms = run->patience_ms};
    struct stage stage;
    socket_stage_init(&sockets, form, &stage);
    play_scenario(scenario, &stage, ret_result);
    socket_stage_stop(&sockets);
}

struct probe {
    const struct run *run;
    const char *text; /* lines */
    enum spec_form form;
    bool has_passed;
};

static void *run_probe(void *context)
{
    struct probe *probe = context;
    struct pool pool = {0};
    struct script_line lines[8];
    struct script_scenario scenario = {.file = "", .id = "", .title = "", .lines = lines};
    for (const char *at = probe->text; *at != '\0' && scenario.count < 8;) {
        size_t len = strcspn(at, "\n");
        lines[scenario.count++] = (struct script_line){0, pool_text(&pool, at, len)};
        at += len + (at[len] == '\n');
    }
    struct play_result result;
    play_one(probe->run, &scenario, probe->form, &result);
    probe->has_passed = result.has_passed;
    play_result_clear(&result);
    pool_clear(&pool);
    return NULL;
}

static void run_probes(struct probe *probes, size_t count)
{
    pthread_t threads[8];
    bool is_running[8];
    for (size_t i = 0; i < count; i++) {
        is_running[i] = pthread_create(&threads[i], NULL, run_probe, &probes[i]) == 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_running[i]) {
            (void)pthread_join(threads[i], NULL);
        }
    }
}

void check_probe(struct run *run)
{
    static const char plain[] = "a > GET coap://h/probe\nh < GET /probe\nh > 2.05 \"here\"\n"
                                "a < 2.05 \"here\"";
    static const char observing[] = "a > GET coap://h/probe observe=0\nh < GET /probe observe=0\n"
                                    "h > 2.05 observe=1 \"here\"\na < 2.05 observe=* \"here\"";
    static const char hopping[] = "a > GET coap://h/probe hop-limit=9\n"
                                  "h < GET /probe hop-limit=8\nh > 2.05 \"here\"\n"
                                  "a < 2.05 \"here\"";
    struct probe probes[SPEC_FORMS];
    if (run->shows_progress) {
        (void)fprintf(stderr, "\rwhat does the proxy take?");
    }
    for (unsigned form = 0; form < SPEC_FORMS; form++) {
        probes[form] = (struct probe){.run = run, .text = plain, .form = (enum spec_form)form};
    }
    run_probes(probes, SPEC_FORMS);
    run->form = SPEC_PROXY_URI;
    for (unsigned form = 0; form < SPEC_FORMS; form++) {
        run->abilities.takes[form] = probes[form].has_passed;
        if (!probes[SPEC_PROXY_URI].has_passed && probes[form].has_passed &&
            !run->abilities.takes[run->form]) {
            run->form = (enum spec_form)form;
        }
    }
    static const char blocks[] = "a > GET coap://h/probe block2=0/0/64\nh < GET /probe\n"
                                 "h > 2.05 \"here\"\na < 2.05 \"here\"";
    struct probe others[] = {{.run = run, .text = observing, .form = run->form},
                             {.run = run, .text = hopping, .form = run->form},
                             {.run = run, .text = blocks, .form = run->form}};
    run_probes(others, 3);
    run->abilities.takes_blocks = others[2].has_passed;
    run->abilities.observes = others[0].has_passed;
    run->abilities.counts_hops = others[1].has_passed;
}

struct crew {
    struct run *run;
    atomic_size_t next;
    pthread_mutex_t lock; /* of the line, and what it counts */
    size_t done, failed;
};

/* One line on a terminal, written anew with each check that ends. */
static void show_progress(struct crew *crew, bool has_failed)
{
    (void)pthread_mutex_lock(&crew->lock);
    crew->done++;
    crew->failed += has_failed;
    if (crew->run->shows_progress) {
        (void)fprintf(stderr, "\r%zu of %zu checks, %zu failed\x1b[K", crew->done, crew->run->count,
                      crew->failed);
    }
    (void)pthread_mutex_unlock(&crew->lock);
}

static void *run_checks(void *context)
{
    struct crew *crew = context;
    struct run *run = crew->run;
    for (size_t i = atomic_fetch_add(&crew->next, 1); i < run->count;
         i = atomic_fetch_add(&crew->next, 1)) {
        struct check *check = &run->checks[i];
        check->why_not = why_not(run, check->scenario);
        if (check->why_not != NULL) {
            check->outcome = OUTCOME_NOT_APPLICABLE;
        } else {
            play_one(run, check->scenario, run->form, &check->result);
            check->outcome = check->result.has_passed ? OUTCOME_PASSED : OUTCOME_FAILED;
        }
        show_progress(crew, check->outcome == OUTCOME_FAILED);
    }
    return NULL;
}

void check_play(struct run *run)
{
    struct crew crew = {.run = run, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[THREADS];
    size_t count = 0;
    while (count < THREADS && pthread_create(&threads[count], NULL, run_checks, &crew) == 0) {
        count++;
    }
    if (count == 0) {
        (void)run_checks(&crew);
    }
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)pthread_mutex_destroy(&crew.lock);
    if (run->shows_progress) {
        (void)fprintf(stderr, "\r\x1b[K");
    }
}
