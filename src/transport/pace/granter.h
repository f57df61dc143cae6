/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver's pace: which of the messages that both sides have posted may send how many bytes now. Pure: values in,
 * values out; the caller gives the time and holds the pool's lock (struct pace in pace.h does both).
 *
 * A flow is one matched message on its way in. The pool is the budget of granted, undelivered bytes of one device in
 * this process. Rules (docs/design/transport.md has the state table):
 *   - every second grant goes to the oldest flow, the ones between to the flow with the least left to grant, as long as
 *     smallest-first has then had no more than half of the bytes; of senders that are told apart the oldest flow is that
 *     of the sender that holds least, and nobody else is served while that is less than a small grant, unless so
 *     many flows wait that half of the budget has no small grant for each;
 *   - a flow that waits is passed over by fewer than 5 × W grants, W the most flows that waited with it, whatever the
 *     others do: one that was passed over 4 × W times goes before both orders above;
 *   - a grant is `grant_bytes`, or the rest of the message if that is less than one and a half of it; to a sender that
 *     holds less than a small grant (an eighth of one, at least a quantum) it is what there is room for, and that at least;
 *   - granted bytes come back when they are delivered, when the flow ends, or when it delivered nothing for the stall
 *     time. Such a flow is forgiven: it gets nothing more until something of it arrives; then what it still holds is
 *     charged again, which may put the pool over its budget for a moment;
 *   - a pool with nothing granted always grants one quantum, even if the budget or the allowance is smaller.
 */
#ifndef TRIBUTARY_TRANSPORT_PACE_GRANTER_H
#define TRIBUTARY_TRANSPORT_PACE_GRANTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
	PACE_PASSED_OVER_FACTOR = 4
}; /* × waiting flows: then a flow goes first. See docs/design/transport.md for the bound */

struct pace_flow {
	/* Private to the granter. Zeroed before pace_granter_add; embedded in the receiver's message. */
	TAILQ_ENTRY(pace_flow) link; /* in one of the granter's lists, in order of age */
	uint64_t total_bytes, granted_bytes, delivered_bytes;
	uint64_t *sender_held_bytes; /* or NULL: what all flows of its sender hold, kept by the granter */
	uint64_t age_ns;             /* when both sides had posted */
	uint64_t progress_ns;        /* last delivery, or the first grant since it held nothing */
	uint64_t passed_over;        /* grants given to others since it waits or was last served */
	bool listed;                 /* in a list: between add and remove */
	bool waits;                  /* in the waiting list: bytes left to grant, and not forgiven */
	bool forgiven;               /* its undelivered grants were returned to the pool */
};

TAILQ_HEAD(pace_flow_list, pace_flow);

struct pace_granter {
	struct pace_flow_list waiting, holding; /* holding: all is granted, or forgiven */
	size_t waiting_count;
	uint64_t budget_bytes, outstanding_bytes, stall_ns;
	uint64_t quantum_bytes; /* what an empty pool may always grant */
	uint64_t grant_bytes;   /* the usual grant, at least a quantum */
	uint64_t credit_bytes;  /* what smallest-first may still have, from what the others had */
	uint64_t needs_bytes;   /* room without which the next grant is not possible; 0: not known */
	bool smallest_turn;
};

void pace_granter_init(struct pace_granter *granter, uint64_t budget_bytes, uint64_t quantum_bytes, uint64_t stall_ns);

/* A new budget, or another size of grant (raised to a quantum if it is less). */
void pace_granter_resize(struct pace_granter *granter, uint64_t budget_bytes, uint64_t grant_bytes);

/*
 * A message of total_bytes (> 0) is posted at both sides. sender_held_bytes: of its sender, 0 at first, and there until the
 * flow is removed; NULL where senders are not told apart.
 */
void pace_granter_add(struct pace_granter *granter, struct pace_flow *flow, uint64_t *sender_held_bytes,
		      uint64_t total_bytes, uint64_t now_ns);
/* `bytes` of a flow that was just added were sent without a grant: they are charged, whatever the budget. */
void pace_granter_charge(struct pace_granter *granter, struct pace_flow *flow, uint64_t bytes);
/* `bytes` more of it have arrived. A flow that is not listed: nothing happens. */
void pace_granter_delivered(struct pace_granter *granter, struct pace_flow *flow, uint64_t bytes, uint64_t now_ns);
/* Complete, failed or closed; what it still held returns. A flow that is not listed: nothing happens. */
void pace_granter_remove(struct pace_granter *granter, struct pace_flow *flow);
/*
 * Gives the next grant that the budget and allowance_bytes (what the host's arbiter lets this process grant on top of
 * what is outstanding) permit: adds to one flow's granted_bytes and returns that flow, or NULL when there is none. Call
 * until NULL.
 */
struct pace_flow *pace_granter_next(struct pace_granter *granter, uint64_t allowance_bytes, uint64_t now_ns);
/* False: pace_granter_next is certain to give nothing now, whatever the allowance. Cheap. */
bool pace_granter_may_give(const struct pace_granter *granter);
/* Returns to the pool what flows without progress for stall_ns hold. True when there was such a flow. */
bool pace_granter_forgive(struct pace_granter *granter, uint64_t now_ns);

#endif
