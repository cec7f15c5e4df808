/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that call home: origin servers that are reached over the session that they have opened to
 * the proxy as its clients. What client/ has of such a session it registers here as a line: as
 * little as a carrier needs of it, so that nothing here knows of clients.
 *
 *     client/datagram.c, stream.c                       origin/device.c
 *         device_open(row, line) ----------------------->  the device's line; an older one ends
 *         device_take(device, message) ----------------->  a response: sending_answered()
 *         device_close(device) ------------------------->  what was out fails, or is sent again
 *         line->calls->send(), take_mid(), end() <------   carrier_device: send, cancel, ping
 *
 * A device is one origin server (struct origin), whatever session it has, with an address of the
 * family ADDRESS_DEVICE: queue, window and silence outlive a session. Requests go out under tokens
 * of fetches, which no token of a request of the device is ever compared with. Message ids are
 * numbers between two endpoints whatever their roles (RFC 7252 section 4.4), so on DTLS they are
 * taken from the client's, as those of separate answers and notifications are.
 *
 * A session that ends takes observations with it; what is safe to repeat is sent again where
 * another session has taken its place.
 *
 * On plain UDP the line is an address that the device has registered from (client/directory.h). It
 * ends by itself, and is never replaced from another address while the device answers there.
 */
#ifndef CRIPROXY_DEVICE_H
#define CRIPROXY_DEVICE_H

#include "base/account.h"
#include "base/address.h"
#include "base/hash.h"
#include "base/identity.h"
#include "base/list.h"
#include "base/timer.h"
#include "coap/message.h"
#include "coap/reason.h"
#include "coap/transport.h"

struct config_device;
struct origin_side;
struct sending;

/* What a session does for its device. No call may come back from within. */
struct device_calls {
    /* A message id for a message that the proxy begins; false: all are in use. NULL: messages have
     * none, and are neither acknowledged nor sent again (RFC 8323). */
    bool (*take_mid)(void *owner, uint16_t *ret_mid);
    /* Send a message, as over UDP; copied. @return REASON_none, or why it cannot be sent */
    enum reason (*send)(void *owner, const uint8_t *datagram, size_t len);
    /* Send a Ping, where messages have no ids (RFC 8323 section 5.4). NULL: they have. */
    void (*ping)(void *owner);
    /* Another session has the device's place: this one is to be closed for @p why, static, and is
     * the device's no more, so that device_close() is not called for it. */
    void (*end)(void *owner, const char *why);
};

/* A session with a device. */
struct device_line {
    const struct device_calls *calls;
    void *owner; /* borrowed, until device_close() or end(); NULL: there is no session */
    enum transport transport;
    struct address remote;
    struct address local;      /* of UDP: which its messages come to and leave from */
    struct identity *identity; /* the owner's, which device_open() adds a reference to; NULL: UDP */
};

struct device {
    struct hash_node by_name, by_number;
    uint32_t number;
    struct holder *holder; /* which worker has its session (origin/switchboard.h) */
    struct device_line line;
    uint32_t lines;              /* the holder's number of it: tells what belongs to which */
    uint64_t since_ms, heard_ms; /* of the line: opened, and when it was heard of last */
    struct list out;             /* of struct sending: sent over the line, and may be answered */
    struct list relays;          /* likewise: passed on to the worker that has the session */
    struct timer timer;          /* of devices.keep-alive */
    struct timer lifetime;       /* of UDP: the registration ends, */
    uint64_t until_ms;           /* and when */
    uint32_t pings;              /* sent since it was heard of, */
    uint16_t ping_mid;           /* and the message id of the last one, where those have one */
    uint32_t waiting;            /* of this worker's requests, for it to come back */
    struct udp_path probed;      /* where the line's owner has sent a Ping to, if that is not */
    uint16_t probe_mid;          /* where the device is believed to be; no family: nowhere */
    uint64_t probe_ms;           /* when */
    char name[];
};

struct device_table {
    struct hash_map by_name, by_number;
    uint32_t last_number, open_count;
    uint64_t waiting_bytes;    /* of messages that wait for devices to come back, */
    struct account_book waits; /* and which source has how many; zeroed before the first */
    uint64_t seed;
    /* Another worker has a new session of @p device; NULL: not to be told. */
    void (*on_moved)(struct origin_side *side, struct device *device);
    /* While there is a trace: the line of @p device is open now (@p why is empty), or is about to
     * end for @p why, static. All is borrowed for the call, which changes nothing here. */
    void (*on_line)(struct origin_side *side, const struct device *device, const char *why);
    bool is_over; /* the engine is being freed: nothing is told any more */
};

