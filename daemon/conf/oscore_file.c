/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/oscore_file.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OSCORE_FILE_LINES_MAX 200u
#define OSCORE_FILE_LINE_MAX 190u /* what every inih takes, with room for its line feed and NUL */

static const char *const aead_words[] = {"AES-CCM-16-64-128", "AES-CCM-16-64-256", NULL};
static const char *const hkdf_words[] = {"HKDF-SHA-256", NULL};

enum oscore_key {
    KEY_SENDER_ID,
    KEY_RECIPIENT_ID,
    KEY_MASTER_SECRET,
    KEY_MASTER_SALT,
    KEY_ID_CONTEXT,
    KEY_AEAD,
    KEY_HKDF,
    KEY_COUNT,
};

/* The keys of the file. Those with words have no limits of their own. */
static const struct {
    const char *name;
    uint8_t min, max;         /* bytes */
    bool is_needed;           /* there has to be a line */
    const char *const *words; /* NULL: bytes in hexadecimal */
} oscore_rows[KEY_COUNT] = {
    [KEY_SENDER_ID] = {"sender-id", 0, OSCORE_ID_MAX, true, NULL},
    [KEY_RECIPIENT_ID] = {"recipient-id", 0, OSCORE_ID_MAX, true, NULL},
    [KEY_MASTER_SECRET] = {"master-secret", OSCORE_SECRET_MIN, OSCORE_SECRET_MAX, true, NULL},
    [KEY_MASTER_SALT] = {"master-salt", 0, OSCORE_SECRET_MAX, false, NULL},
    [KEY_ID_CONTEXT] = {"id-context", 1, OSCORE_ID_CONTEXT_MAX, false, NULL},
    [KEY_AEAD] = {"aead-algorithm", 0, 0, false, aead_words},
    [KEY_HKDF] = {"hkdf-algorithm", 0, 0, false, hkdf_words},
};

struct oscore_reader {
    FILE *file;
    const char *name;
    unsigned line; /* the one that was read last */
    bool is_bad;   /* an error has been written */
    bool is_set[KEY_COUNT];
    struct oscore_keys keys;
    char *error;
    size_t error_capacity;
};

/* Only the first error is kept. @p line 0: it is about the whole file. */
__attribute__((format(printf, 3, 4))) static void
oscore_file_error(struct oscore_reader *reader, unsigned line, const char *format, ...)
{
    char what[160];
    va_list arguments;

    if (reader->is_bad) {
        return;
    }
    reader->is_bad = true;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (line > 0) {
        (void)snprintf(reader->error, reader->error_capacity, "%s:%u: %s", reader->name, line,
                       what);
    } else {
        (void)snprintf(reader->error, reader->error_capacity, "%s: %s", reader->name, what);
    }
}

/* ---- lines ---- */

/* Cuts blanks and comments, as in the configuration, so that every build of inih reads the same. */
static void tidy_line(char *text)
{
    static const char blanks[] = " \t\r\n";
    size_t begin = strspn(text, blanks), end;

    for (end = begin; text[end] != '\0'; end++) {
        bool is_after_blank = end == begin || strchr(blanks, text[end - 1]) != NULL;
        if ((text[end] == '#' || text[end] == ';') && is_after_blank) {
            break;
        }
    }
    while (end > begin && strchr(blanks, text[end - 1]) != NULL) {
        end--;
    }
    memmove(text, text + begin, end - begin);
    memset(text + end - begin, 0, strlen(text + end - begin));
}

/* As fgets(), for inih. After the first error there are no more lines. */
static char *read_oscore_line(char *buffer, int size, void *context)
{
    struct oscore_reader *reader = context;
    char text[OSCORE_FILE_LINE_MAX + 3]; /* one more than is taken, line feed and NUL */

    if (reader->is_bad || size < (int)sizeof text ||
        fgets(text, (int)sizeof text, reader->file) == NULL) {
        return NULL;
    }
    reader->line++;
    size_t len = strlen(text);
    bool is_whole = len + 1 < sizeof text || text[len - 1] == '\n';
    tidy_line(text);
    if (!is_whole) {
        oscore_file_error(reader, reader->line, "longer than %u bytes", OSCORE_FILE_LINE_MAX);
    } else if (reader->line > OSCORE_FILE_LINES_MAX) {
        oscore_file_error(reader, reader->line, "more than %u lines", OSCORE_FILE_LINES_MAX);
    } else if (text[0] != '\0' && strchr(text, '=') == NULL) {
        oscore_file_error(reader, reader->line, "expected KEY = VALUE");
    } else if (text[0] == '[') {
        oscore_file_error(reader, reader->line, "there are no sections in this file");
    } else if (text[0] == '=') {
        oscore_file_error(reader, reader->line, "expected KEY = VALUE");
    }
    if (!reader->is_bad) {
        len = strlen(text);
        memcpy(buffer, text, len);
        memcpy(buffer + len, "\n", 2);
    }
    explicit_bzero(text, sizeof text);
    return reader->is_bad ? NULL : buffer;
}

/* ---- keys ---- */

