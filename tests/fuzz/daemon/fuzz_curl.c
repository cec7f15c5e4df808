/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lies between libcurl and us, with any order of what libcurl may do: lines of a head, pieces
 * of a body, pauses, ends with any code, for several requests at a time. libcurl itself is a table
 * of functions (net/web_library.h), which is filled with ours here. Answers are mapped to CoAP, for
 * each method, and have to come out well-formed.
 *
 * The input is a list of acts; the low four bits of a byte say which, the upper two of which
 * request.
 */
#include "coap/http_request.h"
#include "coap/http_response.h"
#include "coap/option.h"
#include "net/loop.h"
#include "net/web_internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
bool __wrap_web_library_load(uint64_t now_ms);

#define SLOTS 4u
#define HEADERS_MAX 80u
#define URL "http://h.example/a"

/* --- libcurl ------------------------------------------------------------------ */

struct easy {
    curl_write_callback on_head, on_body;
    void *head_context, *body_context, *private_data, *open_context, *close_context;
    curl_opensocket_callback on_open;
    curl_closesocket_callback on_close;
    struct curl_header headers[HEADERS_MAX];
    size_t header_count;
    char *texts[HEADERS_MAX];
    uint8_t *held; /* a piece that the callback has not taken */
    size_t held_len;
    bool is_added, is_done, is_told;
    long status, verdict, version;
    curl_off_t began_us, length;
    CURLMsg message;
};

static struct easy *easies[SLOTS]; /* that are added */
static unsigned easy_count, multi_count;

static CURLcode fake_global_init(long flags)
{
    (void)flags;
    return CURLE_OK;
}

static CURL *fake_easy_init(void)
{
    struct easy *easy = calloc(1, sizeof(*easy));
    assert(easy != NULL);
    easy_count++;
    return easy;
}

static void fake_easy_cleanup(CURL *handle)
{
    struct easy *easy = handle;
    if (easy == NULL) {
        return;
    }
    assert(!easy->is_added);
    for (size_t i = 0; i < easy->header_count; i++) {
        free(easy->texts[i]);
    }
    free(easy->held);
    free(easy);
    easy_count--;
}

static CURLcode fake_easy_setopt(CURL *handle, CURLoption option, ...)
{
    struct easy *easy = handle;
    va_list values;
    va_start(values, option);
    /* No switch: there are hundreds of options. */
    if (option == CURLOPT_HEADERFUNCTION) {
        easy->on_head = va_arg(values, curl_write_callback);
    } else if (option == CURLOPT_HEADERDATA) {
        easy->head_context = va_arg(values, void *);
    } else if (option == CURLOPT_WRITEFUNCTION) {
        easy->on_body = va_arg(values, curl_write_callback);
    } else if (option == CURLOPT_WRITEDATA) {
        easy->body_context = va_arg(values, void *);
    } else if (option == CURLOPT_PRIVATE) {
        easy->private_data = va_arg(values, void *);
    } else if (option == CURLOPT_OPENSOCKETFUNCTION) {
        easy->on_open = va_arg(values, curl_opensocket_callback);
    } else if (option == CURLOPT_OPENSOCKETDATA) {
        easy->open_context = va_arg(values, void *);
    } else if (option == CURLOPT_CLOSESOCKETFUNCTION) {
        easy->on_close = va_arg(values, curl_closesocket_callback);
    } else if (option == CURLOPT_CLOSESOCKETDATA) {
        easy->close_context = va_arg(values, void *);
    }
    va_end(values);
    return CURLE_OK;
}

