/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between CoAP requests and HTTP origin servers: the tables of CH-3 to CH-9, as text. Dates are
 * seconds since 1970; the answer comes at NOW, which is a Sunday in 2001.
 */
#include "support/test.h"

#include "coap/http_line.h"
#include "coap/http_request.h"
#include "coap/http_response.h"
#include "coap/option.h"

#include <cri/cri.h>
#include <cri/uri.h>
#include <stdio.h>
#include <stdlib.h>

#define NOW UINT64_C(1000000000) /* Sun, 09 Sep 2001 01:46:40 GMT */
#define URL "http://h.example/a"

static struct http_tags *tags;

static int start_tags(void **state)
{
    (void)state;
    tags = http_tags_new(test_seed());
    return tags != NULL ? 0 : -1;
}

static int stop_tags(void **state)
{
    (void)state;
    free(tags);
    return 0;
}

/* "4=abcd 11=x 14:3c": options as "NUMBER=TEXT" or "NUMBER:HEX", in ascending order. */
static struct bytes options_of(const char *text, uint8_t *buffer, size_t capacity)
{
    struct message_writer writer = {.buffer = buffer, .capacity = capacity};
    char copy[512], *rest = copy, *word;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    while (text[0] != '\0' && (word = strsep(&rest, " ")) != NULL) {
        char *end = NULL;
        uint8_t value[256];
        unsigned long number = strtoul(word, &end, 10);
        size_t len = *end == '=' ? strlen(end + 1) : test_hex(end + 1, value, sizeof(value));
        if (*end == '=') {
            memcpy(value, end + 1, len);
        }
        message_writer_option(&writer, (uint16_t)number, (struct bytes){value, len});
    }
    assert_false(writer.overflow);
    return (struct bytes){buffer, writer.len};
}

/* --- requests ---------------------------------------------------------------- */

struct request_row {
    const char *title;
    uint8_t method;
    const char *options;
    const char *line;   /* method and URL */
    const char *fields; /* all but Via, with semicolons between */
};

#define PLAIN "Accept: */*; Accept-Encoding: identity"

static const struct request_row request_rows[] = {
    {"GET", CODE_GET, "11=a 11=b 15=q=1 15=r", "GET http://h.example/a/b?q=1&r", PLAIN},
    {"no path", CODE_GET, "", "GET http://h.example/", PLAIN},
    {"no path but a query", CODE_GET, "15=q", "GET http://h.example/?q", PLAIN},
    {"empty segments", CODE_GET, "11: 11=x 11:", "GET http://h.example//x/", PLAIN},
    {"bytes that URIs do not have", CODE_GET, "11:613f25200d0a23 15:26613d62",
     "GET http://h.example/a%3F%25%20%0D%0A%23?%26a=b", PLAIN},
    {"POST", CODE_POST, "11=a", "POST " URL, PLAIN},
    {"PUT with a format", CODE_PUT, "11=a 12:32", "PUT " URL,
     PLAIN "; Content-Type: application/json"},
    {"PUT with a coding", CODE_PUT, "11=a 12:2b2a", "PUT " URL,
     PLAIN "; Content-Type: application/json; Content-Encoding: deflate"},
    {"DELETE", CODE_DELETE, "11=a", "DELETE " URL, PLAIN},
    {"PATCH", CODE_PATCH, "11=a 12:33", "PATCH " URL,
     PLAIN "; Content-Type: application/json-patch+json"},
    {"iPATCH", CODE_IPATCH, "11=a", "PATCH " URL, PLAIN},
    {"Accept", CODE_GET, "11=a 17:3c", "GET " URL,
     "Accept: application/cbor; Accept-Encoding: identity"},
    {"Accept with a coding", CODE_GET, "11=a 17:2b34", "GET " URL,
     "Accept: application/cbor; Accept-Encoding: deflate"},
    {"ETags", CODE_GET, "4=abc 4=d 11=a", "GET " URL, PLAIN "; If-None-Match: \"abc\", \"d\""},
    {"an ETag that is no entity-tag", CODE_GET, "4:00ff 4=d 11=a", "GET " URL,
     PLAIN "; If-None-Match: \"d\""},
    {"no entity-tag at all", CODE_GET, "4:2222 11=a", "GET " URL, PLAIN},
    {"If-Match", CODE_PUT, "1=abc 11=a", "PUT " URL, PLAIN "; If-Match: \"abc\""},
    {"If-Match for any", CODE_PUT, "1: 11=a", "PUT " URL, PLAIN "; If-Match: *"},
    {"If-Match that is not known cannot hold", CODE_PUT, "1:0001 11=a", "PUT " URL,
     PLAIN "; If-Match: \"forgotten-by-the-proxy\""},
    {"If-None-Match", CODE_PUT, "5: 11=a", "PUT " URL, PLAIN "; If-None-Match: *"},
    {"Hop-Limit", CODE_GET, "11=a 16:07", "GET " URL, PLAIN "; Max-Forwards: 7"},
};

