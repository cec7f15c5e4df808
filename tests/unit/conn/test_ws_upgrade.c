/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP-22: which HTTP requests become a CoAP WebSocket. */
#include "net/ws_opening.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define LINE "GET /.well-known/coap HTTP/1.1\r\n"
#define HOST "Host: Example.COM:5683\r\n"
#define UPGRADE "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" /* RFC 6455 section 1.3 */
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define PROTOCOL "Sec-WebSocket-Protocol: coap\r\n"
#define REST UPGRADE KEY VERSION PROTOCOL "\r\n"

#define TEN "aaaaaaaaaa"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

struct row {
    const char *name, *request;
    int status;
    const char *host;
};

static const struct row rows[] = {
    {"as in the RFC", LINE HOST REST, 101, "example.com"},
    {"names of fields in any case",
     LINE "hOST: a\r\nUPGRADE: WebSocket\r\nCONNECTION: keep-alive, upgrade\r\n"
          "sec-websocket-key:dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version:13  \r\n"
          "sec-websocket-protocol: mqtt,\tcoap ,x\r\n\r\n",
     101, "a"},
    {"lists in several fields",
     LINE HOST UPGRADE KEY VERSION "Sec-WebSocket-Protocol: x\r\n" PROTOCOL "\r\n", 101,
     "example.com"},
    {"IPv6", LINE "Host: [2001:DB8::1]:80\r\n" REST, 101, "[2001:db8::1]"},
    {"IPv6 without a port", LINE "Host: [::1]\r\n" REST, 101, "[::1]"},
    {"empty host", LINE "Host:\r\n" REST, 101, ""},
    {"empty port", LINE "Host: a:\r\n" REST, 101, "a"},
    {"from a web page", LINE HOST "Origin: null\r\n" REST, 101, "example.com"},
    {"from another", LINE HOST "origin: http://a.example\r\n" REST, 101, "example.com"},
    {"no body", LINE HOST "Content-Length: 0\r\n" REST, 101, "example.com"},

    {"no subprotocol", LINE HOST UPGRADE KEY VERSION "\r\n", 400, NULL},
    {"other subprotocol", LINE HOST UPGRADE KEY VERSION "Sec-WebSocket-Protocol: mqtt\r\n\r\n", 400,
     NULL},
    {"subprotocol in capitals",
     LINE HOST UPGRADE KEY VERSION "Sec-WebSocket-Protocol: CoAP\r\n\r\n", 400, NULL},
    {"subprotocol that only begins so",
     LINE HOST UPGRADE KEY VERSION "Sec-WebSocket-Protocol: coap2\r\n\r\n", 400, NULL},
    {"no upgrade", LINE HOST "Connection: Upgrade\r\n" KEY VERSION PROTOCOL "\r\n", 426, NULL},
    {"no connection", LINE HOST "Upgrade: websocket\r\n" KEY VERSION PROTOCOL "\r\n", 426, NULL},
    {"upgrade to something else",
     LINE HOST "Upgrade: h2c\r\nConnection: Upgrade\r\n" KEY VERSION PROTOCOL "\r\n", 426, NULL},
    {"plain request", LINE HOST "\r\n", 426, NULL},
    {"no version", LINE HOST UPGRADE KEY PROTOCOL "\r\n", 426, NULL},
    {"old version", LINE HOST UPGRADE KEY PROTOCOL "Sec-WebSocket-Version: 8\r\n\r\n", 426, NULL},
    {"two versions", LINE HOST UPGRADE KEY VERSION VERSION PROTOCOL "\r\n", 400, NULL},
    {"no key", LINE HOST UPGRADE VERSION PROTOCOL "\r\n", 400, NULL},
    {"short key",
     LINE HOST UPGRADE "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAA\r\n" VERSION PROTOCOL "\r\n", 400,
     NULL},
    {"key of 17 bytes",
     LINE HOST UPGRADE "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAAA=\r\n" VERSION PROTOCOL "\r\n",
     400, NULL},
    {"key that is not base64",
     LINE HOST UPGRADE "Sec-WebSocket-Key: AAAAAAAAAAA-AAAAAAAAAA==\r\n" VERSION PROTOCOL "\r\n",
     400, NULL},
    {"two keys", LINE HOST UPGRADE KEY KEY VERSION PROTOCOL "\r\n", 400, NULL},
    {"no host", LINE REST, 400, NULL},
    {"two hosts", LINE HOST HOST REST, 400, NULL},
    {"host with a path", LINE "Host: a/b\r\n" REST, 400, NULL},
    {"host with a user", LINE "Host: u@a\r\n" REST, 400, NULL},
    {"port that is no number", LINE "Host: a:b\r\n" REST, 400, NULL},
    {"IPv6 that does not end", LINE "Host: [::1\r\n" REST, 400, NULL},
    {"IPv6 with more behind it", LINE "Host: [::1]a\r\n" REST, 400, NULL},
    {"brackets inside", LINE "Host: [[::1]]\r\n" REST, 400, NULL},
    {"host of 300", LINE "Host: " HUNDRED HUNDRED HUNDRED "\r\n" REST, 400, NULL},
    {"body announced", LINE HOST "Content-Length: 5\r\n" REST, 400, NULL},
    {"body in chunks", LINE HOST "Transfer-Encoding: chunked\r\n" REST, 400, NULL},
    {"other resource", "GET / HTTP/1.1\r\n" HOST REST, 404, NULL},
    {"resource with a query", "GET /.well-known/coap?a HTTP/1.1\r\n" HOST REST, 404, NULL},
    {"resource below", "GET /.well-known/coap/ HTTP/1.1\r\n" HOST REST, 404, NULL},
    {"other method", "POST /.well-known/coap HTTP/1.1\r\n" HOST REST, 405, NULL},
    {"older HTTP", "GET /.well-known/coap HTTP/1.0\r\n" HOST REST, 505, NULL},
    {"newer HTTP", "PRI * HTTP/2.0\r\n" HOST REST, 505, NULL},
    {"no version of HTTP", "GET /.well-known/coap\r\n" HOST REST, 400, NULL},
    {"two blanks", "GET  /.well-known/coap HTTP/1.1\r\n" HOST REST, 400, NULL},
    {"TLS where HTTP is expected", "\x16\x03\x01\x02\r\n\r\n", 400, NULL},
    {"field without a colon", LINE HOST "x\r\n" REST, 400, NULL},
    {"field without a name", LINE HOST ": x\r\n" REST, 400, NULL},
    {"blank before the colon", LINE HOST "x : y\r\n" REST, 400, NULL},
    {"continued line", LINE HOST "x: y\r\n z\r\n" REST, 400, NULL},
    {"control byte", LINE HOST "x: \x01\r\n" REST, 400, NULL},
    {"lone CR", LINE HOST "x: a\rb\r\n" REST, 400, NULL},
    {"lone LF", "GET /.well-known/coap HTTP/1.1\n" HOST REST, 400, NULL},
    {"empty", "", 400, NULL},
    {"only the end", "\r\n\r\n", 400, NULL},
    {"not complete", LINE HOST, 400, NULL},
};

