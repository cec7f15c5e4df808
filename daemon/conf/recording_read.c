/* SPDX-License-Identifier: BSD-2-Clause */
/* How a recording is read: lines of requests and answers, in the words of coap/words.h. */
#include "conf/recording.h"

#include "base/arena.h"
#include "base/escape.h"
#include "base/hash.h"
#include "coap/method.h"
#include "coap/observe.h"
#include "coap/option.h"
#include "coap/target.h"
#include "coap/words.h"
#include "conf/loader.h"
#include "policy/pattern.h"

#include <cri/cri.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Of one request or answer. */
#define RECORDING_OPTIONS_MAX 32u
#define ENCODED_OPTIONS_MAX 8192u

#define RECORDING_URI_MAX 4096u

/* Else no file of 2 GiB is opened, and none whose number needs 64 bits (cmake/ProjectFlags). */
_Static_assert(sizeof(off_t) == 8, "sizes of files have 64 bits on every processor");

/* More errors of one file are not told. */
#define RECORDING_ERRORS_MAX 10u

/* --- reading ---------------------------------------------------------------- */

enum part {
    PART_NONE,
    PART_REQUEST,
    PART_ANSWER,
};

/* The request or answer that is being read. */
struct part_draft {
    enum part part;
    uint32_t line;
    uint8_t code; /* the method, or that of the answer */
    bool is_nothing, has_observe, takes_rest, has_key;
    struct option_word options[RECORDING_OPTIONS_MAX];
    size_t option_count;
    uint8_t key[RECORDING_KEY_MAX];
    size_t key_len, payload_len, payload_max;
    uint8_t *payload; /* room for that much: no payload is longer than the text */
};

struct reading {
    struct loader *loader;
    struct recording *recording;
    char path[160]; /* printable */
    uint32_t line;
    unsigned errors;
    uint64_t wait_ms; /* since the line before */
    bool observes;    /* the request that was read last */
    bool is_lost;     /* there was an error in it: what follows of it is passed over */
    void (*report)(void *context, const char *text);
    void *context;
    struct part_draft draft;
};

static void reading_error(struct reading *reading, const char *wrong, struct bytes got)
{
    char text[512], shown[GOT_MAX];
    size_t len = got.len < 32 ? got.len : 32;
    if (reading->errors++ < RECORDING_ERRORS_MAX) {
        (void)snprintf(text, sizeof(text), "%s:%u: %s%s%s", reading->path, reading->line, wrong,
                       got.data != NULL ? ", got " : "",
                       got.data != NULL ? got_text(shown, (const char *)got.data, len) : "");
        reading->report(reading->context, text);
    }
}

static const struct bytes no_word;

/* Bytes in the arena; an empty one has data as well. */
static struct bytes keep_in_arena(struct reading *reading, const void *bytes, size_t len)
{
    uint8_t *copy = arena_alloc(reading->recording->arena, len + 1);
    if (copy == NULL) {
        reading->loader->no_memory = true;
        return no_word;
    }
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return (struct bytes){copy, len};
}

/* The options that were read, encoded in the arena, in the order of their numbers. */
static struct bytes keep_draft_options(struct reading *reading)
{
    const struct part_draft *draft = &reading->draft;
    uint8_t buffer[ENCODED_OPTIONS_MAX];
    struct message_writer writer;
    uint32_t from = 0;
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_CON, CODE_EMPTY, 0, no_word);
    for (size_t taken = 0; taken < draft->option_count;) {
        uint32_t next = UINT32_MAX;
        for (size_t i = 0; i < draft->option_count; i++) {
            const struct option_word *option = &draft->options[i];
            if (option->number == from && !option->is_any) {
                message_writer_option(&writer, option->number,
                                      (struct bytes){option->value, option->len});
            }
            taken += option->number == from;
            next = option->number > from && option->number < next ? option->number : next;
        }
        from = next;
    }
    if (writer.overflow) {
        reading_error(reading, "too many options", no_word);
        return no_word;
    }
    return keep_in_arena(reading, buffer + MESSAGE_HEADER_LEN, writer.len - MESSAGE_HEADER_LEN);
}

