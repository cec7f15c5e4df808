/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/directory.h"

#include "client/client.h"
#include "client/datagram.h"
#include "client/echo.h"
#include "client/side.h"
#include "conf/device.h"
#include "origin/device.h"

#include <stdio.h>
#include <string.h>

#define EP_MAX 63u       /* bytes of an endpoint's name (RFC 9176 section 5) */
#define LT_DIGITS_MAX 10 /* of 4,294,967,295 */

/* --- what it asks for --------------------------------------------------------- */

struct registration {
    struct bytes ep, lt;
    char name[EP_MAX + 1]; /* ep as names of sections are: in lower case */
    uint32_t lifetime_ms;
};

static bool directory_fail(struct problem *ret_problem, enum reason reason, const char *text)
{
    ret_problem->reason = reason;
    (void)snprintf(ret_problem->text, sizeof(ret_problem->text), "%s", text);
    return false;
}

/* The value of @p item, if it is "NAME=value" or "NAME"; else without data. */
static struct bytes registration_value(struct bytes item, const char *name)
{
    size_t len = strlen(name);
    bool is_it = item.len >= len && memcmp(item.data, name, len) == 0 &&
                 (item.len == len || item.data[len] == '=');
    size_t skipped = is_it && item.len > len ? len + 1 : len;
    return is_it ? (struct bytes){item.data + skipped, item.len - skipped} : (struct bytes){0};
}

static bool read_query(const struct segments *query, struct registration *wish,
                       struct problem *ret_problem)
{
    struct bytes item;
    for (uint32_t offset = 0; segments_next(query, &offset, &item);) {
        struct bytes ep = registration_value(item, "ep"), lt = registration_value(item, "lt");
        if ((ep.data != NULL && wish->ep.data != NULL) ||
            (lt.data != NULL && wish->lt.data != NULL)) {
            return directory_fail(ret_problem, REASON_registration_invalid,
                                  "registration: ep or lt twice");
        }
        wish->ep = ep.data != NULL ? ep : wish->ep;
        wish->lt = lt.data != NULL ? lt : wish->lt;
        if (registration_value(item, "d").data != NULL ||
            registration_value(item, "base").data != NULL) {
            return directory_fail(ret_problem, REASON_registration_invalid,
                                  "registration: d and base are not served");
        }
    }
    return true;
}

