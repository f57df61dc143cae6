/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collectives: AllReduce, AllGather, ReduceScatter, AlltoAll and sendrecv through one NCCL plugin and through another, in
 * turns: what `tributary bench` runs where there is no NCCL. What NCCL would choose is chosen here: AllReduce goes by ring or
 * tree, whichever is faster without Tributary, and with it by collnet where its tuner would say so of a cluster that
 * promises this gain. One interface a host. Every element of each last run is checked. Prints JSON lines. Exit status 1:
 * something failed, or was wrong.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/args.h"
#include "common/clock.h"
#include "common/exchange.h"
#include "common/oob.h"
#include "common/output.h"
#include "common/reduce.h"
#include "common/side.h"
#include "tributary/predict.h"

enum {
	PAIRS_LEAST = 6,
	PAIRS_WANTED = 9 /* one may be off */,
	PAIRS_MAX = 101,
	BATCH_MOST = 50,
	ROUNDS = 3,
	CHANNELS = 2,
	LATENCY_BYTES = 64 << 10
};
#define SAMPLE_S 0.02 /* what a timing takes at least, in a batch */

enum operation { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SENDRECV, OPERATION_COUNT };
static const char *const operation_names[OPERATION_COUNT] = { "all_reduce", "all_gather", "reduce_scatter",
							      "all_to_all", "sendrecv" };
static const char all_operations[] = "all_reduce,all_gather,reduce_scatter,all_to_all,sendrecv";

enum way { WAY_RING, WAY_TREE, WAY_COLLNET, WAY_PAIRWISE, WAY_COUNT };
static const char *const way_names[WAY_COUNT] = { "ring", "tree", "collnet", "pairwise" };

enum { WITH, WITHOUT, SIDES };
static const char *const side_names[SIDES] = { "with", "without" };

struct contestant {
	struct endpoint endpoint;
	struct collective ring, tree;
	struct exchange exchange;
};

struct settings {
	const char *plugin, *vs, *operations, *json;
	int asked[OPERATION_COUNT], asked_count;
	struct args_list bytes;
	int pairs, nap_us, spawn, collnet_gain_permille;
	double seconds, timeout_s;
};

struct bench {
	struct settings set;
	struct oob *oob;
	struct contestant sides[SIDES];
	struct chain chain;
	float *input, *output;
	size_t most_bytes;
	uint64_t wrong; /* elements, of all ranks */
	struct output out;
};

/* One operation at one size. */
struct turns {
	enum operation operation;
	size_t bytes, count; /* as nccl-tests has them */
	enum way ways[SIDES];
	double seconds[SIDES][PAIRS_MAX];
	uint64_t wrong[SIDES];
	int pairs, batch;
};

/* ---- one run ---- */

static int run_once(struct bench *b, const struct turns *t, int which, enum way way, struct poller *poller)
{
	static const enum schedule_kind kinds[OPERATION_COUNT] = {
		[ALL_GATHER] = SCHEDULE_ALLGATHER,
		[REDUCE_SCATTER] = SCHEDULE_REDUCESCATTER,
	};
	struct contestant *side = &b->sides[which];

	if (t->operation == ALL_TO_ALL)
		return exchange_all(&side->exchange, b->input, b->output, t->count, poller);
	if (t->operation == SENDRECV)
		return exchange_next(&side->exchange, b->input, b->output, t->count, poller);
	if (way == WAY_COLLNET)
		return chain_run(&b->chain, b->input, b->output, t->count, poller);
	return collective_run(way == WAY_TREE ? &side->tree : &side->ring, kinds[t->operation], b->input, b->output,
			      t->count, poller);
}

static int settle(struct bench *b, int which, enum way way, struct poller *poller)
{
	struct contestant *side = &b->sides[which];

	if (way == WAY_PAIRWISE)
		return exchange_settle(&side->exchange, poller);
	return way == WAY_COLLNET ? 0 : collective_settle(way == WAY_TREE ? &side->tree : &side->ring, poller);
}

