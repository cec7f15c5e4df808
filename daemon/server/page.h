/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page of admin.page, which draws what /metrics says: the files of server/page, as bytes of the
 * program. CMake makes the table (page_files.c) from the folder.
 */
#ifndef CRIPROXY_SERVER_PAGE_H
#define CRIPROXY_SERVER_PAGE_H

#include <stddef.h>

/*
 * The page gets its script, its style and its figures from where it came from, and nothing from
 * anywhere else; no text can become a script, and no other page can have it in a frame.
 */
#define PAGE_SECURITY_POLICY                                                                       \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                \
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "                 \
    "require-trusted-types-for 'script'"

struct page_file {
    const char *path, *type; /* of the URL, with its '/'; its Content-Type */
    const unsigned char *body;
    size_t len; /* bytes */
};

/** The end has a path of NULL. */
extern const struct page_file page_files[];

/** The file under @p path, static; NULL: there is none. */
const struct page_file *page_find(const char *path);

#endif
