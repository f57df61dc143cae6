/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary tune --install FILE`: keeps a tuning table on this host, as each host of a job needs it. */
#ifndef TRIBUTARY_COMMAND_TUNE_INSTALL_H
#define TRIBUTARY_COMMAND_TUNE_INSTALL_H

#include <stdio.h>

struct command_call;

/* Returns an exit status. */
int tune_install(const struct command_call *call, FILE *out);

#endif
