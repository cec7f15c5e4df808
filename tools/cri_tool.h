/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of the `cri` tool.
 *
 * A command turns one input into one result line. Everything that grows lives in
 * struct tool and is kept from one line to the next, so that a long batch
 * allocates only until its longest line has been seen.
 */
#ifndef CRI_TOOL_H
#define CRI_TOOL_H

#include <cri/coap.h>
#include <cri/cri.h>

/* Exit statuses; scripts rely on them. */
#define EXIT_INPUT 1 /* at least one input was refused, or a file or pipe failed */
#define EXIT_USAGE 2 /* the command line itself is wrong */

/* Bytes that grow on demand. */
struct buffer {
    uint8_t *data;
    size_t len;
    size_t capacity;
};

struct json_request; /* cri_json.h */

/* Options a command may take; bits. */
enum {
    TAKES_BASE = 0x01,
    TAKES_TO = 0x02,
    TAKES_STRICT = 0x04,
    TAKES_FRAGMENT = 0x08,
    TAKES_URI = 0x10,
    TAKES_NORMALIZE = 0x20,
    TAKES_JSON = 0x40,
    TAKES_BINARY = 0x80,
    TAKES_HREF12 = 0x200,
    TAKES_PREFIX = 0x400,
    TAKES_TEMPLATE = 0x800,
};

struct tool {
    /* From the command line. */
    bool is_strict;
    bool with_fragment;
    bool with_uri;
    bool is_normalizing;
    bool with_json;
    bool is_binary;
    bool with_href12;
    const char *field; /* the component that `get` prints */
    bool has_to;
    struct cri_destination to;
    const char *prefix;        /* NULL: the default of http.prefix */
    const char *template_text; /* NULL: the default mapping */
    const char *base_text;     /* NULL: no --base */
    struct buffer base_bytes;  /* encoded base */
    struct cri base;           /* view into base_bytes */
    /* For the current line. */
    bool is_raw_input;            /* it is bytes, not hexadecimal */
    bool is_raw_result;           /* the result is bytes, to be written as they are */
    bool is_json_result;          /* the result is JSON already */
    struct buffer input;          /* the input as bytes */
    struct buffer second;         /* a second input, or an intermediate form */
    struct buffer result;         /* the result line, or, when refused, the reason */
    struct json_request *request; /* the input of `from-options` */
};

struct command {
    const char *name;
    const char *arguments; /* for the usage text */
    const char *help;      /* one line */
    unsigned takes;        /* TAKES_* */
    unsigned fields;       /* inputs to one result: 1 or 2 */
    bool is_binary_input;  /* with --binary, standard input is CBOR: one CRI, or fields of them */
    bool has_field;        /* the first argument selects a part of the input */
    /* The command without an argument, if it does not read standard input then; or NULL. */
    void (*list)(struct tool *tool);
    /* NULL, or: the arguments are files, and this gives the exit status. */
    int (*files)(struct tool *tool, char **names, int count);
    /* One input: true and the result line in tool->result, or false and the reason there. */
    bool (*run)(struct tool *tool, struct cri_slice input);
};

/* Grows to hold @p capacity bytes; ends the program when there is no memory. */
void buffer_reserve(struct buffer *buffer, size_t capacity);
void buffer_append(struct buffer *buffer, const void *bytes, size_t len);
void buffer_append_text(struct buffer *buffer, const char *text);
void buffer_set_text(struct buffer *buffer, const char *text);
void buffer_free(struct buffer *buffer);

struct cri_slice buffer_slice(const struct buffer *buffer);

/* Refuses the current input: returns false. */
bool refuse(struct tool *tool, const char *reason);
bool refuse_at(struct tool *tool, size_t offset, const char *reason);

/* Refuse it for @p error of libcri; @p fault says where and why. */
bool refuse_error(struct tool *tool, enum cri_error error, const struct cri_fault *fault);

/* Hexadecimal text to bytes in @p bytes. */
bool read_hex(struct tool *tool, struct cri_slice text, struct buffer *bytes);

/* Hexadecimal text of a CRI (reference) to its view; the bytes go into @p bytes. */
bool read_cri(struct tool *tool, struct cri_slice text, struct buffer *bytes, struct cri *ret_cri);

/* Puts @p bytes in hexadecimal, or as they are with --binary, as the result: returns true. */
bool answer_hex(struct tool *tool, struct cri_slice bytes);

/* A CRI (reference) to its URI (reference) in @p text. */
bool format_uri(struct tool *tool, const struct cri *cri, struct buffer *text);

/* A URI, with --uri, or a CRI to its view; the bytes go into @p bytes. */
bool read_identifier(struct tool *tool, struct cri_slice text, struct buffer *bytes,
                     struct cri *ret_cri);

/* A URI (reference) to encoded bytes in @p bytes. */
bool convert_uri(struct tool *tool, struct cri_slice uri, struct buffer *bytes);

/* "192.0.2.1:5683", "[fe80::1%eth0]:5683": false when it is neither. */
bool parse_destination(const char *text, struct cri_destination *ret_destination);

/* Writes the result, or the reason of a refusal, in the form asked for; returns @p is_ok. */
bool print_result(const struct tool *tool, bool is_ok);

/* cri_batch.c: run a command over its arguments or over standard input. */
int run_inputs(struct tool *tool, const struct command *command, char **arguments, int count);

/* cri_convert.c */
bool run_from_uri(struct tool *tool, struct cri_slice input);
bool run_to_uri(struct tool *tool, struct cri_slice input);
bool run_from_iri(struct tool *tool, struct cri_slice input);
bool run_to_iri(struct tool *tool, struct cri_slice input);
bool run_check(struct tool *tool, struct cri_slice input);
bool run_diag(struct tool *tool, struct cri_slice input);
bool run_from_diag(struct tool *tool, struct cri_slice input);
bool run_resolve(struct tool *tool, struct cri_slice input);
bool run_relate(struct tool *tool, struct cri_slice input);
bool run_compare(struct tool *tool, struct cri_slice input);
bool run_normalize(struct tool *tool, struct cri_slice input);
bool run_from_cori(struct tool *tool, struct cri_slice input);
bool run_to_cori(struct tool *tool, struct cri_slice input);

/* cri_get.c */
bool is_field(const char *name);
bool run_get(struct tool *tool, struct cri_slice input);

/* cri_options.c */
bool run_options(struct tool *tool, struct cri_slice input);
bool run_from_options(struct tool *tool, struct cri_slice input);

/* cri_tables.c */
bool run_schemes(struct tool *tool, struct cri_slice input);
void list_schemes(struct tool *tool);

/* cri_http.c */
bool run_to_http(struct tool *tool, struct cri_slice input);
bool run_from_http(struct tool *tool, struct cri_slice input);
bool run_formats(struct tool *tool, struct cri_slice input);
void list_formats(struct tool *tool);

/* What is wrong with --prefix or --template, static; NULL: nothing. */
const char *mapping_error(const struct tool *tool);

/* cri_aif.c */
int print_aif(struct tool *tool, char **names, int count);

#endif
