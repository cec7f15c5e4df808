/* SPDX-License-Identifier: BSD-2-Clause */
/* Content-Formats by name: the rows of daemon/coap/media.def, of which nothing else is shared. */
#ifndef COAPBENCH_FORMAT_H
#define COAPBENCH_FORMAT_H

#include <stdint.h>

/** "50" or "application/json", as media.def has it. @return 0 or -EINVAL. */
int format_parse(const char *text, uint16_t *ret_format);

/** The media type of a Content-Format, static; "unknown" for one that the table does not have. */
const char *format_name(uint16_t format);

#endif
