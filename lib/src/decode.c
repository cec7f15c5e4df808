/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRI references from CBOR.
 *
 * How it works: one function per rule of the CDDL (Figure 2 of the draft), each of which asks the
 * reader for the next item where the rule needs one. Depth is fixed by the grammar: sections,
 * lists, items, pieces. Rules beyond the CDDL are checked where the item is read, so that every
 * fault has its place.
 *
 * Requests of the most frequent shape do not come so far; see decode_plain.c.
 */
#include "internal.h"

struct decoder {
    struct cri__reader in;
    struct cri cri;
    bool strict;
#ifndef CRI_FREESTANDING
    bool is_raw; /* See cri__decode_raw(). */
#endif
    uint32_t allowed;     /* CRI_FEATURE_* that are on. */
    struct cri_fault off; /* Where a feature that is off was used first; rule NULL: nowhere. */
    size_t section_at;    /* Of the section read last. */
    size_t path_at;       /* Of the path section, or of the array. */
    struct cri_item item; /* Of which only its being right counts. */
    struct cri_fault *ret_fault;
};

/* A freestanding build does not normalise. */
static inline bool is_raw(const struct decoder *d)
{
#ifdef CRI_FREESTANDING
    (void)d;
    return false;
#else
    return d->is_raw;
#endif
}

static enum cri_error fail_at(struct decoder *d, enum cri_error error, size_t offset,
                              const char *rule)
{
    return cri__fail(d->ret_fault, error, offset, rule);
}

/* The item that was read last is the one that is wrong. */
static enum cri_error fail(struct decoder *d, enum cri_error error, const char *rule)
{
    return cri__fail(d->ret_fault, error, d->in.at, rule);
}

/* Features that are off count only once the whole turns out well-formed (FEAT-6). */
static void use_feature(struct decoder *d, uint32_t feature, const char *rule)
{
    d->cri.features |= feature;
    if ((d->allowed & feature) == 0 && d->off.rule == NULL) {
        d->off.offset = d->in.at;
        d->off.rule = rule;
    }
}

/* Refuses items that are nowhere allowed in a CRI, each with its own error. */
static enum cri_error check_kind(struct decoder *d)
{
    switch (d->in.kind) {
    case CRI__INDEFINITE:
        return fail(d, CRI_ERR_INDEFINITE, "indefinite length");
    case CRI__BREAK:
        return fail(d, CRI_ERR_CBOR, "break outside of indefinite length");
    case CRI__TAG:
        return fail(d, CRI_ERR_TAG, "tag not enabled");
    case CRI__SIMPLE:
        return fail(d, CRI_ERR_TAG, "simple value not enabled");
    case CRI__UINT:
    case CRI__NINT:
    case CRI__BYTES:
    case CRI__TEXT:
    case CRI__ARRAY:
    case CRI__MAP:
    case CRI__FALSE:
    case CRI__TRUE:
    case CRI__NULL:
    case CRI__FLOAT:
    case CRI__END:
        break;
    }
    if (d->strict && cri__head_is_long(&d->in)) {
        return fail(d, CRI_ERR_NOT_STRICT, "head longer than needed");
    }
    return CRI_OK;
}

static enum cri_error next(struct decoder *d)
{
    enum cri_error error = cri__read(&d->in, d->ret_fault);
    if (error == CRI_OK && (d->in.kind >= CRI__TAG || d->strict)) {
        error = check_kind(d);
    }
    return error;
}

/* Next item of an array of which *left are to come; CRI__END when there is none. */
static enum cri_error next_of(struct decoder *d, size_t *left)
{
    if (*left == 0) {
        d->in.at = d->in.pos;
        d->in.kind = CRI__END;
        return CRI_OK;
    }
    --*left;
    return next(d);
}

/* Error for a text that is not UTF-8, or under strict checking not in NFC. */
static enum cri_error check_unicode(struct decoder *d, struct cri_slice text)
{
    size_t good = cri__utf8_span(text.data, text.len);
    if (good < text.len) {
        return fail_at(d, CRI_ERR_UTF8, d->in.pos - text.len + good, "text is not valid UTF-8");
    }
    if (d->strict && !cri__is_nfc(text)) {
        return fail(d, CRI_ERR_NFC, "text is not in Normalization Form C");
    }
    return CRI_OK;
}

