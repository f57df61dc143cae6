/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p2p: one sender, one receiver, any NCCL net plugin, and beside it in the same run a plain TCP loop (--floor), another
 * plugin (--vs) and iperf3 (--iperf3). Rank 0 commands: each measurement is a block that it announces and rank 1 joins,
 * so both ends run the same list without agreeing on it before.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/args.h"
#include "common/clock.h"
#include "common/contender.h"
#include "common/iperf.h"
#include "common/oob.h"
#include "common/output.h"
#include "common/stats.h"

enum { MAX_CONTENDERS = 3, MAX_PAIRS = 101, MAX_ROUND_TRIPS = 200000 };
enum verb { VERB_END, VERB_STREAM, VERB_PING, VERB_EMPTY, VERB_IPERF };

struct command {
	int32_t verb, contender;
	uint64_t bytes, count; /* VERB_EMPTY: count is nanoseconds, VERB_IPERF: seconds */
	int32_t window, verify, series;
};

/* What one end says of a block. */
struct outcome {
	int32_t error;
	uint64_t wrong;
	double cpu_s;
};

/* What a block was, at rank 0. */
struct block {
	double seconds, cpu_s, value; /* cpu_s: both ends; value: PING: median one-way seconds, IPERF: bits/s */
};

struct settings {
	const char *plugin, *vs, *devices, *json;
	int version, vs_version, device, window, pairs, nap_us, iters;
	double seconds, timeout_s;
	struct args_list sizes, latency_sizes, rate_sizes;
	bool spawn, floor, iperf3, pin, spin, empty_nap, verify;
	int series_ms;
};

struct p2p {
	struct settings set;
	struct oob *oob;
	struct contender contenders[MAX_CONTENDERS];
	int contender_count;
	char *memory;
	size_t stride, memory_bytes;
	double *round_trips_s;
	struct series series;
	struct output output;
	uint64_t wrong, began_ns;
	double transfer_start_s;
};

/* The values of one measure, in the order of the pairs. */
struct figures {
	double value[MAX_CONTENDERS][MAX_PAIRS];        /* bits/s, messages/s, or one-way seconds */
	double cpu_s_per_GB[MAX_CONTENDERS][MAX_PAIRS]; /* less the empty caller, when there is one */
	int pairs;
};

enum measure { MEASURE_LATENCY, MEASURE_BANDWIDTH, MEASURE_RATE };

static const struct {
	const char *name, *unit;
	double scale;
	bool less_is_better;
} measures[] = {
	[MEASURE_LATENCY] = { "latency", "us", 1e6, true },
	[MEASURE_BANDWIDTH] = { "bandwidth", "Gbit/s", 1e-9, false },
	[MEASURE_RATE] = { "rate", "msg/s", 1, false },
};

/* ---- one block, both ends ---- */

static int empty_caller(const struct p2p *p, uint64_t ns)
{
	uint64_t end_ns = perf_now_ns() + ns;

	while (perf_now_ns() < end_ns)
		perf_sleep_ns((uint64_t)p->set.nap_us * 1000);
	return 0;
}

static int do_work(struct p2p *p, const struct command *command, struct load *load)
{
	struct contender *c = &p->contenders[command->contender];
	bool first = p->oob->rank == 0;

	switch (command->verb) {
	case VERB_STREAM:
		return first ? c->ops->stream_out(c, load) : c->ops->stream_in(c, load);
	case VERB_PING:
		return first ? c->ops->ping(c, load, p->round_trips_s) : c->ops->pong(c, load);
	case VERB_EMPTY:
		return empty_caller(p, command->count);
	default:
		return 0;
	}
}

