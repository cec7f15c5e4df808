/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP-22, SCH-5: the opening handshake of a WebSocket as the side that asks for it. */
#include "net/ws_opening.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define LINE "HTTP/1.1 101 Switching Protocols\r\n"
#define UPGRADE "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define ACCEPT_VALUE "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" /* RFC 6455 section 1.3 */
#define ACCEPT "Sec-WebSocket-Accept: " ACCEPT_VALUE "\r\n"
#define PROTOCOL "Sec-WebSocket-Protocol: coap\r\n"
#define ANSWER LINE UPGRADE ACCEPT PROTOCOL "\r\n"

/* Its key is that of RFC 6455 section 1.3. */
static const uint8_t nonce[] = "the sample nonce";

/* --- the request -------------------------------------------------------- */

static size_t write_request(const char *name, const char *address, char *ret_request,
                            char *ret_accept)
{
    struct address parsed;

    assert_true(address_parse(address, strlen(address), 80, &parsed));
    return ws_opening_write(name, &parsed, 80, nonce, ret_request, ret_accept);
}

static void test_request(void **state)
{
    char request[WS_OPENING_MAX], accept[WS_ACCEPT_LEN + 1];
    (void)state;

    size_t len = write_request("origin.example", "192.0.2.5:80", request, accept);
    assert_string_equal(request,
                        "GET /.well-known/coap HTTP/1.1\r\nHost: origin.example\r\n" UPGRADE
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                        "Sec-WebSocket-Version: 13\r\n" PROTOCOL "\r\n");
    assert_int_equal(len, strlen(request));
    assert_string_equal(accept, ACCEPT_VALUE);
}

