/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce: sums of several arrays by the kernels of src/reduce, on one core, beside the best of several plain loops that only read
 * the same arrays and write one, in turns. Needs no network.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/args.h"
#include "common/clock.h"
#include "common/output.h"
#include "common/stats.h"
#include "common/streams.h"
#include "reduce/reduce.h"

enum { INPUTS_MAX = 16, PAIRS_MAX = 1001, CALIBRATIONS = 5, PAGE_BYTES = 4096 };

struct settings {
	struct args_list inputs;
	size_t bytes, least_bytes;
	const char *json;
	int pairs;
	bool best;
};

struct bench {
	struct settings set;
	void *arrays[INPUTS_MAX + 1]; /* the last one used is the result */
	double floor_s[REDUCE_LEVEL_COUNT][PAIRS_MAX], level_s[REDUCE_LEVEL_COUNT][PAIRS_MAX];
	struct output output;
};

struct work {
	reduce_function *sum; /* NULL: the plain loop */
	enum streams_way way;
	enum reduce_type type;
	unsigned inputs;
};

/* Of this core's time: what others take from it in between is not ours, nor the floor's. */
static double seconds_of(struct bench *b, const struct work *work)
{
	const void *const *inputs = (const void *const *)b->arrays;
	size_t moved = b->set.bytes * (work->inputs + 1), passes = 1 + (b->set.least_bytes - 1) / moved;
	void *to = b->arrays[work->inputs];
	double start_s = perf_cpu_s();

	for (size_t i = 0; i < passes; i++)
		if (work->sum)
			work->sum(to, work->inputs, inputs, b->set.bytes / reduce_type_bytes(work->type));
		else
			streams_run(work->way, to, work->inputs, inputs, b->set.bytes);
	return (perf_cpu_s() - start_s) / (double)passes;
}

/* The way that is best for so many arrays here and now. */
static enum streams_way best_way(struct bench *b, unsigned inputs)
{
	enum streams_way best = STREAMS_TOGETHER;
	double best_s = 0, seconds[CALIBRATIONS];

	for (enum streams_way way = 0; way < STREAMS_COUNT; way++) {
		struct work work = { NULL, way, REDUCE_UINT8, inputs };
		double median_s;

		if (!streams_here(way))
			continue;
		for (int i = 0; i < CALIBRATIONS; i++)
			seconds[i] = seconds_of(b, &work);
		median_s = stats_median(seconds, CALIBRATIONS);
		if (best_s == 0 || median_s < best_s) {
			best = way;
			best_s = median_s;
		}
	}
	return best;
}

/* Numbers from 1 to 2, so that no sum is denormal or infinite: those may take longer. */
static void fill(void *array, enum reduce_type type, size_t bytes, unsigned which)
{
	uint32_t state = 2463534242U + which, one = type == REDUCE_FLOAT16    ? 0x3c003c00
						    : type == REDUCE_BFLOAT16 ? 0x3f803f80
									      : 0x3f800000;
	uint32_t fraction = type == REDUCE_FLOAT16 ? 0x03ff03ff : type == REDUCE_BFLOAT16 ? 0x007f007f : 0x007fffff;

	for (uint32_t *at = array, *end = at + bytes / sizeof(*at); at < end; at++) {
		state ^= state << 13;
		state ^= state >> 17;
		state ^= state << 5;
		*at = one | (state & fraction);
	}
}

static void report(struct bench *b, enum reduce_type type, unsigned inputs, enum streams_way way,
		   enum reduce_level level)
{
	size_t n = (size_t)b->set.pairs;
	double ratios[PAIRS_MAX], bytes = (double)b->set.bytes * (inputs + 1);
	double floor_GBps = bytes / stats_median(b->floor_s[level], n) * 1e-9;
	double level_GBps = bytes / stats_median(b->level_s[level], n) * 1e-9;
	struct stats_interval ratio;
	struct output *o = &b->output;

	for (size_t i = 0; i < n; i++)
		ratios[i] = b->floor_s[level][i] / b->level_s[level][i];
	ratio = stats_bootstrap(ratios, n);
	output_text(o, -9, reduce_type_word(type));
	output_cell(o, 7, "%u", inputs);
	output_text(o, 8, output_size(b->set.bytes));
	output_text(o, 8, reduce_level_word(level));
	output_cell(o, 10, "%.2f", level_GBps);
	output_cell(o, 10, "%.2f", floor_GBps);
	output_cell(o, 22, "%.3f [%.3f, %.3f]", ratio.median, ratio.low, ratio.high);
	output_text(o, 1, " ");
	output_text(o, -22, streams_word(way));
	output_end(o);
	output_json_begin(o, "reduce");
	output_json_text(o, "type", reduce_type_word(type));
	output_json_number(o, "inputs", inputs);
	output_json_number(o, "bytes", (double)b->set.bytes);
	output_json_text(o, "level", reduce_level_word(level));
	output_json_number(o, "best", level == reduce_level_best());
	output_json_number(o, "GBps", level_GBps);
	output_json_number(o, "floor_GBps", floor_GBps);
	output_json_text(o, "floor", streams_word(way));
	output_json_number(o, "ratio", ratio.median);
	output_json_number(o, "ratio_low", ratio.low);
	output_json_number(o, "ratio_high", ratio.high);
	output_json_numbers(o, "seconds", b->level_s[level], n);
	output_json_numbers(o, "floor_seconds", b->floor_s[level], n);
	output_json_end(o);
}