/* From the barrier to the moment when rank 0 has heard that rank 1 is through. Fails on both ends if on either. */
static int join_block(struct p2p *p, const struct command *command, struct block *ret_block)
{
	struct load load = { .bytes = command->bytes,
			     .count = command->count,
			     .window = command->window,
			     .verify = command->verify,
			     .memory = p->memory,
			     .stride = p->stride };
	struct outcome mine = { 0 }, both[2];
	struct block block = { 0 };
	uint64_t start_ns;
	int r;

	poller_init(&load.poller, (uint64_t)p->set.nap_us * 1000, p->set.spin, (uint64_t)(p->set.timeout_s * 1e9));
	if (command->verb == VERB_IPERF)
		return iperf_run(p->oob, (int)command->count, &ret_block->value);
	r = oob_barrier(p->oob);
	if (r < 0)
		return r;
	start_ns = perf_now_ns();
	p->transfer_start_s = (double)(start_ns - p->began_ns) * 1e-9;
	if (command->series && p->oob->rank == 1) {
		p->series = (struct series){ .interval_ns = (uint64_t)command->series * 1000000, .start_ns = start_ns };
		load.series = &p->series;
	}
	mine.cpu_s = perf_cpu_s();
	mine.error = do_work(p, command, &load);
	mine.cpu_s = perf_cpu_s() - mine.cpu_s;
	mine.wrong = load.wrong;
	r = oob_allgather(p->oob, &mine, sizeof(mine), both);
	if (r < 0)
		return r;
	block.seconds = (double)(perf_now_ns() - start_ns) * 1e-9;
	block.cpu_s = both[0].cpu_s + both[1].cpu_s;
	p->wrong += both[0].wrong + both[1].wrong;
	if (command->verb == VERB_PING && p->oob->rank == 0)
		block.value = stats_median(p->round_trips_s, command->count) / 2;
	if (command->series && p->oob->rank == 1)
		r = oob_send(p->oob, 0, &p->series, sizeof(p->series));
	else if (command->series)
		r = oob_receive(p->oob, 1, &p->series, sizeof(p->series));
	*ret_block = block;
	if (r < 0)
		return r;
	return both[p->oob->rank].error ? both[p->oob->rank].error : both[1 - p->oob->rank].error;
}

/* Rank 0: announces a block and does its end of it. */
static int run_block(struct p2p *p, enum verb verb, int contender, size_t bytes, uint64_t count,
		     struct block *ret_block)
{
	struct command command = { .verb = (int32_t)verb,
				   .contender = contender,
				   .bytes = bytes,
				   .count = count,
				   .window = p->set.window,
				   .verify = p->set.verify && verb == VERB_STREAM,
				   .series = contender == 0 && verb == VERB_STREAM ? p->set.series_ms : 0 };
	int r = oob_broadcast(p->oob, &command, sizeof(command));

	if (r == 0)
		r = join_block(p, &command, ret_block);
	if (r < 0)
		fprintf(stderr, "%s, %zu bytes: %s\n", verb == VERB_IPERF ? "iperf3" : p->contenders[contender].name,
			bytes, strerror(-r));
	return r;
}

static int serve(struct p2p *p)
{
	struct command command;
	struct block block;
	int r;

	for (;;) {
		r = oob_broadcast(p->oob, &command, sizeof(command));
		if (r < 0 || command.verb == VERB_END)
			return r;
		r = join_block(p, &command, &block);
		if (r < 0)
			return r;
	}
}

/* ---- rank 0: what is run ---- */

/* How many messages (round trips) last about the wanted time; grows from few. */
static int calibrate(struct p2p *p, enum verb verb, int contender, size_t bytes, uint64_t *ret_count)
{
	uint64_t count = verb == VERB_PING ? 100 : (uint64_t)p->set.window;
	struct block block = { 0 };
	double next;
	int r;

	if (p->set.iters) {
		*ret_count = (uint64_t)p->set.iters;
		return 0;
	}
	for (;;) {
		r = run_block(p, verb, contender, bytes, count, &block);
		if (r < 0)
			return r;
		next = (double)count * p->set.seconds / block.seconds;
		if (block.seconds >= p->set.seconds / 4 || (verb == VERB_PING && count >= MAX_ROUND_TRIPS))
			break;
		count = next > 10 * (double)count ? count * 10 : (uint64_t)next + 1;
		if (verb == VERB_PING && count > MAX_ROUND_TRIPS)
			count = MAX_ROUND_TRIPS;
	}
	count = next < 1 ? 1 : (uint64_t)next;
	*ret_count = verb == VERB_PING && count > MAX_ROUND_TRIPS ? MAX_ROUND_TRIPS : count;
	return 0;
}