static uint64_t wrong_here(const struct bench *b, const struct turns *t)
{
	int rank = b->oob->rank, size = b->oob->size, k;
	size_t part = (size_t)rank * t->count;
	uint64_t wrong = 0;

	switch (t->operation) {
	case ALL_REDUCE:
		return reduce_wrong(b->output, 0, t->count, size);
	case REDUCE_SCATTER:
		return reduce_wrong(b->output, part, t->count, size);
	case SENDRECV:
		return reduce_wrong_moved(b->output, 0, t->count, (rank + size - 1) % size);
	default:
		for (k = 0; k < size; k++)
			wrong += reduce_wrong_moved(b->output + (size_t)k * t->count,
						    t->operation == ALL_TO_ALL ? part : 0, t->count, k);
		return wrong;
	}
}

/* What one rank says of a timing. */
struct outcome {
	double seconds;
	uint64_t wrong;
};

/* The slowest rank's time of one run, of `batch` back to back. The same on all ranks. */
static int time_runs(struct bench *b, struct turns *t, int which, enum way way, int batch, double *ret_seconds)
{
	struct outcome mine, *all = calloc((size_t)b->oob->size, sizeof(*all));
	double slowest_s = 0;
	struct poller poller;
	uint64_t start_ns;
	int i, r;

	if (!all)
		return -ENOMEM;
	memset(b->output, 0xff, b->most_bytes); /* NaN */
	poller_init(&poller, (uint64_t)b->set.nap_us * 1000, false, (uint64_t)(b->set.timeout_s * 1e9));
	r = oob_barrier(b->oob);
	start_ns = perf_now_ns();
	for (i = 0; i < batch && r == 0; i++)
		r = run_once(b, t, which, way, &poller);
	mine.seconds = (double)(perf_now_ns() - start_ns) * 1e-9 / batch;
	if (r == 0)
		r = settle(b, which, way, &poller);
	mine.wrong = r == 0 ? wrong_here(b, t) : 0;
	if (r == 0)
		r = oob_allgather(b->oob, &mine, sizeof(mine), all);
	for (i = 0; i < b->oob->size && r == 0; i++) {
		slowest_s = all[i].seconds > slowest_s ? all[i].seconds : slowest_s;
		t->wrong[which] += all[i].wrong;
		b->wrong += all[i].wrong;
	}
	free(all);
	*ret_seconds = slowest_s;
	return r;
}

/* ---- what is run ---- */

static int batch_of(double seconds)
{
	return seconds >= SAMPLE_S ? 1 : seconds * BATCH_MOST <= SAMPLE_S ? BATCH_MOST : (int)ceil(SAMPLE_S / seconds);
}

/* A first run, and where it was short a second, as long as a timing. */
static int calibrate(struct bench *b, struct turns *t, int which, enum way way, double *ret_seconds)
{
	int r = time_runs(b, t, which, way, 1, ret_seconds);

	if (r == 0 && batch_of(*ret_seconds) > 1)
		r = time_runs(b, t, which, way, batch_of(*ret_seconds), ret_seconds);
	return r;
}

/* Whether our tuner would take collnet where NCCL's model has these times. */
static bool takes_collnet(const struct bench *b, size_t bytes, const double *seconds)
{
	float costs[PREDICT_ALGORITHM_COUNT][PREDICT_PROTOCOL_COUNT], least;
	struct predict_table table = { costs[0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT };
	size_t ranks = (size_t)b->oob->size;
	struct predict_collnet collnet;
	int a, p;

	if (!b->chain.comm)
		return false;
	for (a = 0; a < PREDICT_ALGORITHM_COUNT; a++)
		for (p = 0; p < PREDICT_PROTOCOL_COUNT; p++)
			costs[a][p] = -1;
	costs[PREDICT_RING][PREDICT_SIMPLE] = (float)(seconds[WAY_RING] * 1e6);
	costs[PREDICT_TREE][PREDICT_SIMPLE] = (float)(seconds[WAY_TREE] * 1e6);
	costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = 0;
	predict_collnet_make(ranks, ranks, NULL, &collnet);
	collnet.sizes_chunks = collnetplugin_asks_tuner(b->chain.plugin);
	collnet.gain_permille = (unsigned)b->set.collnet_gain_permille;
	if (!predict_collnet_edit(&collnet, PREDICT_ALLREDUCE, bytes, 1, &table))
		return false;
	least = fminf(costs[PREDICT_RING][PREDICT_SIMPLE], costs[PREDICT_TREE][PREDICT_SIMPLE]);
	return costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] < least;
}

