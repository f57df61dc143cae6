/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allreduce: sums floats over all ranks as NCCL's proxies do it: ring, tree, or the calls of CollNetChain, through any NCCL
 * plugin; with --floor also over plain TCP sockets, with --vs over another plugin, with --peer beside another program, all in
 * turns. Every element is checked on every rank after every iteration.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/args.h"
#include "common/clock.h"
#include "common/links.h"
#include "common/oob.h"
#include "common/output.h"
#include "common/reduce.h"
#include "common/side.h"
#include "common/stats.h"

enum { ALGOS = 3, MAX_SIDES = 8, MAX_ITERS = 1001, SMALL_BYTES = 256 << 10, NO_SIDE = -1 };

struct settings {
	const char *plugin, *vs, *devices, *json, *algo, *peer;
	int version, device, nap_us, iters, warmup, spawn, batch, channels;
	struct args_list bytes;
	double line_bps, timeout_s;
	bool floor, spin, whole, links, answer;
	int algos[ALGOS], algo_count; /* of --algo: kinds of sides */
};

/* What was measured of one side at one size. */
struct figures {
	double seconds[MAX_ITERS], cpu_s[MAX_ITERS];
	double began_s[MAX_ITERS]; /* on the machine's monotonic clock, at this rank */
	double messages;           /* of all ranks, in one run */
	uint64_t wrong;
	struct links links; /* sums */
};

struct allreduce {
	struct settings set;
	struct oob *oob;
	struct endpoint endpoint, vs;
	struct chain chain;
	int count; /* of sides */
	struct side sides[MAX_SIDES];
	struct figures figures[MAX_SIDES];
	struct links before;
	float *input, *output_data;
	size_t most_bytes;
	uint64_t wrong_all;
	struct output output;
};

/* What one rank says of an iteration. */
struct outcome {
	struct side_outcome run;
	uint64_t wrong;
};

/* ---- measuring ---- */

/* What the links carried since the last question is this side's (the barriers between are a few hundred bytes). */
static int count_links(struct allreduce *a, struct figures *figures)
{
	struct links *now;
	int r;

	if (!a->set.links || a->oob->rank != 0)
		return 0;
	now = calloc(1, sizeof(*now));
	if (!now)
		return -ENOMEM;
	r = links_take(now);
	if (r == 0 && figures)
		links_add(&figures->links, &a->before, now);
	if (r == 0)
		a->before = *now;
	free(now);
	return r;
}

/* The slowest rank's time; `batch` runs back to back, of which the last is checked. i < 0: does not count. */
static int iterate(struct allreduce *a, int which, size_t count, int batch, int i)
{
	struct outcome mine = { 0 }, *all = calloc((size_t)a->oob->size, sizeof(*all));
	struct figures *f = &a->figures[which];
	struct side *side = &a->sides[which];
	struct poller poller;
	struct side_work work = { a->input, a->output_data, count, batch, &poller };
	double slowest_s = 0, cpu_s = 0, messages = 0;
	int rank, r;

	if (!all)
		return -ENOMEM;
	side_prepare(side, &work);
	poller_init(&poller, (uint64_t)a->set.nap_us * 1000, a->set.spin, (uint64_t)(a->set.timeout_s * 1e9));
	r = oob_barrier(a->oob);
	if (i >= 0)
		f->began_s[i] = (double)perf_now_ns() * 1e-9;
	if (r == 0)
		r = side_run(side, &work, &mine.run, &mine.wrong);
	if (r == 0 && side->kind != SIDE_PEER)
		mine.wrong = reduce_wrong(a->output_data, 0, count, a->oob->size);
	if (r == 0)
		r = oob_allgather(a->oob, &mine, sizeof(mine), all);
	for (rank = 0; rank < a->oob->size && r == 0; rank++) {
		slowest_s = all[rank].run.seconds > slowest_s ? all[rank].run.seconds : slowest_s;
		cpu_s += all[rank].run.cpu_s;
		messages += (double)all[rank].run.messages;
		f->wrong += all[rank].wrong;
	}
	if (i >= 0) {
		f->seconds[i] = slowest_s;
		f->cpu_s[i] = cpu_s;
		f->messages = messages;
	}
	if (r == 0 && i >= 0)
		r = count_links(a, f);
	free(all);
	return r;
}

/* ---- what is compared with what ---- */

