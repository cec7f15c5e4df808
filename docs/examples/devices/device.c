/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that calls home, with libcoap: it opens a session to a proxy and answers requests on it.
 *
 *   device dtls|tls ADDRESS PORT IDENTITY KEY
 *   device udp ADDRESS PORT NAME LIFETIME
 *
 * On UDP it registers as NAME for so many seconds (RFC 9176 section 5.1), with the Echo value that
 * the proxy wants, and again after half of them. /value has what the last line of standard input
 * was, at first 0, and tells observers of it; a PUT sets it. A line "ping" has it ask the proxy for
 * its /.well-known/core over the same session, and print the code. It ends at the end of its input,
 * with the session closed in good order.
 */
#include <coap3/coap.h>

#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TURN_MS 50u

static char value[64] = "0";
static coap_resource_t *resource;

static void on_get(coap_resource_t *of, coap_session_t *session, const coap_pdu_t *request,
                   const coap_string_t *query, coap_pdu_t *response)
{
    (void)of, (void)session, (void)request, (void)query;
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_CONTENT);
    coap_add_data(response, strlen(value), (const uint8_t *)value);
}

static void on_put(coap_resource_t *of, coap_session_t *session, const coap_pdu_t *request,
                   const coap_string_t *query, coap_pdu_t *response)
{
    size_t len;
    const uint8_t *data;
    (void)session, (void)query;
    if (coap_get_data(request, &len, &data) && len < sizeof(value)) {
        memcpy(value, data, len);
        value[len] = '\0';
        coap_resource_notify_observers(of, NULL);
    }
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_CHANGED);
}

/* Register, as the words in @p query say. @p echo: NULL, or the value that was given. */
static void enroll(coap_session_t *session, const char *query, const coap_opt_t *echo)
{
    uint8_t token[8];
    size_t len;
    coap_pdu_t *request = coap_new_pdu(COAP_MESSAGE_CON, COAP_REQUEST_CODE_POST, session);
    coap_session_new_token(session, &len, token);
    coap_add_token(request, len, token);
    coap_add_option(request, COAP_OPTION_URI_PATH, 11, (const uint8_t *)".well-known");
    coap_add_option(request, COAP_OPTION_URI_PATH, 2, (const uint8_t *)"rd");
    for (const char *at = query; *at != '\0'; at += strcspn(at, "&"), at += *at == '&') {
        coap_add_option(request, COAP_OPTION_URI_QUERY, strcspn(at, "&"), (const uint8_t *)at);
    }
    if (echo != NULL) {
        coap_add_option(request, COAP_OPTION_ECHO, coap_opt_length(echo), coap_opt_value(echo));
    }
    (void)coap_send(session, request);
}

static char registration[96]; /* the query; "": none is needed */

static coap_response_t on_response(coap_session_t *session, const coap_pdu_t *sent,
                                   const coap_pdu_t *received, const coap_mid_t mid)
{
    coap_pdu_code_t code = coap_pdu_get_code(received);
    coap_opt_iterator_t iterator;
    const coap_opt_t *echo = coap_check_option(received, COAP_OPTION_ECHO, &iterator);
    (void)sent, (void)mid;
    if (registration[0] != '\0' && code == COAP_RESPONSE_CODE_UNAUTHORIZED && echo != NULL) {
        enroll(session, registration, echo);
        return COAP_RESPONSE_OK;
    }
    printf("answer %u.%02u\n", (unsigned)code >> 5, (unsigned)code & 31u);
    (void)fflush(stdout);
    return COAP_RESPONSE_OK;
}

static int on_event(coap_session_t *session, coap_event_t event)
{
    (void)session;
    if (event == COAP_EVENT_DTLS_CONNECTED || event == COAP_EVENT_SESSION_CONNECTED) {
        puts("connected");
    } else if (event == COAP_EVENT_DTLS_CLOSED || event == COAP_EVENT_SESSION_CLOSED) {
        puts("closed");
    }
    (void)fflush(stdout);
    return 0;
}

