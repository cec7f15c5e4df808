/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by server/control.c (the socket, lines in and out) and server/commands.c
 * (what each command does).
 *
 * A request is one JSON object on a line: {"command":"explain","argument1":"..."}.
 * The answer is any number of lines with an object each, then {"end":"ok"}, or
 * {"end":"error","error":"..."}. Requests of one connection are answered in turn.
 */
#ifndef CRIPROXY_SERVER_CONTROL_H
#define CRIPROXY_SERVER_CONTROL_H

#include "base/json.h"
#include "server/internal.h"

#define CONTROL_ARGUMENTS_MAX 16u

struct conn;
struct control_client;

struct control_request {
    const char *command;
    const char *arguments[CONTROL_ARGUMENTS_MAX]; /* "" where absent */
    size_t argument_count;
};

/* The commands that a process may use; each level includes those before it. */
enum control_level {
    CONTROL_NOTHING,
    CONTROL_LOOK,
    CONTROL_OPERATE,
};

#define CONTROL_NOT_ALLOWED "not allowed: that takes root, or the group of admin.operate-group"

/* ---- server/control.c ---- */

struct control;
struct conn;
struct server;
struct worker_ask;

/* A connection to the control socket. */
struct control_client {
    struct server *server;    /* outlives it */
    enum control_level level; /* by the user and groups that the process had when it connected */
    uint64_t id;              /* no other client of this process has it */

    /* Of control.c alone. */
    struct control *control;
    struct control_client *next, **link;
    struct conn *conn;
    bool is_busy; /* a request is being answered */
    bool is_full; /* what was sent waits: no more for now */
    bool is_tracing, is_capturing;
    uint64_t lost;          /* blocks of the trace that there was no room for */
    struct worker_ask *ask; /* the next piece of a list, waiting for the client to read */
};

/**
 * Queues lines for the client; they are copied. Once too many wait to be sent, or without memory,
 * the client counts as full.
 */
void control_send(struct control_client *client, const struct json_writer *lines);

/** The last line of an answer: ok, or the error where @p error is not NULL. */
void control_end(struct control_client *client, const char *error);

/* A list that workers make. */
struct control_listing {
    inspect_fn *run;
    const char *argument;  /* for it; copied */
    const char *limit;     /* how many rows there can be, for people; static, or NULL */
    bool is_of_one_worker; /* all would say the same */
};

/**
 * Asks the workers one after the other and sends what each has; ends the answer itself, also after
 * an error. @p listing is copied.
 */
void control_list(struct control_client *client, const struct control_listing *listing);

/* Which requests are traced, as in struct trace_tap; "": any. */
struct control_filter {
    const char *client, *target, *reason, *identity;
};

/**
 * Sends each traced request as it ends, until the client sends another line, or goes. @p filter is
 * copied. Ends the answer with an error where too many traces run, or a filter is too long.
 */
void control_trace(struct control_client *client, const struct control_filter *filter);

/* Which messages are captured, as in struct worker_capture. */
struct control_capture {
    const char *client, *origin;
    bool has_clients, has_origins;
};

/**
 * Sends each message of clients and origin servers, until the client sends another line, or goes.
 * @p wanted is copied. Ends the answer with an error where too many captures run, or a filter is
 * too long.
 */
void control_capture(struct control_client *client, const struct control_capture *wanted);

/* ---- server/fronts.c ---- */

/** Sends the rows of fronts, and ends the answer; with an error where there is no memory. */
void control_fronts(struct control_client *client);

/* ---- server/commands.c ---- */

/**
 * Runs the command; control_end() is called, now or later, also after an error. @p request is
 * borrowed for the call.
 */
void control_run(struct control_client *client, const struct control_request *request);

#endif
