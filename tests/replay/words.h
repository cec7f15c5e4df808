/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages in words, for the scripts of the fake network. It encodes options by
 * itself, so that what the daemon's own encoder gets wrong does not cancel out.
 */
#ifndef CRIPROXY_REPLAY_WORDS_H
#define CRIPROXY_REPLAY_WORDS_H

/**
 * @p head, hex and words as fake_peer.h has them ("48 01 MID TOKEN"), and behind it
 * the options and the payload in @p body as hex. In @p body, separated by blanks
 * and in ascending order of option numbers:
 *
 *     11=temp      option 11 with the text "temp" (up to the next blank)
 *     239:0001     option 239 with the bytes 00 01; "239:" is an empty one
 *     35#1035      option 35 with 1035 letters a
 *     /6f6b        the payload "ok", in hex; last
 *     /#9000       a payload of 9000 letters a
 *     ...          whatever else (for patterns); last
 *
 * @return text that stays until the 8th next call.
 */
const char *words(const char *head, const char *body);

#endif