static void keep_any(struct reading *reading, struct recording_request *request)
{
    const struct part_draft *draft = &reading->draft;
    uint16_t numbers[RECORDING_OPTIONS_MAX];
    for (size_t i = 0; i < draft->option_count; i++) {
        if (draft->options[i].is_any) {
            numbers[request->any_count++] = draft->options[i].number;
        }
    }
    request->any = (const uint16_t *)(const void *)keep_in_arena(
                       reading, numbers, request->any_count * sizeof(numbers[0]))
                       .data;
}

static uint64_t hash_request(const struct recording_request *request)
{
    uint64_t hash = hash_bytes(request->options.data, request->options.len, request->takes_rest);
    hash = hash_bytes(request->payload.data, request->payload.len, hash);
    return hash_bytes((const uint8_t *)request->any, request->any_count * sizeof(uint16_t), hash);
}

static bool requests_equal(const struct recording_request *a, const struct recording_request *b)
{
    return a->hash == b->hash && a->method == b->method && bytes_equal(a->key, b->key) &&
           (a->key.data == NULL) == (b->key.data == NULL) && a->takes_rest == b->takes_rest &&
           bytes_equal(a->options, b->options) && bytes_equal(a->payload, b->payload) &&
           a->any_count == b->any_count &&
           (a->any_count == 0 || memcmp(a->any, b->any, a->any_count * sizeof(uint16_t)) == 0);
}

/* The request that was there before, or the new one, in its bucket. */
static struct recording_request *intern_request(struct recording *recording,
                                                const struct recording_request *made)
{
    uint32_t *at = recording_bucket(recording, made->method, made->key);
    while (*at != RECORDING_NONE) {
        if (requests_equal(&recording->requests[*at], made)) {
            return &recording->requests[*at];
        }
        at = &recording->requests[*at].next;
    }
    *at = recording->request_count++;
    recording->requests[*at] = *made;
    return &recording->requests[*at];
}

static void finish_request(struct reading *reading)
{
    const struct part_draft *draft = &reading->draft;
    struct recording *recording = reading->recording;
    struct recording_request made = {.method = draft->code,
                                     .takes_rest = draft->takes_rest,
                                     .next = RECORDING_NONE,
                                     .entries = {RECORDING_NONE, RECORDING_NONE},
                                     .last = {RECORDING_NONE, RECORDING_NONE}};
    made.options = keep_draft_options(reading);
    made.payload = keep_in_arena(reading, draft->payload, draft->payload_len);
    made.key = draft->has_key ? keep_in_arena(reading, draft->key, draft->key_len) : no_word;
    keep_any(reading, &made);
    made.hash = hash_request(&made);
    reading->observes = draft->has_observe;
    if (reading->loader->no_memory) {
        return;
    }
    struct recording_request *request = intern_request(recording, &made);
    uint32_t number = recording->entry_count++;
    recording->entries[number] = (struct recording_entry){
        .line = draft->line, .next = RECORDING_NONE, .first = recording->answer_count};
    uint32_t *last = &request->last[draft->has_observe];
    *(*last == RECORDING_NONE ? &request->entries[draft->has_observe]
                              : &recording->entries[*last].next) = number;
    *last = number;
}

static void finish_answer(struct reading *reading)
{
    const struct part_draft *draft = &reading->draft;
    struct recording *recording = reading->recording;
    struct recording_entry *entry = &recording->entries[recording->entry_count - 1];
    if (entry->count > 0 && !reading->observes) {
        reading_error(reading, "a second answer: only a request with observe=0 has several",
                      no_word);
        return;
    }
    recording->answers[recording->answer_count++] = (struct recording_answer){
        .wait_ms = (uint32_t)reading->wait_ms,
        .code = draft->is_nothing ? CODE_EMPTY : draft->code,
        .has_observe = draft->has_observe,
        .options = keep_draft_options(reading),
        .payload = keep_in_arena(reading, draft->payload, draft->payload_len),
    };
    entry->count++;
    reading->wait_ms = 0;
}

