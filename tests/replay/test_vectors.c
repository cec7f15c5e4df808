/* SPDX-License-Identifier: BSD-2-Clause */
/* The byte vectors V1 to V40 of Appendix B of the conformance list. */
#include "replay/replay.h"

#include <string.h>

/* What has to happen for a vector. */
struct vector {
    const char *id;
    const char *request;
    const char *upstream; /* method, then option bytes after the token; NULL: nothing leaves */
    const char *to;       /* where; NULL: 192.0.2.5:5683 */
    const char *answer;   /* head of the answer, where nothing leaves */
    const char *setting;  /* or NULL */
};

static const struct vector vectors[] = {
    {"V1 Proxy-Cri, name", "41010001aad8de8320816168816178", "01 31688178", NULL, NULL, NULL},
    {"V2 Proxy-Uri", "41010001aada16636f61703a2f2f682f78", "01 31688178", NULL, NULL, NULL},
    {"V3 Proxy-Scheme", "41010001aa31688178d40f636f6170", "01 31688178", NULL, NULL, NULL},
    {"V4 Proxy-Scheme-Number 0", "41010001aa31688178d0d7", "01 31688178", NULL, NULL, NULL},
    {"V5 with leading zeros", "41010001aa31688178d2d70000", "01 31688178", NULL, NULL, NULL},
    {"V6 no proxy option", "41010001aa31688178", NULL, NULL, "61 84 0001 aa", NULL},
    {"V7 host-ip",
     "41010001aaddde1384208144c0000205826b2e77656c6c2d6b6e6f776e64636f7265816472743d61",
     "01 bb2e77656c6c2d6b6e6f776e04636f72654472743d61", NULL, NULL, NULL},
    {"V8 lone empty path", "41010001aad7de83208161688160", "01 3168", NULL, NULL, NULL},
    {"V9 port, trailing slash, empty query", "41010001aaddde01842082616819f0b0826161608160",
     "01 316881610040", "192.0.2.5:61616", NULL, NULL},
    {"V10 slash inside an item", "41010001aadade83208161688163332f34", "01 316883332f34", NULL,
     NULL, NULL},
    {"V11 overridden options",
     "41010001aa346576696c817add0b00636f61703a2f2f6576696c2f79d8bb8320816168816178", "01 31688178",
     NULL, NULL, NULL},
    {"V11 strict", "41010001aa346576696c817add0b00636f61703a2f2f6576696c2f79d8bb8320816168816178",
     NULL, NULL, "61 82 0001 aa", "proxy.strict=yes"},
    {"V12 safe unknown option 65", "41010001aad13401d89d8320816168816178", "01 31688178d12901",
     NULL, NULL, NULL},
    {"V13 unsafe unknown option 2", "41010001aa2105d8dc8320816168816178", NULL, NULL,
     "61 82 0001 aa", NULL},
    {"V14 empty Proxy-Cri", "41010001aad0de", NULL, NULL, "61 82 0001 aa", NULL},
    {"V15 [] in Proxy-Cri", "41010001aad1de80", NULL, NULL, "61 82 0001 aa", NULL},
    {"V16 relative reference", "41010001aad5de82f5816178", NULL, NULL, "61 82 0001 aa", NULL},
    {"V17 dotted label", "41010001aad7de82208163612e62", NULL, NULL, "61 82 0001 aa", NULL},
    {"V18 trailing null", "41010001aad6de8320816168f6", NULL, NULL, "61 82 0001 aa", NULL},
    {"V19 trailing []", "41010001aad6de832081616880", "01 3168", NULL, NULL, NULL},
    {"V19 strict", "41010001aad6de832081616880", NULL, NULL, "61 82 0001 aa", "proxy.strict=yes"},
    {"V20 null path, query", "41010001aad9de8420816168f6816171", "01 3168c171", NULL, NULL, NULL},
    {"V21 fragment", "41010001aad9de852081616880806166", NULL, NULL, "61 82 0001 aa", NULL},
    {"V22 userinfo", "41010001aad8de822083f461756168", NULL, NULL, "61 82 0001 aa", NULL},
    {"V23 indefinite length", "41010001aad6de9f20816168ff", NULL, NULL, "61 82 0001 aa", NULL},
    {"V24 trailing byte", "41010001aad6de822081616800", NULL, NULL, "61 82 0001 aa", NULL},
    {"V25 did", "41010001aaddde058325f5816d7765623a616c6963653a626f62", NULL, NULL, "61 a5 0001 aa",
     NULL},
    {"V26 scheme-name", "41010001aad9de8264636f6170816168", NULL, NULL, "61 a5 0001 aa", NULL},
    {"V27 PET on coap", "41010001aaddde00832081616881836161413a6162", NULL, NULL, "61 a5 0001 aa",
     NULL},
    {"V28 239 = 5 (did)", "41010001aa3168d1df05", NULL, NULL, "61 a5 0001 aa", NULL},
    {"V29 239 of four bytes", "41010001aa3168d4df00000000", NULL, NULL, "61 82 0001 aa", NULL},
    {"V30 39 and 239", "41010001aa3168d417636f6170d0bb", NULL, NULL, "61 82 0001 aa", NULL},
    {"V31 two Proxy-Cri", "41010001aad5de8220816168058220816168", NULL, NULL, "61 82 0001 aa",
     NULL},
    {"V33 dotted-quad as labels", "41010001aaddde0383208463313237613061306131816178", NULL, NULL,
     "61 82 0001 aa", NULL},
    {"V34 the proxy itself", "41010001aaddde0d83208144c0000209826b2e77656c6c2d6b6e6f776e64636f7265",
     NULL, NULL, "61 45 0001 aa c128 ff", NULL},
    {"V35 239 without Uri-Host", "41010001aab178d0d7", NULL, NULL, "61 84 0001 aa", NULL},
    {"V36 Hop-Limit 1", "41010001aad10301d8ce8320816168816178", NULL, NULL,
     "61 a8 0001 aa ff 637269 70726f7879", NULL},
    {"V37 Hop-Limit 0", "41010001aad10300d8ce8320816168816178", NULL, NULL, "61 80 0001 aa", NULL},
    {"V38 group target", "41010001aad8de82208144e00001bb", NULL, NULL, "61 a1 0001 aa", NULL},
    {"V39 unknown method 0.08", "41080001aad8de8320816168816178", NULL, NULL, "61 85 0001 aa",
     NULL},
    {"V40 CoAP ping", "40000001", NULL, NULL, "70 00 0001", NULL},
};

