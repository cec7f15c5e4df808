/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/window.h"

#define ONE 256u

void window_init(struct window *window, uint32_t nstart, uint32_t nstart_max)
{
    *window = (struct window){
        .size_x256 = nstart * ONE,
        .threshold_x256 = nstart_max * ONE,
        .start_x256 = nstart * ONE,
        .max_x256 = nstart_max * ONE,
    };
}

void window_limit(struct window *window, uint32_t nstart_max)
{
    window->max_x256 = nstart_max * ONE;
    if (window->size_x256 > window->max_x256) {
        window->size_x256 = window->max_x256;
    }
    if (window->threshold_x256 > window->max_x256) {
        window->threshold_x256 = window->max_x256;
    }
}

bool window_is_open(const struct window *window)
{
    return window->outstanding < window->size_x256 / ONE;
}

void window_on_success(struct window *window, uint32_t rtt_ms)
{
    /* RFC 6298 section 2, in the integer form that keeps 3 and 2 bits of fraction. */
    uint32_t rtt = rtt_ms > 0 ? rtt_ms : 1;
    if (window->srtt_ms_x8 == 0) {
        window->srtt_ms_x8 = rtt * 8;
        window->rttvar_ms_x4 = rtt * 2;
    } else {
        uint32_t srtt = window->srtt_ms_x8 / 8;
        uint32_t error = rtt > srtt ? rtt - srtt : srtt - rtt;
        window->rttvar_ms_x4 = window->rttvar_ms_x4 - window->rttvar_ms_x4 / 4 + error;
        window->srtt_ms_x8 = window->srtt_ms_x8 - window->srtt_ms_x8 / 8 + rtt;
    }
    /* A window that is not used is not tested either: it does not grow. */
    if ((window->outstanding + 1) * 2 < window->size_x256 / ONE) {
        return;
    }
    if (window->size_x256 < window->threshold_x256) {
        window->size_x256 += ONE;
    } else {
        uint32_t step = ONE * ONE / window->size_x256;
        window->size_x256 += step > 0 ? step : 1;
    }
    if (window->size_x256 > window->max_x256) {
        window->size_x256 = window->max_x256;
    }
}

void window_on_answer(struct window *window)
{
    uint32_t least = window->start_x256 < window->max_x256 ? window->start_x256 : window->max_x256;
    if (window->size_x256 < least) {
        window->size_x256 = least;
    }
}

bool window_on_loss(struct window *window, uint64_t sent_ms, uint64_t now_ms)
{
    if (sent_ms < window->halved_ms) {
        return false;
    }
    window->halved_ms = now_ms;
    window->size_x256 /= 2;
    if (window->size_x256 < ONE) {
        window->size_x256 = ONE;
    }
    window->threshold_x256 = window->size_x256;
    return true;
}
