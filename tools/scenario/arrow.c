/* SPDX-License-Identifier: BSD-2-Clause */
#include "arrow.h"

#include "script.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_type(const char *word)
{
    return strcmp(word, "CON") == 0 || strcmp(word, "NON") == 0 || strcmp(word, "ACK") == 0;
}

/* An IPv4 address, or an IPv6 address in brackets: Uri-Host does not name it (RFC 7252 6.4). */
static bool is_address(const char *host, size_t len)
{
    return host[0] == '[' || strspn(host, "0123456789.") >= len;
}

static bool is_name(const char *host, size_t len)
{
    return len > 0 && strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-.") >= len;
}

/*
 * What a server gets of the target @p uri: "//h/x?q", "/x?q" where the host is an address. NULL
 * where that is not so simple: something in it is escaped.
 */
static const char *target_word(struct pool *pool, const char *uri)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~=/";
    static const char queries[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~=/&";
    const char *host = strstr(uri, "://") + 3;
    size_t host_len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, "/?#:");
    const char *path = host + strcspn(host, "/?#");
    size_t path_len = strspn(path, plain);
    const char *query = path + path_len;
    if ((*path != '/' && *path != '\0') ||
        (*query != '\0' && (*query != '?' || query[1 + strspn(query + 1, queries)] != '\0'))) {
        return NULL;
    }
    const char *root = *path == '\0' ? "/" : "";
    if (is_address(host, host_len)) {
        return pool_format(pool, "%s%s", root, path);
    }
    return is_name(host, host_len)
               ? pool_format(pool, "//%.*s%s%s", (int)host_len, host, root, path)
               : NULL;
}

/*
 * What arrives of the message @p words as it was sent: type, token, message ID and name belong to
 * the sender's own exchange, and the target of a request is what its server gets of it.
 */
static const char *as_it_arrives(struct pool *pool, char **words, size_t count)
{
    const char *done = pool_text(pool, "", 0);
    for (size_t i = 0; i < count; i++) {
        const char *word = words[i], *uri = word;
        if ((i == 0 && is_type(word)) || word[0] == '@' || strncmp(word, "token=", 6) == 0 ||
            strncmp(word, "mid=", 4) == 0) {
            continue;
        }
        uri += strncmp(word, "proxy-uri=", 10) == 0 ? 10 : 0;
        uri += strncmp(word, "proxy-cri=", 10) == 0 ? 10 : 0;
        if (strncmp(uri, "coap", 4) == 0 && strstr(uri, "://") != NULL) {
            word = target_word(pool, uri);
        }
        if (word == NULL) {
            return NULL;
        }
        done = pool_format(pool, "%s %s", done, word);
    }
    return *done != '\0' ? done : NULL;
}

/* Where the next arrow of @p text is, outside of quotation marks; NULL: none. */
static const char *next_arrow(const char *text)
{
    bool is_quoted = false;
    for (; *text != '\0'; text++) {
        if (*text == '\\' && is_quoted && text[1] != '\0') {
            text++;
        } else if (*text == '"') {
            is_quoted = !is_quoted;
        } else if (!is_quoted && strncmp(text, " -> ", 4) == 0) {
            return text;
        }
    }
    return NULL;
}

/* "NAME", "NAME @exchange" or "NAME MESSAGE" behind an arrow, as a line of its own. */
static const char *arrow_part(struct pool *pool, char *part, char **sent, size_t sent_count)
{
    size_t name_len = strcspn(part, " ");
    const char *rest = part + name_len + strspn(part + name_len, " ");
    if (*rest != '\0' && *rest != '@') {
        return pool_format(pool, "%.*s < %s", (int)name_len, part, rest);
    }
    const char *message = as_it_arrives(pool, sent, sent_count);
    const char *blank = *rest != '\0' ? " " : "";
    return message == NULL
               ? NULL
               : pool_format(pool, "%.*s <%s%s%s", (int)name_len, part, message, blank, rest);
}

size_t arrow_lines(struct pool *pool, const char *text, const char **ret_lines,
                   const char **ret_why)
{
    const char *arrow = next_arrow(text);
    char *words[SCRIPT_WORDS_MAX];
    size_t count = 1;
    ret_lines[0] = text;
    if (arrow == NULL) {
        return 1;
    }
    char *head = pool_text(pool, text, (size_t)(arrow - text));
    size_t word_count = script_split(pool, head, words, SCRIPT_WORDS_MAX);
    if (word_count == SIZE_MAX || word_count < 3 || strcmp(words[1], ">") != 0) {
        *ret_why = "only what an actor sends has an arrow behind it: \"a > MESSAGE -> h\"";
        return 0;
    }
    ret_lines[0] = head;
    while (arrow != NULL && count < ARROW_PARTS_MAX) {
        const char *from = arrow + 4;
        arrow = next_arrow(from);
        char *part = pool_text(pool, from, arrow != NULL ? (size_t)(arrow - from) : strlen(from));
        ret_lines[count] = arrow_part(pool, part, words + 2, word_count - 2);
        if (ret_lines[count++] == NULL) {
            *ret_why = "what arrives has to be written here, behind the arrow and the name";
            return 0;
        }
    }
    return count;
}
