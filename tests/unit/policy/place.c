/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/test.h"

#include "policy/place.h"

#include <string.h>

static struct segments pack(const char *text, char separator, uint8_t room[300])
{
    struct segments made = {.packed = room};
    if (text == NULL || *text == '\0') {
        return made;
    }
    for (;;) {
        const char *end = strchr(text, separator);
        size_t len = end != NULL ? (size_t)(end - text) : strlen(text);
        assert_true(len <= 255 && made.len + 1 + len <= 300);
        room[made.len] = (uint8_t)len;
        memcpy(room + made.len + 1, text, len);
        made.len += 1 + (uint32_t)len;
        made.count++;
        if (end == NULL) {
            return made;
        }
        text = end + 1;
    }
}

void place_set(struct place *place, uint32_t scheme, const char *host, uint16_t port,
               const char *path, const char *query)
{
    *place = (struct place){.scheme = {.number = scheme, .default_port = 5683}};
    struct target *target = &place->target;
    target->scheme = &place->scheme;
    target->port = port;
    if (!address_parse(host, strlen(host), port, &target->address)) {
        target->is_name = true;
        target->name_len = (uint8_t)strlen(host);
        memcpy(target->name, host, strlen(host));
    }
    target->path = pack(path, '/', place->path);
    target->query = pack(query, '&', place->query);
}

struct address place_address(const char *text)
{
    struct address address;
    assert_true(address_parse(text, strlen(text), 0, &address));
    return address;
}

struct config *place_config(const char *text)
{
    static struct config_errors errors;
    const struct config_source source = {
        .file = "test.conf", .text = text, .text_len = strlen(text)};
    struct config *config = NULL;
    int error = config_load(&source, &errors, &config);
    config_errors_print(&errors, "", stderr);
    assert_int_equal(error, 0);
    return config;
}
