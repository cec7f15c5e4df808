/* SPDX-License-Identifier: BSD-2-Clause */
/* A request as a transfer of libcurl: its settings, and the callbacks that keep it in bounds. */
#include "net/web_internal.h"

#include "net/loop.h"
#include "net/sockaddr.h"
#include "net/upstream_internal.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define MS_PER_S UINT64_C(1000)

/* Bytes of a body that a request may always have, whatever the others hold. */
#define BODY_FREE_BYTES 4096u

/* --- callbacks: they note, and call nothing of ours ------------------------------ */

/* The last check: whatever libcurl was told, a socket leads to the address that was asked for. */
static curl_socket_t web_on_open(void *context, curlsocktype purpose, struct curl_sockaddr *remote)
{
    struct web_request *request = context;
    struct address address;
    sockaddr_to_address(&remote->addr, remote->addrlen, &address);
    address.scope = request->address.scope; /* no text that libcurl takes has it */
    if (purpose != CURLSOCKTYPE_IPCXN || !address_equal(&address, &request->address)) {
        return CURL_SOCKET_BAD;
    }
    if (remote->family == AF_INET6) {
        struct sockaddr_in6 name;
        memcpy(&name, &remote->addr, sizeof(name));
        name.sin6_scope_id = request->address.scope;
        memcpy(&remote->addr, &name, sizeof(name));
    }
    int fd = web_sockets_open(request->pool, remote->family, remote->socktype, remote->protocol);
    request->is_short = fd < 0;
    if (fd < 0) {
        return CURL_SOCKET_BAD;
    }
    struct web_counters *counters = &request->pool->web->counters;
    atomic_fetch_add_explicit(&counters->connections_opened, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->connections, 1, memory_order_relaxed);
    return fd;
}

/* May come when the request is gone. */
static int web_on_close(void *context, curl_socket_t fd)
{
    struct web *web = context;
    atomic_fetch_sub_explicit(&web->counters.connections, 1, memory_order_relaxed);
    return web_sockets_close(web, fd);
}

static CURLcode web_on_tls(CURL *easy, void *tls, void *context)
{
    const struct web_request *request = context;
    (void)easy;
    return request->pool->credentials != NULL &&
                   credentials_apply_web(request->pool->credentials, tls,
                                         request->pool->shows_certificate)
               ? CURLE_OK
               : CURLE_SSL_CONNECT_ERROR;
}

static bool line_begins_with(const char *line, size_t len, const char *words)
{
    return len >= strlen(words) && strncasecmp(line, words, strlen(words)) == 0;
}

/* Digits and nothing else, with blanks around; false where it is not, or too large. */
static bool parse_length(const char *text, size_t len, uint64_t *ret_length)
{
    size_t at = 0, begin;
    while (at < len && (text[at] == ' ' || text[at] == '\t')) {
        at++;
    }
    *ret_length = 0;
    for (begin = at; at < len && text[at] >= '0' && text[at] <= '9'; at++) {
        if (*ret_length > (UINT64_MAX - 9) / 10) {
            return false;
        }
        *ret_length = *ret_length * 10 + (uint64_t)(text[at] - '0');
    }
    bool has_digits = at > begin;
    while (at < len && strchr(" \t\r\n", text[at]) != NULL) {
        at++;
    }
    return has_digits && at == len;
}

/*
 * RFC 9112 section 6.3: an answer with several lengths, or with one beside a transfer coding, is
 * none for a proxy's client: others may see its end elsewhere. libcurl takes the last one, or the
 * coding.
 *
 * @return whether the line of a head leaves it clear.
 */
static bool take_length(struct web_request *request, const char *line, size_t len)
{
    static const char name[] = "content-length:";
    const size_t name_len = sizeof(name) - 1;
    if (!request->is_in_head && line_begins_with(line, len, "HTTP/")) {
        request->has_length = request->has_coding = false; /* an interim answer has gone before */
    }
    request->is_in_head = len > 0 && line[0] != '\r' && line[0] != '\n';
    if (line_begins_with(line, len, name)) {
        uint64_t length;
        if (!parse_length(line + name_len, len - name_len, &length) ||
            (request->has_length && request->length != length)) {
            return false;
        }
        request->has_length = true;
        request->length = length;
    }
    request->has_coding = request->has_coding || line_begins_with(line, len, "transfer-encoding:");
    return !request->has_length || !request->has_coding;
}

