/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: a component is read as units, each a raw character or a run of
 * percent-encoded octets that make one. A unit goes into text, unless its raw form
 * would be legal there and mean something else, or is no character at all: then it
 * needs a byte string (U2C-13, AMB-21).
 */
#include "pct.h"

#include "host.h"

#include <string.h>

static uint32_t character_at(const uint8_t *data, size_t len)
{
    static const uint8_t lead_masks[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t character = data[0] & lead_masks[len];
    for (size_t i = 1; i < len; i++) {
        character = character << 6 | (data[i] & 0x3fu);
    }
    return character;
}

size_t cri__iri_character_len(struct cri_slice text, enum cri__component component, bool is_output)
{
    size_t len = cri__utf8_len(text.data, text.len);
    if (len < 2) {
        return 0;
    }
    uint32_t c = character_at(text.data, len);
    bool is_private = (c >= 0xe000 && c <= 0xf8ff) || c >= 0xf0000;
    bool is_ucschar = !is_private && c >= 0xa0 && !(c >= 0xfdd0 && c <= 0xfdef) &&
                      !(c >= 0xfff0 && c <= 0xffff) && !(c >= 0xe0000 && c <= 0xe0fff);
    bool is_noncharacter = (c & 0xfffe) == 0xfffe;
    bool is_bidi_format = c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e);
    bool is_allowed = (is_ucschar || (is_private && component == CRI__PARAMETER)) &&
                      !is_noncharacter && !(is_output && is_bidi_format);
    return is_allowed ? len : 0;
}

