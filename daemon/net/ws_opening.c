/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ws_opening.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/* A name of 255 bytes, percent-encoded, or an address; a port. */
#define HOST_FIELD_MAX (3 * 255 + sizeof ":65535")

/* --- the request -------------------------------------------------------- */

/*
 * The name as the authority of a URI has it (RFC 3986 section 3.2.2): no byte of it ends
 * the field or begins another.
 */
static bool write_name(const char *name, char ret_text[HOST_FIELD_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;

    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        if (len + 3 >= HOST_FIELD_MAX) {
            return false;
        }
        if (ws_is_alnum(*name) || ws_is_one_of(*name, "-._~!$&'()*+,;=")) {
            ret_text[len++] = *name;
        } else {
            ret_text[len++] = '%';
            ret_text[len++] = digits[c >> 4];
            ret_text[len++] = digits[c & 15];
        }
    }
    ret_text[len] = '\0';
    return true;
}

/* Without the zone, which means something on this host only (RFC 6874 section 3). */
static void write_address(const struct address *address, char ret_text[HOST_FIELD_MAX])
{
    struct address plain = *address;
    char text[ADDRESS_TEXT_MAX];

    plain.scope = 0;
    (void)snprintf(ret_text, HOST_FIELD_MAX, "%s", address_format(&plain, text));
    char *port = strrchr(ret_text, ':');
    if (port != NULL) {
        *port = '\0';
    }
}

static bool write_host(const char *name, const struct address *address, uint16_t default_port,
                       char ret_text[HOST_FIELD_MAX])
{
    if (name == NULL) {
        write_address(address, ret_text);
    } else if (!write_name(name, ret_text)) {
        return false;
    }
    size_t len = strlen(ret_text);
    if (address->port == default_port) {
        return true;
    }
    int more = snprintf(ret_text + len, HOST_FIELD_MAX - len, ":%u", address->port);
    return more > 0 && (size_t)more < HOST_FIELD_MAX - len;
}

size_t ws_opening_write(const char *name, const struct address *address, uint16_t default_port,
                        const uint8_t nonce[WS_NONCE_LEN], char ret_request[WS_OPENING_MAX],
                        char ret_accept[WS_ACCEPT_LEN + 1])
{
    char host[HOST_FIELD_MAX];
    unsigned char key[WS_KEY_LEN + 1];

    if (!write_host(name, address, default_port, host) ||
        EVP_EncodeBlock(key, nonce, WS_NONCE_LEN) != WS_KEY_LEN ||
        !ws_make_accept((const char *)key, ret_accept)) {
        return 0;
    }
    int len = snprintf(ret_request, WS_OPENING_MAX,
                       "GET " WS_PATH " HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
                       "Sec-WebSocket-Version: " WS_VERSION "\r\n"
                       "Sec-WebSocket-Protocol: " WS_SUBPROTOCOL "\r\n\r\n",
                       host, (const char *)key);
    return len > 0 && len < WS_OPENING_MAX ? (size_t)len : 0;
}

/* --- the answer --------------------------------------------------------- */

/* The status of "HTTP/1.1 101 Switching Protocols"; 0 if it is malformed. The text after the number
 * may be missing (RFC 9112 section 4). */
static int read_status_line(struct ws_span line)
{
    static const char version[] = "HTTP/1.1 ";
    const size_t head = sizeof version - 1;
    int status = 0;

    if (line.len < head + 3 || memcmp(line.text, version, head) != 0 ||
        (line.len > head + 3 && line.text[head + 3] != ' ')) {
        return 0;
    }
    for (size_t i = head; i < head + 3; i++) {
        if (line.text[i] < '0' || line.text[i] > '9') {
            return 0;
        }
        status = 10 * status + (line.text[i] - '0');
    }
    return status;
}

static const char *why_of_status(int status)
{
    switch (status) {
    case 400:
        return "HTTP 400: bad request";
    case 401:
        return "HTTP 401: authentication asked for";
    case 403:
        return "HTTP 403: forbidden";
    case 404:
        return "HTTP 404: no CoAP over WebSockets there";
    case 407:
        return "HTTP 407: authentication asked for";
    case 426:
        return "HTTP 426: another version of WebSockets asked for";
    case 429:
        return "HTTP 429: too many requests";
    case 502:
    case 504:
        return "HTTP 502 or 504: a gateway does not reach the origin server";
    case 503:
        return "HTTP 503: not available";
    default:
        break;
    }
    return status / 100 == 3   ? "HTTP 3xx: redirections are not followed"
           : status / 100 == 4 ? "HTTP 4xx"
           : status / 100 == 5 ? "HTTP 5xx"
                               : "not a WebSocket";
}

/* RFC 6455 section 4.1, the list about the answer; NULL: all is well. */
static const char *fault_of(const struct ws_fields *fields, const char *accept)
{
    if (!fields->has_upgrade || !fields->has_connection || fields->has_body) {
        return "upgraded to something else than a WebSocket";
    }
    if (fields->accept.text == NULL || !ws_equals(fields->accept, accept)) {
        return "wrong Sec-WebSocket-Accept";
    }
    if (fields->has_extensions) {
        return "WebSocket extension that was not offered";
    }
    if (!fields->has_subprotocol || fields->has_others) {
        return "no subprotocol coap"; /* RFC 8323 section 4.1 */
    }
    return NULL;
}

enum ws_opening ws_opening_read(const char *text, size_t len, const char *accept,
                                const char **ret_why)
{
    struct ws_span rest = {text, len}, line;
    struct ws_fields fields;

    int status = len <= WS_HEAD_MAX && ws_read_line(&rest, &line) ? read_status_line(line) : 0;
    if (status < 100 || !ws_read_fields(rest, &fields)) {
        *ret_why = "not an answer of HTTP/1.1";
        return WS_OPENING_REFUSED;
    }
    if (status == 101) {
        const char *fault = fault_of(&fields, accept);
        if (fault != NULL) {
            *ret_why = fault;
        }
        return fault == NULL ? WS_OPENING_DONE : WS_OPENING_REFUSED;
    }
    if (status < 200) {
        return WS_OPENING_AGAIN;
    }
    *ret_why = why_of_status(status);
    return WS_OPENING_REFUSED;
}