static size_t web_on_head(char *data, size_t size, size_t count, void *context)
{
    struct web_request *request = context;
    (void)size; /* 1 */
    if (request->head_bytes + count > request->pool->web->options.head_bytes) {
        request->is_head_too_long = true;
        return 0;
    }
    if (!take_length(request, data, count)) {
        request->is_length_unclear = true;
        return 0;
    }
    request->head_bytes += count;
    return count;
}

/*
 * A short body has as much as it says: the C library gives such sizes out of what a thread has, and
 * puts all its free memory in order for 4 KiB.
 */
static size_t first_capacity(const struct web_request *request)
{
    bool is_short = request->has_length && request->length > 0 && request->length < BODY_FREE_BYTES;
    return is_short ? (size_t)request->length : BODY_FREE_BYTES;
}

/* Room for @p needed bytes; false with the reason noted. */
static bool grow_body(struct web_request *request, size_t needed)
{
    struct web *web = request->pool->web;
    size_t capacity = request->body_capacity > 0 ? request->body_capacity : first_capacity(request);
    while (capacity < needed) {
        capacity *= 2;
    }
    if (capacity == request->body_capacity) {
        return true;
    }
    uint8_t *body = realloc(request->body, capacity);
    if (body == NULL) {
        request->is_short = true;
        return false;
    }
    web->body_bytes += capacity - request->body_capacity;
    request->body = body;
    request->body_capacity = capacity;
    return true;
}

static bool has_to_wait(const struct web_request *request, size_t needed)
{
    const struct web *web = request->pool->web;
    return needed > BODY_FREE_BYTES && needed > request->body_capacity &&
           web->requests.first != &request->node &&
           web->body_bytes + needed > web->options.bodies_bytes;
}

/* --- bodies in parts ------------------------------------------------------------ */

static long info_of(const struct web_request *request, CURLINFO info)
{
    long value = 0;
    (void)web_curl.easy_getinfo(request->handle.easy, info, &value);
    return value;
}

/* Whether the body, which is about to be longer than a part, is one that comes in parts. */
static bool comes_in_parts(const struct web_request *request)
{
    return request->part_bytes > 0 && info_of(request, CURLINFO_RESPONSE_CODE) / 100 == 2;
}

/* What is in front of where the body is wanted from. */
static void drop_skipped(struct web_request *request)
{
    uint64_t left = request->offset < request->skip ? request->skip - request->offset : 0;
    size_t len = left < request->body_len ? (size_t)left : request->body_len;
    if (len > 0) {
        memmove(request->body, request->body + len, request->body_len - len);
        request->body_len -= len;
        request->offset += len;
    }
}

/* It is about to be paused. */
static void leave_unclean(struct web_request *request)
{
    if (request->is_clean) {
        web_sockets_on_pause(request->pool, request->handle.easy);
    }
    request->is_clean = false;
}

/* The part is read, and more follows. @return what the callback has to. */
static size_t hold_part(struct web_request *request)
{
    leave_unclean(request);
    if (info_of(request, CURLINFO_HTTP_VERSION) > CURL_HTTP_VERSION_1_1) {
        request->is_over_2 = true;
        return 0;
    }
    request->has_part = true;
    request->pool->web->part_count++;
    return CURL_WRITEFUNC_PAUSE;
}

/* Whether @p count more bytes are as many as may be had, in parts or as a whole. */
static bool is_longer_than_allowed(const struct web_request *request, size_t count, bool has_parts)
{
    uint64_t len = request->offset + request->body_len + count;
    return len > (has_parts ? WEB_PARTED_MAX : request->pool->web->options.body_bytes);
}

bool web_transfer_take_part(struct web_request *request, struct web_part *ret_part)
{
    size_t rest = request->body_len % WEB_PART_UNIT, len = request->body_len - rest;
    uint8_t *kept = malloc(BODY_FREE_BYTES);
    if (kept == NULL) {
        return false;
    }
    *ret_part = (struct web_part){request->body, len, request->body_capacity};
    if (rest > 0) {
        memcpy(kept, request->body + len, rest);
    }
    request->pool->web->body_bytes += BODY_FREE_BYTES;
    request->body = kept;
    request->body_capacity = BODY_FREE_BYTES;
    request->body_len = rest;
    request->offset += len;
    return true;
}

void web_transfer_free_part(struct web *web, const struct web_part *part)
{
    web->body_bytes -= part->capacity;
    free(part->data);
}