static int choose(struct bench *b, struct turns *t, double *ret_pair_s)
{
	double seconds[WAY_COUNT] = { 0 }, with_s = 0;
	enum way way = t->operation == ALL_TO_ALL || t->operation == SENDRECV ? WAY_PAIRWISE : WAY_RING;
	int r = calibrate(b, t, WITHOUT, way, &seconds[way]);

	if (r == 0 && t->operation == ALL_REDUCE) {
		r = calibrate(b, t, WITHOUT, WAY_TREE, &seconds[WAY_TREE]);
		way = seconds[WAY_TREE] < seconds[WAY_RING] ? WAY_TREE : WAY_RING;
	}
	t->ways[WITHOUT] = t->ways[WITH] = way;
	if (t->operation == ALL_REDUCE && takes_collnet(b, t->bytes, seconds))
		t->ways[WITH] = WAY_COLLNET;
	if (r == 0)
		r = calibrate(b, t, WITH, t->ways[WITH], &with_s);
	if (r < 0)
		return r;
	t->batch = batch_of(with_s < seconds[way] ? with_s : seconds[way]);
	*ret_pair_s = with_s + seconds[way];
	return 0;
}

/* ---- one size after the other ---- */

static void print_turns(struct bench *b, const struct turns *t)
{
	struct output *o = &b->out;
	int k;
	char key[32];

	output_json_begin(o, "case");
	output_json_text(o, "operation", operation_names[t->operation]);
	output_json_number(o, "ranks", b->oob->size);
	output_json_number(o, "size", (double)t->bytes);
	output_json_number(o, "count", (double)t->count);
	output_json_text(o, "type", "float");
	output_json_number(o, "batch", t->batch);
	for (k = 0; k < SIDES; k++) {
		snprintf(key, sizeof(key), "%s_way", side_names[k]);
		output_json_text(o, key, way_names[t->ways[k]]);
		snprintf(key, sizeof(key), "%s_wrong", side_names[k]);
		output_json_number(o, key, (double)t->wrong[k]);
		snprintf(key, sizeof(key), "%s_s", side_names[k]);
		output_json_numbers(o, key, t->seconds[k], (size_t)t->pairs);
	}
	output_json_end(o);
}

static void print_left_out(struct bench *b, const struct turns *t, double needed_s)
{
	output_json_begin(&b->out, "left_out");
	output_json_text(&b->out, "operation", operation_names[t->operation]);
	output_json_number(&b->out, "size", (double)t->bytes);
	output_json_number(&b->out, "seconds", needed_s);
	output_json_end(&b->out);
}

/* How much longer a size takes than the one before. Small ones cost latency, not bytes. */
static double growth_of(size_t before, size_t bytes)
{
	return fmax((double)bytes, LATENCY_BYTES) / fmax((double)before, LATENCY_BYTES);
}

/* One operation at all sizes. */
struct series {
	enum operation operation;
	int count; /* of sizes */
	struct turns turns[ARGS_LIST_MAX];
	double pair_s[ARGS_LIST_MAX];
};

static void set_size(struct turns *t, enum operation operation, size_t bytes, size_t ranks)
{
	size_t parts = operation != ALL_REDUCE && operation != SENDRECV ? ranks : 1;

	t->operation = operation;
	t->count = bytes / sizeof(float) / parts;
	t->count += !t->count;
	t->bytes = t->count * parts * sizeof(float);
}

/* Chooses the ways, and how many sizes fit into seconds; the rest of the time goes to more pairs. */
static int plan(struct bench *b, struct series *s, double seconds, int *ret_fitting)
{
	double least_s = 0, all_s = 0, least = fmin(b->set.pairs, PAIRS_WANTED);
	int i, r = 0, fitting = 0;

	for (i = 0; i < s->count; i++)
		set_size(&s->turns[i], s->operation, b->set.bytes.values[i], (size_t)b->oob->size);
	for (i = 0; i < s->count && r == 0; i++) {
		struct turns *t = &s->turns[i];

		s->pair_s[i] = i ? s->pair_s[i - 1] * growth_of(s->turns[i - 1].bytes, t->bytes) : 0;
		if (all_s + s->pair_s[i] * least > seconds)
			continue;
		r = choose(b, t, &s->pair_s[i]);
		least_s = s->pair_s[i] * t->batch * least;
		if (i && all_s + least_s > seconds)
			continue;
		all_s += least_s;
		fitting = i + 1;
	}
	for (i = 0; i < fitting; i++)
		s->turns[i].pairs = (int)fmin(b->set.pairs, fmax(least, least * seconds / all_s));
	*ret_fitting = fitting;
	return r;
}

