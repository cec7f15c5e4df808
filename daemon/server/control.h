/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The administration of a running proxy: server/control_socket.c (the socket of criproxyctl) and
 * server/admin_api.c (HTTP) bring requests, server/commands*.c say what each command does, and
 * server/control.c makes the answers. Both get the same lines.
 *
 * On the socket a request is one JSON object on a line: {"command":"explain","argument1":"..."}.
 * The answer is any number of lines with an object each, then {"end":"ok"}, or
 * {"end":"error","error":"..."}. Requests of one connection are answered in turn.
 */
#ifndef CRIPROXY_SERVER_CONTROL_H
#define CRIPROXY_SERVER_CONTROL_H

#include "base/json.h"
#include "server/internal.h"

#define CONTROL_ARGUMENTS_MAX 16u

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

/* ---- server/control.c ---- */

struct server;
struct worker_ask;
struct worker_lines;

/* How an answer gets to its client. */
struct control_way {
    /* Queues bytes, copied. @return whether there is room for more; else control_drained() follows
     */
    bool (*send)(struct control_client *client, const char *data, size_t len);
    /* The answer is over: @p last is its last line, @p error as in control_end(). May free it. */
    void (*end)(struct control_client *client, const struct json_writer *last, const char *error);
    /* What follows may take forever: the client has to be heard when it goes. */
    void (*listen)(struct control_client *client);
    /* Of its connection, still that; -1: it has none of its own. */
    int (*descriptor)(const struct control_client *client);
    const char *not_allowed; /* the error where the level is too low */
};

/* One that asks. The first member of what its way has of it. */
struct control_client {
    struct server *server; /* outlives it */
    const struct control_way *way;
    enum control_level level;
    uint64_t id;  /* no other client of this process has it */
    bool is_busy; /* a request is being answered; the way's to set, ended by control.c */

    /* Of control.c alone. */
    struct control_client *next, **link;
    bool is_full; /* what was sent waits: no more for now */
    bool is_tracing, is_capturing;
    uint64_t lost; /* blocks of the trace, or messages, that there was no room for */
    struct worker_lines *lines, **lines_end; /* of messages, waiting for the client to read */
    struct worker_ask *ask; /* the next piece of a list, waiting for the client to read */
};

/** Prepares the caller's struct. Give to control_clear(). @p way is static. */
void control_init(struct control_client *client, struct server *server,
                  const struct control_way *way, enum control_level level);

/** The client has gone: whatever it had asked for ends. The struct is the caller's. */
void control_clear(struct control_client *client);

/** What was sent has been taken: what waited for that goes on. May end the answer, and with it
 * free the client. Errors are in the answer. */
void control_drained(struct control_client *client);

/** Ends the answer where it is one without an end of its own: a trace, a capture. */
void control_stop(struct control_client *client);

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
    uint32_t per_s; /* of each worker; 0: no limit */
};

/**
 * Sends each traced request as it ends, until the client sends another line, or goes. @p filter is
 * copied. Ends the answer with an error where too many traces run, or a filter is too long.
 */
void control_trace(struct control_client *client, const struct control_filter *filter);

/** Whether an address may begin so: "192.0.2.", "[2001:db8:", "[fe80::1%wpan0]:5683", "fe80". */
bool control_begins_address(const char *text);

/** Whether a reason of reasons.def has that name. */
bool control_is_reason(const char *name);

/* Which messages are captured, as in struct worker_capture. */
struct control_capture {
    const char *client, *origin, *target;
    bool has_clients, has_origins, has_answers;
};

/**
 * Sends each message of clients and origin servers, until the client sends another line, or goes;
 * before the first one a line that none was lost, at once. @p wanted is copied. Ends the answer
 * with an error where too many captures run, or a filter is too long.
 */
void control_capture(struct control_client *client, const struct control_capture *wanted);

/* ---- server/fronts.c ---- */

/** Sends the rows of fronts, and ends the answer; with an error where there is no memory. */
void control_fronts(struct control_client *client);

/* ---- server/commands_live.c ---- */

/** The value of an argument "KEY=VALUE", borrowed from @p argument; NULL if it has another key. */
const char *control_value_of(const char *argument, const char *key);

/** The command trace. Ends the answer where an argument is wrong. @p request is borrowed. */
void run_trace(struct control_client *client, const struct control_request *request);

/** The command messages, likewise. */
void run_messages(struct control_client *client, const struct control_request *request);

/** The command answers, likewise. */
void run_answers(struct control_client *client, const struct control_request *request);

/* ---- server/commands.c ---- */

/* Over HTTP. */
enum control_web {
    WEB_NO,
    WEB_GET,
    WEB_EVENTS, /* GET, as a stream of events */
    WEB_POST,   /* as it changes something */
    WEB_BOTH,   /* GET where it shows something, and POST */
};

/** What may become of command @p name, borrowed, over HTTP. @return WEB_NO: there is none */
enum control_web control_web_of(const char *name);

/**
 * Runs the command; control_end() is called, now or later, also after an error: the client may be
 * gone after this call. @p request is borrowed for the call.
 */
void control_run(struct control_client *client, const struct control_request *request);

#endif