int web_transfer_restart(struct web_request *request)
{
    request->is_over_2 = false;
    request->head_bytes = 0;
    request->is_in_head = false;
    request->body_len = 0;
    request->offset = 0;
    request->ready_ms = 0;
    CURLcode code = web_curl.easy_setopt(request->handle.easy, CURLOPT_HTTP_VERSION,
                                         (long)CURL_HTTP_VERSION_1_1);
    code |= web_curl.easy_setopt(request->handle.easy, CURLOPT_FRESH_CONNECT, 1L);
    return code == CURLE_OK ? 0 : -ENOMEM;
}

static size_t web_on_body(char *data, size_t size, size_t count, void *context)
{
    struct web_request *request = context;
    struct web *web = request->pool->web;
    bool has_parts = request->offset > 0;
    (void)size; /* 1 */
    if (request->part_bytes > 0 && request->body_len + count > request->part_bytes) {
        bool may_begin = request->body_len <= request->part_bytes; /* else it was none before */
        has_parts = has_parts || (may_begin && comes_in_parts(request));
    }
    if (is_longer_than_allowed(request, count, has_parts)) {
        request->is_body_too_long = true;
        return 0;
    }
    if (has_parts) {
        drop_skipped(request);
        if (request->body_len + count > request->part_bytes) {
            return hold_part(request);
        }
    }
    if (has_to_wait(request, request->body_len + count)) {
        request->is_paused = true;
        leave_unclean(request);
        web->paused_count++;
        atomic_fetch_add_explicit(&web->counters.paused, 1, memory_order_relaxed);
        return CURL_WRITEFUNC_PAUSE;
    }
    if (count == 0) {
        return 0;
    }
    if (!grow_body(request, request->body_len + count)) {
        return 0;
    }
    memcpy(request->body + request->body_len, data, count);
    request->body_len += count;
    return count;
}

/* --- settings ------------------------------------------------------------------ */

/* Any host and port of the URL: that address and port. */
static CURLcode set_connect_to(struct web_request *request)
{
    static const char any[] = "::";
    struct address address = request->address;
    address.scope = 0;
    memcpy(request->place, any, sizeof(any));
    (void)address_format(&address, request->place + sizeof(any) - 1);
    request->connect_to = (struct curl_slist){.data = request->place};
    return web_curl.easy_setopt(request->handle.easy, CURLOPT_CONNECT_TO, &request->connect_to);
}

/* Lines as a list of libcurl's, which only reads it, in one piece of memory; NULL without memory,
 * and for none. Free with free(). */
static struct curl_slist *make_list(const char *const *lines, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        len += strlen(lines[i]) + 1;
    }
    struct curl_slist *list = count > 0 ? malloc(count * sizeof(*list) + len) : NULL;
    char *text = list != NULL ? (char *)(list + count) : NULL;
    for (size_t i = 0; text != NULL && i < count; i++) {
        size_t line_len = strlen(lines[i]) + 1;
        memcpy(text, lines[i], line_len);
        list[i] = (struct curl_slist){text, i + 1 < count ? &list[i + 1] : NULL};
        text += line_len;
    }
    return list;
}

/* Nothing that libcurl would add of its own to a body: Expect, a Content-Type that is a guess. */
static bool set_fields(struct web_request *request, const struct web_ask *ask)
{
    const char *lines[WEB_FIELDS_MAX + 3];
    size_t count = 0;
    bool has_type = !ask->has_body;
    if (ask->field_count > WEB_FIELDS_MAX) {
        return false;
    }
    for (size_t i = 0; i < ask->field_count; i++) {
        has_type |= strncmp(ask->fields[i], "Content-Type:", 13) == 0;
        if (strcmp(ask->fields[i], "Accept: */*") != 0) { /* that, libcurl sends by itself */
            lines[count++] = ask->fields[i];
        }
    }
    if (ask->has_body) {
        lines[count++] = "Expect:";
    }
    if (ask->body_goes_on) {
        lines[count++] = "Transfer-Encoding: chunked";
    }
    if (!has_type) {
        lines[count++] = "Content-Type:";
    }
    request->fields = make_list(lines, count);
    return (request->fields != NULL || count == 0) &&
           web_curl.easy_setopt(request->handle.easy, CURLOPT_HTTPHEADER, request->fields) ==
               CURLE_OK;
}