static int measure_one(struct p2p *p, enum measure measure, int contender, size_t bytes, uint64_t count,
		       struct figures *figures, int pair)
{
	enum verb verb = measure == MEASURE_LATENCY ? VERB_PING : VERB_STREAM;
	double gigabytes = (double)bytes * (double)count * 1e-9;
	struct block block = { 0 }, empty = { 0 };
	int r = run_block(p, verb, contender, bytes, count, &block);

	if (r == 0 && p->set.empty_nap && measure != MEASURE_LATENCY)
		r = run_block(p, VERB_EMPTY, contender, 0, (uint64_t)(block.seconds * 1e9), &empty);
	if (r < 0)
		return r;
	figures->cpu_s_per_GB[contender][pair] = (block.cpu_s - empty.cpu_s) / gigabytes;
	if (measure == MEASURE_LATENCY)
		figures->value[contender][pair] = block.value;
	else if (measure == MEASURE_RATE)
		figures->value[contender][pair] = (double)count / block.seconds;
	else
		figures->value[contender][pair] = (double)bytes * (double)count * 8 / block.seconds;
	return 0;
}

static void print_json(struct p2p *p, enum measure measure, size_t bytes, const struct figures *f, int c,
		       const struct stats_interval *value, const struct stats_interval *ratio)
{
	struct stats_interval cpu = stats_bootstrap(f->cpu_s_per_GB[c], (size_t)f->pairs);
	struct output *o = &p->output;

	output_json_begin(o, "p2p");
	output_json_text(o, "measure", measures[measure].name);
	output_json_number(o, "bytes", (double)bytes);
	output_json_text(o, "name", p->contenders[c].name);
	output_json_text(o, "unit", measure == MEASURE_LATENCY ? "s" : measure == MEASURE_RATE ? "msg/s" : "bit/s");
	output_json_number(o, "median", value->median);
	output_json_number(o, "low", value->low);
	output_json_number(o, "high", value->high);
	output_json_number(o, "cpu_s_per_GB", cpu.median);
	output_json_number(o, "cpu_s_per_GB_low", cpu.low);
	output_json_number(o, "cpu_s_per_GB_high", cpu.high);
	output_json_numbers(o, "values", f->value[c], (size_t)f->pairs);
	output_json_numbers(o, "cpu_values", f->cpu_s_per_GB[c], (size_t)f->pairs);
	if (ratio) { /* the first contender over this one */
		output_json_number(o, "ratio", ratio->median);
		output_json_number(o, "ratio_low", ratio->low);
		output_json_number(o, "ratio_high", ratio->high);
	}
	if (c == 0 && p->set.series_ms && measure != MEASURE_LATENCY) {
		output_json_number(o, "series_ms", p->set.series_ms);
		output_json_number(o, "series_start_s", p->transfer_start_s);
		output_json_numbers(o, "series_bytes", p->series.bytes, p->series.count);
	}
	output_json_end(o);
}

static void print_figures(struct p2p *p, enum measure measure, size_t bytes, const struct figures *f)
{
	struct output *o = &p->output;
	double ratios[MAX_PAIRS];
	int c, i;

	for (c = 0; c < p->contender_count; c++) {
		struct stats_interval value = stats_bootstrap(f->value[c], (size_t)f->pairs), ratio = { 0 };

		for (i = 0; i < f->pairs; i++)
			ratios[i] = f->value[c][i] > 0 ? f->value[0][i] / f->value[c][i] : 0;
		if (c > 0)
			ratio = stats_bootstrap(ratios, (size_t)f->pairs);
		output_text(o, 6, output_size(bytes));
		output_text(o, -9, measures[measure].name);
		output_cell(o, -14, "%.14s", p->contenders[c].name);
		output_cell(o, 12, measure == MEASURE_RATE ? "%.0f" : "%.3f", value.median * measures[measure].scale);
		output_text(o, -6, measures[measure].unit);
		if (measure == MEASURE_LATENCY || bytes == 0)
			output_text(o, 8, "");
		else
			output_cell(o, 8, "%.3f", stats_median(f->cpu_s_per_GB[c], (size_t)f->pairs));
		if (c > 0)
			output_cell(o, 22, "%.3f [%.3f, %.3f]", ratio.median, ratio.low, ratio.high);
		output_end(o);
		print_json(p, measure, bytes, f, c, &value, c > 0 ? &ratio : NULL);
	}
}

