/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/loader.h"

#include "base/escape.h"

#include <string.h>

__attribute__((format(printf, 2, 0))) static void add_formatted(struct config_errors *errors,
                                                                const char *format, va_list args)
{
    if (errors->count < CONFIG_ERRORS_MAX) {
        (void)vsnprintf(errors->text[errors->count], CONFIG_ERROR_TEXT_MAX, format, args);
    }
    errors->count++;
}

/* One more error. */
__attribute__((format(printf, 2, 3))) static void config_errors_add(struct config_errors *errors,
                                                                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_formatted(errors, format, args);
    va_end(args);
}

static void format_place(const struct place *place, char *text, size_t capacity)
{
    char file[160];

    switch (place->kind) {
    case PLACE_PRESET:
        (void)snprintf(text, capacity, "configuration");
        return;
    case PLACE_SET:
        (void)snprintf(text, capacity, "--set");
        return;
    case PLACE_LISTEN:
        (void)snprintf(text, capacity, "--listen");
        return;
    case PLACE_FILE:
        escape_text(file, sizeof(file), place->file, strlen(place->file));
        if (place->line > 0) {
            (void)snprintf(text, capacity, "%s:%u", file, place->line);
        } else {
            (void)snprintf(text, capacity, "%s", file);
        }
        return;
    }
}

void loader_error(struct loader *loader, const struct place *place, const char *section,
                  const char *key, const char *format, ...)
{
    char where[200];
    char about[CONFIG_SECTION_MAX + 64] = "";
    char message[CONFIG_ERROR_TEXT_MAX - sizeof(where)];
    va_list args;

    format_place(place, where, sizeof(where));
    if (section != NULL && key != NULL) {
        (void)snprintf(about, sizeof(about), " [%s] %s:", section, key);
    } else if (section != NULL) {
        (void)snprintf(about, sizeof(about), " [%s]:", section);
    }
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    config_errors_add(loader->errors, "%s:%s %s", where, about, message);
}

const char *got_text(char buffer[GOT_MAX], const char *text, size_t len)
{
    buffer[0] = '"';
    escape_text(buffer + 1, GOT_MAX - 2, text, len);
    size_t end = strlen(buffer);
    buffer[end] = '"';
    buffer[end + 1] = '\0';
    return buffer;
}

void config_errors_print(const struct config_errors *errors, const char *prefix, FILE *out)
{
    for (size_t i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++) {
        (void)fprintf(out, "%s%s\n", prefix, errors->text[i]);
    }
    if (errors->count > CONFIG_ERRORS_MAX) {
        (void)fprintf(out, "%sand %zu more\n", prefix, errors->count - CONFIG_ERRORS_MAX);
    }
}