static bool read_ep(struct registration *wish, struct problem *ret_problem)
{
    if (wish->ep.len == 0 || wish->ep.len > EP_MAX) {
        return directory_fail(ret_problem, REASON_registration_invalid,
                              wish->ep.len == 0 ? "registration: ep is missing"
                                                : "registration: ep of more than 63 bytes");
    }
    for (size_t i = 0; i < wish->ep.len; i++) {
        uint8_t c = wish->ep.data[i];
        wish->name[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    return true;
}

/* Seconds, from 1 to 2^32 - 1; no longer than devices.lifetime, which is the default. */
static bool read_lt(const struct config *config, struct registration *wish,
                    struct problem *ret_problem)
{
    uint64_t seconds = 0;
    bool is_number = wish->lt.len > 0 && wish->lt.len <= LT_DIGITS_MAX;
    wish->lifetime_ms = config->devices_lifetime;
    if (wish->lt.data == NULL) {
        return true;
    }
    for (size_t i = 0; i < wish->lt.len && is_number; i++) {
        is_number = wish->lt.data[i] >= '0' && wish->lt.data[i] <= '9';
        seconds = 10 * seconds + (uint64_t)(wish->lt.data[i] - '0');
    }
    if (!is_number || seconds == 0 || seconds > UINT32_MAX) {
        return directory_fail(ret_problem, REASON_registration_invalid,
                              "registration: lt is no number of seconds");
    }
    if (seconds * 1000 < wish->lifetime_ms) {
        wish->lifetime_ms = (uint32_t)(seconds * 1000);
    }
    return true;
}

/* --- may it ------------------------------------------------------------------- */

/* Sections with credentials are as though there were none: a client cannot learn which exist. */
static const struct config_device *find_registrant(const struct config *config,
                                                   const struct leg *leg,
                                                   const struct registration *wish,
                                                   struct problem *ret_problem)
{
    const struct bytes name = {(const uint8_t *)wish->name, wish->ep.len};
    const struct config_device *row = config_device_find(config, name);
    if (row == NULL || row->range_count == 0) {
        (void)directory_fail(ret_problem, REASON_registration_refused,
                             "registration: no such device");
        return NULL;
    }
    if (!config_device_admits(row, &leg->asker.path.remote)) {
        (void)directory_fail(ret_problem, REASON_registration_refused,
                             "registration: not from this address");
        return NULL;
    }
    return row;
}

/* --- what it is asked --------------------------------------------------------- */

/* Accept, with the Content-Format 40: delta 17, length 1. */
static const uint8_t accept_links[] = {0xd1, 17 - 13, 40};

static const uint8_t core_path[] = "\x0b.well-known\x04"
                                   "core";

struct target directory_target(const struct client_side *side, const char *name)
{
    struct target target = {
        .form = TARGET_FORM_PROXY_URI,
        .scheme = side->context.coap,
        .is_name = true,
        .port = (uint16_t)side->context.coap->default_port,
    };
    char host[TARGET_NAME_MAX + 1];
    /* It fits: the zone was checked with a label of the greatest length. */
    int len = snprintf(host, sizeof(host), "%s.%s", name, side->context.config->devices_zone);
    target.name_len = (uint8_t)len;
    memcpy(target.name, host, target.name_len);
    return target;
}

static void ask_for_links(const struct client_side *side, const struct message *message,
                          const struct config_device *row, struct directory_question *ret_question)
{
    ret_question->target = directory_target(side, row->name);
    ret_question->target.path =
        (struct segments){.packed = core_path, .len = sizeof(core_path) - 1, .count = 2};
    ret_question->message = *message;
    ret_question->message.code = CODE_GET;
    ret_question->message.options = (struct bytes){accept_links, sizeof(accept_links)};
    ret_question->message.payload = (struct bytes){0};
}

bool directory_take(struct client_side *side, struct leg *leg,
                    const struct directory_request *request,
                    struct directory_question *ret_question, struct problem *ret_problem)
{
    const struct config *config = side->context.config;
    struct registration wish = {.lifetime_ms = 0};
    bool is_new;
    if (request->message->code != CODE_POST) {
        *ret_problem = (struct problem){.reason = REASON_local_method};
        return false;
    }
    if (leg->kind != LEG_DATAGRAM || leg->session != NULL) {
        return directory_fail(ret_problem, REASON_registration_refused,
                              "registration: over UDP only");
    }
    if (!echo_is_good(side, leg, request->echo)) {
        *ret_problem = (struct problem){.reason = REASON_echo_required};
        return false;
    }
    if (!read_query(request->query, &wish, ret_problem) || !read_ep(&wish, ret_problem) ||
        !read_lt(config, &wish, ret_problem)) {
        return false;
    }
    const struct config_device *row = find_registrant(config, leg, &wish, ret_problem);
    if (row == NULL) {
        return false;
    }
    bool is_elsewhere = device_is_taken(&side->origin, row, leg->client);
    if (is_elsewhere || !datagram_register(side, leg, row, wish.lifetime_ms, &is_new)) {
        *ret_problem = (struct problem){.reason = is_elsewhere ? REASON_registration_taken
                                                               : REASON_proxy_busy};
        return false;
    }
    leg->registers = is_new ? LEG_REGISTERS_NEWLY : LEG_REGISTERS_AGAIN;
    ask_for_links(side, request->message, row, ret_question);
    return true;
}

/* --- what comes of it --------------------------------------------------------- */

struct reply directory_done(void)
{
    return (struct reply){.code = CODE(2, 4)};
}

struct device *directory_unheard(const struct client_side *side, const struct request *request,
                                 enum reason reason)
{
    const struct leg *leg = &request->leg;
    const struct fetch *fetch = request->fetch;
    bool is_new = leg->kind == LEG_DATAGRAM && leg->registers == LEG_REGISTERS_NEWLY;
    if (!is_new || fetch == NULL || fetch->candidate_count == 0 ||
        reason_row(reason)->about != REASON_ABOUT_origin) {
        return NULL;
    }
    /* It may have registered under another name meanwhile. */
    struct device *device = device_at(&side->origin, &fetch->candidates[0]);
    return device != NULL && device == leg->client->device ? device : NULL;
}