static int measure_size(struct p2p *p, enum measure measure, size_t bytes)
{
	struct figures f = { .pairs = p->set.pairs };
	uint64_t counts[MAX_CONTENDERS] = { 0 };
	char label[64];
	int r = 0, c, i;

	for (c = 0; c < p->contender_count && r == 0; c++)
		r = calibrate(p, measure == MEASURE_LATENCY ? VERB_PING : VERB_STREAM, c, bytes, &counts[c]);
	snprintf(label, sizeof(label), "%s %s", output_size(bytes), measures[measure].name);
	for (i = 0; i < p->set.pairs && r == 0; i++) {
		output_progress(label, (size_t)i, (size_t)p->set.pairs);
		/* Each turn begins with another: who comes after whom makes a difference of some per cent. */
		for (c = 0; c < p->contender_count && r == 0; c++) {
			int turn = (i + c) % p->contender_count;

			r = measure_one(p, measure, turn, bytes, counts[turn], &f, i);
		}
	}
	output_progress_clear();
	if (r == 0)
		print_figures(p, measure, bytes, &f);
	return r;
}

static int measure_list(struct p2p *p, enum measure measure, const struct args_list *sizes)
{
	int i, r = 0;

	for (i = 0; i < sizes->count && r == 0; i++)
		r = measure_size(p, measure, sizes->values[i]);
	return r;
}

/* The floor against iperf3: its worth as a floor. Messages of 128 KiB, as iperf3 writes them. */
static int measure_iperf(struct p2p *p)
{
	struct figures f = { .pairs = p->set.pairs < 11 ? p->set.pairs : 11 };
	int floor = p->contender_count - 1, r = 0, i;
	double ratios[MAX_PAIRS], iperf[MAX_PAIRS];
	struct stats_interval ratio;
	struct block block = { 0 };
	uint64_t count = 0;

	if (!p->set.floor || !iperf_installed()) {
		output_note(&p->output, "iperf3: skipped: %s", p->set.floor ? "not installed" : "needs --floor");
		return 0;
	}
	r = calibrate(p, VERB_STREAM, floor, 128 << 10, &count);
	for (i = 0; i < f.pairs && r == 0; i++) {
		r = measure_one(p, MEASURE_BANDWIDTH, floor, 128 << 10, count, &f, i);
		if (r == 0)
			r = run_block(p, VERB_IPERF, floor, 0, 1, &block);
		iperf[i] = block.value;
		ratios[i] = f.value[floor][i] / iperf[i];
	}
	if (r < 0)
		return r;
	ratio = stats_bootstrap(ratios, (size_t)f.pairs);
	output_note(&p->output, "%6s %-9s %-14s %12.3f %-6s %8s %.3f [%.3f, %.3f] (the floor over it)", "128K",
		    "bandwidth", "iperf3", stats_median(iperf, (size_t)f.pairs) * 1e-9, "Gbit/s", "", ratio.median,
		    ratio.low, ratio.high);
	output_json_begin(&p->output, "iperf3");
	output_json_number(&p->output, "median", stats_median(iperf, (size_t)f.pairs));
	output_json_number(&p->output, "floor_over_iperf3", ratio.median);
	output_json_number(&p->output, "low", ratio.low);
	output_json_number(&p->output, "high", ratio.high);
	output_json_end(&p->output);
	return 0;
}

