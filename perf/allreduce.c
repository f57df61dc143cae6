/*
 * allreduce: sums floats over all ranks as NCCL's proxies do it, ring or tree, through any NCCL net plugin; with --floor
 * also over plain TCP sockets, in turns. Every element is checked on every rank after every iteration.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/args.h"
#include "common/clock.h"
#include "common/collective.h"
#include "common/oob.h"
#include "common/output.h"
#include "common/reduce.h"
#include "common/stats.h"

enum { PLUGIN = 0, FLOOR = 1, KINDS = 2, MAX_ITERS = 1001, SMALL_BYTES = 256 << 10 };

struct settings {
	const char *plugin, *devices, *json, *algo;
	int version, device, nap_us, iters, warmup, spawn, batch, channels;
	struct args_list bytes;
	double line_bps, timeout_s;
	bool floor, spin;
};

struct allreduce {
	struct settings set;
	struct oob *oob;
	struct endpoint endpoint;
	bool used[KINDS];
	struct collective collectives[KINDS];
	float *input, *output_data;
	double seconds[KINDS][MAX_ITERS], cpu_s[KINDS][MAX_ITERS];
	uint64_t wrong, wrong_all;
	struct output output;
};

/* What one rank says of an iteration. */
struct outcome {
	double seconds, cpu_s;
	uint64_t wrong;
};

/* The slowest rank's time; `batch` runs back to back, of which the last is checked. */
static int iterate(struct allreduce *a, int kind, size_t count, int batch, double *ret_seconds, double *ret_cpu_s)
{
	struct outcome mine = { 0 }, *all = calloc((size_t)a->oob->size, sizeof(*all));
	struct poller poller;
	uint64_t start_ns;
	int i, r;

	if (!all)
		return -ENOMEM;
	poller_init(&poller, (uint64_t)a->set.nap_us * 1000, a->set.spin, (uint64_t)(a->set.timeout_s * 1e9));
	memset(a->output_data, 0xff, count * sizeof(float)); /* NaN */
	r = oob_barrier(a->oob);
	mine.cpu_s = perf_cpu_s();
	start_ns = perf_now_ns();
	for (i = 0; i < batch && r == 0; i++)
		r = collective_run(&a->collectives[kind], a->input, a->output_data, count, &poller);
	mine.seconds = (double)(perf_now_ns() - start_ns) * 1e-9 / batch;
	mine.cpu_s = (perf_cpu_s() - mine.cpu_s) / batch;
	if (r == 0) {
		mine.wrong = reduce_wrong(a->output_data, count, a->oob->size);
		r = oob_allgather(a->oob, &mine, sizeof(mine), all);
	}
	*ret_seconds = *ret_cpu_s = 0;
	for (i = 0; i < a->oob->size && r == 0; i++) {
		if (all[i].seconds > *ret_seconds)
			*ret_seconds = all[i].seconds;
		*ret_cpu_s += all[i].cpu_s;
		a->wrong += all[i].wrong;
	}
	free(all);
	return r;
}

