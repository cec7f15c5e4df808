/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one shape of JSON that the tool writes and reads:
 * {"scheme":"coap","options":[[3,"host"],[7,61616],[11,"a"],[15,"q"]]}
 */
#ifndef CRI_JSON_H
#define CRI_JSON_H

#include "cri_tool.h"

/* Most options one input may have; a CoAP message holds no more. */
#define JSON_OPTIONS_MAX 65536

/* One option as it stands in the JSON. */
struct json_option {
    uint16_t number;
    bool is_number;   /* the value is a number, else text */
    uint64_t integer; /* with is_number */
    size_t offset;    /* of the text in json_request.text */
    size_t len;
};

/* The parsed input; reused from line to line. Zero it first, json_request_free() at the end. */
struct json_request {
    bool has_scheme;
    bool has_options;
    size_t scheme_offset; /* of the scheme in text */
    size_t scheme_len;
    struct json_option *options;
    size_t count;
    size_t capacity;
    struct buffer text; /* unescaped strings, one after the other */
};

/* Reads @p input; false with the byte and the reason in the tool's result. */
bool json_read_request(struct tool *tool, struct cri_slice input, struct json_request *request);
void json_request_free(struct json_request *request);

/* Appends @p text as a JSON string. */
void json_put_string(struct buffer *out, struct cri_slice text);

#endif