/* What was read is whole now. */
static void finish_part(struct reading *reading)
{
    enum part part = reading->draft.part;
    reading->draft.part = PART_NONE;
    if (part == PART_REQUEST) {
        finish_request(reading);
    } else if (part == PART_ANSWER) {
        finish_answer(reading);
    }
}

static void begin_part(struct reading *reading, enum part part)
{
    struct part_draft *draft = &reading->draft;
    draft->part = part;
    draft->line = reading->line;
    draft->is_nothing = draft->has_observe = draft->takes_rest = draft->has_key = false;
    draft->option_count = 0;
    draft->key_len = 0;
    draft->payload_len = 0;
}

/* The rest of it is not looked at, nor what belongs to it. */
static void lose_part(struct reading *reading, const char *wrong, struct bytes got)
{
    reading_error(reading, wrong, got);
    reading->is_lost = true;
    reading->draft.part = PART_NONE;
}

/* --- words ------------------------------------------------------------------ */

/* The CRI of "hex:8200". */
static bool decode_hex_cri(struct bytes word, uint8_t *encoded, size_t capacity,
                           struct cri *ret_cri)
{
    size_t len = 0;
    return payload_word_parse(word, encoded, capacity, &len) == NULL &&
           cri_decode((struct cri_slice){encoded, len}, NULL, ret_cri, NULL) == CRI_OK;
}

static const char *take_recorded_target(struct reading *reading, struct bytes word)
{
    struct part_draft *draft = &reading->draft;
    uint8_t encoded[RECORDING_URI_MAX];
    char uri[RECORDING_URI_MAX];
    struct target target = {.form = TARGET_FORM_NONE};
    struct cri cri;
    if (word_is(word, "*")) {
        return NULL;
    }
    if (word.len >= sizeof(uri) || memchr(word.data, '\0', word.len) != NULL) {
        return "expected a URI, a CRI in hexadecimal, or *";
    }
    memcpy(uri, word.data, word.len);
    uri[word.len] = '\0';
    bool is_cri = strncmp(uri, "hex:", 4) == 0;
    if (is_cri ? !decode_hex_cri(word, encoded, sizeof(encoded), &cri)
               : !loader_read_uri(reading->loader, uri, encoded, sizeof(encoded), &cri)) {
        return "expected a URI, a CRI in hexadecimal, or *";
    }
    const char *wrong = loader_target_of(reading->loader, &cri, &target);
    if (wrong != NULL) {
        return wrong;
    }
    draft->key_len = recording_key(&target, draft->key);
    draft->has_key = true;
    return draft->key_len > 0 ? NULL : "a target that is too long";
}

/* NULL, or why a request or an answer of a recording has no such option. */
static const char *reason_against_option(const struct part_draft *draft,
                                         const struct option_word *option)
{
    const struct option_row *row = option_row(option->number);
    bool is_piece = option_is_of_piece(option->number) || option->number == OPTION_block1 ||
                    option->number == OPTION_size1;
    if (is_piece) {
        return "a recording has whole bodies: no options of blocks";
    }
    if (draft->part == PART_ANSWER) {
        return option->is_any                                       ? "* is for requests"
               : row != NULL && row->in_response == OPTION_USE_NONE ? "an option of requests"
                                                                    : NULL;
    }
    return option_selects(option->number) ? NULL : "an option that selects no answer";
}

static const char *take_observe(struct part_draft *draft, const struct option_word *option)
{
    bool is_register = option->len == 0 && !option->is_any;
    draft->has_observe = true;
    return draft->part == PART_ANSWER || is_register ? NULL : "expected observe=0";
}

