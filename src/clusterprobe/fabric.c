/* The rounds, from the first to the last. */
#include "clusterprobe/fabric.h"

#include "base/log.h"
#include "base/random.h"
#include "base/sys.h"
#include "clusterprobe/fabric_internal.h"

#include <errno.h>
#include <string.h>

enum {
	PAIR_ROUNDS = 48, /* at least so many one-to-one rounds first, and every pair at least twice */
	TURNS_MAX = 10,
	TURNS_SETTLED = 3, /* so many times in a row nothing has changed, and no host is doubtful; */
	TURNS_DOUBTFUL = 6,
	TOP_EACH = 24, /* of so many rounds one may be too high */
	INSIDE_ROUNDS = 12,
	INSIDE_SETS = 2,
	FILL_ROUNDS = 3, /* of each turn */
	CROWD_ROUNDS = 4,
	HALF_ROUNDS = 4,
};

#define MARGIN_LEAST 6.0

/* ------------------------------------------------------------------------------------------------------------- rounds */

uint64_t fabric_random(struct fabric_work *work, uint64_t below)
{
	return random_below(&work->random, below);
}

void fabric_shuffle(struct fabric_work *work, uint16_t *items, size_t count)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = fabric_random(work, i);
		uint16_t item = items[i - 1];

		items[i - 1] = items[j];
		items[j] = item;
	}
}

static int grow(void *array, size_t *room, size_t wanted, size_t element_bytes)
{
	void **at = array, *more;
	size_t many = *room ? *room : 256;

	if (wanted <= *room)
		return 0;
	while (many < wanted)
		many *= 2;
	more = sys_zalloc(many * element_bytes);
	if (!more)
		return -ENOMEM;
	if (*at)
		memcpy(more, *at, *room * element_bytes);
	sys_free(*at);
	*at = more;
	*room = many;
	return 0;
}

/*
 * A host's NIC carries the most that it moved in any round, but for the very best of many: a sample may be too high, as a
 * clock was read too late.
 */
static void learn_nic(struct fabric_work *work, size_t way, size_t host, double sum)
{
	double *top = work->top + FABRIC_TOP * (way * work->n + host);
	unsigned *seen = &work->seen[way * work->n + host], skip;

	for (size_t i = 0; i < FABRIC_TOP; i++)
		if (sum > top[i]) {
			double other = top[i];

			top[i] = sum;
			sum = other;
		}
	skip = ++*seen / TOP_EACH;
	work->nic_Bps[way][host] = top[skip < FABRIC_TOP ? skip : FABRIC_TOP - 1];
}

static void learn_nics(struct fabric_work *work, const struct fabric_sample *samples, size_t count)
{
	double *sum = work->scratch;

	memset(sum, 0, 2 * work->n * sizeof(*sum));
	for (size_t i = 0; i < count; i++) {
		sum[samples[i].flow.from] += (double)samples[i].rate_Bps;
		sum[work->n + samples[i].flow.to] += (double)samples[i].rate_Bps;
	}
	for (size_t i = 0; i < 2 * work->n; i++)
		if (sum[i] > 0)
			learn_nic(work, i / work->n, i % work->n, sum[i]);
}

int fabric_run(struct fabric_work *work, size_t count, size_t single, enum fabric_purpose purpose)
{
	struct fabric_round *round;
	int r = grow(&work->samples, &work->sample_room, work->sample_count + count, sizeof(*work->samples));

	if (r == 0)
		r = grow(&work->rounds, &work->round_room, work->round_count + 1, sizeof(*work->rounds));
	if (r == 0)
		r = work->probe->ops->run(work->probe, work->flows, count, work->round_count,
					  work->expected > work->round_count ? work->expected : work->round_count + 1,
					  work->rates, work->diag);
	if (r < 0)
		return r;
	round = &work->rounds[work->round_count++];
	*round = (struct fabric_round){ work->sample_count, count, single, purpose };
	for (size_t i = 0; i < count; i++)
		work->samples[work->sample_count++] = (struct fabric_sample){ work->flows[i], (float)work->rates[i] };
	learn_nics(work, &work->samples[round->first], count);
	return 0;
}

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
		r = fabric_run(work, fabric_plan_fill(work, work->part, true), work->n, FABRIC_FILL);
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

/* --------------------------------------------------------------------------------------------------------------- work */

static void free_work(struct fabric_work *work)
{
	sys_free(work->samples);
	sys_free(work->rounds);
	for (int way = 0; way < 2; way++)
		sys_free(work->nic_Bps[way]);
	sys_free(work->part);
	sys_free(work->top);
	sys_free(work->seen);
	sys_free(work->evidence);
	sys_free(work->between);
	sys_free(work->order);
	sys_free(work->margin);
	sys_free(work->other);
	sys_free(work->scratch);
	sys_free(work->flows);
	sys_free(work->rates);
	for (int way = 0; way < 2; way++)
		sys_free(work->crossing[way]);
}

static int make_work(struct fabric_work *work)
{
	size_t n = work->n;

	work->top = sys_zalloc(2 * FABRIC_TOP * n * sizeof(*work->top));
	work->seen = sys_zalloc(2 * n * sizeof(*work->seen));
	work->part = sys_zalloc(n * sizeof(*work->part));
	work->margin = sys_zalloc(n * sizeof(*work->margin));
	work->other = sys_zalloc(n * sizeof(*work->other));
	work->order = sys_zalloc(2 * n * sizeof(*work->order));
	work->evidence = sys_zalloc(n * n * sizeof(*work->evidence));
	work->between = sys_zalloc(n * n * sizeof(*work->between));
	work->scratch = sys_zalloc(FABRIC_SCRATCH * n * sizeof(*work->scratch));
	work->flows = sys_zalloc(FABRIC_FLOWS_EACH * n * sizeof(*work->flows));
	work->rates = sys_zalloc(FABRIC_FLOWS_EACH * n * sizeof(*work->rates));
	for (int way = 0; way < 2; way++) {
		work->nic_Bps[way] = sys_zalloc(n * sizeof(**work->nic_Bps));
		work->crossing[way] = sys_zalloc(n * sizeof(**work->crossing));
		if (!work->nic_Bps[way] || !work->crossing[way])
			return -ENOMEM;
	}
	if (!work->top || !work->seen || !work->part || !work->margin || !work->other || !work->order ||
	    !work->evidence || !work->between || !work->scratch || !work->flows || !work->rates)
		return -ENOMEM;
	return 0;
}

int fabric_measure(struct fabric_probe *probe, size_t host_count, uint64_t seed, struct fabric *ret, struct diag *diag)
{
	struct fabric_work work = { .probe = probe, .diag = diag, .n = host_count, .random = seed };
	struct fabric found = { 0 };
	int r;

	if (host_count < 2 || host_count > FABRIC_HOSTS_MAX)
		return -EINVAL;
	r = make_work(&work);
	if (r == 0)
		r = find_parts(&work);
	if (r == 0)
		r = fabric_conclude(&work, &found);
	if (r == 0)
		*ret = found;
	else
		fabric_fini(&found);
	free_work(&work);
	return r;
}

void fabric_fini(struct fabric *fabric)
{
	sys_free(fabric->hosts);
	sys_free(fabric->leaves);
	*fabric = (struct fabric){ 0 };
}
