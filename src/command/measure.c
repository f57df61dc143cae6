/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary measure`: what each link carries under contention, into the profile of this machine. */
#include "command/command.h"

#include "base/clock.h"
#include "base/params.h"
#include "base/parse.h"
#include "base/sys.h"
#include "command/cluster_open.h"
#include "command/file.h"
#include "command/interrupt.h"
#include "command/json.h"
#include "command/measure_others.h"
#include "command/measure_text.h"
#include "command/source.h"
#include "measure/measure.h"
#include "measure/probe_cuda.h"
#include "measure/probe_memory.h"
#include "measure/probe_rdma.h"
#include "measure/simulated_probe.h"
#include "profile/profile.h"
#include "profile/store.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef TRIBUTARY_VERSION
#define TRIBUTARY_VERSION "unknown"
#endif

enum { PROBES_MAX = 4, SECONDS_MAX = 3600, SEED = 1 };

struct measurement {
	struct params params;
	struct topology topology;
	struct probe *probes[PROBES_MAX];
	size_t probe_count;
	struct measure_report report;
	struct diag no_gpu;  /* why there is no GPU to measure; "" when there is */
	struct diag no_rdma; /* the same of RDMA devices */
	struct diag no_rdma_of_gpu;
	bool simulated;
	struct measure_others *others; /* NULL: of a simulated machine, which nobody else uses */
	struct cluster *cluster;       /* for the profile; NULL: not said */
	char path[PATH_MAX];           /* where the profile went; "" nowhere */
};

static void measurement_fini(struct measurement *measurement)
{
	for (size_t i = 0; i < measurement->probe_count; i++)
		measurement->probes[i]->ops->close(measurement->probes[i]);
	measure_others_free(measurement->others);
	measure_report_fini(&measurement->report);
	topology_fini(&measurement->topology);
	cluster_free(measurement->cluster);
}

/* ----------------------------------------------------------------------------------------------------- what to ask */

static int open_simulated(struct measurement *measurement, const char *folder)
{
	struct topology truth;
	struct probe_rules rules;
	struct diag diag = { 0 };
	int status = COMMAND_OK, r;

	measurement->simulated = true;
	if (access(folder, R_OK) < 0)
		return file_unreadable(folder, -errno, "a folder with machine.topology and rules is meant");
	r = simulated_probe_read(folder, &truth, &rules, &diag);
	if (r < 0)
		return command_failed(&diag, r, "\"%s\" is no simulated machine", folder);
	r = simulated_probe_hide(&truth, &measurement->topology);
	if (!r)
		r = simulated_probe_open(&truth, &rules, SEED, &measurement->probes[0]);
	if (r < 0) {
		status = command_failed(NULL, r, "\"%s\" cannot be simulated", folder);
	} else {
		measurement->probes[0]->stop = &interrupt_wanted;
		measurement->probe_count = 1;
	}
	topology_fini(&truth);
	return status;
}

static int open_here(struct measurement *measurement)
{
	struct diag diag = { 0 };
	struct probe *cuda = NULL;
	int r;

	r = discover(NULL, &measurement->topology, NULL, &(enum discover_source){ DISCOVER_HERE }, &diag);
	if (r < 0)
		return command_failed(&diag, r, "this machine cannot be looked at");
	r = measure_others_begin("", &measurement->others);
	if (r < 0)
		return command_failed(NULL, r, "what else runs on this machine cannot be looked at");
	r = probe_cuda_open(&measurement->topology, &interrupt_wanted, NULL, &cuda, &measurement->no_gpu);
	if (!r)
		measurement->probes[measurement->probe_count++] = cuda;
	else if (!measurement->no_gpu.text[0])
		diag_set(&measurement->no_gpu, 0, 0, "%s", strerror(-r));
	r = probe_memory_open(&measurement->topology, &interrupt_wanted, NULL,
			      &measurement->probes[measurement->probe_count], &diag);
	if (r < 0)
		return command_failed(&diag, r, "memory cannot be measured");
	measurement->probe_count++;
	r = probe_rdma_open(&measurement->topology, &interrupt_wanted,
			    &(struct probe_rdma_options){ .params = &measurement->params,
							  .cuda = cuda,
							  .ret_no_gpu = &measurement->no_rdma_of_gpu },
			    &measurement->probes[measurement->probe_count], &measurement->no_rdma);
	if (!r)
		measurement->probe_count++;
	else if (!measurement->no_rdma.text[0])
		diag_set(&measurement->no_rdma, 0, 0, "%s", strerror(-r));
	return COMMAND_OK;
}

/* ------------------------------------------------------------------------------------------------------------ keep */

/*
 * What is known of this machine from before: of its links, where this time there is nothing better; of the cluster, unless
 * a file says it.
 */
static void add_known(struct measurement *measurement, struct profile *profile)
{
	struct profile before;
	struct diag why = { 0 };
	char path[PATH_MAX];

	profile_init(&before);
	if (!store_find(&measurement->params, &profile->fingerprint, &before, path, sizeof(path), &why)) {
		if (measurement->report.stopped) {
			struct topology fresh = measurement->topology;

			source_merge(&fresh, &before.topology);
			measurement->topology = before.topology;
			before.topology = fresh;
		}
		if (!profile->cluster) {
			profile->cluster = before.cluster;
			before.cluster = NULL;
		}
	}
	profile_fini(&before);
}

/* A simulated machine has no fingerprint but what it says it is. */
static int take_fingerprint(const struct measurement *measurement, struct fingerprint *ret)
{
	static const char text[] = "cpu simulated=1\n";

	return measurement->simulated ? fingerprint_of_text(text, sizeof(text) - 1, ret) : fingerprint_take("", ret);
}

static bool to_standard_output(const struct command_call *call)
{
	const char *output = command_value(call, "output");

	return output && !strcmp(output, "-");
}

static int print_profile(const struct profile *profile, struct measurement *measurement, FILE *out)
{
	size_t bytes = 0;
	char *text = NULL;
	int r = profile_write(profile, &text, &bytes);

	if (r < 0)
		return r;
	fwrite(text, 1, bytes, out);
	sys_free(text);
	snprintf(measurement->path, sizeof(measurement->path), "standard output");
	return 0;
}

static int save(const struct command_call *call, struct measurement *measurement, int64_t date_s, FILE *out)
{
	const char *output = command_value(call, "output");
	struct profile profile;
	struct diag why = { 0 };
	int r;

	/* Nothing was measured, which is no profile and shall replace none; or nothing that is. */
	if (!measurement->report.run_count || (measurement->simulated && !output))
		return COMMAND_OK;
	/* Half a profile would keep the next call from measuring. */
	if (measurement->report.stopped && command_given(call, "if-missing"))
		return COMMAND_OK;
	profile_init(&profile);
	r = take_fingerprint(measurement, &profile.fingerprint);
	if (r < 0) {
		profile_fini(&profile);
		return command_failed(NULL, r, "the machine's fingerprint cannot be taken");
	}
	profile.cluster = measurement->cluster;
	measurement->cluster = NULL;
	if (!measurement->simulated)
		add_known(measurement, &profile);
	profile.date_s = date_s;
	snprintf(profile.measured_by, sizeof(profile.measured_by), "tributary %s", TRIBUTARY_VERSION);
	/* Lent: taken back below. */
	profile.topology = measurement->topology;
	r = to_standard_output(call) ? print_profile(&profile, measurement, out)
				     : store_save(&measurement->params, &profile, output, measurement->path,
						  sizeof(measurement->path), &why);
	topology_init(&profile.topology);
	profile_fini(&profile);
	return r < 0 ? command_failed(&why, r, "the profile cannot be written") : COMMAND_OK;
}

/* ------------------------------------------------------------------------------------------------------------- run */

static int get_budget(const struct command_call *call, uint64_t *ret_ns)
{
	const char *text = command_value(call, "seconds");

	*ret_ns = 0;
	if (!text)
		return COMMAND_OK;
	if (parse_seconds(text, NS_PER_S, SECONDS_MAX * NS_PER_S, ret_ns) < 0)
		return command_wrong_value(call, "seconds", "1 to %d", SECONDS_MAX);
	return COMMAND_OK;
}

/* A minute of measuring whose profile then has nowhere to go. */
static int check_output(const struct command_call *call, const struct params *params)
{
	const char *output = command_value(call, "output");
	struct diag why = { 0 };
	int r;

	if (to_standard_output(call) || (!output && command_given(call, "simulate")))
		return COMMAND_OK;
	r = store_check(params, output, &why);
	return r < 0 ? command_failed(&why, r, "the profile cannot be written") : COMMAND_OK;
}

static bool has_rdma(const struct measurement *measurement)
{
	for (uint32_t i = 0; i < measurement->topology.vertex_count; i++)
		if (measurement->topology.vertices[i].kind == TOPOLOGY_NIC &&
		    measurement->topology.vertices[i].nic.rdma)
			return true;
	return false;
}

/* At once: it may not be what its user wants to wait a minute for. */
static void note_what_is_missing(const struct measurement *measurement)
{
	if (measurement->no_gpu.text[0])
		command_say("no GPU found: %s", measurement->no_gpu.text);
	if (measurement->no_rdma.text[0] && has_rdma(measurement))
		command_say("RDMA devices are not measured: %s", measurement->no_rdma.text);
	if (measurement->no_rdma_of_gpu.text[0])
		command_say("RDMA with the memory of GPUs is not measured: %s", measurement->no_rdma_of_gpu.text);
}

static int measure(const struct command_call *call, struct measurement *measurement, uint64_t budget_ns,
		   FILE *profile_out)
{
	FILE *out = to_standard_output(call) ? stderr : profile_out;
	struct measure_others_uses others = { 0 };
	struct measure_result result = {
		.others = &others,
		.topology = &measurement->topology,
		.report = &measurement->report,
		.path = measurement->path,
		.no_gpu = measurement->no_gpu.text,
	};
	struct measure_text progress;
	struct measure_options options = {
		.budget_ns = budget_ns,
		.quick = command_given(call, "quick"),
		.progress = measure_text_progress,
		.progress_arg = &progress,
		.stop = &interrupt_wanted,
		.date_s = (int64_t)time(NULL),
	};
	int status, r;

	measure_text_begin(stderr, &progress);
	note_what_is_missing(measurement);
	interrupt_catch();
	r = measure_run(&measurement->topology, measurement->probes, measurement->probe_count, &options,
			&measurement->report);
	interrupt_release();
	if (measurement->others)
		measure_others_end(measurement->others, &measurement->topology, &others);
	measure_text_end(&progress);
	if (r < 0)
		return command_failed(NULL, r, "the measurement failed");
	status = save(call, measurement, options.date_s, profile_out);
	result.elsewhere = *measurement->params.profile ? strcmp(measurement->params.profile, measurement->path) != 0
							: command_given(call, "output");
	r = command_given(call, "json") ? measure_print_json(&result, out) : measure_print(call, &result, out);
	if (status == COMMAND_OK && !measurement->report.run_count && !measurement->report.stopped)
		status = command_failed(NULL, 0, "nothing was measured, and no profile is written: %s",
					measurement->report.out_of_time ? "give it more --seconds"
									: "there is nothing that can be");
	if (status == COMMAND_OK && measurement->report.stopped) {
		command_say("interrupted: %s",
			    measurement->path[0] ? "what was known by then is kept" : "nothing is kept");
		status = COMMAND_FAILED;
	}
	return status != COMMAND_OK ? status : r;
}

/* Whether there is nothing to do: --if-missing, and a profile that fits, whose path goes to ret_path. */
static int find_profile(const struct command_call *call, const struct params *params, bool *ret_found,
			char ret_path[static PATH_MAX])
{
	static const char *const others[] = { "output", "simulate", "cluster", "json" };
	struct diag why = { .text = "" };
	struct fingerprint now;
	struct profile profile;
	int r;

	*ret_found = false;
	if (!command_given(call, "if-missing"))
		return COMMAND_OK;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (command_given(call, others[i]))
			return command_usage_error("measure", "--if-missing and --%s exclude each other", others[i]);
	r = fingerprint_take("", &now);
	if (r < 0)
		return command_failed(NULL, r, "the machine's fingerprint cannot be taken");
	profile_init(&profile);
	*ret_found = store_find(params, &now, &profile, ret_path, PATH_MAX, &why) == 0;
	profile_fini(&profile);
	fingerprint_fini(&now);
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	const char *folder = command_value(call, "simulate");
	struct measurement measurement = { 0 };
	uint64_t budget_ns;
	bool found = false;
	int status = get_budget(call, &budget_ns);

	if (status == COMMAND_OK)
		status = command_cluster_of(call, "cluster", &measurement.cluster);
	if (status != COMMAND_OK)
		return status;
	command_load_params(&measurement.params);
	status = find_profile(call, &measurement.params, &found, measurement.path);
	if (found)
		fprintf(out, "Nothing to measure: %s fits this machine.\n", measurement.path);
	else if (status == COMMAND_OK)
		status = check_output(call, &measurement.params);
	if (found || status != COMMAND_OK) {
		cluster_free(measurement.cluster);
		return status;
	}
	topology_init(&measurement.topology);
	status = folder ? open_simulated(&measurement, folder) : open_here(&measurement);
	if (status == COMMAND_OK)
		status = measure(call, &measurement, budget_ns, out);
	measurement_fini(&measurement);
	return status;
}

const struct command command_measure = {
	.name = "measure",
	.group = COMMAND_SEE,
	.operands = "",
	.help = "measure what each link carries under contention, and keep it as this machine's profile",
	.about = "Takes less than a minute. Do not use the machine meanwhile: rates that a neighbour disturbs are "
		 "measured again, "
		 "and named when that does not help. Ctrl-C ends it and keeps what is known.\n"
		 "Without a GPU it measures the memory.",
	.options = { { "quick", NULL, "10 seconds, and only what matters most", NULL },
		     { "seconds", "SECONDS", "time for the whole; without it 60, or 10 with --quick", NULL },
		     { "if-missing", NULL,
		       "measure only where no profile fits this machine, as a prolog of Slurm does; interrupted, it keeps nothing",
		       NULL },
		     { "output", "FILE",
		       "write the profile there, - for standard output; without it into the state directory", NULL },
		     { "cluster", "FILE",
		       "keep in the profile which host is on which leaf switch: a file in any form that `cluster show` "
		       "reads; without it what the profile has of it already",
		       NULL },
		     COMMAND_OPTION_EXCLUDE,
		     { "simulate", "FOLDER", "measure a simulated machine: FOLDER/machine.topology and FOLDER/rules",
		       NULL },
		     COMMAND_OPTION_JSON,
		     COMMAND_OPTION_COLOR },
	.example = "tributary measure --quick",
	.run = run,
};
