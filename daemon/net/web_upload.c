/* SPDX-License-Identifier: BSD-2-Clause */
/* Bodies of requests that go on: given piece by piece, and taken by libcurl when it can send. */
#include "net/web_internal.h"

#include "net/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t web_on_read(char *buffer, size_t size, size_t count, void *context)
{
    struct web_request *request = context;
    struct web_upload *upload = &request->upload;
    size_t len = upload->len - upload->at;
    len = len < size * count ? len : size * count;
    if (len == 0 && !upload->is_last) {
        if (!upload->is_dry) {
            upload->is_dry = upload->is_taken = true;
            request->pool->web->taken_count++;
        }
        return CURL_READFUNC_PAUSE;
    }
    if (len > 0) {
        memcpy(buffer, upload->data + upload->at, len);
    }
    upload->at += len;
    if (upload->is_last && upload->at == upload->len) {
        request->out_ms = loop_now_ms(request->pool->web->loop);
    }
    return len;
}

void web_upload_clear(struct web *web, struct web_upload *upload)
{
    web->body_bytes -= upload->capacity;
    free(upload->data);
    upload->data = NULL;
    upload->len = upload->at = upload->capacity = 0;
}

bool web_upload_give(struct web_request *request, struct bytes piece, bool is_last)
{
    struct web_upload *upload = &request->upload;
    uint8_t *data = piece.len > 0 ? malloc(piece.len) : NULL;
    if (piece.len > 0 && data == NULL) {
        return false;
    }
    web_upload_clear(request->pool->web, upload);
    if (data != NULL) {
        memcpy(data, piece.data, piece.len);
    }
    request->pool->web->body_bytes += piece.len;
    upload->data = data;
    upload->len = upload->capacity = piece.len;
    upload->is_dry = false;
    upload->is_last = is_last;
    return true;
}

/* Without a length it goes in chunks over HTTP/1.1; libcurl leaves the field out over HTTP/2. */
int web_upload_init(struct web_request *request, struct bytes piece)
{
    CURL *easy = request->handle.easy;
    request->upload.is_on = true;
    CURLcode code = web_curl.easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
    code |= web_curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)-1);
    code |= web_curl.easy_setopt(easy, CURLOPT_READFUNCTION, web_on_read);
    code |= web_curl.easy_setopt(easy, CURLOPT_READDATA, request);
    return code == CURLE_OK && web_upload_give(request, piece, false) ? 0 : -ENOMEM;
}