static enum reason make_request_of(uint8_t method, const char *options, const char *host,
                                   const char *address, struct http_request *ret_request)
{
    static char buffer[8192];
    uint8_t room[1024];
    struct address place = {0};
    const struct scheme scheme = {.transport = TRANSPORT_HTTP};
    const struct message message = {.code = method,
                                    .options = options_of(options, room, sizeof(room))};
    assert_true(address_parse(address, strlen(address), 80, &place));
    const struct http_request_source source = {
        .message = &message,
        .scheme = &scheme,
        .host = host,
        .address = &place,
        .proxy_name = "p",
        .via_token = "0123",
        .tags = tags,
    };
    assert_true(http_request_room(&message) <= sizeof(buffer));
    return http_request_make(&source, buffer, http_request_room(&message), ret_request);
}

/* CH-3, CH-7, CH-8, CH-9, HC-17 */
static void test_requests_become_http(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(request_rows) / sizeof(request_rows[0]); i++) {
        const struct request_row *row = &request_rows[i];
        struct http_request request;
        char line[512], fields[1024] = "";
        print_message("    %s\n", row->title);
        assert_int_equal(
            make_request_of(row->method, row->options, "h.example", "192.0.2.5", &request),
            REASON_none);
        (void)snprintf(line, sizeof(line), "%s %s", request.method, request.url);
        assert_string_equal(line, row->line);
        bool has_via = false;
        for (size_t j = 0; j < request.field_count; j++) {
            if (strcmp(request.fields[j], "Via: 1.1 p (criproxyd 0123)") == 0) {
                has_via = true;
                continue;
            }
            size_t at = strlen(fields);
            (void)snprintf(fields + at, sizeof(fields) - at, "%s%s", at > 0 ? "; " : "",
                           request.fields[j]);
        }
        assert_string_equal(fields, row->fields);
        assert_true(has_via);
    }
}

static void test_hosts_and_ports(void **state)
{
    struct http_request request;
    (void)state;
    assert_int_equal(make_request_of(CODE_GET, "", NULL, "192.0.2.5", &request), REASON_none);
    assert_string_equal(request.url, "http://192.0.2.5/");
    assert_int_equal(make_request_of(CODE_GET, "", NULL, "[2001:db8::1]:8080", &request),
                     REASON_none);
    assert_string_equal(request.url, "http://[2001:db8::1]:8080/");
    assert_int_equal(make_request_of(CODE_GET, "", "h@x/y", "192.0.2.5:81", &request), REASON_none);
    assert_string_equal(request.url, "http://h%40x%2Fy:81/");
}

/* CH-3, CH-8, CH-9 */
static void test_what_http_has_nothing_for(void **state)
{
    struct http_request request;
    (void)state;
    assert_int_equal(make_request_of(CODE_FETCH, "", "h", "192.0.2.5", &request),
                     REASON_method_unmapped);
    assert_int_equal(make_request_of(CODE_GET, "17:03e7", "h", "192.0.2.5", &request),
                     REASON_accept_unmapped);
    assert_int_equal(make_request_of(CODE_PUT, "12:03e7", "h", "192.0.2.5", &request),
                     REASON_content_format_unmapped);
}

/* --- answers ------------------------------------------------------------------- */

struct answer_row {
    const char *title;
    uint8_t method;
    const char *asked; /* options of the request */
    unsigned status;
    const char *fields; /* in lines */
    const char *body;
    unsigned code; /* 205 is 2.05 */
    const char *options;
    const char *payload;
};

