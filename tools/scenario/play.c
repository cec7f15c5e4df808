/* SPDX-License-Identifier: BSD-2-Clause */
#include "play_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LADDER_MAX 400u /* lines of it that are shown */

bool play_fail(struct play *play, const char *got, const char *why)
{
    if (play->result->why == NULL) {
        play->result->got = got;
        play->result->why = why;
        play->result->line = play->line->number;
        play->result->text = play->line->text;
    }
    return false;
}

bool play_check(struct play *play, const char *fault)
{
    return fault == NULL || play_fail(play, "", fault);
}

enum wire_framing play_framing(enum actor_way way)
{
    switch (way) {
    case WAY_TCP:
    case WAY_TLS:
        return WIRE_STREAM;
    case WAY_WS:
    case WAY_WSS:
        return WIRE_WEBSOCKET;
    case WAY_HTTP:
    case WAY_WEB:
    case WAY_SESSION:
        return WIRE_CONTENT;
    case WAY_DEFAULT:
    case WAY_UDP:
    case WAY_DTLS:
        break;
    }
    return WIRE_DATAGRAM;
}

bool play_is_datagram(const struct actor *actor)
{
    return play_framing(actor->way) == WIRE_DATAGRAM;
}

struct wire_bytes play_keep(struct play *play, struct wire_bytes bytes)
{
    const char *copy = pool_text(play->pool, (const char *)bytes.data, bytes.len);
    return (struct wire_bytes){(const uint8_t *)copy, bytes.len};
}

/* --- the ladder ------------------------------------------------------------ */

/* Behind all that are not later: what a line takes may have come before what others have taken. */
static void put_rung(struct play *play, const struct rung *of)
{
    struct rung *rung = pool_alloc(play->pool, sizeof(*rung)), **link = &play->first_rung;
    *rung = *of;
    while (*link != NULL && (*link)->at_ms <= rung->at_ms) {
        link = &(*link)->next;
    }
    rung->next = *link;
    *link = rung;
    if (++play->rung_count > LADDER_MAX) {
        play->first_rung = play->first_rung->next;
        play->rung_count--;
    }
}

void play_add_rung(struct play *play, const struct actor *actor, bool is_sent, const char *text)
{
    const struct rung rung = {.at_ms = play->stage->now_ms(play->stage->context),
                              .actor = actor,
                              .is_sent = is_sent,
                              .text = text};
    put_rung(play, &rung);
}

void play_add_arrival(struct play *play, const struct actor *actor, const struct play_peer *from,
                      const char *text)
{
    const struct rung rung = {.at_ms = from->at_ms > 0 ? from->at_ms
                                                       : play->stage->now_ms(play->stage->context),
                              .actor = actor,
                              .text = text};
    put_rung(play, &rung);
}

/* Clients on the left of the proxy, servers on the right. */
static const char *show_ladder(struct play *play)
{
    char *text = pool_format(play->pool, "%10s  %-10s %7s %-7s %-10s\n", "seconds", "clients", "",
                             "proxy", "servers");
    unsigned long long start = play->first_rung != NULL ? play->first_rung->at_ms : 0;
    for (const struct rung *rung = play->first_rung; rung != NULL; rung = rung->next) {
        unsigned long long ms = rung->at_ms - start;
        bool is_client = rung->actor->role == ACTOR_CLIENT;
        const char *arrow = is_client == rung->is_sent ? "------>" : "<------";
        text = pool_format(play->pool, "%s%6llu.%03llu  %-10s %7s|%-7s %-10s %s\n", text, ms / 1000,
                           ms % 1000, is_client ? rung->actor->name : "", is_client ? arrow : "",
                           is_client ? "" : arrow, is_client ? "" : rung->actor->name, rung->text);
    }
    return text;
}

/* --- actors ---------------------------------------------------------------- */

static struct actor *find_actor(struct play *play, const char *name, size_t len)
{
    for (size_t i = 0; i < play->actor_count; i++) {
        if (strlen(play->actors[i]->name) == len && memcmp(play->actors[i]->name, name, len) == 0) {
            return play->actors[i];
        }
    }
    return NULL;
}