static CURLcode fake_easy_getinfo(CURL *handle, CURLINFO info, ...)
{
    struct easy *easy = handle;
    va_list values;
    va_start(values, info);
    void *place = va_arg(values, void *);
    if (info == CURLINFO_PRIVATE) {
        memcpy(place, &easy->private_data, sizeof(void *));
    } else if (info == CURLINFO_RESPONSE_CODE) {
        memcpy(place, &easy->status, sizeof(long));
    } else if (info == CURLINFO_SSL_VERIFYRESULT) {
        memcpy(place, &easy->verdict, sizeof(long));
    } else if (info == CURLINFO_HTTP_VERSION) {
        memcpy(place, &easy->version, sizeof(long));
    } else if (info == CURLINFO_CONTENT_LENGTH_DOWNLOAD_T) {
        memcpy(place, &easy->length, sizeof(curl_off_t));
    } else if (info == CURLINFO_PRETRANSFER_TIME_T || info == CURLINFO_STARTTRANSFER_TIME_T) {
        memcpy(place, &easy->began_us, sizeof(curl_off_t));
    }
    va_end(values);
    return CURLE_OK;
}

static const char *fake_easy_strerror(CURLcode code)
{
    (void)code;
    return "an error";
}

static struct curl_header *fake_easy_nextheader(CURL *handle, unsigned origin, int request,
                                                struct curl_header *last)
{
    struct easy *easy = handle;
    size_t next = last != NULL ? (size_t)(last - easy->headers) + 1 : 0;
    (void)origin;
    (void)request;
    return next < easy->header_count ? &easy->headers[next] : NULL;
}

static CURLU *fake_url(void)
{
    return malloc(1);
}

static void fake_url_cleanup(CURLU *url)
{
    free(url);
}

static CURLUcode fake_url_set(CURLU *url, CURLUPart what, const char *text, unsigned flags)
{
    (void)url;
    (void)what;
    (void)text;
    (void)flags;
    return CURLUE_OK;
}

static void end_easy(struct easy *easy, CURLcode code)
{
    easy->is_done = true;
    easy->message.msg = CURLMSG_DONE;
    easy->message.easy_handle = easy;
    easy->message.data.result = code;
}

/* As libcurl does: what is not taken now is held, and given again when the pause is over. */
static void give_piece(struct easy *easy, uint8_t *piece, size_t len)
{
    size_t taken = easy->on_body((char *)piece, 1, len, easy->body_context);
    if (taken == CURL_WRITEFUNC_PAUSE) {
        easy->held = piece;
        easy->held_len = len;
        return;
    }
    free(piece);
    if (taken != len) {
        end_easy(easy, CURLE_WRITE_ERROR);
    }
}

static CURLcode fake_easy_pause(CURL *handle, int action)
{
    struct easy *easy = handle;
    uint8_t *piece = easy->held;
    assert(action == CURLPAUSE_CONT);
    easy->held = NULL;
    if (piece != NULL && !easy->is_done) {
        give_piece(easy, piece, easy->held_len);
    } else {
        free(piece);
    }
    return CURLE_OK;
}

static CURLM *fake_multi_init(void)
{
    multi_count++;
    return malloc(1);
}

static CURLMcode fake_multi_cleanup(CURLM *multi)
{
    multi_count--;
    free(multi);
    return CURLM_OK;
}

static CURLMcode fake_multi_setopt(CURLM *multi, CURLMoption option, ...)
{
    (void)multi;
    (void)option;
    return CURLM_OK;
}

static CURLMcode fake_multi_add(CURLM *multi, CURL *handle)
{
    (void)multi;
    for (size_t i = 0; i < SLOTS; i++) {
        if (easies[i] == NULL) {
            easies[i] = handle;
            easies[i]->is_added = true;
            easies[i]->is_done = easies[i]->is_told = false; /* of a request that is made again */
            easies[i]->version = 0;
            return CURLM_OK;
        }
    }
    return CURLM_OUT_OF_MEMORY;
}

static CURLMcode fake_multi_remove(CURLM *multi, CURL *handle)
{
    struct easy *easy = handle;
    (void)multi;
    assert(easy->is_added);
    easy->is_added = false;
    for (size_t i = 0; i < SLOTS; i++) {
        easies[i] = easies[i] == easy ? NULL : easies[i];
    }
    return CURLM_OK;
}

static CURLMcode fake_multi_act(CURLM *multi, curl_socket_t fd, int what, int *running)
{
    (void)multi;
    (void)fd;
    (void)what;
    *running = 0;
    return CURLM_OK;
}

