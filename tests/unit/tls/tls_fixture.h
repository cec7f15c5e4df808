/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A DTLS listener of ours that echoes, and OpenSSL's clients, on the fake network
 * in virtual time (OpenSSL's retransmission clock included: gettimeofday() is
 * the fake network's here).
 */
#ifndef CRIPROXY_TLS_FIXTURE_H
#define CRIPROXY_TLS_FIXTURE_H

#include "net/credentials.h"
#include "net/dtls.h"
#include "net/loop.h"
#include "support/fake_net.h"
#include "support/test.h"

#include <openssl/ssl.h>

#define SERVER_TEXT "127.0.0.1:5684"

/* ---- files ---- */

/** A new folder for what follows; files_clear() removes it. */
void files_init(void);
void files_clear(void);

/* The same for cmocka; the second also makes the certificates "server" and "rsa" of a proxy. */
int files_set_up(void **state);
int files_set_up_certificates(void **state);
int files_tear_down(void **state);

/** The path of @p name in the folder; static, for the next 16 calls. */
const char *file_path(const char *name);
const char *file_write(const char *name, const char *text);

/* What a certificate of the tests is to be. */
struct certificate_wish {
    const char *name;   /* NAME.pem and NAME.key are written */
    const char *issuer; /* a name made before; NULL: itself */
    const char *common_name;
    const char *alternative; /* "DNS:a", "URI:coaps://a"; NULL: none */
    bool is_ca;
    bool is_rsa;
    int from_days, to_days; /* around now */
};

void certificate_make(const struct certificate_wish *wish);

/** What has been logged since the last call, as text; static. At debug level. */
const char *logged(void);

/* ---- server ---- */

struct server {
    struct loop *loop;
    struct dtls_listener *listener;
    struct dtls_options options;
    unsigned datagrams, closes;
    uint16_t needed_port; /* sessions of clients there are needed */
    size_t last_len;
    char last[2048];              /* NUL-terminated */
    struct identity *identity;    /* of the last sender; held */
    struct dtls_session *session; /* the same */
    const char *why;              /* of the last close */
    bool is_mute;                 /* no echo */
    bool believes;                /* clients at new addresses */
    unsigned moves;
    struct udp_path path;                              /* of the last datagram */
    void (*on_datagram)(struct dtls_session *session); /* besides; or NULL */
};

extern struct server server;
extern struct address server_address; /* where clients send to; set by the start */
extern uint64_t server_seed;          /* of the fake network, at the next start */

/** Credentials from @p options; fails the test where they cannot be had. */
struct credentials *credentials_must_load(const struct credentials_options *options);

/** PSK identities "alice" and "bob" with keys of their own, and perhaps more in @p options. */
struct credentials *credentials_psk(void);

/** fake_net_start() and a listener; takes over the caller's count of @p credentials. */
void server_start(struct credentials *credentials);
void server_start_with(struct credentials *credentials, const struct dtls_options *options);

/** Closes the listener and opens another one there, on the same network. */
void server_replace(struct credentials *credentials, const struct dtls_options *options);

/** On every IPv4 address. */
void server_start_wildcard(struct credentials *credentials);
void server_stop(void);

/* ---- clients ---- */

struct client {
    struct fake_peer *peer;
    SSL_CTX *context;
    SSL *ssl;
    SSL_SESSION *resume;
    const char *psk_identity;
    const char *psk_key;
    int alert; /* of the server, fatal; 0: none */
    long mtu;
    size_t sent_len; /* the last datagram it has sent */
    uint8_t sent[2048];
    void (*on_sent)(struct client *client); /* or NULL */
    bool is_held;                           /* by on_sent: the datagram is not sent */
    /* A datagram of the server has come: @return false, and it has never come. Or NULL */
    bool (*on_got)(struct client *client, const uint8_t *data, size_t len);
    size_t got_len; /* set by on_got: this is read instead */
    uint8_t got[2048];
    size_t later_len; /* set by on_got: this comes next, as if it were a datagram */
    uint8_t later[2048];
};

/* What a client is to be; all zero but @p address is alice with her key. */
struct client_wish {
    const char *address;                                         /* "127.0.0.1:40001" */
    const char *suites;                                          /* NULL: PSK-AES128-CCM8 */
    void (*on_context)(SSL_CTX *context, struct client *client); /* or NULL */
    const char *psk_identity, *psk_key;
    const char *certificate; /* name of certificate_make() */
    const char *ca;          /* the authority that it trusts; NULL: any */
    const char *server_name;
    struct fake_peer *peer; /* of a client before it, instead of address */
    int version;            /* DTLS1_VERSION and the like; 0: what OpenSSL has */
    long mtu;               /* 0: 1232 */
};

void client_open(struct client *client, const struct client_wish *wish);
void client_close(struct client *client);

/** Starts over from the same address, as after a reboot; or resuming what is in client->resume. */
void client_restart(struct client *client);

/** Let the handshake go on until it is done or cannot be. @return whether it is done */
bool client_shake(struct client *client);

/** One step of it, without time passing. */
void client_step(struct client *client);

/** Send, and read what comes back within a second; @return its length, 0: nothing. */
size_t client_ask(struct client *client, const char *text, char *answer, size_t capacity);

/** client_open(), client_shake() and an echo, which all have to work. */
void client_must_talk(struct client *client, const char *text);

#endif
