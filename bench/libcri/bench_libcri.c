/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the bytes of a proxy option to the list of options of the request: libcri on
 * a Proxy-Cri against libcoap's and uriparser's text path on the equal Proxy-Uri,
 * and against what only building libcbor's item tree costs; from-uri is the URI to a CRI,
 * against uriparser's parsing of it alone, where uriparser is installed.
 *
 * bench_libcri                              all of it, as a table
 * bench_libcri ENGINE CASE COUNT            COUNT operations and nothing else, for callgrind
 */
#include <cri/coap.h>
#include <cri/uri.h>

#include <cbor.h>
#include <coap3/coap.h>
#if defined(__has_include) && __has_include(<uriparser/Uri.h>)
#define HAS_URIPARSER
#include <uriparser/Uri.h>
#endif

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPTIONS_MAX 128u
#define RUNS 9u
#define INPUT_COUNT 5u

struct input {
    const char *name;
    char uri[2048];
    uint8_t cri[2048];
    size_t cri_len;
};

/* Returns something that depends on the work, so that none of it is left out. */
typedef size_t (*engine_fn)(const struct input *input);

struct engine {
    const char *name;
    engine_fn run;
};

/* --- Allocations, of this program and of every library in it --- */

static uint64_t allocation_count;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *malloc(size_t size)
{
    allocation_count++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size)
{
    allocation_count++;
    return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size)
{
    allocation_count++;
    return __libc_realloc(old, size);
}

/* --- The engines --- */

static const struct cri_destination proxy = {.ip = {192, 0, 2, 9}, .ip_len = 4, .port = 5683};

static size_t run_libcri(const struct input *input)
{
    struct cri_option list[OPTIONS_MAX];
    struct cri_slice encoded = {input->cri, input->cri_len};
    struct cri cri;
    struct cri_options options;
    size_t count = 0;

    if (cri_decode(encoded, NULL, &cri, NULL) != CRI_OK ||
        cri_options_init(&options, &cri, &proxy, NULL, NULL) != CRI_OK) {
        abort();
    }
    while (count < OPTIONS_MAX && cri_options_next(&options, &list[count])) {
        count++;
    }
    return count + list[count - 1].value.len;
}

static size_t run_libcri_decode(const struct input *input)
{
    struct cri_slice encoded = {input->cri, input->cri_len};
    struct cri cri;

    if (cri_decode(encoded, NULL, &cri, NULL) != CRI_OK) {
        abort();
    }
    return cri.path.count + cri.query.count;
}

static size_t run_from_uri(const struct input *input)
{
    uint8_t encoded[2048];
    struct cri_slice uri = {(const uint8_t *)input->uri, strlen(input->uri)};
    size_t len;

    if (cri_uri_parse(uri, NULL, encoded, sizeof encoded, &len, NULL) != CRI_OK) {
        abort();
    }
    return len + encoded[len - 1];
}

static size_t run_libcoap(const struct input *input)
{
    unsigned char path[2048];
    unsigned char query[2048];
    size_t path_len = sizeof path;
    size_t query_len = sizeof query;
    coap_uri_t uri;

    if (coap_split_uri((const uint8_t *)input->uri, strlen(input->uri), &uri) != 0) {
        abort();
    }
    int paths = coap_split_path(uri.path.s, uri.path.length, path, &path_len);
    int queries = 0;
    if (uri.query.length > 0) {
        queries = coap_split_query(uri.query.s, uri.query.length, query, &query_len);
    }
    if (paths < 0 || queries < 0) {
        abort();
    }
    return (size_t)paths + (size_t)queries + uri.host.length;
}

#ifdef HAS_URIPARSER
static size_t run_uriparser(const struct input *input)
{
    UriUriA uri;
    const char *error;
    size_t count = 0;

    if (uriParseSingleUriA(&uri, input->uri, &error) != URI_SUCCESS) {
        abort();
    }
    for (const UriPathSegmentA *s = uri.pathHead; s != NULL; s = s->next) {
        count++;
    }
    uriFreeUriMembersA(&uri);
    return count;
}
#endif

static size_t run_cbor_load(const struct input *input)
{
    struct cbor_load_result result;
    cbor_item_t *item = cbor_load(input->cri, input->cri_len, &result);

    if (item == NULL) {
        abort();
    }
    size_t count = cbor_array_size(item);
    cbor_decref(&item);
    return count;
}