/* @p c is a hexadecimal digit. */
static unsigned digit_of(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

static void take_hex(struct oscore_reader *reader, enum oscore_key key, const char *text,
                     struct oscore_value *value)
{
    size_t digits = strlen(text);
    unsigned min = oscore_rows[key].min, max = oscore_rows[key].max;

    if (digits % 2 != 0 || strspn(text, "0123456789abcdefABCDEF") != digits) {
        oscore_file_error(reader, reader->line, "%s: expected bytes in hexadecimal",
                          oscore_rows[key].name);
        return;
    }
    if (digits / 2 < min || digits / 2 > max) {
        oscore_file_error(reader, reader->line, "%s: expected %u to %u bytes, got %zu",
                          oscore_rows[key].name, min, max, digits / 2);
        return;
    }
    for (size_t i = 0; i < digits / 2; i++) {
        value->bytes[i] = (uint8_t)(digit_of(text[2 * i]) << 4 | digit_of(text[2 * i + 1]));
    }
    value->len = (uint8_t)(digits / 2);
}

static void take_word(struct oscore_reader *reader, enum oscore_key key, const char *text,
                      const char **ret_word)
{
    const char *const *words = oscore_rows[key].words;

    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *ret_word = words[i];
            return;
        }
    }
    oscore_file_error(reader, reader->line, "%s: expected %s%s%s", oscore_rows[key].name, words[0],
                      words[1] != NULL ? " or " : "", words[1] != NULL ? words[1] : "");
}

static void take_oscore_value(struct oscore_reader *reader, enum oscore_key key, const char *text)
{
    struct oscore_keys *keys = &reader->keys;

    switch (key) {
    case KEY_SENDER_ID:
        take_hex(reader, key, text, &keys->sender_id);
        break;
    case KEY_RECIPIENT_ID:
        take_hex(reader, key, text, &keys->recipient_id);
        break;
    case KEY_MASTER_SECRET:
        take_hex(reader, key, text, &keys->master_secret);
        break;
    case KEY_MASTER_SALT:
        take_hex(reader, key, text, &keys->master_salt);
        break;
    case KEY_ID_CONTEXT:
        take_hex(reader, key, text, &keys->id_context);
        break;
    case KEY_AEAD:
        take_word(reader, key, text, &keys->aead_algorithm);
        break;
    case KEY_HKDF:
        take_word(reader, key, text, &keys->hkdf_algorithm);
        break;
    case KEY_COUNT:
        break;
    }
}

#if INI_HANDLER_LINENO
static int on_oscore_pair(void *context, const char *section, const char *key, const char *value,
                          int line_number)
{
    (void)line_number; /* the reader counts */
#else
static int on_oscore_pair(void *context, const char *section, const char *key, const char *value)
{
#endif
    struct oscore_reader *reader = context;

    (void)section;
    for (int i = 0; key != NULL && i < KEY_COUNT; i++) {
        if (strcmp(oscore_rows[i].name, key) != 0) {
            continue;
        }
        if (reader->is_set[i]) {
            oscore_file_error(reader, reader->line, "%s: given twice", key);
            return 1;
        }
        reader->is_set[i] = true;
        take_oscore_value(reader, (enum oscore_key)i, value == NULL ? "" : value);
        return 1;
    }
    oscore_file_error(reader, reader->line,
                      "unknown key; there are sender-id, recipient-id, "
                      "master-secret, master-salt, id-context, "
                      "aead-algorithm, hkdf-algorithm");
    return 1;
}

/* ---- the whole ---- */

static void check_oscore_keys(struct oscore_reader *reader)
{
    const struct oscore_value *sender = &reader->keys.sender_id;
    const struct oscore_value *recipient = &reader->keys.recipient_id;

    for (int i = 0; i < KEY_COUNT; i++) {
        if (oscore_rows[i].is_needed && !reader->is_set[i]) {
            oscore_file_error(reader, 0, "%s: missing", oscore_rows[i].name);
        }
    }
    /* Or both sides would have the same key, and use each nonce twice (RFC 8613 section 3.3). */
    if (sender->len == recipient->len &&
        memcmp(sender->bytes, recipient->bytes, sender->len) == 0) {
        oscore_file_error(reader, 0, "sender-id and recipient-id are the same");
    }
}

static void check_oscore_mode(struct oscore_reader *reader)
{
    struct stat status;

    if (fstat(fileno(reader->file), &status) != 0 || !S_ISREG(status.st_mode)) {
        oscore_file_error(reader, 0, "is no regular file");
    } else if ((status.st_mode & S_IRWXO) != 0) {
        oscore_file_error(reader, 0, "others have access to it (mode %03o): chmod o= %s",
                          (unsigned)status.st_mode & 0777u, reader->name);
    }
}

bool oscore_file_read(const char *file, struct oscore_keys *ret_keys, char *ret_error,
                      size_t error_capacity)
{
    struct oscore_reader reader = {
        .name = file,
        .keys = {.aead_algorithm = aead_words[0], .hkdf_algorithm = hkdf_words[0]},
        .error = ret_error,
        .error_capacity = error_capacity,
    };

    reader.file = fopen(file, "re");
    if (reader.file == NULL) {
        oscore_file_error(&reader, 0, "cannot be read: %s", strerror(errno));
        return false;
    }
    (void)setvbuf(reader.file, NULL, _IONBF, 0); /* or a copy would stay behind */
    check_oscore_mode(&reader);
    int status =
        reader.is_bad ? 0 : ini_parse_stream(read_oscore_line, &reader, on_oscore_pair, &reader);
    if (status != 0) {
        oscore_file_error(&reader, reader.line, "not understood");
    } else if (ferror(reader.file) != 0) {
        oscore_file_error(&reader, 0, "cannot be read");
    }
    (void)fclose(reader.file);
    if (!reader.is_bad) {
        check_oscore_keys(&reader);
    }
    if (!reader.is_bad) {
        *ret_keys = reader.keys;
    }
    explicit_bzero(&reader.keys, sizeof reader.keys);
    return !reader.is_bad;
}
