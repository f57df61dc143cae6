/* SPDX-License-Identifier: Apache-2.0 */
#include "command/interrupt.h"

#include <signal.h>
#include <stddef.h>

_Atomic bool interrupt_wanted;

static void on_signal(int number)
{
	(void)number;
	interrupt_wanted = true;
}

void interrupt_catch(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	interrupt_wanted = false;
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

void interrupt_release(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}