static const char *take_option_word(struct part_draft *draft, struct bytes word)
{
    struct option_word *option = &draft->options[draft->option_count];
    if (draft->option_count == RECORDING_OPTIONS_MAX) {
        return "too many options";
    }
    if (word_is(word, "observe=*") && draft->part == PART_ANSWER) {
        draft->has_observe = true;
        return NULL;
    }
    const char *wrong = option_word_parse(word, option);
    if (wrong != NULL) {
        return wrong;
    }
    if (option->number == OPTION_observe) {
        return take_observe(draft, option);
    }
    wrong = reason_against_option(draft, option);
    draft->option_count += wrong == NULL;
    return wrong;
}

/* A further word of a request or answer. */
static const char *take_part_word(struct part_draft *draft, struct bytes word)
{
    size_t len = 0;
    if (draft->is_nothing) {
        return "nothing stands alone";
    }
    if (payload_word_is(word)) {
        const char *wrong = payload_word_parse(word, draft->payload + draft->payload_len,
                                               draft->payload_max - draft->payload_len, &len);
        draft->payload_len += wrong == NULL ? len : 0;
        return wrong;
    }
    if (draft->part == PART_REQUEST && word_is(word, "...")) {
        draft->takes_rest = true;
        return NULL;
    }
    return take_option_word(draft, word);
}

static void take_part_words(struct reading *reading, struct bytes *line)
{
    struct bytes word;
    while (!reading->is_lost && word_next(line, &word)) {
        const char *wrong = take_part_word(&reading->draft, word);
        if (wrong != NULL) {
            lose_part(reading, wrong, word);
        }
    }
}

static bool parse_answer_code(struct bytes word, uint8_t *ret_code)
{
    const uint8_t *c = word.data;
    bool is_code = word.len == 4 && c[1] == '.' && (c[0] == '2' || c[0] == '4' || c[0] == '5') &&
                   c[2] >= '0' && c[2] <= '3' && c[3] >= '0' && c[3] <= '9';
    unsigned detail = is_code ? (unsigned)(c[2] - '0') * 10 + (unsigned)(c[3] - '0') : 0;
    if (!is_code || detail > 31) {
        return false;
    }
    *ret_code = CODE((unsigned)(c[0] - '0'), detail);
    return true;
}