static struct actor *add_actor(struct play *play, const char *name, enum actor_role role)
{
    if (play->actor_count == PLAY_ACTORS_MAX) {
        (void)play_fail(play, "", "too many actors");
        return NULL;
    }
    struct actor *actor = pool_alloc(play->pool, sizeof(*actor));
    *actor = (struct actor){.name = name, .role = role, .next_mid = 1, .next_token = 1};
    play->actors[play->actor_count++] = actor;
    return actor;
}

/* Clients a to d and the origin server h are there without being declared. */
static struct actor *actor_named(struct play *play, const char *name, size_t len)
{
    struct actor *actor = find_actor(play, name, len);
    bool is_client = len == 1 && *name >= 'a' && *name <= 'd';
    if (actor == NULL && (is_client || (len == 1 && *name == 'h'))) {
        actor = add_actor(play, pool_text(play->pool, name, len),
                          is_client ? ACTOR_CLIENT : ACTOR_SERVER);
    }
    return actor;
}

/* Servers that were declared before it, beside settings, are there when it starts. */
static bool start_stage(struct play *play)
{
    if (play->is_started) {
        return true;
    }
    play->is_started = true;
    size_t at = play->setting_count;
    const char *fault =
        play->stage->start(play->stage->context, play->settings, play->setting_count, &at);
    if (fault != NULL && at < play->setting_count) {
        play->line = play->setting_lines[at];
        if (strstr(play->settings[at], ", ") != NULL) {
            fault = pool_format(play->pool, "%s; between settings stands \" ; \"", fault);
        }
    }
    bool is_good = play_check(play, fault);
    for (size_t i = 0; i < play->actor_count && is_good; i++) {
        struct actor *actor = play->actors[i];
        is_good = actor->role == ACTOR_CLIENT || actor->end != NULL ||
                  play_check(play, play->stage->open(play->stage->context, actor));
    }
    return is_good;
}

bool play_open(struct play *play, struct actor *actor)
{
    if (actor->end != NULL) {
        return true;
    }
    return start_stage(play) &&
           (actor->end != NULL || play_check(play, play->stage->open(play->stage->context, actor)));
}

static bool read_way(const char *word, enum actor_way *ret_way)
{
    static const char *const ways[] = {"", "udp", "dtls", "tcp", "tls", "ws", "wss", "http"};
    for (unsigned i = 1; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(word, ways[i]) == 0) {
            *ret_way = (enum actor_way)i;
            return true;
        }
    }
    return false;
}

/* client|device|origin|web|group NAME [ADDRESS] [WAY] [psk=IDENTITY] [host=HOST] [certificate=NAME]
 * [worker=N] */
static bool declare_actor(struct play *play, char **words, size_t count, enum actor_role role)
{
    if (count < 2 || find_actor(play, words[1], strlen(words[1])) != NULL) {
        return play_fail(play, "", "an actor without a name, or declared twice");
    }
    struct actor *actor = add_actor(play, words[1], role);
    if (actor != NULL && strcmp(words[0], "web") == 0) {
        actor->way = WAY_WEB;
    }
    if (actor != NULL) {
        actor->is_device = strcmp(words[0], "device") == 0;
    }
    for (size_t i = 2; actor != NULL && i < count; i++) {
        if (strncmp(words[i], "psk=", 4) == 0) {
            actor->identity = words[i] + 4;
        } else if (strncmp(words[i], "host=", 5) == 0) {
            actor->host = words[i] + 5;
        } else if (strncmp(words[i], "certificate=", 12) == 0) {
            actor->certificate = words[i] + 12;
        } else if (strncmp(words[i], "worker=", 7) == 0) {
            actor->worker = (unsigned)strtoul(words[i] + 7, NULL, 10);
        } else if (!read_way(words[i], &actor->way)) {
            actor->address = words[i];
        }
    }
    return actor != NULL && (role == ACTOR_CLIENT || !play->is_started || play_open(play, actor));
}

