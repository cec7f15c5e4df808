/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Doubly linked lists through a node in what is listed: no allocation, and each step in constant
 * time. A thing is in as many lists as it has nodes. HASH_ENTRY() leads from a node to its thing.
 */
#ifndef CRIPROXY_LIST_H
#define CRIPROXY_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *next, *previous;
};

/* Zeroed: empty. */
struct list {
    struct list_node *first, *last;
};

/** Put @p node, which is in no list, behind @p previous, which is in @p list; NULL: at its head. */
static inline void list_insert(struct list *list, struct list_node *previous,
                               struct list_node *node)
{
    struct list_node *next = previous != NULL ? previous->next : list->first;
    node->previous = previous;
    node->next = next;
    *(previous != NULL ? &previous->next : &list->first) = node;
    *(next != NULL ? &next->previous : &list->last) = node;
}

/** Put @p node, which is in no list, at the end of @p list. */
static inline void list_add(struct list *list, struct list_node *node)
{
    list_insert(list, list->last, node);
}

/** Take @p node out of @p list, which it is in. */
static inline void list_remove(struct list *list, struct list_node *node)
{
    *(node->previous != NULL ? &node->previous->next : &list->first) = node->next;
    *(node->next != NULL ? &node->next->previous : &list->last) = node->previous;
    node->next = NULL;
    node->previous = NULL;
}

#endif
