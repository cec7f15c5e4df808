/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/echo.h"

#include "coap/option.h"
#include "engine/state.h"
#include "net/cookie.h"
#include "policy/access.h"

static uint32_t now_s(const struct engine *engine)
{
    return (uint32_t)(engine_now_ms(engine) / 1000);
}

static bool is_verified(const struct engine *engine, const struct client *client)
{
    return client->verified_until_s > now_s(engine);
}

/* The answer to "is it exempt" is kept while the rules stand. */
static bool is_exempt(const struct engine *engine, struct client *client)
{
    if (client->exempt_epoch != engine->policy_epoch) {
        client->exempt_epoch = engine->policy_epoch;
        client->is_exempt = access_is_echo_exempt(engine->config->access, &client->address);
    }
    return client->is_exempt;
}

void echo_note(const struct engine *engine, struct leg *leg, const struct datagram *datagram)
{
    leg->request_len = (uint32_t)datagram->len;
    leg->is_unverified = leg->session == NULL && !is_exempt(engine, leg->client) &&
                         !is_verified(engine, leg->client);
}

bool echo_take(struct engine *engine, struct leg *leg, struct bytes echo)
{
    bool is_challenged =
        leg->kind == LEG_DATAGRAM && leg->session == NULL && !is_exempt(engine, leg->client);
    if (!is_challenged || echo.data == NULL || echo.len != ECHO_LEN || engine->cookies == NULL ||
        !cookie_is_good(engine->cookies, engine_now_ms(engine), &leg->asker.path, echo.data,
                        echo.len)) {
        return false; /* the origin server's, if anybody's (AMP-7, AMP-10) */
    }
    leg->client->verified_until_s = now_s(engine) + engine->config->policy_echo_time / 1000;
    leg->is_unverified = false;
    return true;
}

bool echo_is_required(const struct leg *leg, const struct request_options *options)
{
    return leg->is_unverified && (!leg->is_safe || options->observe.data != NULL ||
                                  options->multicast_timeout.data != NULL);
}

struct reply echo_challenge(struct engine *engine, const struct leg *leg,
                            uint8_t buffer[ECHO_OPTIONS_MAX])
{
    uint8_t cookie[COOKIE_LEN];
    struct message_writer writer = {.buffer = buffer, .capacity = ECHO_OPTIONS_MAX};
    bool is_ready =
        engine->cookies != NULL || cookies_new(engine_now_ms(engine), &engine->cookies) == 0;
    if (is_ready && cookie_make(engine->cookies, engine_now_ms(engine), &leg->asker.path, cookie)) {
        message_writer_option(&writer, OPTION_echo, (struct bytes){cookie, ECHO_LEN});
    }
    metric_add(&engine->metrics.echo_challenges, 1);
    return (struct reply){.code = CODE(4, 1), .options = {buffer, writer.len}};
}

/* Bytes of the datagram that @p reply makes. */
static size_t len_of(const struct engine *engine, const struct leg *leg, const struct reply *reply)
{
    return reply_encode(engine->scratch, (size_t)engine->config->limits_datagram_bytes, MESSAGE_CON,
                        0, leg, reply)
        .len;
}

bool echo_shorten(struct engine *engine, const struct leg *leg, const struct reply *reply,
                  uint8_t buffer[ECHO_OPTIONS_MAX], struct reply *ret_reply)
{
    size_t most = (size_t)leg->request_len * engine->config->policy_echo_factor;
    if (!leg->is_unverified || len_of(engine, leg, reply) <= most) {
        return false;
    }
    bool is_refusal = reply->options.len == 0 && CODE_CLASS(reply->code) != 2;
    *ret_reply = *reply;
    ret_reply->payload = (struct bytes){0};
    if (!is_refusal || len_of(engine, leg, ret_reply) > most) {
        *ret_reply = echo_challenge(engine, leg, buffer);
    }
    return true;
}
