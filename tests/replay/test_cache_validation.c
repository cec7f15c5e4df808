/* SPDX-License-Identifier: BSD-2-Clause */
/* A flush of the cache while an entry is being validated; all else of validation is
 * tests/scenario/cache_validation.scn. */
#include "replay/talk.h"

#include "cache/store.h"

/* The entry is flushed while it is being validated: those who asked have it all the same. */
static bool match_all(void *context, const struct target *target, uint32_t scheme)
{
    assert_int_equal(scheme, 0);
    assert_int_equal(target->port, 5683);
    assert_true(target->is_name && target->name_len == 1 && target->name[0] == 'h');
    assert_int_equal(target->path.count, 1);
    ++*(int *)context;
    return true;
}

static void test_flush_during_validation(void **state)
{
    struct talk talk;
    int matched = 0;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:01 14:01 /31");
    fake_net_run(1001);
    talk_ask(&talk, 0x01, CRI);
    fake_net_run(0);
    assert_int_equal(cache_flush(&talk.replay.engine->fetch.cache, match_all, &matched), 1);
    assert_int_equal(matched, 1);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
    talk_expect(&talk, 0x45, "4:01 /31");
    talk_fetch(&talk, 0x45, "/32");
    assert_int_equal(cache_flush(&talk.replay.engine->fetch.cache, match_all, &matched), 1);
    talk_fetch(&talk, 0x45, "/33");
    assert_int_equal(cache_store_count(&talk.replay.engine->fetch.cache), 1);
    talk_stop(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flush_during_validation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