static CURLMsg *fake_multi_read(CURLM *multi, int *left)
{
    (void)multi;
    *left = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        if (easies[i] != NULL && easies[i]->is_done && !easies[i]->is_told) {
            easies[i]->is_told = true;
            return &easies[i]->message;
        }
    }
    return NULL;
}

bool __wrap_web_library_load(uint64_t now_ms)
{
    (void)now_ms;
    web_curl = (struct web_curl){
        .global_init = fake_global_init,
        .easy_init = fake_easy_init,
        .easy_cleanup = fake_easy_cleanup,
        .easy_setopt = fake_easy_setopt,
        .easy_getinfo = fake_easy_getinfo,
        .easy_pause = fake_easy_pause,
        .easy_strerror = fake_easy_strerror,
        .easy_nextheader = fake_easy_nextheader,
        .url = fake_url,
        .url_cleanup = fake_url_cleanup,
        .url_set = fake_url_set,
        .multi_init = fake_multi_init,
        .multi_cleanup = fake_multi_cleanup,
        .multi_setopt = fake_multi_setopt,
        .multi_add_handle = fake_multi_add,
        .multi_remove_handle = fake_multi_remove,
        .multi_socket_action = fake_multi_act,
        .multi_info_read = fake_multi_read,
    };
    return true;
}

/* --- what comes of it ------------------------------------------------------------ */

struct world {
    struct loop *loop;
    struct web *web;
    struct http_tags *tags;
    struct address address;
    struct web_request *requests[SLOTS];
    uint64_t offsets[SLOTS]; /* in the body, behind the part that was told; 0: none was */
    bool waits[SLOTS];       /* for the next part to be asked for */
    uint64_t now_ms;
    uint64_t body_max;
};

static void check_answer(const struct world *world, const struct http_response *response,
                         uint8_t method, bool polls)
{
    static const uint8_t etag[] = "v1";
    uint8_t options[300], asked[32], cri[512];
    struct message_writer writer = {.buffer = asked, .capacity = sizeof(asked)};
    struct http_mapped mapped;
    struct option_iter iter;
    struct option option;
    struct bytes found;
    uint32_t last = 0;
    message_writer_option(&writer, OPTION_etag, (struct bytes){etag, 2});
    const struct message request = {.code = method, .options = {asked, writer.len}};
    const struct http_question question = {
        .request = &request,
        .url = URL,
        .tags = world->tags,
        .poll_s = polls ? 10 : 0,
        .part_tag = {etag, 2},
    };
    uint8_t tag[HTTP_TAG_ETAG_MAX];
    (void)http_response_can_resume(response, 1, tag);
    if (http_response_map(response, &question, options, sizeof(options), &mapped) == REASON_none) {
        unsigned class = CODE_CLASS(mapped.code);
        assert(class == 2 || class == 4 || class == 5);
        assert(mapped.options.len <= sizeof(options) && (!mapped.is_observed || polls));
        option_iter_init(&iter, mapped.options);
        while (option_iter_next(&iter, &option)) {
            assert(option_row(option.number) != NULL && option.number >= last);
            assert(option_length_is_good(option_row(option.number), option.value));
            last = option.number;
        }
    }
    if (http_response_redirect(response, URL, method, cri, sizeof(cri), &found)) {
        assert(response->status / 100 == 3 && found.len > 0 && found.len <= sizeof(cri));
    }
}

static void forget_request(struct world *world, void *user)
{
    struct web_request **slot = user;
    assert(slot >= world->requests && slot < world->requests + SLOTS && *slot != NULL);
    *slot = NULL;
}