/* RFC 8323 section 8.3: the authority of the URI; the port where it is not the default one. */
static void test_hosts(void **state)
{
    static const struct {
        const char *name, *address, *field;
    } rows[] = {
        {NULL, "192.0.2.5:80", "Host: 192.0.2.5\r\n"},
        {NULL, "192.0.2.5:8080", "Host: 192.0.2.5:8080\r\n"},
        {NULL, "[2001:db8::1]:80", "Host: [2001:db8::1]\r\n"},
        {NULL, "[2001:db8::1]:443", "Host: [2001:db8::1]:443\r\n"},
        {NULL, "[fe80::1%2]:81", "Host: [fe80::1]:81\r\n"},
        {"a.example", "[2001:db8::1]:80", "Host: a.example\r\n"},
        {"a.example", "[2001:db8::1]:65535", "Host: a.example:65535\r\n"},
        {"a_b~c!d", "192.0.2.5:80", "Host: a_b~c!d\r\n"},
        {"a b", "192.0.2.5:80", "Host: a%20b\r\n"},
        {"a/../b?c#d@e:1", "192.0.2.5:80", "Host: a%2F..%2Fb%3Fc%23d%40e%3A1\r\n"},
        {"a%00", "192.0.2.5:80", "Host: a%2500\r\n"},
        {"a\r\nX: y", "192.0.2.5:80", "Host: a%0D%0AX%3A%20y\r\n"},
        {"a\tb\x7f\x01", "192.0.2.5:80", "Host: a%09b%7F%01\r\n"},
        {"z\xc3\xa4hler", "192.0.2.5:80", "Host: z%C3%A4hler\r\n"},
        {"", "192.0.2.5:80", "Host: \r\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char request[WS_OPENING_MAX], accept[WS_ACCEPT_LEN + 1];
        size_t len = write_request(rows[i].name, rows[i].address, request, accept);
        const char *field = strstr(request, "\r\n");
        assert_true(len > 0);
        assert_non_null(field);
        if (strncmp(field + 2, rows[i].field, strlen(rows[i].field)) != 0) {
            fail_msg("%s: %.60s", rows[i].field, field + 2);
        }
    }
}

/* SEC-24: whatever bytes a name has, our own reader finds one request in it, or none. */
static void test_names_of_any_bytes(void **state)
{
    char name[256], request[WS_OPENING_MAX], accept[WS_ACCEPT_LEN + 1];
    struct ws_request read;
    (void)state;

    for (unsigned byte = 1; byte < 256; byte++) {
        memset(name, (int)byte, 255);
        name[255] = '\0';
        size_t len = write_request(name, "192.0.2.5:65535", request, accept);
        assert_true(len > 0);
        assert_ptr_equal(strstr(request, "\r\n\r\n") + 4, request + len);
        int status = ws_upgrade_read(request, len, &read);
        assert_true(status == 101 || status == 400); /* a Host field longer than is taken */
        name[60] = '\0';
        len = write_request(name, "192.0.2.5:65535", request, accept);
        assert_int_equal(ws_upgrade_read(request, len, &read), 101);
        assert_string_equal(read.accept, accept);
    }
    memset(name, 'a', sizeof name - 1);
    name[255] = '\0';
    assert_true(write_request(name, "192.0.2.5:1", request, accept) > 0);
    char longer[1024] = {0};
    memset(longer, '\n', sizeof longer - 1);
    assert_int_equal(write_request(longer, "192.0.2.5:1", request, accept), 0);
}

/* --- the answer --------------------------------------------------------- */

struct row {
    const char *name, *answer;
    enum ws_opening opening;
    const char *why;
};

#define REFUSED(words) WS_OPENING_REFUSED, words

static const struct row rows[] = {
    {"as in the RFC", ANSWER, WS_OPENING_DONE, NULL},
    {"no phrase", "HTTP/1.1 101\r\n" UPGRADE ACCEPT PROTOCOL "\r\n", WS_OPENING_DONE, NULL},
    {"names of fields in any case",
     "HTTP/1.1 101 \r\nuPGRADE: WebSocket\r\nCONNECTION:keep-alive,upgrade\r\n"
     "sec-websocket-accept:" ACCEPT_VALUE "\t\r\nsec-websocket-protocol:coap \r\nServer: x\r\n\r\n",
     WS_OPENING_DONE, NULL},
    {"interim", "HTTP/1.1 100 Continue\r\n\r\n", WS_OPENING_AGAIN, NULL},
    {"interim with fields", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", WS_OPENING_AGAIN, NULL},
    {"a body without a length", LINE UPGRADE ACCEPT PROTOCOL "Transfer-Encoding: chunked\r\n\r\n",
     REFUSED("upgraded to something else than a WebSocket")},
    {"to something else", LINE "Upgrade: h2c\r\nConnection: Upgrade\r\n" ACCEPT PROTOCOL "\r\n",
     REFUSED("upgraded to something else than a WebSocket")},
    {"no connection", LINE "Upgrade: websocket\r\n" ACCEPT PROTOCOL "\r\n",
     REFUSED("upgraded to something else than a WebSocket")},
    {"two accepts", LINE UPGRADE ACCEPT ACCEPT PROTOCOL "\r\n",
     REFUSED("not an answer of HTTP/1.1")},
    {"accept in small letters",
     LINE UPGRADE "Sec-WebSocket-Accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n" PROTOCOL "\r\n",
     REFUSED("wrong Sec-WebSocket-Accept")},
    {"accept that only begins so",
     LINE UPGRADE "Sec-WebSocket-Accept: " ACCEPT_VALUE "=\r\n" PROTOCOL "\r\n",
     REFUSED("wrong Sec-WebSocket-Accept")},
    {"empty accept", LINE UPGRADE "Sec-WebSocket-Accept:\r\n" PROTOCOL "\r\n",
     REFUSED("wrong Sec-WebSocket-Accept")},
    {"subprotocol in capitals", LINE UPGRADE ACCEPT "Sec-WebSocket-Protocol: CoAP\r\n\r\n",
     REFUSED("no subprotocol coap")},
    {"two subprotocols", LINE UPGRADE ACCEPT "Sec-WebSocket-Protocol: coap, x\r\n\r\n",
     REFUSED("no subprotocol coap")},
    {"coap twice", LINE UPGRADE ACCEPT PROTOCOL PROTOCOL "\r\n", REFUSED("no subprotocol coap")},
    {"another one before", LINE UPGRADE ACCEPT "Sec-WebSocket-Protocol: x\r\n" PROTOCOL "\r\n",
     REFUSED("no subprotocol coap")},
    {"redirected", "HTTP/1.1 307 Elsewhere\r\nLocation: ws://192.0.2.9/\r\n\r\n",
     REFUSED("HTTP 3xx: redirections are not followed")},
    {"proxy wants to know", "HTTP/1.1 407 Who\r\n\r\n",
     REFUSED("HTTP 407: authentication asked for")},
    {"status of two digits", "HTTP/1.1 10 x\r\n\r\n", REFUSED("not an answer of HTTP/1.1")},
    {"status of four", "HTTP/1.1 1010 x\r\n\r\n", REFUSED("not an answer of HTTP/1.1")},
    {"status 099", "HTTP/1.1 099 x\r\n\r\n", REFUSED("not an answer of HTTP/1.1")},
    {"status 999", "HTTP/1.1 999 x\r\n\r\n", REFUSED("not a WebSocket")},
    {"HTTP/1.0", "HTTP/1.0 101 x\r\n\r\n", REFUSED("not an answer of HTTP/1.1")},
    {"a CoAP message", "\x01\xe1\r\n\r\n", REFUSED("not an answer of HTTP/1.1")},
    {"empty", "", REFUSED("not an answer of HTTP/1.1")},
    {"only the end", "\r\n\r\n", REFUSED("not an answer of HTTP/1.1")},
    {"lone LF", "HTTP/1.1 101 x\n\n", REFUSED("not an answer of HTTP/1.1")},
    {"more behind it", ANSWER "x", REFUSED("not an answer of HTTP/1.1")},
};

/* Of their own length: a sanitizer sees what is read past it. */
static enum ws_opening read_answer(const char *text, size_t len, const char **ret_why)
{
    char *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    enum ws_opening opening = ws_opening_read(copy, len, ACCEPT_VALUE, ret_why);
    free(copy);
    return opening;
}

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *why = NULL;
        enum ws_opening opening = read_answer(rows[i].answer, strlen(rows[i].answer), &why);
        if (opening != rows[i].opening ||
            (why == NULL ? rows[i].why != NULL
                         : rows[i].why == NULL || strcmp(why, rows[i].why) != 0)) {
            fail_msg("%s: %d %s", rows[i].name, (int)opening, why != NULL ? why : "-");
        }
    }
}

