/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/capture.h"

#include "ctl/output.h"
#include "ctl/stop.h"
#include "ctl/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LINKTYPE_UPPER_PDU 252u
#define DISSECTOR "coap"
#define FILTERS_MAX 3
#define FILES_KEPT 1000u

/* Blocks and options of pcapng (draft-ietf-opsawg-pcapng sections 4 and 3.5). */
enum {
    BLOCK_SECTION = 0x0a0d0d0a,
    BLOCK_INTERFACE = 1,
    BLOCK_PACKET = 6,
    OPTION_END = 0,
    OPTION_COMMENT = 1,
    OPTION_PACKET_FLAGS = 2,
    OPTION_INTERFACE_NAME = 2,
    OPTION_APPLICATION = 4,
    FLAG_INBOUND = 1,
    FLAG_OUTBOUND = 2,
};

/* Tags before an exported PDU (Wireshark, wsutil/exported_pdu_tlvs.h). */
enum {
    TAG_END = 0,
    TAG_DISSECTOR = 12,
    TAG_IPV4_SOURCE = 20,
    TAG_IPV4_DESTINATION = 21,
    TAG_IPV6_SOURCE = 22,
    TAG_IPV6_DESTINATION = 23,
    TAG_PORT_TYPE = 24,
    TAG_SOURCE_PORT = 25,
    TAG_DESTINATION_PORT = 26,
};

#define PORT_TYPE_UDP 3u /* in TAG_PORT_TYPE; of connections, too: they are written as over UDP */

enum {
    CAPTURE_FAILED = 1,
    CAPTURE_USAGE = 2,
};

#define BLOCK_MAX 32768u

/* Bytes of a block, or of tags, that are put together. What does not fit is left out. */
struct bytes_out {
    uint8_t data[BLOCK_MAX];
    size_t len;
};

/* Where messages go: one file, or a set of them of which the newest are kept. */
struct capture_file {
    const char *given; /* the name on the command line */
    char name[PATH_MAX];
    FILE *out;
    uint64_t written, size_max; /* bytes of this file; 0: no limit */
    uint64_t messages, lost;
    int64_t clock_us;         /* what CLOCK_REALTIME is ahead of CLOCK_MONOTONIC */
    unsigned number, kept;    /* of a set: this file, counted from 1, and how many stay; or 0, 0 */
    time_t begun[FILES_KEPT]; /* of a set: when file N began, at N % FILES_KEPT */
};

/* ---- blocks ---- */

static void block_add(struct bytes_out *out, const void *data, size_t len)
{
    if (len > 0 && len <= sizeof(out->data) - out->len) {
        memcpy(out->data + out->len, data, len);
        out->len += len;
    }
}

/* Numbers of pcapng are in this machine's order, of which the section tells. */
static void add_u32(struct bytes_out *out, uint32_t value)
{
    block_add(out, &value, sizeof(value));
}

static void add_u16(struct bytes_out *out, uint16_t value)
{
    block_add(out, &value, sizeof(value));
}

static void pad_to_four(struct bytes_out *out)
{
    static const uint8_t zeros[4];

    block_add(out, zeros, (4 - out->len % 4) % 4);
}

static void add_option(struct bytes_out *out, uint16_t code, const void *value, size_t len)
{
    add_u16(out, code);
    add_u16(out, (uint16_t)len);
    block_add(out, value, len);
    pad_to_four(out);
}

static bool pcapng_put(struct capture_file *file, uint32_t type, const struct bytes_out *body)
{
    uint32_t total = (uint32_t)body->len + 12;
    bool is_good = fwrite(&type, 4, 1, file->out) == 1 && fwrite(&total, 4, 1, file->out) == 1 &&
                   (body->len == 0 || fwrite(body->data, body->len, 1, file->out) == 1) &&
                   fwrite(&total, 4, 1, file->out) == 1;

    file->written += total;
    return is_good;
}

