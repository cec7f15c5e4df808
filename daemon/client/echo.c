/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/echo.h"

#include "client/reply.h"
#include "client/side.h"
#include "coap/option.h"
#include "net/cookie.h"
#include "net/dtls.h"
#include "net/udp.h"
#include "policy/access.h"

static uint32_t now_s(const struct client_side *side)
{
    return (uint32_t)(context_now_ms(&side->context) / 1000);
}

static bool is_verified(const struct client_side *side, const struct client *client)
{
    return client->verified_until_s > now_s(side);
}

/* @return false: no memory */
static bool has_cookies(struct client_side *side)
{
    const struct config *config = side->context.config;
    const struct bytes shared = {config->cluster_secret, config->cluster_secret_len};
    return side->cookies != NULL || cookies_new(side->context.loop, context_now_ms(&side->context),
                                                shared, "echo", &side->cookies) == 0;
}

void echo_set_config(struct client_side *side, const struct config *before)
{
    const struct config *now = side->context.config;
    const struct bytes old = {before->cluster_secret, before->cluster_secret_len};
    if (!bytes_equal(old, (struct bytes){now->cluster_secret, now->cluster_secret_len})) {
        cookies_free(side->cookies);
        side->cookies = NULL;
    }
}

/* The answer to "is it exempt" is kept while the rules stand. */
static bool is_exempt(const struct client_side *side, struct client *client)
{
    if (client->exempt_epoch != side->context.policy_epoch) {
        client->exempt_epoch = side->context.policy_epoch;
        client->is_exempt = access_is_echo_exempt(side->context.config->access, &client->address);
    }
    return client->is_exempt;
}

void echo_note(const struct client_side *side, struct leg *leg, const struct datagram *datagram)
{
    leg->request_len = (uint32_t)datagram->len;
    /* A session is where it is believed to be; a record with its id may come from elsewhere. */
    leg->is_unverified =
        leg->session != NULL
            ? !address_equal(&datagram->path.remote, &dtls_session_path(leg->session)->remote)
            : !is_exempt(side, leg->client) && !is_verified(side, leg->client);
}

bool echo_is_good(struct client_side *side, const struct leg *leg, struct bytes echo)
{
    /* Without a secret that is shared, a value can be ours only after one was given. */
    bool has_given = side->cookies != NULL || side->context.config->cluster_secret_len > 0;
    return echo.data != NULL && echo.len == ECHO_LEN && has_given && has_cookies(side) &&
           cookie_is_good(side->cookies, context_now_ms(&side->context), &leg->asker.path,
                          echo.data, echo.len);
}

bool echo_take(struct client_side *side, struct leg *leg, struct bytes echo)
{
    bool is_challenged =
        leg->kind == LEG_DATAGRAM && (leg->session != NULL || !is_exempt(side, leg->client));
    if (!is_challenged || !echo_is_good(side, leg, echo)) {
        return false; /* not of ours: perhaps the origin server's (AMP-7, AMP-10) */
    }
    if (leg->session != NULL && leg->is_unverified) {
        dtls_believe(leg->session, &leg->asker.path);
    }
    leg->client->verified_until_s = now_s(side) + side->context.config->policy_echo_time / 1000;
    leg->is_unverified = false;
    return true;
}

struct reply echo_challenge(struct client_side *side, const struct leg *leg,
                            uint8_t buffer[ECHO_OPTIONS_MAX])
{
    uint8_t cookie[COOKIE_LEN];
    struct message_writer writer = {.buffer = buffer, .capacity = ECHO_OPTIONS_MAX};
    if (has_cookies(side) &&
        cookie_make(side->cookies, context_now_ms(&side->context), &leg->asker.path, cookie)) {
        message_writer_option(&writer, OPTION_echo, (struct bytes){cookie, ECHO_LEN});
    }
    metric_add(&side->context.metrics.echo_challenges, 1);
    return (struct reply){.code = CODE(4, 1), .options = {buffer, writer.len}};
}

/* Bytes of the datagram that @p reply makes. */
static size_t len_of(const struct client_side *side, const struct leg *leg,
                     const struct reply *reply)
{
    return reply_encode(side->context.scratch, (size_t)side->context.config->limits_datagram_bytes,
                        MESSAGE_CON, 0, leg, reply)
        .len;
}

bool echo_shorten(struct client_side *side, const struct leg *leg, const struct reply *reply,
                  uint8_t buffer[ECHO_OPTIONS_MAX], struct reply *ret_reply)
{
    size_t most = (size_t)leg->request_len * side->context.config->policy_echo_factor;
    if (len_of(side, leg, reply) <= most) {
        return false;
    }
    bool is_refusal = reply->options.len == 0 && CODE_CLASS(reply->code) != 2;
    *ret_reply = *reply;
    ret_reply->payload = (struct bytes){0};
    if (!is_refusal || len_of(side, leg, ret_reply) > most) {
        *ret_reply = echo_challenge(side, leg, buffer);
    }
    return true;
}