static enum cri_error cri__check_label(struct cri_slice text, size_t *ret_offset,
                                       const char **ret_rule)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t octet = text.data[i];
        if (octet == '.') {
            *ret_rule = CRI__RULE("host label contains a dot"); /* CRI-22 */
        } else if (octet >= 'A' && octet <= 'Z') {
            *ret_rule = CRI__RULE("host label contains a capital letter"); /* CRI-23 */
        } else {
            continue;
        }
        *ret_offset = i;
        return CRI_ERR_HOST;
    }
    return CRI_OK;
}

/* The text read last, when a quick look at it was not enough. */
static enum cri_error text_slowly(struct decoder *d, struct cri_slice string,
                                  enum cri__component component)
{
    if (component == CRI__LABEL && !is_raw(d)) {
        size_t offset = 0;
        const char *rule = NULL;
        enum cri_error error = cri__check_label(string, &offset, &rule);
        if (error != CRI_OK) {
            return fail_at(d, error, d->in.pos - string.len + offset, rule);
        }
    }
    return check_unicode(d, string);
}

static inline enum cri_error text(struct decoder *d, struct cri_slice string,
                                  enum cri__component component)
{
    bool is_plain = cri__is_plain(string, component == CRI__LABEL);
    if (component == CRI__SEGMENT && cri__is_dot_segment(string)) {
        return fail(d, CRI_ERR_PATH, "dot-segment in the path"); /* CRI-34 */
    }
    return is_plain ? CRI_OK : text_slowly(d, string, component);
}

/* PET-3: unreserved octets and whole UTF-8 characters have to be text. */
static size_t cri__pet_minimal_span(struct cri_slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t octet = bytes.data[i];
        if (octet < 0x80 ? cri__is_unreserved(octet)
                         : cri__utf8_len(bytes.data + i, bytes.len - i) > 0) {
            return i;
        }
    }
    return bytes.len;
}

/* text-pet-sequence = [?text1, ((+(pet1, text1), ?pet1) // pet1)]   (section 7.2) */
static enum cri_error pet(struct decoder *d, enum cri__component component,
                          struct cri_item *ret_item)
{
    size_t left = (size_t)d->in.arg;
    size_t array_at = d->in.at;
    size_t start = d->in.pos;
    bool has_bytes = false;
    enum cri__kind previous = CRI__END;

    use_feature(d, CRI_FEATURE_TEXT_OR_PET, CRI__RULE("text-or-pet is off"));
    while (left > 0) {
        enum cri_error error = next_of(d, &left);
        if (error != CRI_OK) {
            return error;
        }
        if (d->in.kind != CRI__TEXT && d->in.kind != CRI__BYTES) {
            return fail(d, CRI_ERR_STRUCTURE, "neither text nor bytes in a text-pet-sequence");
        }
        if (d->in.kind == previous) {
            return fail(d, CRI_ERR_PET, "text and bytes do not alternate");
        }
        if (d->in.string.len == 0) {
            return fail(d, CRI_ERR_PET, "empty string in a text-pet-sequence");
        }
        previous = d->in.kind;
        if (previous == CRI__TEXT) {
            error = text(d, d->in.string, component == CRI__SEGMENT ? CRI__FRAGMENT : component);
            if (error != CRI_OK) {
                return error;
            }
            continue;
        }
        has_bytes = true;
        size_t good = cri__pet_minimal_span(d->in.string);
        if (good < d->in.string.len) {
            return fail_at(d, CRI_ERR_PET, d->in.pos - d->in.string.len + good,
                           "percent-encoded bytes that belong in text");
        }
    }
    if (!has_bytes) {
        return fail_at(d, CRI_ERR_PET, array_at, "text-pet-sequence without bytes");
    }
    *ret_item =
        (struct cri_item){.is_pet = true, .pieces = {d->in.data + start, d->in.pos - start}};
    return CRI_OK;
}

/* text-or-pet, the item read last being its first. */
static enum cri_error text_or_pet(struct decoder *d, enum cri__component component,
                                  struct cri_item *ret_item)
{
    if (d->in.kind == CRI__TEXT) {
        *ret_item = (struct cri_item){.text = d->in.string};
        return text(d, d->in.string, component);
    }
    if (d->in.kind == CRI__ARRAY) {
        return pet(d, component, ret_item);
    }
    return fail(d, CRI_ERR_STRUCTURE, "neither text nor a text-pet-sequence");
}