static coap_session_t *open_session(coap_context_t *context, char **arguments)
{
    coap_address_t to;
    coap_dtls_cpsk_t keys = {.version = COAP_DTLS_CPSK_SETUP_VERSION};
    bool is_datagram = strcmp(arguments[1], "dtls") == 0;
    coap_address_init(&to);
    to.size = sizeof(to.addr.sin);
    to.addr.sin.sin_family = AF_INET;
    to.addr.sin.sin_port = htons((uint16_t)strtoul(arguments[3], NULL, 10));
    (void)inet_pton(AF_INET, arguments[2], &to.addr.sin.sin_addr);
    if (strcmp(arguments[1], "udp") == 0) {
        return coap_new_client_session(context, NULL, &to, COAP_PROTO_UDP);
    }
    keys.psk_info.identity = (coap_bin_const_t){strlen(arguments[4]), (uint8_t *)arguments[4]};
    keys.psk_info.key = (coap_bin_const_t){strlen(arguments[5]), (uint8_t *)arguments[5]};
    return coap_new_client_session_psk2(context, NULL, &to,
                                        is_datagram ? COAP_PROTO_DTLS : COAP_PROTO_TLS, &keys);
}

static void ask(coap_session_t *session)
{
    uint8_t token[8];
    size_t len;
    coap_pdu_t *request = coap_new_pdu(COAP_MESSAGE_CON, COAP_REQUEST_CODE_GET, session);
    coap_session_new_token(session, &len, token);
    coap_add_token(request, len, token);
    coap_add_option(request, COAP_OPTION_URI_PATH, 11, (const uint8_t *)".well-known");
    coap_add_option(request, COAP_OPTION_URI_PATH, 4, (const uint8_t *)"core");
    (void)coap_send(session, request);
}

/* @return false at the end of the input */
static bool take_line(coap_session_t *session)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char line[sizeof(value)];
    if (poll(&input, 1, 0) <= 0) {
        return true;
    }
    ssize_t len = read(STDIN_FILENO, line, sizeof(line) - 1);
    if (len <= 0) {
        return false;
    }
    line[len] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "ping") == 0) {
        ask(session);
    } else {
        memcpy(value, line, sizeof(value));
        coap_resource_notify_observers(resource, NULL);
    }
    return true;
}

int main(int count, char **arguments)
{
    time_t half = 0, next = 0;
    if (count != 6) {
        (void)fputs("usage: device dtls|tls ADDRESS PORT IDENTITY KEY\n"
                    "       device udp ADDRESS PORT NAME LIFETIME\n",
                    stderr);
        return 2;
    }
    if (strcmp(arguments[1], "udp") == 0) {
        half = (strtol(arguments[5], NULL, 10) + 1) / 2;
        (void)snprintf(registration, sizeof(registration), "ep=%s&lt=%s", arguments[4],
                       arguments[5]);
    }
    coap_startup();
    coap_context_t *context = coap_new_context(NULL);
    coap_register_response_handler(context, on_response);
    coap_register_event_handler(context, on_event);
    resource = coap_resource_init(coap_make_str_const("value"), 0);
    coap_register_request_handler(resource, COAP_REQUEST_GET, on_get);
    coap_register_request_handler(resource, COAP_REQUEST_PUT, on_put);
    coap_resource_set_get_observable(resource, 1);
    coap_add_resource(context, resource);
    coap_session_t *session = open_session(context, arguments);
    if (session == NULL) {
        (void)fputs("no session\n", stderr);
        return 1;
    }
    while (take_line(session)) {
        if (registration[0] != '\0' && time(NULL) >= next) {
            enroll(session, registration, NULL);
            next = time(NULL) + half;
        }
        (void)coap_io_process(context, TURN_MS);
    }
    coap_session_release(session);
    coap_free_context(context);
    coap_cleanup();
    return 0;
}