static bool put_head_blocks(struct capture_file *file)
{
    static const char program[] = "criproxyctl " CRIPROXYCTL_VERSION, name[] = "criproxyd";
    struct bytes_out body = {.len = 0};
    const uint64_t unknown_length = UINT64_MAX;

    add_u32(&body, 0x1a2b3c4d);
    add_u16(&body, 1); /* version 1.0 */
    add_u16(&body, 0);
    block_add(&body, &unknown_length, sizeof(unknown_length));
    add_option(&body, OPTION_APPLICATION, program, sizeof(program) - 1);
    add_option(&body, OPTION_END, NULL, 0);
    if (!pcapng_put(file, BLOCK_SECTION, &body)) {
        return false;
    }
    body.len = 0;
    add_u16(&body, LINKTYPE_UPPER_PDU);
    add_u16(&body, 0);
    add_u32(&body, 0); /* no snap length */
    add_option(&body, OPTION_INTERFACE_NAME, name, sizeof(name) - 1);
    add_option(&body, OPTION_END, NULL, 0);
    return pcapng_put(file, BLOCK_INTERFACE, &body);
}

/* ---- exported PDUs ---- */

/* Tags are in network order. */
static void add_tag(struct bytes_out *out, uint16_t tag, const void *value, size_t len)
{
    add_u16(out, htons(tag));
    add_u16(out, htons((uint16_t)((len + 3) & ~(size_t)3)));
    block_add(out, value, len);
    pad_to_four(out);
}

static void add_number_tag(struct bytes_out *out, uint16_t tag, uint32_t value)
{
    uint32_t ordered = htonl(value);

    add_tag(out, tag, &ordered, sizeof(ordered));
}

/* "192.0.2.7:5683", "[2001:db8::7%eth0]:5683"; nothing of anything else. */
static void add_address(struct bytes_out *out, const char *text, bool is_source)
{
    char host[64];
    uint8_t bytes[16];
    const char *colon = strrchr(text, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);

    if (len == 0 || len >= sizeof(host)) {
        return;
    }
    bool is_ipv6 = text[0] == '[' && text[len - 1] == ']' && len > 2;
    memcpy(host, text + (is_ipv6 ? 1 : 0), is_ipv6 ? len - 2 : len);
    host[is_ipv6 ? len - 2 : len] = '\0';
    host[strcspn(host, "%")] = '\0';
    if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, host, bytes) != 1) {
        return;
    }
    if (is_ipv6) {
        add_tag(out, is_source ? TAG_IPV6_SOURCE : TAG_IPV6_DESTINATION, bytes, 16);
    } else {
        add_tag(out, is_source ? TAG_IPV4_SOURCE : TAG_IPV4_DESTINATION, bytes, 4);
    }
    add_number_tag(out, is_source ? TAG_SOURCE_PORT : TAG_DESTINATION_PORT,
                   (uint32_t)strtoul(colon + 1, NULL, 10));
}

static const char *member(const struct json_object *object, const char *key)
{
    const char *value = json_get(object, key);

    return value != NULL ? value : "";
}

static void add_hex(struct bytes_out *out, const char *hex)
{
    for (; hex[0] != '\0' && hex[1] != '\0'; hex += 2) {
        const char pair[3] = {hex[0], hex[1], '\0'};
        uint8_t byte = (uint8_t)strtoul(pair, NULL, 16);
        block_add(out, &byte, 1);
    }
}

/* The tags, and how many bytes they are. */
static size_t add_tags(struct bytes_out *out, const struct json_object *object, bool is_out)
{
    size_t begin = out->len;
    const char *remote = member(object, "remote"), *local = member(object, "local");

    /* Of sessions and HTTP to origin servers ours is not known. */
    local = local[0] != '\0' ? local : remote[0] == '[' ? "[::]:0" : "0.0.0.0:0";
    add_tag(out, TAG_DISSECTOR, DISSECTOR, sizeof(DISSECTOR) - 1);
    add_address(out, is_out ? local : remote, true);
    add_address(out, is_out ? remote : local, false);
    add_number_tag(out, TAG_PORT_TYPE, PORT_TYPE_UDP);
    add_tag(out, TAG_END, NULL, 0);
    return out->len - begin;
}

/* "client coaps in, exchange 7, answered, 9000 bytes cut" */
static void add_comment(struct bytes_out *out, const struct json_object *object, bool is_cut)
{
    const char *exchange = member(object, "exchange"), *reason = member(object, "reason");
    char text[256];
    int len =
        snprintf(text, sizeof(text), "%s %s %s%s%s%s%s%s%s", member(object, "side"),
                 member(object, "transport"), member(object, "way"),
                 exchange[0] != '\0' ? ", exchange " : "", exchange, reason[0] != '\0' ? ", " : "",
                 reason, is_cut ? ", cut from bytes: " : "", is_cut ? member(object, "len") : "");

    if (len > 0) {
        add_option(out, OPTION_COMMENT, text, strlen(text));
    }
}

