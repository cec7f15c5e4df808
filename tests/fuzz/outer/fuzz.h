/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the fuzz targets: buffers of exactly the size asked for, so that ASan sees each step
 * over. */
#ifndef CRI_FUZZ_H
#define CRI_FUZZ_H

#include <cri/cri.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was written, on the heap; free() it. */
struct output {
    uint8_t *data;
    size_t len;
};

typedef enum cri_error (*output_fn)(const void *context, uint8_t *buffer, size_t capacity,
                                    size_t *ret_len, struct cri_fault *ret_fault);

static inline struct cri_slice output_slice(const struct output *output)
{
    return (struct cri_slice){output->data, output->len};
}

/*
 * Asks for the size, then writes into that many bytes. The two calls have to agree,
 * and one byte less has to be too little.
 */
static inline enum cri_error write_exactly(output_fn write, const void *context,
                                           struct output *ret_output)
{
    struct cri_fault fault = {0};
    size_t len = 0;
    size_t again = 0;
    enum cri_error error = write(context, NULL, 0, &len, &fault);
    *ret_output = (struct output){0};
    if (error != CRI_OK && error != CRI_ERR_SPACE) {
        assert(fault.rule != NULL);
        return error;
    }
    assert((error == CRI_OK) == (len == 0));
    uint8_t *data = malloc(len > 0 ? len : 1);
    if (data == NULL) {
        abort();
    }
    if (len > 0) {
        error = write(context, data, len - 1, &again, &fault);
        assert(error == CRI_ERR_SPACE && again == len);
    }
    error = write(context, data, len, &again, &fault);
    if (error != CRI_OK) {
        /* Checks of the whole result come last. */
        assert(error != CRI_ERR_SPACE && fault.rule != NULL);
        free(data);
        return error;
    }
    assert(again == len);
    *ret_output = (struct output){data, len};
    return CRI_OK;
}

static inline void assert_same(const struct output *a, const struct output *b)
{
    assert(a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0));
}

#endif
