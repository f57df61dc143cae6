/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the cases of a simulation: whether aggregation gains, and whether the order of ranks matters. */
#include "command/simulate/simulation.h"

#include "aggregate/schedule.h"
#include "command/answer.h"
#include "command/print/units.h"

#include <math.h>
#include <string.h>

/* By so much another order is worth a word. */
#define LESS 0.95

void simulation_case_words(const struct simulation *simulation, const struct simulation_case *one, char *text,
			   size_t text_bytes)
{
	const char *what = simulation->collective >= SIMULATE_ALLTOALL
				   ? simulation_collective_word(simulation->collective)
				   : simulation_algorithm_word(one->algorithm);

	snprintf(text, text_bytes, "%s%s%s", what, one->order_word[0] ? ", order " : "", one->order_word);
}

static bool is_aggregated(const struct simulation *simulation, const struct simulation_case *one)
{
	return simulation->collective == SIMULATE_ALLREDUCE &&
	       (one->algorithm == SIMULATE_HIERARCHICAL || one->algorithm == SIMULATE_AGGREGATORS);
}

/* The fastest with aggregation, or without, of those of which more is known than a bound; order NULL: of any. NULL: there is none. */
static const struct simulation_case *fastest(const struct simulation *simulation, bool aggregated, const char *order)
{
	const struct simulation_case *best = NULL;

	for (size_t i = 0; i < simulation->case_count; i++) {
		const struct simulation_case *one = &simulation->cases[i];

		if (is_aggregated(simulation, one) == aggregated && !one->worst.bound &&
		    (!order || !strcmp(order, one->order_word)) && (!best || one->time_s < best->time_s))
			best = one;
	}
	return best;
}

/* As `best` is the fastest of all orders, that of the order that has the slowest. */
static const struct simulation_case *worst_order(const struct simulation *simulation,
						 const struct simulation_case *best)
{
	const struct simulation_case *worst = best;

	for (size_t i = 0; i < simulation->case_count; i++) {
		const struct simulation_case *one = &simulation->cases[i];

		if (one == fastest(simulation, is_aggregated(simulation, best), one->order_word) &&
		    one->time_s > worst->time_s)
			worst = one;
	}
	return worst;
}

static void answer_one(const struct simulation *simulation, const struct simulation_case *one, struct answer *ret)
{
	char words[128], time[UNITS_BYTES], rate[UNITS_BYTES], size[UNITS_BYTES], name[SIMULATE_NAME_BYTES + 64];

	if (simulation->collective >= SIMULATE_ALLTOALL)
		snprintf(words, sizeof(words), "order %s", one->order_word);
	else
		simulation_case_words(simulation, one, words, sizeof(words));
	answer_add(ret, "%s of %s a rank takes %s%s, %s of bus bandwidth (%s)",
		   simulation_collective_name(simulation->collective), units_size(simulation->bytes, size),
		   one->worst.bound ? "at least " : "", units_time(one->time_s, time),
		   units_rate(one->worst.busbw_Bps, rate), words);
	if (!one->busiest_count)
		return;
	simulate_link_name(&simulation->fabric, one->busiest[0], name, sizeof(name));
	answer_add(ret, "; the fullest link is %s", name);
}

static void answer_aggregation(const struct simulation *simulation, const struct simulation_case *ours,
			       const struct simulation_case *nccl, struct answer *ret)
{
	double gain = nccl->time_s / ours->time_s;
	char mine[128], theirs[128], time[UNITS_BYTES], other[UNITS_BYTES];

	simulation_case_words(simulation, ours, mine, sizeof(mine));
	simulation_case_words(simulation, nccl, theirs, sizeof(theirs));
	units_time(ours->time_s, time);
	units_time(nccl->time_s, other);
	if (!answer_differs(gain))
		answer_add(ret, "No difference: aggregation (%s) is as fast as %s, %s; leave it off", mine, theirs,
			   other);
	else if (gain < 1)
		answer_add(
			ret,
			"Aggregation gains nothing: %s takes %.2f times as long as %s, %s instead of %s; leave it off",
			mine, 1 / gain, theirs, time, other);
	else
		answer_add(ret, "Aggregation (%s) is %.2f times as fast as %s, %s instead of %s", mine, gain, theirs,
			   time, other);
	if (gain > 1 && ours->leaf_gain.permille)
		answer_add(ret,
			   "; `tributary env` expects %.2f%s, beside ranks leaf by leaf%s, and turns it on from 1.5",
			   ours->leaf_gain.permille / 1e3,
			   ours->algorithm == SIMULATE_HIERARCHICAL && simulation->fabric.aggregator_count
				   ? " with the aggregators"
				   : "",
			   simulation->gpus > 1 ? " and for one GPU a host" : "");
}

/* Where the table has no ranks leaf by leaf: what they bring NCCL alone. The formula knows of one GPU a host: more lengthen a ring. */
static void answer_leaf_order(const struct simulation *simulation, const struct simulation_case *nccl,
			      struct answer *ret)
{
	double leaf_s = fmin(nccl->leaf_gain.ring_s_per_B, nccl->leaf_gain.tree_s_per_B) * simulation->bytes;
	char time[UNITS_BYTES];

	if (simulation->gpus == 1 && leaf_s > 0 && leaf_s < LESS * nccl->time_s)
		answer_add(ret, "; ranks leaf by leaf (`tributary cluster order`) should take NCCL alone %s",
			   units_time(leaf_s, time));
}

/* Beyond the engine's hosts no time of aggregation is known, only that it is not shorter. */
static bool is_too_large(const struct simulation *simulation)
{
	for (size_t i = 0; i < simulation->case_count; i++)
		if (simulation->cases[i].worst.bound)
			return true;
	return false;
}

void simulation_answer(const struct simulation *simulation, struct answer *ret)
{
	const struct simulation_case *nccl = fastest(simulation, false, NULL), *ours = fastest(simulation, true, NULL);
	const struct simulation_case *best = nccl ? nccl : ours, *worst;

	*ret = (struct answer){ .text = "" };
	if (!best && is_too_large(simulation))
		best = &simulation->cases[0];
	if (!best || best->time_s <= 0) {
		answer_add(ret, "No difference, whatever is chosen: nothing goes over the network.");
		return;
	}
	worst = worst_order(simulation, best);
	if (nccl && ours)
		answer_aggregation(simulation, ours, nccl, ret);
	else
		answer_one(simulation, best, ret);
	if (!ours && is_too_large(simulation))
		answer_add(ret, "; aggregation is for at most %d hosts and %d aggregators", SCHEDULE_MEMBERS_MAX,
			   SCHEDULE_AGGREGATORS_MAX);
	if (answer_differs(worst->time_s / best->time_s) && best->order_word[0])
		answer_add(
			ret,
			"; ranks in the order %s take %.2f times as long as in the order %s; `tributary cluster order` "
			"finds a good one",
			worst->order_word, worst->time_s / best->time_s, best->order_word);
	else if (nccl && strcmp(nccl->order_word, "leaf") != 0)
		answer_leaf_order(simulation, nccl, ret);
	answer_add(ret, ".");
}