/* Milliseconds of "+35ms", the sign included. */
static bool parse_wait(struct bytes word, uint64_t *ret_ms)
{
    static const struct {
        const char *name;
        uint32_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
    uint64_t value = 0;
    size_t i = 1;
    for (; i < word.len && word.data[i] >= '0' && word.data[i] <= '9'; i++) {
        value = value * 10 + (uint64_t)(word.data[i] - '0');
        if (value > RECORDING_WAIT_MAX_MS) {
            return false;
        }
    }
    struct bytes unit = {word.data + i, word.len - i};
    for (size_t u = 0; i > 1 && u < sizeof(units) / sizeof(units[0]); u++) {
        if (word_is(unit, units[u].name)) {
            *ret_ms = value * units[u].ms;
            return *ret_ms <= RECORDING_WAIT_MAX_MS;
        }
    }
    return false;
}

/* --- lines ------------------------------------------------------------------ */

static bool is_unanswered(const struct recording *recording)
{
    return recording->entry_count > 0 && recording->entries[recording->entry_count - 1].count == 0;
}

static void take_request_line(struct reading *reading, struct bytes *line)
{
    struct bytes method = no_word, target = no_word;
    if (is_unanswered(reading->recording) && !reading->is_lost) {
        reading_error(reading, "the request before has no answer", no_word);
    }
    reading->is_lost = false;
    reading->wait_ms = 0;
    if (reading->recording->entry_count == RECORDING_ENTRIES_MAX) {
        lose_part(reading, "too many requests", no_word);
        return;
    }
    begin_part(reading, PART_REQUEST);
    bool has_method = word_next(line, &method);
    reading->draft.code =
        has_method ? method_find((const char *)method.data, method.len) : CODE_EMPTY;
    if (reading->draft.code == CODE_EMPTY) {
        lose_part(reading, "expected a method", method);
        return;
    }
    const char *wrong =
        word_next(line, &target) ? take_recorded_target(reading, target) : "expected a target";
    if (wrong != NULL) {
        lose_part(reading, wrong, target);
        return;
    }
    take_part_words(reading, line);
}

static void take_answer_line(struct reading *reading, struct bytes *line)
{
    struct bytes code;
    if (reading->is_lost) {
        return;
    }
    if (reading->recording->entry_count == 0) {
        lose_part(reading, "an answer without a request", no_word);
        return;
    }
    begin_part(reading, PART_ANSWER);
    if (!word_next(line, &code)) {
        lose_part(reading, "expected a code, such as 2.05, or nothing", no_word);
        return;
    }
    reading->draft.is_nothing = word_is(code, "nothing");
    if (!reading->draft.is_nothing && !parse_answer_code(code, &reading->draft.code)) {
        lose_part(reading, "expected a code, such as 2.05, or nothing", code);
        return;
    }
    take_part_words(reading, line);
}

static void take_wait_line(struct reading *reading, struct bytes word)
{
    uint64_t ms = 0;
    if (!parse_wait(word, &ms)) {
        reading_error(reading, "expected a time, such as +35ms or +5s, 30 days at most", word);
    }
    reading->wait_ms += ms;
    if (reading->wait_ms > RECORDING_WAIT_MAX_MS) {
        reading->wait_ms = 0;
        reading_error(reading, "more than 30 days in all", word);
    }
}

/* A line that begins in the first column, comments aside. */
static void take_whole_line(struct reading *reading, struct bytes line)
{
    struct bytes word;
    if (!word_next(&line, &word)) {
        return;
    }
    finish_part(reading);
    if (word_is(word, ">")) {
        take_request_line(reading, &line);
    } else if (word_is(word, "<")) {
        take_answer_line(reading, &line);
    } else if (word.data[0] == '+') {
        take_wait_line(reading, word);
        if (word_next(&line, &word)) {
            reading_error(reading, "a time stands alone", word);
        }
    } else {
        reading_error(reading, "expected a line that begins with >, < or +", word);
    }
}

static void take_recorded_line(struct reading *reading, struct bytes line)
{
    struct bytes rest = line, word;
    if (line.len > RECORDING_LINE_MAX) {
        reading_error(reading, "a line that is too long", no_word);
    } else if (line.len > 0 && (line.data[0] == ' ' || line.data[0] == '\t')) {
        bool is_empty = !word_next(&rest, &word);
        if (!is_empty && reading->draft.part == PART_NONE && !reading->is_lost) {
            reading_error(reading, "an indented line belongs to none", word);
        } else if (reading->draft.part != PART_NONE) {
            take_part_words(reading, &line);
        }
    } else {
        take_whole_line(reading, line);
    }
}

static void take_recorded_lines(struct reading *reading, struct bytes text)
{
    while (text.len > 0 && !reading->loader->no_memory) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.data);
        size_t whole = len + (end != NULL);
        reading->line++;
        take_recorded_line(reading, (struct bytes){text.data, len});
        text.data += whole;
        text.len -= whole;
    }
    finish_part(reading);
    if (is_unanswered(reading->recording) && !reading->is_lost) {
        reading_error(reading, "the request before has no answer", no_word);
    }
}

/* --- the file --------------------------------------------------------------- */

static size_t count_lines(struct bytes text, uint8_t first)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++) {
        count += text.data[i] == first && (i == 0 || text.data[i - 1] == '\n');
    }
    return count;
}