#define TEXT "Content-Type: text/plain\n"

static const struct answer_row answer_rows[] = {
    /* CH-4 */
    {"200", CODE_GET, "", 200, TEXT, "hi", 205, "12: 14:", "hi"},
    {"203", CODE_GET, "", 203, TEXT, "hi", 205, "12: 14:", "hi"},
    {"204", CODE_GET, "", 204, "", "", 205, "14:", ""},
    {"206 that nobody has asked for", CODE_GET, "", 206, TEXT, "hi", 502,
     "14:", "unexpected http status"},
    {"POST 200", CODE_POST, "", 200, TEXT, "hi", 204, "12:", "hi"},
    {"PUT 202", CODE_PUT, "", 202, "", "", 204, "", ""},
    {"PATCH 204", CODE_PATCH, "", 204, "", "", 204, "", ""},
    {"POST 205", CODE_POST, "", 205, "", "", 204, "", ""},
    {"201", CODE_POST, "", 201, "Location: /new/1?x=y&z\n", "", 201, "8=new 8=1 20=x=y 20=z", ""},
    {"201, a whole URI", CODE_POST, "", 201, "Location: http://H.example:80/n\n", "", 201, "8=n",
     ""},
    {"201, relative", CODE_POST, "", 201, "Location: b\n", "", 201, "8=b", ""},
    {"201 elsewhere", CODE_POST, "", 201, "Location: http://g.example/n\n", "", 201, "", ""},
    {"201 on another port", CODE_POST, "", 201, "Location: http://h.example:81/n\n", "", 201, "",
     ""},
    {"201 over TLS", CODE_POST, "", 201, "Location: https://h.example/n\n", "", 201, "", ""},
    {"201 with nonsense", CODE_POST, "", 201, "Location: ://%zz\n", "", 201, "", ""},
    {"201 to a GET", CODE_GET, "", 201, "", "", 502, "14:", "unexpected http status"},
    {"DELETE 200", CODE_DELETE, "", 200, "", "", 202, "", ""},
    {"DELETE 202", CODE_DELETE, "", 202, "", "", 202, "", ""},
    {"DELETE 204", CODE_DELETE, "", 204, "", "", 202, "", ""},
    {"DELETE 404", CODE_DELETE, "", 404, TEXT, "gone", 202, "", ""},
    {"DELETE 410", CODE_DELETE, "", 410, "", "", 202, "", ""},
    {"304", CODE_GET, "4=abc", 304, "ETag: \"abc\"\nCache-Control: max-age=5\n", "", 203,
     "4=abc 14:05", ""},
    {"304 without a tag", CODE_GET, "4=abc", 304, "", "", 203, "4=abc 14:", ""},
    {"304 of several", CODE_GET, "4=abc 4=d", 304, "ETag: \"d\"\n", "", 203, "4=d 14:", ""},
    {"304 to a PUT", CODE_PUT, "4=abc", 304, "ETag: \"abc\"\n", "", 502,
     "14:", "unexpected http status"},
    {"304 to a POST", CODE_POST, "4=abc", 304, "", "", 502, "14:", "unexpected http status"},
    {"304 to a DELETE", CODE_DELETE, "4=abc", 304, "", "", 502, "14:", "unexpected http status"},
    /* CH-5 */
    {"400", CODE_GET, "", 400, TEXT, "why", 400, "14:", "why"},
    {"401", CODE_GET, "", 401, "", "", 401, "14:", ""},
    {"402", CODE_GET, "", 402, "", "", 400, "14:", ""},
    {"403", CODE_GET, "", 403, "", "", 403, "14:", ""},
    {"404", CODE_GET, "", 404, "Content-Type: text/html\n", "<h1>", 404, "14:", ""},
    {"405", CODE_GET, "", 405, "", "", 405, "14:", ""},
    {"406", CODE_GET, "", 406, "", "", 406, "14:", ""},
    {"408", CODE_GET, "", 408, "", "", 408, "14:", ""},
    {"409", CODE_GET, "", 409, "", "", 409, "14:", ""},
    {"410", CODE_GET, "", 410, "", "", 400, "14:", ""},
    {"412", CODE_GET, "", 412, "", "", 412, "14:", ""},
    {"413", CODE_GET, "", 413, "", "", 413, "14:", ""},
    {"415", CODE_GET, "", 415, "", "", 415, "14:", ""},
    {"422", CODE_GET, "", 422, "", "", 422, "14:", ""},
    {"429", CODE_GET, "", 429, "Retry-After: 120\n", "", 429, "14:78", ""},
    {"429 until a date", CODE_GET, "", 429, "Retry-After: Sun, 09 Sep 2001 01:47:40 GMT\n", "", 429,
     "14:3c", ""},
    {"451", CODE_GET, "", 451, "", "", 400, "14:", ""},
    {"500", CODE_GET, "", 500, "", "", 500, "14:", ""},
    {"501", CODE_GET, "", 501, "", "", 501, "14:", ""},
    {"502", CODE_GET, "", 502, "", "", 502, "14:", ""},
    {"503", CODE_GET, "", 503, "Retry-After: 7\n", "", 503, "14:07", ""},
    {"503 with nonsense", CODE_GET, "", 503, "Retry-After: soon\n", "", 503, "14:", ""},
    {"504", CODE_GET, "", 504, "", "", 504, "14:", ""},
    {"507", CODE_GET, "", 507, "", "", 500, "14:", ""},
    {"508", CODE_GET, "", 508, "", "", 508, "14:", ""},
    {"301", CODE_GET, "", 301, "Location: /b\n", "", 502, "14:", "redirect not followed"},
    {"no status at all", CODE_GET, "", 0, "", "", 502, "14:", "unexpected http status"},
    {"999", CODE_GET, "", 999, "", "", 502, "14:", "unexpected http status"},
    {"an error with a format", CODE_GET, "", 400, "Content-Type: application/json\n", "{}", 400,
     "12:32 14:", "{}"},
    {"an error that is no text", CODE_GET, "", 400, TEXT, "a\xff", 400, "14:", ""},
    /* CH-7 */
    {"a short tag", CODE_GET, "", 200, TEXT "ETag: \"12345678\"\n", "hi", 205,
     "4=12345678 12: 14:", "hi"},
    {"a weak tag", CODE_GET, "", 200, TEXT "ETag: W/\"1\"\n", "hi", 205, "12: 14:", "hi"},
    {"an empty tag", CODE_GET, "", 200, TEXT "ETag: \"\"\n", "hi", 205, "12: 14:", "hi"},
    {"no tag", CODE_GET, "", 200, TEXT "ETag: 1\n", "hi", 205, "12: 14:", "hi"},
    /* CH-8 */
    {"JSON", CODE_GET, "", 200, "Content-Type: application/json; charset=UTF-8\n", "{}", 205,
     "12:32 14:", "{}"},
    {"deflated", CODE_GET, "", 200, "Content-Type: application/json\nContent-Encoding: deflate\n",
     "x", 205, "12:2b2a 14:", "x"},
    {"no number", CODE_GET, "", 200, "Content-Type: text/html\n", "<p>", 205, "14:", "<p>"},
    {"text in another charset", CODE_GET, "", 200, "Content-Type: text/html; charset=koi8-r\n", "x",
     205, "12:2a 14:", "x"},
    {"XML in another charset", CODE_GET, "", 200,
     "Content-Type: application/atom+xml; charset=utf-16\n", "x", 205, "12:2a 14:", "x"},
    {"text in UTF-8", CODE_GET, "", 200, "Content-Type: text/html; charset=utf-8\n", "x", 205,
     "14:", "x"},
    {"text in UTF-8, quoted", CODE_GET, "", 200, "Content-Type: text/html; charset=\"UTF-8\"\n",
     "x", 205, "14:", "x"},
    {"text in ASCII", CODE_GET, "", 200, "Content-Type: text/html; charset=US-ASCII\n", "x", 205,
     "14:", "x"},
    {"text in two bytes a letter", CODE_GET, "", 200, "Content-Type: text/html; charset=utf-16\n",
     "x", 205, "12:2a 14:", "x"},
    {"not coded", CODE_GET, "", 200, "Content-Type: text/html\nContent-Encoding: Identity\n", "x",
     205, "14:", "x"},
    {"an unknown coding", CODE_GET, "", 200, "Content-Type: text/plain\nContent-Encoding: br\n",
     "x", 205, "12:2a 14:", "x"},
    {"no type", CODE_GET, "", 200, "", "x", 205, "14:", "x"},
    {"coap-payload", CODE_GET, "", 200, "Content-Type: application/coap-payload;cf=999\n", "x", 205,
     "12:03e7 14:", "x"},
    {"what was accepted", CODE_GET, "17:32", 200, "Content-Type: application/json\n", "{}", 205,
     "12:32 14:", "{}"},
    {"another than accepted", CODE_GET, "17:32", 200, TEXT, "hi", 406,
     "14:", "the server has another media type"},
};

