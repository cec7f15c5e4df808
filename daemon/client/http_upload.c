/* SPDX-License-Identifier: BSD-2-Clause */
/* Long bodies of HTTP requests, which go to the origin server in blocks while they come. */
#include "client/http_front_internal.h"

#include "coap/block.h"
#include "coap/option.h"
#include "fetch/transfer.h"

static uint32_t upload_block_bytes(const struct http_upload *upload)
{
    return 16u << upload->szx;
}

uint64_t front_joined_max(const struct http_front *front)
{
    uint64_t joined_max = front_config(front)->http_window / 2;
    uint8_t code = front->exchange->code;
    /* A FETCH is safe, and its payload a part of the question: it is asked as a whole. */
    bool may_have_blocks = code != CODE_GET && code != CODE_FETCH && code != CODE_DELETE;
    bool is_on = may_have_blocks && joined_max <= front->stream->side->fetch.bodies.body_max;
    return is_on ? joined_max : UINT64_MAX;
}

bool front_begin_upload(struct http_front *front, uint64_t body_len)
{
    struct http_upload *upload = &front->exchange->upload;
    *upload = (struct http_upload){
        .is_on = true,
        .szx = block_szx_for(front_config(front)->block_size),
        .body_len = body_len,
    };
    return body_len <= (BLOCK_NUM_MAX + UINT64_C(1)) * upload_block_bytes(upload);
}

/* A block is known to be the last one only when the end of the body has come. */
bool front_has_block(const struct http_front *front)
{
    const struct http_upload *upload = &front->exchange->upload;
    return upload->is_on && (upload->is_whole || front->body.len > upload_block_bytes(upload));
}

/* If-None-Match is about the first block, which may make the resource (as in fetch/transfer.c). */
static bool is_kept_for_upload(uint16_t number, const struct block *block)
{
    return number != OPTION_if_none_match || block->num == 0;
}

/* The options of its request, with Block1, and with Size1 in the first one (RFC 7959 section 4). */
static struct bytes upload_options(const struct http_exchange *exchange, const struct block *block,
                                   uint8_t buffer[HTTP_OPTIONS_MAX])
{
    struct message_writer writer = {.buffer = buffer, .capacity = HTTP_OPTIONS_MAX};
    bool needs_block = true, needs_size = block->num == 0 && exchange->upload.body_len > 0;
    struct option_iter iter;
    struct option option;
    bool has_option;
    option_iter_init(&iter, (struct bytes){exchange->options, exchange->options_len});
    do {
        has_option = option_iter_next(&iter, &option);
        if (needs_block && (!has_option || option.number > OPTION_block1)) {
            message_writer_option_uint(&writer, OPTION_block1, block_value(block));
            needs_block = false;
        }
        if (needs_size && (!has_option || option.number > OPTION_size1)) {
            message_writer_option_uint(&writer, OPTION_size1, (uint32_t)exchange->upload.body_len);
            needs_size = false;
        }
        if (has_option && is_kept_for_upload(option.number, block)) {
            message_writer_option(&writer, option.number, option.value);
        }
    } while (has_option);
    return (struct bytes){buffer, writer.overflow ? 0 : writer.len};
}

bool front_take_block(struct http_front *front, uint8_t buffer[HTTP_OPTIONS_MAX],
                      struct message *ret_message)
{
    struct http_upload *upload = &front->exchange->upload;
    uint32_t size = upload_block_bytes(upload);
    uint64_t number = upload->offset / size;
    upload->is_last = upload->is_whole && front->body.len <= size;
    upload->out_len = front->body.len < size ? (uint32_t)front->body.len : size;
    if (number > BLOCK_NUM_MAX) {
        return false;
    }
    const struct block block = {
        .num = (uint32_t)number, .more = !upload->is_last, .szx = upload->szx};
    ret_message->options = upload_options(front->exchange, &block, buffer);
    ret_message->payload = (struct bytes){front->body.data, upload->out_len};
    return ret_message->options.len > 0;
}

/* The next block at the end of the turn, if it has come; else more of the body. */
static void go_on_with_upload(struct http_front *front)
{
    if (front_has_block(front)) {
        front->exchange->upload.is_due = true;
        front_make_ready(front);
        return;
    }
    front->state = FRONT_BODY;
    front_wait_for_body(front);
    stream_pause(front->stream, false);
}

/* The block that is out has been taken, and the next ones are to be of @p szx, if that is less. */
static void leave_block(struct http_front *front, uint8_t szx)
{
    struct http_upload *upload = &front->exchange->upload;
    struct http_body *body = &front->body;
    body->len -= upload->out_len;
    memmove(body->data, body->data + upload->out_len, body->len);
    upload->offset += upload->out_len;
    upload->szx = szx < upload->szx ? szx : upload->szx; /* NUM counts in the new size (BLK-9) */
    go_on_with_upload(front);
}

bool front_upload_is_answered(struct http_front *front, const struct reply *reply,
                              struct reply *ret_reply)
{
    struct http_exchange *exchange = front->exchange;
    struct http_upload *upload = &exchange->upload;
    struct block block = {0};
    bool has_block = transfer_find_block(reply, OPTION_block1, &block);
    bool is_taken = has_block && block.num == upload->offset / upload_block_bytes(upload);
    if (reply->code == CODE(4, 13) && has_block && upload->offset == 0 && block.szx < upload->szx) {
        upload->szx = block.szx; /* once more from the start, in smaller blocks (BLK-23) */
        go_on_with_upload(front);
        return false;
    }
    if (!upload->is_last && CODE_CLASS(reply->code) == 2 && is_taken) {
        if (reply->code != CODE(2, 31) && upload->code == 0) {
            upload->code = reply->code;
        }
        leave_block(front, block.szx);
        return false;
    }
    if (!upload->is_last && CODE_CLASS(reply->code) == 2) {
        front_refuse(front, 502, "the origin server took a block for the whole body",
                     exchange->origin, false);
        return false;
    }
    *ret_reply = *reply;
    if (upload->code == CODE(2, 1) && reply->code == CODE(2, 4)) {
        ret_reply->code = upload->code; /* the first block has made it (RFC 7959 section 2.10) */
    }
    exchange->keeps_alive = exchange->keeps_alive && upload->is_whole;
    return true;
}
