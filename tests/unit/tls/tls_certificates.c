/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of a test: a folder of its own, and certificates made as they are wished for. */
#include "tls_fixture.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

void files_init(void)
{
    static const char pattern[] = "/tmp/criproxy-tls-XXXXXX";

    memcpy(folder, pattern, sizeof pattern);
    (void)umask(077); /* as keys should be */
    assert_non_null(mkdtemp(folder));
}

void files_clear(void)
{
    DIR *stream = opendir(folder);
    const struct dirent *entry;

    assert_non_null(stream);
    while ((entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)unlink(file_path(entry->d_name));
        }
    }
    (void)closedir(stream);
    assert_int_equal(rmdir(folder), 0);
}

const char *file_path(const char *name)
{
    static char paths[16][512];
    static unsigned turn;
    char *path = paths[turn++ % 16];

    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

const char *file_write(const char *name, const char *text)
{
    const char *path = file_path(name);
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

static FILE *open_file(const char *name, const char *suffix, const char *mode)
{
    char full[64];

    (void)snprintf(full, sizeof full, "%s.%s", name, suffix);
    FILE *file = fopen(file_path(full), mode);
    assert_non_null(file);
    return file;
}

static void add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *fill(const struct certificate_wish *wish, EVP_PKEY *key)
{
    static long serial = 1;
    X509 *certificate = X509_new();

    assert_non_null(certificate);
    assert_int_equal(X509_set_version(certificate, X509_VERSION_3), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), wish->from_days * 86400L));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), wish->to_days * 86400L));
    if (wish->common_name != NULL) {
        assert_int_equal(X509_NAME_add_entry_by_NID(
                             X509_get_subject_name(certificate), NID_commonName, MBSTRING_UTF8,
                             (const unsigned char *)wish->common_name, -1, -1, 0),
                         1);
    }
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    return certificate;
}

static void sign(X509 *certificate, EVP_PKEY *key, const struct certificate_wish *wish)
{
    X509 *issuer = certificate;
    EVP_PKEY *issuer_key = key;

    if (wish->issuer != NULL) {
        FILE *file = open_file(wish->issuer, "pem", "re");
        issuer = PEM_read_X509(file, NULL, NULL, NULL);
        (void)fclose(file);
        file = open_file(wish->issuer, "key", "re");
        issuer_key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
        (void)fclose(file);
        assert_non_null(issuer);
        assert_non_null(issuer_key);
    }
    assert_int_equal(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)), 1);
    add_extension(certificate, issuer, NID_basic_constraints,
                  wish->is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (wish->alternative != NULL) {
        add_extension(certificate, issuer, NID_subject_alt_name, wish->alternative);
    }
    assert_true(X509_sign(certificate, issuer_key, EVP_sha256()) > 0);
    if (wish->issuer != NULL) {
        X509_free(issuer);
        EVP_PKEY_free(issuer_key);
    }
}

void certificate_make(const struct certificate_wish *wish)
{
    EVP_PKEY *key = wish->is_rsa ? EVP_RSA_gen(2048) : EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");

    assert_non_null(key);
    X509 *certificate = fill(wish, key);
    sign(certificate, key, wish);
    FILE *file = open_file(wish->name, "pem", "we");
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    assert_int_equal(fclose(file), 0);
    file = open_file(wish->name, "key", "we");
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

/* ---- for cmocka ---- */

int files_set_up(void **state)
{
    (void)state;
    files_init();
    return 0;
}

int files_set_up_certificates(void **state)
{
    (void)files_set_up(state);
    certificate_make(&(struct certificate_wish){
        .name = "server", .common_name = "proxy", .from_days = -1, .to_days = 10});
    certificate_make(&(struct certificate_wish){
        .name = "rsa", .common_name = "proxy", .is_rsa = true, .from_days = -1, .to_days = 10});
    return 0;
}

int files_tear_down(void **state)
{
    (void)state;
    files_clear();
    return 0;
}