static void test_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ws_request request = {.host = "untouched"};
        size_t len = strlen(rows[i].request);
        char *copy = malloc(len + 1); /* of its own length: a sanitizer sees what is read past it */
        assert_non_null(copy);
        memcpy(copy, rows[i].request, len);
        int status = ws_upgrade_read(copy, len, &request);
        free(copy);
        if (status != rows[i].status) {
            fail_msg("%s: %d, expected %d", rows[i].name, status, rows[i].status);
        }
        assert_string_equal(request.host, status == 101 ? rows[i].host : "untouched");
        if (status == 101) {
            assert_int_equal(request.has_origin, strstr(rows[i].request, "rigin:") != NULL);
            assert_string_equal(request.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        }
    }
}

/* Whatever is cut off or damaged, nothing is read past the end, and nothing by chance accepted. */
static void test_cut_and_damaged_requests(void **state)
{
    (void)state;
    static const char whole[] = LINE HOST REST;
    struct ws_request request;
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        char *copy = malloc(len + 1);
        assert_non_null(copy);
        memcpy(copy, whole, len);
        assert_int_not_equal(ws_upgrade_read(copy, len, &request), 101);
        copy[len] = '\0'; /* a NUL is no CR LF either */
        assert_int_not_equal(ws_upgrade_read(copy, len + 1, &request), 101);
        free(copy);
    }
}

static void test_request_of_any_length(void **state)
{
    (void)state;
    struct ws_request request;
    char *text = malloc(WS_HEAD_MAX + 1);
    assert_non_null(text);
    memset(text, 'a', WS_HEAD_MAX + 1);
    assert_int_equal(ws_upgrade_read(text, WS_HEAD_MAX + 1, &request), 431);
    assert_int_equal(ws_upgrade_read(text, WS_HEAD_MAX, &request), 400);
    free(text);
}

static void test_answers(void **state)
{
    (void)state;
    static const int statuses[] = {400, 403, 404, 405, 426, 431, 500, 505};
    const struct ws_request request = {.accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="};
    char answer[WS_ANSWER_MAX];
    size_t len = ws_upgrade_answer(101, &request, answer);
    assert_int_equal(len, strlen(answer));
    assert_string_equal(answer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                                "Connection: Upgrade\r\n"
                                "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                                "Sec-WebSocket-Protocol: coap\r\n\r\n");
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        len = ws_upgrade_answer(statuses[i], NULL, answer);
        assert_true(len > 40 && len == strlen(answer));
        assert_int_equal(strtol(answer + strlen("HTTP/1.1 "), NULL, 10), statuses[i]);
        assert_non_null(strstr(answer, "\r\nConnection: close\r\n"));
        assert_string_equal(answer + len - 4, "\r\n\r\n");
    }
    (void)ws_upgrade_answer(426, NULL, answer);
    assert_non_null(strstr(answer, "\r\nSec-WebSocket-Version: 13\r\n"));
    assert_non_null(strstr(answer, "\r\nUpgrade: websocket\r\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_cut_and_damaged_requests),
        cmocka_unit_test(test_request_of_any_length),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
