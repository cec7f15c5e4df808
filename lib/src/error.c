/* SPDX-License-Identifier: BSD-2-Clause */
#include <cri/error.h>

const char *cri_strerror(enum cri_error error)
{
    switch (error) {
#define CASE(name, number, class, message)                                                         \
    case CRI_##name:                                                                               \
        return message;
        CRI_ERROR_MAP(CASE)
#undef CASE
    }
    return "unknown error";
}

enum cri_error_class cri_error_class(enum cri_error error)
{
    switch (error) {
#define CASE(name, number, class, message)                                                         \
    case CRI_##name:                                                                               \
        return CRI_CLASS_##class;
        CRI_ERROR_MAP(CASE)
#undef CASE
    }
    return CRI_CLASS_MISUSE;
}