static bool put_packet(struct capture_file *file, const struct json_object *object)
{
    struct bytes_out body = {.len = 0};
    const char *hex = member(object, "data");
    bool is_out = strcmp(member(object, "way"), "out") == 0;
    uint64_t at_us = strtoull(member(object, "at_us"), NULL, 10) + (uint64_t)file->clock_us;
    uint32_t whole = (uint32_t)strtoul(member(object, "len"), NULL, 10);
    uint32_t kept = (uint32_t)(strlen(hex) / 2), flags = is_out ? FLAG_OUTBOUND : FLAG_INBOUND;

    add_u32(&body, 0); /* the interface */
    add_u32(&body, (uint32_t)(at_us >> 32));
    add_u32(&body, (uint32_t)at_us);
    size_t lengths = body.len;
    add_u32(&body, 0);
    add_u32(&body, 0);
    uint32_t tags = (uint32_t)add_tags(&body, object, is_out);
    add_hex(&body, hex);
    pad_to_four(&body);
    kept += tags;
    whole += tags;
    memcpy(body.data + lengths, &kept, 4);
    memcpy(body.data + lengths + 4, &whole, 4);
    add_comment(&body, object, whole > kept);
    add_option(&body, OPTION_PACKET_FLAGS, &flags, sizeof(flags));
    add_option(&body, OPTION_END, NULL, 0);
    file->messages++;
    return pcapng_put(file, BLOCK_PACKET, &body);
}

/* ---- the file ---- */

static bool complain(const struct capture_file *file)
{
    (void)fprintf(stderr, "criproxyctl: %s: %s\n", file->name, strerror(errno));
    return false;
}

/*
 * The name of file @p number of a set: "lab.pcapng" becomes "lab_00001_20260131235959.pcapng", by
 * which Wireshark knows a file set. @return false, with errno, where it is too long
 */
static bool name_of_set(const struct capture_file *file, unsigned number, char name[PATH_MAX])
{
    const char *base = strrchr(file->given, '/'), *dot;
    char when[32];
    struct tm local;

    base = base == NULL ? file->given : base + 1;
    dot = strrchr(base, '.');
    size_t stem = dot == NULL || dot == base ? strlen(file->given) : (size_t)(dot - file->given);
    if (localtime_r(&file->begun[number % FILES_KEPT], &local) == NULL) {
        return false;
    }
    (void)strftime(when, sizeof(when), "%Y%m%d%H%M%S", &local);
    int len = snprintf(name, PATH_MAX, "%.*s_%05u_%s%s", (int)stem, file->given, number, when,
                       file->given + stem);
    errno = ENAMETOOLONG;
    return len > 0 && len < PATH_MAX;
}

static bool name_file(struct capture_file *file)
{
    if (file->number > 0) {
        file->begun[file->number % FILES_KEPT] = time(NULL);
        return name_of_set(file, file->number, file->name);
    }
    int len = snprintf(file->name, sizeof(file->name), "%s", file->given);
    errno = ENAMETOOLONG;
    return len >= 0 && (size_t)len < sizeof(file->name);
}

static bool file_open(struct capture_file *file)
{
    struct timespec real, monotonic;

    file->written = 0;
    if (!name_file(file)) {
        return complain(file);
    }
    file->out = output_open(file->name);
    if (file->out == NULL) {
        return complain(file);
    }
    (void)clock_gettime(CLOCK_REALTIME, &real);
    (void)clock_gettime(CLOCK_MONOTONIC, &monotonic);
    file->clock_us = ((int64_t)real.tv_sec - (int64_t)monotonic.tv_sec) * 1000000 +
                     (real.tv_nsec - monotonic.tv_nsec) / 1000;
    return put_head_blocks(file) && fflush(file->out) == 0 ? true : complain(file);
}

static bool file_close(struct capture_file *file)
{
    bool is_good = output_close(file->out);

    file->out = NULL;
    return is_good ? true : complain(file);
}

/* The next file of a set. Removes the oldest first, so that there are never more than are kept. */
static bool file_rotate(struct capture_file *file)
{
    if (!file_close(file)) {
        return false;
    }
    if (file->number >= file->kept &&
        (!name_of_set(file, file->number + 1 - file->kept, file->name) ||
         (unlink(file->name) != 0 && errno != ENOENT))) {
        return complain(file);
    }
    file->number++;
    return file_open(file);
}

