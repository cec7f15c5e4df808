/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/hostname.h"

#include <arpa/inet.h>
#include <string.h>
#if CRI_WITH_IDN
#include <idn2.h>
#endif

/*
 * Unreserved characters and sub-delims of RFC 3986 without capital letters; not '%', which
 * would read as encoded (AMB-42). Few names have more than letters, digits and "-_.", but
 * parents may.
 */
static bool is_name_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           (c != '\0' && c < 0x80 && strchr("_~!$&'()*+,;=", c) != NULL);
}

/* In lower case; false where a byte is not ASCII. */
static bool copy_ascii(const uint8_t *text, size_t len, struct hostname *name)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t c = text[i];
        if (c >= 0x80) {
            return false;
        }
        name->text[i] = c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
    }
    name->len = len;
    return true;
}

#if CRI_WITH_IDN

#define LABEL_MAX 63u /* bytes (RFC 1035 section 2.3.4) */

/*
 * The mapping turns compatibility characters, such as full-width digits, dots and slashes, into
 * plain ones, so its result is checked like any other text.
 */
static bool copy_as_a_labels(const uint8_t *text, size_t len, struct hostname *name)
{
    uint8_t terminated[HOSTNAME_MAX + 1], *found = NULL;
    if (memchr(text, '\0', len) != NULL) {
        return false;
    }
    memcpy(terminated, text, len);
    terminated[len] = '\0';
    if (idn2_lookup_u8(terminated, &found, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK) {
        return false;
    }
    size_t found_len = strlen((const char *)found);
    bool fits = found_len <= HOSTNAME_MAX && copy_ascii(found, found_len, name);
    idn2_free(found);
    return fits;
}

/*
 * An A-label is what its U-label becomes (RFC 5890 section 2.3.2.1). Anything else behind "xn--"
 * would be a second spelling of some name, or of none: which one is for each resolver to guess.
 */
static bool is_a_label(const uint8_t *label, size_t len)
{
    char terminated[LABEL_MAX + 1];
    uint8_t *found = NULL;
    if (len > LABEL_MAX) {
        return false;
    }
    memcpy(terminated, label, len);
    terminated[len] = '\0';
    /* libidn2 decodes the label, checks the result, and compares its encoding with the label. */
    if (idn2_lookup_u8((const uint8_t *)terminated, &found, IDN2_NONTRANSITIONAL) != IDN2_OK) {
        return false;
    }
    bool is_same = strcmp((const char *)found, terminated) == 0;
    idn2_free(found);
    return is_same;
}

#else /* without libidn2 there is no telling whether two spellings are one name: both are refused  \
       */

static bool copy_as_a_labels(const uint8_t *text, size_t len, struct hostname *name)
{
    (void)text;
    (void)len;
    (void)name;
    return false;
}

static bool is_a_label(const uint8_t *label, size_t len)
{
    (void)label;
    (void)len;
    return false;
}

#endif

static bool is_good_label(const uint8_t *label, size_t len)
{
    static const char prefix[] = {'x', 'n', '-', '-'};
    bool is_encoded = len >= sizeof(prefix) && memcmp(label, prefix, sizeof(prefix)) == 0;
    return !is_encoded || is_a_label(label, len);
}

/* Decimal and octal are digits; hexadecimal has 0x in front, and may have nothing behind. */
static bool hostname_is_number(const uint8_t *label, size_t len)
{
    bool is_hex = len >= 2 && label[0] == '0' && label[1] == 'x';
    for (size_t i = is_hex ? 2 : 0; i < len; i++) {
        bool is_digit = label[i] >= '0' && label[i] <= '9';
        if (!is_digit && !(is_hex && label[i] >= 'a' && label[i] <= 'f')) {
            return false;
        }
    }
    return true;
}

/* Where the last label is, without the dot behind it. */
struct label {
    const uint8_t *text;
    size_t len;
};

static enum hostname_kind check_labels(const struct hostname *name, struct label *ret_last)
{
    size_t len = name->len > 0 && name->text[name->len - 1] == '.' ? name->len - 1 : name->len;
    size_t label = 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_name_byte(name->text[i])) {
            return HOSTNAME_BYTE;
        }
        if (name->text[i] == '.') {
            if (i == label) {
                return HOSTNAME_EMPTY;
            }
            if (!is_good_label(name->text + label, i - label)) {
                return HOSTNAME_IDNA;
            }
            label = i + 1;
        }
    }
    if (!is_good_label(name->text + label, len - label)) {
        return HOSTNAME_IDNA;
    }
    *ret_last = (struct label){name->text + label, len - label};
    return len > label ? HOSTNAME_NAME : HOSTNAME_EMPTY;
}

static bool is_dotted_decimal(struct hostname *name)
{
    char text[INET_ADDRSTRLEN];
    if (name->len >= sizeof(text)) {
        return false;
    }
    memcpy(text, name->text, name->len);
    text[name->len] = '\0';
    return inet_pton(AF_INET, text, name->ipv4) == 1;
}

enum hostname_kind hostname_read(const uint8_t *text, size_t len, struct hostname *name)
{
    struct label last;
    if (len > HOSTNAME_MAX) {
        return HOSTNAME_BYTE;
    }
    if (!copy_ascii(text, len, name) && !copy_as_a_labels(text, len, name)) {
        return HOSTNAME_IDNA;
    }
    enum hostname_kind kind = check_labels(name, &last);
    if (kind != HOSTNAME_NAME || !hostname_is_number(last.text, last.len)) {
        return kind;
    }
    return is_dotted_decimal(name) ? HOSTNAME_IPV4 : HOSTNAME_NUMBER;
}

bool hostname_is_localhost(const uint8_t *text, size_t len)
{
    static const char localhost[] = "localhost";
    const size_t label_len = sizeof(localhost) - 1;
    if (len > 0 && text[len - 1] == '.') {
        len--;
    }
    return len >= label_len && memcmp(text + len - label_len, localhost, label_len) == 0 &&
           (len == label_len || text[len - label_len - 1] == '.');
}
