/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configuration files and --set arguments. An input that begins with "S\n" is one
 * --set argument a line, any other is a file.
 *
 * Whatever comes in: a whole snapshot, or at least one error that can be shown.
 */
#include "conf/config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETS_MAX 64

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_errors(const struct config_errors *errors)
{
    for (size_t i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++) {
        const char *text = errors->text[i];
        size_t len = strnlen(text, CONFIG_ERROR_TEXT_MAX);
        assert(len > 0 && len < CONFIG_ERROR_TEXT_MAX);
        for (size_t k = 0; k < len; k++) {
            assert(text[k] >= 0x20 && text[k] < 0x7f);
        }
    }
}

static void check_config(const struct config *config)
{
    assert(config->listener_count > 0);
    for (size_t i = 0; i < config->scheme_count; i++) {
        const struct scheme *scheme = &config->schemes[i];
        assert(i == 0 || config->schemes[i - 1].number < scheme->number);
        assert(scheme->nstart >= 1 && scheme->nstart <= scheme->nstart_max);
        assert(scheme->max_transmit_span <= scheme->max_transmit_wait);
        assert(scheme->exchange_lifetime >= scheme->non_lifetime);
        assert(config_scheme_by_number(config, scheme->number) == scheme);
    }
}

static void load(const struct config_source *source)
{
    static struct config_errors errors;
    struct config *config = NULL;
    int error = config_load(source, &errors, &config);

    assert(error == 0 ? errors.count == 0 : error == -EINVAL && errors.count > 0);
    check_errors(&errors);
    if (error == 0) {
        check_config(config);
        config_free(config);
    }
}

/* One argument a line, in place. */
static void load_sets(char *text)
{
    const char *sets[SETS_MAX];
    size_t count = 0;

    while (text != NULL && count < SETS_MAX) {
        char *newline = strchr(text, '\n');
        if (newline != NULL) {
            *newline = '\0';
            newline++;
        }
        sets[count++] = text;
        text = newline;
    }
    const struct config_source source = {.sets = sets, .set_count = count};
    load(&source);
}

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); /* exactly as long as it is: the sanitizer sees its end */

    if (text == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    if (size >= 2 && memcmp(text, "S\n", 2) == 0) {
        load_sets(text + 2);
    } else {
        char *exact = realloc(text, size > 0 ? size : 1);
        if (exact != NULL) {
            text = exact;
        }
        const struct config_source source = {.text = text, .text_len = size};
        load(&source);
    }
    free(text);
    return 0;
}