/* session NAME WAY ADDRESS HOST [CREDENTIALS] */
static bool declare_session(struct play *play, char **words, size_t count)
{
    if (count < 5) {
        return play_fail(play, "", "session NAME TRANSPORT ADDRESS HOST");
    }
    struct actor *actor = add_actor(play, words[1], ACTOR_SERVER);
    if (actor == NULL) {
        return false;
    }
    actor->way = WAY_SESSION;
    actor->session = words[2];
    for (size_t i = 3; i < count; i++) {
        actor->session = pool_format(play->pool, "%s %s", actor->session, words[i]);
    }
    return !play->is_started || play_open(play, actor);
}

/* --- exchanges ------------------------------------------------------------- */

struct exchange *exchange_add(struct play *play, struct actor *owner, const char *label)
{
    if (play->exchange_count == PLAY_EXCHANGES_MAX) {
        (void)play_fail(play, "", "too many exchanges");
        return NULL;
    }
    struct exchange *exchange = pool_alloc(play->pool, sizeof(*exchange));
    exchange->owner = owner;
    exchange->label = label;
    play->exchanges[play->exchange_count++] = exchange;
    return exchange;
}

/* A label of a request that was received is known to all servers: members answer for a group. */
struct exchange *exchange_labelled(struct play *play, const struct actor *actor, const char *label,
                                   bool is_sent)
{
    for (size_t i = play->exchange_count; i-- > 0;) {
        struct exchange *exchange = play->exchanges[i];
        if (exchange->is_sent == is_sent && (!is_sent || exchange->owner == actor) &&
            exchange->label != NULL && strcmp(exchange->label, label) == 0) {
            return exchange;
        }
    }
    return NULL;
}

/* Without a label: the oldest request that has no answer, else the last one. */
struct exchange *exchange_meant(struct play *play, const struct actor *actor, const char *label,
                                bool is_sent)
{
    struct exchange *last = NULL;
    if (label != NULL) {
        return exchange_labelled(play, actor, label, is_sent);
    }
    for (size_t i = 0; i < play->exchange_count; i++) {
        struct exchange *exchange = play->exchanges[i];
        if (exchange->owner != actor || exchange->is_sent != is_sent) {
            continue;
        }
        last = exchange;
        if (!exchange->is_answered) {
            break;
        }
    }
    return last;
}

/* What a label means for a message that is repeated. */
struct exchange *exchange_of_label(struct play *play, const struct actor *actor, const char *label)
{
    struct exchange *exchange = label != NULL ? exchange_labelled(play, actor, label, true) : NULL;
    return exchange != NULL || label == NULL ? exchange
                                             : exchange_labelled(play, actor, label, false);
}

/* --- connections ----------------------------------------------------------- */

/* A connection is opened by its first message, with a CSM each way (RFC 8323 section 5.3). */
bool play_connect(struct play *play, struct actor *actor, bool with_csm)
{
    static const struct play_peer proxy;
    struct wire_bytes bytes;
    struct play_peer from = {{0}, 0};
    enum wire_framing framing = play_framing(actor->way);
    if (actor->is_connected || actor->way == WAY_DEFAULT || actor->way == WAY_UDP) {
        return true;
    }
    if (!play_check(play, play->stage->connect(play->stage->context, actor))) {
        return false;
    }
    actor->is_connected = true;
    if (!with_csm || framing == WIRE_DATAGRAM) {
        return true;
    }
    if (play_next(play, actor, play->stage->patience_ms, &bytes, &from) != ARRIVAL_MESSAGE) {
        return play_fail(play, "nothing", "the proxy sent no CSM");
    }
    bytes = play_keep(play, bytes);
    play_add_arrival(play, actor, &from, play_show(play, actor, bytes));
    if (play->message->code != WIRE_CODE(7, 1)) {
        return play_fail(play, play_show(play, actor, bytes), "a CSM comes first");
    }
    struct wire_message *csm = pool_alloc(play->pool, sizeof(*csm));
    csm->framing = framing;
    csm->code = WIRE_CODE(7, 1);
    return play_send_message(play, actor, &proxy, csm, false);
}

/* --- lines ----------------------------------------------------------------- */

