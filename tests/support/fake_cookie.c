/* SPDX-License-Identifier: BSD-2-Clause */
/* Cookies of the fake network: net/cookie.h without a secret, the same in each run. */
#include "net/cookie.h"

#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_MS 60000u

struct cookies {
    uint64_t seed;
};

int cookies_new(const struct loop *loop, uint64_t now_ms, struct bytes shared, const char *label,
                struct cookies **ret_cookies)
{
    struct cookies *cookies = malloc(sizeof(*cookies));
    (void)loop;
    (void)now_ms;
    (void)label;
    if (cookies == NULL) {
        return -ENOMEM;
    }
    cookies->seed = shared.len > 0 ? hash_bytes(shared.data, shared.len, 7) : 7;
    *ret_cookies = cookies;
    return 0;
}

void cookies_free(struct cookies *cookies)
{
    free(cookies);
}

static void make(const struct cookies *cookies, uint64_t period, const struct udp_path *path,
                 uint8_t ret_cookie[COOKIE_LEN])
{
    for (unsigned i = 0; i < COOKIE_LEN / 8; i++) {
        uint64_t part =
            hash_bytes((const uint8_t *)path, sizeof(*path), cookies->seed + period * 4 + i);
        memcpy(ret_cookie + 8u * i, &part, sizeof(part));
    }
}

bool cookie_make(struct cookies *cookies, uint64_t now_ms, const struct udp_path *path,
                 uint8_t ret_cookie[COOKIE_LEN])
{
    make(cookies, now_ms / PERIOD_MS, path, ret_cookie);
    return true;
}

bool cookie_is_good(struct cookies *cookies, uint64_t now_ms, const struct udp_path *path,
                    const uint8_t *cookie, size_t len)
{
    uint8_t wanted[COOKIE_LEN];
    for (uint64_t back = 0; back < 2 && len >= COOKIE_LEN_MIN && len <= COOKIE_LEN; back++) {
        make(cookies, now_ms / PERIOD_MS - back, path, wanted);
        if (memcmp(wanted, cookie, len) == 0) {
            return true;
        }
    }
    return false;
}
