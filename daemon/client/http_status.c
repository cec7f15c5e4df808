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

const char *http_status_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {
        {100, "Continue"},
        {200, "OK"},
        {201, "Created"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {508, "Loop Detected"},
    };
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        if (phrases[i].status == status) {
            return phrases[i].phrase;
        }
    }
    return "Status";
}
