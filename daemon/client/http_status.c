/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_status.h"

struct status_row {
    uint8_t code;
    int bare, with_payload;
};

static const struct status_row status_rows[] = {
#define STATUS(class, detail, bare, with_payload) {CODE(class, detail), bare, with_payload},
#include "client/http_status.def"
#undef STATUS
};

static const struct status_row *status_row(uint8_t code)
{
    for (size_t i = 0; i < sizeof(status_rows) / sizeof(status_rows[0]); i++) {
        if (status_rows[i].code == code) {
            return &status_rows[i];
        }
    }
    return NULL;
}

int http_status_of(uint8_t code, bool has_payload)
{
    const struct status_row *row = status_row(code);
    if (row == NULL && CODE_CLASS(code) == 2) {
        row = status_row(CODE(2, 4));
    }
    if (row == NULL) { /* RFC 7252 section 5.9: as the generic code of its class */
        row = status_row(CODE(CODE_CLASS(code), 0));
    }
    if (row == NULL) {
        return 502;
    }
    return has_payload ? row->with_payload : row->bare;
}

struct phrase_row {
    int status;
    const char *phrase, *word;
};

static const struct phrase_row *phrase_row(int status)
{
#define PHRASE(status, phrase) {status, phrase, "http_" #status},
    static const struct phrase_row rows[] = {
        /* clang-format off */
        PHRASE(100, "Continue")
        PHRASE(200, "OK")
        PHRASE(201, "Created")
        PHRASE(204, "No Content")
        PHRASE(304, "Not Modified")
        PHRASE(400, "Bad Request")
        PHRASE(401, "Unauthorized")
        PHRASE(403, "Forbidden")
        PHRASE(404, "Not Found")
        PHRASE(405, "Method Not Allowed")
        PHRASE(406, "Not Acceptable")
        PHRASE(408, "Request Timeout")
        PHRASE(409, "Conflict")
        PHRASE(412, "Precondition Failed")
        PHRASE(413, "Content Too Large")
        PHRASE(414, "URI Too Long")
        PHRASE(415, "Unsupported Media Type")
        PHRASE(417, "Expectation Failed")
        PHRASE(421, "Misdirected Request")
        PHRASE(422, "Unprocessable Content")
        PHRASE(425, "Too Early")
        PHRASE(429, "Too Many Requests")
        PHRASE(431, "Request Header Fields Too Large")
        PHRASE(500, "Internal Server Error")
        PHRASE(501, "Not Implemented")
        PHRASE(502, "Bad Gateway")
        PHRASE(503, "Service Unavailable")
        PHRASE(504, "Gateway Timeout")
        PHRASE(505, "HTTP Version Not Supported")
        PHRASE(508, "Loop Detected")
        /* clang-format on */
    };
#undef PHRASE
    static const struct phrase_row other = {0, "Status", "http"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].status == status) {
            return &rows[i];
        }
    }
    return &other;
}

const char *http_status_phrase(int status)
{
    return phrase_row(status)->phrase;
}

const char *http_status_word(int status)
{
    return phrase_row(status)->word;
}
