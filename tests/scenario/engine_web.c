/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HTTP in scenarios: clients ("client t http") and origin servers ("web w 192.0.2.5:80"). Messages
 * are read and written as text; HTTP is not taken apart here, but what is written is looked for.
 */
#include "engine_stage.h"

#include "support/fake_conn.h"
#include "support/fake_web.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A message as it is written: words behind the method and target, or the status. */
struct http_words {
    char **at;
    size_t count;
};

/* A field, as NAME=VALUE says it, or -NAME. */
struct http_word {
    const char *name, *value; /* value NULL: the field must not be there */
};

static const char *bytes_of(struct engine_stage *engine, const char *quoted, size_t *ret_len)
{
    static struct spec spec; /* large */
    char *word = pool_text(&engine->pool, quoted, strlen(quoted));
    *ret_len = 0;
    if (spec_parse(&engine->pool, &word, 1, SPEC_PROXY_CRI, &spec) != NULL) {
        return NULL;
    }
    *ret_len = spec.payload.bytes.len;
    return pool_text(&engine->pool, (const char *)spec.payload.bytes.data, *ret_len);
}

/* Quoted values become what they stand for. */
static bool read_field(struct engine_stage *engine, const char *word, struct http_word *ret_word)
{
    const char *sign = strchr(word, '=');
    size_t len;
    if (word[0] == '-') {
        *ret_word = (struct http_word){word + 1, NULL};
        return true;
    }
    if (sign == NULL || !isalpha((unsigned char)word[0])) {
        return false;
    }
    ret_word->name = pool_text(&engine->pool, word, (size_t)(sign - word));
    ret_word->value = sign[1] == '"' ? bytes_of(engine, sign + 1, &len) : sign + 1;
    return ret_word->value != NULL;
}

/* The value of the next line "NAME: VALUE" from @p at on; NULL: there is none. */
static const char *find_field(const char *at, const char *end, const char *name, size_t *ret_len)
{
    size_t len = strlen(name);
    while (at < end) {
        size_t line = strcspn(at, "\r\n");
        if (line > len + 1 && strncasecmp(at, name, len) == 0 && at[len] == ':') {
            *ret_len = line - len - 2;
            return at + len + 2;
        }
        at += line + strspn(at + line, "\r\n");
    }
    return NULL;
}

static const char *check_field(struct engine_stage *engine, const struct http_word *word,
                               const char *head, const char *end)
{
    size_t len = 0;
    const char *value = find_field(head, end, word->name, &len);
    while (word->value != NULL && value != NULL &&
           !(len == strlen(word->value) && memcmp(value, word->value, len) == 0)) {
        value = find_field(value + len, end, word->name, &len);
    }
    bool is_right = (value != NULL) == (word->value != NULL);
    return is_right
               ? NULL
               : pool_format(&engine->pool, "%s: expected %s in\n%.*s", word->name,
                             word->value != NULL ? word->value : "none", (int)(end - head), head);
}

/* "text" is all of it; ~"text" is in it; !"text" is not. */
static const char *check_text(struct engine_stage *engine, const char *word, const char *text)
{
    size_t len;
    bool is_part = word[0] == '~' || word[0] == '!';
    const char *wanted = bytes_of(engine, word + is_part, &len);
    if (wanted == NULL) {
        return "not a text in quotation marks";
    }
    bool is_right =
        is_part ? (strstr(text, wanted) != NULL) == (word[0] == '~') : strcmp(text, wanted) == 0;
    return is_right ? NULL : pool_format(&engine->pool, "expected %s, got\n%s", word, text);
}

/* Fields in @p head up to @p end, and the body behind it, which is empty where none is written. */
static const char *check_message(struct engine_stage *engine, struct http_words words,
                                 const char *head, const char *end, const char *body)
{
    bool has_body = false;
    const char *fault = NULL;
    for (size_t i = 0; i < words.count && fault == NULL; i++) {
        const char *word = words.at[i];
        struct http_word field;
        if (strcmp(word, "...") == 0) {
            has_body = true;
        } else if (strchr("\"~!", word[0]) != NULL) {
            has_body = true;
            fault = check_text(engine, word, body);
        } else if (read_field(engine, word, &field)) {
            fault = check_field(engine, &field, head, end);
        } else {
            fault = pool_format(&engine->pool, "not a field or text: %s", word);
        }
    }
    return fault == NULL && !has_body ? check_text(engine, "\"\"", body) : fault;
}

/* --- clients --------------------------------------------------------------- */

static void send_text(struct endpoint *endpoint, const char *text, size_t len)
{
    fake_stream_send_bytes(endpoint->stream, (const uint8_t *)text, len);
    fake_net_run(0);
}

