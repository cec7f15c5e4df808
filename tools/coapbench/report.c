/* SPDX-License-Identifier: BSD-2-Clause */
/* The result of a load: for people, and as JSON for scripts. */
#include "load.h"

#include "args.h"
#include "clock.h"
#include "commands.h"
#include "format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const end_names[END_COUNT] = {"answered",       "wrong",      "reset",
                                                 "unacknowledged", "unanswered", "unfinished"};

const char *load_end_name(enum load_end how)
{
    return end_names[how];
}

struct quantile {
    const char *name;
    double share;
};

static const struct quantile quantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}, {"max", 1.0},
};

enum {
    QUANTILES = sizeof(quantiles) / sizeof(quantiles[0]),
};

static double us(uint64_t ns)
{
    return (double)ns / (double)NS_PER_US;
}

static double seconds(uint64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static double rate(const struct load_result *result)
{
    return result->measured_ns == 0
               ? 0.0
               : (double)result->measured_answers / seconds(result->measured_ns);
}

static uint64_t cpu_ns(const struct load_result *result)
{
    return result->after.cpu_ns - result->before.cpu_ns;
}

static double cpu_us_per_request(const struct load_result *result)
{
    return result->measured_answers == 0 ? 0.0
                                         : us(cpu_ns(result)) / (double)result->measured_answers;
}

static double cpu_share(const struct load_result *result)
{
    return result->measured_ns == 0 ? 0.0 : (double)cpu_ns(result) / (double)result->measured_ns;
}

static bool has_sessions(const struct load_sessions *sessions)
{
    return sessions->handshakes.done + sessions->handshakes.failed > 0;
}

static double session_cpu_us(const struct load_sessions *sessions)
{
    return sessions->handshakes.done == 0
               ? 0.0
               : us(sessions->after.cpu_ns - sessions->before.cpu_ns) / sessions->handshakes.done;
}

static double session_kib(const struct load_sessions *sessions)
{
    return sessions->handshakes.done == 0
               ? 0.0
               : ((double)sessions->after.rss_kib - (double)sessions->before.rss_kib) /
                     sessions->handshakes.done;
}

static void text_sessions(const char *name, const struct load_sessions *sessions, bool has_process)
{
    const struct link_handshakes *handshakes = &sessions->handshakes;

    if (!has_sessions(sessions)) {
        return;
    }
    printf("%-10s %" PRIu32 " up, %" PRIu32 " of them resumed, %" PRIu32 " failed, in %.2f s", name,
           handshakes->done, handshakes->resumed, handshakes->failed, seconds(handshakes->ns));
    if (has_process) {
        printf("; %.2f us CPU and %.2f KiB each", session_cpu_us(sessions), session_kib(sessions));
    }
    putchar('\n');
}

static void json_sessions(const char *name, const struct load_sessions *sessions, bool has_process)
{
    const struct link_handshakes *handshakes = &sessions->handshakes;

    if (!has_sessions(sessions)) {
        return;
    }
    printf(",\"%s\":{\"up\":%" PRIu32 ",\"resumed\":%" PRIu32 ",\"failed\":%" PRIu32
           ",\"seconds\":%.6f",
           name, handshakes->done, handshakes->resumed, handshakes->failed,
           seconds(handshakes->ns));
    if (has_process) {
        printf(",\"cpu_us_each\":%.4f,\"kib_each\":%.4f,\"rss_kib_before\":%" PRIu64
               ",\"rss_kib_after\":%" PRIu64,
               session_cpu_us(sessions), session_kib(sessions), sessions->before.rss_kib,
               sessions->after.rss_kib);
    }
    putchar('}');
}

static void text_ends(const struct load_counters *counters)
{
    printf("requests   %" PRIu64 " sent, %" PRIu64 " retransmissions;", counters->sent,
           counters->retransmitted);
    for (unsigned i = 0; i < END_COUNT; i++) {
        printf(" %s %" PRIu64, end_names[i], counters->ends[i]);
    }
    printf("\ncodes     ");
    for (unsigned i = 0; i < 256; i++) {
        if (counters->codes[i] > 0) {
            printf(" %u.%02u %" PRIu64, WIRE_CODE_CLASS(i), WIRE_CODE_DETAIL(i),
                   counters->codes[i]);
        }
    }
    putchar('\n');
    for (unsigned i = 0; i < counters->reason_count; i++) {
        const struct load_reason *reason = &counters->reasons[i];
        printf("           %u.%02u \"%s\" %" PRIu64 "\n", WIRE_CODE_CLASS(reason->code),
               WIRE_CODE_DETAIL(reason->code), reason->text, reason->count);
    }
}

void report_text(const struct load_options *options, const struct load_result *result)
{
    const struct load_counters *counters = &result->counters;

    text_sessions("sessions", &result->sessions, options->pid > 0);
    text_sessions("again", &result->resumed, options->pid > 0);
    text_ends(counters);
    printf("wrong      %" PRIu64 " (client %" PRIu64 ", message id %" PRIu64 ", payload %" PRIu64
           "); unknown %" PRIu64 ", late %" PRIu64 ", malformed %" PRIu64 "\n",
           load_wrong(counters), counters->wrong_client, counters->wrong_mid,
           counters->ends[END_WRONG], counters->unknown, counters->late, counters->malformed);
    if (counters->overrun + counters->refused + counters->foreign > 0) {
        printf("own        overrun %" PRIu64 ", refused by the system %" PRIu64
               ", not from the peer %" PRIu64 "\n",
               counters->overrun, counters->refused, counters->foreign);
    }
    if (options->reconnect > 0) {
        printf("reopened   %" PRIu64 " sessions\n", counters->reopened);
    }
    if (options->has_format) {
        printf("payload    content-format %u, %s\n", options->format, format_name(options->format));
    }
    printf("measured   %" PRIu64 " answers in %.2f s, %.0f a second\n", result->measured_answers,
           seconds(result->measured_ns), rate(result));
    printf("latency us mean %.1f", us(histogram_mean(&result->latency)));
    for (unsigned i = 0; i < QUANTILES; i++) {
        printf(" %s %.1f", quantiles[i].name,
               us(histogram_quantile(&result->latency, quantiles[i].share)));
    }
    putchar('\n');
    if (options->pid > 0) {
        printf("process    %ld: %.2f us CPU a request, %.0f %% of a core, RSS %" PRIu64
               " -> %" PRIu64 " KiB (peak %" PRIu64 ")\n",
               (long)options->pid, cpu_us_per_request(result), 100.0 * cpu_share(result),
               result->before.rss_kib, result->after.rss_kib, result->after.rss_peak_kib);
    }
}

static void json_counters(const struct load_counters *counters)
{
    const char *comma = "";

    printf("\"sent\":%" PRIu64 ",\"retransmitted\":%" PRIu64 ",\"ends\":{", counters->sent,
           counters->retransmitted);
    for (unsigned i = 0; i < END_COUNT; i++) {
        printf("%s\"%s\":%" PRIu64, i > 0 ? "," : "", end_names[i], counters->ends[i]);
    }
    printf("},\"wrong\":%" PRIu64 ",\"wrong_client\":%" PRIu64 ",\"wrong_mid\":%" PRIu64
           ",\"unknown\":%" PRIu64 ",\"late\":%" PRIu64 ",\"malformed\":%" PRIu64
           ",\"overrun\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"foreign\":%" PRIu64
           ",\"reopened\":%" PRIu64 ",\"codes\":{",
           load_wrong(counters), counters->wrong_client, counters->wrong_mid, counters->unknown,
           counters->late, counters->malformed, counters->overrun, counters->refused,
           counters->foreign, counters->reopened);
    for (unsigned i = 0; i < 256; i++) {
        if (counters->codes[i] > 0) {
            printf("%s\"%u.%02u\":%" PRIu64, comma, WIRE_CODE_CLASS(i), WIRE_CODE_DETAIL(i),
                   counters->codes[i]);
            comma = ",";
        }
    }
    putchar('}');
}

static void json_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text); /* printable ASCII: count_reason() has seen to it */
    }
    putchar('"');
}

