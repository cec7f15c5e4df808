/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes to the control socket: a line of JSON. */
#include "base/json.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was read, written and read again is the same. */
static void try_json(const char *line, size_t len)
{
    size_t memory_len = len + 2 * (size_t)JSON_MEMBERS_MAX;
    size_t buffer_len = 16 * len + 1024;
    char *memory = malloc(memory_len), *again_memory = malloc(buffer_len + 64);
    char *buffer = malloc(buffer_len);
    static struct json_object object, again;
    struct json_writer writer;

    assert(memory != NULL && again_memory != NULL && buffer != NULL);
    if (json_read(line, len, memory, memory_len, &object)) {
        bool is_ascii = true;
        json_writer_init(&writer, buffer, buffer_len);
        json_begin(&writer);
        for (size_t i = 0; i < object.count; i++) {
            const struct json_member *member = &object.members[i];
            json_text(&writer, member->key, member->value);
            for (const char *at = member->value; *at != '\0'; at++) {
                is_ascii = is_ascii && (unsigned char)*at < 0x80;
            }
        }
        assert(json_end(&writer));
        assert(!is_ascii || (json_read(buffer, writer.len, again_memory, buffer_len + 64, &again) &&
                             again.count == object.count));
        for (size_t i = 0; is_ascii && i < object.count; i++) {
            assert(strcmp(again.members[i].value, object.members[i].value) == 0);
        }
    }
    free(buffer);
    free(again_memory);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Of exactly that size, so that the sanitizer sees a byte too many. */
    uint8_t *copy = malloc(size > 0 ? size : 1);

    assert(copy != NULL);
    memcpy(copy, data, size);
    try_json((const char *)copy, size);
    free(copy);
    return 0;
}
