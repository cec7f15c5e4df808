/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The properties of properties.h on random input. The seed is printed, and taken
 * from CRI_TEST_SEED where that is set; CRI_TEST_ROUNDS says how many inputs.
 */
#include "generate.h"
#include "hex.h"
#include "properties.h"

#include <cri/compare.h>

#include <inttypes.h>
#include <stdlib.h>

#define DEFAULT_SEED 20261122u
#define DEFAULT_ROUNDS 40000u
#define INPUT_MAX 512u

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 0);
}

static uint64_t rounds(void)
{
    return number_from("CRI_TEST_ROUNDS", DEFAULT_ROUNDS);
}

/* Bytes of their own, so that ASan sees a step beyond them. */
static struct bytes exact(const void *data, size_t len)
{
    struct bytes bytes = {malloc(len == 0 ? 1 : len), len};
    assert_non_null(bytes.data);
    memcpy(bytes.data, data, len);
    return bytes;
}

static void must_hold(const char *broken, const struct bytes *a, const struct bytes *b)
{
    if (broken != NULL) {
        print_error("does not hold: %s\n  %s\n", broken, hex_of(a->data, a->len));
        if (b != NULL) {
            print_error("  %s\n", hex_of(b->data, b->len));
        }
        fail();
    }
}

static struct bytes random_cri(struct chance *chance, bool is_full)
{
    uint8_t buffer[INPUT_MAX];
    size_t len = generate_cri(chance, is_full, buffer, sizeof buffer);
    if (chance_below(chance, 16) == 0) {
        len = generate_damage(chance, buffer, len, sizeof buffer);
    }
    return exact(buffer, len);
}

static struct bytes random_uri(struct chance *chance, bool is_full)
{
    char buffer[INPUT_MAX];
    size_t len = generate_uri(chance, is_full, buffer, sizeof buffer);
    return exact(buffer, len);
}

/* What a test knows of its own input: that enough of it gets as far as it has to. */
struct share {
    uint64_t good;
    uint64_t all;
};

static void share_add(struct share *share, const struct bytes *bytes)
{
    struct cri cri;
    share->all++;
    share->good += cri_decode(bytes_slice(bytes), NULL, &cri, NULL) == CRI_OK ? 1 : 0;
}

static void test_properties_of_one_cri(void **state)
{
    struct chance chance = {*(uint64_t *)*state};
    struct share share = {0, 0};
    for (uint64_t i = 0; i < rounds(); i++) {
        struct bytes bytes = random_cri(&chance, chance_below(&chance, 2) == 0);
        must_hold(property_cri(bytes_slice(&bytes)), &bytes, NULL);
        share_add(&share, &bytes);
        bytes_free(&bytes);
    }
    assert_true(share.good * 2 > share.all);
}

/* What a proxy gets, with one to three octets changed to those that heads are made of. */
static void test_properties_of_requests_that_are_nearly_right(void **state)
{
    static const char *const requests[] = {
        "8320816168816178",
        "83208364636f61706568656c6c6f6178826261616162",
        "842085656e6f646537696275696c64696e67346379616262636f1916448266736573616d6561628266756e6974"
        "3d63626161",
        "832181626162836161782162636465666768696a6b6c6d6e6f707172737475767778797a616263646566676861"
        "63",
        "842083616161626163808261716172",
    };
    static const uint8_t octets[] = {0x00, 0x18, 0x19, 0x20, 0x40, 0x60, 0x61, 0x62,
                                     0x78, 0x79, 0x80, 0x81, 0x82, 0x83, 0x84, 0x98,
                                     0xf6, 'A',  '.',  '[',  '1',  0xc3, 0xff};
    struct chance chance = {*(uint64_t *)*state + 6};
    for (uint64_t i = 0; i < rounds(); i++) {
        struct bytes bytes = bytes_from_hex(requests[chance_below(&chance, 5)]);
        for (unsigned k = 1 + chance_below(&chance, 3); k > 0; k--) {
            bytes.data[chance_below(&chance, (unsigned)bytes.len)] =
                octets[chance_below(&chance, sizeof octets)];
        }
        must_hold(property_cri(bytes_slice(&bytes)), &bytes, NULL);
        bytes_free(&bytes);
    }
}