static void print_kind(struct allreduce *a, int kind, size_t bytes)
{
	const char *name = kind == PLUGIN ? netplugin_name(a->endpoint.plugin) : "plain TCP";
	size_t n = (size_t)a->set.iters, i;
	double ranks = a->oob->size, share = 2 * (ranks - 1) / ranks, ratios[MAX_ITERS];
	double bound_s = share * (double)bytes * 8 / (0.957 * a->set.line_bps);
	struct stats_interval t = stats_bootstrap(a->seconds[kind], n), ratio = { 0 };
	double algbw = (double)bytes / t.median * 1e-9;
	struct output *o = &a->output;

	for (i = 0; i < n; i++)
		ratios[i] = a->seconds[PLUGIN][i] / a->seconds[FLOOR][i];
	if (kind == FLOOR && a->used[PLUGIN])
		ratio = stats_bootstrap(ratios, n);
	output_cell(o, 12, "%zu", bytes);
	output_cell(o, 12, "%zu", bytes / sizeof(float));
	output_text(o, 6, "float");
	output_text(o, 6, "sum");
	output_cell(o, 10, "%.1f", t.median * 1e6);
	output_cell(o, 7, "%.3f", algbw);
	output_cell(o, 7, "%.3f", algbw * share);
	output_cell(o, 6, "%llu", (unsigned long long)a->wrong);
	output_cell(o, 21, "%.3f [%.3f, %.3f]", t.median / bound_s, t.low / bound_s, t.high / bound_s);
	output_cell(o, 6, "%.2f", stats_median(a->cpu_s[kind], n) / t.median);
	output_cell(o, -10, "%.10s", name);
	if (kind == FLOOR && a->used[PLUGIN])
		output_cell(o, 20, "%.3f [%.3f, %.3f]", ratio.median, ratio.low, ratio.high);
	output_end(o);
	output_json_begin(o, "allreduce");
	output_json_text(o, "name", name);
	output_json_text(o, "algo", a->set.algo);
	output_json_number(o, "ranks", ranks);
	output_json_number(o, "bytes", (double)bytes);
	output_json_number(o, "median_s", t.median);
	output_json_number(o, "low_s", t.low);
	output_json_number(o, "high_s", t.high);
	output_json_number(o, "algbw_GBps", algbw);
	output_json_number(o, "busbw_GBps", algbw * share);
	output_json_number(o, "wrong", (double)a->wrong);
	output_json_number(o, "ring_bound_s", bound_s);
	output_json_number(o, "over_bound", t.median / bound_s);
	output_json_number(o, "over_bound_low", t.low / bound_s);
	output_json_number(o, "over_bound_high", t.high / bound_s);
	output_json_number(o, "cores_busy", stats_median(a->cpu_s[kind], n) / t.median);
	if (kind == FLOOR && a->used[PLUGIN]) {
		output_json_number(o, "plugin_over_tcp", ratio.median);
		output_json_number(o, "plugin_over_tcp_low", ratio.low);
		output_json_number(o, "plugin_over_tcp_high", ratio.high);
	}
	output_json_numbers(o, "times_s", a->seconds[kind], n);
	output_json_end(o);
}

static int measure(struct allreduce *a, size_t bytes)
{
	size_t count = bytes / sizeof(float);
	int batch = a->set.batch ? a->set.batch : bytes <= SMALL_BYTES ? 20 : 1, i, kind, r = 0;
	uint64_t wrong[KINDS] = { 0 };
	double ignored;

	for (i = -a->set.warmup; i < a->set.iters && r == 0; i++) {
		if (a->oob->rank == 0)
			output_progress(output_size(bytes), (size_t)a->set.warmup + (size_t)i,
					(size_t)a->set.warmup + (size_t)a->set.iters);
		for (kind = 0; kind < KINDS && r == 0; kind++) {
			if (!a->used[kind])
				continue;
			a->wrong = 0;
			r = iterate(a, kind, count, batch, i < 0 ? &ignored : &a->seconds[kind][i],
				    i < 0 ? &ignored : &a->cpu_s[kind][i]);
			wrong[kind] += a->wrong;
		}
	}
	output_progress_clear();
	for (kind = 0; kind < KINDS && r == 0; kind++) {
		if (!a->used[kind])
			continue;
		a->wrong = wrong[kind];
		a->wrong_all += wrong[kind];
		if (a->oob->rank == 0)
			print_kind(a, kind, count * sizeof(float));
	}
	return r;
}

