/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/granter.h"

#include "base/minmax.h"

enum { SMALL_PART = 8 }; /* of a grant */

/* Keeps the order of age. Threads that took the time before the lock come a little out of order, hence the walk. */
static void list_insert(struct pace_flow_list *list, struct pace_flow *flow)
{
	struct pace_flow *before = TAILQ_LAST(list, pace_flow_list);

	while (before && before->age_ns > flow->age_ns)
		before = TAILQ_PREV(before, pace_flow_list, link);
	if (before)
		TAILQ_INSERT_AFTER(list, before, flow, link);
	else
		TAILQ_INSERT_HEAD(list, flow, link);
}

static void flow_wait(struct pace_granter *granter, struct pace_flow *flow)
{
	flow->waits = true;
	flow->passed_over = 0;
	list_insert(&granter->waiting, flow);
	granter->waiting_count++;
	granter->needs_bytes = 0;
}

static void flow_hold(struct pace_granter *granter, struct pace_flow *flow)
{
	TAILQ_REMOVE(&granter->waiting, flow, link);
	granter->waiting_count--;
	granter->needs_bytes = 0;
	flow->waits = false;
	list_insert(&granter->holding, flow);
}

static uint64_t flow_held(const struct pace_flow *flow)
{
	return flow->granted_bytes - flow->delivered_bytes;
}

static uint64_t flow_left(const struct pace_flow *flow)
{
	return flow->total_bytes - flow->granted_bytes;
}

/* Of the pool, and of what its sender holds. */
static void charge(struct pace_granter *granter, struct pace_flow *flow, uint64_t bytes)
{
	granter->outstanding_bytes += bytes;
	if (flow->sender_held_bytes)
		*flow->sender_held_bytes += bytes;
}

/* More than a quantum where grants are large: on a fast port there would be too many. */
static uint64_t small_grant(const struct pace_granter *granter)
{
	return max_u64(granter->quantum_bytes, granter->grant_bytes / SMALL_PART);
}

/*
 * A sender that holds less is served first. 0 where many flows wait: all of their senders would hold
 * less, and each delivery would bring a grant.
 */
static uint64_t first_below_bytes(const struct pace_granter *granter)
{
	return 2 * granter->waiting_count * small_grant(granter) <= granter->budget_bytes ? small_grant(granter) : 0;
}

static void give_back(struct pace_granter *granter, struct pace_flow *flow, uint64_t bytes)
{
	granter->outstanding_bytes -= bytes;
	if (!flow->sender_held_bytes)
		return;
	*flow->sender_held_bytes -= bytes;
	if (*flow->sender_held_bytes < first_below_bytes(granter))
		granter->needs_bytes = 0; /* it may have less */
}

void pace_granter_init(struct pace_granter *granter, uint64_t budget_bytes, uint64_t quantum_bytes, uint64_t stall_ns)
{
	*granter = (struct pace_granter){
		.budget_bytes = budget_bytes,
		.quantum_bytes = quantum_bytes ? quantum_bytes : 1,
		.grant_bytes = quantum_bytes ? quantum_bytes : 1,
		.stall_ns = stall_ns,
	};
	TAILQ_INIT(&granter->waiting);
	TAILQ_INIT(&granter->holding);
}

void pace_granter_resize(struct pace_granter *granter, uint64_t budget_bytes, uint64_t grant_bytes)
{
	if (grant_bytes < granter->quantum_bytes)
		grant_bytes = granter->quantum_bytes;
	if (budget_bytes == granter->budget_bytes && grant_bytes == granter->grant_bytes)
		return;
	granter->budget_bytes = budget_bytes;
	granter->grant_bytes = grant_bytes;
	granter->needs_bytes = 0;
}

