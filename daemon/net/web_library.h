/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libcurl, loaded when the first HTTP target is asked for. It brings 27 libraries and 6 MiB of
 * resident memory, which a process without HTTP targets does not need. The package depends on it
 * all the same. A service manager's sandbox is around the process from its start, so what may be
 * loaded then may be loaded later as well.
 */
#ifndef CRIPROXY_WEB_LIBRARY_H
#define CRIPROXY_WEB_LIBRARY_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

/* The functions of libcurl that are used: names and arguments are libcurl's without curl_. */
#define WEB_CURL_FUNCTIONS(FUNCTION)                                                               \
    FUNCTION(CURLcode, global_init, (long flags))                                                  \
    FUNCTION(curl_version_info_data *, version_info, (CURLversion age))                            \
    FUNCTION(CURL *, easy_init, (void))                                                            \
    FUNCTION(void, easy_cleanup, (CURL * easy))                                                    \
    FUNCTION(CURLcode, easy_setopt, (CURL * easy, CURLoption option, ...))                         \
    FUNCTION(CURLcode, easy_getinfo, (CURL * easy, CURLINFO info, ...))                            \
    FUNCTION(CURLcode, easy_pause, (CURL * easy, int action))                                      \
    FUNCTION(const char *, easy_strerror, (CURLcode code))                                         \
    FUNCTION(struct curl_header *, easy_nextheader,                                                \
             (CURL * easy, unsigned origin, int request, struct curl_header *last))                \
    FUNCTION(CURLU *, url, (void))                                                                 \
    FUNCTION(void, url_cleanup, (CURLU * url))                                                     \
    FUNCTION(CURLUcode, url_set, (CURLU * url, CURLUPart what, const char *text, unsigned flags))  \
    FUNCTION(CURLM *, multi_init, (void))                                                          \
    FUNCTION(CURLMcode, multi_cleanup, (CURLM * multi))                                            \
    FUNCTION(CURLMcode, multi_setopt, (CURLM * multi, CURLMoption option, ...))                    \
    FUNCTION(CURLMcode, multi_add_handle, (CURLM * multi, CURL * easy))                            \
    FUNCTION(CURLMcode, multi_remove_handle, (CURLM * multi, CURL * easy))                         \
    FUNCTION(CURLMcode, multi_socket_action,                                                       \
             (CURLM * multi, curl_socket_t fd, int what, int *running))                            \
    FUNCTION(CURLMsg *, multi_info_read, (CURLM * multi, int *left))

struct web_curl {
#define FUNCTION(type, name, arguments) type(*name) arguments;
    WEB_CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* All of them; to be called after web_library_load() alone, which does not change them again. */
extern struct web_curl web_curl;

/**
 * Load libcurl, unless it is loaded. Blocks for some milliseconds the first time. Any thread. A
 * failure is logged, and tried again after 10 seconds.
 *
 * @param now_ms of the caller's loop.
 * @return false: it is not installed, too old, not built with OpenSSL, or there are no descriptors
 *         or memory now.
 */
bool web_library_load(uint64_t now_ms);

/** Its version; before it is loaded that of its headers, "missing" after a failure. Static. */
const char *web_library_version(void);

#endif