/* The floor right beside each level, before and after it by turns: the machine's other guests come and go. */
static void measure_pair(struct bench *b, const struct work *plain, enum reduce_level level, int pair)
{
	struct work work = *plain;

	work.sum = reduce_at(level, work.type, REDUCE_SUM);
	if (pair % 2 == 0)
		b->floor_s[level][pair] = seconds_of(b, plain);
	b->level_s[level][pair] = seconds_of(b, &work);
	if (pair % 2)
		b->floor_s[level][pair] = seconds_of(b, plain);
}

static void measure(struct bench *b, enum reduce_type type, unsigned inputs)
{
	struct work plain = { NULL, best_way(b, inputs), type, inputs };
	enum reduce_level levels[REDUCE_LEVEL_COUNT];
	int count = 0;

	for (enum reduce_level level = 0; level < REDUCE_LEVEL_COUNT; level++)
		if (b->set.best ? level == reduce_level_best() : reduce_level_here(level))
			levels[count++] = level;
	for (int pair = 0; pair < b->set.pairs; pair++) {
		output_progress(reduce_type_word(type), (size_t)pair, (size_t)b->set.pairs);
		for (int i = 0; i < count; i++)
			measure_pair(b, &plain, levels[i], pair);
	}
	output_progress_clear();
	for (int i = 0; i < count; i++)
		report(b, type, inputs, plain.way, levels[i]);
}

static int measure_all(struct bench *b)
{
	static const enum reduce_type types[] = { REDUCE_FLOAT32, REDUCE_BFLOAT16, REDUCE_FLOAT16 };
	static const char *const heads[] = { "inputs", "bytes", "level", "GB/s", "floor", "over the floor [95 %]" };
	static const int widths[] = { 7, 8, 8, 10, 10, 22 };
	size_t most = 0;

	for (int i = 0; i < b->set.inputs.count; i++)
		most = b->set.inputs.values[i] > most ? b->set.inputs.values[i] : most;
	for (size_t i = 0; i <= most; i++) {
		b->arrays[i] = mmap(NULL, b->set.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (b->arrays[i] == MAP_FAILED)
			return -ENOMEM;
	}
	output_text(&b->output, -9, "type");
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		output_text(&b->output, widths[i], heads[i]);
	output_text(&b->output, 1, " ");
	output_text(&b->output, -22, "floor's way");
	output_end(&b->output);
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		for (size_t i = 0; i <= most; i++)
			fill(b->arrays[i], types[t], b->set.bytes, (unsigned)i);
		for (int i = 0; i < b->set.inputs.count; i++)
			measure(b, types[t], (unsigned)b->set.inputs.values[i]);
	}
	return 0;
}

static int parse(int argc, char **argv, struct settings *set)
{
	const struct args_option options[] = {
		{ "inputs", ARGS_SIZES, &set->inputs, "how many arrays are summed (2,4,8)" },
		{ "bytes", ARGS_SIZE, &set->bytes, "of each array (128M)" },
		{ "pairs", ARGS_INT, &set->pairs, "turns (11)" },
		{ "best", ARGS_FLAG, &set->best, "only the best instruction set of this CPU, not all it has" },
		{ "json", ARGS_TEXT, &set->json, "write JSON lines to this file (- in place of the table)" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};
	int r = args_parse(argc, argv, "Sums of several arrays on one core, beside plain loops over the same memory.",
			   options);
	bool good = set->bytes && set->bytes % PAGE_BYTES == 0 && set->pairs >= 1 && set->pairs <= PAIRS_MAX;

	for (int i = 0; i < set->inputs.count; i++)
		good = good && set->inputs.values[i] >= 1 && set->inputs.values[i] <= INPUTS_MAX;
	if (r == 0 && !good) {
		fprintf(stderr, "reduce: --bytes is a multiple of 4K, --pairs 1 to %d, --inputs up to %d\n", PAIRS_MAX,
			INPUTS_MAX);
		return -EINVAL;
	}
	return r;
}

int main(int argc, char **argv)
{
	/* A turn moves at least as many bytes as one core moves in some milliseconds. */
	static struct bench b = {
		.set = { .inputs = { 3, { 2, 4, 8 } }, .bytes = 128 << 20, .pairs = 11, .least_bytes = 64 << 20 },
	};
	int r = parse(argc, argv, &b.set);

	if (r)
		return r < 0 ? 2 : 0;
	r = output_open(&b.output, b.set.json);
	if (r == 0)
		r = measure_all(&b);
	if (r < 0)
		fprintf(stderr, "reduce: %s\n", strerror(-r));
	output_close(&b.output);
	return r < 0 ? 1 : 0;
}