/* Room for as much as such a text can have; NULL without memory. */
static struct recording *recording_new(struct bytes text)
{
    size_t entries = count_lines(text, '>'), answers = count_lines(text, '<');
    struct recording *recording = calloc(1, sizeof(*recording));
    if (recording == NULL) {
        return NULL;
    }
    entries = entries < RECORDING_ENTRIES_MAX ? entries : RECORDING_ENTRIES_MAX;
    recording->references = 1;
    recording->bucket_count = (uint32_t)(entries / 2 + 1);
    recording->arena = arena_new();
    if (recording->arena != NULL) {
        struct config_arena *arena = recording->arena;
        recording->requests = arena_alloc(arena, (entries + 1) * sizeof(struct recording_request));
        recording->entries = arena_alloc(arena, (entries + 1) * sizeof(struct recording_entry));
        recording->answers = arena_alloc(arena, (answers + 1) * sizeof(struct recording_answer));
        recording->buckets =
            arena_alloc(arena, (recording->bucket_count + 1) * sizeof(recording->buckets[0]));
    }
    if (recording->requests == NULL || recording->entries == NULL || recording->answers == NULL ||
        recording->buckets == NULL) {
        recording_release(recording);
        return NULL;
    }
    for (uint32_t i = 0; i <= recording->bucket_count; i++) {
        recording->buckets[i] = RECORDING_NONE;
    }
    return recording;
}

struct recording *recording_parse(struct loader *loader, const char *path, struct bytes text,
                                  void (*report)(void *context, const char *text), void *context)
{
    struct reading *reading = calloc(1, sizeof(*reading));
    struct recording *recording = recording_new(text);
    size_t payload_max = text.len < RECORDING_BODY_MAX ? text.len : RECORDING_BODY_MAX;
    uint8_t *payload = malloc(payload_max + 1);
    if (reading == NULL || recording == NULL || payload == NULL) {
        free(payload);
        free(reading);
        recording_release(recording);
        loader->no_memory = true;
        return NULL;
    }
    reading->loader = loader;
    reading->recording = recording;
    escape_text(reading->path, sizeof(reading->path), path, strlen(path));
    reading->draft.payload = payload;
    reading->draft.payload_max = payload_max;
    reading->report = report;
    reading->context = context;
    take_recorded_lines(reading, text);
    if (reading->errors == 0 && recording->entry_count == 0) {
        reading_error(reading, "no request in it", no_word);
    }
    bool is_good = reading->errors == 0 && !loader->no_memory;
    free(payload);
    free(reading);
    if (!is_good) {
        recording_release(recording);
        return NULL;
    }
    return recording;
}

/* The whole of a regular file, from malloc(). @return NULL, or what is wrong, static */
static const char *read_recording_file(const char *path, uint8_t **ret_data, size_t *ret_len)
{
    struct stat status;
    const char *wrong = NULL;
    if (stat(path, &status) != 0) { /* before it is opened: a pipe would be waited for */
        return strerror(errno);
    }
    if (!S_ISREG(status.st_mode)) {
        return "is no regular file";
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return strerror(errno);
    }
    size_t capacity = (size_t)RECORDING_FILE_MAX + 1;
    capacity = status.st_size < (off_t)capacity ? (size_t)status.st_size + 1 : capacity;
    uint8_t *data = malloc(capacity);
    size_t len = data == NULL ? 0 : fread(data, 1, capacity, file);
    if (data == NULL || ferror(file) != 0) {
        wrong = data == NULL ? "no memory" : strerror(errno);
    } else if (len > RECORDING_FILE_MAX) {
        wrong = "has more than 16 MiB";
    } else if (len == capacity) {
        wrong = "has changed while it was read";
    }
    (void)fclose(file);
    if (wrong != NULL) {
        free(data);
        return wrong;
    }
    *ret_data = data;
    *ret_len = len;
    return NULL;
}

struct recording *recording_load(struct loader *loader, const char *path,
                                 void (*report)(void *context, const char *text), void *context)
{
    uint8_t *data = NULL;
    size_t len = 0;
    char text[512], shown[160];
    const char *wrong = read_recording_file(path, &data, &len);
    if (wrong != NULL) {
        escape_text(shown, sizeof(shown), path, strlen(path));
        (void)snprintf(text, sizeof(text), "%s cannot be read: %s", shown, wrong);
        report(context, text);
        return NULL;
    }
    struct recording *recording =
        recording_parse(loader, path, (struct bytes){data, len}, report, context);
    free(data);
    return recording;
}
