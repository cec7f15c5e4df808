/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/handover_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HANDOVER_MAGIC "criproxy-handover"
#define MAGIC_BYTES 17u
#define BOOT_ID_BYTES 36u
#define MAC_BYTES 32u

/* Magic, version, user, boot id, time, length of the body. */
#define HEAD_BYTES (MAGIC_BYTES + 4u + 4u + BOOT_ID_BYTES + 8u + 8u)

/* More than a million sessions. */
#define HANDOVER_FILE_BYTES_MAX (UINT64_C(1) << 30)

#define WIPE_BYTES 65536u

/* Time since the system was started, also while it slept. */
static uint64_t boot_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * Another one after each start of the system; zeros where it is hidden (ProcSubset=pid): a file in
 * memory does not outlive the system in any case.
 */
static void read_boot_id(char ret_id[BOOT_ID_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, ret_id, BOOT_ID_BYTES) != (ssize_t)BOOT_ID_BYTES) {
        memset(ret_id, 0, BOOT_ID_BYTES);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* Of the head and the body, one after the other. */
static bool make_mac(const char boot_id[BOOT_ID_BYTES], const uint8_t head[HEAD_BYTES],
                     const uint8_t *body, size_t body_len, uint8_t ret_mac[MAC_BYTES])
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    size_t mac_len = 0;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = mac == NULL ? NULL : EVP_MAC_CTX_new(mac);
    bool is_good =
        context != NULL &&
        EVP_MAC_init(context, (const unsigned char *)boot_id, BOOT_ID_BYTES, params) == 1 &&
        EVP_MAC_update(context, head, HEAD_BYTES) == 1 &&
        EVP_MAC_update(context, body, body_len) == 1 &&
        EVP_MAC_final(context, ret_mac, &mac_len, MAC_BYTES) == 1 && mac_len == MAC_BYTES;

    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
    ERR_clear_error();
    return is_good;
}