/** @return 0 or -ENOMEM */
int device_table_init(struct device_table *table, uint32_t capacity, uint64_t seed);

/** Frees all devices; takes a zeroed table. Lines must have been closed, or is_over set. */
void device_table_clear(struct device_table *table);

/**
 * The address of the device with the section @p name, made if it has none yet.
 *
 * @return false without memory
 */
bool device_address(struct origin_side *side, struct bytes name, struct address *ret_address);

/** The device with @p address; NULL: there is none any more. Borrowed. */
struct device *device_at(const struct origin_side *side, const struct address *address);

/** The name of the device with @p address; NULL: it is no device's. Borrowed. */
const char *device_name_at(const struct origin_side *side, const struct address *address);

/**
 * What people are shown of the origin server at @p address: the name of a device, or the address.
 *
 * @return @p text, the caller's buffer, or the device's name, borrowed
 */
const char *device_format(const struct origin_side *side, const struct address *address,
                          char text[ADDRESS_TEXT_MAX]);

/** Whether the device with @p address has a session, with any worker. */
bool device_has_line(const struct origin_side *side, const struct address *address);

/**
 * Whether the device with @p address has its session with another worker, which has its window and
 * its silence, too.
 */
bool device_is_elsewhere(const struct origin_side *side, const struct address *address);

/** Whether the session that @p sending, to a device, was last sent over is not the present one. */
bool device_line_is_over(const struct origin_side *side, const struct sending *sending);

/** The device with the section @p name, if it was ever heard of or asked; else NULL. Borrowed. */
struct device *device_named(const struct origin_side *side, struct bytes name);

/**
 * The device of @p row has opened a session: requests go there from now on. An older one of it is
 * told to end; what was out there is sent again where that is safe, observations are renewed by
 * their owners, and the rest fails.
 *
 * @param line copied.
 * @return the device, until device_close() or end(); NULL without memory.
 */
struct device *device_open(struct origin_side *side, const struct config_device *row,
                           const struct device_line *line);

/**
 * Whether the device of @p row has a line of another owner than @p owner. If it has not been heard
 * of just now it gets Pings then, and loses the line where it answers none.
 */
bool device_is_taken(struct origin_side *side, const struct config_device *row, const void *owner);

/**
 * Its line ends in @p lifetime_ms, milliseconds from now, unless this is called again: a
 * registration over UDP. Cannot fail.
 */
void device_hold(struct origin_side *side, struct device *device, uint32_t lifetime_ms);

/** Its line ends now, for @p why, static: the owner is told by end(). Takes one without a line. */
void device_end(struct origin_side *side, struct device *device, const char *why);

/**
 * Its session has ended, or is for requests no more: what was out there fails, or waits for the
 * next one.
 */
void device_close(struct origin_side *side, struct device *device);

/** Something has come over its line. Cannot fail. */
void device_hear(struct origin_side *side, struct device *device);

/**
 * A message that is no request has come over its line, borrowed for the call.
 *
 * @param truncated of a datagram: only its beginning.
 * @return whether it belonged to a request of ours, and was dealt with; the line may be closed
 *         then. If not it is the owner's.
 */
bool device_take(struct origin_side *side, struct device *device, const struct message *message,
                 bool truncated);

/**
 * An error of the network or the kernel, an errno, for a datagram to @p device over UDP, of which
 * @p quoted, borrowed, is the start: the request that it is of fails. Others are passed over.
 */
void device_on_error(struct origin_side *side, const struct device *device, int error,
                     struct bytes quoted);

/** So many more requests of this worker wait for it to come back; fewer as 0u - count. Cannot fail.
 */
void device_add_waiting(struct origin_side *side, const struct address *address, uint32_t count);

/** Whether an answer is awaited over its line, notifications aside. */
bool device_is_asked(const struct device *device);

/** How many observations there are over its line. */
uint32_t device_count_observed(const struct device *device);

/** The configuration has changed: devices that it has no more lose their line. Cannot fail. */
void device_set_config(struct origin_side *side);

/** Whether the device of @p row, which is borrowed, has a session. */
bool device_is_open(struct origin_side *side, const struct config_device *row);

#endif
