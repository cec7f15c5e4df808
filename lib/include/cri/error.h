/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * The errors of libcri, each with its number, class and message in one row.
 *
 * Every fallible function returns an enum cri_error: 0 or negative. Functions
 * that read input also fill an optional struct cri_fault, which says where in
 * the input the trouble is and which rule it breaks.
 */
#ifndef CRI_ERROR_H
#define CRI_ERROR_H

#include <stddef.h>

#if defined(__GNUC__)
/** Marks what the shared library exports. */
#define CRI_API __attribute__((visibility("default")))
/** Its result must be looked at. */
#define CRI_NODISCARD __attribute__((warn_unused_result))
#else
#define CRI_API
#define CRI_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What kind of trouble an error is; decides how a caller reacts. */
enum cri_error_class {
    CRI_CLASS_OK,          /**< No error. */
    CRI_CLASS_MISUSE,      /**< The caller broke the contract of the function. */
    CRI_CLASS_RESOURCE,    /**< A buffer is too small or memory ran out. */
    CRI_CLASS_MALFORMED,   /**< Not CBOR, not a CRI, not a URI. */
    CRI_CLASS_INVALID,     /**< Right structure, but against a constraint of the text. */
    CRI_CLASS_UNSUPPORTED, /**< Well-formed, but needs a feature that is off. */
    CRI_CLASS_CONVERSION   /**< A valid input that has no equivalent in the other form. */
};

/** Every error: X(name, number, class, message) is used once for each row. */
#define CRI_ERROR_MAP(X)                                                                           \
    X(OK, 0, OK, "no error")                                                                       \
    X(ERR_ARGUMENT, -1, MISUSE, "invalid argument")                                                \
    X(ERR_SPACE, -10, RESOURCE, "buffer too small")                                                \
    X(ERR_MEMORY, -11, RESOURCE, "out of memory")                                                  \
    X(ERR_TRUNCATED, -20, MALFORMED, "input ends early")                                           \
    X(ERR_CBOR, -21, MALFORMED, "not well-formed CBOR")                                            \
    X(ERR_INDEFINITE, -22, MALFORMED, "indefinite length")                                         \
    X(ERR_TRAILING_BYTES, -23, MALFORMED, "bytes after the end")                                   \
    X(ERR_STRUCTURE, -24, MALFORMED, "not the structure of a CRI reference")                       \
    X(ERR_UTF8, -25, MALFORMED, "invalid UTF-8")                                                   \
    X(ERR_TAG, -26, MALFORMED, "tag or stand-in item not enabled")                                 \
    X(ERR_URI_SYNTAX, -27, MALFORMED, "not a URI reference")                                       \
    X(ERR_NOTATION, -28, MALFORMED, "not CBOR diagnostic notation")                                \
    X(ERR_TRAILING_DEFAULT, -40, INVALID, "trailing default value")                                \
    X(ERR_SCHEME, -41, INVALID, "not a scheme name")                                               \
    X(ERR_AUTHORITY, -42, INVALID, "invalid authority")                                            \
    X(ERR_HOST, -43, INVALID, "invalid host")                                                      \
    X(ERR_PATH, -44, INVALID, "invalid path")                                                      \
    X(ERR_PET, -45, INVALID, "invalid text-pet-sequence")                                          \
    X(ERR_NOT_STRICT, -46, INVALID, "not in its canonical encoding")                               \
    X(ERR_NFC, -47, INVALID, "text not in Normalization Form C")                                   \
    X(ERR_FEATURE, -60, UNSUPPORTED, "uses a feature that is off")                                 \
    X(ERR_SCHEME_UNKNOWN, -80, CONVERSION, "unknown scheme")                                       \
    X(ERR_NOT_EXPRESSIBLE, -81, CONVERSION, "has no equivalent in the other form")                 \
    X(ERR_NOT_FULL, -82, CONVERSION, "not a full CRI")                                             \
    X(ERR_SCHEME_NOT_COAP, -83, CONVERSION, "not a CoAP scheme number")                            \
    X(ERR_FRAGMENT, -84, CONVERSION, "fragment present")                                           \
    X(ERR_PET_IN_OPTION, -85, CONVERSION, "text-pet-sequence where CoAP needs text")               \
    X(ERR_OPTION_LENGTH, -86, CONVERSION, "too long for a CoAP option")                            \
    X(ERR_NO_HOST, -87, CONVERSION, "no host")                                                     \
    X(ERR_USERINFO, -88, CONVERSION, "userinfo has no place in a CoAP request")                    \
    X(ERR_ZONE, -89, CONVERSION, "zone-id has no equivalent")

/** Result of a function of libcri: CRI_OK, or what went wrong. */
enum cri_error {
#define CRI_ERROR_ENUM(name, number, class, message) CRI_##name = (number),
    CRI_ERROR_MAP(CRI_ERROR_ENUM)
#undef CRI_ERROR_ENUM
};

/** Where an input is wrong and which rule it breaks. */
struct cri_fault {
    size_t offset;    /**< Bytes from the start of the input. */
    const char *rule; /**< The rule in words; static text, never NULL after an error. Empty in
                           a freestanding build. */
};

/** The error's message: static text, never NULL, "unknown error" for a foreign number. */
CRI_API const char *cri_strerror(enum cri_error error);

/** The class of @p error; CRI_CLASS_MISUSE for a foreign number. */
CRI_API enum cri_error_class cri_error_class(enum cri_error error);

#ifdef __cplusplus
}
#endif

#endif
