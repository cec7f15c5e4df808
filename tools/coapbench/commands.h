/* SPDX-License-Identifier: BSD-2-Clause */
/* The sub-commands: each gets its own argv, [0] being its name, and gives an exit status. */
#ifndef COAPBENCH_COMMANDS_H
#define COAPBENCH_COMMANDS_H

#include "args.h"

int devices_main(int argc, char **argv);
int load_main(int argc, char **argv);
int origin_main(int argc, char **argv);
int relay_main(int argc, char **argv);

#endif
