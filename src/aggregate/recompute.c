/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lost aggregator should have made is made again, by the members alone: member m sums the m-th part of the operation
 * (exchange.c). The order of sums is what it always is (combine.c), so the bits are, too. It need not be fast. Messages are as
 * long as the memory for them allows, so that they are few: they overtake what others wait for (QUEUE_AHEAD).
 */
#include "aggregate/group.h"
#include "base/sys.h"

#include <errno.h>

/* Inputs that lie at one member at a time; larger operations take two rounds, and half of their length. */
#define RECOMPUTE_BYTES ((size_t)64 << 20)
enum { ROUNDS_MOST = 2 };

void recompute_begin(struct group *group, struct exchange *exchange, struct operation *operation)
{
	exchange->operation = operation;
	exchange->recomputes = true;
	exchange->round = 0;
	exchange->rounds = operation->bytes > RECOMPUTE_BYTES ? ROUNDS_MOST : 1;
	exchange->each = (operation->count + group->count * exchange->rounds - 1) / (group->count * exchange->rounds);
	exchange->in_bytes = exchange->each * reduce_type_bytes(operation->type);
	exchange->in = sys_zalloc(group->count * exchange->in_bytes);
	if (!exchange->in) {
		group_break(group, -ENOMEM, "there is no memory to make again what a lost aggregator should have made");
		return;
	}
	exchange_begin(group, exchange);
}

bool recompute_step(struct group *group, struct exchange *exchange)
{
	if (++exchange->round < exchange->rounds) {
		exchange_begin(group, exchange);
		return false;
	}
	sys_free(exchange->in);
	exchange->in = NULL;
	return true;
}
