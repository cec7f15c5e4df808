/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * A CRI reference from its parts, without a CBOR encoder: the way for a client that
 * knows scheme, host and path, and has no URI.
 *
 *     cri_builder_init(&builder, buffer, sizeof buffer);
 *     cri_builder_scheme(&builder, CRI_SCHEME_COAP);
 *     cri_builder_host_name(&builder, name);
 *     cri_builder_segment(&builder, segment);
 *     error = cri_builder_finish(&builder, &len, NULL);
 *
 * Parts are given in the order that they have in a CRI: scheme or discard, userinfo,
 * host, port, segments, parameters, fragment. Each may be left out. Nothing has to be
 * looked at in between: the first error stays, later calls do nothing, and
 * cri_builder_finish() tells of it. What it gives was decoded again, so it is a valid
 * CRI reference, in canonical form.
 *
 * No heap, no recursion; linear in the length of the parts. Parts are copied at once.
 */
#ifndef CRI_BUILDER_H
#define CRI_BUILDER_H

#include <cri/cri.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Output into a buffer; its fields are private. */
struct cri_writer {
    uint8_t *buffer; /**< @private */
    size_t capacity; /**< @private */
    size_t len;      /**< @private */
};

/** A CRI reference in the making; its fields are private. */
struct cri_builder {
    struct cri_writer out; /**< @private */
    size_t head_at;        /**< @private */
    size_t count;          /**< @private */
    size_t local_at;       /**< @private */
    size_t path_count;     /**< @private */
    size_t path_end;       /**< @private */
    size_t query_count;    /**< @private */
    size_t query_end;      /**< @private */
    const char *rule;      /**< @private */
    enum cri_error error;  /**< @private */
    uint16_t discard;      /**< @private */
    uint8_t stage;         /**< @private */
    uint8_t flags;         /**< @private */
};

/**
 * Begin.
 *
 * @param builder  borrows @p buffer until cri_builder_finish().
 * @param buffer   receives the encoded CRI reference; may be NULL when @p capacity is 0.
 * @param capacity bytes at @p buffer.
 */
CRI_API void cri_builder_init(struct cri_builder *builder, uint8_t *buffer, size_t capacity);

/**
 * The scheme by its @p number (CRI_SCHEME_COAP and so on, or any other). Errors are kept until
 * cri_builder_finish().
 */
CRI_API void cri_builder_scheme(struct cri_builder *builder, uint64_t number);

/**
 * The scheme by its @p name in lower case, for one without a number (feature scheme-name). @p name
 * is copied.
 */
CRI_API void cri_builder_scheme_name(struct cri_builder *builder, struct cri_slice name);

/**
 * A reference without scheme and authority: how many segments at the end of the base's
 * path it drops, 0 to 127, or CRI_DISCARD_ALL. Without scheme, authority and this call
 * it is 0.
 */
CRI_API void cri_builder_discard(struct cri_builder *builder, unsigned discard);

/**
 * No authority, and a path that does not begin with a slash in the URI (NOAUTH-ROOTLESS). Errors
 * are kept until cri_builder_finish().
 */
CRI_API void cri_builder_rootless(struct cri_builder *builder);

/** Text before the host, which is copied. */
CRI_API void cri_builder_userinfo(struct cri_builder *builder, struct cri_slice userinfo);

/**
 * The host by its @p name: it is split at its dots, and ASCII letters become lower case.
 * A name that spells an IP address is an error (CRI_ERR_HOST).
 */
CRI_API void cri_builder_host_name(struct cri_builder *builder, struct cri_slice name);

/**
 * The host by its address.
 *
 * @param builder the builder.
 * @param ip      4 or 16 bytes, network order.
 * @param zone    zone-id in UTF-8; empty when it has none.
 */
CRI_API void cri_builder_host_ip(struct cri_builder *builder, struct cri_slice ip,
                                 struct cri_slice zone);

/**
 * The port after the host. The scheme's default port is written like any other. Errors are kept
 * until cri_builder_finish().
 */
CRI_API void cri_builder_port(struct cri_builder *builder, uint16_t port);

/** Begin the path, which sets it even if no segment follows (in references). */
CRI_API void cri_builder_path(struct cri_builder *builder);

/** One more segment of the path, UTF-8, not percent-encoded; neither "." nor "..". */
CRI_API void cri_builder_segment(struct cri_builder *builder, struct cri_slice text);

/** Begin the query, which sets it even if no parameter follows (in references). */
CRI_API void cri_builder_query(struct cri_builder *builder);

/** One more parameter of the query, UTF-8, not percent-encoded. */
CRI_API void cri_builder_parameter(struct cri_builder *builder, struct cri_slice text);

/** The fragment, which may be empty and is copied. */
CRI_API void cri_builder_fragment(struct cri_builder *builder, struct cri_slice text);

/**
 * Complete the encoding and check it. The builder is of no use afterwards.
 *
 * @param builder   the builder.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or why it failed, and where in what has been encoded.
 * @return CRI_OK; CRI_ERR_ARGUMENT for a part that came too late, twice or where it has
 *         no place; CRI_ERR_SPACE, when the parts' texts have not been checked; the
 *         errors of cri_decode().
 */
CRI_API CRI_NODISCARD enum cri_error
cri_builder_finish(struct cri_builder *builder, size_t *ret_len, struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