static int command_all(struct p2p *p)
{
	struct command end = { .verb = VERB_END };
	struct output *o = &p->output;
	char block[32];
	int r, c;

	for (c = 0; c < p->contender_count; c++)
		if (p->contenders[c].endpoint.plugin)
			output_note(o, "# %s: interface v%d, device %d %s, %d Mbit/s, %zu MiB registered in %.2f ms",
				    p->contenders[c].name, netplugin_version(p->contenders[c].endpoint.plugin),
				    p->contenders[c].endpoint.device, p->contenders[c].endpoint.properties.name,
				    p->contenders[c].endpoint.properties.speed_Mbps, p->memory_bytes >> 20,
				    (double)p->contenders[c].register_ns / 1e6);
	if (p->set.iters)
		snprintf(block, sizeof(block), "%d messages", p->set.iters);
	else
		snprintf(block, sizeof(block), "%.2f s", p->set.seconds);
	output_note(o, "# window %d, nap %d us, %d blocks of %s for each line%s%s", p->set.window, p->set.nap_us,
		    p->set.pairs, block, p->set.verify ? ", every message checked" : "",
		    p->set.empty_nap ? ", CPU less an empty napping caller" : "");
	output_note(o, "%6s %-9s %-14s %12s %-6s %8s %22s", "size", "measure", "what", "median", "", "CPU s/GB",
		    p->contender_count > 1 ? "ratio to it [95 %]" : "");
	r = measure_list(p, MEASURE_LATENCY, &p->set.latency_sizes);
	if (r == 0)
		r = measure_list(p, MEASURE_RATE, &p->set.rate_sizes);
	if (r == 0)
		r = measure_list(p, MEASURE_BANDWIDTH, &p->set.sizes);
	if (r == 0 && p->set.iperf3)
		r = measure_iperf(p);
	if (r == 0)
		r = oob_broadcast(p->oob, &end, sizeof(end));
	if (p->set.verify) {
		output_note(o, "# wrong messages: %llu", (unsigned long long)p->wrong);
		output_json_begin(o, "verified");
		output_json_number(o, "wrong", (double)p->wrong);
		output_json_end(o);
	}
	return r;
}

/* ---- set-up ---- */