static size_t fields_of(char *text, struct http_field *ret_fields)
{
    size_t count = 0;
    char *line;
    while ((line = strsep(&text, "\n")) != NULL && line[0] != '\0') {
        char *colon = strstr(line, ": ");
        assert_non_null(colon);
        *colon = '\0';
        ret_fields[count++] = (struct http_field){line, colon + 2};
    }
    return count;
}

static enum reason map_answer(const struct answer_row *row, bool has_credentials,
                              bool refuses_unmapped, struct http_mapped *ret_mapped)
{
    static uint8_t options[1024], asked[256];
    static char text[1024];
    struct http_field fields[HTTP_RESPONSE_FIELDS_MAX];
    const struct message request = {.code = row->method,
                                    .options = options_of(row->asked, asked, sizeof(asked))};
    (void)snprintf(text, sizeof(text), "%s", row->fields);
    const struct http_response response = {
        .status = row->status,
        .fields = fields,
        .field_count = fields_of(text, fields),
        .body = {(const uint8_t *)row->body, strlen(row->body)},
        .received_s = NOW,
    };
    const struct http_question question = {
        .request = &request,
        .url = URL,
        .has_credentials = has_credentials,
        .refuses_unmapped = refuses_unmapped,
        .tags = tags,
    };
    return http_response_map(&response, &question, options, sizeof(options), ret_mapped);
}

