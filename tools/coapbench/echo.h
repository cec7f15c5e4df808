/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The payload of the origin server, by which a client can prove that an answer belongs to its own
 * request: the line
 *
 *     METHOD /path/segments?query?query BODYHASH\n
 *
 * with the method's code in decimal and the FNV-1a of the request's payload in hex,
 * followed by filler up to the size that was asked for. Origin and load both make
 * the line with this code, from what each of them knows.
 */
#ifndef COAPBENCH_ECHO_H
#define COAPBENCH_ECHO_H

#include "wire.h"

enum {
    ECHO_LINE_MAX = 512,
};

struct echo_line {
    size_t len;
    char text[ECHO_LINE_MAX];
};

/** Begin with the method. */
void echo_begin(struct echo_line *line, uint8_t method);

/** Path segments, then query parameters, in order; cut at the line's end. */
void echo_add_path(struct echo_line *line, struct view segment);
void echo_add_query(struct echo_line *line, struct view parameter);

/** The request's payload, which ends the line. */
void echo_end(struct echo_line *line, struct view payload);

/** The line of a decoded request, as an origin sees it. */
void echo_of_request(struct echo_line *line, const struct wire_message *request);

/** Does @p payload begin with the line, whole? */
bool echo_matches(const struct echo_line *line, struct view payload);

#endif
