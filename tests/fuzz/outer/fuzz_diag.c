/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Diagnostic notation, the input taken as CBOR and as text. What one direction
 * writes the other has to read, and once more to the same.
 */
#include "fuzz.h"

#include <cri/diag.h>

static enum cri_error format(const void *context, uint8_t *buffer, size_t capacity, size_t *ret_len,
                             struct cri_fault *ret_fault)
{
    const struct cri_slice *encoded = context;
    return cri_diag_format(*encoded, (char *)buffer, capacity, ret_len, ret_fault);
}

static enum cri_error parse(const void *context, uint8_t *buffer, size_t capacity, size_t *ret_len,
                            struct cri_fault *ret_fault)
{
    const struct cri_slice *text = context;
    return cri_diag_parse(*text, buffer, capacity, ret_len, ret_fault);
}

/* No control characters but DEL reach a terminal. */
static void check_printable(const struct output *text)
{
    for (size_t i = 0; i < text->len; i++) {
        assert(text->data[i] >= 0x20);
        assert(text->data[i] != 0xc2 || text->data[i + 1] >= 0xa0);
    }
}

static void check_text(struct cri_slice text)
{
    struct output encoded;
    struct output formatted;
    struct output again;
    if (write_exactly(parse, &text, &encoded) != CRI_OK) {
        return;
    }
    const struct cri_slice slice = output_slice(&encoded);
    assert(write_exactly(format, &slice, &formatted) == CRI_OK);
    check_printable(&formatted);
    const struct cri_slice written = output_slice(&formatted);
    assert(write_exactly(parse, &written, &again) == CRI_OK);
    assert_same(&encoded, &again);
    free(again.data);
    free(formatted.data);
    free(encoded.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct cri_slice input = {data, size};
    struct output text;
    if (write_exactly(format, &input, &text) == CRI_OK) {
        check_printable(&text);
        /* Floating-point numbers are written but not read: then it is an error. */
        check_text(output_slice(&text));
        free(text.data);
    }
    check_text(input);
    return 0;
}