/* "{h}", "{h.host}" and "{h.port}" become what the proxy can reach the server by. */
static const char *with_authorities(struct play *play, const char *text)
{
    char *done = pool_text(play->pool, "", 0);
    for (;;) {
        const char *open = strpbrk(text, "{:");
        size_t skip = 1, len = 0;
        if (open == NULL) {
            return pool_format(play->pool, "%s%s", done, text);
        }
        bool is_uri = strncmp(open, "://", 3) == 0;
        if (is_uri || *open == '{') {
            skip = is_uri ? 3 : 1;
            len = strcspn(open + skip, is_uri ? "/:?\" |}" : ".} \"");
        }
        char end = open[skip + len];
        struct actor *actor =
            len > 0 && !(is_uri && end == ':') ? actor_named(play, open + skip, len) : NULL;
        char host[64];
        unsigned port = 0;
        if (actor == NULL || actor->role == ACTOR_CLIENT || (!is_uri && end != '}' && end != '.')) {
            done = pool_format(play->pool, "%s%.*s", done, (int)(open - text) + 1, text);
            text = open + 1;
            continue;
        }
        if (!play_open(play, actor)) {
            return NULL;
        }
        if (!play->stage->authority(play->stage->context, actor, host, &port)) {
            (void)snprintf(host, sizeof(host), "%s", actor->name);
            port = 0;
        }
        const char *rest = open + skip + len;
        const char *value = port != 0 ? pool_format(play->pool, "%s:%u", host, port)
                                      : pool_format(play->pool, "%s", host);
        if (!is_uri && strncmp(rest, ".host}", 6) == 0) {
            value = pool_format(play->pool, "%s", host);
        } else if (!is_uri && strncmp(rest, ".port}", 6) == 0) {
            value = pool_format(play->pool, "%u", port != 0 ? port : 5683);
        }
        done = pool_format(play->pool, "%s%.*s%s%s", done, (int)(open - text), text,
                           is_uri ? "://" : "", value);
        text = is_uri ? rest : rest + strcspn(rest, "}") + (*rest != '\0');
    }
}

/* Settings between " ; ". */
static size_t split_settings(struct play *play, const char *text, char **settings, size_t max)
{
    size_t count = 0;
    while (*text != '\0' && count < max) {
        const char *end = strstr(text, " ; ");
        size_t len = end != NULL ? (size_t)(end - text) : strlen(text);
        settings[count++] = pool_text(play->pool, text, len);
        text += end != NULL ? len + 3 : len;
        text += strspn(text, " ");
    }
    return count;
}

static bool play_config(struct play *play, const char *text)
{
    size_t room = PLAY_SETTINGS_MAX - play->setting_count;
    if (play->is_started) {
        return play_fail(play, "", "config comes before everything else; later it is reload");
    }
    if (strcmp(text, "none") == 0) { /* without those of the file's beginning */
        play->setting_count = 0;
        return true;
    }
    size_t count = split_settings(play, text, play->settings + play->setting_count, room);
    for (size_t i = 0; i < count; i++) {
        play->setting_lines[play->setting_count++] = play->line;
    }
    return play->setting_count < PLAY_SETTINGS_MAX || play_fail(play, "", "too many settings");
}

static bool play_reload(struct play *play, const char *text)
{
    char *settings[PLAY_SETTINGS_MAX];
    size_t count = split_settings(play, text, settings, PLAY_SETTINGS_MAX);
    return start_stage(play) &&
           play_check(play, play->stage->reload(play->stage->context, settings, count));
}

static bool play_talk(struct play *play, struct actor *actor, char **words, size_t count)
{
    bool is_sent = strcmp(words[1], ">") == 0;
    if (!play_check(play,
                    spec_parse(play->pool, words + 2, count - 2, play->stage->form, play->spec))) {
        return false;
    }
    return is_sent ? play_send(play, actor) : play_receive(play, actor);
}

/* What has come to it by now does not matter. */
static void forget_arrived(struct play *play, struct actor *actor)
{
    struct wire_bytes bytes;
    struct play_peer from = {{0}, 0};
    while (play_next(play, actor, 0, &bytes, &from) == ARRIVAL_MESSAGE) {
        play_add_arrival(play, actor, &from, play_show(play, actor, bytes));
    }
}

static bool is_refusal(const char *verb)
{
    return strcmp(verb, "fails") == 0 || strcmp(verb, "refuses") == 0 ||
           strcmp(verb, "unreachable") == 0;
}

