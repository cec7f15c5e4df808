/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scenario_play FILE [TITLE-OR-ID]: plays the scenarios of a file on the engine, each in a
 * process of its own, whose leaks are found at its end. A failure is shown with its line, what
 * was expected and what came, and the whole conversation.
 */
#include "engine_stage.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct script_scenario *played;

static void print_failure(const struct play_result *result)
{
    (void)fprintf(stderr, "\n%s:%d: %s\n", played->file, result->line, result->text);
    if (result->got[0] != '\0') {
        (void)fprintf(stderr, "  got       %s\n", result->got);
    }
    (void)fprintf(stderr, "  because   %s\n  scenario  %s (line %d), seed 1\n\n%s\n", result->why,
                  played->title, played->number, result->conversation);
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
    engine_stage_stop(&engine);
}

/* The process of one scenario. What it says is for @p output. */
static int run_child(FILE *output)
{
    const struct CMUnitTest tests[] = {{played->title, test_scenario, NULL, NULL, NULL}};
    if (dup2(fileno(output), STDOUT_FILENO) < 0 || dup2(fileno(output), STDERR_FILENO) < 0) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed != 0) {
        (void)fflush(NULL);
        _exit(1); /* what it leaks says nothing then */
    }
    return 0;
}

static void print_file(FILE *file)
{
    char text[4096];
    size_t len;
    rewind(file);
    while ((len = fread(text, 1, sizeof(text), file)) > 0) {
        (void)fwrite(text, 1, len, stdout);
    }
}

static bool has_passed(const struct script_scenario *scenario)
{
    int status = 0;
    FILE *output = tmpfile();
    if (output == NULL) {
        perror("scenario_play");
        return false;
    }
    played = scenario;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool is_good = run_child(output) == 0;
        (void)fclose(output);
        return is_good; /* main() ends with it, so that leaks are looked for */
    }
    bool is_good = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                   WEXITSTATUS(status) == 0;
    (void)printf("%s  %s:%d  %s\n", is_good ? "ok    " : "FAILED", scenario->file, scenario->number,
                 scenario->title);
    if (!is_good) {
        print_file(output);
    }
    (void)fclose(output);
    return is_good;
}

int main(int argc, char **argv)
{
    struct script script;
    const char *error = NULL;
    size_t failed = 0, count = 0;
    pid_t parent = getpid();
    if (argc < 2) {
        (void)fprintf(stderr, "usage: scenario_play FILE [PART-OF-A-TITLE]\n");
        return 2;
    }
    if (!script_load(&script, argv[1], &error)) {
        (void)fprintf(stderr, "%s\n", error);
        script_clear(&script);
        return 1;
    }
    for (size_t i = 0; i < script.count && getpid() == parent; i++) {
        if (argc > 2 && strstr(script.scenarios[i].title, argv[2]) == NULL) {
            continue;
        }
        count++;
        failed += !has_passed(&script.scenarios[i]);
    }
    if (getpid() == parent) {
        (void)printf("%zu scenarios, %zu failed\n", count, failed);
    }
    script_clear(&script);
    return failed == 0 && count > 0 ? 0 : 1;
}