static void expect_mapped(const struct answer_row *row, const struct http_mapped *mapped)
{
    uint8_t room[512];
    struct bytes options = options_of(row->options, room, sizeof(room));
    assert_int_equal(CODE_CLASS(mapped->code) * 100 + CODE_DETAIL(mapped->code), row->code);
    assert_int_equal(mapped->options.len, options.len);
    assert_memory_equal(mapped->options.data, options.data, options.len);
    assert_int_equal(mapped->payload.len, strlen(row->payload));
    if (mapped->payload.len > 0) {
        assert_memory_equal(mapped->payload.data, row->payload, mapped->payload.len);
    }
}

/* CH-4, CH-5, CH-7, CH-8 */
static void test_answers_become_coap(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(answer_rows) / sizeof(answer_rows[0]); i++) {
        struct http_mapped mapped;
        print_message("    %s\n", answer_rows[i].title);
        assert_int_equal(map_answer(&answer_rows[i], false, false, &mapped), REASON_none);
        expect_mapped(&answer_rows[i], &mapped);
    }
}

static void test_unmapped_types_can_be_refused(void **state)
{
    static const struct answer_row row = {"",
                                          CODE_GET,
                                          "",
                                          200,
                                          "Content-Type: text/html\nETag: \"1\"\n",
                                          "<p>",
                                          502,
                                          "14:",
                                          "media type without a content-format"};
    struct http_mapped mapped;
    (void)state;
    assert_int_equal(map_answer(&row, false, true, &mapped), REASON_none);
    expect_mapped(&row, &mapped);
}

static void test_a_304_that_was_not_asked_for_is_invalid(void **state)
{
    static const struct answer_row rows[] = {
        {"no tag", CODE_GET, "", 304, "", "", 0, "", ""},
        {"which of them?", CODE_GET, "4=a 4=b", 304, "ETag: W/\"a\"\n", "", 0, "", ""},
    };
    struct http_mapped mapped;
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(map_answer(&rows[i], false, false, &mapped), REASON_origin_invalid);
    }
}