static void print_head(struct allreduce *a)
{
	struct output *o = &a->output;

	output_note(
		o, "# %s over %d ranks, %d channels, slices of at most 1 MiB, 4 outstanding, nap %d us, %d iterations",
		a->set.algo, a->oob->size, a->set.algo[0] == 't' ? 2 : a->set.channels, a->set.nap_us, a->set.iters);
	output_note(o, "# bound: 2(N-1)/N x size at 0.957 of %.3f Gbit/s; cores: CPU time of all ranks over time",
		    a->set.line_bps * 1e-9);
	output_note(o, "%12s %12s %6s %6s %10s %7s %7s %6s %21s %6s %-10s %20s", "size (B)", "count", "type", "redop",
		    "time (us)", "algbw", "busbw", "#wrong", "time/bound [95 %]", "cores", "what",
		    a->used[PLUGIN] && a->used[FLOOR] ? "plugin/TCP [95 %]" : "");
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

/* ---- set-up ---- */

static int open_all(struct allreduce *a)
{
	enum collective_algo algo = !strcmp(a->set.algo, "tree") ? COLLECTIVE_TREE : COLLECTIVE_RING;
	struct endpoint_options options = { .plugin = a->set.plugin,
					    .version = a->set.version,
					    .device = a->set.device,
					    .devices = a->set.devices,
					    .timeout_s = a->set.timeout_s };
	size_t most = sizeof(float);
	int i, r = 0;

	for (i = 0; i < a->set.bytes.count; i++)
		if (a->set.bytes.values[i] > most)
			most = a->set.bytes.values[i];
	a->input = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	a->output_data = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a->input == MAP_FAILED || a->output_data == MAP_FAILED)
		return -ENOMEM;
	reduce_fill(a->input, most / sizeof(float), a->oob->rank);
	if (a->set.plugin) {
		r = endpoint_open(&options, 0x616c6c72656475ULL, &a->endpoint);
		a->used[PLUGIN] = r == 0;
		if (r == 0)
			r = collective_open(&a->collectives[PLUGIN], a->oob, algo, a->set.channels, &a->endpoint);
	}
	if (r == 0 && a->set.floor) {
		a->used[FLOOR] = true;
		r = collective_open(&a->collectives[FLOOR], a->oob, algo, a->set.channels, NULL);
	}
	return r;
}

static int parse(int argc, char **argv, struct settings *set)
{
	const struct args_option options[] = {
		{ "plugin", ARGS_TEXT, &set->plugin, "path, or NAME for libnccl-net-NAME.so" },
		{ "version", ARGS_INT, &set->version, "interface version 6 to 12 (newest)" },
		{ "floor", ARGS_FLAG, &set->floor, "the same over plain TCP sockets, in turns" },
		{ "algo", ARGS_TEXT, &set->algo, "ring (default) or tree" },
		{ "channels", ARGS_INT, &set->channels,
		  "rings side by side (2, as NCCL has at least; the trees are two)" },
		{ "bytes", ARGS_SIZES, &set->bytes, "sizes (8,1K,64K,1M,16M,64M)" },
		{ "iters", ARGS_INT, &set->iters, "iterations that count (11)" },
		{ "warmup", ARGS_INT, &set->warmup, "iterations before (2)" },
		{ "batch", ARGS_INT, &set->batch, "runs in an iteration (1; 20 up to 256K)" },
		{ "device", ARGS_INT, &set->device, "device number (0)" },
		{ "devices", ARGS_TEXT, &set->devices, "join these into one virtual device: 0,1" },
		{ "line-rate", ARGS_RATE, &set->line_bps, "of each host's port, for the bound (1G)" },
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

	if (r == 0 && ((!set->plugin && !set->floor) || set->iters < 1 || set->iters > MAX_ITERS ||
		       set->line_bps <= 0 || set->channels < 1 || set->channels > COLLECTIVE_MAX_CHANNELS ||
		       (strcmp(set->algo, "ring") && strcmp(set->algo, "tree")))) {
		fprintf(stderr,
			"allreduce: give --plugin, --floor or both; --algo is ring or tree, --channels 1 to %d, "
			"--iters 1 to %d\n",
			COLLECTIVE_MAX_CHANNELS, MAX_ITERS);
		return -EINVAL;
	}
	return r;
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
	int r = parse(argc, argv, &a.set), child, kind;

	if (r)
		return r < 0 ? 2 : 0;
	r = a.set.spawn ? oob_spawn(a.set.spawn, 2 * a.set.timeout_s + 30, &a.oob)
			: oob_open(2 * a.set.timeout_s + 30, &a.oob);
	if (r < 0 || !a.oob)
		return 1;
	r = output_open(&a.output, a.oob->rank == 0 ? a.set.json : NULL);
	if (r == 0)
		r = open_all(&a);
	if (r == 0)
		r = measure_all(&a);
	if (r < 0)
		fprintf(stderr, "allreduce: rank %d: %s\n", a.oob->rank, strerror(-r));
	for (kind = 0; kind < KINDS; kind++)
		if (a.used[kind])
			collective_close(&a.collectives[kind]);
	endpoint_close(&a.endpoint);
	output_close(&a.output);
	child = oob_close(a.oob);
	return r < 0 || a.wrong_all || child ? 1 : 0;
}
