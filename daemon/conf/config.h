/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration as the daemon uses it: one immutable snapshot.
 *
 * The fields come from options.def and scheme_options.def. A snapshot is made
 * whole or not at all by config_load(), is never changed afterwards, and may be
 * read by any thread. A reload makes a new one.
 */
#ifndef CRIPROXY_CONFIG_H
#define CRIPROXY_CONFIG_H

#include "conf/words.h"
#include "net/address.h"

#include <cri/scheme.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A key that may be repeated. */
struct config_list {
    size_t count;
    const char *const *items;
};

/* One row of the schemes: built in, changed or added by a [scheme NAME] section. */
struct config_scheme {
    const char *name; /* lower case */
    uint32_t number;
    uint32_t default_port; /* 0: none */
    enum config_scheme_transport transport;
    enum config_scheme_congestion_control congestion_control;
    uint32_t nstart; /* initial window; 1 where congestion control is fixed */
    uint32_t nstart_max;
    uint32_t ack_timeout;       /* ms */
    uint32_t ack_random_factor; /* hundredths: 150 is 1.5 */
    uint32_t max_retransmit;
    /* Derived as in RFC 7252 section 4.8.2 (MSG-28, MSG-29); ms. */
    uint32_t max_transmit_span;
    uint32_t max_transmit_wait;
    uint32_t exchange_lifetime;
    uint32_t non_lifetime;
};

enum config_listener_kind {
    LISTENER_COAP,
    LISTENER_COAPS,
    LISTENER_COAP_TCP,
    LISTENER_COAPS_TCP,
    LISTENER_COAP_WS,
    LISTENER_COAPS_WS,
};

/* One place to listen. */
struct config_listener {
    enum config_listener_kind kind;
    const char *uri; /* as it was written */
    struct address bind;
    bool is_default; /* nobody asked for it: may go missing where the host has no IPv6 */
};

struct config {
    /* section_key, in the order of options.def */
#define CONFIG_DECLARE_WORD(section, key) enum config_##section##_##key section##_##key;
#define CONFIG_DECLARE_BOOL(section, key) bool section##_##key;
#define CONFIG_DECLARE_UINT(section, key) uint32_t section##_##key;
#define CONFIG_DECLARE_WORKERS(section, key) uint32_t section##_##key;  /* 0: auto */
#define CONFIG_DECLARE_DURATION(section, key) uint32_t section##_##key; /* ms */
#define CONFIG_DECLARE_SIZE(section, key) uint64_t section##_##key;     /* bytes */
#define CONFIG_DECLARE_FACTOR(section, key) uint32_t section##_##key;   /* hundredths */
#define CONFIG_DECLARE_LIST(section, key) struct config_list section##_##key;
#define CONFIG_DECLARE_TEXT(section, key) const char *section##_##key; /* "": not set */
#define OPTION(section, key, type, min, max, def, reload, help) CONFIG_DECLARE_##type(section, key)
#include "conf/options.def"
#undef OPTION

    const struct config_listener *listeners; /* listen_uri, parsed */
    size_t listener_count;

    const struct config_scheme *schemes; /* in the order of their numbers */
    size_t scheme_count;
    struct cri_scheme_table scheme_table; /* the same rows, as libcri wants them */

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
#define CONFIG_ERROR_TEXT_MAX 512

/* What is wrong with a configuration: one line each, "FILE:LINE: [section] key: ..." */
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

/** Takes NULL. */
void config_free(struct config *config);

/** Every error on a line of its own, and how many were left out. */
void config_errors_print(const struct config_errors *errors, FILE *out);

/** As in "coap+tcp". */
const char *config_listener_scheme(enum config_listener_kind kind);

/** The row with @p number, or NULL. */
const struct config_scheme *config_scheme_by_number(const struct config *config, uint64_t number);

/** A few lines for people: what is listened on, schemes that are served, workers. */
void config_print_summary(const struct config *config, FILE *out);

/**
 * What a reload can take over: @p fresh with every START key, and the listeners,
 * put back to what @p running has.
 *
 * @param on_kept called for each key that differs and needs a restart; may be NULL.
 * @return 0 or -ENOMEM; @p fresh stays the caller's, and is changed.
 */
int config_keep_started(struct config *fresh, const struct config *running,
                        void (*on_kept)(void *context, const char *key), void *context);

#endif
