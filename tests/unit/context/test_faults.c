/* SPDX-License-Identifier: BSD-2-Clause */
/* What faults draw: as often as asked for, within 3 sigma, and the same for the same seed. */
#include "context/faults.h"

#include "context/context.h"
#include "policy/pattern.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DRAWS 100000u

static struct config *load(const char *const *sets, size_t count)
{
    const struct config_source source = {.sets = sets, .set_count = count};
    struct config_errors errors;
    struct config *config = NULL;
    if (config_load(&source, &errors, &config) != 0) {
        fail_msg("%s", errors.text[0]);
    }
    return config;
}

/* One fault for all clients, with these keys besides. */
static struct context *lab(const char *first, const char *second)
{
    struct context *context = calloc(1, sizeof(*context));
    const char *const sets[] = {"lab.enabled=yes", "fault f.client=any", first, second};
    assert_non_null(context);
    context->config = load(sets, 4);
    entropy_init(&context->entropy);
    timer_wheel_init(&context->wheel, 0, context);
    faults_configure(context);
    return context;
}

static void end(struct context *context)
{
    struct config *config = (struct config *)(uintptr_t)context->config;
    faults_free(context);
    config_free(config);
    free(context);
}

static struct fault *any_fault(const struct context *context)
{
    struct address client;
    assert_true(address_parse("192.0.2.7", 9, 5683, &client));
    struct fault *fault = faults_of_client(context, &client);
    assert_non_null(fault);
    return fault;
}

static void check_share(const char *what, double count, double of, double chance)
{
    double sigma = sqrt(of * chance * (1 - chance));
    if (fabs(count - of * chance) > 3 * sigma + 1e-9) {
        fail_msg("%s: %.0f of %.0f, asked for %f", what, count, of, chance);
    }
}

static void test_each_chance_is_met_within_three_sigma(void **state)
{
    static const struct {
        const char *set;
        enum fault_kind kind;
        double chance;
    } rows[] = {
        {"fault f.loss=0.2", FAULT_lost, 0.2},
        {"fault f.loss=0.001", FAULT_lost, 0.001},
        {"fault f.loss=1", FAULT_lost, 1},
        {"fault f.delay=1ms", FAULT_lost, 0},
        {"fault f.duplicate=0.5", FAULT_duplicated, 0.5},
        {"fault f.reorder=0.05", FAULT_reordered, 0.05},
        {"fault f.corrupt=0.3", FAULT_corrupted, 0.3},
        {"fault f.truncate=0.7", FAULT_truncated, 0.7},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct context *context = lab(rows[i].set, "fault f.seed=1");
        struct fault *fault = any_fault(context);
        double count = 0;
        for (unsigned draw = 0; draw < DRAWS; draw++) {
            enum fault_way way = draw % FAULT_WAYS;
            struct fault_plan plan = fault_draw_message(context, fault, way, 20);
            count += (plan.kinds & FAULT_BIT(rows[i].kind)) != 0;
        }
        check_share(rows[i].set, count, DRAWS, rows[i].chance);
        end(context);
    }
}

static void test_chances_of_requests_are_met_too(void **state)
{
    static const struct {
        const char *set;
        enum fault_kind kind;
        double chance;
    } rows[] = {
        {"fault f.code=5.03:0.25", FAULT_answered, 0.25},
        {"fault f.code=4.04", FAULT_answered, 1},
        {"fault f.silence=0.1", FAULT_silenced, 0.1},
        {"fault f.close=0.4", FAULT_closed, 0.4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct context *context = lab(rows[i].set, "fault f.seed=2");
        struct fault *fault = any_fault(context);
        double count = 0;
        for (unsigned draw = 0; draw < DRAWS; draw++) {
            struct fault_plan plan = fault_draw_request(context, fault, FAULT_CLOSES);
            count += (plan.kinds & FAULT_BIT(rows[i].kind)) != 0;
        }
        check_share(rows[i].set, count, DRAWS, rows[i].chance);
        end(context);
    }
}

static void test_delay_is_even_from_delay_minus_jitter_to_delay_plus_jitter(void **state)
{
    struct context *context = lab("fault f.delay=100ms", "fault f.jitter=50ms");
    struct fault *fault = any_fault(context);
    double counts[101] = {0}, sum = 0;
    (void)state;
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        struct fault_plan plan = fault_draw_message(context, fault, FAULT_TO_CLIENT, 20);
        assert_in_range(plan.delay_ms[0], 50, 150);
        assert_in_range(plan.delay_ms[1], 50, 150);
        counts[plan.delay_ms[0] - 50]++;
        sum += (double)plan.delay_ms[0];
    }
    /* The variance of n even values is (n * n - 1) / 12. */
    double sigma = sqrt((101.0 * 101 - 1) / 12 / DRAWS);
    assert_true(fabs(sum / DRAWS - 100) < 4 * sigma);
    for (unsigned i = 0; i < 101; i++) {
        assert_true(fabs(counts[i] - DRAWS / 101.0) < 5 * sqrt(DRAWS / 101.0));
    }
    end(context);
}