static int find(const struct allreduce *a, enum side_kind kind)
{
	int i;

	for (i = 0; i < a->count; i++)
		if (a->sides[i].kind == kind && a->sides[i].over == OVER_PLUGIN)
			return i;
	return NO_SIDE;
}

/* A ratio of two sides, and its name in JSON: over / under, pair by pair. */
struct comparison {
	int over, under;
	const char *key;
};

static struct comparison compare(const struct allreduce *a, int which)
{
	const struct side *side = &a->sides[which];
	size_t n = (size_t)a->set.iters;
	int ring = find(a, SIDE_RING), tree = find(a, SIDE_TREE), best = ring == NO_SIDE ? tree : ring;

	if (ring != NO_SIDE && tree != NO_SIDE &&
	    stats_median(a->figures[tree].seconds, n) < stats_median(a->figures[ring].seconds, n))
		best = tree;
	if (side->over != OVER_PLUGIN)
		return (struct comparison){ find(a, side->kind), which,
					    side->over == OVER_TCP ? "plugin_over_tcp" : "plugin_over_vs" };
	if (side->kind == SIDE_COLLNET || side->kind == SIDE_WHOLE)
		return (struct comparison){ which, best, "over_ring_and_tree" };
	if (side->kind == SIDE_PEER) {
		int ours = find(a, SIDE_COLLNET);

		return (struct comparison){ which, ours == NO_SIDE ? best : ours, "peer_over_ours" };
	}
	return (struct comparison){ NO_SIDE, NO_SIDE, NULL };
}

/* ---- printing ---- */

static void print_links_json(struct allreduce *a, int which, size_t bytes, int runs)
{
	const struct links *links = &a->figures[which].links;
	struct output *o = &a->output;
	size_t i;

	for (i = 0; i < links->count; i++) {
		const struct links_row *row = &links->rows[i];

		output_json_begin(o, "link");
		output_json_text(o, "algo", side_str(a->sides[which].kind));
		output_json_text(o, "name", a->sides[which].what);
		output_json_number(o, "bytes", (double)bytes);
		output_json_text(o, "from", row->from);
		output_json_text(o, "to", row->to);
		output_json_number(o, "rail", row->rail);
		output_json_number(o, "link_bytes", (double)row->bytes / runs);
		output_json_number(o, "link_packets", (double)row->packets / runs);
		output_json_number(o, "drops", (double)row->drops);
		output_json_number(o, "runs", runs);
		output_json_end(o);
	}
}

static void print_links(struct allreduce *a, size_t bytes, int runs)
{
	struct output *o = &a->output;
	size_t i;
	int k;

	output_note(o, "# bytes on each link in one run, over the size (and packets dropped in all)");
	output_text(o, -17, "# link");
	for (k = 0; k < a->count; k++)
		output_cell(o, 16, "%s%s", side_str(a->sides[k].kind),
			    a->sides[k].over == OVER_PLUGIN ? ""
			    : a->sides[k].over == OVER_TCP  ? ", TCP"
							    : ", vs");
	output_end(o);
	for (i = 0; i < a->figures[0].links.count; i++) {
		const struct links_row *row = &a->figures[0].links.rows[i];

		output_cell(o, -17, "# %s > %s", row->from, row->to);
		for (k = 0; k < a->count; k++) {
			row = &a->figures[k].links.rows[i];
			output_cell(o, 16, row->drops ? "%.3f (%llu)" : "%.3f",
				    (double)row->bytes / runs / (double)bytes, (unsigned long long)row->drops);
		}
		output_end(o);
	}
	for (k = 0; k < a->count; k++)
		print_links_json(a, k, bytes, runs);
}

static int batch_of(const struct allreduce *a, size_t bytes)
{
	return a->set.batch ? a->set.batch : bytes <= SMALL_BYTES ? 20 : 1;
}

