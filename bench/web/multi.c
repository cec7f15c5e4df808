/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libcurl's multi interface as a client by itself: COUNT GETs of URL, so many at a time. A handle
 * is used again for the next request, and set anew.
 *
 *     multi URL AT-A-TIME COUNT [FIELD...]
 */
#include <curl/curl.h>
#include <stdlib.h>

static size_t on_body(char *data, size_t size, size_t count, void *context)
{
    (void)data;
    (void)context;
    return size * count;
}

static void begin(CURLM *multi, CURL *easy, const char *url, struct curl_slist *fields)
{
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fields);
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_multi_add_handle(multi, easy);
}

int main(int argc, char **argv)
{
    int running = 0, left = 0;
    long count = 0;
    struct curl_slist *fields = NULL;
    if (argc < 4) {
        return 2;
    }
    for (int i = 4; i < argc; i++) {
        fields = curl_slist_append(fields, argv[i]);
    }
    CURLM *multi = curl_multi_init();
    for (long i = 0; i < strtol(argv[2], NULL, 10); i++) {
        begin(multi, curl_easy_init(), argv[1], fields);
    }
    while (count < strtol(argv[3], NULL, 10)) {
        CURLMsg *message;
        (void)curl_multi_perform(multi, &running);
        while ((message = curl_multi_info_read(multi, &left)) != NULL) {
            CURL *easy = message->easy_handle;
            if (message->data.result != CURLE_OK) {
                return 1;
            }
            count++;
            (void)curl_multi_remove_handle(multi, easy);
            begin(multi, easy, argv[1], fields);
        }
        (void)curl_multi_poll(multi, NULL, 0, 100, NULL);
    }
    return 0;
}