static void test_what_is_changed_lies_in_the_message(void **state)
{
    struct context *context = lab("fault f.truncate=1", "fault f.corrupt=1");
    struct fault *fault = any_fault(context);
    (void)state;
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        size_t len = draw % 40;
        struct fault_plan plan = fault_draw_message(context, fault, FAULT_TO_CLIENT, len);
        assert_true(len == 0 ? plan.len == 0 : plan.len < len);
        bool is_flipped = (plan.kinds & FAULT_BIT(FAULT_corrupted)) != 0;
        assert_int_equal(is_flipped, plan.len > 0);
        assert_true(!is_flipped || (plan.flip_at < plan.len && plan.flip != 0));
    }
    end(context);
}

/* Which of the first 64 messages of a way are lost. */
static uint64_t losses(const char *first, const char *second, unsigned worker, enum fault_way way)
{
    struct context *context = lab(first, second);
    struct fault *fault = any_fault(context);
    uint64_t bits = 0;
    context->worker_index = worker;
    for (unsigned draw = 0; draw < 64; draw++) {
        struct fault_plan plan = fault_draw_message(context, fault, way, 20);
        bits |= (uint64_t)(plan.kinds & FAULT_BIT(FAULT_lost)) << draw;
    }
    end(context);
    return bits;
}

static void test_same_seed_gives_the_same_faults_and_each_way_its_own(void **state)
{
    const char *loss = "fault f.loss=0.5";
    uint64_t first = losses(loss, "fault f.seed=7", 0, FAULT_TO_ORIGIN);
    (void)state;
    assert_true(losses(loss, "fault f.seed=7", 0, FAULT_TO_ORIGIN) == first);
    assert_true(losses(loss, "fault f.seed=8", 0, FAULT_TO_ORIGIN) != first);
    assert_true(losses(loss, "fault f.seed=7", 1, FAULT_TO_ORIGIN) != first);
    assert_true(losses(loss, "fault f.seed=7", 0, FAULT_FROM_ORIGIN) != first);
    /* What is lost with a small probability is lost with a larger one, too. */
    uint64_t more = losses("fault f.loss=0.6", "fault f.seed=7", 0, FAULT_TO_ORIGIN);
    assert_true((more & first) == first && more != first);
}

static void count_delivery(void *owner, void *other, const struct udp_path *path,
                           const uint8_t *data, size_t len)
{
    unsigned *count = owner;
    (void)other;
    (void)path;
    (void)data;
    (void)len;
    ++*count;
}

static void test_chances_that_are_none_are_refused(void **state)
{
    static const char *const rows[] = {
        "fault f.loss=1.1",       "fault f.loss=-0.1",   "fault f.loss=.5",
        "fault f.loss=0.0000001", "fault f.loss=0,5",    "fault f.loss=2",
        "fault f.loss=1.000001",  "fault f.loss=",       "fault f.code=1.01",
        "fault f.code=9.00",      "fault f.code=5.3",    "fault f.code=5.32",
        "fault f.code=5.03:2",    "fault f.code=5.03 1", "fault f.jitter=1ms",
        "fault f.loss=0.",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const sets[] = {"lab.enabled=yes", "fault f.client=any", rows[i]};
        const struct config_source source = {.sets = sets, .set_count = 3};
        struct config_errors errors;
        struct config *config = NULL;
        if (config_load(&source, &errors, &config) == 0) {
            fail_msg("%s is taken", rows[i]);
        }
    }
}