void pace_granter_add(struct pace_granter *granter, struct pace_flow *flow, uint64_t *sender_held_bytes,
		      uint64_t total_bytes, uint64_t now_ns)
{
	*flow = (struct pace_flow){ .total_bytes = total_bytes,
				    .age_ns = now_ns,
				    .progress_ns = now_ns,
				    .sender_held_bytes = sender_held_bytes,
				    .listed = true };
	flow_wait(granter, flow);
}

void pace_granter_charge(struct pace_granter *granter, struct pace_flow *flow, uint64_t bytes)
{
	flow->granted_bytes += bytes;
	charge(granter, flow, bytes);
	if (!flow_left(flow))
		flow_hold(granter, flow);
}

void pace_granter_delivered(struct pace_granter *granter, struct pace_flow *flow, uint64_t bytes, uint64_t now_ns)
{
	uint64_t held, beyond;

	if (!flow->listed || !bytes)
		return;
	held = flow_held(flow);
	if (bytes > flow->total_bytes - flow->delivered_bytes)
		bytes = flow->total_bytes - flow->delivered_bytes;
	/* A sender that sent more than it was granted has taken a grant: it never had those bytes in the pool. */
	beyond = bytes > held ? bytes - held : 0;
	flow->granted_bytes += beyond;
	flow->delivered_bytes += bytes;
	flow->progress_ns = now_ns;
	if (flow->forgiven) {
		flow->forgiven = false;
		charge(granter, flow, flow_held(flow));
		if (flow_left(flow)) {
			TAILQ_REMOVE(&granter->holding, flow, link);
			flow_wait(granter, flow);
		}
		return;
	}
	give_back(granter, flow, bytes - beyond);
	if (flow->waits && !flow_left(flow))
		flow_hold(granter, flow);
}

void pace_granter_remove(struct pace_granter *granter, struct pace_flow *flow)
{
	if (!flow->listed)
		return;
	if (!flow->forgiven)
		give_back(granter, flow, flow_held(flow));
	if (flow->waits)
		flow_hold(granter, flow);
	TAILQ_REMOVE(&granter->holding, flow, link);
	flow->listed = false;
}

static uint64_t grant_wanted(const struct pace_granter *granter, const struct pace_flow *flow)
{
	uint64_t left = flow_left(flow);

	/* Up to half a grant more is better than a small one after it. */
	return left < granter->grant_bytes + granter->grant_bytes / 2 ? left : granter->grant_bytes;
}

/* Of several senders: what holds the others up may be their own ports, or what the network gives a flow. */
static bool holds_less(const struct pace_flow *flow, const struct pace_flow *than)
{
	return flow->sender_held_bytes && than->sender_held_bytes &&
	       *flow->sender_held_bytes < *than->sender_held_bytes;
}

/* Its sender has nothing more to send, or soon. */
static bool runs_out(const struct pace_granter *granter, const struct pace_flow *flow)
{
	return flow->sender_held_bytes && *flow->sender_held_bytes < first_below_bytes(granter);
}

/* The next flow in turn, and whether smallest-first chose it. There is one waiting. */
static struct pace_flow *choose(const struct pace_granter *granter, bool *ret_smallest_first)
{
	struct pace_flow *oldest = TAILQ_FIRST(&granter->waiting), *smallest, *longest = oldest;

	for (struct pace_flow *flow = TAILQ_NEXT(oldest, link); flow; flow = TAILQ_NEXT(flow, link)) {
		if (holds_less(flow, oldest))
			oldest = flow;
		if (flow->passed_over > longest->passed_over)
			longest = flow;
	}
	smallest = oldest;
	for (struct pace_flow *flow = TAILQ_FIRST(&granter->waiting); flow; flow = TAILQ_NEXT(flow, link))
		if (flow_left(flow) < flow_left(smallest))
			smallest = flow;
	*ret_smallest_first = false;
	if (longest->passed_over >= PACE_PASSED_OVER_FACTOR * granter->waiting_count)
		return longest;
	if (!granter->smallest_turn || smallest == oldest || runs_out(granter, oldest))
		return oldest;
	if (grant_wanted(granter, smallest) > granter->credit_bytes)
		return oldest;
	*ret_smallest_first = true;
	return smallest;
}