/* The octet of the triplet at the front of source, or -1. */
static int triplet(struct cri_slice source)
{
    if (source.len < 3 || source.data[0] != '%') {
        return -1;
    }
    int high = cri__hex_value(source.data[1]);
    int low = cri__hex_value(source.data[2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* A triplet whose octet is over 0x7f: with those behind it a character, or alone. */
static void read_encoded_character(struct cri_slice source, struct cri__unit *ret_unit)
{
    uint8_t octets[4] = {0};
    size_t count = 0;
    size_t wanted = 1;

    while (count < wanted) {
        int octet = triplet(cri__slice(source.data + 3 * count, source.len - 3 * count));
        if (octet < 0) {
            break;
        }
        octets[count++] = (uint8_t)octet;
        wanted = octets[0] < 0xe0 ? 2 : octets[0] < 0xf0 ? 3 : 4;
    }
    size_t len = cri__utf8_len(octets, count);
    ret_unit->is_pet = len == 0;
    ret_unit->len = (uint8_t)(len == 0 ? 1 : len);
    ret_unit->source_len = (uint8_t)(3 * ret_unit->len);
    for (size_t i = 0; i < ret_unit->len; i++) {
        ret_unit->octets[i] = octets[i];
    }
}

/* "/" between segments and "&" between parameters were cut away: encoded, they are text. */
static bool needs_pet(uint8_t octet, enum cri__component component)
{
    return cri__stands_for_itself(octet, component) && !cri__is_unreserved(octet);
}

enum cri_error cri__unit_read(struct cri_slice source, enum cri__component component, bool is_iri,
                              struct cri__unit *ret_unit, const char **ret_rule)
{
    uint8_t first = source.data[0];

    if (first == '%') {
        int octet = triplet(source);
        if (octet < 0) {
            *ret_rule = "\"%\" without two hexadecimal digits";
            return CRI_ERR_URI_SYNTAX;
        }
        if (octet >= 0x80) {
            read_encoded_character(source, ret_unit);
            return CRI_OK;
        }
        ret_unit->octets[0] = (uint8_t)octet;
        ret_unit->len = 1;
        ret_unit->source_len = 3;
        ret_unit->is_pet = needs_pet((uint8_t)octet, component);
        return CRI_OK;
    }
    size_t len = 1;
    if (first >= 0x80) {
        len = is_iri ? cri__iri_character_len(source, component, false) : 0;
    } else if (!cri__stands_for_itself(first, component)) {
        len = 0;
    }
    if (len == 0) {
        *ret_rule = "character that is not allowed here";
        return CRI_ERR_URI_SYNTAX;
    }
    for (size_t i = 0; i < len && i < sizeof ret_unit->octets; i++) {
        ret_unit->octets[i] = source.data[i];
    }
    ret_unit->len = (uint8_t)len;
    ret_unit->source_len = (uint8_t)len;
    ret_unit->is_pet = false;
    return CRI_OK;
}

/* Length of the raw part at the front of source: one octet each, none of them for a PET. */
static size_t raw_span(struct cri_slice source, enum cri__component component)
{
    return cri__class_span(source, cri__raw_classes(component));
}

enum cri_error cri__source_check(struct cri_slice source, enum cri__component component,
                                 bool is_iri, bool *ret_has_pet, size_t *ret_offset,
                                 const char **ret_rule)
{
    size_t at = 0;
    struct cri__unit unit;

    for (;;) {
        at += raw_span(cri__slice(source.data + at, source.len - at), component);
        if (at == source.len) {
            return CRI_OK;
        }
        enum cri_error error = cri__unit_read(cri__slice(source.data + at, source.len - at),
                                              component, is_iri, &unit, ret_rule);
        if (error != CRI_OK) {
            *ret_offset = at;
            return error;
        }
        if (unit.is_pet) {
            *ret_has_pet = true;
        }
        at += unit.source_len;
    }
}

/* A stretch of units that go into one string. */
struct run {
    struct cri_slice source;
    size_t len; /* Decoded. */
    bool is_pet;
};

/* Source was checked, so that any character over U+007F in it is allowed. */
static void read_checked(struct cri_slice source, enum cri__component component,
                         struct cri__unit *ret_unit)
{
    const char *rule;
    if (cri__unit_read(source, component, true, ret_unit, &rule) != CRI_OK) {
        *ret_unit = (struct cri__unit){.source_len = 1};
    }
}

static bool next_run(struct cri_slice *rest, enum cri__component component, struct run *ret_run)
{
    struct cri__unit unit;
    size_t at = 0;

    if (rest->len == 0) {
        return false;
    }
    ret_run->len = 0;
    while (at < rest->len) {
        read_checked(cri__slice(rest->data + at, rest->len - at), component, &unit);
        if (at == 0) {
            ret_run->is_pet = unit.is_pet;
        } else if (unit.is_pet != ret_run->is_pet) {
            break;
        }
        ret_run->len += unit.len;
        at += unit.source_len;
        if (!unit.is_pet) {
            size_t raw = raw_span(cri__slice(rest->data + at, rest->len - at), component);
            ret_run->len += raw;
            at += raw;
        }
    }
    ret_run->source = cri__slice(rest->data, at);
    rest->data += at;
    rest->len -= at;
    return true;
}

static void put_run(struct cri_writer *writer, const struct run *run, enum cri__component component,
                    bool to_lower)
{
    struct cri_slice rest = run->source;
    struct cri__unit unit;

    const unsigned kept = cri__raw_classes(component) & (to_lower ? ~CRI__CAPITAL : ~0u);

    cri__put_head(writer, run->is_pet ? CRI__MAJOR_BYTES : CRI__MAJOR_TEXT, run->len);
    while (rest.len > 0) {
        size_t raw = cri__class_span(rest, kept);
        if (raw > 0) {
            cri__put_raw(writer, rest.data, raw);
            rest.data += raw;
            rest.len -= raw;
            continue;
        }
        read_checked(rest, component, &unit);
        uint8_t first = unit.octets[0];
        if (to_lower && !unit.is_pet && first >= 'A' && first <= 'Z') {
            unit.octets[0] = first | 0x20u;
        }
        cri__put_raw(writer, unit.octets, unit.len);
        rest.data += unit.source_len;
        rest.len -= unit.source_len;
    }
}

/* Each triplet is an octet of the text, and all else is as it stands. */
static void put_decoded(struct cri_writer *writer, struct cri_slice source, bool to_lower)
{
    size_t len = source.len;

    for (struct cri_slice rest = source; rest.len > 0;) {
        const uint8_t *percent = memchr(rest.data, '%', rest.len);
        if (percent == NULL) {
            break;
        }
        len -= 2;
        rest.len -= (size_t)(percent - rest.data) + 1;
        rest.data = percent + 1;
    }
    if (len == source.len && !to_lower) {
        cri__put_plain_text(writer, source);
        return;
    }
    cri__put_short_head(writer, CRI__MAJOR_TEXT, len);
    if (writer->len <= writer->capacity && len <= writer->capacity - writer->len) {
        uint8_t *to = writer->buffer + writer->len;
        for (size_t i = 0; i < source.len; i++) {
            uint8_t octet = source.data[i];
            if (octet == '%') {
                octet = (uint8_t)triplet(cri__slice(source.data + i, source.len - i));
                i += 2;
            }
            bool is_capital = (cri__octet_classes[octet] & CRI__CAPITAL) != 0;
            *to++ = to_lower && is_capital ? octet | 0x20u : octet;
        }
    }
    writer->len += len;
}

void cri__put_source(struct cri_writer *writer, struct cri_slice source,
                     enum cri__component component, bool has_pet, bool to_lower)
{
    struct cri_slice rest = source;
    struct run run = {{NULL, 0}, 0, false};
    size_t count = 0;

    if (!has_pet) {
        put_decoded(writer, source, to_lower);
        return;
    }
    has_pet = false;
    while (next_run(&rest, component, &run)) {
        count++;
        has_pet = has_pet || run.is_pet;
    }
    if (has_pet) {
        cri__put_head(writer, CRI__MAJOR_ARRAY, count);
    }
    if (count == 0) {
        cri__put_head(writer, CRI__MAJOR_TEXT, 0);
    }
    if (count == 1) {
        put_run(writer, &run, component, to_lower);
        return;
    }
    rest = source;
    while (next_run(&rest, component, &run)) {
        put_run(writer, &run, component, to_lower);
    }
}