int handover_file_open_memory(void)
{
    int fd = memfd_create("criproxyd-sessions", MFD_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* ---- writing ---- */

static int write_at(int fd, off_t where, const uint8_t *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t put = pwrite(fd, data + at, len - at, where + (off_t)at);
        if (put < 0 && errno != EINTR) {
            return -errno;
        }
        at += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

/* The body may be large: it is not copied. */
static int put_whole(int fd, const struct pack *body, struct pack *head)
{
    char boot_id[BOOT_ID_BYTES];
    uint8_t mac[MAC_BYTES];

    read_boot_id(boot_id);
    pack_raw(head, HANDOVER_MAGIC, MAGIC_BYTES);
    pack_uint(head, HANDOVER_FILE_VERSION, 4);
    pack_uint(head, geteuid(), 4);
    pack_raw(head, boot_id, BOOT_ID_BYTES);
    pack_uint(head, boot_ms(), 8);
    pack_uint(head, body->len, 8);
    if (head->has_failed || !make_mac(boot_id, head->data, body->data, body->len, mac)) {
        return -ENOMEM;
    }
    int error = write_at(fd, 0, head->data, head->len);
    if (error == 0) {
        error = write_at(fd, (off_t)HEAD_BYTES, body->data, body->len);
    }
    return error != 0 ? error : write_at(fd, (off_t)(HEAD_BYTES + body->len), mac, sizeof mac);
}

int handover_file_write(int fd, const struct pack *body)
{
    struct pack head = {0};

    if (body->has_failed) {
        return -ENOMEM;
    }
    int error = body->len > HANDOVER_FILE_BYTES_MAX ? -EFBIG : put_whole(fd, body, &head);
    pack_clear(&head);
    if (error != 0) {
        (void)handover_file_destroy(fd);
    }
    return error;
}

int handover_file_destroy(int fd)
{
    static const uint8_t zeros[WIPE_BYTES];
    struct stat file;
    int error = fstat(fd, &file) == 0 ? 0 : -errno;

    for (off_t at = 0; error == 0 && at < file.st_size;) {
        off_t left = file.st_size - at;
        ssize_t put =
            pwrite(fd, zeros, left < (off_t)sizeof zeros ? (size_t)left : sizeof zeros, at);
        if (put < 0 && errno != EINTR) {
            error = -errno;
        }
        at += put > 0 ? put : 0;
    }
    if (ftruncate(fd, 0) != 0 && error == 0) {
        error = -errno;
    }
    return error;
}

/* ---- taking ---- */

/* The bytes of the file; NULL where there are none, too many, or no memory for them. */
static uint8_t *read_handover_file(int fd, size_t *ret_len)
{
    struct stat file;
    size_t len = 0;

    if (fstat(fd, &file) != 0 || file.st_size < (off_t)(HEAD_BYTES + MAC_BYTES) ||
        (uint64_t)file.st_size > HANDOVER_FILE_BYTES_MAX + HEAD_BYTES + MAC_BYTES) {
        return NULL;
    }
    uint8_t *whole = malloc((size_t)file.st_size);
    while (whole != NULL && len < (size_t)file.st_size) {
        ssize_t got = pread(fd, whole + len, (size_t)file.st_size - len, (off_t)len);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            OPENSSL_cleanse(whole, len);
            free(whole);
            return NULL;
        }
        len += got > 0 ? (size_t)got : 0;
    }
    *ret_len = len;
    return whole;
}

/* HANDOVER_REFUSAL_COUNT, or why it may not be used. */
static enum handover_refusal check_whole(const uint8_t *whole, size_t len, struct unpack *ret_body)
{
    struct unpack in = {.at = whole, .left = len - MAC_BYTES};
    char magic[MAGIC_BYTES], boot_id[BOOT_ID_BYTES], ours[BOOT_ID_BYTES];
    uint8_t mac[MAC_BYTES];

    unpack_raw(&in, magic, sizeof magic);
    uint64_t version = unpack_uint(&in, 4), user = unpack_uint(&in, 4);
    unpack_raw(&in, boot_id, sizeof boot_id);
    uint64_t taken_ms = unpack_uint(&in, 8), body_len = unpack_uint(&in, 8), now_ms = boot_ms();
    if (memcmp(magic, HANDOVER_MAGIC, sizeof magic) != 0 || version != HANDOVER_FILE_VERSION) {
        return HANDOVER_REFUSAL_other_version;
    }
    read_boot_id(ours);
    if (user != geteuid() || memcmp(boot_id, ours, sizeof ours) != 0) {
        return HANDOVER_REFUSAL_foreign;
    }
    if (!make_mac(ours, whole, in.at, in.left, mac) ||
        CRYPTO_memcmp(mac, whole + len - MAC_BYTES, sizeof mac) != 0 || body_len != in.left) {
        return HANDOVER_REFUSAL_damaged;
    }
    if (taken_ms > now_ms || now_ms - taken_ms > HANDOVER_FILE_AGE_MS) {
        return HANDOVER_REFUSAL_too_old;
    }
    *ret_body = in;
    return HANDOVER_REFUSAL_COUNT;
}

bool handover_file_take(int fd, struct pack *ret_whole, struct unpack *ret_body,
                        enum handover_refusal *ret_why)
{
    size_t len = 0;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        *ret_why = HANDOVER_REFUSAL_in_use;
        return false;
    }
    uint8_t *whole = read_handover_file(fd, &len);

    /* Before anything that is in it can be used. */
    int error = handover_file_destroy(fd);
    *ret_why = whole == NULL ? HANDOVER_REFUSAL_empty
               : error != 0  ? HANDOVER_REFUSAL_not_overwritten
                             : check_whole(whole, len, ret_body);
    *ret_whole = (struct pack){.data = whole, .len = len, .capacity = len};
    if (*ret_why != HANDOVER_REFUSAL_COUNT) {
        pack_clear(ret_whole);
    }
    return *ret_why == HANDOVER_REFUSAL_COUNT;
}
