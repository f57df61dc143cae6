#include "play.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void play_trace(struct play_member *m, const char *fmt, ...)
{
	size_t at = strlen(m->trace);
	va_list args;

	if (m->program == ORDER_END || m->program == ORDER_ABORT || at + 32 > sizeof(m->trace))
		return;
	if (at)
		m->trace[at++] = ' ';
	va_start(args, fmt);
	vsnprintf(m->trace + at, sizeof(m->trace) - at, fmt, args);
	va_end(args);
}

/* In the words of order-*.txt. */
void play_trace_order(struct play_member *m, enum order_step step, const struct board_order *order,
		      const struct board_answer *answer)
{
	static const char *const words[BOARD_OP_COUNT] = {
		[BOARD_INIT] = "init",
		[BOARD_DEVICES] = "devices",
		[BOARD_READ_TOPOLOGY] = "topology-file",
		[BOARD_READ_GRAPH] = "graph-file",
		[BOARD_LISTEN] = "listen",
		[BOARD_TUNER_INIT] = "tuner",
	};

	if (step == ORDER_CONNECT || (step == ORDER_TUNER_INIT && order->op == BOARD_READ_GRAPH))
		return; /* of another thread; no step of NCCL */
	if (order->op == BOARD_PROPERTIES)
		play_trace(m, "properties:%d", order->device);
	else if (order->op == BOARD_JOIN)
		play_trace(m, "make:%d", answer->value);
	else if (words[order->op])
		play_trace(m, "%s", words[order->op]);
}
