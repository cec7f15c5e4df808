/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that asks a CoAP proxy for a sensor's value: the datagram that it sends and the one
 * that it gets. It has no URI and no stdio, and takes no heap; of the C library it needs memcpy()
 * and its like. docs/guides/microcontrollers.md says how to build it with the freestanding libcri.
 */
#include <cri/builder.h>
#include <cri/coap.h>

#define COAP_CON 0x40u /* version 1, Confirmable (RFC 7252 section 3) */
#define COAP_GET 0x01u
#define COAP_CONTENT 0x45u /* 2.05 */
#define TOKEN_LEN 4u
#define HEAD_LEN (4u + TOKEN_LEN)
#define OPTION_HEAD_LEN 3u /* delta and length, one byte more for each of both */
#define EXTENDED 13u       /* a nibble that says so; also what the byte after it is over */

/* The target by its parts, and what tells its answer from others. */
struct device_request {
    struct cri_slice host, segment;
    uint16_t message_id;
    uint8_t token[TOKEN_LEN];
};

/*
 * A GET with Proxy-Cri into @p datagram. Returns its length, or 0 where @p capacity is too small
 * or the parts make no CRI. The CRI is built where the datagram has it: no copy is made.
 */
static size_t device_request_encode(const struct device_request *request, uint8_t *datagram,
                                    size_t capacity)
{
    const size_t cri_at = HEAD_LEN + OPTION_HEAD_LEN;
    struct cri_builder builder;
    size_t cri_len = 0;

    if (capacity < cri_at) {
        return 0;
    }
    cri_builder_init(&builder, datagram + cri_at, capacity - cri_at);
    cri_builder_scheme(&builder, CRI_SCHEME_COAP);
    cri_builder_host_name(&builder, request->host);
    cri_builder_segment(&builder, request->segment);
    /* A CRI below 13 bytes would have a shorter option header; none with a name and a path is. */
    if (cri_builder_finish(&builder, &cri_len, NULL) != CRI_OK || cri_len < EXTENDED ||
        cri_len > EXTENDED + UINT8_MAX) {
        return 0;
    }
    datagram[0] = COAP_CON | TOKEN_LEN;
    datagram[1] = COAP_GET;
    datagram[2] = (uint8_t)(request->message_id >> 8);
    datagram[3] = (uint8_t)request->message_id;
    for (size_t i = 0; i < TOKEN_LEN; i++) {
        datagram[4 + i] = request->token[i];
    }
    datagram[HEAD_LEN] = EXTENDED << 4 | EXTENDED;
    datagram[HEAD_LEN + 1] = CRI_OPTION_PROXY_CRI - EXTENDED;
    datagram[HEAD_LEN + 2] = (uint8_t)(cri_len - EXTENDED);
    return cri_at + cri_len;
}

/* What a nibble of an option's header says; false where the datagram ends before it does. */
static bool read_nibble(unsigned nibble, const uint8_t *data, size_t len, size_t *at, size_t *value)
{
    *value = nibble;
    if (nibble == EXTENDED && *at < len) {
        *value = EXTENDED + data[(*at)++];
    } else if (nibble == EXTENDED + 1 && len - *at >= 2) {
        *value = 269u + (unsigned)(data[*at] << 8 | data[*at + 1]);
        *at += 2;
    } else if (nibble >= EXTENDED) {
        return false;
    }
    return true;
}

/* The payload of a 2.05 with the request's token; false for any other datagram. */
static bool device_answer_read(const struct device_request *request, const uint8_t *data,
                               size_t len, struct cri_slice *ret_payload)
{
    size_t at = HEAD_LEN, skipped, value;

    if (len < HEAD_LEN || data[0] >> 6 != 1 || (data[0] & 15u) != TOKEN_LEN ||
        data[1] != COAP_CONTENT) {
        return false;
    }
    for (size_t i = 0; i < TOKEN_LEN; i++) {
        if (data[4 + i] != request->token[i]) {
            return false;
        }
    }
    while (at < len && data[at] != 0xff) {
        const unsigned head = data[at++];
        if (!read_nibble(head >> 4, data, len, &at, &skipped) ||
            !read_nibble(head & 15u, data, len, &at, &value) || value > len - at) {
            return false;
        }
        at += value;
    }
    if (at == len) {
        *ret_payload = (struct cri_slice){data + at, 0};
        return true;
    }
    *ret_payload = (struct cri_slice){data + at + 1, len - at - 1};
    return ret_payload->len > 0; /* RFC 7252 section 3: a marker without payload is malformed */
}

static const struct device_request request = {
    .host = {(const uint8_t *)"sensor.example", sizeof("sensor.example") - 1},
    .segment = {(const uint8_t *)"temp", sizeof("temp") - 1},
    .message_id = 0x7d34, /* at random in a device, and so is the token */
    .token = {0x9a, 0x51, 0x00, 0xc7},
};

#ifdef CRI_FREESTANDING

/* The network of the device's operating system: Zephyr, RIOT, ESP-IDF, or none. */
void device_send(const uint8_t *datagram, size_t len);
size_t device_receive(uint8_t *datagram, size_t capacity);
void device_show(struct cri_slice payload);
void device_ask(void);

/* Once, without RFC 7252's repetition, which belongs to the device's clock. */
void device_ask(void)
{
    uint8_t datagram[128];
    struct cri_slice payload;
    size_t len = device_request_encode(&request, datagram, sizeof(datagram));

    if (len > 0) {
        device_send(datagram, len);
        len = device_receive(datagram, sizeof(datagram));
        if (device_answer_read(&request, datagram, len, &payload)) {
            device_show(payload);
        }
    }
}

#else

#include <stdio.h>

int main(void)
{
    /* 2.05 with ETag, Content-Format and Max-Age, as a proxy would send it. */
    static const uint8_t answer[] = {0x64, 0x45, 0x7d, 0x34, 0x9a, 0x51, 0x00, 0xc7, 0x42, 0x01,
                                     0x02, 0x80, 0x21, 0x3c, 0xff, '2',  '1',  '.',  '5'};
    uint8_t datagram[128];
    struct cri_slice payload = {NULL, 0};
    size_t len = device_request_encode(&request, datagram, sizeof(datagram));

    for (size_t i = 0; i < len; i++) {
        printf("%02x%s", datagram[i], i + 1 == len ? "\n" : "");
    }
    if (!device_answer_read(&request, answer, sizeof(answer), &payload)) {
        return 1;
    }
    printf("%.*s\n", (int)payload.len, (const char *)payload.data);
    /* One byte less each time: an answer that was cut is read, refused, or has no payload. */
    for (size_t cut = 0; cut < sizeof(answer) - 4; cut++) {
        if (device_answer_read(&request, answer, cut, &payload) && payload.len > 0) {
            return 1;
        }
    }
    return 0;
}

#endif
