/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/schema.h"

#include "conf/config.h"

#include <string.h>

/* One array of words for each WORD row; nothing for the others. */
#define WORD_TEXT(enumerator, word) word,
#define WORDS_BOOL(section, key)
#define WORDS_UINT(section, key)
#define WORDS_WORKERS(section, key)
#define WORDS_DURATION(section, key)
#define WORDS_SIZE(section, key)
#define WORDS_FACTOR(section, key)
#define WORDS_LIST(section, key)
#define WORDS_TEXT(section, key)
#define WORDS_WORD(section, key)                                                                   \
    static const char *const words_##section##_##key[] = {                                         \
        CONFIG_WORDS_##section##_##key(WORD_TEXT)};

#define OPTION(section, key, type, min, max, preset, reload, help) WORDS_##type(section, key)
#include "conf/options.def"
#undef OPTION
#define SCHEME_OPTION(key, type, min, max, preset, reload, help) WORDS_##type(scheme, key)
#include "conf/scheme_options.def"
#undef SCHEME_OPTION

#define ROW_WORDS_BOOL(section, key) NULL, 0
#define ROW_WORDS_UINT(section, key) NULL, 0
#define ROW_WORDS_WORKERS(section, key) NULL, 0
#define ROW_WORDS_DURATION(section, key) NULL, 0
#define ROW_WORDS_SIZE(section, key) NULL, 0
#define ROW_WORDS_FACTOR(section, key) NULL, 0
#define ROW_WORDS_LIST(section, key) NULL, 0
#define ROW_WORDS_TEXT(section, key) NULL, 0
#define ROW_WORDS_WORD(section, key)                                                               \
    words_##section##_##key, sizeof(words_##section##_##key) / sizeof(words_##section##_##key[0])

#define RELOAD_LIVE true
#define RELOAD_START false

const struct config_row config_rows[CONFIG_ROW_COUNT] = {
#define OPTION(section, key, type, min, max, preset, reload, help)                                 \
    {#section,                                                                                     \
     #key,                                                                                         \
     CONFIG_TYPE_##type,                                                                           \
     min,                                                                                          \
     max,                                                                                          \
     preset,                                                                                       \
     RELOAD_##reload,                                                                              \
     help,                                                                                         \
     ROW_WORDS_##type(section, key),                                                               \
     offsetof(struct config, section##_##key)},
#include "conf/options.def"
#undef OPTION
};

const struct config_row config_scheme_rows[CONFIG_SCHEME_ROW_COUNT] = {
#define SCHEME_OPTION(key, type, min, max, preset, reload, help)                                   \
    {"scheme",                                                                                     \
     #key,                                                                                         \
     CONFIG_TYPE_##type,                                                                           \
     min,                                                                                          \
     max,                                                                                          \
     preset,                                                                                       \
     RELOAD_##reload,                                                                              \
     help,                                                                                         \
     ROW_WORDS_##type(scheme, key),                                                                \
     offsetof(struct config_scheme, key)},
#include "conf/scheme_options.def"
#undef SCHEME_OPTION
};

struct config_key schema_key(const struct config_row *row)
{
    struct config_key key = {{0}};

    for (size_t i = 0; i + 1 < sizeof(key.text) && row->name[i] != '\0'; i++) {
        key.text[i] = row->name[i] == '_' ? '-' : row->name[i];
    }
    return key;
}

bool schema_has_section(const char *section)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        if (strcmp(config_rows[i].section, section) == 0) {
            return true;
        }
    }
    return false;
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

const struct config_row *schema_find_scheme_key(const char *key)
{
    for (size_t i = 0; i < CONFIG_SCHEME_ROW_COUNT; i++) {
        if (strcmp(schema_key(&config_scheme_rows[i]).text, key) == 0) {
            return &config_scheme_rows[i];
        }
    }
    return NULL;
}
