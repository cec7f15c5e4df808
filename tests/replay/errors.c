/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/errors.h"

#include "coap/option.h"

#include <string.h>

static uint64_t seen[REASON_COUNT];

uint64_t errors_seen(enum reason reason)
{
    return seen[reason];
}

void errors_start(struct replay *replay, const char *setting)
{
    replay_start(replay, (const char *[]){setting, NULL});
}

void errors_stop(struct replay *replay)
{
    uint64_t ended = 0;
    fake_net_run(300000);
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        seen[i] += replay_ended(replay, (enum reason)i);
        ended += replay_ended(replay, (enum reason)i);
    }
    assert_int_equal(ended, replay_metric(replay, requests));
    replay_stop(replay);
}

/* ERR-23: the words of a reason with that code, and nothing of addresses, names and files. */
static void expect_harmless(const struct message *message)
{
    static const char *const telling[] = {"192.0.2", "2001:db8", "example", "/", "@", "key"};
    /* An option by its number, the place of a fault in a target, a zone-id as it came. */
    static const char *const longer[] = {"malformed or misplaced option ", "unrecognized option ",
                                         "proxy-cri: byte ", "proxy-uri: byte ", "zone-id \""};
    char text[129];
    bool is_known = false;
    memcpy(text, message->payload.data, message->payload.len);
    text[message->payload.len] = '\0';
    for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++) {
        is_known = is_known || strncmp(text, longer[i], strlen(longer[i])) == 0;
    }
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        const struct reason_row *row = reason_row((enum reason)i);
        is_known = is_known || (row->code == message->code && row->diagnostic[0] != '\0' &&
                                strncmp(text, row->diagnostic, strlen(row->diagnostic)) == 0);
    }
    if (!is_known) {
        print_error("\"%s\" begins as no reason does\n", text);
        fail();
    }
    for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++) {
        if (strstr(text, telling[i]) != NULL) {
            print_error("\"%s\" tells of \"%s\"\n", text, telling[i]);
            fail();
        }
    }
}

void errors_expect(struct fake_peer *at, unsigned class, unsigned detail, uint64_t within_ms)
{
    struct fake_datagram answer;
    struct message message;
    struct option_iter iter;
    struct option option;
    uint32_t max_age = 60; /* implied */
    fake_peer_expect_within(at, within_ms, "...", &answer);
    assert_int_equal(message_decode(answer.data, answer.len, &message), MESSAGE_OK);
    assert_int_equal(CODE_CLASS(message.code) * 100 + CODE_DETAIL(message.code),
                     class * 100 + detail);
    option_iter_init(&iter, message.options);
    while (option_iter_next(&iter, &option)) {
        /* No Content-Format, nothing else. */
        bool is_size = option.number == OPTION_size1 && class == 4 && detail == 13; /* ERR-16 */
        assert_true(is_size || option.number == OPTION_max_age);
        max_age = is_size ? max_age : option_uint(option.value);
    }
    assert_in_range(message.payload.len, 1, 128);
    if (class != 5 || detail != 8) { /* that has the names of proxies: HOP-5 */
        expect_harmless(&message);
    }
    bool is_passing = class == 5 && detail >= 2 && detail <= 4;
    if (is_passing) {
        assert_in_range(max_age, 1, 10);
    } else if (class == 4 && detail == 29) {
        assert_in_range(max_age, 1, 59); /* RATE-2 */
    }
    if (message.type == MESSAGE_CON) {
        fake_peer_reply(at, &answer, "60 00 MID");
    }
}
