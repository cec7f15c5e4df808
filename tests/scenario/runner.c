/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plays the scenarios of a file on the engine; the usage below has the words. A failure is
 * shown with its line, what was expected and what came, and the whole conversation. Scenarios
 * share a process, whose leaks are found at its end, up to one that fails: after that the engine
 * is in no state to go on, and the next one begins another process. Where a process leaks, its
 * scenarios are played once more, each alone, to tell which it was. Of cmocka is heard only an
 * assertion of the stage that fails.
 */
#include "engine_stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: scenario_play [--workers] FILE [PART-OF-A-TITLE]\n"
    "Plays the scenarios of FILE (docs/SCENARIOS.md), or those whose title has that part.\n"
    "  --workers  the proxy has two workers, the second of which has all devices\n"
    "  --help     this text\n"
    "In the environment: TEST_SEED=NUMBER, or random, is what the engine and the network draw\n"
    "from; 1 without it.\n";

static const struct script_scenario *played;
static struct play_result result; /* of that */

/* @param conversation a ladder, or "" */
static void print_failure(const char *got, const char *why, const char *conversation)
{
    (void)fprintf(stderr, "%s:%d: %s\n", played->file, result.line, result.text);
    if (got[0] != '\0') {
        (void)fprintf(stderr, "  got       %s\n", got);
    }
    (void)fprintf(stderr, "  because   %s\n  scenario  %s (line %d), seed %" PRIu64 "\n\n%s\n", why,
                  played->title, played->number, replay_seed, conversation);
}

/* After that the engine is in no state to go on. */
static void end_failed(const char *got, const char *why, const char *conversation)
{
    print_failure(got, why, conversation);
    (void)fflush(NULL);
    _exit(1);
}

static void test_scenario(void **state)
{
    struct engine_stage engine;
    struct stage stage;
    (void)state;
    engine_stage_init(&engine, &stage);
    play_scenario(played, &stage, &result);
    if (!result.has_passed) {
        end_failed(result.got, result.why, result.conversation);
    }
    result.text = "(the end: nothing is left in the proxy)";
    const char *left = engine_stage_left(&engine);
    if (left != NULL) {
        const char *got = pool_format(&result.pool, "left: %s", left);
        end_failed(got, "what has begun has to end: a request by its answer, a CON by its ACK",
                   play_conversation(&result));
    }
    engine_stage_stop(&engine);
    play_result_clear(&result);
}

/* What the process that plays tells the one that waits for it. */
struct progress {
    size_t at; /* scenario that is being played, or the end */
};

struct batch {
    const struct script_scenario **scenarios;
    size_t count;
    struct progress *progress; /* shared */
    FILE *output;              /* of the scenario that is being played */
};

/* @return whether all from @p from up to @p to have passed. */
static bool play_here(const struct batch *batch, size_t from, size_t to)
{
    int output = fileno(batch->output);
    if (dup2(output, STDERR_FILENO) < 0 || freopen("/dev/null", "w", stdout) == NULL) {
        return false;
    }
    for (size_t i = from; i < to; i++) {
        played = batch->scenarios[i];
        const struct CMUnitTest tests[] = {{played->title, test_scenario, NULL, NULL, NULL}};
        batch->progress->at = i;
        if (lseek(output, 0, SEEK_SET) != 0 || ftruncate(output, 0) != 0 ||
            cmocka_run_group_tests(tests, NULL, NULL) != 0) {
            end_failed("", "an assertion of the stage failed, see above",
                       play_conversation(&result));
        }
        (void)fflush(NULL);
    }
    batch->progress->at = to;
    return true;
}

/* Without what cmocka counts, and the verdict above says. */
static void print_output(FILE *output)
{
    char line[4096];
    rewind(output);
    while (fgets(line, sizeof(line), output) != NULL) {
        bool is_count = strncmp(line, "[  PASSED  ]", 12) == 0 ||
                        strncmp(line, "[  FAILED  ]", 12) == 0 || strstr(line, " FAILED TEST(S)");
        if (!is_count) {
            (void)fputs(line, stdout);
        }
    }
}

