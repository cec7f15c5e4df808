/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every row of reasons.def that can occur is brought about by some test of errors_*.c; the
 * last test tells which were not.
 */
#include "replay/errors.h"

#include <string.h>

/* Reasons that no peer can bring about; those of connections have tests of their own. */
static bool is_out_of_reach(const char *name)
{
    static const char *const names[] = {
        "none",     /* not an end */
        "internal", /* our bugs */
        "cri_unprocessable" /* every feature of CRIs is on: CRI_FEATURES_ALL */,
        "observed",
        "format_changed", /* observe.scn */
        "way_changed",    /* test_crossings.c */
        "client_gone",    /* of connections: streams.scn */
        "block_invalid",
        "block_missing",
        "block_range",
        "block_served",
        "block_taken",      /* of bodies in blocks: blocks.scn */
        "unanswered",       /* options.scn */
        "echo_required",    /* test_echo.c */
        "origin_throttles", /* test_limits.c */
        "transfer_timeout", /* blocks.scn */
        "client_ignored",   /* test_fairness.c */
        "group_done",
        "group_timeout", /* groups.scn */
        "route_refused",
        "route_form",
        "route_loop",
        "zone_route",  /* routes.scn */
        "hop_loop",    /* tests/scenario/hops.scn */
        "zone_needed", /* zones.scn */
        "zone_misplaced",
        "client_refused", /* of sessions: test_admission.c */
        "leg_insecure",
        "connect_timeout",
        "handshake_failed",
        "certificate_refused",
        "certificate_name",
        "origin_closed",
        "sessions_full",
        "transport_missing", /* on the way to secure origin servers: upstream.scn */
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void test_every_reason_was_seen(void **state)
{
    unsigned missing = 0;
    (void)state;
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        const char *name = reason_row((enum reason)i)->name;
        if (errors_seen((enum reason)i) == 0 && !is_out_of_reach(name)) {
            print_error("    no test ends for the reason %s\n", name);
            missing++;
        }
        if (errors_seen((enum reason)i) > 0 && is_out_of_reach(name)) {
            print_error("    the reason %s can be reached\n", name);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest last[] = {cmocka_unit_test(test_every_reason_was_seen)};
    int failed =
        errors_refused() + errors_names() + errors_origins() + errors_clients() + errors_limits();
    return failed + cmocka_run_group_tests_name("all", last, NULL, NULL);
}
