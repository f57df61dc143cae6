/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C and SIGTERM for commands that take long: the first asks the command to stop, the second ends the program as usual. */
#ifndef TRIBUTARY_COMMAND_INTERRUPT_H
#define TRIBUTARY_COMMAND_INTERRUPT_H

#include <stdbool.h>

/* Set by a signal's handler, which reaches nothing else, and read by any thread. */
extern _Atomic bool interrupt_wanted;

void interrupt_catch(void);
void interrupt_release(void);

#endif
