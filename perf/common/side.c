/* SPDX-License-Identifier: Apache-2.0 */
#include "side.h"

#include <string.h>

#include "clock.h"

const char *side_str(enum side_kind kind)
{
	static const char *const names[] = { [SIDE_RING] = "ring",
					     [SIDE_TREE] = "tree",
					     [SIDE_COLLNET] = "collnet",
					     [SIDE_WHOLE] = "whole",
					     [SIDE_PEER] = "peer" };

	return (unsigned)kind < SIDE_KIND_COUNT ? names[kind] : "?";
}

/* A whole operation runs in place, as NCCL's users mostly do; several cannot, as the second would add up sums. */
static bool in_place(const struct side *side, const struct side_work *work)
{
	return side->kind == SIDE_WHOLE && work->batch == 1;
}

void side_prepare(const struct side *side, const struct side_work *work)
{
	if (in_place(side, work))
		memcpy(work->output, work->input, work->count * sizeof(float));
	else
		memset(work->output, 0xff, work->count * sizeof(float)); /* NaN */
}

static uint64_t messages(const struct side *side)
{
	return side->chain ? side->chain->calls : side->kind == SIDE_PEER ? 0 : collective_messages(&side->collective);
}

static int run_once(struct side *side, const struct side_work *work)
{
	float *input = in_place(side, work) ? work->output : work->input;

	switch (side->kind) {
	case SIDE_COLLNET:
		return chain_run(side->chain, input, work->output, work->count, work->poller);
	case SIDE_WHOLE:
		return chain_run_whole(side->chain, input, work->output, work->count, work->poller);
	default:
		return collective_run(&side->collective, SCHEDULE_ALLREDUCE, input, work->output, work->count,
				      work->poller);
	}
}

int side_run(struct side *side, const struct side_work *work, struct side_outcome *ret_outcome, uint64_t *ret_wrong)
{
	struct side_outcome outcome = { 0 };
	uint64_t start_ns, before = messages(side), wrong = 0;
	int i, r = 0;

	if (side->kind == SIDE_PEER) {
		r = peer_run(&side->peer, work->count, work->batch, &outcome.seconds, &outcome.cpu_s, &wrong);
	} else {
		outcome.cpu_s = perf_cpu_s();
		start_ns = perf_now_ns();
		for (i = 0; i < work->batch && r == 0; i++)
			r = run_once(side, work);
		outcome.seconds = (double)(perf_now_ns() - start_ns) * 1e-9 / work->batch;
		outcome.cpu_s = (perf_cpu_s() - outcome.cpu_s) / work->batch;
		if (r == 0 && !side->chain)
			r = collective_settle(&side->collective, work->poller);
	}
	if (r < 0)
		return r;
	outcome.messages = (messages(side) - before) / (uint64_t)work->batch;
	*ret_outcome = outcome;
	*ret_wrong = wrong;
	return 0;
}

int side_hops(const struct side *side)
{
	return side->kind == SIDE_RING || side->kind == SIDE_TREE ? collective_hops(&side->collective) : 0;
}

void side_close(struct side *side)
{
	if (side->kind == SIDE_PEER)
		peer_close(&side->peer);
	else if (!side->chain)
		collective_close(&side->collective);
}
