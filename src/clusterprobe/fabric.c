/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds, from the first to the last. */
#include "clusterprobe/fabric.h"

#include "base/log.h"
#include "base/sys.h"
#include "clusterprobe/fabric_internal.h"

#include <errno.h>

enum {
	PAIR_ROUNDS = 48, /* at least so many one-to-one rounds first, and every pair at least twice */
	TURNS_MAX = 10,
	TURNS_SETTLED = 3, /* so many times in a row nothing has changed, and no host is doubtful; */
	TURNS_DOUBTFUL = 6,
	INSIDE_ROUNDS = 12,
	INSIDE_SETS = 2,
	FILL_ROUNDS = 3, /* of each turn */
	CROWD_ROUNDS = 4,
	HALF_ROUNDS = 4,
};

#define MARGIN_LEAST 6.0

/* ------------------------------------------------------------------------------------------------------------- rounds */

/* Every host sends to every other once, each time to another: one set of n - 1 rounds. */
static int run_pairs(struct fabric_work *work)
{
	for (size_t i = 0; i < work->n; i++)
		work->order[i] = (uint16_t)i;
	fabric_shuffle(work, work->order, work->n);
	for (size_t shift = 1; shift < work->n; shift++) {
		int r = fabric_run(work, fabric_plan_shift(work, work->order, shift), work->n, FABRIC_PAIRS);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Each part by itself, as if it were all: what is wide among narrow ones shows only so. */
static int run_inside(struct fabric_work *work)
{
	uint16_t order[FABRIC_HOSTS_MAX];
	size_t sizes[FABRIC_HOSTS_MAX] = { 0 }, rounds = INSIDE_ROUNDS;
	int r = 0;

	for (size_t i = 0; i < work->n; i++) {
		order[i] = (uint16_t)i;
		sizes[work->part[i]]++;
	}
	for (size_t p = 0; p < work->part_count; p++)
		rounds = sizes[p] - 1 > rounds ? sizes[p] - 1 : rounds;
	fabric_shuffle(work, order, work->n);
	for (size_t i = 0; i < rounds && r == 0; i++) {
		size_t count = fabric_plan_inside(work, order, i);

		if (count)
			r = fabric_run(work, count, count, FABRIC_PAIRS);
	}
	return r;
}

/* Fills the uplinks that there seem to be, and those that there might be. */
static int run_turn(struct fabric_work *work)
{
	int r = 0;

	for (unsigned i = 0; i < FILL_ROUNDS && work->part_count > 1 && r == 0; i++)
		r = fabric_run(work, fabric_plan_fill(work), work->n, FABRIC_FILL);
	for (unsigned i = 0; i < CROWD_ROUNDS && work->part_count > 1 && r == 0; i++) {
		size_t single, count = fabric_plan_crowd(work, &single);

		r = fabric_run(work, count, single, FABRIC_CROWD);
	}
	for (unsigned i = 0; i < HALF_ROUNDS && r == 0; i++) {
		size_t count;

		if (i % 2 == 0)
			fabric_halves(work, work->order);
		count = fabric_plan_halves(work, work->order);
		if (count)
			r = fabric_run(work, count, count, FABRIC_FILL);
	}
	return r;
}

/* Is there a host that might as well be in another part? */
static bool is_doubtful(const struct fabric_work *work)
{
	for (size_t i = 0; i < work->n && work->part_count > 1; i++) {
		uint16_t other = 0;

		if (fabric_margin(work, i, work->scratch, &other) < MARGIN_LEAST)
			return true;
	}
	return false;
}

static int find_parts(struct fabric_work *work)
{
	size_t sets = (PAIR_ROUNDS + work->n - 2) / (work->n - 1);
	unsigned settled = 0;
	bool changed;
	int r = 0;

	sets = sets < 2 ? 2 : sets;
	work->expected = sets * (work->n - 1) + 4 * (FILL_ROUNDS + CROWD_ROUNDS + HALF_ROUNDS);
	for (size_t i = 0; i < sets && r == 0; i++)
		r = run_pairs(work);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < 2 && r == 0; i++) {
		fabric_evidence(work);
		r = fabric_partition(work, &changed);
	}
	for (unsigned i = 0; i < INSIDE_SETS && work->part_count > 1 && r == 0; i++) {
		r = run_inside(work);
		if (r == 0) {
			fabric_evidence(work);
			r = fabric_partition(work, &changed);
		}
		if (!changed)
			break;
	}
	if (r < 0)
		return r;
	for (unsigned i = 0; i < TURNS_MAX && settled < (is_doubtful(work) ? TURNS_DOUBTFUL : TURNS_SETTLED); i++) {
		r = run_turn(work);
		if (r < 0)
			return r;
		fabric_evidence(work);
		r = fabric_partition(work, &changed);
		if (r < 0)
			return r;
		settled = changed ? 0 : settled + 1;
	}
	return 0;
}

/* -------------------------------------------------------------------------------------------------------------- whole */

int fabric_measure(struct fabric_probe *probe, size_t host_count, uint64_t seed, struct fabric *ret, struct diag *diag)
{
	struct fabric_work work = { .probe = probe, .diag = diag, .n = host_count, .random = seed };
	struct fabric found = { 0 };
	int r;

	if (host_count < 2 || host_count > FABRIC_HOSTS_MAX)
		return -EINVAL;
	r = fabric_work_init(&work);
	if (r == 0)
		r = find_parts(&work);
	if (r == 0)
		r = fabric_conclude(&work, &found);
	if (r == 0)
		*ret = found;
	else
		fabric_fini(&found);
	fabric_work_fini(&work);
	return r;
}

void fabric_fini(struct fabric *fabric)
{
	sys_free(fabric->hosts);
	sys_free(fabric->leaves);
	*fabric = (struct fabric){ 0 };
}
