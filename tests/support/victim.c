/* SPDX-License-Identifier: Apache-2.0 */
#include "support/victim.h"

#include <signal.h>
#include <unistd.h>

const char *const victim_state_names[VICTIM_STATE_COUNT] = { "listening", "connecting",   "idle",   "sending",
							     "receiving", "transferring", "closing" };
const char *const victim_way_names[VICTIM_WAY_COUNT] = { "killed", "stopped", "gone", "killed, held by a child",
							 "another program" };

const struct traffic_shape victim_shape = {
	.name = "until it vanishes",
	.messages = 96,
	.max_bytes = 1 << 20,
	.window = 8,
	.group_max = 2,
};

/* Holds what its parent held until the test kills it. */
static pid_t holder_start(void)
{
	pid_t pid = fork();

	if (!pid) {
		alarm(60);
		for (;;)
			pause();
	}
	return pid;
}

void victim_live(enum victim_state state, enum victim_way way, int control, struct traffic_end *end)
{
	pid_t holder = way == VICTIM_HELD ? holder_start() : 0;
	char order;
	int r = 0;

	if (state >= VICTIM_SENDING)
		r = traffic_step(end);
	if (state == VICTIM_CLOSING)
		end->ops->close_connection(end->connection);
	if (r >= 0)
		r = peer_write(control, &holder, sizeof(holder));
	while (r >= 0 && !peer_readable(control)) {
		if (state == VICTIM_TRANSFERRING && end->completed < end->total)
			r = traffic_step(end);
		else
			usleep(1000);
	}
	if (r >= 0)
		r = peer_read(control, &order, 1);
	if (r >= 0 && way == VICTIM_EXEC)
		execl("/bin/sleep", "sleep", "60", (char *)NULL);
	_exit(r < 0);
}

void victim_strike(enum victim_way way, const struct peer *victim)
{
	char order = 'x';

	if (way == VICTIM_STOP)
		kill(victim->pid, SIGSTOP);
	else if (way == VICTIM_EXIT || way == VICTIM_EXEC)
		(void)peer_write(victim->control, &order, 1); /* it goes on if this fails, and the test sees that */
	else
		kill(victim->pid, SIGKILL);
}