/* scheme-id, scheme-name, null, true or 0..127; see which element of the array is left. */
static enum cri_error first_section(struct decoder *d, bool *ret_is_discard)
{
    *ret_is_discard = false;
    d->cri.discard = CRI_DISCARD_ALL;
    switch ((int)d->in.kind) { /* NOLINT: most kinds have no place here */
    case CRI__NINT:
        d->cri.scheme = CRI_SCHEME_ID;
        d->cri.scheme_number = d->in.arg;
        return CRI_OK;
    case CRI__TEXT:
        if (!cri__is_scheme_name(d->in.string, is_raw(d))) {
            return fail(d, CRI_ERR_SCHEME, "not a scheme name in lower case");
        }
        use_feature(d, CRI_FEATURE_SCHEME_NAME, CRI__RULE("scheme-name is off"));
        d->cri.scheme = CRI_SCHEME_NAME;
        d->cri.scheme_name = d->in.string;
        return CRI_OK;
    case CRI__NULL:
        return CRI_OK;
    case CRI__TRUE:
        *ret_is_discard = true;
        return CRI_OK;
    case CRI__UINT:
        if (d->in.arg >= CRI_DISCARD_ALL) {
            return fail(d, CRI_ERR_STRUCTURE, "discard over 127");
        }
        *ret_is_discard = true;
        d->cri.discard = (uint16_t)d->in.arg;
        return CRI_OK;
    default:
        return fail(d, CRI_ERR_STRUCTURE, "first section is neither scheme nor discard");
    }
}

/* AMB-12; only a digit or a bracket in front makes it worth a look. */
static bool spells_address(const struct decoder *d)
{
    const struct cri_slice encoded = d->cri.labels.encoded;
    /* The first label's first octet, unless it is empty or has a long head. */
    uint8_t first = encoded.len > 1 ? encoded.data[1] : 0;
    bool is_short =
        encoded.data[0] > CRI__EMPTY_TEXT && encoded.data[0] < CRI__EMPTY_TEXT + CRI__SHORT_MAX;

    if (is_raw(d) || (is_short && first != '[' && (first < '0' || first > '9'))) {
        return false;
    }
    return cri__labels_spell_address(&d->cri.labels);
}

/* The labels of a host-name, the item read last being the first; stops after them. */
static enum cri_error host_name(struct decoder *d, size_t *left)
{
    size_t start = d->in.at;
    size_t count = 0;
    struct cri_slice label;

    d->cri.authority = CRI_AUTHORITY_HOST_NAME;
    while (d->in.kind == CRI__TEXT || d->in.kind == CRI__ARRAY) {
        enum cri_error error = text_or_pet(d, CRI__LABEL, &d->item);
        while (error == CRI_OK && *left > 0 && cri__read_short_text(&d->in, &label)) {
            error = text(d, label, CRI__LABEL);
            --*left;
            count++;
        }
        if (error == CRI_OK) {
            error = next_of(d, left);
        }
        if (error != CRI_OK) {
            return error;
        }
        count++;
    }
    if (count == 0) {
        return fail(d, CRI_ERR_AUTHORITY, "host without labels");
    }
    d->cri.labels.is_set = true;
    d->cri.labels.count = count;
    d->cri.labels.encoded = cri__slice(d->in.data + start, d->in.at - start);
    if (spells_address(d)) {
        return fail_at(d, CRI_ERR_HOST, start, "host labels spell an IP address");
    }
    return CRI_OK;
}

/* host-ip = (bytes .size (4/16), ?zone-id), the bytes having been read; stops after it. */
static enum cri_error host_ip(struct decoder *d, size_t *left)
{
    if (d->in.string.len != 4 && d->in.string.len != 16) {
        return fail(d, CRI_ERR_HOST, "IP address of neither 4 nor 16 bytes");
    }
    d->cri.authority = CRI_AUTHORITY_HOST_IP;
    d->cri.ip = d->in.string;
    enum cri_error error = next_of(d, left);
    if (error != CRI_OK || d->in.kind != CRI__TEXT) {
        return error;
    }
    use_feature(d, CRI_FEATURE_ZONE_ID, CRI__RULE("zone-id is off"));
    d->cri.has_zone = true;
    d->cri.zone = d->in.string;
    error = check_unicode(d, d->in.string);
    return error == CRI_OK ? next_of(d, left) : error;
}

