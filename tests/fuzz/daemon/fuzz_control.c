/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the administration takes: lines to the control socket, and paths over HTTP, both at the
 * main thread's own code (server/control*.c, server/commands.c, server/admin_*.c) with an engine
 * on the fake network that has something in each of its lists. The first line of an input says
 * which client asks and how, in three letters:
 *
 *   o, l   the group operate, or look;  h: over HTTP, with lines for the path and its query, Host,
 *          Origin and Sec-Fetch-Site
 *   0-9    bytes that come at once; 0: whole lines; of HTTP the method
 *   s      the answer is not read until all has been asked
 *
 * The other lines are the client's.
 */
#include "control_world.h"

#include "base/json.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 16384u
#define LINE_MAX 4096u /* as the control socket takes them */
#define ANSWER_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What has come back of the line under way, and how many answers have ended. */
struct answers {
    char line[ANSWER_MAX];
    size_t len, ended;
};

static bool is_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] < 0x20 || text[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

/* One JSON object in printable ASCII; the last of an answer says how it ended. */
static void take_answer_line(struct answers *answers)
{
    static char memory[ANSWER_MAX + 2 * JSON_MEMBERS_MAX];
    static struct json_object object;
    assert(is_printable(answers->line, answers->len));
    assert(json_read(answers->line, answers->len, memory, sizeof(memory), &object));
    const char *error = json_get(&object, "error");
    if (object.count > 0 && strcmp(object.members[0].key, "end") == 0) {
        bool is_ok = strcmp(object.members[0].value, "ok") == 0;
        assert(is_ok || strcmp(object.members[0].value, "error") == 0);
        assert(is_ok == (error == NULL) && (is_ok || error[0] != '\0'));
        answers->ended++;
    }
    answers->len = 0;
}

static void take_answers(struct answers *answers, struct fake_stream *stream)
{
    static uint8_t bytes[ANSWER_MAX];
    size_t len;
    while ((len = fake_stream_take(stream, bytes, sizeof(bytes))) > 0) {
        for (size_t i = 0; i < len; i++) {
            if (bytes[i] == '\n') {
                take_answer_line(answers);
            } else {
                assert(answers->len < ANSWER_MAX);
                answers->line[answers->len++] = (char)bytes[i];
            }
        }
    }
}

/* At most a line at once, so that what is said to it has been taken before the next. */
static size_t piece_of(const uint8_t *data, size_t size, char how)
{
    size_t most = how >= '1' && how <= '9' ? (size_t)(how - '0') : size;
    size_t len = size < most ? size : most;
    const uint8_t *end = memchr(data, '\n', len);
    return end != NULL ? (size_t)(end - data) + 1 : len;
}

static size_t longest_line(const uint8_t *data, size_t size, size_t *ret_count)
{
    size_t longest = 0, begin = 0;
    *ret_count = 0;
    for (size_t i = 0; i < size; i++) {
        longest = i - begin + 1 > longest ? i - begin + 1 : longest;
        if (data[i] == '\n') {
            begin = i + 1;
            ++*ret_count;
        }
    }
    return longest;
}

static void try_lines(const char how[3], const uint8_t *data, size_t size)
{
    static struct answers answers;
    size_t lines, longest = longest_line(data, size, &lines);
    answers.len = answers.ended = 0;
    control_world_start(how[0] == 'o');
    struct fake_stream *stream = control_world_connect();
    fake_stream_stop_reading(stream, how[2] == 's');
    while (size > 0 && !fake_stream_is_closed(stream)) {
        size_t len = piece_of(data, size, how[1]);
        fake_stream_send_bytes(stream, data, len);
        take_answers(&answers, stream);
        data += len;
        size -= len;
    }
    control_world_go_on(); /* seen by traces */
    fake_stream_stop_reading(stream, false);
    take_answers(&answers, stream);
    assert(answers.len == 0); /* all lines are whole */
    assert(answers.ended <= lines);
    if (fake_stream_is_closed(stream)) {
        assert(longest > LINE_MAX);
    } else {
        /* A trace ends with the next line, or not. */
        assert(answers.ended == lines || (control_world_is_traced() && answers.ended + 1 == lines));
        fake_stream_close(stream);
    }
    control_world_stop();
}

static bool is_known_status(unsigned status)
{
    static const unsigned known[] = {200, 400, 403, 404, 405, 421, 503};
    size_t i = 0;
    while (i < sizeof(known) / sizeof(known[0]) && known[i] != status) {
        i++;
    }
    return i < sizeof(known) / sizeof(known[0]);
}

/* The next line, or what is left; NULL after the last one. */
static char *next_line(char **rest)
{
    return *rest != NULL ? strsep(rest, "\n") : NULL;
}

static void try_path(enum http_method method, const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size), *rest = text;
    assert(text != NULL);
    char *query = next_line(&rest), *path = strsep(&query, "?");
    struct http_answer answer = {.status = 500};
    struct http_request request = {
        .method = method, .path = path, .query = query != NULL ? query : ""};
    request.host = next_line(&rest);
    request.origin = next_line(&rest);
    request.fetch_site = next_line(&rest);
    control_world_start(true);
    control_world_http(&request, &answer);
    assert(is_known_status(answer.status));
    assert(answer.is_streamed || (answer.body != NULL && answer.body_len > 0));
    assert(answer.body_len == 0 || answer.body[answer.body_len - 1] == '\n');
    bool is_page = answer.security_policy != NULL;
    for (size_t i = 0; i < answer.body_len && !is_page; i++) {
        assert(answer.body[i] == '\n' || is_printable(&answer.body[i], 1));
    }
    free(answer.body);
    control_world_stop();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char how[3];
    if (size < 4 || size > INPUT_MAX) {
        return 0;
    }
    memcpy(how, data, sizeof(how));
    if (how[0] == 'h') {
        try_path((enum http_method)((unsigned)how[1] % 4), data + 4, size - 4);
    } else {
        try_lines(how, data + 4, size - 4);
    }
    return 0;
}
