/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What people are shown of a request: its peer's bytes make no lines, neither in what --explain
 * says nor in a trace. And names at their longest, which are shown and sent whole.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "client/explain.h"

#include <stdio.h>
#include <string.h>

/* What a client would like to have on a line of its own: "\noutcome    forged" */
#define FORGED_HEX "0a6f7574636f6d6520202020666f72676564"
#define FORGED_URI "%0Aoutcome%20%20%20%20forged"

static void assert_not_forged(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        assert_true(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
    }
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += strspn(line, "\n ");
        assert_int_not_equal(strncmp(line, "outcome    forged", 17), 0);
    }
}

static void test_lines_of_explain(void **state)
{
    static const char *const targets[] = {
        "coap://h/a" FORGED_URI,
        "coap://h/x?a" FORGED_URI,
        "coap://h" FORGED_URI "/x",
        "coap://h/a\noutcome    forged",
        "coap://h\noutcome    forged/x",
        "\noutcome    forged",
        "x\noutcome    forged://h/x",
        "[-1, [\"h\"], [\"a\\noutcome    forged\"]]",
        "[-1, [\"h\\noutcome    forged\"], [\"a\"]]",
        "[-1, [\"h\"], [\"a\"], [\"a\\noutcome    forged\"]]",
        "8320816168"
        "8172" FORGED_HEX,
        "832081"
        "72" FORGED_HEX "816178",
    };
    static const char *const routes[][3] = {
        {NULL},
        {"route parent.target=*://*", "route parent.via=coap://192.0.2.6", NULL},
        {"route no.target=*://*", "route no.via=refuse", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        for (size_t j = 0; j < sizeof(routes) / sizeof(routes[0]); j++) {
            struct replay replay;
            char text[16384] = "";
            FILE *out = fmemopen(text, sizeof(text), "w");
            assert_non_null(out);
            replay_start(&replay, routes[j]);
            (void)explain_target(replay.config, NULL, targets[i], out);
            assert_int_equal(fclose(out), 0);
            assert_non_null(strstr(text, "outcome    "));
            assert_not_forged(text, strlen(text));
            replay_stop(&replay);
        }
    }
}

static unsigned blocks;

static bool on_trace(void *context, uint64_t id, const struct trace_view *view)
{
    (void)context;
    (void)id;
    blocks++;
    assert_not_forged(view->text, view->text_len);
    assert_not_forged(view->client, strlen(view->client));
    assert_not_forged(view->target, strlen(view->target));
    return true;
}

static void test_lines_of_a_trace(void **state)
{
    static const struct trace_tap tap = {.id = 1, .emit = on_trace};
    static const char *const bodies[] = {
        "35=coap://h/a" FORGED_URI,
        "35=coap://h/x?a" FORGED_URI,
        "3=h 11:61" FORGED_HEX " 239:",
        "3=h 11=x 15:61" FORGED_HEX " 239:",
        "3:61" FORGED_HEX " 11=x 239:",
        "3=h 11=x 39:" FORGED_HEX,
        "35:" FORGED_HEX,
        "235:83208161688172" FORGED_HEX,
        "235:83208172" FORGED_HEX "816178",
        "4:" FORGED_HEX " 35=coap://h/x",
    };
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, NULL);
    assert_int_equal(trace_add_tap(&replay.engine->client, &tap), 0);
    for (unsigned i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        char head[32];
        snprintf(head, sizeof(head), "41 01 %04x %02x", i, i);
        blocks = 0;
        replay_ask(&replay, words(head, bodies[i]));
        fake_net_run(0);
        if (fake_peer_take(replay.origin, &request)) {
            fake_peer_reply(replay.origin, &request, words("6T 84 MID TOKEN", "/" FORGED_HEX));
        }
        fake_net_run(60000);
        assert_int_equal(blocks, 1);
    }
    trace_remove_tap(&replay.engine->client, 1);
    replay_stop(&replay);
}

/* --- what readers of a trace get ------------------------------------------- */

struct reader {
    unsigned shown;
    uint64_t lost;
};

static bool on_read(void *context, uint64_t id, const struct trace_view *view)
{
    struct reader *reader = context;
    (void)id;
    reader->shown += view->text != NULL && !view->is_more;
    reader->lost += view->lost;
    return true;
}

