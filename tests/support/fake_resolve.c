/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.h by script, and entropy.h from the seed. */
#include "net/entropy.h"

#include "net/digest.h"
#include "support/fake_net_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct fake_name {
    struct fake_name *next;
    char *text;
    uint64_t delay_ms;
    struct resolve_result result;
};

struct resolve_question {
    struct resolve_question *next;
    struct resolver *resolver; /* NULL: withdrawn */
    resolve_fn on_result;
    void *context;
    char name[RESOLVE_NAME_MAX + 1];
};

struct resolver {
    struct loop *loop;
};

static struct fake_name *names;
static struct resolve_question *questions;
static size_t question_count, withdrawn_count, resolver_count;
static int ask_error;

static void name_add_address(struct fake_name *name, const char *text, size_t len)
{
    char bracketed[ADDRESS_TEXT_MAX];
    bool is_ipv6 = memchr(text, ':', len) != NULL;
    struct resolve_result *result = &name->result;

    assert_true(result->address_count < RESOLVE_ADDRESSES_MAX);
    int written =
        snprintf(bracketed, sizeof bracketed, is_ipv6 ? "[%.*s]" : "%.*s", (int)len, text);
    if (!address_parse(bracketed, (size_t)written, 0,
                       &result->addresses[result->address_count++])) {
        fail_msg("not an IP address: \"%s\"", text);
    }
}

void fake_net_name(const char *text, uint64_t delay_ms, enum resolve_status status,
                   const char *addresses)
{
    struct fake_name *name = fake_alloc(sizeof *name);

    *name = (struct fake_name){.next = names,
                               .text = strdup(text),
                               .delay_ms = delay_ms,
                               .result = {.status = status, .ttl_s = RESOLVE_TTL_UNKNOWN}};
    names = name;
    for (const char *at = addresses; *at != '\0';) {
        size_t len = strcspn(at, " ");
        if (len > 0) {
            name_add_address(name, at, len);
        }
        at += len + (at[len] == ' ');
    }
}

static struct fake_name *fake_name_find(const char *text)
{
    struct fake_name *name = names;

    while (name != NULL && strcasecmp(name->text, text) != 0) {
        name = name->next;
    }
    return name;
}

void fake_net_name_ttl(const char *text, uint32_t ttl_s)
{
    struct fake_name *name = fake_name_find(text);

    assert_non_null(name);
    if (name != NULL) { /* gcc does not know that the line above does not return then */
        name->result.ttl_s = ttl_s;
    }
}

void fake_net_resolver_fails(int error)
{
    ask_error = error;
}

size_t fake_net_questions(void)
{
    return question_count;
}

size_t fake_net_questions_withdrawn(void)
{
    return withdrawn_count;
}

size_t fake_resolver_count(void)
{
    return resolver_count;
}

void fake_resolve_stop(void)
{
    while (names != NULL) {
        struct fake_name *name = names;
        names = name->next;
        free(name->text);
        free(name);
    }
    while (questions != NULL) {
        struct resolve_question *question = questions;
        questions = question->next;
        free(question);
    }
    question_count = 0;
    withdrawn_count = 0;
    resolver_count = 0;
    ask_error = 0;
}

/* ---- resolve.h ---- */

int resolver_new(struct loop *loop, struct system_names *system, struct resolver **ret_resolver)
{
    (void)system;
    struct resolver *resolver = fake_alloc(sizeof *resolver);
    resolver->loop = loop;
    resolver_count++;
    *ret_resolver = resolver;
    return 0;
}

void resolver_free(struct resolver *resolver)
{
    if (resolver == NULL) {
        return;
    }
    for (struct resolve_question *each = questions; each != NULL; each = each->next) {
        if (each->resolver == resolver) {
            resolver_withdraw(each);
        }
    }
    resolver_count--;
    free(resolver);
}

void resolver_withdraw(struct resolve_question *question)
{
    if (question != NULL) {
        assert_non_null(question->resolver); /* once */
        question->resolver = NULL;
        withdrawn_count++;
    }
}

static void question_unlink(struct resolve_question *question)
{
    struct resolve_question **link = &questions;

    while (*link != question) {
        link = &(*link)->next;
    }
    *link = question->next;
}

static void question_answered(struct fake_event *event)
{
    static const struct resolve_result not_found = {.status = RESOLVE_NOT_FOUND};
    struct resolve_question *question = event->object;
    const struct fake_name *name = fake_name_find(question->name);

    question_unlink(question);
    if (question->resolver != NULL) {
        fake_loop_wake(question->resolver->loop);
        question->on_result(question->context, name != NULL ? &name->result : &not_found);
    }
    free(question);
}

int resolver_ask(struct resolver *resolver, const struct resolve_query *query, resolve_fn on_result,
                 void *context, struct resolve_question **ret_question)
{
    struct fake_event *event;

    if (!resolve_is_host_name(query->name, query->name_len)) {
        return -EINVAL;
    }
    if (ask_error != 0) {
        return -ask_error;
    }
    struct resolve_question *question = fake_alloc(sizeof *question);
    memcpy(question->name, query->name, query->name_len);
    question->resolver = resolver;
    question->on_result = on_result;
    question->context = context;
    question->next = questions;
    questions = question;
    question_count++;

    const struct fake_name *scripted = fake_name_find(question->name);
    event = fake_event_new(question_answered, NULL, 0);
    event->object = question;
    fake_event_post(event, scripted != NULL ? scripted->delay_ms : 0);
    *ret_question = question;
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

const char *process_token(void)
{
    return "1234567890abcdef";
}

/* ---- digest.h: the bytes themselves, so that a test can write them down ---- */

bool digest_sha256(const uint8_t *data, size_t len, uint8_t ret_digest[DIGEST_LEN])
{
    memset(ret_digest, 0, DIGEST_LEN);
    memcpy(ret_digest, data, len < DIGEST_LEN ? len : DIGEST_LEN);
    return true;
}
