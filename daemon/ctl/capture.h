/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criproxyctl capture: the messages of clients and origin servers, decrypted, in a file for
 * Wireshark and tshark. The proxy, which may write no files, sends them over the control socket
 * (the command messages); each becomes an exported PDU (LINKTYPE_WIRESHARK_UPPER_PDU) of the
 * dissector coap in a pcapng file, with the exchange and the reason as its comment.
 */
#ifndef CRIPROXYCTL_CAPTURE_H
#define CRIPROXYCTL_CAPTURE_H

/**
 * Runs it until it is interrupted, or a limit is reached.
 *
 * @param argv "capture", and its arguments.
 * @return the exit status; the reason for another than 0 was printed.
 */
int capture_run(const char *socket, int argc, char **argv);

#endif
