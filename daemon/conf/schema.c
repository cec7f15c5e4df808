/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/schema.h"

#include "conf/device.h"
#include "conf/publish.h"

#include <string.h>

/* One array of words for each WORD row; nothing for the others. */
#define WORD_TEXT(enumerator, word) word,
#define WORDS_BOOL(section, key)
#define WORDS_UINT(section, key)
#define WORDS_WORKERS(section, key)
#define WORDS_DURATION(section, key)
#define WORDS_SIZE(section, key)
#define WORDS_FACTOR(section, key)
#define WORDS_CHANCE(section, key)
#define WORDS_LIST(section, key)
#define WORDS_TEXT(section, key)
#define WORDS_TRANSPORT(section, key)
#define WORDS_WORD(section, key)                                                                   \
    static const char *const words_##section##_##key[] = {                                         \
        CONFIG_WORDS_##section##_##key(WORD_TEXT)};

#define OPTION(section, key, type, min, max, preset, reload, help) WORDS_##type(section, key)
#include "conf/access_options.def"
#include "conf/device_options.def"
#include "conf/fault_options.def"
#include "conf/limit_options.def"
#include "conf/media_options.def"
#include "conf/options.def"
#include "conf/publish_options.def"
#include "conf/route_options.def"
#include "conf/scheme_options.def"
#include "conf/upstream_options.def"
#undef OPTION

#define ROW_WORDS_BOOL(section, key) NULL, 0
#define ROW_WORDS_UINT(section, key) NULL, 0
#define ROW_WORDS_WORKERS(section, key) NULL, 0
#define ROW_WORDS_DURATION(section, key) NULL, 0
#define ROW_WORDS_SIZE(section, key) NULL, 0
#define ROW_WORDS_FACTOR(section, key) NULL, 0
#define ROW_WORDS_CHANCE(section, key) NULL, 0
#define ROW_WORDS_LIST(section, key) NULL, 0
#define ROW_WORDS_TEXT(section, key) NULL, 0
#define ROW_WORDS_TRANSPORT(section, key) words_of_transports, TRANSPORT_COUNT
#define ROW_WORDS_WORD(section, key)                                                               \
    words_##section##_##key, sizeof(words_##section##_##key) / sizeof(words_##section##_##key[0])

/* A TRANSPORT is a WORD whose words are in transport.def. */
#define CONFIG_TYPE_TRANSPORT CONFIG_TYPE_WORD

static const char *const words_of_transports[TRANSPORT_COUNT] = {
    [TRANSPORT_NONE] = "none",
#define TRANSPORT(name, word, scheme, number, port, secure, stream, websocket, http)               \
    [TRANSPORT_##name] = (word),
#include "coap/transport.def"
#undef TRANSPORT
};

#define RELOAD_LIVE true
#define RELOAD_START false

#define ROW(section, key, type, min, max, preset, reload, help, offset)                            \
    {#section,                                                                                     \
     #key,                                                                                         \
     CONFIG_TYPE_##type,                                                                           \
     min,                                                                                          \
     max,                                                                                          \
     preset,                                                                                       \
     RELOAD_##reload,                                                                              \
     help,                                                                                         \
     ROW_WORDS_##type(section, key),                                                               \
     offset},

#define OPTION(section, key, type, min, max, preset, reload, help)                                 \
    ROW(section, key, type, min, max, preset, reload, help,                                        \
        offsetof(struct config, section##_##key))

const struct config_row config_rows[CONFIG_ROW_COUNT] = {
#include "conf/options.def"
};

#undef OPTION
#define OPTION(kind, key, type, min, max, preset, reload, help)                                    \
    ROW(kind, key, type, min, max, preset, reload, help, offsetof(CONFIG_STRUCT_##kind, key))

static const struct config_row access_rows[] = {
#include "conf/access_options.def"
};

static const struct config_row device_rows[] = {
#include "conf/device_options.def"
};

static const struct config_row fault_rows[] = {
#include "conf/fault_options.def"
};

static const struct config_row limit_rows[] = {
#include "conf/limit_options.def"
};

static const struct config_row media_rows[] = {
#include "conf/media_options.def"
};

static const struct config_row publish_rows[] = {
#include "conf/publish_options.def"
};

static const struct config_row route_rows[] = {
#include "conf/route_options.def"
};

static const struct config_row scheme_rows[] = {
#include "conf/scheme_options.def"
};

static const struct config_row upstream_rows[] = {
#include "conf/upstream_options.def"
};

#undef OPTION

/* struct scheme is written out, in coap/scheme.h: its fields have the size of the rows' values. */
#define OPTION(kind, key, type, min, max, preset, reload, help)                                    \
    _Static_assert(sizeof(((struct scheme *)NULL)->key) == sizeof(uint32_t),                       \
                   "numbers, words, durations and factors are 32 bits wide");
#include "conf/scheme_options.def"
#undef OPTION

const struct config_named_kind config_named_kinds[CONFIG_NAMED_COUNT] = {
#define NAMED_KIND(KIND, kind, all, max)                                                           \
    {#kind,                                                                                        \
     kind##_rows,                                                                                  \
     sizeof(kind##_rows) / sizeof(kind##_rows[0]),                                                 \
     sizeof(CONFIG_STRUCT_##kind),                                                                 \
     max,                                                                                          \
     offsetof(struct config, all),                                                                 \
     offsetof(struct config, kind##_count)},
    CONFIG_NAMED_KINDS(NAMED_KIND)
#undef NAMED_KIND
};

#define CHECK_KIND(KIND, kind, all, max)                                                           \
    _Static_assert(offsetof(CONFIG_STRUCT_##kind, name) == 0, "the name comes first");             \
    _Static_assert((max) <= CONFIG_NAMED_MAX, "drafts have room for them");
CONFIG_NAMED_KINDS(CHECK_KIND)
#undef CHECK_KIND

struct config_key schema_key(const struct config_row *row)
{
    struct config_key key = {{0}};

    for (size_t i = 0; i + 1 < sizeof(key.text) && row->name[i] != '\0'; i++) {
        key.text[i] = row->name[i] == '_' ? '-' : row->name[i];
    }
    return key;
}

const struct config_row *schema_find(const char *section, const char *key)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        const struct config_row *row = &config_rows[i];
        if (strcmp(row->section, section) == 0 && strcmp(schema_key(row).text, key) == 0) {
            return row;
        }
    }
    return NULL;
}

const struct config_row *schema_find_named(enum config_named kind, const char *key)
{
    const struct config_named_kind *named = &config_named_kinds[kind];

    for (size_t i = 0; i < named->row_count; i++) {
        if (strcmp(schema_key(&named->rows[i]).text, key) == 0) {
            return &named->rows[i];
        }
    }
    return NULL;
}

const char *schema_preset(const struct config_row *row, enum config_proxy_size size)
{
    static const struct {
        const char *section, *name;
        const char *values[2]; /* small, large */
    } sized[] = {
#define SIZED(section, key, small, large) {#section, #key, {small, large}},
#include "conf/sizes.def"
#undef SIZED
    };

    for (size_t i = 0; i < sizeof(sized) / sizeof(sized[0]) && size != PROXY_SIZE_MEDIUM; i++) {
        if (strcmp(row->section, sized[i].section) == 0 && strcmp(row->name, sized[i].name) == 0) {
            return sized[i].values[size == PROXY_SIZE_LARGE];
        }
    }
    return row->preset;
}
