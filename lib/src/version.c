/* SPDX-License-Identifier: BSD-2-Clause */
#include <cri/version.h>

uint32_t cri_version(void)
{
    return CRI_VERSION;
}

const char *cri_version_text(void)
{
    return CRI_VERSION_TEXT;
}