static void on_web_answer(void *context, void *user, const struct http_response *response)
{
    static const uint8_t methods[] = {CODE_GET, CODE_POST, CODE_PUT, CODE_DELETE, CODE_IPATCH};
    struct world *world = context;
    size_t slot = (size_t)((struct web_request **)user - world->requests);
    bool is_part = response->more || response->offset > 0;
    assert(is_part
               ? response->body.len <= WEB_PART_BYTES_MIN
               : response->body.len <= world->body_max || response->body.len <= WEB_PART_BYTES_MIN);
    assert(world->offsets[slot] == 0 || response->offset == world->offsets[slot]);
    world->offsets[slot] = response->offset + response->body.len;
    world->waits[slot] = response->more;
    if (response->more) {
        assert(response->body.len > 0 && response->offset % WEB_PART_UNIT == 0 &&
               response->body.len % WEB_PART_UNIT == 0);
    } else {
        forget_request(world, user);
    }
    for (size_t i = 0; i < sizeof(methods); i++) {
        check_answer(world, response, methods[i], i == 0);
    }
}

static void on_web_failure(void *context, void *user, const struct web_failure *failure)
{
    forget_request(context, user);
    assert(failure->status < WEB_STATUS_COUNT);
}

static const struct web_handler fuzz_handler = {.on_answer = on_web_answer,
                                                .on_failure = on_web_failure};

/* --- acts ------------------------------------------------------------------------ */

struct input {
    const uint8_t *at;
    size_t left;
};

static unsigned next_byte(struct input *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->at++;
}

static char *next_text(struct input *input)
{
    size_t len = next_byte(input);
    len = len < input->left ? len : input->left;
    char *text = calloc(1, len + 1);
    assert(text != NULL);
    memcpy(text, input->at, len);
    input->at += len;
    input->left -= len;
    return text;
}

static struct web_options next_options(struct world *world, struct input *input)
{
    world->body_max = 64u << (next_byte(input) & 15);
    return (struct web_options){
        .connections_max = 4,
        .connections_per_origin = 2,
        .connect_ms = 1000,
        .idle_ms = 1000,
        .head_bytes = 1024,
        .body_bytes = world->body_max,
        .bodies_bytes = 4096,
    };
}

static void act_send(struct world *world, unsigned slot, struct input *input)
{
    static const char *const fields[] = {"Accept: */*", "Via: 1.1 p"};
    unsigned how = next_byte(input);
    if (world->requests[slot] != NULL) {
        return;
    }
    const struct web_ask ask = {.method = (how & 1) != 0 ? "PUT" : "GET",
                                .url = URL,
                                .fields = fields,
                                .field_count = 2,
                                .has_body = (how & 1) != 0,
                                .part_bytes = (how & 4) != 0 ? WEB_PART_BYTES_MIN : 0,
                                .skip = (how & 8) != 0 ? (how >> 4) * 8 * WEB_PART_UNIT : 0,
                                .shows_certificate = (how & 2) != 0,
                                .address = world->address};
    world->offsets[slot] = 0;
    world->waits[slot] = false;
    world->requests[slot] = web_send(world->web, &ask, &world->requests[slot]);
    assert(world->requests[slot] != NULL);
}

static struct easy *easy_of(const struct world *world, unsigned slot)
{
    struct web_request *request = world->requests[slot];
    struct easy *easy = request != NULL ? request->handle.easy : NULL;
    return easy != NULL && !easy->is_done ? easy : NULL;
}

/* "Name: value", or the status. */
static void act_line(struct easy *easy, struct input *input)
{
    char *text = next_text(input), *colon = strchr(text, ':');
    size_t len = strlen(text);
    if (easy->on_head(text, 1, len, easy->head_context) != len) {
        end_easy(easy, CURLE_WRITE_ERROR);
        free(text);
    } else if (colon != NULL && easy->header_count < HEADERS_MAX) {
        *colon = '\0';
        easy->texts[easy->header_count] = text;
        easy->headers[easy->header_count++] =
            (struct curl_header){.name = text, .value = colon + 1 + strspn(colon + 1, " ")};
    } else {
        easy->status = strtol(text, NULL, 10);
        free(text);
    }
}

static void act_piece(struct easy *easy, struct input *input)
{
    size_t len = 1 + (size_t)next_byte(input) * 64;
    uint8_t fill = (uint8_t)next_byte(input), *piece = malloc(len);
    assert(piece != NULL);
    if (easy->held != NULL) { /* paused: nothing comes */
        free(piece);
        return;
    }
    memset(piece, fill, len);
    give_piece(easy, piece, len);
}