/* The last request that it got is not waited for any more: later answers are to others. */
static void refuse_last(struct play *play, const struct actor *actor)
{
    struct exchange *last = NULL;
    for (size_t i = 0; i < play->exchange_count; i++) {
        struct exchange *exchange = play->exchanges[i];
        last = exchange->owner == actor && !exchange->is_sent ? exchange : last;
    }
    if (last != NULL) {
        last->is_answered = true;
    }
}

static bool is_web(const struct actor *actor)
{
    return actor->way == WAY_HTTP || actor->way == WAY_WEB;
}

/* HTTP messages are the stage's. */
static bool play_web(struct play *play, struct actor *actor, char **words, size_t count)
{
    bool is_sent = strcmp(words[1], ">") == 0;
    if ((actor->role == ACTOR_CLIENT && !play_connect(play, actor, false)) ||
        !play_check(play, play->stage->act(play->stage->context, actor, words + 1, count - 1))) {
        return false;
    }
    play_add_rung(play, actor, is_sent, strchr(play->line->text, is_sent ? '>' : '<') + 2);
    return true;
}

/* "a >GET", "a> GET" and "a>GET" are meant to be messages; so is "a >". */
static const char *misses_word(struct play *play, char **words, size_t count)
{
    size_t len = strcspn(words[0], "<>");
    bool is_sign = count > 1 && words[0][len] == '\0' && (words[1][0] == '<' || words[1][0] == '>');
    bool is_glued = is_sign ? words[1][1] != '\0' : words[0][len] != '\0';
    if ((!is_sign && !is_glued) || actor_named(play, words[0], len) == NULL) {
        return NULL;
    }
    char sign = is_sign ? words[1][0] : words[0][len];
    return is_glued     ? pool_format(play->pool, "a blank stands on both sides of \"%c\"", sign)
           : count == 2 ? pool_format(play->pool, "a message stands behind \"%c\"", sign)
                        : NULL;
}

static bool play_actor(struct play *play, struct actor *actor, char **words, size_t count)
{
    bool is_talk = count >= 3 && (strcmp(words[1], ">") == 0 || strcmp(words[1], "<") == 0);
    if (is_talk && is_web(actor)) {
        return play_open(play, actor) && play_web(play, actor, words, count);
    }
    if (is_talk) {
        return play_talk(play, actor, words, count);
    }
    if (!play_open(play, actor)) {
        return false;
    }
    if (count == 2 && strcmp(words[1], "connects") == 0) {
        actor->is_connected = false;
        actor->input_len = 0;
        return play_connect(play, actor, false);
    }
    if (count == 2 && strcmp(words[1], "forgets") == 0) {
        forget_arrived(play, actor);
        return true;
    }
    if (count >= 3 && strcmp(words[1], "ignores") == 0) {
        actor->ignores_repetitions = true;
        actor->ignores_rest = strcmp(words[2], "repetitions") != 0;
        return true;
    }
    if (!play_check(play, play->stage->act(play->stage->context, actor, words + 1, count - 1))) {
        return false;
    }
    if (is_refusal(words[1])) {
        refuse_last(play, actor);
    }
    return true;
}

static bool play_words(struct play *play, char **words, size_t count)
{
    static const struct {
        const char *word;
        enum actor_role role;
    } kinds[] = {{"client", ACTOR_CLIENT},
                 {"device", ACTOR_CLIENT},
                 {"origin", ACTOR_SERVER},
                 {"web", ACTOR_SERVER},
                 {"group", ACTOR_GROUP}};
    unsigned long long ms = 0;
    if (words[0][0] == '+') {
        if (count != 1 || !script_duration(words[0] + 1, &ms)) {
            return play_fail(play, "", "a time is +10s, +250ms, +2min");
        }
        if (!start_stage(play)) {
            return false;
        }
        play->stage->wait(play->stage->context, ms);
        return true;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(words[0], kinds[i].word) == 0) {
            return declare_actor(play, words, count, kinds[i].role);
        }
    }
    if (strcmp(words[0], "session") == 0) {
        return declare_session(play, words, count);
    }
    const char *missed = misses_word(play, words, count);
    if (missed != NULL) {
        return play_fail(play, "", missed);
    }
    struct actor *actor = actor_named(play, words[0], strlen(words[0]));
    if (actor != NULL && count >= 2) {
        return play_actor(play, actor, words, count);
    }
    return start_stage(play) &&
           play_check(play, play->stage->act(play->stage->context, NULL, words, count));
}

