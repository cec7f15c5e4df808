/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration as the daemon uses it: one immutable snapshot.
 *
 * The fields come from options.def, and for the sections that name something from
 * scheme_, route_, upstream_, access_, limit_, media_, publish_ and device_options.def. A snapshot
 * is made whole or not at all by config_load(), is never changed afterwards, and may be read by any
 * thread. A reload makes a new one.
 */
#ifndef CRIPROXY_CONFIG_H
#define CRIPROXY_CONFIG_H

#include "base/address.h"
#include "coap/scheme.h"
#include "conf/access_format.h"
#include "conf/words.h"

#include <cri/scheme.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct access;
struct address_prefix;
struct config_device;
struct config_device_proof;
struct config_own_name;
struct config_publish;
struct media_own;

/* A key that may be repeated. */
#define CONFIG_LIST_MAX 64 /* items of a LIST */

struct config_list {
    size_t count;
    const char *const *items;
};

/* A chance of 1. */
#define CHANCE_ONE 1000000u

/* The field of a key, by its type. */
#define CONFIG_FIELD_WORD(section, key, field) enum config_##section##_##key field;
#define CONFIG_FIELD_BOOL(section, key, field) bool field;
#define CONFIG_FIELD_UINT(section, key, field) uint32_t field;
#define CONFIG_FIELD_WORKERS(section, key, field) uint32_t field;  /* 0: auto */
#define CONFIG_FIELD_DURATION(section, key, field) uint32_t field; /* ms */
#define CONFIG_FIELD_SIZE(section, key, field) uint64_t field;     /* bytes */
#define CONFIG_FIELD_FACTOR(section, key, field) uint32_t field;   /* hundredths: 150 is 1.5 */
#define CONFIG_FIELD_CHANCE(section, key, field) uint32_t field;   /* of CHANCE_ONE */
#define CONFIG_FIELD_LIST(section, key, field) struct config_list field;
#define CONFIG_FIELD_TEXT(section, key, field) const char *field; /* "": not set */

/* In the structs of the named sections the field has the key's name. */
#define OPTION(section, key, type, min, max, preset, reload, help)                                 \
    CONFIG_FIELD_##type(section, key, key)

enum config_route_kind {
    ROUTE_KIND_DIRECT,
    ROUTE_KIND_REFUSE,
    ROUTE_KIND_PARENT,
    ROUTE_KIND_RECORDING,
};

/* Where a parent proxy is reached. */
struct config_parent {
    uint32_t scheme_number;
    const char *name;       /* lower case; NULL: @a address has the host */
    struct address address; /* with the port; of a name the port only */
};

struct keyring;
struct recording;
struct target_pattern;

/* Labels of routes in the metrics: 0 is no route, the last one is shared by later routes. */
#define ROUTE_LABELS 64u
#define ROUTE_LABEL_OTHER (ROUTE_LABELS - 1)

/* A [route NAME] section: where requests for some targets go. */
struct config_route {
    const char *name;
#include "conf/route_options.def"
    /* Derived from target and via. */
    enum config_route_kind kind;
    struct config_parent parent;
    uint32_t parent_index;       /* of the first route to the same parent proxy */
    struct recording *recording; /* conf/recording.h; the configuration's */
    const struct target_pattern *patterns;
    size_t pattern_count;
    uint8_t label; /* in the metrics; the server keeps it for the name */
};

/* An [upstream NAME] section: settings that differ from [upstream] for some targets. */
struct config_upstream {
    const char *name;
#include "conf/upstream_options.def"
    /* Derived from target. */
    const struct target_pattern *patterns;
    size_t pattern_count;
    /* Derived from header and header_file: "Name: value". */
    const char *const *lines;
    size_t line_count;
};

/* An [access NAME] section: which clients may use which methods on some targets. */
struct config_access {
    const char *name;
#include "conf/access_options.def"
};

/* A [limit NAME] section: limits of some clients. */
struct config_limit {
    const char *name;
#include "conf/limit_options.def"
};

/*
 * A [fault NAME] section: what goes wrong on purpose, in a lab. What these chances are of is in
 * context/faults.h.
 */
struct config_fault {
    const char *name;
#include "conf/fault_options.def"
    /* Derived from target, client and code. */
    const struct target_pattern *patterns;
    size_t pattern_count;
    const struct address_prefix *clients;
    size_t client_count;
    uint8_t answer;         /* the code; 0: none */
    uint32_t answer_chance; /* of it */
};

/* A [media N] section: a media type for a Content-Format; N is the name. */
struct config_media {
    const char *name;
#include "conf/media_options.def"
};

#undef OPTION

/* One place to listen. */
#define CONFIG_TOKEN_DIGEST_LEN 32u

/* A line of http.tokens-file. */
struct config_token {
    const char *identity;
    uint8_t digest[CONFIG_TOKEN_DIGEST_LEN]; /* SHA-256 of the token */
};

/* Where cache.shared leads, and the password. */
struct config_shared {
    const char *path;       /* of a Unix socket; NULL: */
    const char *host;       /* a name; NULL: */
    struct address address; /* with the port, which a name has, too */
    bool has_tls;
    uint32_t database;
    const char *password; /* of cache.shared-password-file, wiped with the snapshot; or NULL */
};

#define CONFIG_PEERS_MAX 32u