/* A handle that was used before has another request's. */
static CURLcode set_method(CURL *easy, const struct web_ask *ask)
{
    CURLcode code = web_curl.easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (ask->has_body && !ask->body_goes_on) {
        code |= web_curl.easy_setopt(easy, CURLOPT_POST, 1L);
        code |= web_curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)ask->body.len);
        code |= web_curl.easy_setopt(easy, CURLOPT_POSTFIELDS,
                                     ask->body.len > 0 ? (const char *)ask->body.data : "");
    } else if (ask->body_goes_on) {
        code |= web_curl.easy_setopt(easy, CURLOPT_POST, 1L);
    }
    return code | web_curl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, ask->method);
}

/* Of the environment, and of what servers would like it to remember, nothing (CH-2). */
static CURLcode set_bounds(CURL *easy)
{
    CURLcode code = web_curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    code |= web_curl.easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    code |= web_curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    code |= web_curl.easy_setopt(easy, CURLOPT_PROXY, "");
    code |= web_curl.easy_setopt(easy, CURLOPT_NOPROXY, "*");
    code |= web_curl.easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    code |= web_curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    code |= web_curl.easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    code |= web_curl.easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    return code | web_curl.easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
}

/* Trust anchors and certificates come from the credentials that are loaded, not from files. */
static CURLcode set_tls(CURL *easy)
{
    CURLcode code = web_curl.easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    code |= web_curl.easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    code |= web_curl.easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    code |= web_curl.easy_setopt(easy, CURLOPT_CAINFO, NULL);
    code |= web_curl.easy_setopt(easy, CURLOPT_CAPATH, NULL);
    code |= web_curl.easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, web_on_tls);
    return code | web_curl.easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
}

/*
 * The request is about to be sent. Not derived from libcurl's times: they do not count what it
 * waited for a connection, and begin anew where it is sent again.
 */
static int web_on_ready(void *context, char *remote, char *local, int remote_port, int local_port)
{
    struct web_request *request = context;
    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    request->ready_ms = loop_now_ms(request->pool->web->loop);
    request->out_ms = 0;
    return CURL_PREREQFUNC_OK;
}

static CURLcode set_callbacks(CURL *easy, struct web *web)
{
    CURLcode code = web_curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, web_on_head);
    code |= web_curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, web_on_body);
    code |= web_curl.easy_setopt(easy, CURLOPT_PREREQFUNCTION, web_on_ready);
    code |= web_curl.easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, web_on_open);
    code |= web_curl.easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, web_on_close);
    return code | web_curl.easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, web);
}

/* Whose transfer it is from now on. */
static CURLcode set_owner(CURL *easy, struct web_request *request)
{
    CURLcode code = web_curl.easy_setopt(easy, CURLOPT_PRIVATE, request);
    code |= web_curl.easy_setopt(easy, CURLOPT_HEADERDATA, request);
    code |= web_curl.easy_setopt(easy, CURLOPT_WRITEDATA, request);
    code |= web_curl.easy_setopt(easy, CURLOPT_SSL_CTX_DATA, request);
    code |= web_curl.easy_setopt(easy, CURLOPT_PREREQDATA, request);
    return code | web_curl.easy_setopt(easy, CURLOPT_OPENSOCKETDATA, request);
}

static void free_handle(const struct web_handle *handle)
{
    web_curl.easy_cleanup(handle->easy);
    web_curl.url_cleanup(handle->url);
    free(handle->url_text);
}

/* One that was for the same URL before, if there is one; else the last, whose memory is in use. */
static struct web_handle take_kept_handle(struct web_pool *pool, const char *url)
{
    size_t at = pool->spare_count - 1;
    for (size_t i = pool->spare_count; i > 0; i--) {
        const char *text = pool->spares[i - 1].url_text;
        if (text != NULL && strcmp(text, url) == 0) {
            at = i - 1;
            break;
        }
    }
    struct web_handle handle = pool->spares[at];
    pool->spares[at] = pool->spares[--pool->spare_count];
    return handle;
}

/* With what all requests of the pool have in common. @return false without memory */
static bool take_handle(struct web_pool *pool, const char *url, struct web_handle *ret_handle)
{
    if (pool->spare_count > 0) {
        *ret_handle = take_kept_handle(pool, url);
        return true;
    }
    const struct web_handle handle = {.easy = web_curl.easy_init(), .url = web_curl.url()};
    if (handle.easy == NULL || handle.url == NULL ||
        (set_bounds(handle.easy) | set_tls(handle.easy) | set_callbacks(handle.easy, pool->web)) !=
            CURLE_OK) {
        free_handle(&handle);
        return false;
    }
    *ret_handle = handle;
    return true;
}

