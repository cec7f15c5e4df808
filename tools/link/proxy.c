/* SPDX-License-Identifier: BSD-2-Clause */
#include "link.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define HOST_MAX 256u
#define PORT_MAX 8u

/* SCHEME://HOST[:PORT]; @p host and @p port have room for it. */
static bool split_proxy(const char *uri, struct proxy *proxy, char host[static HOST_MAX],
                        char port[static PORT_MAX])
{
    static const struct {
        const char *scheme;
        enum actor_way way;
        const char *port;
    } schemes[] = {{"coap://", WAY_UDP, "5683"},
                   {"coaps://", WAY_DTLS, "5684"},
                   {"coap+tcp://", WAY_TCP, "5683"},
                   {"coap+ws://", WAY_WS, "80"}};
    const char *at = NULL, *colon;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i].scheme);
        if (strncmp(uri, schemes[i].scheme, len) == 0) {
            at = uri + len;
            proxy->way = schemes[i].way;
            (void)snprintf(port, PORT_MAX, "%s", schemes[i].port);
        }
    }
    if (at == NULL) {
        return false;
    }
    proxy->host = at;
    size_t len = at[0] == '[' ? strcspn(at, "]") : strcspn(at, ":/");
    bool is_bracketed = at[0] == '[';
    if (len == 0 || len >= HOST_MAX || (is_bracketed && at[len] != ']')) {
        return false;
    }
    (void)snprintf(host, HOST_MAX, "%.*s", (int)len - is_bracketed, at + is_bracketed);
    colon = at + len + is_bracketed;
    if (*colon == ':' && strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
        strlen(colon + 1) < 6 && colon[1] != '\0') {
        (void)snprintf(port, PORT_MAX, "%s", colon + 1);
        return true;
    }
    return *colon == '\0';
}

const char *proxy_find(const char *uri, struct proxy *proxy)
{
    char host[HOST_MAX], port[PORT_MAX];
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found;
    if (!split_proxy(uri, proxy, host, port)) {
        return "--proxy: SCHEME://HOST[:PORT] was expected";
    }
    if (proxy->way == WAY_DTLS && (proxy->identity == NULL || proxy->key == NULL)) {
        return "coaps needs --identity and --key";
    }
    int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0) {
        return gai_strerror(error);
    }
    memcpy(&proxy->address, found->ai_addr, found->ai_addrlen);
    proxy->address_len = found->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}