struct config_peer {
    uint8_t number;
    struct address address; /* with the port */
};

/* Of cluster.number and so on, parsed. */
struct config_cluster {
    struct address listen; /* ADDRESS_NONE: there are no other replicas */
    const struct config_peer *peers;
    size_t peer_count;
};

struct config_listener {
    enum transport transport;
    const char *uri; /* as it was written; for * with the address in its place */
    struct address bind;
    bool is_default;
    bool may_lack; /* a default one, or one of *: left out on a host without its family */
};

struct config {
    /* section_key, in the order of options.def */
#define OPTION(section, key, type, min, max, preset, reload, help)                                 \
    CONFIG_FIELD_##type(section, key, section##_##key)
#include "conf/options.def"
#undef OPTION

    struct access_format access_format; /* log_access_format, parsed */
    struct config_list secret_files;    /* of the configuration, with a key in them */

    const uint8_t *cluster_secret; /* the bytes of cluster.secret-file; wiped with the snapshot */
    size_t cluster_secret_len;     /* 0: there is none */

    struct config_cluster cluster;

    struct config_shared shared; /* cache.shared, parsed */

    const struct config_token *http_tokens; /* of http.tokens-file; NULL: none */
    size_t http_token_count;

    const struct config_listener *listeners; /* listen_uri, parsed */
    size_t listener_count;

    const struct scheme *schemes; /* in the order of their numbers */
    size_t scheme_count;
    struct cri_scheme_table scheme_table; /* the same rows, as libcri wants them */

    /* In the order in which the files first name them: the first that matches decides. */
    struct config_route *routes;
    size_t route_count;
    struct recording *recordings; /* of these, with a reference each */
    const struct config_upstream *upstreams;
    size_t upstream_count;
    bool has_web_credentials; /* some of these, or [upstream], may go to HTTP targets */
    const struct config_access *access_rules;
    size_t access_count;
    const struct config_limit *limits;
    size_t limit_count;
    const struct config_media *media_sections;
    size_t media_count;
    const struct media_own *media_own;      /* the same as rows of the table */
    const struct config_publish *publishes; /* conf/publish.h */
    size_t publish_count;
    const struct config_fault *faults;
    size_t fault_count;
    size_t publish_link_bytes; /* of all links, with a comma each */

    const struct config_device *devices; /* conf/device.h has these */
    size_t device_count;
    const uint32_t *devices_by_name;                 /* their indexes, sorted */
    const struct config_device_proof *device_proofs; /* what they authenticate with, sorted */
    size_t device_proof_count;
    size_t device_range_count; /* of all sections: 0: none registers over UDP */

    const struct config_own_name *own_names; /* proxy.names, parsed */
    size_t own_name_count;

    struct keyring *keyring;     /* fetch/keyring.h: loaded later, the snapshot's; or NULL */
    const struct access *access; /* policy/access.h: these, and the section policy, compiled */

    struct config_arena *arena; /* owns everything that is pointed to */
};

/* Where a configuration comes from; later ones win: text or file, set, listen. */
struct config_source {
    const char *file;        /* NULL: none */
    const char *text;        /* instead of file, for tests: the contents; or NULL */
    size_t text_len;         /* bytes of text */
    const char *const *sets; /* SECTION.KEY=VALUE */
    size_t set_count;
    const char *const *listens; /* replace listen.uri */
    size_t listen_count;
};

/* More errors than this are counted, not kept. */
#define CONFIG_ERRORS_MAX 20
#define CONFIG_ERROR_TEXT_MAX 640

/* The errors in a configuration, one line each: "FILE:LINE: [section] key: ..." */
struct config_errors {
    size_t count; /* all of them; only the first CONFIG_ERRORS_MAX have text */
    char text[CONFIG_ERRORS_MAX][CONFIG_ERROR_TEXT_MAX];
};

/**
 * Read, check and freeze a configuration.
 *
 * @param source NULL gives the built-in defaults.
 * @return 0; -EINVAL with @p ret_errors filled; -ENOMEM. Free with config_free().
 */
int config_load(const struct config_source *source, struct config_errors *ret_errors,
                struct config **ret_config);

/** Frees the snapshot, which no thread may use any more; takes NULL. */
void config_free(struct config *config);

/** Every error on a line of its own, and how many were left out. */
void config_errors_print(const struct config_errors *errors, const char *prefix, FILE *out);

/** The row with @p number, or NULL. */
const struct scheme *config_scheme_by_number(const struct config *config, uint64_t number);

/**
 * Whether a key of @p fault can have no effect with this configuration, since no listener, or no
 * target of it, has a transport that the key is for. Borrows both; the fault may be of another
 * configuration.
 *
 * @param ret_why which key, and why, in words, cut to @p capacity bytes; written where true.
 */
bool config_fault_is_idle(const struct config *config, const struct config_fault *fault,
                          char *ret_why, size_t capacity);

/**
 * The configuration that a reload can use: @p fresh with every START key put back to what @p
 * running has.
 *
 * @param on_kept called for each key that differs and needs a restart; may be NULL.
 * @return 0 or -ENOMEM; @p fresh stays the caller's, and is changed.
 */
int config_keep_started(struct config *fresh, const struct config *running,
                        void (*on_kept)(void *context, const char *key), void *context);

#endif
