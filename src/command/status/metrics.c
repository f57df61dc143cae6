/* SPDX-License-Identifier: Apache-2.0 */
#include "command/status/metrics.h"

#include "base/metrics.h"
#include "base/sys.h"
#include "base/text.h"
#include "command/command.h"
#include "plugin/metrics_operations.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = 65, NAME_BYTES = 128, WORD_BYTES = 32 };

/* A row of what was measured. */
struct series {
	uint64_t one, measured_ns, predicted_ns, bus_bytes;
	char labels[METRICS_LABELS_BYTES], cause_labels[METRICS_LABELS_BYTES];
};

#define ROW(name, kind, field, help)                              \
	{                                                         \
		name, kind, offsetof(struct series, field), help, \
	}

static const struct metrics_row time_rows[] = {
	ROW("tributary_collective_measured_seconds", METRICS_GAUGE_NS, measured_ns,
	    "Of a running job: what such a collective took, the median of this host's ranks' means since the job began."),
	ROW("tributary_collective_predicted_seconds", METRICS_GAUGE_NS, predicted_ns,
	    "What the model predicts for it on this machine with its profile."),
	ROW("tributary_collective_bus_bytes", METRICS_GAUGE, bus_bytes,
	    "Its bytes times the factor of nccl-tests: divided by either time, a bus bandwidth."),
	{ .name = NULL },
};
static const struct metrics_row cause_rows[] = {
	ROW("tributary_collective_cause", METRICS_GAUGE, one,
	    "Always 1. cause: agrees (within 15 %), or the most likely cause of the difference, as in --json."),
	{ .name = NULL },
};

#define LABELS "job_id, command, communicator, ranks, hosts, collective, algorithm, protocol, channels, up_to"

const struct metrics_table status_metrics_tables[] = {
	{ LABELS, time_rows },
	{ LABELS ", cause", cause_rows },
	{ .rows = NULL },
};

static void label_number(char labels[static METRICS_LABELS_BYTES], const char *name, unsigned number)
{
	char text[WORD_BYTES];

	snprintf(text, sizeof(text), "%u", number);
	metrics_label(labels, name, text);
}

/* "64K": bytes of the largest of its class. */
static void label_size(char labels[static METRICS_LABELS_BYTES], unsigned size_class)
{
	enum { BITS = 10 };
	static const char *const units[] = { "", "K", "M", "G", "T", "P", "E" };
	char text[WORD_BYTES];

	snprintf(text, sizeof(text), "%u%s", 1U << size_class % BITS, units[size_class / BITS]);
	metrics_label(labels, "up_to", text);
}

static void label_row(const struct job *job, const struct measured_row *row, char labels[static METRICS_LABELS_BYTES])
{
	char id[WORD_BYTES];

	snprintf(id, sizeof(id), "%016" PRIx64, row->of.comm_id);
	metrics_label(labels, "job_id", job->process.job);
	metrics_label(labels, "command", job->process.command);
	metrics_label(labels, "communicator", id);
	label_number(labels, "ranks", row->of.rank_count);
	label_number(labels, "hosts", row->of.node_count);
	plugin_metrics_label_operation(labels, row->of.collective, row->of.algorithm, row->of.protocol);
	label_number(labels, "channels", row->of.channels);
	label_size(labels, row->of.size_class);
}

/* What was not predicted, as a message or what collnet did, is in the metrics of the ranks alone. */
static bool is_shown(const struct measured_row *row)
{
	return row->cause != COMPARE_NOT_MEASURED;
}

static uint64_t ns_of(double time_us)
{
	return (uint64_t)(time_us * 1e3 + 0.5);
}

static void make_series(const struct job *job, const struct measured_row *row, struct series *ret)
{
	*ret = (struct series){ .one = 1,
				.measured_ns = ns_of(compare_measured_us(&row->at)),
				.predicted_ns = ns_of(row->at.predicted_us),
				.bus_bytes = (uint64_t)measured_bus_bytes(row) };
	label_row(job, row, ret->labels);
	memcpy(ret->cause_labels, ret->labels, sizeof(ret->labels));
	metrics_label(ret->cause_labels, "cause", compare_cause_word(row->cause));
}

void status_metrics_print(const struct job *const *jobs, const struct measured *measured, size_t count,
			  struct text *out)
{
	struct metrics_sample *times, *causes;
	struct series *series;
	size_t room = 1, used = 0;

	for (size_t i = 0; i < count; i++)
		room += measured[i].row_count;
	series = sys_zalloc(room * sizeof(*series));
	times = sys_zalloc(room * sizeof(*times));
	causes = sys_zalloc(room * sizeof(*causes));
	if (!series || !times || !causes) {
		out->error = -ENOMEM;
		goto fail;
	}
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; jobs[i]->running && k < measured[i].row_count; k++) {
			if (!is_shown(&measured[i].rows[k]))
				continue;
			make_series(jobs[i], &measured[i].rows[k], &series[used]);
			times[used] = (struct metrics_sample){ &series[used], series[used].labels };
			causes[used] = (struct metrics_sample){ &series[used], series[used].cause_labels };
			used++;
		}
	metrics_print(time_rows, times, used, out);
	metrics_print(cause_rows, causes, used, out);
fail:
	sys_free(causes);
	sys_free(times);
	sys_free(series);
}

int status_metrics_write(const struct job *const *jobs, const struct measured *measured, size_t count,
			 const char *folder)
{
	char host[HOST_BYTES] = "", name[NAME_BYTES], *text = NULL;
	struct text out = { .bytes = 0 };
	size_t bytes = 0;
	int r;

	(void)gethostname(host, sizeof(host) - 1);
	snprintf(name, sizeof(name), "tributary-status-%s-%u.prom", host, (unsigned)getuid());
	status_metrics_print(jobs, measured, count, &out);
	r = text_take(&out, &text, &bytes);
	if (r == 0)
		r = metrics_file_write(folder, name, text, bytes);
	sys_free(text);
	return r < 0 ? command_failed(NULL, -r, "metrics cannot be written to \"%s\"", folder) : COMMAND_OK;
}