/* authority = [?userinfo, host, ?port], the array's head having been read. */
static enum cri_error authority_array(struct decoder *d)
{
    size_t left = (size_t)d->in.arg;
    enum cri_error error = next_of(d, &left);

    if (error == CRI_OK && d->in.kind == CRI__FALSE) {
        use_feature(d, CRI_FEATURE_USERINFO, CRI__RULE("userinfo is off"));
        d->cri.has_userinfo = true;
        error = next_of(d, &left);
        if (error == CRI_OK) {
            error = text_or_pet(d, CRI__USERINFO, &d->cri.userinfo);
        }
        if (error == CRI_OK) {
            error = next_of(d, &left);
        }
    }
    if (error == CRI_OK) {
        error = d->in.kind == CRI__BYTES ? host_ip(d, &left) : host_name(d, &left);
    }
    if (error == CRI_OK && d->in.kind == CRI__UINT) {
        if (d->in.arg > UINT16_MAX) {
            return fail(d, CRI_ERR_AUTHORITY, "port over 65535");
        }
        d->cri.has_port = true;
        d->cri.port = (uint16_t)d->in.arg;
        error = next_of(d, &left);
    }
    if (error == CRI_OK && d->in.kind != CRI__END) {
        return fail(d, CRI_ERR_STRUCTURE, "unexpected item in the authority");
    }
    return error;
}

static enum cri_error authority_section(struct decoder *d)
{
    switch ((int)d->in.kind) { /* NOLINT: most kinds have no place here */
    case CRI__ARRAY:
        return authority_array(d);
    case CRI__TRUE:
        use_feature(d, CRI_FEATURE_NO_AUTHORITY, CRI__RULE("no-authority is off"));
        d->cri.authority = CRI_AUTHORITY_ROOTLESS;
        return CRI_OK;
    case CRI__NULL:
        if (!cri__is_full(&d->cri)) {
            return fail(d, CRI_ERR_STRUCTURE, "scheme and authority both null");
        }
        return CRI_OK;
    default:
        return fail(d, CRI_ERR_STRUCTURE, "authority is neither array, null nor true");
    }
}

/* path = [*text-or-pet] or query likewise, or null. */
static enum cri_error list_section(struct decoder *d, enum cri__component component,
                                   struct cri_list *ret_list)
{
    if (d->in.kind == CRI__NULL) {
        return CRI_OK;
    }
    if (d->in.kind != CRI__ARRAY) {
        return fail(d, CRI_ERR_STRUCTURE,
                    component == CRI__SEGMENT ? "path is neither array nor null"
                                              : "query is neither array nor null");
    }
    size_t left = (size_t)d->in.arg;
    size_t start = d->in.pos;
    ret_list->count = left;
    while (left > 0) {
        enum cri_error error;
        struct cri_slice string;
        if (cri__read_short_text(&d->in, &string)) {
            left--;
            error = text(d, string, component);
        } else {
            error = next_of(d, &left);
            if (error == CRI_OK) {
                error = text_or_pet(d, component, &d->item);
            }
        }
        if (error != CRI_OK) {
            return error;
        }
    }
    ret_list->is_set = true;
    ret_list->encoded = cri__slice(d->in.data + start, d->in.pos - start);
    return CRI_OK;
}

static enum cri_error fragment_section(struct decoder *d)
{
    if (d->in.kind == CRI__NULL) {
        return CRI_OK; /* A trailing null; refused where all sections are. */
    }
    d->cri.has_fragment = true;
    return text_or_pet(d, CRI__FRAGMENT, &d->cri.fragment);
}

static enum cri_error next_section(struct decoder *d, size_t *left)
{
    enum cri_error error = next_of(d, left);
    d->section_at = d->in.at;
    return error;
}

/* The sections behind scheme and authority, or behind discard. */
static enum cri_error local_part(struct decoder *d, size_t left)
{
    enum cri_error error = CRI_OK;

    if (left > 0) {
        error = next_section(d, &left);
        d->path_at = d->in.at;
        if (error == CRI_OK) {
            error = list_section(d, CRI__SEGMENT, &d->cri.path);
        }
    }
    if (error == CRI_OK && left > 0) {
        error = next_section(d, &left);
        if (error == CRI_OK) {
            error = list_section(d, CRI__PARAMETER, &d->cri.query);
        }
    }
    if (error == CRI_OK && left > 0) {
        error = next_section(d, &left);
        if (error == CRI_OK) {
            error = fragment_section(d);
        }
    }
    return error;
}