/* It is not to lead to what is freed. @return whether it was kept. */
static bool keep_handle(struct web_pool *pool, const struct web_handle *handle)
{
    CURL *easy = handle->easy;
    if (pool->spare_count == WEB_SPARES_MAX || set_owner(easy, NULL) != CURLE_OK ||
        web_curl.easy_setopt(easy, CURLOPT_HTTPHEADER, NULL) != CURLE_OK ||
        web_curl.easy_setopt(easy, CURLOPT_CONNECT_TO, NULL) != CURLE_OK) {
        return false;
    }
    pool->spares[pool->spare_count++] = *handle;
    return true;
}

void web_transfer_free_spares(struct web_pool *pool)
{
    while (pool->spare_count > 0) {
        free_handle(&pool->spares[--pool->spare_count]);
    }
}

/*
 * The URL as text, and parsed: libcurl would parse it in each request, and put it together again.
 * What it does not parse here it refuses there.
 */
static CURLcode set_url(struct web_handle *handle, const char *url)
{
    const unsigned flags = CURLU_PATH_AS_IS | CURLU_DISALLOW_USER;
    if (handle->url_text != NULL && strcmp(handle->url_text, url) == 0) {
        return CURLE_OK;
    }
    free(handle->url_text);
    handle->url_text = NULL;
    bool is_parsed = web_curl.url_set(handle->url, CURLUPART_URL, url, flags) == CURLUE_OK;
    CURLcode code = web_curl.easy_setopt(handle->easy, CURLOPT_URL, url);
    code |= web_curl.easy_setopt(handle->easy, CURLOPT_CURLU, is_parsed ? handle->url : NULL);
    if (code == CURLE_OK && is_parsed) {
        handle->url_text = strdup(url); /* without memory it is parsed again */
    }
    return code;
}

static CURLcode set_web_limits(CURL *easy, const struct web_options *options, uint64_t longest)
{
    CURLcode code =
        web_curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_ms);
    code |= web_curl.easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)longest);
    return code |
           web_curl.easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)(options->idle_ms / MS_PER_S) + 1);
}

int web_transfer_init(struct web_request *request, const struct web_ask *ask)
{
    const struct web_options *options = &request->pool->web->options;
    request->address = ask->address;
    request->part_bytes = ask->part_bytes;
    request->skip = ask->skip;
    if (!take_handle(request->pool, ask->url, &request->handle) || !set_fields(request, ask)) {
        return -ENOMEM;
    }
    CURL *easy = request->handle.easy;
    CURLcode code = set_connect_to(request) | set_owner(easy, request) | set_method(easy, ask);
    code |=
        set_web_limits(easy, options, ask->part_bytes > 0 ? WEB_PARTED_MAX : options->body_bytes);
    code |= set_url(&request->handle, ask->url);
    /* libcurl sends a request again whose connection turns out to be dead. */
    code |= web_curl.easy_setopt(easy, CURLOPT_FRESH_CONNECT, ask->may_repeat ? 0L : 1L);
    if (code != CURLE_OK) {
        return -ENOMEM;
    }
    return ask->body_goes_on ? web_upload_init(request, ask->body) : 0;
}

void web_transfer_clear(struct web *web, struct web_request *request)
{
    if (!request->is_clean || !keep_handle(request->pool, &request->handle)) {
        free_handle(&request->handle);
    }
    free(request->fields);
    web_upload_clear(web, &request->upload);
    web->body_bytes -= request->body_capacity;
    free(request->body);
}

/* --- the end ------------------------------------------------------------------- */

/* libcurl says so of a line of a head that is too long, too. */
static bool is_out_of_memory(const struct web_request *request, CURLcode code)
{
    curl_off_t first_us = 0;
    (void)web_curl.easy_getinfo(request->handle.easy, CURLINFO_STARTTRANSFER_TIME_T, &first_us);
    return request->is_short || (code == CURLE_OUT_OF_MEMORY && first_us == 0);
}