static void run(const struct vector *vector)
{
    struct replay replay;
    struct fake_datagram request;
    char pattern[256];
    const char *settings[] = {vector->setting, NULL};
    print_message("    %s\n", vector->id);
    replay_start(&replay, settings);
    struct fake_peer *origin = vector->to != NULL ? fake_peer_new(vector->to) : replay.origin;
    replay_ask(&replay, vector->request);
    if (vector->upstream != NULL) {
        snprintf(pattern, sizeof(pattern), "48 %.2s MID TOKEN %s", vector->upstream,
                 vector->upstream + 3);
        fake_peer_expect(origin, pattern, &request);
        fake_peer_reply(origin, &request, "6T 45 MID TOKEN c0 ff 6f6b");
        fake_peer_expect(replay.client, "61 45 0001 aa c0 ff 6f6b", NULL);
    } else {
        snprintf(pattern, sizeof(pattern), "%s ...", vector->answer);
        fake_peer_expect(replay.client, pattern, NULL);
        fake_peer_expect_nothing(origin);
        assert_false(fake_net_take(&request));
    }
    replay_stop(&replay);
}

/* PXO-*, TGT-*, C2O-*, CRI-*: each as named in the table. */
static void test_vectors_of_appendix_b(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        run(&vectors[i]);
    }
}

/* The same targets in NON requests: a NON answer with the same token. */
static void test_vectors_as_non(void **state)
{
    (void)state;
    struct replay replay;
    struct fake_datagram request;
    replay_start(&replay, NULL);
    replay_ask(&replay, "51010001aad8de8320816168816178");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 31688178", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 6f6b");
    fake_peer_expect(replay.client, "51 45 MID aa ff 6f6b", NULL);
    replay_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_of_appendix_b),
        cmocka_unit_test(test_vectors_as_non),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
