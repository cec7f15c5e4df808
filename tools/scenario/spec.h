/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages as a scenario writes them: what is to be sent, or what is expected. The words are
 * those of docs/SCENARIOS.md.
 */
#ifndef SCENARIO_SPEC_H
#define SCENARIO_SPEC_H

#include "names.h"
#include "pool.h"
#include "wire.h"

enum {
    SPEC_CODES_MAX = 8,
    SPEC_OPTIONS_MAX = 256,
    SPEC_CAPTURES_MAX = 64,
};

enum value_kind {
    VALUE_UNSAID,
    VALUE_EXACT,
    VALUE_CONTAINS, /* somewhere in it */
    VALUE_ANY,
    VALUE_RANGE,   /* as an unsigned integer */
    VALUE_CAPTURE, /* the first time it is kept, later it is the same */
    VALUE_ABSENT,
};

struct value {
    enum value_kind kind;
    struct wire_bytes bytes;
    uint64_t low, high;
    const char *capture; /* or NULL: none, only what follows */
    char relation;       /* '!': differs from other; '>': a larger integer; 0: nothing */
    const char *other;
};

struct spec_option {
    uint32_t number;
    struct value value;
};

/* How a request names its target where a scenario only writes a URI. */
enum spec_form {
    SPEC_PROXY_CRI,
    SPEC_PROXY_URI,
    SPEC_PROXY_SCHEME,
    SPEC_PROXY_SCHEME_NUMBER,
    SPEC_FORMS,
};

extern const char *const spec_form_names[SPEC_FORMS]; /* "Proxy-Cri", ... */

struct spec {
    bool is_nothing, is_closed, is_again, is_slow, is_rest;
    bool has_type, has_path, has_time;
    bool is_bytes; /* payload.bytes is a text: hex, "?" and "..." */
    enum wire_type type;
    size_t code_count;
    uint8_t codes[SPEC_CODES_MAX];
    bool is_class[SPEC_CODES_MAX]; /* any code of that class */
    struct value mid, token, payload;
    size_t option_count;
    struct spec_option options[SPEC_OPTIONS_MAX];
    const char *host;                       /* that Uri-Host names, beside a path, or NULL */
    const char *label;                      /* of the exchange that it belongs to, or NULL */
    unsigned long long after_ms, within_ms; /* with has_time */
};

struct captures {
    size_t count;
    struct {
        const char *name;
        struct wire_bytes bytes;
    } at[SPEC_CAPTURES_MAX];
};

/**
 * Read the @p count @p words of a message. @p form is what a bare URI becomes.
 *
 * @return NULL, or what is wrong, in @p pool.
 */
const char *spec_parse(struct pool *pool, char **words, size_t count, enum spec_form form,
                       struct spec *ret_spec);

/**
 * What of @p spec is an option, code or payload, for sending. Head and token are the caller's.
 *
 * @return NULL, or what cannot be sent.
 */
const char *spec_fill(struct pool *pool, const struct spec *spec, const struct captures *captures,
                      struct wire_message *message);

/** Resolve @p value to the bytes that are sent. @return NULL, or why it has none. */
const char *value_bytes(struct pool *pool, const struct value *value,
                        const struct captures *captures, struct wire_bytes *ret_bytes);

/**
 * Whether @p bytes are what @p value asks for, which may be kept in @p captures.
 *
 * @return NULL, or "expected X, got Y".
 */
const char *value_match(struct pool *pool, const struct value *value, struct captures *captures,
                        struct wire_bytes bytes, enum value_format format);

/**
 * Compare code, options and payload. With @p is_loose options that are not written are passed over.
 *
 * @return NULL, or what differs.
 */
const char *spec_match(struct pool *pool, const struct spec *spec, struct captures *captures,
                       const struct wire_message *message, bool is_loose);

/** Whether the hex pattern @p pattern is all of @p bytes (or, with @p is_prefix, their beginning).
 * @return bytes that it covers, or SIZE_MAX. */
size_t spec_match_bytes(const char *pattern, struct wire_bytes bytes, bool is_prefix);

/** Bytes of @p hex; @return NULL where it is none. */
const char *spec_hex(struct pool *pool, const char *hex, struct wire_bytes *ret_bytes);

/** The message in the words of a scenario. */
const char *spec_show(struct pool *pool, const struct wire_message *message);

/** Bytes in hex. */
const char *spec_show_bytes(struct pool *pool, struct wire_bytes bytes);

#endif
