/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words that keys of type WORD choose from: an enum and the text in files
 * come from the same row. X(ENUMERATOR, word)
 */
#ifndef CRIPROXY_CONF_WORDS_H
#define CRIPROXY_CONF_WORDS_H

#include "coap/scheme.h"

#define CONFIG_WORDS_proxy_size(X)                                                                 \
    X(PROXY_SIZE_SMALL, "small")                                                                   \
    X(PROXY_SIZE_MEDIUM, "medium")                                                                 \
    X(PROXY_SIZE_LARGE, "large")

#define CONFIG_WORDS_proxy_scheme_port(X)                                                          \
    X(SCHEME_PORT_LITERAL, "literal")                                                              \
    X(SCHEME_PORT_TARGET_DEFAULT, "target-default")

#define CONFIG_WORDS_proxy_no_response(X)                                                          \
    X(NO_RESPONSE_PROXY, "proxy")                                                                  \
    X(NO_RESPONSE_FORWARD, "forward")

#define CONFIG_WORDS_http_unmapped(X)                                                              \
    X(HTTP_UNMAPPED_PASS, "pass")                                                                  \
    X(HTTP_UNMAPPED_REFUSE, "refuse")

#define CONFIG_WORDS_resolve_prefer(X)                                                             \
    X(RESOLVE_PREFER_SYSTEM, "system")                                                             \
    X(RESOLVE_PREFER_IPV4, "ipv4")                                                                 \
    X(RESOLVE_PREFER_IPV6, "ipv6")

#define CONFIG_WORDS_resolve_system(X)                                                             \
    X(RESOLVE_SYSTEM_AUTO, "auto")                                                                 \
    X(RESOLVE_SYSTEM_NEVER, "never")

#define CONFIG_WORDS_observe_notifications(X)                                                      \
    X(OBSERVE_NOTIFICATIONS_CON, "con")                                                            \
    X(OBSERVE_NOTIFICATIONS_NON, "non")                                                            \
    X(OBSERVE_NOTIFICATIONS_MIRROR, "mirror")

#define CONFIG_WORDS_admin_page(X)                                                                 \
    X(ADMIN_PAGE_LOCAL, "local")                                                                   \
    X(ADMIN_PAGE_YES, "yes")                                                                       \
    X(ADMIN_PAGE_NO, "no")

#define CONFIG_WORDS_log_level(X)                                                                  \
    X(LOG_LEVEL_ERROR, "error")                                                                    \
    X(LOG_LEVEL_WARNING, "warning")                                                                \
    X(LOG_LEVEL_INFO, "info")                                                                      \
    X(LOG_LEVEL_DEBUG, "debug")

#define CONFIG_WORDS_log_format(X)                                                                 \
    X(LOG_FORMAT_TEXT, "text")                                                                     \
    X(LOG_FORMAT_JSON, "json")

#define CONFIG_WORDS_log_access(X)                                                                 \
    X(LOG_ACCESS_OFF, "off")                                                                       \
    X(LOG_ACCESS_ERRORS, "errors")                                                                 \
    X(LOG_ACCESS_SAMPLED, "sampled")                                                               \
    X(LOG_ACCESS_ON, "on")

#define CONFIG_WORDS_cache_secure_targets(X)                                                       \
    X(CACHE_SECURE_PRIVATE, "private")                                                             \
    X(CACHE_SECURE_SHARED, "shared")                                                               \
    X(CACHE_SECURE_OFF, "off")

/* Those of schemes are in coap/scheme.h, with their enums. */
#define CONFIG_WORDS_scheme_congestion_control(X) CONGESTION_CONTROL_WORDS(X)
#define CONFIG_WORDS_scheme_upstream_type(X) UPSTREAM_TYPE_WORDS(X)

#define CONFIG_WORDS_route_form(X)                                                                 \
    X(ROUTE_FORM_PROXY_CRI, "proxy-cri")                                                           \
    X(ROUTE_FORM_PROXY_SCHEME_NUMBER, "proxy-scheme-number")                                       \
    X(ROUTE_FORM_PROXY_URI, "proxy-uri")                                                           \
    X(ROUTE_FORM_PROXY_SCHEME, "proxy-scheme")

#define CONFIG_WORDS_upstream_engine(X)                                                            \
    X(UPSTREAM_LIBCOAP, "libcoap")                                                                 \
    X(UPSTREAM_NATIVE, "native")

#define CONFIG_WORDS_policy_targets(X)                                                             \
    X(POLICY_TARGETS_ALLOW, "allow")                                                               \
    X(POLICY_TARGETS_DENY, "deny")

#define CONFIG_WORDS_access_action(X)                                                              \
    X(ACCESS_ALLOW, "allow")                                                                       \
    X(ACCESS_DENY, "deny")

#define CONFIG_WORD_ENUMERATOR(name, word) name,

enum config_proxy_size { CONFIG_WORDS_proxy_size(CONFIG_WORD_ENUMERATOR) };
enum config_proxy_scheme_port { CONFIG_WORDS_proxy_scheme_port(CONFIG_WORD_ENUMERATOR) };
enum config_http_unmapped { CONFIG_WORDS_http_unmapped(CONFIG_WORD_ENUMERATOR) };
enum config_proxy_no_response { CONFIG_WORDS_proxy_no_response(CONFIG_WORD_ENUMERATOR) };
enum config_resolve_prefer { CONFIG_WORDS_resolve_prefer(CONFIG_WORD_ENUMERATOR) };
enum config_resolve_system { CONFIG_WORDS_resolve_system(CONFIG_WORD_ENUMERATOR) };
enum config_observe_notifications { CONFIG_WORDS_observe_notifications(CONFIG_WORD_ENUMERATOR) };
enum config_admin_page { CONFIG_WORDS_admin_page(CONFIG_WORD_ENUMERATOR) };
enum config_log_level { CONFIG_WORDS_log_level(CONFIG_WORD_ENUMERATOR) };
enum config_log_format { CONFIG_WORDS_log_format(CONFIG_WORD_ENUMERATOR) };
enum config_log_access { CONFIG_WORDS_log_access(CONFIG_WORD_ENUMERATOR) };
enum config_cache_secure_targets { CONFIG_WORDS_cache_secure_targets(CONFIG_WORD_ENUMERATOR) };
enum config_upstream_engine { CONFIG_WORDS_upstream_engine(CONFIG_WORD_ENUMERATOR) };
enum config_policy_targets { CONFIG_WORDS_policy_targets(CONFIG_WORD_ENUMERATOR) };
enum config_access_action { CONFIG_WORDS_access_action(CONFIG_WORD_ENUMERATOR) };
enum config_route_form { CONFIG_WORDS_route_form(CONFIG_WORD_ENUMERATOR) };

#undef CONFIG_WORD_ENUMERATOR

#endif
