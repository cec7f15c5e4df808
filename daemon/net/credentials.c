/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/credentials_internal.h"

#include "base/escape.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool credentials_fail(const struct error_text *error, const char *place, const char *what)
{
    (void)snprintf(error->text, error->capacity, "%s: %s", place, what);
    return false;
}

static bool check_options(const struct credentials_options *options, const struct error_text *error)
{
    if (options->certificate_file != NULL && options->key_file == NULL) {
        return credentials_fail(error, options->certificate_file, "a certificate needs its key");
    }
    if (options->certificate_file == NULL && options->other_count > 0) {
        return credentials_fail(error, "tls", "further certificates need a first one");
    }
    if (options->certificate_file == NULL && options->key_file != NULL) {
        return credentials_fail(error, options->key_file, "a key needs its certificate");
    }
    if (options->certificate_file == NULL && options->psk_file == NULL &&
        options->raw_key_file == NULL) {
        return credentials_fail(error, "tls", "neither a certificate nor a file of keys");
    }
    return true;
}

/* What is asked of clients needs something of our own, and the other way round. */
static bool check_client_options(const struct credentials_options *options,
                                 const struct error_text *error)
{
    bool has_own = options->certificate_file != NULL || options->raw_key_file != NULL;

    if (options->require_client_certificate && options->client_ca_file == NULL &&
        options->client_keys_file == NULL) {
        return credentials_fail(error, "tls",
                                "client certificates are required, but there is no client CA");
    }
    if (options->client_ca_file != NULL && !has_own) {
        return credentials_fail(error, options->client_ca_file,
                                "a client CA needs a certificate of our own");
    }
    if (options->client_keys_file != NULL && !has_own) {
        return credentials_fail(error, options->client_keys_file,
                                "keys of clients need a certificate or a raw key of our own");
    }
    return true;
}

/* Other programs add to the same file, so each line is one write at its end. */
static bool open_keylog(struct credentials *credentials, const char *file,
                        const struct error_text *error)
{
    credentials->keylog_fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (credentials->keylog_fd < 0) {
        return credentials_fail(error, file, strerror(errno));
    }
    return true;
}

/* SEC-25. A lab may not care, so it is said and not refused. */
void credentials_check_secrecy(const char *file)
{
    struct stat status;
    char name[256];

    if (file != NULL && stat(file, &status) == 0 && (status.st_mode & S_IRWXO) != 0) {
        escape_value(name, sizeof name, file, strlen(file));
        log_event(LOG_WARNING, "key_file_open_to_others", "file=%s mode=%03o", name,
                  (unsigned)status.st_mode & 0777u);
    }
}

static bool load_credential_files(struct credentials *credentials,
                                  const struct credentials_options *options,
                                  const struct error_text *error)
{
    if (!check_options(options, error) || !check_client_options(options, error) ||
        !credentials_load_raw_keys(credentials, options, error)) {
        return false;
    }
    if (options->psk_file != NULL) {
        credentials->psks = psk_table_load(options->psk_file, error);
        if (credentials->psks == NULL) {
            return false;
        }
    }
    if (options->other_count > 0) {
        credentials->others = certificate_table_load(options->others, options->other_count, error);
        if (credentials->others == NULL) {
            return false;
        }
    }
    if (options->keylog_file != NULL && !open_keylog(credentials, options->keylog_file, error)) {
        return false;
    }
    credentials_check_secrecy(options->key_file);
    credentials_check_secrecy(options->psk_file);
    for (size_t i = 0; i < options->other_count; i++) {
        credentials_check_secrecy(options->others[i].key_file);
    }
    credentials->has_certificate = options->certificate_file != NULL;
    credentials->has_client_ca = options->client_ca_file != NULL;
    credentials->requires_client = options->require_client_certificate;
    return credentials_make_contexts(credentials, options, error);
}

static void destroy(struct credentials *credentials)
{
    SSL_CTX_free(credentials->dtls);
    SSL_CTX_free(credentials->tls);
    psk_table_free(credentials->psks);
    certificate_table_free(credentials->others);
    credentials_free_raw_keys(credentials);
    if (credentials->keylog_fd >= 0) {
        (void)close(credentials->keylog_fd);
    }
    free(credentials);
}

struct credentials *credentials_load(const struct credentials_options *options, char *ret_error,
                                     size_t error_capacity)
{
    const struct error_text error = {.text = ret_error, .capacity = error_capacity};
    struct credentials *credentials = calloc(1, sizeof *credentials);

    if (credentials == NULL) {
        (void)credentials_fail(&error, "tls", "out of memory");
        return NULL;
    }
    atomic_init(&credentials->count, 1);
    credentials->keylog_fd = -1;
    if (!load_credential_files(credentials, options, &error)) {
        destroy(credentials);
        return NULL;
    }
    return credentials;
}

struct credentials *credentials_acquire(struct credentials *credentials)
{
    atomic_fetch_add_explicit(&credentials->count, 1, memory_order_relaxed);
    return credentials;
}

void credentials_release(struct credentials *credentials)
{
    if (credentials != NULL &&
        atomic_fetch_sub_explicit(&credentials->count, 1, memory_order_acq_rel) == 1) {
        destroy(credentials);
    }
}

bool credentials_has_certificate(const struct credentials *credentials)
{
    return credentials->has_certificate;
}

size_t credentials_psk_count(const struct credentials *credentials)
{
    return credentials->psks == NULL ? 0 : psk_table_count(credentials->psks);
}

SSL_CTX *credentials_dtls(const struct credentials *credentials)
{
    return credentials->dtls;
}

SSL_CTX *credentials_tls(const struct credentials *credentials)
{
    return credentials->tls;
}

const struct raw_keys *credentials_client_keys(const struct credentials *credentials)
{
    return credentials->client_keys;
}