static const struct engine engines[] = {
    {"libcri", run_libcri},       {"libcri-decode", run_libcri_decode},
    {"libcoap", run_libcoap},     {"from-uri", run_from_uri},
#ifdef HAS_URIPARSER
    {"uriparser", run_uriparser},
#endif
    {"cbor_load", run_cbor_load},
};
#define ENGINE_COUNT (sizeof engines / sizeof engines[0])

/* --- Inputs --- */

/* A path and a query that make the CRI 1,000 bytes long. */
static void make_long_uri(char *uri, size_t capacity)
{
    size_t len = (size_t)snprintf(uri, capacity, "coap://gateway.building4.example.org");
    for (unsigned i = 0; i < 25; i++) {
        len += (size_t)snprintf(uri + len, capacity - len, "/segment-%02u-of-the-long-path", i);
    }
    for (unsigned i = 0; i < 12; i++) {
        len += (size_t)snprintf(uri + len, capacity - len, "%cparameter%02u=value%02u",
                                i == 0 ? '?' : '&', i, i);
    }
}

static void prepare(struct input inputs[INPUT_COUNT])
{
    static const char *const uris[INPUT_COUNT - 1] = {
        "coap://h/x", "coap://sensor7.local/temperature",
        "coap://node7.building4.example.org:61616/sensors/temperature/7?unit=c&avg=10",
        "coap://Node7.building4.example.org/caf%C3%A9/room%201/temperature?unit=%C2%B0c&avg=10"};
    static const char *const names[INPUT_COUNT] = {"minimal", "short", "typical", "encoded",
                                                   "1000-byte"};

    for (size_t i = 0; i < INPUT_COUNT - 1; i++) {
        snprintf(inputs[i].uri, sizeof inputs[i].uri, "%s", uris[i]);
    }
    make_long_uri(inputs[INPUT_COUNT - 1].uri, sizeof inputs[0].uri);
    for (size_t i = 0; i < INPUT_COUNT; i++) {
        inputs[i].name = names[i];
        struct input *input = &inputs[i];
        struct cri_slice uri = {(const uint8_t *)input->uri, strlen(input->uri)};
        if (cri_uri_parse(uri, NULL, input->cri, sizeof input->cri, &input->cri_len, NULL) !=
            CRI_OK) {
            abort();
        }
    }
}

/* Of this process alone, for the machine may have other work. */
static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static size_t repeat(const struct engine *engine, const struct input *input, uint64_t count)
{
    size_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += engine->run(input);
    }
    return sum;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

/* Median of alternating runs: engine by engine in each round, so that drift hits all alike. */
static void measure(const struct input *input)
{
    double times[ENGINE_COUNT][RUNS];
    uint64_t allocations[ENGINE_COUNT];
    const uint64_t count = input->cri_len > 500 ? 100000 : 400000;
    volatile size_t sink = 0;

    for (size_t run = 0; run < RUNS; run++) {
        for (size_t e = 0; e < ENGINE_COUNT; e++) {
            uint64_t before = allocation_count;
            double start = cpu_ns();
            sink = sink + repeat(&engines[e], input, count);
            times[e][run] = (cpu_ns() - start) / (double)count;
            allocations[e] = (allocation_count - before) / count;
        }
    }
    printf("%s: CRI of %zu bytes, URI of %zu bytes\n", input->name, input->cri_len,
           strlen(input->uri));
    for (size_t e = 0; e < ENGINE_COUNT; e++) {
        qsort(times[e], RUNS, sizeof times[e][0], compare_doubles);
    }
    double libcoap_ns = times[2][RUNS / 2];
    for (size_t e = 0; e < ENGINE_COUNT; e++) {
        double median = times[e][RUNS / 2];
        printf("  %-14s median %8.1f ns  min %8.1f ns  %5.2f of libcoap  %" PRIu64 " allocations\n",
               engines[e].name, median, times[e][0], median / libcoap_ns, allocations[e]);
    }
}

int main(int argc, char **argv)
{
    static struct input inputs[INPUT_COUNT];

    prepare(inputs);
    if (argc == 1) {
        for (size_t i = 0; i < INPUT_COUNT; i++) {
            measure(&inputs[i]);
        }
        return 0;
    }
    for (size_t e = 0; argc == 4 && e < ENGINE_COUNT; e++) {
        for (size_t i = 0; i < INPUT_COUNT; i++) {
            if (strcmp(argv[1], engines[e].name) == 0 && strcmp(argv[2], inputs[i].name) == 0) {
                return repeat(&engines[e], &inputs[i], strtoull(argv[3], NULL, 10)) == 0;
            }
        }
    }
    fprintf(stderr, "usage: bench_libcri [ENGINE CASE COUNT]\n");
    return 2;
}