/* METHOD TARGET [HTTP/1.0] [NAME=VALUE]... ["body"], with Host and Content-Length if need be. */
static const char *send_request(struct engine_stage *engine, struct endpoint *endpoint,
                                struct http_words words)
{
    struct pool *pool = &engine->pool;
    const char *version = "HTTP/1.1", *fields = "", *body = "";
    size_t body_len = 0;
    bool has_host = false, has_length = false;
    for (size_t i = 2; i < words.count; i++) {
        struct http_word field;
        if (strncmp(words.at[i], "HTTP/", 5) == 0) {
            version = words.at[i];
            has_host = true;
        } else if (words.at[i][0] == '"') {
            body = bytes_of(engine, words.at[i], &body_len);
        } else if (read_field(engine, words.at[i], &field)) {
            has_host = has_host || strcmp(field.name, "host") == 0;
            has_length = has_length || strcmp(field.name, "content-length") == 0;
            fields = pool_format(pool, "%s%s: %s\r\n", fields, field.name, field.value);
        } else {
            return pool_format(pool, "not a field or text: %s", words.at[i]);
        }
    }
    const char *host = has_host ? "" : "Host: 192.0.2.9\r\n";
    const char *length =
        body_len > 0 && !has_length ? pool_format(pool, "Content-Length: %zu\r\n", body_len) : "";
    const char *text = pool_format(pool, "%s %s %s\r\n%s%s%s\r\n%s", words.at[0], words.at[1],
                                   version, host, fields, length, body);
    send_text(endpoint, text, strlen(text));
    return NULL;
}

/* STATUS (or "STATUS phrase") and fields, then the body; or text as it comes; or nothing; or the
 * connection's end. */
static const char *expect_response(struct engine_stage *engine, struct endpoint *endpoint,
                                   struct http_words words)
{
    static char text[1 << 18];
    fake_net_run(0);
    size_t len = fake_stream_take(endpoint->stream, (uint8_t *)text, sizeof(text) - 1);
    text[len] = '\0';
    if (strcmp(words.at[0], "nothing") == 0) {
        return len == 0 ? NULL : pool_format(&engine->pool, "nothing was expected:\n%s", text);
    }
    if (strcmp(words.at[0], "closed") == 0) {
        return fake_stream_is_closed(endpoint->stream) && len == 0 ? NULL : "it is open";
    }
    if (strcmp(words.at[0], "text") == 0) {
        struct http_words rest = {words.at + 1, words.count - 1};
        return check_message(engine, rest, text, text, text);
    }
    size_t status_len;
    const char *status = words.at[0][0] == '"' ? bytes_of(engine, words.at[0], &status_len) : NULL;
    status = status != NULL ? pool_format(&engine->pool, "HTTP/1.1 %s\r\n", status)
                            : pool_format(&engine->pool, "HTTP/1.1 %s ", words.at[0]);
    const char *end = strstr(text, "\r\n\r\n");
    if (strncmp(text, status, strlen(status)) != 0 || end == NULL) {
        return pool_format(&engine->pool, "expected status %s, got\n%s", words.at[0], text);
    }
    struct http_words rest = {words.at + 1, words.count - 1};
    return check_message(engine, rest, text, end + 2, end + 4);
}

static const char *act_of_http_client(struct engine_stage *engine, struct endpoint *endpoint,
                                      bool is_sent, struct http_words words)
{
    size_t len = 0;
    if (endpoint->stream == NULL) {
        return strcmp(words.at[0], "nothing") == 0 ? NULL : "there is no connection";
    }
    if (!is_sent) {
        return expect_response(engine, endpoint, words);
    }
    if (strcmp(words.at[0], "text") != 0) {
        return words.count >= 2 ? send_request(engine, endpoint, words) : "METHOD TARGET";
    }
    const char *text = words.count == 2 ? bytes_of(engine, words.at[1], &len) : NULL;
    if (text == NULL) {
        return "text \"...\"";
    }
    send_text(endpoint, text, len);
    return NULL;
}

/* --- origin servers -------------------------------------------------------- */

/* What follows is about the request of that label. */
static void choose_web(const struct engine_stage *engine, const char *label)
{
    for (size_t i = 0; i < WEB_LABELS_MAX && i < engine->web_label_count; i++) {
        if (strcmp(engine->web_labels[i], label) == 0) {
            fake_web_choose(engine->web_numbers[i]);
        }
    }
}

/* "text" [@name], or nothing: what has come of a body that goes on. */
static const char *expect_more(struct engine_stage *engine, bool is_last, struct http_words words)
{
    const char *text;
    bool has_ended;
    if (words.count == 3) {
        choose_web(engine, words.at[2]);
    }
    if (words.count < 2 || !fake_web_take_more(&text, &has_ended)) {
        return "the request is over";
    }
    return has_ended == is_last ? check_text(engine, words.at[1], text) : "more is due, or not";
}

