/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a recording: errors that can be shown, or requests each of which is found again by
 * what it says, and whose options and payloads can be written so that they are read again.
 */
#include "coap/option.h"
#include "coap/words.h"
#include "conf/loader.h"
#include "conf/recording.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_error(void *context, const char *text)
{
    unsigned *count = context;
    ++*count;
    assert(strncmp(text, "r:", 2) == 0);
    for (; *text != '\0'; text++) {
        assert(*text >= 0x20 && *text < 0x7f);
    }
}

static void check_options(struct bytes options)
{
    struct option_iter iter;
    struct option option;
    struct option_word again;
    char text[4 * WORDS_VALUE_MAX + 32];
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        size_t len = option_word_format(&option, text, sizeof(text));
        assert(len > 0 && len == strlen(text));
        assert(option_word_parse((struct bytes){(const uint8_t *)text, len}, &again) == NULL);
        assert(again.number == option.number && !again.is_any);
        /* Numbers are written in their shortest form. */
        assert(option_kind(option.number) == OPTION_KIND_UINT ||
               bytes_equal((struct bytes){again.value, again.len}, option.value));
    }
}

static void check_payload(struct bytes payload)
{
    size_t capacity = 2 * payload.len + 8, len = 0;
    char *text = malloc(capacity);
    uint8_t *again = malloc(payload.len + 1);
    assert(text != NULL && again != NULL);
    size_t text_len = payload_word_format(payload, text, capacity);
    struct bytes word = {(const uint8_t *)text, text_len}, line = word, read = {0};
    assert(text_len > 0 && word_next(&line, &read) && read.len == text_len &&
           payload_word_is(read));
    assert(payload_word_parse(read, again, payload.len, &len) == NULL);
    assert(bytes_equal((struct bytes){again, len}, payload));
    free(text);
    free(again);
}

static const uint8_t data_of_none[1];

static void check_recording(const struct recording *recording)
{
    assert(recording->entry_count > 0 && recording->entry_count <= RECORDING_ENTRIES_MAX);
    for (uint32_t i = 0; i < recording->request_count; i++) {
        const struct recording_request *request = &recording->requests[i];
        const struct recording_question question = {
            .method = request->method,
            .key = request->key.data != NULL ? request->key : (struct bytes){data_of_none, 0},
            .options = request->options,
            .payload = request->payload};
        const struct recording_request *found = recording_find(recording, &question);
        assert(request->any_count > 0 || found != NULL);
        assert(request->entries[0] != RECORDING_NONE || request->entries[1] != RECORDING_NONE);
        check_options(request->options);
        check_payload(request->payload);
    }
    for (uint32_t i = 0; i < recording->entry_count; i++) {
        const struct recording_entry *entry = &recording->entries[i];
        assert(entry->count > 0 && entry->first + entry->count <= recording->answer_count);
        assert(entry->next == RECORDING_NONE ||
               (entry->next > i && entry->next < recording->entry_count));
        for (uint32_t k = 0; k < entry->count; k++) {
            const struct recording_answer *answer = &recording->answers[entry->first + k];
            assert(answer->wait_ms <= RECORDING_WAIT_MAX_MS);
            check_options(answer->options);
            check_payload(answer->payload);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct loader loader;
    static struct config_errors errors;
    unsigned count = 0;
    struct config *config = calloc(1, sizeof(*config));
    uint8_t *text = malloc(size > 0 ? size : 1); /* the sanitizer sees its end */
    assert(config != NULL && text != NULL);
    config->arena = arena_new();
    memset(&loader, 0, sizeof(loader));
    loader.config = config;
    loader.errors = &errors;
    errors.count = 0;
    loader_preset(&loader);
    loader_check_schemes(&loader);
    memcpy(text, data, size);
    struct recording *recording =
        recording_parse(&loader, "r", (struct bytes){text, size}, on_error, &count);
    free(text); /* nothing of it is borrowed */
    assert((recording == NULL) == (count > 0));
    if (recording != NULL) {
        check_recording(recording);
    }
    recording_release(recording);
    config_free(config);
    return 0;
}