/* Whole blocks only are in the file, whenever it ends. */
static bool capture_take(struct capture_file *file, const struct json_object *object)
{
    const char *lost = json_get(object, "lost");

    if (lost != NULL) {
        file->lost += strtoull(lost, NULL, 10);
        return true;
    }
    return put_packet(file, object) && fflush(file->out) == 0 ? true : complain(file);
}

/* ---- the command ---- */

struct capture_order {
    uint64_t size_max; /* bytes; 0: no limit */
    unsigned time_s;   /* 0: no limit */
    unsigned kept;     /* files; 0: one, and then the end */
    const char *file;
    char **filters;
    int filter_count;
};

static bool take_order(int argc, char **argv, struct capture_order *ret_order)
{
    static const struct option longs[] = {{"size", required_argument, NULL, 's'},
                                          {"time", required_argument, NULL, 't'},
                                          {"files", required_argument, NULL, 'f'},
                                          {NULL, 0, NULL, 0}};
    struct capture_order order = {.size_max = 0};
    uint64_t value = 0;
    int option;

    optind = 0; /* another command line than before */
    while ((option = getopt_long(argc, argv, "s:t:f:", longs, NULL)) != -1) {
        if (option == 's' && stop_take_count("size", optarg, UINT64_C(1000000000000), &value)) {
            order.size_max = value;
        } else if (option == 't' && stop_take_count("time", optarg, 86400, &value)) {
            order.time_s = (unsigned)value;
        } else if (option == 'f' && stop_take_count("files", optarg, FILES_KEPT, &value)) {
            order.kept = (unsigned)value;
        } else {
            return false;
        }
    }
    if (optind == argc || argc - optind - 1 > FILTERS_MAX) {
        (void)fputs("criproxyctl: capture takes a file, and then client=, origin= or side=\n",
                    stderr);
        return false;
    }
    if (order.kept > 0 && (order.size_max == 0 || strcmp(argv[optind], "-") == 0)) {
        (void)fputs("criproxyctl: --files takes --size, and the name of a file\n", stderr);
        return false;
    }
    order.file = argv[optind];
    order.filters = argv + optind + 1;
    order.filter_count = argc - optind - 1;
    *ret_order = order;
    return true;
}

/* Until a signal, or a limit. @return whether the end is a good one */
static bool take_messages(struct wire *wire, struct capture_file *file)
{
    enum wire_result result;

    while ((result = wire_read(wire)) == WIRE_ITEM) {
        if (!capture_take(file, &wire->object)) {
            return false;
        }
        bool is_full = file->size_max > 0 && file->written >= file->size_max;
        if (stop_asked != 0 || (is_full && file->kept == 0)) {
            return true;
        }
        if (is_full && !file_rotate(file)) {
            return false;
        }
    }
    return result == WIRE_STOPPED;
}

/* The first line says that the proxy captures: until then the file is left as it is. */
static bool capture_begin(struct wire *wire, const struct capture_order *order,
                          struct capture_file *file)
{
    return wire_ask(wire, "messages", order->filters, order->filter_count) &&
           wire_read(wire) == WIRE_ITEM && file_open(file) && capture_take(file, &wire->object);
}

int capture_run(const char *socket, int argc, char **argv)
{
    static struct wire wire;
    static struct capture_file file;
    struct capture_order order;

    if (!take_order(argc, argv, &order)) {
        (void)fputs("Try criproxyctl --help.\n", stderr);
        return CAPTURE_USAGE;
    }
    if (!wire_open(&wire, socket)) {
        return CAPTURE_FAILED;
    }
    file = (struct capture_file){.given = order.file,
                                 .size_max = order.size_max,
                                 .number = order.kept > 0 ? 1 : 0,
                                 .kept = order.kept};
    wire.stop = &stop_asked;
    stop_on_signals(order.time_s);
    bool is_begun = capture_begin(&wire, &order, &file);
    bool is_good = is_begun && take_messages(&wire, &file);
    if (file.out != NULL) {
        is_good = file_close(&file) && is_good;
    }
    if (is_begun) {
        (void)fprintf(stderr, "%llu messages, %llu left out\n", (unsigned long long)file.messages,
                      (unsigned long long)file.lost);
    }
    wire_close(&wire);
    return is_good ? 0 : CAPTURE_FAILED;
}
