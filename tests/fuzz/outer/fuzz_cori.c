/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoRI: the input taken as a sequence and as a CRI reference. Results of one
 * function have to be valid input for the next, and going there and back again
 * has to settle.
 */
#include "fuzz.h"

#include <cri/cori.h>

static enum cri_error to_cri(const void *context, uint8_t *buffer, size_t capacity, size_t *ret_len,
                             struct cri_fault *ret_fault)
{
    return cri_cori_to_cri(context, NULL, buffer, capacity, ret_len, ret_fault);
}

static enum cri_error from_cri(const void *context, uint8_t *buffer, size_t capacity,
                               size_t *ret_len, struct cri_fault *ret_fault)
{
    return cri_cori_from_cri(context, NULL, buffer, capacity, ret_len, ret_fault);
}

static enum cri_error recompose(const void *context, uint8_t *buffer, size_t capacity,
                                size_t *ret_len, struct cri_fault *ret_fault)
{
    (void)ret_fault;
    return cri_cori_recompose(context, (char *)buffer, capacity, ret_len);
}

struct pair {
    const struct cri_cori *base;
    const struct cri_cori *reference;
};

static enum cri_error resolve(const void *context, uint8_t *buffer, size_t capacity,
                              size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct pair *pair = context;
    (void)ret_fault;
    return cri_cori_resolve(pair->base, pair->reference, 4711, buffer, capacity, ret_len);
}

static struct cri_cori must_decode(const struct output *encoded)
{
    struct cri_cori cori = {0};
    assert(cri_cori_decode(output_slice(encoded), &cori, NULL) == CRI_OK);
    return cori;
}

/* [1, "coap", 2, "h", 4, 5683, 6, "a", 6, "", 7, "q", 8, "f"] */
static const uint8_t base_bytes[] = {0x8e, 0x01, 0x64, 'c',  'o',  'a',  'p',  0x02, 0x61,
                                     'h',  0x04, 0x19, 0x16, 0x33, 0x06, 0x61, 'a',  0x06,
                                     0x60, 0x07, 0x61, 'q',  0x08, 0x61, 'f'};

static void check_resolution(const struct cri_cori *reference)
{
    struct cri_cori base = {0};
    struct output result;
    struct output again;
    const struct cri_slice slice = {base_bytes, sizeof(base_bytes)};
    assert(cri_cori_decode(slice, &base, NULL) == CRI_OK);
    const struct pair pair = {&base, reference};
    assert(write_exactly(resolve, &pair, &result) == CRI_OK);
    const struct cri_cori resolved = must_decode(&result);
    assert(resolved.is_absolute);
    /* What has been resolved is normalized: it resolves to itself. */
    const struct pair itself = {&base, &resolved};
    assert(write_exactly(resolve, &itself, &again) == CRI_OK);
    assert_same(&result, &again);
    free(again.data);
    assert(write_exactly(recompose, &resolved, &again) == CRI_OK);
    free(again.data);
    free(result.data);
}

/* @p cri to CoRI and on: from there on nothing changes any more. */
static void check_cri(const struct cri *cri)
{
    struct output old;
    struct output moved;
    struct output again;
    struct cri back;
    if (write_exactly(from_cri, cri, &old) != CRI_OK) {
        return;
    }
    const struct cri_cori cori = must_decode(&old);
    check_resolution(&cori);
    assert(write_exactly(to_cri, &cori, &moved) == CRI_OK);
    assert(cri_decode(output_slice(&moved), NULL, &back, NULL) == CRI_OK);
    assert(write_exactly(from_cri, &back, &again) == CRI_OK);
    assert_same(&old, &again);
    free(again.data);
    free(moved.data);
    free(old.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct cri_slice input = {data, size};
    struct cri_cori cori;
    struct cri cri;
    struct cri_fault fault = {0};
    struct output moved;
    if (cri_cori_decode(input, &cori, &fault) == CRI_OK) {
        check_resolution(&cori);
        if (write_exactly(to_cri, &cori, &moved) == CRI_OK) {
            assert(cri_decode(output_slice(&moved), NULL, &cri, NULL) == CRI_OK);
            check_cri(&cri);
            free(moved.data);
        }
    } else {
        assert(fault.rule != NULL && fault.offset <= size);
    }
    if (cri_decode(input, NULL, &cri, NULL) == CRI_OK) {
        check_cri(&cri);
    }
    return 0;
}