static void print_side_json(struct allreduce *a, int which, size_t bytes, double bound_s, struct stats_interval ratio,
			    const char *key)
{
	const struct figures *f = &a->figures[which];
	const struct side *side = &a->sides[which];
	size_t n = (size_t)a->set.iters;
	struct stats_interval t = stats_bootstrap(f->seconds, n);
	double ranks = a->oob->size, algbw = (double)bytes / t.median * 1e-9;
	struct output *o = &a->output;
	char name[48];

	output_json_begin(o, "allreduce");
	output_json_text(o, "name", side->what);
	output_json_text(o, "algo", side_str(side->kind));
	output_json_number(o, "ranks", ranks);
	output_json_number(o, "bytes", (double)bytes);
	output_json_number(o, "batch", batch_of(a, bytes));
	output_json_number(o, "median_s", t.median);
	output_json_number(o, "low_s", t.low);
	output_json_number(o, "high_s", t.high);
	output_json_number(o, "algbw_GBps", algbw);
	output_json_number(o, "busbw_GBps", algbw * 2 * (ranks - 1) / ranks);
	output_json_number(o, "wrong", (double)f->wrong);
	output_json_number(o, "ring_bound_s", bound_s);
	output_json_number(o, "over_bound", t.median / bound_s);
	output_json_number(o, "over_bound_low", t.low / bound_s);
	output_json_number(o, "over_bound_high", t.high / bound_s);
	output_json_number(o, "cpu_s", stats_median(f->cpu_s, n));
	output_json_number(o, "cores_busy", stats_median(f->cpu_s, n) / t.median);
	output_json_number(o, "messages", f->messages);
	if (side_hops(side))
		output_json_number(o, "hops", side_hops(side));
	if (key) {
		output_json_number(o, key, ratio.median);
		snprintf(name, sizeof(name), "%s_low", key);
		output_json_number(o, name, ratio.low);
		snprintf(name, sizeof(name), "%s_high", key);
		output_json_number(o, name, ratio.high);
	}
	output_json_numbers(o, "times_s", f->seconds, n);
	output_json_numbers(o, "began_s", f->began_s, n);
	output_json_end(o);
}

static void print_side(struct allreduce *a, int which, size_t bytes)
{
	const struct figures *f = &a->figures[which];
	const struct side *side = &a->sides[which];
	struct comparison c = compare(a, which);
	size_t n = (size_t)a->set.iters, i;
	double ranks = a->oob->size, share = 2 * (ranks - 1) / ranks, ratios[MAX_ITERS];
	double bound_s = share * (double)bytes * 8 / (0.957 * a->set.line_bps);
	struct stats_interval t = stats_bootstrap(f->seconds, n), ratio = { 0 };
	struct output *o = &a->output;

	if (c.over == NO_SIDE || c.under == NO_SIDE)
		c.key = NULL;
	for (i = 0; i < n && c.key; i++)
		ratios[i] = a->figures[c.over].seconds[i] / a->figures[c.under].seconds[i];
	if (c.key)
		ratio = stats_bootstrap(ratios, n);
	output_cell(o, 12, "%zu", bytes);
	output_cell(o, 12, "%zu", bytes / sizeof(float));
	output_text(o, 6, "float");
	output_text(o, 6, "sum");
	output_cell(o, 10, "%.1f", t.median * 1e6);
	output_cell(o, 7, "%.3f", (double)bytes / t.median * 1e-9);
	output_cell(o, 7, "%.3f", (double)bytes / t.median * 1e-9 * share);
	output_cell(o, 6, "%llu", (unsigned long long)f->wrong);
	output_cell(o, 21, "%.3f [%.3f, %.3f]", t.median / bound_s, t.low / bound_s, t.high / bound_s);
	output_cell(o, 6, "%.2f", stats_median(f->cpu_s, n) / t.median);
	output_text(o, -7, side_str(side->kind));
	output_cell(o, -10, "%.10s", side->what);
	output_cell(o, 8, "%.0f", f->messages);
	output_cell(o, 4, side_hops(side) ? "%d" : "-", side_hops(side));
	if (c.key)
		output_cell(o, 20, "%.3f [%.3f, %.3f]", ratio.median, ratio.low, ratio.high);
	output_end(o);
	print_side_json(a, which, bytes, bound_s, ratio, c.key);
}