static void print_verdict(const struct script_scenario *scenario, bool is_good)
{
    (void)printf("%s  %s:%d  %s\n", is_good ? "ok    " : "FAILED", scenario->file, scenario->number,
                 scenario->title);
}

/*
 * Plays them in another process, up to the first that fails. In that process it does not return,
 * but sets @p ret_is_child.
 *
 * @return whether all have passed and nothing leaked; progress->at has the first that did not.
 */
static bool play_apart(const struct batch *batch, size_t from, size_t to, bool *ret_is_child)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        *ret_is_child = true;
        return play_here(batch, from, to);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* @return how many have failed. */
static size_t play_batch(const struct batch *batch, size_t from, size_t to, bool *ret_is_child)
{
    size_t failed = 0;
    while (from < to) {
        bool is_good = play_apart(batch, from, to, ret_is_child);
        if (*ret_is_child) {
            return !is_good;
        }
        size_t at = is_good ? to : batch->progress->at;
        if (!is_good && at == to && to - from > 1) { /* one of them leaks */
            for (size_t i = from; i < to && !*ret_is_child; i++) {
                failed += play_batch(batch, i, i + 1, ret_is_child);
            }
            return failed;
        }
        at = at == to && !is_good ? from : at;
        for (size_t i = from; i < at; i++) {
            print_verdict(batch->scenarios[i], true);
        }
        if (!is_good) {
            print_verdict(batch->scenarios[at], false);
            print_output(batch->output);
            failed++;
        }
        from = at + 1;
    }
    return failed;
}

static int play_file(const struct script *script, const char *part)
{
    struct batch batch = {
        .scenarios = calloc(script->count, sizeof(struct script_scenario *)),
        .progress = mmap(NULL, sizeof(struct progress), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0),
        .output = tmpfile(),
    };
    bool is_child = false;
    size_t failed = 1;
    if (batch.scenarios != NULL && batch.progress != MAP_FAILED && batch.output != NULL) {
        for (size_t i = 0; i < script->count; i++) {
            if (part == NULL || strstr(script->scenarios[i].title, part) != NULL) {
                batch.scenarios[batch.count++] = &script->scenarios[i];
            }
        }
        failed = play_batch(&batch, 0, batch.count, &is_child);
        if (!is_child) {
            if (batch.count == 0) {
                (void)printf("no title has \"%s\"\n", part != NULL ? part : "");
            }
            (void)printf("%zu scenarios, %zu failed\n", batch.count, failed);
        }
        (void)fclose(batch.output);
    }
    free(batch.scenarios);
    return failed == 0 && batch.count > 0 ? 0 : 1;
}

/*
 * The security context of scenarios that have upstream.oscore: not in the tree,
 * which does not keep its mode. Other scenarios write the same at the same time.
 */
static bool write_context(void)
{
    static const char text[] = "sender-id = 01\nrecipient-id = 02\n"
                               "master-secret = 0102030405060708090a0b0c0d0e0f10\n";
    char name[] = "/tmp/scenario.oscore.XXXXXX"; /* mode 0600 */
    int fd = mkstemp(name);
    bool is_written = fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_written && rename(name, "/tmp/scenario.oscore") == 0;
}

int main(int argc, char **argv)
{
    struct script script;
    const char *error = NULL;
    int status = 1;
    if (argc > 1 && strcmp(argv[1], "--workers") == 0) {
        engine_stage_has_workers = true;
        argc--;
        argv++;
    }
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (argc < 2 || argv[1][0] == '-') {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (getenv("TEST_SEED") != NULL) {
        replay_seed = test_seed();
    }
    if (!write_context()) {
        (void)fprintf(stderr, "/tmp/scenario.oscore cannot be written\n");
    } else if (script_load(&script, argv[1], &error)) {
        status = play_file(&script, argc > 2 ? argv[2] : NULL);
    } else {
        (void)fprintf(stderr, "%s\n", error);
    }
    script_clear(&script);
    return status;
}