/* A socket is opened for the address that was asked for, and for no other. */
static void act_open(const struct world *world, struct easy *easy, struct input *input)
{
    struct curl_sockaddr to = {
        .family = AF_INET, .socktype = SOCK_STREAM, .addrlen = sizeof(struct sockaddr_in)};
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(80)};
    unsigned host = next_byte(input);
    name.sin_addr.s_addr = htonl(0xc0000200u | host);
    memcpy(&to.addr, &name, sizeof(name));
    curl_socket_t fd = easy->on_open(easy->open_context, CURLSOCKTYPE_IPCXN, &to);
    assert((fd != CURL_SOCKET_BAD) == (host == world->address.ip[3]));
    if (fd != CURL_SOCKET_BAD) {
        (void)easy->on_close(easy->close_context, fd);
    }
}

static void act_end(struct easy *easy, struct input *input)
{
    unsigned code = next_byte(input) % CURL_LAST;
    easy->verdict = (long)next_byte(input);
    easy->began_us = (curl_off_t)next_byte(input);
    if (easy->held == NULL || code != CURLE_OK) { /* no good end while something is held */
        end_easy(easy, (CURLcode)code);
    }
}

static void act_on_easy(struct world *world, unsigned act, struct easy *easy, struct input *input)
{
    if (easy == NULL) {
        return;
    }
    switch (act) {
    case 1:
        act_line(easy, input);
        break;
    case 2:
        act_piece(easy, input);
        break;
    case 3:
        act_open(world, easy, input);
        break;
    default:
        act_end(easy, input);
        break;
    }
}

static void act(struct world *world, struct input *input)
{
    unsigned byte = next_byte(input), slot = byte >> 6;
    struct web_options options;
    switch (byte & 15) {
    case 0:
        act_send(world, slot, input);
        break;
    case 1:
    case 2:
    case 3:
    case 4:
        act_on_easy(world, byte & 15, easy_of(world, slot), input);
        break;
    case 5:
        if (world->requests[slot] != NULL) {
            web_cancel(world->web, world->requests[slot]);
            world->requests[slot] = NULL;
        }
        break;
    case 6:
        options = next_options(world, input);
        world->body_max = options.body_bytes < 2u << 20 ? 2u << 20 : options.body_bytes;
        web_set_options(world->web, &options);
        break;
    case 7:
        if (world->waits[slot] && world->requests[slot] != NULL) {
            world->waits[slot] = false;
            web_next(world->web, world->requests[slot], &world->requests[slot]);
        }
        break;
    case 8:
        if (easy_of(world, slot) != NULL && world->offsets[slot] == 0) {
            easy_of(world, slot)->version = CURL_HTTP_VERSION_2_0;
        }
        break;
    default:
        world->now_ms += next_byte(input) * 16;
        (void)web_turn(world->web, world->now_ms);
        break;
    }
}

static uint64_t on_fuzz_turn(void *context, uint64_t now_ms)
{
    (void)context;
    return now_ms;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct world world = {0};
    struct web_options options = next_options(&world, &input);
    static struct loop *loop;
    if (loop == NULL) {
        assert(loop_new(on_fuzz_turn, NULL, &loop) == 0);
    }
    world.loop = loop;
    assert((world.tags = http_tags_new(1)) != NULL);
    assert(address_parse("192.0.2.5", 9, 80, &world.address));
    assert(web_new(world.loop, &options, &fuzz_handler, &world, &world.web) == 0);
    while (input.left > 0) {
        act(&world, &input);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        if (world.requests[i] != NULL) {
            web_cancel(world.web, world.requests[i]);
        }
    }
    assert(world.web->body_bytes == 0 && world.web->paused_count == 0);
    assert(atomic_load(&web_counters(world.web)->connections) == 0);
    web_free(world.web);
    assert(easy_count == 0 && multi_count == 0);
    free(world.tags);
    return 0;
}