/* CH-7: longer tags come back as they were, as long as they are remembered. */
static void test_long_tags_find_their_way_back(void **state)
{
    uint8_t etag[HTTP_TAG_ETAG_MAX], other[HTTP_TAG_ETAG_MAX];
    char text[HTTP_TAG_TEXT_MAX], tag[HTTP_TAG_TEXT_MAX + 8];
    (void)state;
    assert_int_equal(http_tag_take(tags, "\"123456789\"", etag), 8);
    assert_int_equal(http_tag_take(tags, "\"12345678:\"", other), 8);
    assert_memory_not_equal(etag, other, 8);
    assert_true(http_tag_give(tags, (struct bytes){etag, 8}, text));
    assert_string_equal(text, "\"123456789\"");
    assert_true(http_tag_give(tags, (struct bytes){other, 8}, text));
    assert_string_equal(text, "\"12345678:\"");
    assert_false(http_tag_give(tags, (struct bytes){other, 7}, text));
    for (unsigned i = 0; i < 100000; i++) { /* far more than there are slots: it goes at last */
        (void)snprintf(tag, sizeof(tag), "\"tag number %u\"", i);
        assert_int_equal(http_tag_take(tags, tag, other), 0); /* a blank */
        tag[4] = tag[11] = '-';
        assert_int_equal(http_tag_take(tags, tag, other), 8);
        assert_true(http_tag_give(tags, (struct bytes){other, 8}, text));
        assert_string_equal(text, tag);
    }
    assert_false(http_tag_give(tags, (struct bytes){etag, 8}, text) &&
                 strcmp(text, "\"123456789\"") != 0);
    memset(tag, 'a', sizeof(tag));
    tag[0] = tag[HTTP_TAG_TEXT_MAX - 1] = '"';
    tag[HTTP_TAG_TEXT_MAX] = '\0';
    assert_int_equal(http_tag_take(tags, tag, etag), 0); /* too long by one */
}

/* --- freshness (CH-6) --------------------------------------------------------------- */

static const struct {
    const char *title;
    const char *fields;
    uint32_t fresh_s;
    bool is_private;
} fresh_rows[] = {
    {"nothing", "", 0, false},
    {"max-age", "Cache-Control: max-age=60\n", 60, false},
    {"in capitals, quoted", "Cache-Control: MAX-AGE=\"60\"\n", 60, false},
    {"among others", "Cache-Control: foo=\"a, max-age=9\" , max-age=60,,\n", 60, false},
    {"a comma at the end", "Cache-Control: max-age=60, \n", 60, false},
    {"only a blank", "Cache-Control:  \n", 0, false},
    {"blanks before a comma", "Cache-Control: max-age=60 \t, public\n", 60, false},
    {"on two lines", "Cache-Control: public\nCache-Control: max-age=60\n", 60, false},
    {"s-maxage goes first", "Cache-Control: max-age=60, s-maxage=5\n", 5, false},
    {"less its Age", "Cache-Control: max-age=60\nAge: 50\n", 10, false},
    {"older than that", "Cache-Control: max-age=60\nAge: 61\n", 0, false},
    {"an Age that is none", "Cache-Control: max-age=60\nAge: x\n", 0, false},
    {"from an old Date", "Cache-Control: max-age=60\nDate: Sun, 09 Sep 2001 01:46:00 GMT\n", 20,
     false},
    {"from a Date to come", "Cache-Control: max-age=60\nDate: Sun, 09 Sep 2001 01:48:00 GMT\n", 60,
     false},
    {"a negative number", "Cache-Control: max-age=-1\n", 0, false},
    {"no number", "Cache-Control: max-age\n", 0, false},
    {"more than there are", "Cache-Control: max-age=99999999999999999999\n", UINT32_MAX, false},
    {"Expires", "Date: Sun, 09 Sep 2001 01:46:40 GMT\nExpires: Sun, 09 Sep 2001 01:47:40 GMT\n", 60,
     false},
    {"Expires in RFC 850",
     "Date: Sun, 09 Sep 2001 01:46:40 GMT\nExpires: Sunday, 09-Sep-01 01:47:40 GMT\n", 60, false},
    {"Expires of C", "Date: Sun, 09 Sep 2001 01:46:40 GMT\nExpires: Sun Sep  9 01:47:40 2001\n", 60,
     false},
    {"Expires: 0", "Expires: 0\n", 0, false},
    {"max-age over Expires", "Cache-Control: max-age=5\nExpires: Sun, 09 Sep 2001 01:47:40 GMT\n",
     5, false},
    {"no-store", "Cache-Control: no-store, max-age=60\n", 0, true},
    {"no-cache", "Cache-Control: no-cache, max-age=60\n", 0, true},
    {"private", "Cache-Control: private=\"a, b\", max-age=60\n", 0, true},
    {"Vary: *", "Vary: *\nCache-Control: max-age=60\n", 60, true},
    {"Vary: Accept", "Vary: accept\nCache-Control: max-age=60\n", 60, false},
    {"Vary: Via", "Vary: Accept, Via\nCache-Control: max-age=60\n", 60, true},
};

