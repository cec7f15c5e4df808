/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/talk.h"

#include <stdio.h>

void talk_start_with(struct talk *talk, const char *a, const char *b)
{
    *talk = (struct talk){.mid = 1};
    replay_start(&talk->replay,
                 (const char *[]){"cache.max-bytes=1MiB", a, a != NULL ? b : NULL, NULL});
}

void talk_start(struct talk *talk)
{
    talk_start_with(talk, NULL, NULL);
}

void talk_stop(struct talk *talk)
{
    replay_stop(&talk->replay);
}

void talk_ask(struct talk *talk, unsigned code, const char *body)
{
    char head[32];
    snprintf(head, sizeof(head), "41 %02x %04x aa", code, ++talk->mid);
    replay_ask(&talk->replay, words(head, body));
}

void talk_expect(struct talk *talk, unsigned code, const char *body)
{
    char head[32];
    snprintf(head, sizeof(head), "61 %02x %04x aa", code, talk->mid);
    fake_peer_expect(talk->replay.client, words(head, body), NULL);
    fake_peer_expect_nothing(talk->replay.origin);
}

void talk_serve(struct talk *talk, unsigned code, const char *body, unsigned answer_code,
                const char *answer)
{
    struct fake_datagram request;
    char head[32];
    snprintf(head, sizeof(head), "48 %02x MID TOKEN", code);
    fake_peer_expect(talk->replay.origin, words(head, body), &request);
    snprintf(head, sizeof(head), "6T %02x MID TOKEN", answer_code);
    fake_peer_reply(talk->replay.origin, &request, words(head, answer));
}

void talk_fetch(struct talk *talk, unsigned answer_code, const char *answer)
{
    talk_ask(talk, 0x01, CRI);
    talk_serve(talk, 0x01, H_X, answer_code, answer);
    talk_expect(talk, answer_code, answer);
}

void talk_hit(struct talk *talk, unsigned answer_code, const char *answer)
{
    talk_ask(talk, 0x01, CRI);
    talk_expect(talk, answer_code, answer);
}
