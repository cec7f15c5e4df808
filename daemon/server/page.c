/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/page.h"

#include <string.h>

const struct page_file *page_find(const char *path)
{
    for (const struct page_file *file = page_files; file->path != NULL; file++) {
        if (strcmp(file->path, path) == 0) {
            return file;
        }
    }
    return NULL;
}