static void give(struct pace_granter *granter, struct pace_flow *flow, uint64_t bytes, bool smallest_first,
		 uint64_t now_ns)
{
	uint64_t credit_most = granter->grant_bytes + granter->grant_bytes / 2;

	for (struct pace_flow *other = TAILQ_FIRST(&granter->waiting); other; other = TAILQ_NEXT(other, link))
		other->passed_over++;
	flow->passed_over = 0;
	if (smallest_first) {
		granter->credit_bytes -= bytes;
	} else {
		/* No more than one grant's worth is saved up: long ago is no reason for a burst of small ones now. */
		granter->credit_bytes += bytes;
		if (granter->credit_bytes > credit_most)
			granter->credit_bytes = credit_most;
	}
	granter->smallest_turn = !granter->smallest_turn;
	if (!flow_held(flow))
		flow->progress_ns = now_ns; /* nothing could arrive before: the stall time starts here */
	flow->granted_bytes += bytes;
	charge(granter, flow, bytes);
	granter->needs_bytes = 0;
	if (!flow_left(flow))
		flow_hold(granter, flow);
}

static uint64_t budget_room(const struct pace_granter *granter)
{
	return granter->budget_bytes > granter->outstanding_bytes ? granter->budget_bytes - granter->outstanding_bytes
								  : 0;
}

bool pace_granter_may_give(const struct pace_granter *granter)
{
	if (TAILQ_EMPTY(&granter->waiting))
		return false;
	if (!granter->outstanding_bytes)
		return true;
	return budget_room(granter) && budget_room(granter) >= granter->needs_bytes;
}

struct pace_flow *pace_granter_next(struct pace_granter *granter, uint64_t allowance_bytes, uint64_t now_ns)
{
	uint64_t room = budget_room(granter), wanted, least;
	struct pace_flow *flow;
	bool smallest_first;

	if (!pace_granter_may_give(granter))
		return NULL;
	if (room > allowance_bytes)
		room = allowance_bytes;
	if (!granter->outstanding_bytes && room < granter->quantum_bytes)
		room = granter->quantum_bytes;
	if (granter->outstanding_bytes && room < granter->needs_bytes)
		return NULL;
	flow = choose(granter, &smallest_first);
	wanted = grant_wanted(granter, flow);
	least = min_u64(wanted, runs_out(granter, flow) ? small_grant(granter) : granter->grant_bytes);
	if (room >= wanted) {
		give(granter, flow, wanted, smallest_first, now_ns);
		return flow;
	}
	/*
	 * The flow in turn waits for its room. To serve a smaller one instead would let small ones starve it. Only an
	 * empty pool, where nothing would ever make room, gives less.
	 */
	if (room >= least || !granter->outstanding_bytes) {
		give(granter, flow, runs_out(granter, flow) ? room : min_u64(room, least), smallest_first, now_ns);
		return flow;
	}
	granter->needs_bytes = least;
	return NULL;
}

bool pace_granter_forgive(struct pace_granter *granter, uint64_t now_ns)
{
	struct pace_flow_list *lists[] = { &granter->waiting, &granter->holding };
	bool found = false;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct pace_flow *next;

		for (struct pace_flow *flow = TAILQ_FIRST(lists[i]); flow; flow = next) {
			next = TAILQ_NEXT(flow, link);
			if (flow->forgiven || !flow_held(flow) || now_ns < flow->progress_ns ||
			    now_ns - flow->progress_ns < granter->stall_ns)
				continue;
			flow->forgiven = true;
			give_back(granter, flow, flow_held(flow));
			if (flow->waits)
				flow_hold(granter, flow);
			found = true;
		}
	}
	if (found)
		granter->needs_bytes = 0;
	return found;
}
