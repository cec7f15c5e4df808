/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.h by script, and entropy.h from the seed. */
#include "net/entropy.h"
#include "support/fake_net_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct name {
    struct name *next;
    char *text;
    uint64_t delay_ms;
    enum resolve_status status;
    struct address addresses[RESOLVE_ADDRESSES_MAX];
    size_t address_count;
};

struct question {
    struct question *next;
    struct resolver *resolver;
    struct loop *loop; /* NULL: forgotten */
    resolve_fn on_result;
    void *context;
    char name[RESOLVE_NAME_MAX + 1];
};

struct resolver {
    unsigned queue_max, queue_count;
};

static struct name *names;
static struct question *questions;
static size_t question_count, resolver_count;

static void name_add_address(struct name *name, const char *text, size_t len)
{
    char bracketed[ADDRESS_TEXT_MAX];
    bool is_ipv6 = memchr(text, ':', len) != NULL;

    assert_true(name->address_count < RESOLVE_ADDRESSES_MAX);
    int written =
        snprintf(bracketed, sizeof bracketed, is_ipv6 ? "[%.*s]" : "%.*s", (int)len, text);
    if (!address_parse(bracketed, (size_t)written, 0, &name->addresses[name->address_count++])) {
        fail_msg("not an IP address: \"%s\"", text);
    }
}

void fake_net_name(const char *text, uint64_t delay_ms, enum resolve_status status,
                   const char *addresses)
{
    struct name *name = fake_alloc(sizeof *name);

    *name =
        (struct name){.next = names, .text = strdup(text), .delay_ms = delay_ms, .status = status};
    names = name;
    for (const char *at = addresses; *at != '\0';) {
        size_t len = strcspn(at, " ");
        if (len > 0) {
            name_add_address(name, at, len);
        }
        at += len + (at[len] == ' ');
    }
}

size_t fake_net_questions(void)
{
    return question_count;
}

size_t fake_resolver_count(void)
{
    return resolver_count;
}

void fake_resolve_stop(void)
{
    while (names != NULL) {
        struct name *name = names;
        names = name->next;
        free(name->text);
        free(name);
    }
    while (questions != NULL) {
        struct question *question = questions;
        questions = question->next;
        free(question);
    }
    question_count = 0;
    resolver_count = 0;
}

/* ---- resolve.h ---- */

int resolver_new(unsigned thread_count, unsigned queue_max, struct resolver **ret_resolver)
{
    if (thread_count == 0) {
        return -EINVAL;
    }
    struct resolver *resolver = fake_alloc(sizeof *resolver);
    resolver->queue_max = queue_max;
    resolver_count++;
    *ret_resolver = resolver;
    return 0;
}

static void forget(const struct resolver *resolver, const struct loop *loop)
{
    for (struct question *question = questions; question != NULL; question = question->next) {
        if (question->resolver == resolver && (loop == NULL || question->loop == loop)) {
            question->loop = NULL;
        }
    }
}

void resolver_free(struct resolver *resolver)
{
    if (resolver != NULL) {
        forget(resolver, NULL);
        resolver_count--;
        free(resolver);
    }
}

void resolver_forget(struct resolver *resolver, const struct loop *loop)
{
    if (resolver != NULL) {
        forget(resolver, loop);
    }
}

static const struct name *name_find(const char *text)
{
    const struct name *name = names;

    while (name != NULL && strcasecmp(name->text, text) != 0) {
        name = name->next;
    }
    return name;
}

static void question_unlink(struct question *question)
{
    struct question **link = &questions;

    while (*link != question) {
        link = &(*link)->next;
    }
    *link = question->next;
}

static void question_answered(struct fake_event *event)
{
    struct question *question = event->object;
    const struct name *name = name_find(question->name);

    question_unlink(question);
    if (question->loop != NULL) {
        question->resolver->queue_count--;
        fake_loop_wake(question->loop);
        if (name == NULL) {
            question->on_result(question->context, RESOLVE_NOT_FOUND, NULL, 0);
        } else {
            question->on_result(question->context, name->status, name->addresses,
                                name->address_count);
        }
    }
    free(question);
}

/* As the real one does: what getaddrinfo() would take for the number of an IPv4 address. */
static bool is_numeric(const char *name)
{
    size_t len = strlen(name);
    if (len > 0 && name[len - 1] == '.') {
        len--;
    }
    size_t start = len;
    while (start > 0 && name[start - 1] != '.') {
        start--;
    }
    return start == len || strncasecmp(name + start, "0x", 2) == 0 ||
           strspn(name + start, "0123456789") >= len - start;
}

int resolver_ask(struct resolver *resolver, struct loop *loop, const char *name, size_t name_len,
                 resolve_fn on_result, void *context)
{
    struct fake_event *event;

    if (name_len == 0 || name_len > RESOLVE_NAME_MAX || memchr(name, '\0', name_len) != NULL) {
        return -EINVAL;
    }
    if (resolver->queue_count >= resolver->queue_max) {
        return -EAGAIN;
    }
    struct question *question = fake_alloc(sizeof *question);
    memcpy(question->name, name, name_len);
    if (is_numeric(question->name)) {
        free(question);
        return -EINVAL;
    }
    question->resolver = resolver;
    question->loop = loop;
    question->on_result = on_result;
    question->context = context;
    question->next = questions;
    questions = question;
    resolver->queue_count++;
    question_count++;

    const struct name *scripted = name_find(question->name);
    event = fake_event_new(question_answered, NULL, 0);
    event->object = question;
    fake_event_post(event, scripted != NULL ? scripted->delay_ms : 0);
    return 0;
}

/* ---- entropy.h ---- */

void entropy_init(struct entropy *entropy)
{
    entropy->left = 0;
}

uint64_t entropy_u64(struct entropy *entropy)
{
    entropy->left++; /* used, so that one that was never set up shows under valgrind */
    return fake_random();
}