static bool play_line(struct play *play, const struct script_line *line)
{
    char *words[SCRIPT_WORDS_MAX];
    play->line = line;
    play->result->line = line->number;
    play->result->text = line->text;
    if (strncmp(line->text, "config ", 7) == 0) {
        return play_config(play, line->text + 7);
    }
    if (strncmp(line->text, "reload", 6) == 0) {
        return play_reload(play, line->text + 6 + strspn(line->text + 6, " "));
    }
    const char *text = with_authorities(play, line->text);
    if (text == NULL) {
        return false;
    }
    size_t count = script_split(play->pool, text, words, SCRIPT_WORDS_MAX);
    return count != SIZE_MAX && count > 0
               ? play_words(play, words, count)
               : play_fail(play, "", "a quotation does not end, or there are too many words");
}

/* What came and was not expected; not over real sockets, where anything may still arrive. */
static bool expect_nothing_else(struct play *play)
{
    static const struct script_line end = {0, "(the end: nothing else has come)"};
    *play->spec = (struct spec){.is_nothing = true, .has_time = true};
    if (play->stage->is_loose) {
        return true;
    }
    struct script_line line = end;
    line.number = play->line != NULL ? play->line->number : 0;
    play->line = &line;
    play->result->line = line.number;
    play->result->text = line.text;
    bool is_right = true;
    for (size_t i = 0; i < play->actor_count && is_right; i++) {
        struct actor *actor = play->actors[i];
        bool is_there = actor->end != NULL && !actor->ignores_rest &&
                        (actor->is_connected || actor->role != ACTOR_CLIENT ||
                         actor->way == WAY_DEFAULT || actor->way == WAY_UDP);
        char *nothing[] = {pool_text(play->pool, "<", 1), pool_text(play->pool, "nothing", 7)};
        is_right =
            !is_there ||
            (is_web(actor)
                 ? play_check(play, play->stage->act(play->stage->context, actor, nothing, 2))
                 : play_receive(play, actor));
    }
    play->line = NULL;
    return is_right;
}

/* Over real sockets: what was never answered is rejected, so that the proxy does not wait for it.
 */
static void reject_unanswered(struct play *play)
{
    for (size_t i = 0; play->stage->is_loose && i < play->exchange_count; i++) {
        struct exchange *exchange = play->exchanges[i];
        if (!exchange->is_sent && !exchange->is_answered && play_is_datagram(exchange->owner)) {
            (void)play_send_empty(play, exchange->owner, &exchange->peer, WIRE_RST, exchange->mid);
        }
    }
}

void play_scenario(const struct script_scenario *scenario, const struct stage *stage,
                   struct play_result *ret_result)
{
    *ret_result = (struct play_result){.has_passed = true};
    struct pool *pool = &ret_result->pool;
    struct play *play = pool_alloc(pool, sizeof(*play));
    play->pool = pool;
    play->stage = stage;
    play->result = ret_result;
    ret_result->play = play;
    play->message = pool_alloc(pool, sizeof(*play->message));
    play->spec = pool_alloc(pool, sizeof(*play->spec));
    play->buffer = pool_alloc(pool, WIRE_MESSAGE_MAX);
    for (size_t i = 0; i < scenario->count && ret_result->has_passed; i++) {
        ret_result->has_passed = play_line(play, &scenario->lines[i]);
    }
    static const struct script_line none = {0, ""};
    play->line = scenario->count > 0 ? &scenario->lines[scenario->count - 1] : &none;
    ret_result->has_passed = ret_result->has_passed && expect_nothing_else(play);
    if (!ret_result->has_passed) {
        if (ret_result->why == NULL) {
            ret_result->why = "could not be played";
        }
        ret_result->conversation = show_ladder(play);
    }
    reject_unanswered(play); /* that is no part of the conversation */
}

const char *play_conversation(struct play_result *result)
{
    return show_ladder(result->play);
}

void play_result_clear(struct play_result *result)
{
    pool_clear(&result->pool);
}