/* Pairs from..to - 1. */
static int measure(struct bench *b, struct turns *t, int from, int to)
{
	int i, k, r = 0;

	for (i = from; i < to && r == 0; i++)
		for (k = 0; k < SIDES && r == 0; k++) {
			int which = i % 2 ? SIDES - 1 - k : k;

			r = time_runs(b, t, which, t->ways[which], t->batch, &t->seconds[which][i]);
		}
	return r;
}

static int connect_side(struct bench *b, int which)
{
	struct contestant *side = &b->sides[which];
	int r = collective_open(&side->ring, b->oob, COLLECTIVE_RING, CHANNELS, &side->endpoint);

	if (r == 0)
		r = collective_open(&side->tree, b->oob, COLLECTIVE_TREE, CHANNELS, &side->endpoint);
	return r < 0 ? r : exchange_open(&side->exchange, b->oob, &side->endpoint);
}

static void disconnect_side(struct bench *b, int which)
{
	struct contestant *side = &b->sides[which];

	exchange_close(&side->exchange);
	collective_close(&side->tree);
	collective_close(&side->ring);
	memset(&side->tree, 0, sizeof(side->tree));
	memset(&side->ring, 0, sizeof(side->ring));
}

/* A run that is not counted: connections begin slowly. */
static int reconnect(struct bench *b, struct turns *t)
{
	double unused_s;
	int k, r = oob_barrier(b->oob);

	for (k = 0; k < SIDES && r == 0; k++) {
		disconnect_side(b, k);
		r = connect_side(b, k);
		if (r == 0)
			r = time_runs(b, t, k, t->ways[k], 1, &unused_s);
	}
	return r;
}

/*
 * The pairs of a size lie in several rounds over all sizes: what disturbs the machine for a while is not in all of them. Each
 * has connections of its own: among the same hosts some share a link evenly, and some do not, for as long as they live.
 */
static int measure_sizes(struct bench *b, enum operation operation, double seconds)
{
	struct series *s = calloc(1, sizeof(*s));
	int round, i, fitting = 0, r;

	if (!s)
		return -ENOMEM;
	s->operation = operation;
	s->count = b->set.bytes.count;
	r = plan(b, s, seconds, &fitting);
	for (round = 0; round < ROUNDS && r == 0; round++) {
		if (round && fitting)
			r = reconnect(b, &s->turns[fitting - 1]);
		for (i = 0; i < fitting && r == 0; i++) {
			int pairs = s->turns[i].pairs;

			r = measure(b, &s->turns[i], pairs * round / ROUNDS, pairs * (round + 1) / ROUNDS);
		}
	}
	for (i = 0; i < s->count && r == 0 && b->oob->rank == 0; i++) {
		if (i < fitting)
			print_turns(b, &s->turns[i]);
		else
			print_left_out(b, &s->turns[i], s->pair_s[i] * PAIRS_WANTED);
	}
	free(s);
	return r;
}

/* AllReduce has two: of it alone something can gain from a size on. */
static int shares_of(int operation)
{
	return operation == ALL_REDUCE ? 2 : 1;
}

static int measure_all(struct bench *b)
{
	int shares = 0, i, r = 0;

	for (i = 0; i < b->set.asked_count; i++)
		shares += shares_of(b->set.asked[i]);
	for (i = 0; i < b->set.asked_count && r == 0; i++)
		r = measure_sizes(b, (enum operation)b->set.asked[i],
				  b->set.seconds * shares_of(b->set.asked[i]) / shares);
	return r;
}

/* ---- set-up ---- */