static void json_reasons(const struct load_counters *counters)
{
    printf(",\"reasons\":[");
    for (unsigned i = 0; i < counters->reason_count; i++) {
        const struct load_reason *reason = &counters->reasons[i];
        printf("%s{\"code\":\"%u.%02u\",\"text\":", i > 0 ? "," : "", WIRE_CODE_CLASS(reason->code),
               WIRE_CODE_DETAIL(reason->code));
        json_string(reason->text);
        printf(",\"count\":%" PRIu64 "}", reason->count);
    }
    putchar(']');
}

void report_json(const struct load_options *options, const struct load_result *result)
{
    printf("{\"seed\":%" PRIu64 ",\"form\":\"%s\",\"clients\":%" PRIu32 ",\"total_s\":%.6f,",
           options->seed, form_names[options->form], options->clients, seconds(result->total_ns));
    if (options->has_format) {
        printf("\"content_format\":%u,\"media_type\":", options->format);
        json_string(format_name(options->format));
        putchar(',');
    }
    json_counters(&result->counters);
    json_reasons(&result->counters);
    printf(",\"measured\":{\"seconds\":%.6f,\"answers\":%" PRIu64
           ",\"rate\":%.1f,\"latency_us\":{\"mean\":%.3f",
           seconds(result->measured_ns), result->measured_answers, rate(result),
           us(histogram_mean(&result->latency)));
    for (unsigned i = 0; i < QUANTILES; i++) {
        printf(",\"%s\":%.3f", quantiles[i].name,
               us(histogram_quantile(&result->latency, quantiles[i].share)));
    }
    printf("}}");
    json_sessions("sessions", &result->sessions, options->pid > 0);
    json_sessions("resumptions", &result->resumed, options->pid > 0);
    if (options->pid > 0) {
        printf(",\"process\":{\"pid\":%ld,\"cpu_us_per_request\":%.4f,\"cpu_share\":%.4f,"
               "\"switches_per_request\":%.4f,\"rss_kib_before\":%" PRIu64
               ",\"rss_kib_after\":%" PRIu64 ",\"rss_kib_peak\":%" PRIu64 "}",
               (long)options->pid, cpu_us_per_request(result), cpu_share(result),
               result->measured_answers == 0
                   ? 0.0
                   : (double)(result->after.switches - result->before.switches) /
                         (double)result->measured_answers,
               result->before.rss_kib, result->after.rss_kib, result->after.rss_peak_kib);
    }
    puts("}");
}

int load_main(int argc, char **argv)
{
    struct load_options options;
    struct load_result *result;
    int status = load_options_parse(argc, argv, &options);
    int err;

    if (status != STATUS_OK) {
        return status < 0 ? STATUS_OK : status;
    }
    result = calloc(1, sizeof(*result));
    if (result == NULL) {
        return STATUS_FAILED;
    }
    clock_catch_signals();
    clock_precise_sleep();
    err = load_run(&options, result);
    if (err == 0 && options.json) {
        report_json(&options, result);
    } else if (err == 0) {
        report_text(&options, result);
    }
    status = err != 0 ? args_failed("load", err) : STATUS_OK;
    if (err == 0 && !options.hold &&
        (load_wrong(&result->counters) > 0 || result->counters.ends[END_ANSWERED] == 0 ||
         result->counters.ends[END_UNFINISHED] > 0)) {
        status = STATUS_FAILED;
    }
    free(result);
    return status;
}