static void print_head(struct allreduce *a)
{
	struct output *o = &a->output;

	output_note(o, "# %s%s%s%s over %d ranks, nap %d us, %d iterations, sides in turn", a->set.algo,
		    a->set.floor ? ", plain TCP" : "", a->set.vs ? ", another plugin" : "",
		    a->set.peer ? ", another program" : "", a->oob->size, a->set.nap_us, a->set.iters);
	output_note(o, "# ring: %d channels; tree: 2; slices of at most 1 MiB, 4 outstanding", a->set.channels);
	if (a->chain.comm)
		output_note(
			o,
			"# collnet v%d, connected in %.2f s: calls of %d chunks of 32 to 256 KiB%s, 8 in flight, own "
			"send and receive slots%s",
			collnetplugin_version(a->chain.plugin), a->chain.connect_s, a->chain.channels,
			collnetplugin_asks_tuner(a->chain.plugin) ? " or, shorter than that, of the operation's size"
								  : "",
			a->set.whole ? "; whole: one call" : "");
	output_note(
		o, "# timed: the operation with the copies into and out of the slots; not: the check of every element");
	output_note(o,
		    "# bound: 2(N-1)/N x size at 0.957 of %.3f Gbit/s; cores: CPU time of all ranks over time; msgs: "
		    "what the callers post, all ranks",
		    a->set.line_bps * 1e-9);
	output_note(o, "# ratio: collnet over the better of ring and tree; TCP, another plugin: the plugin over it; a "
		       "program: it over ours");
	output_note(o, "%12s %12s %6s %6s %10s %7s %7s %6s %21s %6s %-7s %-10s %8s %4s %20s", "size (B)", "count",
		    "type", "redop", "time (us)", "algbw", "busbw", "#wrong", "time/bound [95 %]", "cores", "algo",
		    "what", "msgs", "hops", a->count > 1 ? "ratio [95 %]" : "");
}

/* ---- one size after the other ---- */

static int measure(struct allreduce *a, size_t bytes)
{
	size_t count = bytes / sizeof(float);
	int batch = batch_of(a, bytes), i, k, r = 0;

	memset(a->figures, 0, sizeof(a->figures));
	for (i = -a->set.warmup; i < a->set.iters && r == 0; i++) {
		if (a->oob->rank == 0)
			output_progress(output_size(bytes), (size_t)a->set.warmup + (size_t)i,
					(size_t)a->set.warmup + (size_t)a->set.iters);
		if (i == 0)
			r = count_links(a, NULL);
		for (k = 0; k < a->count && r == 0; k++)
			r = iterate(a, k, count, batch, i);
	}
	output_progress_clear();
	for (k = 0; k < a->count && r == 0; k++) {
		a->wrong_all += a->figures[k].wrong;
		if (a->oob->rank == 0)
			print_side(a, k, count * sizeof(float));
	}
	if (r == 0 && a->oob->rank == 0 && a->set.links)
		print_links(a, count * sizeof(float), a->set.iters * batch);
	return r;
}

static int measure_all(struct allreduce *a)
{
	int i, r = 0;

	if (a->oob->rank == 0)
		print_head(a);
	for (i = 0; i < a->set.bytes.count && r == 0; i++)
		r = measure(a, a->set.bytes.values[i]);
	return r;
}

/* As the program of another allreduce (common/peer.h): its barriers are the other's. */
static int answer(struct allreduce *a)
{
	struct poller poller;
	struct side_work work = { .input = a->input, .output = a->output_data, .poller = &poller };
	struct side_outcome outcome;
	uint64_t wrong;
	int r;

	printf("ready %s\n", side_str(a->sides[0].kind));
	fflush(stdout);
	while (scanf(" run %zu %d", &work.count, &work.batch) == 2) {
		if (work.count * sizeof(float) > a->most_bytes || work.batch < 1)
			return -EINVAL;
		side_prepare(&a->sides[0], &work);
		poller_init(&poller, (uint64_t)a->set.nap_us * 1000, a->set.spin, (uint64_t)(a->set.timeout_s * 1e9));
		r = side_run(&a->sides[0], &work, &outcome, &wrong);
		if (r < 0)
			return r;
		printf("done %.9f %.6f %llu\n", outcome.seconds, outcome.cpu_s,
		       (unsigned long long)reduce_wrong(a->output_data, 0, work.count, a->oob->size));
		fflush(stdout);
	}
	return 0;
}

/* ---- set-up ---- */

static struct side *new_side(struct allreduce *a, enum side_kind kind, enum side_over over, const char *what)
{
	struct side *side = &a->sides[a->count++];

	*side = (struct side){ .kind = kind, .over = over, .what = what };
	return side;
}