/* Section 5.1 wants defaults removed at the end; only null is refused always (AMB-1). */
static enum cri_error check_end(struct decoder *d, size_t count, bool is_discard)
{
    const struct cri *cri = &d->cri;

    if (d->in.data[d->section_at] == 0xf6) {
        return fail_at(d, CRI_ERR_TRAILING_DEFAULT, d->section_at, "trailing null");
    }
    if (!d->strict) {
        return CRI_OK;
    }
    bool is_append = is_discard && cri->discard == 0;
    if (count == 1 && is_append) {
        return fail_at(d, CRI_ERR_TRAILING_DEFAULT, d->section_at, "lone discard 0");
    }
    /* AMB-5: behind discard 0 an empty array changes what the reference resolves to. */
    size_t path_count = is_discard ? 2 : 3;
    bool ends_with_path = count == path_count && cri->path.count == 0;
    bool ends_with_query = count == path_count + 1 && cri->query.count == 0;
    if ((ends_with_path && !is_append) || (ends_with_query && (!is_append || cri->path.is_set))) {
        return fail_at(d, CRI_ERR_TRAILING_DEFAULT, d->section_at, "trailing empty array");
    }
    return CRI_OK;
}

/* The rules of a scheme: a null list is an empty one (AMB-2), and the rules of section 2.3. */
static enum cri_error finish_full(struct decoder *d)
{
    struct cri *cri = &d->cri;

    cri->path.is_set = true;
    cri->query.is_set = true;
    if (cri->authority == CRI_AUTHORITY_HOST_NAME || cri->authority == CRI_AUTHORITY_HOST_IP) {
        return CRI_OK;
    }
    d->in.at = d->path_at;
    use_feature(d, CRI_FEATURE_NO_AUTHORITY, CRI__RULE("no-authority is off"));
    const char *rule = cri__check_full_path(cri);
    return rule == NULL ? CRI_OK : fail_at(d, CRI_ERR_PATH, d->path_at, rule);
}

/* CRI-Reference (Figure 2), the head of the array having been read. */
static enum cri_error reference(struct decoder *d)
{
    size_t count = (size_t)d->in.arg;
    size_t left = count;
    size_t array_at = d->in.at;
    bool is_discard = false;

    if (count == 0) {
        return CRI_OK; /* The same as [0]: section 5.2. */
    }
    enum cri_error error = next_section(d, &left);
    if (error == CRI_OK) {
        error = first_section(d, &is_discard);
    }
    if (error != CRI_OK) {
        return error;
    }
    if (count > (is_discard ? 4 : 5)) {
        return fail_at(d, CRI_ERR_STRUCTURE, array_at, "too many sections");
    }
    if (!is_discard && left > 0) {
        error = next_section(d, &left);
        if (error == CRI_OK) {
            error = authority_section(d);
        }
    }
    if (error == CRI_OK) {
        error = local_part(d, left);
    }
    if (error == CRI_OK) {
        error = check_end(d, count, is_discard);
    }
    if (error == CRI_OK && cri__is_full(&d->cri)) {
        error = finish_full(d);
    }
    return error;
}

/* The head of the outer array, behind tag 99 where that is allowed. */
static enum cri_error outer_array(struct decoder *d, bool allow_tag99)
{
    enum cri_error error = cri__read(&d->in, d->ret_fault);

    if (error == CRI_OK && allow_tag99 && d->in.kind == CRI__TAG && d->in.arg == CRI_TAG) {
        error = cri__read(&d->in, d->ret_fault);
    }
    if (error == CRI_OK) {
        error = check_kind(d);
    }
    if (error == CRI_OK && d->in.kind != CRI__ARRAY) {
        return fail(d, CRI_ERR_STRUCTURE, "not an array");
    }
    return error;
}

static const struct cri_decode_options default_options = {.features_off = 0};