static void test_freshness_is_that_of_rfc_9111(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(fresh_rows) / sizeof(fresh_rows[0]); i++) {
        struct http_field fields[HTTP_RESPONSE_FIELDS_MAX];
        struct http_mapped mapped;
        print_message("    %s\n", fresh_rows[i].title);
        char *text = strdup(fresh_rows[i].fields); /* of its own size, for the sanitizer */
        assert_non_null(text);
        const struct http_response response = {.status = 200,
                                               .fields = fields,
                                               .field_count = fields_of(text, fields),
                                               .received_s = NOW};
        assert_int_equal(http_response_fresh_s(&response), fresh_rows[i].fresh_s);
        free(text);
        const struct answer_row row = {"", CODE_GET, "", 200, fresh_rows[i].fields, "x", 0, "", ""};
        assert_int_equal(map_answer(&row, false, false, &mapped), REASON_none);
        assert_int_equal(mapped.is_private, fresh_rows[i].is_private);
    }
}

/* RFC 9111 section 3.5 */
static void test_answers_to_credentials_are_for_one(void **state)
{
    static const struct {
        const char *control;
        bool is_private;
    } rows[] = {
        {"Cache-Control: max-age=60\n", true},
        {"Cache-Control: max-age=60, public\n", false},
        {"Cache-Control: s-maxage=60\n", false},
        {"Cache-Control: max-age=60, must-revalidate\n", false},
        {"Cache-Control: public, no-store\n", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_mapped mapped;
        const struct answer_row row = {"", CODE_GET, "", 200, rows[i].control, "x", 0, "", ""};
        assert_int_equal(map_answer(&row, true, false, &mapped), REASON_none);
        assert_int_equal(mapped.is_private, rows[i].is_private);
    }
}

/* CH-5: where an answer leads, relative to http://h.example/a. */
static void test_redirects_lead_somewhere(void **state)
{
    static const struct {
        unsigned status;
        uint8_t method;
        const char *location;
        const char *uri; /* NULL: nowhere */
    } rows[] = {
        {301, CODE_GET, "http://g/x?y", "http://g/x?y"},
        {302, CODE_GET, "/b", "http://h.example/b"},
        {303, CODE_GET, "b/c", "http://h.example/b/c"},
        {307, CODE_POST, "?q", "http://h.example/a?q"},
        {308, CODE_PUT, "//g/#part", "http://g/"},
        {301, CODE_GET, "HTTPS://G.Example:443/x", "https://g.example/x"},
        {302, CODE_POST, "/b", NULL},
        {303, CODE_DELETE, "/b", NULL},
        {300, CODE_GET, "/b", NULL},
        {304, CODE_GET, "/b", NULL},
        {200, CODE_GET, "/b", NULL},
        {302, CODE_GET, NULL, NULL},
        {302, CODE_GET, "http://[::1", NULL},
        {302, CODE_GET, "http://g/a b", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t buffer[2048];
        char uri[256];
        size_t len = 0;
        struct bytes found;
        struct cri cri;
        const struct http_field field = {"location", rows[i].location};
        const struct http_response response = {
            .status = rows[i].status, .fields = &field, .field_count = rows[i].location != NULL};
        bool leads =
            http_response_redirect(&response, URL, rows[i].method, buffer, sizeof(buffer), &found);
        print_message("    %u %s\n", rows[i].status, rows[i].location);
        assert_int_equal(leads, rows[i].uri != NULL);
        if (leads) {
            assert_int_equal(
                cri_decode((struct cri_slice){found.data, found.len}, NULL, &cri, NULL), CRI_OK);
            assert_int_equal(cri_uri_format(&cri, NULL, uri, sizeof(uri) - 1, &len, NULL), CRI_OK);
            uri[len] = '\0';
            assert_string_equal(uri, rows[i].uri);
        }
    }
}

/* CH-12 */
static void test_lines_of_the_configuration(void **state)
{
    static const struct {
        const char *line;
        bool is_good;
    } rows[] = {
        {"Authorization: Bearer abc", true},
        {"X-Key:v", true},
        {"x: a\tb", true},
        {"Cookie: a=b; c", true},
        {"", false},
        {"X-Key", false},
        {"X-Key:", false},
        {"X-Key: ", false},
        {": v", false},
        {"X Key: v", false},
        {"X: a\r\nb", false},
        {"X: a\001", false},
        {"host: other", false},
        {"Via: me", false},
        {"TE: trailers", false},
        {"Content-length: 1", false},
        {"If-Match: *", false},
        {"Hosts: fine", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %s\n", rows[i].line);
        assert_int_equal(http_line_error(rows[i].line) == NULL, rows[i].is_good);
    }
}

/* CH-14: what several observers may share, with a Max-Age that lasts until the next poll. */
static void test_registrations_that_poll(void **state)
{
    static const struct {
        unsigned status;
        const char *fields;
        bool has_credentials, is_observed;
        uint32_t max_age_s;
    } rows[] = {
        {200, "", false, true, 10},
        {200, "Cache-Control: no-cache\n", false, true, 10},
        {200, "Cache-Control: max-age=60\n", false, true, 60},
        {304, "Cache-Control: max-age=5\n", false, true, 10},
        {200, "Cache-Control: private, max-age=60\n", false, false, 0},
        {200, "Cache-Control: no-store\n", false, false, 0},
        {200, "Vary: *\n", false, false, 0},
        {200, "Cache-Control: max-age=60\n", true, false, 0},
        {200, "Cache-Control: max-age=60, public\n", true, true, 60},
        {404, "Cache-Control: max-age=60\n", false, false, 60},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[128];
        uint8_t buffer[256];
        struct http_field fields[HTTP_RESPONSE_FIELDS_MAX];
        struct http_mapped mapped;
        struct bytes value;
        const struct message request = {.code = CODE_GET};
        (void)snprintf(text, sizeof(text), "%s", rows[i].fields);
        const struct http_response response = {.status = rows[i].status,
                                               .fields = fields,
                                               .field_count = fields_of(text, fields),
                                               .received_s = NOW};
        const struct http_question question = {.request = &request,
                                               .has_credentials = rows[i].has_credentials,
                                               .tags = tags,
                                               .known = {(const uint8_t *)"v1", 2},
                                               .poll_s = 10};
        print_message("    %u %s", rows[i].status, rows[i].fields);
        assert_int_equal(http_response_map(&response, &question, buffer, sizeof(buffer), &mapped),
                         REASON_none);
        assert_int_equal(mapped.is_observed, rows[i].is_observed);
        assert_int_equal(option_find(mapped.options, OPTION_observe, &value), rows[i].is_observed);
        assert_true(option_find(mapped.options, OPTION_max_age, &value));
        assert_int_equal(option_uint(value), rows[i].max_age_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_become_http),
        cmocka_unit_test(test_hosts_and_ports),
        cmocka_unit_test(test_what_http_has_nothing_for),
        cmocka_unit_test(test_answers_become_coap),
        cmocka_unit_test(test_unmapped_types_can_be_refused),
        cmocka_unit_test(test_a_304_that_was_not_asked_for_is_invalid),
        cmocka_unit_test(test_long_tags_find_their_way_back),
        cmocka_unit_test(test_freshness_is_that_of_rfc_9111),
        cmocka_unit_test(test_answers_to_credentials_are_for_one),
        cmocka_unit_test(test_redirects_lead_somewhere),
        cmocka_unit_test(test_lines_of_the_configuration),
        cmocka_unit_test(test_registrations_that_poll),
    };
    return cmocka_run_group_tests(tests, start_tags, stop_tags);
}