static void test_fault_needs_lab_a_side_and_an_effect(void **state)
{
    static const struct {
        const char *sets[4];
        const char *error;
    } rows[] = {
        {{"lab.enabled=no", "fault f.client=any", "fault f.loss=0.5"}, "needs lab.enabled = yes"},
        {{"lab.enabled=yes", "fault f.loss=0.5"}, "target: this or client is needed"},
        {{"lab.enabled=yes", "fault f.client=any"}, "loss: this, duplicate, reorder,"},
        {{"lab.enabled=yes", "fault f.client=any", "fault f.loss=0", "fault f.seed=1"},
         "loss: this, duplicate, reorder,"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t count = 2;
        while (count < 4 && rows[i].sets[count] != NULL) {
            count++;
        }
        const struct config_source source = {.sets = rows[i].sets, .set_count = count};
        struct config_errors errors;
        struct config *config = NULL;
        assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
        assert_int_equal(errors.count, 1);
        assert_non_null(strstr(errors.text[0], rows[i].error));
    }
}

static void test_keys_without_effect_are_told(void **state)
{
#define DATAGRAMS "listen.uri=coap://127.0.0.1"
#define STREAMS "listen.uri=coap+tcp://127.0.0.1"
#define TO(target) "fault f.target=" target
    static const struct {
        const char *sets[5];
        const char *why; /* NULL: it may have an effect */
    } rows[] = {
        {{"fault f.client=any", "fault f.loss=0.1", DATAGRAMS}, NULL},
        {{"fault f.client=any", "fault f.loss=0.1", STREAMS}, "no listener has UDP or DTLS"},
        {{"fault f.client=any", "fault f.truncate=1", STREAMS}, "truncate can do nothing"},
        {{"fault f.client=any", "fault f.close=1", DATAGRAMS}, "no listener has connections"},
        {{"fault f.client=any", "fault f.close=1", STREAMS}, NULL},
        {{"fault f.client=any", "fault f.close=1", STREAMS, DATAGRAMS}, NULL},
        {{"fault f.client=any", "fault f.delay=1s", STREAMS}, NULL},
        {{TO("coap://h"), "fault f.reorder=1", STREAMS}, NULL},
        {{TO("coaps://h"), "fault f.reorder=1", DATAGRAMS}, "asked over UDP"},
        {{TO("coap+tcp://h"), "fault f.corrupt=1", "fault f.client=any", DATAGRAMS}, "over UDP"},
        {{TO("http://h"), "fault f.duplicate=1"}, "duplicate can do nothing"},
        {{TO("http://h"), "fault f.code=5.03", "fault f.silence=0.1", "fault f.close=0.1"}, NULL},
        {{TO("*://h"), "fault f.loss=1", "fault f.close=1"}, NULL},
        {{TO("coap://h"), "fault f.close=1"}, "over UDP alone"},
        /* Parent proxies, devices and OSCORE are asked over other transports than the target's. */
        {{TO("coaps://h"), "fault f.loss=1", "route r.target=coaps://h",
          "route r.via=coap://192.0.2.1"},
         NULL},
        {{TO("coap://h"), "fault f.close=1", "route r.target=coap://h",
          "route r.via=coap+tcp://192.0.2.1"},
         NULL},
        {{TO("coap://h"), "fault f.close=1", "devices.zone=devices.example"}, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *sets[6] = {"lab.enabled=yes"};
        char why[128] = "";
        size_t count = 1;
        for (size_t n = 0; n < 5 && rows[i].sets[n] != NULL; n++) {
            sets[count++] = rows[i].sets[n];
        }
        struct config *config = load(sets, count);
        bool is_idle = config_fault_is_idle(config, &config->faults[0], why, sizeof(why));
        if (is_idle != (rows[i].why != NULL) || (is_idle && strstr(why, rows[i].why) == NULL)) {
            fail_msg("%s %s: \"%s\"", rows[i].sets[0], rows[i].sets[1], why);
        }
        config_free(config);
    }
}

static void test_added_faults_come_behind_and_go(void **state)
{
    struct context *context = lab("fault f.loss=0.5", "fault f.seed=1");
    const char *const sets[] = {"lab.enabled=yes", "fault g.client=any", "fault g.loss=1"};
    const char *const same[] = {"lab.enabled=yes", "fault f.client=any", "fault f.loss=1"};
    struct config *config = load(same, 3);
    (void)state;
    assert_int_equal(faults_add(context, config), -EEXIST);
    config_free(config);
    assert_int_equal(faults_add(context, load(sets, 3)), 0);
    assert_int_equal(faults_add(context, load(sets, 3)), 0); /* in place of the first */
    assert_string_equal(faults_name(context, fault_number(context, any_fault(context))), "f");
    assert_int_equal(faults_clear(context, "f"), 0); /* is the configuration's */
    assert_int_equal(faults_clear(context, "g"), 1);
    assert_int_equal(faults_clear(context, ""), 0);
    /* Without those of the configuration nothing is left, not even the table. */
    struct config *old = (struct config *)(uintptr_t)context->config;
    context->config = load(NULL, 0);
    faults_configure(context);
    config_free(old);
    assert_null(context->faults);
    end(context);
}

static void test_what_waits_for_a_cleared_fault_comes_and_nothing_stays(void **state)
{
    struct context *context = lab("fault f.loss=0.5", "fault f.seed=1");
    const char *const sets[] = {"lab.enabled=yes", "fault g.client=any", "fault g.loss=1"};
    struct config *old = (struct config *)(uintptr_t)context->config;
    unsigned count = 0;
    const struct fault_parcel parcel = {
        .owner = &count, .deliver = count_delivery, .data = (const uint8_t *)"abcd", .len = 4};
    const struct fault_plan plan = {.copies = 1, .len = 4, .delay_ms = {50}};
    (void)state;
    context->config = load(sets, 1);
    faults_configure(context);
    config_free(old);
    assert_int_equal(context->lab, 0);
    assert_int_equal(faults_add(context, load(sets, 3)), 0);
    assert_int_equal(context->lab, LAB_FAULTS);
    assert_true(fault_carry(context, &plan, &parcel));
    assert_int_equal(faults_clear(context, "g"), 1);
    assert_int_equal(context->lab, LAB_FAULTS);
    timer_wheel_advance(&context->wheel, context_now_ms(context) + 50);
    assert_int_equal(count, 1);
    assert_int_equal(context->lab, 0);
    assert_null(context->faults);
    end(context);
}

static void test_plan_without_copies_delivers_nothing(void **state)
{
    struct context *context = lab("fault f.loss=1", "fault f.seed=1");
    unsigned count = 0;
    const struct fault_parcel parcel = {
        .owner = &count, .deliver = count_delivery, .data = (const uint8_t *)"abcd", .len = 4};
    struct fault_plan plan =
        fault_draw_message(context, any_fault(context), FAULT_TO_CLIENT, parcel.len);
    (void)state;
    fault_carry(context, &plan, &parcel);
    assert_int_equal(count, 0);
    plan = (struct fault_plan){.copies = 1, .len = 4};
    fault_carry(context, &plan, &parcel);
    assert_int_equal(count, 1);
    end(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_chance_is_met_within_three_sigma),
        cmocka_unit_test(test_chances_of_requests_are_met_too),
        cmocka_unit_test(test_delay_is_even_from_delay_minus_jitter_to_delay_plus_jitter),
        cmocka_unit_test(test_what_is_changed_lies_in_the_message),
        cmocka_unit_test(test_same_seed_gives_the_same_faults_and_each_way_its_own),
        cmocka_unit_test(test_chances_that_are_none_are_refused),
        cmocka_unit_test(test_fault_needs_lab_a_side_and_an_effect),
        cmocka_unit_test(test_keys_without_effect_are_told),
        cmocka_unit_test(test_added_faults_come_behind_and_go),
        cmocka_unit_test(test_what_waits_for_a_cleared_fault_comes_and_nothing_stays),
        cmocka_unit_test(test_plan_without_copies_delivers_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
