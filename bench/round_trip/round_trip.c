/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one question to a Redis server costs a plain program: hiredis's asynchronous context on
 * libevent asks for one key, again and again, the next time when the answer has come. That is "the
 * round trip" which a hit in the second level of the cache may cost besides one and a half times a
 * hit in the first (bench/instructions --shared, bench/cache).
 *
 * Usage: round_trip SOCKET KEY COUNT      prints microseconds of processor time of a round trip
 */
#include <event2/event.h>
#include <hiredis/adapters/libevent.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

struct asker {
    struct event_base *base;
    const char *key;
    long left; /* questions */
    size_t len;
};

static void ask(redisAsyncContext *redis, struct asker *asker);

static void on_answer(redisAsyncContext *redis, void *reply_data, void *data)
{
    const redisReply *reply = reply_data;
    struct asker *asker = data;

    if (reply == NULL || reply->type != REDIS_REPLY_STRING) {
        fprintf(stderr, "round_trip: there is no such key\n");
        exit(1);
    }
    asker->len = (size_t)reply->len;
    ask(redis, asker);
}

static void ask(redisAsyncContext *redis, struct asker *asker)
{
    if (asker->left-- == 0) {
        (void)event_base_loopbreak(asker->base);
    } else if (redisAsyncCommand(redis, on_answer, asker, "GET %s", asker->key) != REDIS_OK) {
        exit(1);
    }
}

static double used_us(void)
{
    struct rusage used;

    (void)getrusage(RUSAGE_SELF, &used);
    return 1e6 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: round_trip SOCKET KEY COUNT\n");
        return 1;
    }
    long count = strtol(argv[3], NULL, 10);
    struct asker asker = {.base = event_base_new(), .key = argv[2], .left = count};
    redisAsyncContext *redis = redisAsyncConnectUnix(argv[1]);
    if (asker.base == NULL || redis == NULL || redis->err != 0 ||
        redisLibeventAttach(redis, asker.base) != REDIS_OK) {
        fprintf(stderr, "round_trip: no connection\n");
        return 1;
    }
    double before_us = used_us();
    ask(redis, &asker);
    (void)event_base_dispatch(asker.base);
    printf("%.2f us each of processor time, %zu bytes\n", (used_us() - before_us) / (double)count,
           asker.len);
    return 0;
}