static int get_memory(struct p2p *p)
{
	size_t bytes = args_largest(&p->set.latency_sizes, args_largest(&p->set.rate_sizes, 128 << 10));

	bytes = args_largest(&p->set.sizes, bytes);
	p->stride = (bytes + 4095) & ~(size_t)4095;
	p->memory_bytes = p->stride * ((size_t)p->set.window + PING_DEPTH);
	p->memory = mmap(NULL, p->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p->round_trips_s = malloc(MAX_ROUND_TRIPS * sizeof(*p->round_trips_s));
	if (p->memory == MAP_FAILED || !p->round_trips_s)
		return -ENOMEM;
	memset(p->memory, 1, p->memory_bytes); /* no page faults while measuring */
	return 0;
}

static int add_plugin(struct p2p *p, const char *name, int version)
{
	struct endpoint_options options = { .plugin = name,
					    .version = version,
					    .device = p->set.device,
					    .devices = p->set.devices,
					    .timeout_s = p->set.timeout_s };
	int r = contender_open_plugin(&p->contenders[p->contender_count], p->oob, &options, p->memory, p->memory_bytes);

	p->contender_count += r == 0;
	return r;
}

/* This thread alone, and only now: threads that a plugin has started stay free to run elsewhere. */
static void pin(int rank)
{
	cpu_set_t set;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	CPU_ZERO(&set);
	CPU_SET((size_t)(rank % (cpus > 0 ? cpus : 1)), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		perror("--pin");
}

static int open_all(struct p2p *p)
{
	int r = get_memory(p);

	if (r == 0 && p->set.plugin)
		r = add_plugin(p, p->set.plugin, p->set.version);
	if (r == 0 && p->set.vs)
		r = add_plugin(p, p->set.vs, p->set.vs_version);
	if (r == 0 && p->set.floor) {
		r = contender_open_floor(&p->contenders[p->contender_count], p->oob);
		p->contender_count += r == 0;
	}
	if (r == 0 && p->set.pin)
		pin(p->oob->rank);
	return r;
}

static int check_settings(struct settings *set)
{
	if (!set->plugin && !set->floor) {
		fprintf(stderr, "p2p: nothing to measure: give --plugin, --floor or both\n");
		return -EINVAL;
	}
	if (set->window < 1 || set->window > CONTENDER_MAX_WINDOW || set->pairs > MAX_PAIRS ||
	    set->iters > MAX_ROUND_TRIPS || set->seconds <= 0) {
		fprintf(stderr, "p2p: --window is 1 to %d, --pairs up to %d, --iters up to %d\n", CONTENDER_MAX_WINDOW,
			MAX_PAIRS, MAX_ROUND_TRIPS);
		return -EINVAL;
	}
	if (!set->nap_us)
		set->empty_nap = false;
	if (!set->pairs)
		set->pairs = (set->floor && set->plugin) || set->vs ? 11 : 5;
	return 0;
}

static int parse(int argc, char **argv, struct settings *set)
{
	const struct args_option options[] = {
		{ "plugin", ARGS_TEXT, &set->plugin, "path, or NAME for libnccl-net-NAME.so" },
		{ "version", ARGS_INT, &set->version, "interface version 6 to 12 (newest)" },
		{ "vs", ARGS_TEXT, &set->vs, "another plugin, in turns with the first" },
		{ "vs-version", ARGS_INT, &set->vs_version, "its version" },
		{ "floor", ARGS_FLAG, &set->floor, "the plain polling TCP loop, in turns" },
		{ "iperf3", ARGS_FLAG, &set->iperf3, "iperf3 beside the floor" },
		{ "device", ARGS_INT, &set->device, "device number (0)" },
		{ "devices", ARGS_TEXT, &set->devices, "join these into one virtual device: 0,1" },
		{ "sizes", ARGS_SIZES, &set->sizes, "bandwidth (64K,512K,4M; none)" },
		{ "latency-sizes", ARGS_SIZES, &set->latency_sizes, "one-way latency (8; none)" },
		{ "rate-sizes", ARGS_SIZES, &set->rate_sizes, "message rate (1K; none)" },
		{ "window", ARGS_INT, &set->window, "messages in flight (8)" },
		{ "nap-us", ARGS_INT, &set->nap_us, "sleep after a round in which nothing moved (0: yield)" },
		{ "spin", ARGS_FLAG, &set->spin, "neither sleep nor yield" },
		{ "empty-nap", ARGS_FLAG, &set->empty_nap, "subtract the CPU time of a caller that only naps" },
		{ "pairs", ARGS_INT, &set->pairs, "blocks of each, in turns (11; alone 5)" },
		{ "seconds", ARGS_NUMBER, &set->seconds, "length of a block (0.5)" },
		{ "iters", ARGS_INT, &set->iters, "messages in a block, in place of --seconds" },
		{ "verify", ARGS_FLAG, &set->verify, "fill and check every message of the streams" },
		{ "series", ARGS_INT, &set->series_ms,
		  "milliseconds: arrivals by time, of the last block, in the JSON" },
		{ "pin", ARGS_FLAG, &set->pin, "pin rank r's caller to CPU r" },
		{ "timeout", ARGS_NUMBER, &set->timeout_s, "seconds without any progress before giving up (30)" },
		{ "json", ARGS_TEXT, &set->json, "write JSON lines to this file (- in place of the table)" },
		{ "spawn", ARGS_FLAG, &set->spawn, "start both ranks here, over loopback" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};
	int r = args_parse(argc, argv,
			   "Two ranks (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT): what a net plugin moves.", options);

	return r ? r : check_settings(set);
}

static int run_all(struct oob *oob, void *arg)
{
	struct p2p *p = arg;
	int r, c;

	p->oob = oob;
	if (oob->size != 2) {
		fprintf(stderr, "p2p: takes two ranks, not %d (or --spawn)\n", oob->size);
		return 1;
	}
	r = output_open(&p->output, oob->rank == 0 ? p->set.json : NULL);
	if (r == 0)
		r = open_all(p);
	if (r == 0)
		r = oob->rank == 0 ? command_all(p) : serve(p);
	for (c = 0; c < p->contender_count; c++)
		contender_close(&p->contenders[c]);
	output_close(&p->output);
	free(p->round_trips_s);
	return r < 0 ? r : p->wrong > 0;
}

int main(int argc, char **argv)
{
	static struct p2p p = {
		.set = { .window = 8,
			 .seconds = 0.5,
			 .timeout_s = 30,
			 .sizes = { 3, { 64 << 10, 512 << 10, 4 << 20 } },
			 .latency_sizes = { 1, { 8 } },
			 .rate_sizes = { 1, { 1 << 10 } } },
	};
	int r = parse(argc, argv, &p.set);

	p.began_ns = perf_now_ns();
	return r ? (r < 0 ? 2 : 0) : oob_run(p.set.spawn ? 2 : 0, p.set.timeout_s, run_all, &p);
}