/* TCP-29: cut anywhere, or with any byte another one, it is no WebSocket or the same one. */
static void test_answers_cut_and_changed(void **state)
{
    char text[] = ANSWER;
    const size_t len = sizeof text - 1;
    const char *why = NULL;
    (void)state;

    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(read_answer(text, cut, &why), WS_OPENING_REFUSED);
        assert_non_null(why);
    }
    size_t good = 0;
    for (size_t at = 0; at < len; at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            char was = text[at];
            text[at] = (char)byte;
            good += read_answer(text, len, &why) == WS_OPENING_DONE;
            text[at] = was;
        }
    }
    /* The byte itself; capitals of names; any text in the phrase: not more than that. */
    assert_in_range(good, len, 2 * len + strlen(" Switching Protocols") * 256);
}

static void test_answer_too_long(void **state)
{
    static char text[WS_HEAD_MAX + 1];
    const char *why = NULL;
    (void)state;

    size_t len = strlen(ANSWER) - 2;
    memcpy(text, ANSWER, len);
    memcpy(text + len, "X: ", 3);
    memset(text + len + 3, 'y', sizeof text - len - 3);
    memcpy(text + WS_HEAD_MAX - 4, "\r\n\r\n", 4);
    assert_int_equal(read_answer(text, WS_HEAD_MAX, &why), WS_OPENING_DONE);
    memcpy(text + WS_HEAD_MAX - 3, "\r\n\r\n", 4);
    assert_int_equal(read_answer(text, WS_HEAD_MAX + 1, &why), WS_OPENING_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_names_of_any_bytes),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_answers_cut_and_changed),
        cmocka_unit_test(test_answer_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