/* METHOD URL [NAME=VALUE]... ["body"], or nothing */
static const char *expect_web(struct engine_stage *engine, const char *address,
                              struct http_words words)
{
    const char *line, *fields, *body;
    fake_net_run(0);
    bool has_come = fake_web_take(&line, &fields, &body);
    if (strcmp(words.at[0], "nothing") == 0) {
        return has_come ? pool_format(&engine->pool, "nothing was expected: %s", line) : NULL;
    }
    if (!has_come && (strcmp(words.at[0], "more") == 0 || strcmp(words.at[0], "last") == 0)) {
        return expect_more(engine, words.at[0][0] == 'l', words);
    }
    if (!has_come || words.count < 2) {
        return "no request has come";
    }
    const char *wanted = pool_format(&engine->pool, "%s %s %s", address, words.at[0], words.at[1]);
    if (strcmp(line, wanted) != 0) {
        return pool_format(&engine->pool, "expected %s, got %s", wanted, line);
    }
    struct http_words rest = {words.at + 2, words.count - 2};
    if (rest.count > 0 && rest.at[rest.count - 1][0] == '@') {
        rest.count--;
        engine->web_labels[engine->web_label_count % WEB_LABELS_MAX] =
            pool_text(&engine->pool, rest.at[rest.count], strlen(rest.at[rest.count]));
        engine->web_numbers[engine->web_label_count++ % WEB_LABELS_MAX] = fake_web_number();
    }
    return check_message(engine, rest, fields, fields + strlen(fields), body);
}

/* STATUS [NAME=VALUE]... ["body"] [@name] */
static const char *answer_web(struct engine_stage *engine, struct http_words words)
{
    const char *fields = "", *body = "";
    size_t len = 0;
    for (size_t i = 1; i < words.count; i++) {
        struct http_word field;
        if (words.at[i][0] == '"') {
            body = bytes_of(engine, words.at[i], &len);
        } else if (words.at[i][0] == '@') {
            choose_web(engine, words.at[i]);
        } else if (read_field(engine, words.at[i], &field)) {
            fields = pool_format(&engine->pool, "%s%s: %s\n", fields, field.name, field.value);
        } else {
            return pool_format(&engine->pool, "not a field or text: %s", words.at[i]);
        }
    }
    fake_web_answer((unsigned)strtoul(words.at[0], NULL, 10), fields,
                    (struct bytes){(const uint8_t *)body, len});
    fake_net_run(0);
    return NULL;
}

/* HOW [unsent] ["why"] */
static const char *fail_web(struct engine_stage *engine, struct http_words words)
{
    static const struct {
        const char *name;
        enum web_status status;
    } ways[] = {
        {"refused", WEB_REFUSED},
        {"connect-timeout", WEB_CONNECT_TIMEOUT},
        {"handshake-failed", WEB_HANDSHAKE_FAILED},
        {"bad-certificate", WEB_BAD_CERTIFICATE},
        {"certificate-expired", WEB_CERTIFICATE_EXPIRED},
        {"certificate-unknown", WEB_CERTIFICATE_UNKNOWN},
        {"name-mismatch", WEB_NAME_MISMATCH},
        {"closed", WEB_CLOSED},
        {"invalid", WEB_INVALID},
        {"too-large", WEB_TOO_LARGE},
        {"no-memory", WEB_NO_MEMORY},
    };
    size_t len;
    const char *last = words.count > 1 ? words.at[words.count - 1] : "";
    const char *why = last[0] == '"' ? bytes_of(engine, last, &len) : NULL;
    bool was_sent = words.count < 2 || strcmp(words.at[1], "unsent") != 0;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(words.at[0], ways[i].name) == 0) {
            fake_web_fail(ways[i].status, was_sent, why);
            fake_net_run(0);
            return NULL;
        }
    }
    return "fails HOW [unsent] [\"why\"]";
}

const char *engine_web_act(struct engine_stage *engine, struct actor *actor, char **words,
                           size_t count)
{
    struct endpoint *endpoint = actor->end;
    struct http_words rest = {words + 1, count - 1};
    bool is_sent = strcmp(words[0], ">") == 0;
    if (actor->way == WAY_HTTP) {
        return act_of_http_client(engine, endpoint, is_sent, rest);
    }
    if (strcmp(words[0], "cancelled") == 0) { /* what it was asked was taken back */
        return fake_web_count() == 0 ? NULL : "a request is still wanted";
    }
    if (count == 2 && strcmp(words[1], "reading") == 0) {
        fake_web_hold(true);
        return strcmp(words[0], "stops") == 0 ? NULL : "stops reading";
    }
    if (count == 2 && strcmp(words[1], "on") == 0) {
        fake_web_hold(false);
        fake_net_run(0);
        return strcmp(words[0], "reads") == 0 ? NULL : "reads on";
    }
    if (strcmp(words[0], "begins") == 0) { /* the first byte of its answer has come */
        fake_web_begin();
        return NULL;
    }
    if (strcmp(words[0], "connecting") == 0 || strcmp(words[0], "connected") == 0) {
        fake_web_connecting(words[0][7] == 'i');
        return NULL;
    }
    if (strcmp(words[0], "fails") == 0 && count > 1) {
        return fail_web(engine, rest);
    }
    if (count < 2 || (!is_sent && strcmp(words[0], "<") != 0)) {
        return "a web server gets and sends messages, fails, or is cancelled";
    }
    return is_sent ? answer_web(engine, rest) : expect_web(engine, endpoint->address, rest);
}