/* Of 10 requests of one client for coap://h/x: how many a reader is shown, and told of as lost. */
static void test_each_request_is_shown_or_told_of_if_it_matches(void **state)
{
    static const struct {
        struct trace_tap tap;
        unsigned shown, lost;
    } rows[] = {
        {{.target = ""}, 10, 0},
        {{.per_s = 3}, 3, 7},
        {{.client = "192.0.2.7"}, 10, 0},
        {{.client = "192.0.2.7:40001", .per_s = 2}, 2, 8},
        {{.client = "192.0.2.7:400010"}, 0, 0},
        {{.client = "92.0.2.7", .per_s = 1}, 0, 0},
        {{.target = "://h/x"}, 10, 0},
        {{.target = "://h/x", .client = "192.0.2.7:", .reason = "answered", .per_s = 4}, 4, 6},
        {{.target = "://h/y"}, 0, 0},
        {{.reason = "answered"}, 10, 0},
        {{.reason = "cached", .per_s = 1}, 0, 0},
        {{.identity = "meter"}, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct reader reader = {.shown = 0};
        struct trace_tap tap = rows[i].tap;
        tap.id = 1;
        tap.emit = on_read;
        tap.context = &reader;
        replay_start(&replay, NULL);
        assert_int_equal(trace_add_tap(&replay.engine->client, &tap), 0);
        for (unsigned number = 0; number < 10; number++) {
            struct fake_datagram request;
            char head[32];
            snprintf(head, sizeof(head), "41 01 %04x %02x", number, number);
            replay_ask(&replay, words(head, "35=coap://h/x"));
            fake_peer_expect(replay.origin, "48 01 ...", &request);
            fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
            fake_net_run(0);
        }
        fake_net_run(1000); /* no later it is told what it did not get */
        print_message("row %zu\n", i);
        assert_int_equal(reader.shown, rows[i].shown);
        assert_int_equal(reader.lost, rows[i].lost);
        trace_remove_tap(&replay.engine->client, 1);
        replay_stop(&replay);
    }
}

/* A separate answer that was confirmed is more about a request that was counted, and none. */
static void test_delivered_answers_are_no_requests_of_a_trace(void **state)
{
    struct replay replay;
    struct reader reader = {.shown = 0};
    const struct trace_tap tap = {.id = 1, .per_s = 1, .emit = on_read, .context = &reader};
    (void)state;
    replay_start(&replay, NULL);
    assert_int_equal(trace_add_tap(&replay.engine->client, &tap), 0);
    for (unsigned number = 0; number < 5; number++) {
        struct fake_datagram request, answer;
        char head[32];
        snprintf(head, sizeof(head), "41 01 %04x %02x", number, number);
        replay_ask(&replay, words(head, "35=coap://h/x"));
        fake_peer_expect(replay.origin, "48 01 ...", &request);
        fake_peer_reply(replay.origin, &request, "60 00 MID");
        fake_net_run(300);
        fake_peer_reply(replay.origin, &request, "5T 45 MID TOKEN");
        fake_peer_expect(replay.client, "60 00 ...", NULL);
        fake_peer_expect(replay.client, "41 45 ...", &answer);
        fake_peer_reply(replay.client, &answer, "60 00 MID");
        fake_net_run(1);
    }
    fake_net_run(1000);
    assert_true(reader.shown < 5);
    assert_int_equal(reader.shown + reader.lost, 5);
    trace_remove_tap(&replay.engine->client, 1);
    replay_stop(&replay);
}

/* --- names at their longest ------------------------------------------------ */

#define LABELS_HEX_MAX (3 * 64 * 8)
#define CRI_WORDS_MAX (LABELS_HEX_MAX + 32)

/* A name of labels of 63 letters, and of others, and what names coap://NAME/x in two forms. */
static void make_name(size_t len, char name[300], char uri[320], char cri[CRI_WORDS_MAX])
{
    size_t at = 0;
    unsigned labels = 0;
    char label_hex[LABELS_HEX_MAX] = "";
    while (at < len) {
        size_t left = len - at, label = left > 64 ? 63 : left;
        label = left == 64 ? 62 : label; /* none may be empty */
        char *hex = label_hex + strlen(label_hex);
        hex +=
            snprintf(hex, 8, label < 24 ? "%02zx" : "78%02zx", label < 24 ? 0x60 + label : label);
        for (size_t i = 0; i < label; i++) {
            name[at++] = 'a';
            hex += snprintf(hex, 3, "61");
        }
        labels++;
        if (at < len) {
            name[at++] = '.';
        }
    }
    name[at] = '\0';
    snprintf(uri, 320, "35=coap://%s/x", name);
    snprintf(cri, CRI_WORDS_MAX, "235:83208%u%s816178", labels, label_hex);
}

/* Uri-Host has at most 255 bytes, whatever the form that the name comes in (RFC 7252 5.10). */
static void test_longest_name(void **state)
{
    char name[300], uri[320], cri[CRI_WORDS_MAX];
    (void)state;
    for (size_t len = 250; len <= 258; len++) {
        make_name(len, name, uri, cri);
        assert_int_equal(strlen(name), len);
        const char *const bodies[] = {uri, cri};
        for (size_t i = 0; i < 2; i++) {
            struct replay replay;
            replay_start(&replay, NULL);
            replay_ask(&replay, words("41 01 0001 aa", bodies[i]));
            fake_net_run(10000);
            replay_expect_words(&replay, "61 ?? 0001 aa", len > 255 ? "too long" : "name");
            assert_int_equal(replay_ended(&replay, REASON_cri_too_long), len > 255 ? 1 : 0);
            replay_stop(&replay);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_explain),
        cmocka_unit_test(test_lines_of_a_trace),
        cmocka_unit_test(test_each_request_is_shown_or_told_of_if_it_matches),
        cmocka_unit_test(test_delivered_answers_are_no_requests_of_a_trace),
        cmocka_unit_test(test_longest_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
