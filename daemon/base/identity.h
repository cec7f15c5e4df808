/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The identity with which a peer has authenticated on DTLS or TLS, or by a bearer token over
 * HTTP: its requests carry it, for policy and the log.
 *
 * One is made when a handshake is done, and counted: its session or connection
 * holds it, and so does every request of that peer, which may outlive the
 * session. All holders are of one thread.
 */
#ifndef CRIPROXY_IDENTITY_H
#define CRIPROXY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IDENTITY_NAME_MAX 128

/* All names of one peer; those past it are left out. */
#define IDENTITY_NAMES_BYTES_MAX 4096

/* Of identity_format(), with its NUL. */
#define IDENTITY_TEXT_MAX 160

struct address;
struct identity;
struct pack;
struct unpack;

/**
 * Whether a peer, by its address and its identity (NULL: none), is one of those that @p context
 * describes.
 */
typedef bool peer_match_fn(const void *context, const struct address *remote,
                           const struct identity *identity);

enum identity_kind {
    IDENTITY_NONE, /* only an address: UDP, TCP, or TLS without a client certificate */
    IDENTITY_PSK,
    IDENTITY_CERTIFICATE,
    IDENTITY_PUBLIC_KEY, /* a raw public key (RFC 7250): the name it has in the configuration */
    IDENTITY_KINDS,
};

/* One for each of 100,000 sessions: with a name of up to 14 bytes it takes 24, the least that
 * malloc() gives. */
struct identity {
    uint32_t holders;
    uint16_t names_len, names_capacity;
    unsigned kind : 4;            /* enum identity_kind */
    unsigned lacks_names : 1;     /* one did not fit */
    unsigned has_server_name : 1; /* behind the names */
    /* To be compared: escaped, never cut, a NUL after each. The PSK identity; all SANs that are
     * text, or where there are none the CN; the name of the key. */
    char names[];
};

/** To be shown, the first: printable ASCII, other bytes as \xHH, cut at IDENTITY_NAME_MAX. */
const char *identity_name(const struct identity *identity);

/** The SNI that the peer asked for, lower case, at most 255 bytes; or "". */
const char *identity_server_name(const struct identity *identity);

/** What a name of these bytes takes in struct identity: escaped, with its NUL. */
size_t identity_name_bytes(const unsigned char *bytes, size_t len);

/**
 * One without any name, held once.
 *
 * @param names_bytes of all its names, the sum of identity_name_bytes()
 * @param server_name copied; one of more than 255 bytes is none. May be NULL
 * @return NULL without memory
 */
struct identity *identity_new(enum identity_kind kind, size_t names_bytes, const char *server_name);

/** Appends all of it for the next process; its holders stay here. */
void identity_pack(const struct identity *identity, struct pack *out);

/** What identity_pack() has written, held once. @return NULL without memory, or @p in has failed */
struct identity *identity_unpack(struct unpack *in);

/** Takes NULL. @return @p identity */
struct identity *identity_acquire(struct identity *identity);

/** Takes NULL; the last one frees. */
void identity_release(struct identity *identity);

/**
 * Another name: the bytes that the peer has proved to be its own. The first name is the one that is
 * shown. A name that does not fit is left out.
 */
void identity_add_name(struct identity *identity, const unsigned char *bytes, size_t len);

/**
 * The bytes that @p name, one of struct identity, was escaped from, NUL-terminated.
 *
 * @return false where they do not fit @p capacity bytes
 */
bool identity_unescape(const char *name, char *ret_bytes, size_t capacity);

/** Whether the peer has authenticated; false for NULL. */
bool identity_is_known(const struct identity *identity);

/**
 * Whether it is of @p kind and @p name (escaped as names are) is one of its names, byte for byte.
 * False for NULL.
 */
bool identity_has_name(const struct identity *identity, enum identity_kind kind, const char *name);

/**
 * The kind that @p text begins with, such as "psk:", and where its name begins. NULL, and @p
 * ret_kind untouched, where it begins with none, or has no name.
 */
const char *identity_take_kind(const char *text, enum identity_kind *ret_kind);

/**
 * Formats for a log line: psk:alice, certificate:sensor.example, public-key:meter-7; in double
 * quotes if it has other than harmless characters; "-" for NULL and for a peer that has not
 * authenticated. Returns @p text, the caller's buffer, or a static text.
 */
const char *identity_format(const struct identity *identity, char text[IDENTITY_TEXT_MAX]);

#endif
