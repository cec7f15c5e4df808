/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The freestanding library without a test framework, to be compiled for any machine that
 * runs here: a request is built, decoded, taken apart and encoded, and counts that are only
 * true in 32 bits are refused.
 */
#include <cri/builder.h>
#include <cri/coap.h>

#include <stdio.h>
#include <string.h>

static int failures;

static void check(int is_true, const char *what)
{
    if (!is_true) {
        failures++;
        (void)printf("wrong: %s\n", what);
    }
}

static struct cri_slice slice(const char *text)
{
    struct cri_slice slice = {(const uint8_t *)text, strlen(text)};
    return slice;
}

static void check_request(void)
{
    static const uint8_t wanted[] = {0x84, 0x20, 0x82, 0x61, 'h',  0x19, 0xf0,
                                     0xb0, 0x81, 0x61, 'a',  0x81, 0x61, 'q'};
    static const uint16_t numbers[] = {CRI_OPTION_URI_HOST, CRI_OPTION_URI_PORT,
                                       CRI_OPTION_URI_PATH, CRI_OPTION_URI_QUERY};
    uint8_t encoded[32];
    uint8_t again[32];
    size_t len = 0;
    struct cri_builder builder;
    struct cri cri;
    struct cri_options options;
    struct cri_option option;
    size_t count = 0;

    cri_builder_init(&builder, encoded, sizeof encoded);
    cri_builder_scheme(&builder, CRI_SCHEME_COAP);
    cri_builder_host_name(&builder, slice("h"));
    cri_builder_port(&builder, 61616);
    cri_builder_segment(&builder, slice("a"));
    cri_builder_parameter(&builder, slice("q"));
    check(cri_builder_finish(&builder, &len, NULL) == CRI_OK, "building");
    check(len == sizeof wanted && memcmp(encoded, wanted, len) == 0, "what was built");
    struct cri_slice bytes = {encoded, len};
    check(cri_decode(bytes, NULL, &cri, NULL) == CRI_OK, "decoding");
    check(cri_encode(&cri, again, sizeof again, &len) == CRI_OK && len == sizeof wanted &&
              memcmp(again, wanted, len) == 0,
          "encoding");
    check(cri_options_init(&options, &cri, NULL, NULL, NULL) == CRI_OK, "options");
    while (cri_options_next(&options, &option)) {
        check(count < 4 && option.number == numbers[count], "an option");
        count++;
    }
    check(count == 4, "the number of options");
}

static void check_wide_counts(void)
{
    static const struct {
        size_t len;
        uint8_t data[16];
    } rows[] = {
        {13, {0x82, 0x20, 0x9b, 0, 0, 0, 1, 0, 0, 0, 1, 0x61, 'a'}},
        {13, {0x82, 0x20, 0x81, 0x7b, 0, 0, 0, 1, 0, 0, 0, 1, 'a'}},
        {14, {0x83, 0x20, 0x81, 0x61, 'h', 0x9b, 0, 0, 0, 1, 0, 0, 0, 0}},
        {12, {0x9b, 0, 0, 0, 1, 0, 0, 0, 2, 0x20, 0x81, 0x60}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cri_slice bytes = {rows[i].data, rows[i].len};
        struct cri cri;
        size_t extent;
        check(cri_decode(bytes, NULL, &cri, NULL) == CRI_ERR_TRUNCATED, "a wide count");
        check(cri_skip(bytes, &extent, NULL) == CRI_ERR_TRUNCATED, "a wide count, skipped");
    }
}

int main(void)
{
    check_request();
    check_wide_counts();
    (void)printf("size_t has %u bits, %d wrong\n", (unsigned)(8 * sizeof(size_t)), failures);
    return failures == 0 ? 0 : 1;
}
