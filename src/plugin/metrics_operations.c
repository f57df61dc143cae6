/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/metrics_operations.h"

#include "base/sys.h"
#include "base/text.h"
#include "profile/tuning.h"

#include <errno.h>

struct series {
	int collective, algorithm, protocol;
	unsigned size;
	uint64_t count, bytes, sampled, sampled_bytes, bus_bytes, sampled_ns;
	char labels[METRICS_LABELS_BYTES];
};
struct rest {
	uint64_t captured, lost, timed;
};

#define ROW(name, kind, type, field, help)                     \
	{                                                      \
		name, kind, offsetof(struct type, field), help \
	}

const struct metrics_row plugin_metrics_operations_counts[] = {
	ROW("tributary_operations_total", METRICS_COUNTER, series, count,
	    "Operations of NCCL on this rank, of all its communicators."),
	ROW("tributary_operation_bytes_total", METRICS_COUNTER, series, bytes,
	    "Their bytes: the larger of this rank's buffers."),
	{ .name = NULL },
};
const struct metrics_row plugin_metrics_operations_times[] = {
	ROW("tributary_operation_samples_total", METRICS_COUNTER, series, sampled,
	    "Operations whose time was taken (TRIBUTARY_PROFILER=time): one second in 60."),
	ROW("tributary_operation_sampled_seconds_total", METRICS_COUNTER_NS, series, sampled_ns,
	    "Time of these on this rank's GPU, with the wait for later ranks."),
	ROW("tributary_operation_sampled_bytes_total", METRICS_COUNTER, series, sampled_bytes, "Bytes of these."),
	ROW("tributary_operation_sampled_bus_bytes_total", METRICS_COUNTER, series, bus_bytes,
	    "These bytes times the factor of nccl-tests: divided by their seconds, the bus bandwidth."),
	{ .name = NULL },
};
const struct metrics_row plugin_metrics_operations_rest[] = {
	ROW("tributary_operations_captured_total", METRICS_COUNTER, rest, captured,
	    "Operations captured in CUDA graphs, which are not counted with the others, nor are their replays."),
	ROW("tributary_operations_lost_total", METRICS_COUNTER, rest, lost,
	    "Operations for which there was no room to count them."),
	ROW("tributary_operations_timed", METRICS_GAUGE, rest, timed,
	    "1: samples are timed. 0: not asked for, NCCL is older than 2.28, or a CUDA graph was captured."),
	{ .name = NULL },
};

/* Up to 4 KiB, then 16 times as many each. */
static unsigned size_of(unsigned size_class)
{
	enum { SMALLEST = 12, STEP = 4 };
	unsigned size = size_class <= SMALLEST ? 0 : (size_class - SMALLEST + STEP - 1) / STEP;

	return size < PLUGIN_METRICS_OPERATIONS_SIZES ? size : PLUGIN_METRICS_OPERATIONS_SIZES - 1;
}

static const char *known(const char *word)
{
	return word && word[0] != '-' ? word : "";
}

void plugin_metrics_label_operation(char labels[static METRICS_LABELS_BYTES], int collective, int algorithm,
				    int protocol)
{
	metrics_label(labels, "collective", known(operations_collective_word(collective)));
	metrics_label(labels, "algorithm", known(tuning_algorithm_word(algorithm)));
	metrics_label(labels, "protocol", known(tuning_protocol_word(protocol)));
}

struct list {
	struct series *at;
	size_t count;
	const char *process;
	int error;
};

static struct series *series_of(struct list *list, const struct operations_line *line)
{
	static const char *const sizes[PLUGIN_METRICS_OPERATIONS_SIZES] = { "4K",   "64K", "1M",  "16M",
									    "256M", "4G",  "+Inf" };
	const unsigned size = size_of(line->size_class);
	struct series *series;

	for (size_t i = 0; i < list->count; i++) {
		series = &list->at[i];
		if (series->collective == line->collective && series->algorithm == line->algorithm &&
		    series->protocol == line->protocol && series->size == size)
			return series;
	}
	list->error = sys_grow(&list->at, list->count, 1, sizeof(*series));
	if (list->error < 0)
		return NULL;
	series = &list->at[list->count++];
	*series = (struct series){ line->collective, line->algorithm, line->protocol, size, .count = 0 };
	metrics_label(series->labels, "process", list->process);
	plugin_metrics_label_operation(series->labels, line->collective, line->algorithm, line->protocol);
	metrics_label(series->labels, "up_to", sizes[size]);
	return series;
}

/* As nccl-tests has it; messages cross once. */
static uint64_t bus_bytes_of(const struct operations_line *line)
{
	double factor = 1;

	if (line->collective < PREDICT_COLLECTIVE_COUNT)
		factor = line->rank_count
				 ? predict_bus_factor((enum predict_collective)line->collective, line->rank_count)
				 : 0;
	return (uint64_t)(factor * (double)line->sampled_bytes);
}

static void add(void *arg, const struct operations_line *line)
{
	struct list *list = arg;
	struct series *series = list->error < 0 ? NULL : series_of(list, line);

	if (!series)
		return;
	series->count += line->count;
	series->bytes += line->bytes;
	series->sampled += line->sampled;
	series->sampled_bytes += line->sampled_bytes;
	series->bus_bytes += bus_bytes_of(line);
	series->sampled_ns += line->sampled_ns;
}

void plugin_metrics_operations_print(const struct operations *operations, const char *process, struct text *out)
{
	struct list list = { .process = process };
	struct metrics_sample *samples = NULL;
	char labels[METRICS_LABELS_BYTES] = "";
	struct operations_head head;
	struct rest rest;

	operations_head(operations, &head);
	rest = (struct rest){ head.captured, head.lost, head.times == OPERATIONS_TIMES_ON };
	metrics_label(labels, "process", process);
	metrics_print(plugin_metrics_operations_rest, &(struct metrics_sample){ &rest, labels }, 1, out);
	operations_each(operations, add, &list);
	if (list.error == 0)
		samples = sys_zalloc((list.count + 1) * sizeof(*samples));
	for (size_t i = 0; samples && i < list.count; i++)
		samples[i] = (struct metrics_sample){ &list.at[i], list.at[i].labels };
	if (samples)
		metrics_print(plugin_metrics_operations_counts, samples, list.count, out);
	else
		out->error = -ENOMEM; /* the file stays as it was */
	if (samples && (head.times == OPERATIONS_TIMES_ON || head.times == OPERATIONS_TIMES_GRAPHS))
		metrics_print(plugin_metrics_operations_times, samples, list.count, out);
	sys_free(samples);
	sys_free(list.at);
}