/* @p verdict is OpenSSL's; the name is libcurl's own check, which leaves it as it was. */
static enum web_status certificate_status(long verdict)
{
    if (verdict == X509_V_OK || verdict == X509_V_ERR_UNSPECIFIED) { /* unset */
        return WEB_NAME_MISMATCH;
    }
    enum upstream_status status = upstream_certificate_status(verdict);
    if (status == UPSTREAM_CERTIFICATE_EXPIRED) {
        return WEB_CERTIFICATE_EXPIRED;
    }
    return status == UPSTREAM_CERTIFICATE_UNKNOWN ? WEB_CERTIFICATE_UNKNOWN : WEB_BAD_CERTIFICATE;
}

static bool is_bad_certificate(enum web_status status)
{
    return status == WEB_BAD_CERTIFICATE || status == WEB_CERTIFICATE_EXPIRED ||
           status == WEB_CERTIFICATE_UNKNOWN;
}

static enum web_status web_status_of(const struct web_request *request, CURLcode code, long verdict)
{
    if (is_out_of_memory(request, code)) {
        return WEB_NO_MEMORY;
    }
    if (request->is_body_too_long || code == CURLE_FILESIZE_EXCEEDED) {
        return WEB_TOO_LARGE;
    }
    /* No switch: there are a hundred of them, and most cannot come. */
    if (code == CURLE_COULDNT_CONNECT) {
        return WEB_REFUSED;
    }
    if (code == CURLE_OPERATION_TIMEDOUT) {
        return WEB_CONNECT_TIMEOUT; /* no other time is set */
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        return certificate_status(verdict);
    }
    if (code == CURLE_SSL_CONNECT_ERROR || code == CURLE_SSL_CIPHER ||
        code == CURLE_SSL_CERTPROBLEM) {
        return WEB_HANDSHAKE_FAILED;
    }
    /* A chunk that is malformed is a RECV_ERROR, too: what breaks off in an answer is malformed. */
    bool has_begun = info_of(request, CURLINFO_RESPONSE_CODE) != 0;
    if (!has_begun &&
        (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR)) {
        return WEB_CLOSED;
    }
    return WEB_INVALID;
}

struct web_failure web_transfer_failure(const struct web_request *request, CURLcode code)
{
    curl_off_t began_us = 0;
    long verdict = X509_V_OK;
    (void)web_curl.easy_getinfo(request->handle.easy, CURLINFO_PRETRANSFER_TIME_T, &began_us);
    (void)web_curl.easy_getinfo(request->handle.easy, CURLINFO_SSL_VERIFYRESULT, &verdict);
    struct web_failure failure = {
        .status = web_status_of(request, code, verdict),
        .was_sent = began_us > 0,
    };
    if (is_bad_certificate(failure.status)) {
        failure.why = X509_verify_cert_error_string(verdict);
    } else if (request->is_head_too_long || code == CURLE_OUT_OF_MEMORY) {
        failure.why = "http head too long";
    } else if (request->is_length_unclear) {
        failure.why = "several lengths";
    } else if (failure.status == WEB_INVALID) {
        failure.why = web_curl.easy_strerror(code);
    }
    return failure;
}

/* As the server has told it, or 0. */
static uint64_t length_of_body(const struct web_request *request)
{
    curl_off_t length = 0;
    (void)web_curl.easy_getinfo(request->handle.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return length > 0 ? (uint64_t)length : 0;
}

bool web_transfer_response(const struct web_request *request, uint64_t now_ms,
                           struct http_field *ret_fields, struct http_response *ret_response)
{
    long status = 0;
    size_t count = 0;
    struct curl_header *header = NULL;
    (void)web_curl.easy_getinfo(request->handle.easy, CURLINFO_RESPONSE_CODE, &status);
    while ((header = web_curl.easy_nextheader(request->handle.easy, CURLH_HEADER, -1, header)) !=
           NULL) {
        if (count == HTTP_RESPONSE_FIELDS_MAX) {
            return false;
        }
        ret_fields[count++] = (struct http_field){header->name, header->value};
    }
    *ret_response = (struct http_response){
        .status = status > 0 && status < 1000 ? (unsigned)status : 0,
        .fields = ret_fields,
        .field_count = count,
        .body = {request->body, request->body_len},
        .offset = request->offset,
        .length = length_of_body(request),
        .received_s = (uint64_t)time(NULL),
        .delay_s = (uint32_t)((now_ms - request->began_ms + MS_PER_S - 1) / MS_PER_S),
    };
    return true;
}
