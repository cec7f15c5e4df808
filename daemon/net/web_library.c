/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/web_library.h"

#include "base/escape.h"
#include "base/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* The name that programs which link libcurl, in the flavour of OpenSSL, have been given. */
#define LIBRARY_NAME "libcurl.so.4"

/* What net/web_transfer.c uses: curl_easy_nextheader() and CURLOPT_PROTOCOLS_STR. */
#define VERSION_MIN 0x075500 /* 7.85.0 */

#define RETRY_MS UINT64_C(10000)

struct web_curl web_curl;

static pthread_mutex_t library_mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *_Atomic library_version = LIBCURL_VERSION;

static bool tell_unloaded(const char *why)
{
    char text[512];
    log_event(LOG_ERROR, "http_library_missing", "library=%s cause=%s", LIBRARY_NAME,
              escape_value(text, sizeof(text), why, strlen(why)));
    atomic_store(&library_version, "missing");
    return false;
}

/* A function as a pointer, which ISO C has no cast for. */
static bool find_function(void *library, const char *name, void *ret_function)
{
    void *symbol = dlsym(library, name);
    memcpy(ret_function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static bool find_functions(void *library)
{
#define FUNCTION(type, name, arguments)                                                            \
    if (!find_function(library, "curl_" #name, &web_curl.name)) {                                  \
        return false;                                                                              \
    }
    WEB_CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
    return true;
}

/* Handshakes are set up on OpenSSL's SSL_CTX (CURLOPT_SSL_CTX_FUNCTION). */
static const char *why_unfit(const curl_version_info_data *version)
{
    if (version->version_num < VERSION_MIN) {
        return "older than 7.85.0";
    }
    bool is_openssl =
        version->ssl_version != NULL && strncmp(version->ssl_version, "OpenSSL/", 8) == 0;
    return is_openssl ? NULL : "not built with OpenSSL";
}

/* It stays: libcurl and its libraries keep state that cannot be unloaded. */
static bool open_library(void)
{
    void *library = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        return tell_unloaded(dlerror());
    }
    if (!find_functions(library) || web_curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        (void)dlclose(library);
        return tell_unloaded("cannot be used");
    }
    const curl_version_info_data *version = web_curl.version_info(CURLVERSION_NOW);
    const char *why = why_unfit(version);
    if (why != NULL) {
        (void)dlclose(library);
        return tell_unloaded(why);
    }
    atomic_store(&library_version, version->version);
    return true;
}

bool web_library_load(uint64_t now_ms)
{
    static bool is_loaded;
    static uint64_t retry_ms;
    (void)pthread_mutex_lock(&library_mutex);
    if (!is_loaded && now_ms >= retry_ms) {
        is_loaded = open_library();
        retry_ms = now_ms + RETRY_MS;
    }
    bool is_there = is_loaded;
    (void)pthread_mutex_unlock(&library_mutex);
    return is_there;
}

const char *web_library_version(void)
{
    return atomic_load(&library_version);
}
