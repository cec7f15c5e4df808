/* SPDX-License-Identifier: BSD-2-Clause */
/* The order in which requests leave a queue: the header's promises. */
#include "support/test.h"
#include "support/test_random.h"

#include "base/hash.h"
#include "origin/queue.h"

#include <string.h>

#define HERE 7u
#define PLACES 200u
#define CLIENTS 6u

static struct queued *queued_at(struct list_node *node)
{
    return HASH_ENTRY(node, struct queued, node);
}

/* What is first is sent. */
static struct queued *send_first(struct queue *queue)
{
    assert_non_null(queue->list.first);
    struct queued *first = queued_at(queue->list.first);
    queue->round = first->round;
    queue_leave(queue, first);
    return first;
}

static void test_each_client_has_one_request_a_round(void **state)
{
    (void)state;
    struct queue queue = {0};
    struct queue_turn many = {0}, few = {0};
    struct queued of_many[20] = {{.turn = NULL}}, of_few[2] = {{.turn = NULL}};
    for (unsigned i = 0; i < 20; i++) {
        of_many[i].turn = &many;
        queue_enter(&queue, HERE, &of_many[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        of_few[i].turn = &few;
        queue_enter(&queue, HERE, &of_few[i]);
    }
    assert_int_equal(queue.count, 22);
    assert_ptr_equal(send_first(&queue), &of_many[0]);
    assert_ptr_equal(send_first(&queue), &of_few[0]);
    assert_ptr_equal(send_first(&queue), &of_many[1]);
    assert_ptr_equal(send_first(&queue), &of_few[1]);
    for (unsigned i = 2; i < 20; i++) {
        assert_ptr_equal(send_first(&queue), &of_many[i]);
    }
    assert_int_equal(queue.count, 0);
}

static void test_a_turn_of_another_queue_does_not_count(void **state)
{
    (void)state;
    struct queue queue = {0}, other = {0};
    struct queue_turn turn = {0}, late = {0};
    struct queued there[3] = {{.turn = &turn}, {.turn = &turn}, {.turn = &turn}};
    struct queued here = {.turn = &turn}, next = {.turn = &late};
    for (unsigned i = 0; i < 3; i++) {
        queue_enter(&other, HERE + 1, &there[i]);
    }
    queue_enter(&queue, HERE, &here);
    queue_enter(&queue, HERE, &next);
    assert_int_equal(here.round, 0);
    assert_ptr_equal(send_first(&queue), &here);
    assert_ptr_equal(send_first(&queue), &next);
}

/* The plain way: each goes behind the last of its round or of an earlier one, found by walking. */
struct model {
    struct queued *order[PLACES];
    unsigned count;
};

static void model_enter(struct model *model, struct queued *queued)
{
    unsigned at = 0;
    while (at < model->count && (int32_t)(model->order[at]->round - queued->round) <= 0) {
        at++;
    }
    memmove(&model->order[at + 1], &model->order[at],
            (model->count - at) * sizeof(struct queued *));
    model->order[at] = queued;
    model->count++;
}

static void model_leave(struct model *model, const struct queued *queued)
{
    unsigned at = 0;
    while (model->order[at] != queued) {
        at++;
    }
    model->count--;
    memmove(&model->order[at], &model->order[at + 1],
            (model->count - at) * sizeof(struct queued *));
}

static void check_same(const struct queue *queue, const struct model *model)
{
    struct list_node *node = queue->list.first;
    assert_int_equal(queue->count, model->count);
    for (unsigned i = 0; i < model->count; i++, node = node->next) {
        assert_non_null(node);
        assert_ptr_equal(queued_at(node), model->order[i]);
    }
    assert_null(node);
}

/* No end that is known is of something that has left. */
static void check_ends(const struct queue *queue)
{
    for (unsigned i = 0; i < QUEUE_ENDS; i++) {
        const struct queued *end = queue->ends[i];
        assert_true(end == NULL || (end->is_in && end->round % QUEUE_ENDS == i));
    }
}

static struct queued *one_that_waits(struct queued *all, uint64_t *random)
{
    struct queued *one = &all[test_random(random) % PLACES];
    while (!one->is_in) {
        one = one + 1 < all + PLACES ? one + 1 : all;
    }
    return one;
}

/* Clients that send much and little, from rounds that are about to wrap; some give up. */
static void test_as_the_plain_way(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    struct queue queue = {.round = UINT32_MAX - 5};
    struct queue_turn turns[CLIENTS] = {{0}};
    static struct queued all[PLACES];
    struct model model = {.count = 0};
    memset(all, 0, sizeof all);
    for (unsigned step = 0; step < 50000; step++) {
        bool enters =
            model.count == 0 || (model.count < PLACES - 1 && test_random(&random) % 2 == 0);
        if (enters) {
            struct queued *one = all;
            while (one->is_in) {
                one++;
            }
            /* The first client as often as all others together; sometimes the proxy itself. */
            unsigned client = (unsigned)(test_random(&random) % (2 * CLIENTS));
            *one = (struct queued){.turn = client < CLIENTS ? &turns[client] : &turns[0]};
            if (test_random(&random) % 16 == 0) {
                one->turn = NULL;
            }
            queue_enter(&queue, HERE, one);
            model_enter(&model, one);
        } else if (test_random(&random) % 3 == 0) {
            struct queued *one = one_that_waits(all, &random);
            queue_leave(&queue, one);
            model_leave(&model, one);
        } else {
            assert_ptr_equal(queued_at(queue.list.first), model.order[0]);
            model_leave(&model, send_first(&queue));
        }
        check_same(&queue, &model);
        check_ends(&queue);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_client_has_one_request_a_round),
        cmocka_unit_test(test_a_turn_of_another_queue_does_not_count),
        cmocka_unit_test(test_as_the_plain_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