static int open_contestant(struct bench *b, int which)
{
	struct endpoint_options options = { .plugin = which == WITH ? b->set.plugin : b->set.vs,
					    .timeout_s = b->set.timeout_s };
	int r = endpoint_open(&options, 0x636f6c6c65637400ULL + (unsigned)which, &b->sides[which].endpoint);

	return r < 0 ? r : connect_side(b, which);
}

static int open_all(struct bench *b)
{
	int i, r = 0;

	b->most_bytes = args_largest(&b->set.bytes, (size_t)b->oob->size * sizeof(float));
	b->input = reduce_memory(b->most_bytes);
	b->output = reduce_memory(b->most_bytes);
	if (!b->input || !b->output)
		return -ENOMEM;
	reduce_fill(b->input, b->most_bytes / sizeof(float), b->oob->rank);
	for (i = 0; i < SIDES && r == 0; i++)
		r = open_contestant(b, i);
	if (r == 0 && b->set.collnet_gain_permille)
		r = chain_open(&b->chain, b->oob, &b->sides[WITH].endpoint, 0, CHANNELS, b->input, b->output,
			       b->most_bytes);
	return r;
}

static void close_all(struct bench *b)
{
	int i;

	chain_close(&b->chain);
	for (i = 0; i < SIDES; i++) {
		disconnect_side(b, i);
		endpoint_close(&b->sides[i].endpoint);
	}
}

static int parse(int argc, char **argv, struct settings *set)
{
	const struct args_option options[] = {
		{ "plugin", ARGS_TEXT, &set->plugin, "with: path, or NAME for libnccl-net-NAME.so" },
		{ "vs", ARGS_TEXT, &set->vs, "without: the same of another plugin" },
		{ "operations", ARGS_TEXT, &set->operations, all_operations },
		{ "bytes", ARGS_SIZES, &set->bytes, "sizes, growing" },
		{ "pairs", ARGS_INT, &set->pairs, "pairs of timings, 6 to 101 (11)" },
		{ "seconds", ARGS_NUMBER, &set->seconds, "for all: the largest sizes are left out (90)" },
		{ "collnet-gain", ARGS_INT, &set->collnet_gain_permille,
		  "AllReduce also by collnet, of which the cluster file promises so many thousandths of the rate of NCCL's ring or tree" },
		{ "nap-us", ARGS_INT, &set->nap_us, "sleep after a round in which nothing moved (0: yield)" },
		{ "timeout", ARGS_NUMBER, &set->timeout_s, "seconds without any progress before giving up (30)" },
		{ "spawn", ARGS_INT, &set->spawn, "start so many ranks here, over loopback" },
		{ "json", ARGS_TEXT, &set->json, "write to this file (-)" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};
	int r = args_parse(argc, argv,
			   "Collectives through two plugins, over RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.",
			   options);

	set->asked_count = args_names(set->operations, operation_names, OPERATION_COUNT, set->asked);
	if (r == 0 &&
	    (!set->plugin || !set->vs || set->pairs < PAIRS_LEAST || set->pairs > PAIRS_MAX || set->asked_count < 0)) {
		fprintf(stderr, "collectives: give --plugin and --vs; --pairs is %d to %d, --operations some of %s\n",
			PAIRS_LEAST, PAIRS_MAX, all_operations);
		return -EINVAL;
	}
	return r;
}

static int run_all(struct oob *oob, void *arg)
{
	struct bench *b = arg;
	int r;

	b->oob = oob;
	if (oob->size < 2) {
		fprintf(stderr, "collectives: one rank alone has nobody to talk to: start it on several hosts\n");
		return 1;
	}
	r = output_open(&b->out, oob->rank == 0 ? b->set.json : NULL);
	if (r == 0)
		r = open_all(b);
	if (r == 0)
		r = measure_all(b);
	close_all(b);
	output_close(&b->out);
	return r < 0 ? r : b->wrong > 0;
}

int main(int argc, char **argv)
{
	static struct bench b = {
		.set = { .operations = all_operations,
			 .json = "-",
			 .pairs = 11,
			 .seconds = 90,
			 .timeout_s = 30,
			 .bytes = { 4, { 64 << 10, 256 << 10, 1 << 20, 4 << 20 } } },
	};
	int r = parse(argc, argv, &b.set);

	return r ? (r < 0 ? 2 : 0) : oob_run(b.set.spawn, b.set.timeout_s, run_all, &b);
}