static void decoder_init(struct decoder *d, struct cri_slice encoded,
                         const struct cri_decode_options *options, struct cri_fault *ret_fault)
{
    d->in.data = encoded.data;
    d->in.len = encoded.len;
    d->in.pos = 0;
    cri__unset(&d->cri);
    d->strict = options->strict;
#ifndef CRI_FREESTANDING
    d->is_raw = false;
#endif
    d->allowed = ~options->features_off;
    d->off.rule = NULL;
    d->section_at = 0;
    d->path_at = 0;
    d->ret_fault = ret_fault;
}

static enum cri_error decode(struct decoder *d, bool allow_tag99, struct cri *ret_cri)
{
    enum cri_error error = outer_array(d, allow_tag99);
    if (error == CRI_OK) {
        error = reference(d);
    }
    if (error != CRI_OK) {
        return error;
    }
    if (d->in.pos < d->in.len) {
        return fail_at(d, CRI_ERR_TRAILING_BYTES, d->in.pos, "bytes after the end of the array");
    }
    if (d->off.rule != NULL) {
        return fail_at(d, CRI_ERR_FEATURE, d->off.offset, d->off.rule);
    }
    *ret_cri = d->cri;
    return CRI_OK;
}

CRI__APART static enum cri_error decode_by_rules(struct cri_slice encoded,
                                                 const struct cri_decode_options *options,
                                                 struct cri *ret_cri, struct cri_fault *ret_fault)
{
    struct decoder d;

    decoder_init(&d, encoded, options, ret_fault);
    return decode(&d, options->allow_tag99, ret_cri);
}

enum cri_error cri_decode(struct cri_slice encoded, const struct cri_decode_options *options,
                          struct cri *ret_cri, struct cri_fault *ret_fault)
{
    if (options == NULL) {
        options = &default_options;
    }
    if (options->size != 0 && !cri__options_are_known(options, options->size, sizeof *options)) {
        return cri__fail(ret_fault, CRI_ERR_ARGUMENT, 0, "options of another version");
    }
    if (!options->strict && cri__decode_plain(encoded, ret_cri)) {
        return CRI_OK;
    }
    return decode_by_rules(encoded, options, ret_cri, ret_fault);
}

#ifndef CRI_FREESTANDING
enum cri_error cri__decode_raw(struct cri_slice encoded, struct cri *ret_cri,
                               struct cri_fault *ret_fault)
{
    struct decoder d;

    decoder_init(&d, encoded, &default_options, ret_fault);
    d.is_raw = true;
    return decode(&d, false, ret_cri);
}

/* CRI-local-part = [path, ?query] (section 8.3) */
enum cri_error cri__decode_local_part(struct cri_slice encoded, bool strict,
                                      struct cri_list *ret_path, struct cri_list *ret_query,
                                      size_t *ret_extent, struct cri_fault *ret_fault)
{
    struct decoder d;

    decoder_init(&d, encoded, &default_options, ret_fault);
    d.strict = strict;
    enum cri_error error = outer_array(&d, false);
    if (error != CRI_OK) {
        return error;
    }
    const size_t count = (size_t)d.in.arg;
    if (count < 1 || count > 2) {
        return fail(&d, CRI_ERR_STRUCTURE, "a local part has a path and perhaps a query");
    }
    error = local_part(&d, count);
    if (error != CRI_OK) {
        return error;
    }
    if (!d.cri.path.is_set || (count == 2 && !d.cri.query.is_set)) {
        return fail_at(&d, CRI_ERR_STRUCTURE, d.section_at, "null in a local part");
    }
    if (strict && count == 2 && d.cri.query.count == 0) {
        return fail_at(&d, CRI_ERR_TRAILING_DEFAULT, d.section_at, "trailing empty array");
    }
    *ret_path = d.cri.path;
    *ret_query = d.cri.query;
    *ret_extent = d.in.pos;
    return CRI_OK;
}
#endif

enum cri_error cri_decode_next(struct cri_slice *rest, const struct cri_decode_options *options,
                               struct cri *ret_cri, struct cri_slice *ret_item,
                               struct cri_fault *ret_fault)
{
    size_t extent;
    enum cri_error error = cri_skip(*rest, &extent, ret_fault);

    if (error != CRI_OK) {
        return error;
    }
    struct cri_slice item = cri__slice(rest->data, extent);
    rest->data += extent;
    rest->len -= extent;
    if (ret_item != NULL) {
        *ret_item = item;
    }
    return cri_decode(item, options, ret_cri, ret_fault);
}