static void test_properties_of_one_uri(void **state)
{
    struct chance chance = {*(uint64_t *)*state + 1};
    for (uint64_t i = 0; i < rounds(); i++) {
        struct bytes bytes = random_uri(&chance, chance_below(&chance, 2) == 0);
        must_hold(property_uri(bytes_slice(&bytes)), &bytes, NULL);
        bytes_free(&bytes);
    }
}

static void test_resolving_and_relating_are_inverse(void **state)
{
    struct chance chance = {*(uint64_t *)*state + 2};
    for (uint64_t i = 0; i < rounds(); i++) {
        struct bytes base = random_cri(&chance, true);
        struct bytes reference = random_cri(&chance, chance_below(&chance, 4) == 0);
        must_hold(property_resolve(bytes_slice(&base), bytes_slice(&reference)), &base, &reference);
        bytes_free(&base);
        bytes_free(&reference);
    }
}

static void test_resolution_commutes_with_rfc3986(void **state)
{
    struct chance chance = {*(uint64_t *)*state + 3};
    for (uint64_t i = 0; i < rounds(); i++) {
        struct bytes base = random_uri(&chance, true);
        struct bytes reference = random_uri(&chance, false);
        must_hold(property_rfc3986(bytes_slice(&base), bytes_slice(&reference)), &base, &reference);
        bytes_free(&base);
        bytes_free(&reference);
    }
}

/* Reflexive, symmetric, transitive: over small sets, where equal ones are frequent. */
static void test_comparison_is_an_equivalence(void **state)
{
    struct chance chance = {*(uint64_t *)*state + 4};
    uint64_t equal_count = 0;
    for (uint64_t i = 0; i < rounds() / 10; i++) {
        struct bytes bytes[3];
        struct cri cri[3];
        bool is_valid = true;
        for (size_t k = 0; k < 3; k++) {
            struct chance again = {chance_below(&chance, 50)};
            bytes[k] = random_cri(&again, true);
            is_valid =
                is_valid && cri_decode(bytes_slice(&bytes[k]), NULL, &cri[k], NULL) == CRI_OK;
        }
        for (size_t k = 0; is_valid && k < 3; k++) {
            must_hold(property_compare(bytes_slice(&bytes[k]), bytes_slice(&bytes[(k + 1) % 3])),
                      &bytes[k], &bytes[(k + 1) % 3]);
            bool first = cri_is_equal(&cri[k], &cri[(k + 1) % 3], true);
            bool second = cri_is_equal(&cri[(k + 1) % 3], &cri[(k + 2) % 3], true);
            equal_count += first ? 1 : 0;
            assert_true(!(first && second) || cri_is_equal(&cri[k], &cri[(k + 2) % 3], true));
        }
        for (size_t k = 0; k < 3; k++) {
            bytes_free(&bytes[k]);
        }
    }
    assert_true(equal_count > 0);
}

static void test_composing_and_decomposing_are_inverse(void **state)
{
    struct chance chance = {*(uint64_t *)*state + 5};
    for (uint64_t i = 0; i < rounds(); i++) {
        uint8_t buffer[INPUT_MAX];
        size_t len = generate_options(&chance, buffer, sizeof buffer);
        struct bytes bytes = exact(buffer, len);
        must_hold(property_options(bytes_slice(&bytes)), &bytes, NULL);
        bytes_free(&bytes);
    }
}

int main(void)
{
    static uint64_t seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_properties_of_one_cri, &seed),
        cmocka_unit_test_prestate(test_properties_of_requests_that_are_nearly_right, &seed),
        cmocka_unit_test_prestate(test_properties_of_one_uri, &seed),
        cmocka_unit_test_prestate(test_resolving_and_relating_are_inverse, &seed),
        cmocka_unit_test_prestate(test_resolution_commutes_with_rfc3986, &seed),
        cmocka_unit_test_prestate(test_comparison_is_an_equivalence, &seed),
        cmocka_unit_test_prestate(test_composing_and_decomposing_are_inverse, &seed),
    };
    seed = number_from("CRI_TEST_SEED", DEFAULT_SEED);
    printf("seed %" PRIu64 ", %" PRIu64 " rounds\n", seed, rounds());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
