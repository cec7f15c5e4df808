/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Certificates of our own run out. Their times are read with each snapshot of the
 * configuration; a monitoring system sees them as a metric and as days left, and the
 * log warns of those that are not valid now. They are served all the same: it is for the
 * client to refuse them, whose clock may be another.
 */
#include "server/internal.h"

#include "base/arena.h"
#include "base/escape.h"
#include "base/log.h"
#include "net/certificate.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define DAY_S 86400

static void note_certificate(struct server_certificates *certificates, const char *file)
{
    for (size_t i = 0; i < certificates->count; i++) {
        if (strcmp(certificates->items[i].file, file) == 0) {
            return;
        }
    }
    if (file[0] != '\0' &&
        certificate_read_times(file, &certificates->items[certificates->count])) {
        certificates->count++;
    }
}

int server_read_certificates(const struct config *config, struct server_certificates *ret)
{
    const struct config_list *own = &config->tls_certificate;
    size_t room = own->count + config->upstream_count + 1;
    struct server_certificates certificates = {
        .items = arena_alloc(config->arena, room * sizeof(certificates.items[0]))};

    if (certificates.items == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < own->count; i++) {
        note_certificate(&certificates, own->items[i]);
    }
    note_certificate(&certificates, config->upstream_certificate);
    for (size_t i = 0; i < config->upstream_count; i++) {
        note_certificate(&certificates, config->upstreams[i].certificate);
    }
    *ret = certificates;
    return 0;
}

/* Whole days, rounded down: below zero for one that has expired. */
static int64_t days_until(int64_t then_s, int64_t now_s)
{
    int64_t left_s = then_s - now_s;

    return left_s >= 0 ? left_s / DAY_S : -((DAY_S - 1 - left_s) / DAY_S);
}

void server_warn_of_certificates(const struct server_certificates *certificates)
{
    int64_t now_s = (int64_t)server_wall_clock_s();
    char file[512];

    for (size_t i = 0; i < certificates->count; i++) {
        const struct certificate_times *times = &certificates->items[i];
        escape_value(file, sizeof(file), times->file, strlen(times->file));
        if (now_s >= times->not_after_s) {
            log_event(LOG_WARNING, "certificate_expired", "file=%s days_left=%" PRId64, file,
                      days_until(times->not_after_s, now_s));
        } else if (now_s < times->not_before_s) {
            log_event(LOG_WARNING, "certificate_not_yet_valid", "file=%s days=%" PRId64, file,
                      days_until(times->not_before_s, now_s));
        }
    }
}

bool server_certificate_days(const struct server *server, int64_t *ret_days)
{
    const struct server_certificates *certificates = &server->newest->certificates;
    int64_t first_s = INT64_MAX;

    for (size_t i = 0; i < certificates->count; i++) {
        if (certificates->items[i].not_after_s < first_s) {
            first_s = certificates->items[i].not_after_s;
        }
    }
    *ret_days = days_until(first_s, (int64_t)server_wall_clock_s());
    return certificates->count > 0;
}

/* As the text format wants label values. */
static void write_label(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"') {
            (void)fputc('\\', out);
        }
        if (*text == '\n') {
            (void)fputs("\\n", out);
        } else {
            (void)fputc(*text, out);
        }
    }
}

void server_write_certificates(const struct server *server, FILE *out)
{
    static const char name[] = "criproxyd_certificate_expiry_timestamp_seconds";
    const struct server_certificates *certificates = &server->newest->certificates;

    if (certificates->count == 0) {
        return;
    }
    (void)fprintf(out, "# HELP %s When a certificate of the proxy expires, in Unix time.\n", name);
    (void)fprintf(out, "# TYPE %s gauge\n", name);
    for (size_t i = 0; i < certificates->count; i++) {
        (void)fprintf(out, "%s{file=\"", name);
        write_label(out, certificates->items[i].file);
        (void)fprintf(out, "\"} %" PRId64 "\n", certificates->items[i].not_after_s);
    }
}
