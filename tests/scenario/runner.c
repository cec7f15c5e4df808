/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scenario_play [--workers] FILE [PART-OF-A-TITLE]: plays the scenarios of a file on the engine, or
 * on two of them, as two workers have them, where the second has all devices. TEST_SEED of
 * the environment is the seed of what the engine and the network draw; 1 without it. A failure is
 * shown with its line, what was expected and what came, and the whole conversation. Scenarios
 * share a process, whose leaks are found at its end, up to one that fails: after that the engine
 * is in no state to go on, and the next one begins another process. Where a process leaks, its
 * scenarios are played once more, each alone, to tell which it was.
 */
#include "engine_stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct script_scenario *played;

static void print_failure(const struct play_result *result)
{
    (void)fprintf(stderr, "\n%s:%d: %s\n", played->file, result->line, result->text);
    if (result->got[0] != '\0') {
        (void)fprintf(stderr, "  got       %s\n", result->got);
    }
    (void)fprintf(stderr, "  because   %s\n  scenario  %s (line %d), seed %" PRIu64 "\n\n%s\n",
                  result->why, played->title, played->number, replay_seed, result->conversation);
}

/* Told of each; shown only where the checks that follow fail, which know no line. */
static void print_end(void)
{
    (void)fprintf(
        stderr,
        "\n%s:%d: the end of the scenario, all lines of which hold\n"
        "  because   what is named below was left in the proxy, such as a request that no\n"
        "            server has answered or a CON that was not acknowledged\n"
        "  scenario  %s, seed %" PRIu64 "\n\n",
        played->file, played->number, played->title, replay_seed);
}

static void test_scenario(void **state)
{
    struct engine_stage engine;
    struct stage stage;
    struct play_result result;
    (void)state;
    engine_stage_init(&engine, &stage);
    play_scenario(played, &stage, &result);
    if (!result.has_passed) {
        print_failure(&result);
        fail();
    }
    play_result_clear(&result);
    print_end();
    engine_stage_stop(&engine);
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
    if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) {
        return false;
    }
    for (size_t i = from; i < to; i++) {
        played = batch->scenarios[i];
        const struct CMUnitTest tests[] = {{played->title, test_scenario, NULL, NULL, NULL}};
        batch->progress->at = i;
        if (lseek(output, 0, SEEK_SET) != 0 || ftruncate(output, 0) != 0 ||
            cmocka_run_group_tests(tests, NULL, NULL) != 0) {
            (void)fflush(NULL);
            _exit(1); /* what it leaks says nothing then */
        }
        (void)fflush(NULL);
    }
    batch->progress->at = to;
    return true;
}

static void print_output(FILE *output)
{
    char text[4096];
    size_t len;
    rewind(output);
    while ((len = fread(text, 1, sizeof(text), output)) > 0) {
        (void)fwrite(text, 1, len, stdout);
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
    if (argc < 2) {
        (void)fprintf(stderr, "usage: scenario_play [--workers] FILE [PART-OF-A-TITLE]\n");
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