/* endpoint NULL: plain TCP. */
static int open_over(struct allreduce *a, enum side_kind kind, enum side_over over, struct endpoint *endpoint)
{
	struct side *side = new_side(a, kind, over, endpoint ? netplugin_name(endpoint->plugin) : "plain TCP");

	return collective_open(&side->collective, a->oob, kind == SIDE_TREE ? COLLECTIVE_TREE : COLLECTIVE_RING,
			       a->set.channels, endpoint);
}

static int open_collective(struct allreduce *a, enum side_kind kind)
{
	int r = 0;

	if (a->set.plugin)
		r = open_over(a, kind, OVER_PLUGIN, &a->endpoint);
	if (r == 0 && a->set.floor)
		r = open_over(a, kind, OVER_TCP, NULL);
	if (r == 0 && a->set.vs)
		r = open_over(a, kind, OVER_OTHER, &a->vs);
	return r;
}

static int open_collnet(struct allreduce *a, enum side_kind kind)
{
	int r = 0;

	if (!a->chain.plugin)
		r = chain_open(&a->chain, a->oob, &a->endpoint, a->set.version, a->set.channels, a->input,
			       a->output_data, a->most_bytes);
	if (r == 0)
		new_side(a, kind, OVER_PLUGIN, collnetplugin_name(a->chain.plugin))->chain = &a->chain;
	return r;
}

/* A program that one rank cannot run is left out everywhere. */
static int open_peer(struct allreduce *a)
{
	struct side *side = new_side(a, SIDE_PEER, OVER_PLUGIN, "");
	int mine = peer_open(&side->peer, a->set.peer, 4 * a->set.timeout_s),
	    *all = calloc((size_t)a->oob->size, sizeof(mine)), i, r;

	if (!all)
		return -ENOMEM;
	side->what = side->peer.name;
	if (mine < 0 && mine != -ENODATA)
		fprintf(stderr, "allreduce: rank %d: %s: %s\n", a->oob->rank, a->set.peer, strerror(-mine));
	r = oob_allgather(a->oob, &mine, sizeof(mine), all);
	for (i = 0; i < a->oob->size && r == 0; i++)
		r = all[i];
	free(all);
	if (r == 0)
		return 0;
	if (r == -ENODATA && a->oob->rank == 0)
		output_note(&a->output, "# the other program: %s",
			    mine == -ENODATA ? side->peer.line : "skipped by another rank");
	side_close(side);
	a->count--;
	return r == -ENODATA ? 0 : r;
}

static int open_sides(struct allreduce *a)
{
	int i, r = 0;

	for (i = 0; i < a->set.algo_count && r == 0; i++) {
		enum side_kind kind = (enum side_kind)a->set.algos[i];

		r = kind == SIDE_COLLNET ? open_collnet(a, kind) : open_collective(a, kind);
	}
	if (r == 0 && a->set.whole)
		r = open_collnet(a, SIDE_WHOLE);
	if (r == 0 && a->set.peer)
		r = open_peer(a);
	return r;
}

static int open_all(struct allreduce *a)
{
	struct endpoint_options options = { .plugin = a->set.plugin,
					    .version = a->set.version,
					    .device = a->set.device,
					    .devices = a->set.devices,
					    .timeout_s = a->set.timeout_s };
	int r = 0;

	a->most_bytes = args_largest(&a->set.bytes, sizeof(float));
	a->input = reduce_memory(a->most_bytes);
	a->output_data = reduce_memory(a->most_bytes);
	if (!a->input || !a->output_data)
		return -ENOMEM;
	reduce_fill(a->input, a->most_bytes / sizeof(float), a->oob->rank);
	if (a->set.plugin)
		r = endpoint_open(&options, 0x616c6c72656475ULL, &a->endpoint);
	if (r == 0 && a->set.vs) {
		options.plugin = a->set.vs;
		options.version = 0;
		r = endpoint_open(&options, 0x616c6c72656476ULL, &a->vs);
	}
	return r < 0 ? r : open_sides(a);
}

static const char *const algo_names[ALGOS] = { [SIDE_RING] = "ring", [SIDE_TREE] = "tree", [SIDE_COLLNET] = "collnet" };

static bool is_sound(const struct settings *set)
{
	bool collnet = strstr(set->algo, "collnet") || set->whole;

	return (set->plugin || (set->floor && !collnet && !set->vs)) && set->iters >= 1 && set->iters <= MAX_ITERS &&
	       set->line_bps > 0 && set->channels >= 1 && set->channels <= COLLECTIVE_MAX_CHANNELS &&
	       set->algo_count > 0 && !(set->answer && set->peer);
}

