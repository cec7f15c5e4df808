/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/rows.h"

#include "replay/words.h"

#include <stdio.h>

void row_names(void)
{
    fake_net_name("c", 0, RESOLVE_OK, "192.0.2.33");
    fake_net_name("u", 0, RESOLVE_OK, "192.0.2.34");
    fake_net_name("o", 0, RESOLVE_OK, "192.0.2.35");
    fake_net_name("example.com", 0, RESOLVE_OK, "192.0.2.5");
    fake_net_name("a.b", 0, RESOLVE_OK, "192.0.2.5");
    fake_net_name("a.b.", 0, RESOLVE_OK, "192.0.2.5");
    fake_net_name("loop", 0, RESOLVE_OK, "192.0.2.9");
    fake_net_name("group", 0, RESOLVE_OK, "224.0.1.187");
    fake_net_name("group6", 0, RESOLVE_OK, "ff02::fd");
    fake_net_name("nowhere", 0, RESOLVE_OK, "0.0.0.0 ::");
}

static void expect_upstream(struct replay *replay, const struct row *row)
{
    struct fake_datagram request;
    struct fake_peer *at = row->to != NULL ? fake_peer_new(row->to) : replay->origin;
    replay_ask(replay, words("41 01 0001 aa", row->options));
    fake_peer_expect(at, words("48 01 MID TOKEN", row->upstream), &request);
    fake_peer_reply(at, &request, "6T 45 MID TOKEN ff 6f6b");
    fake_peer_expect(replay->client, "61 45 0001 aa ff 6f6b", NULL);
}

static void expect_answer(struct replay *replay, const struct row *row)
{
    struct fake_datagram stray;
    char head[32];
    replay_ask(replay, words("41 01 0001 aa", row->options));
    snprintf(head, sizeof(head), "61 %s 0001 aa", row->answer);
    replay_expect_words(replay, head, row->says != NULL ? row->says : "");
    fake_peer_expect_nothing(replay->origin);
    assert_false(fake_net_take(&stray));
}

void row_run(const struct row *row, const char *const *settings)
{
    struct replay replay;
    print_message("    %s: %.60s\n", row->id, row->options);
    replay_start(&replay, settings);
    row_names();
    if (row->upstream != NULL) {
        expect_upstream(&replay, row);
    } else {
        expect_answer(&replay, row);
    }
    replay_stop(&replay);
}
