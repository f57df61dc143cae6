/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/report.h"

#include "base/clock.h"
#include "base/sys.h"
#include "tributary/predict.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { DUMP_MODE = 0644, PERCENT = 100 };

/* By NCCL's own cost model on these channels, all hosts like this one. */
static double predicted_GBps(const struct topology *topology, const struct steer_decision *decision, size_t hosts)
{
	struct predict_communicator communicator;
	struct predict_choice choice;

	predict_of_set(&decision->set, hosts, &communicator);
	predict_of_machine(topology, &decision->request, &communicator);
	return predict_best(&communicator, PREDICT_ALLREDUCE, STEER_REPORT_ALLREDUCE_BYTES, &choice) < 0
		       ? 0
		       : choice.busbw_GBps;
}

void steer_report_rates(const struct topology *topology, const struct steer_decision *decision, double *ret_alone_GBps,
			double *ret_several_GBps)
{
	enum plan_where where = decision->set.where;

	*ret_alone_GBps = where == PLAN_SEVERAL_HOSTS || decision->request.gpu_count < 2
				  ? 0
				  : predicted_GBps(topology, decision, 1);
	*ret_several_GBps = where == PLAN_ONE_HOST ? 0 : predicted_GBps(topology, decision, 2);
}

static void append_prediction(struct plugin_report *line, const struct topology *topology,
			      const struct steer_decision *decision)
{
	double alone, two;

	steer_report_rates(topology, decision, &alone, &two);
	if (alone <= 0 && two <= 0)
		return;
	plugin_report_add(line, "; AllReduce of %d MiB should reach", STEER_REPORT_ALLREDUCE_BYTES >> 20);
	if (alone > 0)
		plugin_report_add(line, " %.1f GB/s%s", alone, two > 0 ? " on one host and" : "");
	if (two > 0)
		plugin_report_add(line, " %.1f GB/s between two", two);
	plugin_report_add(line, " (busbw)");
}

void steer_report_line(const struct topology *topology, const struct steer_decision *decision,
		       char text[static PLUGIN_REPORT_BYTES])
{
	const struct plan_set *set = &decision->set;
	const struct plan *ring = &set->plans[PLAN_RING];
	struct plugin_report line = { .text = text };

	text[0] = '\0';
	if (decision->result != STEER_PLAN) {
		plugin_report_add(&line, "NCCL searches its channels itself: %s", decision->reason);
		return;
	}
	for (size_t i = 0; i < decision->request.gpu_count; i++)
		plugin_report_add(&line, "%s%d", i ? "," : "GPUs ",
				  topology->vertices[decision->request.gpus[i]].gpu.index);
	plugin_report_add(&line, ": %zu channel%s; ring %.1f GB/s, tree %.1f GB/s in all", set->channel_count,
			  set->channel_count == 1 ? "" : "s", (double)plan_total_Bps(ring) / 1e9,
			  (double)plan_total_Bps(&set->plans[PLAN_TREE]) / 1e9);
	if (ring->bound_Bps)
		plugin_report_add(&line, ", at least %.0f %% of what its links allow",
				  (double)plan_total_Bps(ring) / (double)ring->bound_Bps * PERCENT);
	append_prediction(&line, topology, decision);
}

void steer_report_say(const struct steer_setup *setup, uint64_t comm_id, const struct steer_decision *decision,
		      uint64_t took_ns)
{
	char text[PLUGIN_REPORT_BYTES];

	steer_report_line(&setup->machine.topology, decision, text);
	log_info(LOG_INIT, "Tributary, communicator %016llx: %s (%.1f ms)", (unsigned long long)comm_id, text,
		 (double)took_ns / (double)NS_PER_MS);
}

void steer_report_dump(const char *folder, const char *name, const char *text, size_t bytes)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char path[PATH_MAX];
	int fd, r;

	if (!folder[0])
		return;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	r = fd = sys_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, DUMP_MODE);
	if (fd >= 0) {
		r = sys_pwrite_whole(fd, text, bytes, 0);
		sys_close(&fd);
	}
	if (r < 0 && log_once(&said))
		log_warn("What NCCL was given cannot be kept in %s: %s", path, strerror(-r));
}