static int parse(int argc, char **argv, struct settings *set)
{
	const struct args_option options[] = {
		{ "plugin", ARGS_TEXT, &set->plugin, "path, or NAME for libnccl-net-NAME.so" },
		{ "vs", ARGS_TEXT, &set->vs, "ring and tree also over another plugin, in turns; needs --plugin" },
		{ "version", ARGS_INT, &set->version, "interface version 6 to 12 (newest)" },
		{ "floor", ARGS_FLAG, &set->floor, "ring and tree also over plain TCP sockets" },
		{ "algo", ARGS_TEXT, &set->algo, "ring (default), tree, collnet, or several: ring,tree,collnet" },
		{ "whole", ARGS_FLAG, &set->whole, "collnet also with whole operations, as from registered buffers" },
		{ "peer", ARGS_TEXT, &set->peer, "another program as one more side (common/peer.h says what it says)" },
		{ "answer", ARGS_FLAG, &set->answer,
		  "be such a program for another allreduce: the first side runs when told" },
		{ "links", ARGS_FLAG, &set->links, "bytes on every link of the test-bed, for each side" },
		{ "channels", ARGS_INT, &set->channels,
		  "rings side by side, chunks in a collnet call (2, as NCCL has at least; the trees are two)" },
		{ "bytes", ARGS_SIZES, &set->bytes, "sizes (8,1K,64K,1M,16M,64M)" },
		{ "iters", ARGS_INT, &set->iters, "iterations that count (11)" },
		{ "warmup", ARGS_INT, &set->warmup, "iterations before (2)" },
		{ "batch", ARGS_INT, &set->batch, "runs in an iteration (1; 20 up to 256K)" },
		{ "device", ARGS_INT, &set->device, "device number (0)" },
		{ "devices", ARGS_TEXT, &set->devices, "join these into one virtual device: 0,1" },
		{ "line-rate", ARGS_RATE, &set->line_bps, "of each host's port, for the bound (1Gbit/s)" },
		{ "nap-us", ARGS_INT, &set->nap_us, "sleep after a round in which nothing moved (0: yield)" },
		{ "spin", ARGS_FLAG, &set->spin, "neither sleep nor yield" },
		{ "timeout", ARGS_NUMBER, &set->timeout_s, "seconds without any progress before giving up (30)" },
		{ "json", ARGS_TEXT, &set->json, "write JSON lines to this file (- in place of the table)" },
		{ "spawn", ARGS_INT, &set->spawn, "start so many ranks here, over loopback" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};
	int r = args_parse(argc, argv,
			   "AllReduce over RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as NCCL's proxies run it.",
			   options);

	set->algo_count = args_names(set->algo, algo_names, ALGOS, set->algos);
	if (r == 0 && !is_sound(set)) {
		fprintf(stderr,
			"allreduce: give --plugin, --floor or both (collnet, --vs: --plugin); --algo is ring, tree "
			"or collnet or several with commas, --channels 1 to %d, --iters 1 to %d\n",
			COLLECTIVE_MAX_CHANNELS, MAX_ITERS);
		return -EINVAL;
	}
	return r;
}

static int run_all(struct oob *oob, void *arg)
{
	struct allreduce *a = arg;
	int r = output_open(&a->output, oob->rank == 0 && !a->set.answer ? a->set.json : NULL), i;

	a->oob = oob;
	if (r == 0)
		r = open_all(a);
	if (r == 0)
		r = a->set.answer ? answer(a) : measure_all(a);
	for (i = 0; i < a->count; i++)
		side_close(&a->sides[i]);
	chain_close(&a->chain);
	endpoint_close(&a->vs);
	endpoint_close(&a->endpoint);
	output_close(&a->output);
	return r < 0 ? r : a->wrong_all > 0;
}

int main(int argc, char **argv)
{
	static struct allreduce a = {
		.set = { .algo = "ring",
			 .channels = 2,
			 .iters = 11,
			 .warmup = 2,
			 .line_bps = 1e9,
			 .timeout_s = 30,
			 .bytes = { 6, { 8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20 } } },
	};
	int r = parse(argc, argv, &a.set);

	return r ? (r < 0 ? 2 : 0) : oob_run(a.set.spawn, a.set.timeout_s, run_all, &a);
}
