/* SPDX-License-Identifier: BSD-2-Clause */
/* The file http.tokens-file: a line identity:sha256 for each token. */
#include "conf/loader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 10000u
#define LINE_MAX_BYTES 512u

struct token_reader {
    struct loader *loader;
    const char *name; /* of the file */
    unsigned line;
    struct config_token *tokens;
    size_t count, capacity;
};

static const struct place *tokens_place(const struct loader *loader)
{
    const struct config_row *row = schema_find("http", "tokens-file");
    return row == NULL ? &loader->here : &loader->set_at[row - config_rows];
}

static void token_error(const struct token_reader *reader, const char *what)
{
    loader_error(reader->loader, tokens_place(reader->loader), "http", "tokens-file", "%s:%u: %s",
                 reader->name, reader->line, what);
}

static int token_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_digest(const char *text, uint8_t digest[CONFIG_TOKEN_DIGEST_LEN])
{
    if (strlen(text) != (size_t)2 * CONFIG_TOKEN_DIGEST_LEN) {
        return false;
    }
    for (size_t i = 0; i < CONFIG_TOKEN_DIGEST_LEN; i++) {
        int high = token_digit(text[2 * i]), low = token_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool grow_tokens(struct token_reader *reader)
{
    size_t capacity = reader->capacity == 0 ? 16 : 2 * reader->capacity;
    if (reader->count < reader->capacity) {
        return true;
    }
    struct config_token *tokens = realloc(reader->tokens, capacity * sizeof(*tokens));
    if (tokens == NULL) {
        reader->loader->no_memory = true;
        return false;
    }
    reader->tokens = tokens;
    reader->capacity = capacity;
    return true;
}

static void read_token(struct token_reader *reader, char *line)
{
    char *colon = strrchr(line, ':');
    struct config_token token;
    if (line[0] == '\0' || line[0] == '#') {
        return;
    }
    if (colon == NULL || colon == line || !read_digest(colon + 1, token.digest)) {
        token_error(reader, "expected identity:sha256, the digest as 64 hexadecimal digits");
        return;
    }
    *colon = '\0';
    char *identity = arena_alloc(reader->loader->config->arena, strlen(line) + 1);
    if (identity == NULL || !grow_tokens(reader)) {
        reader->loader->no_memory = true;
        return;
    }
    memcpy(identity, line, strlen(line) + 1);
    token.identity = identity;
    reader->tokens[reader->count++] = token;
}

static void read_tokens(struct token_reader *reader, FILE *file)
{
    char line[LINE_MAX_BYTES];
    while (!reader->loader->no_memory && fgets(line, sizeof(line), file) != NULL) {
        size_t len = strcspn(line, "\r\n");
        reader->line++;
        if (line[len] == '\0' && len + 1 == sizeof(line)) {
            token_error(reader, "line too long");
            return;
        }
        line[len] = '\0';
        if (reader->count == TOKENS_MAX) {
            token_error(reader, "more than 10,000 tokens");
            return;
        }
        read_token(reader, line);
    }
}

void loader_check_tokens(struct loader *loader)
{
    struct config *config = loader->config;
    struct token_reader reader = {.loader = loader, .name = config->http_tokens_file};
    if (reader.name[0] == '\0') {
        return;
    }
    FILE *file = fopen(reader.name, "re");
    if (file == NULL) {
        loader_error(loader, tokens_place(loader), "http", "tokens-file", "%s cannot be read: %s",
                     reader.name, strerror(errno));
        return;
    }
    read_tokens(&reader, file);
    (void)fclose(file);
    size_t bytes = reader.count * sizeof(struct config_token);
    struct config_token *kept = arena_alloc(config->arena, bytes > 0 ? bytes : 1);
    if (kept == NULL) {
        loader->no_memory = true;
    } else if (bytes > 0) {
        memcpy(kept, reader.tokens, bytes);
        config->http_tokens = kept;
        config->http_token_count = reader.count;
    }
    free(reader.tokens);
}
