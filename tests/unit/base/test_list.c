/* SPDX-License-Identifier: BSD-2-Clause */
/* The intrusive list, against an array. */
#include "support/test.h"

#include "base/hash.h"
#include "base/list.h"

#include <string.h>

#define ITEMS 40u

struct item {
    int mark;
    struct list_node node;
};

static struct list list;
static struct item items[ITEMS];
static size_t order[ITEMS]; /* of those in the list */
static size_t count;

static void check_order(void)
{
    size_t at = 0;
    struct list_node *last = NULL;
    for (struct list_node *node = list.first; node != NULL; node = node->next) {
        assert_true(at < count);
        assert_ptr_equal(HASH_ENTRY(node, struct item, node), &items[order[at]]);
        assert_ptr_equal(node->previous, last);
        last = node;
        at++;
    }
    assert_int_equal(at, count);
    assert_ptr_equal(list.last, last);
    assert_int_equal(list.first == NULL, count == 0);
}

static size_t position_of(size_t item)
{
    size_t at = 0;
    while (at < count && order[at] != item) {
        at++;
    }
    return at;
}

static void put_at(size_t position, size_t item)
{
    list_insert(&list, position > 0 ? &items[order[position - 1]].node : NULL, &items[item].node);
    memmove(order + position + 1, order + position, (count - position) * sizeof(*order));
    order[position] = item;
    count++;
}

static void take_from(size_t position)
{
    struct list_node *node = &items[order[position]].node;
    list_remove(&list, node);
    assert_null(node->next);
    assert_null(node->previous);
    count--;
    memmove(order + position, order + position + 1, (count - position) * sizeof(*order));
}

static void test_order_is_kept(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (unsigned step = 0; step < 20000; step++) {
        size_t item = (size_t)test_random_below(&random, ITEMS);
        size_t position = position_of(item);
        if (position < count) {
            take_from(position);
        } else if (test_random_below(&random, 2) == 0) {
            put_at((size_t)test_random_below(&random, count + 1), item);
        } else {
            list_add(&list, &items[item].node);
            order[count++] = item;
        }
        check_order();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
