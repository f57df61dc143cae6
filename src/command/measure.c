/* `tributary measure`: what each link carries under contention, into the profile of this machine. */
#include "command/command.h"

#include "base/params.h"
#include "base/parse.h"
#include "base/clock.h"
#include "base/sys.h"
#include "command/cluster_open.h"
#include "command/file.h"
#include "command/interrupt.h"
#include "command/json.h"
#include "command/measure_text.h"
#include "command/source.h"
#include "measure/measure.h"
#include "measure/probe_cuda.h"
#include "measure/probe_memory.h"
#include "measure/probe_rdma.h"
#include "measure/simulate_probe.h"
#include "profile/profile.h"
#include "profile/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef TRIBUTARY_VERSION
#define TRIBUTARY_VERSION "unknown"
#endif

enum { PROBES_MAX = 4, SECONDS_MAX = 3600, SEED = 1 };

struct session {
	struct params params;
	struct topology topology;
	struct probe *probes[PROBES_MAX];
	size_t probe_count;
	struct measure_report report;
	struct diag no_gpu;  /* why there is no GPU to measure; "" when there is */
	struct diag no_rdma; /* the same of RDMA devices */
	struct diag no_rdma_of_gpu;
	bool simulated;
	struct cluster *cluster; /* for the profile; NULL: not said */
	char path[PATH_MAX];     /* where the profile went; "" nowhere */
};

static void session_fini(struct session *session)
{
	for (size_t i = 0; i < session->probe_count; i++)
		session->probes[i]->ops->close(session->probes[i]);
	measure_report_fini(&session->report);
	topology_fini(&session->topology);
	cluster_free(session->cluster);
}

/* ----------------------------------------------------------------------------------------------------- what to ask */

static int open_simulated(struct session *session, const char *folder)
{
	struct topology truth;
	struct probe_rules rules;
	struct diag diag = { 0 };
	int status = COMMAND_OK, r;

	session->simulated = true;
	if (access(folder, R_OK) < 0)
		return file_unreadable(folder, -errno, "a folder with machine.topology and rules is meant");
	r = probe_simulated_read(folder, &truth, &rules, &diag);
	if (r < 0)
		return command_failed(&diag, r, "\"%s\" is no simulated machine", folder);
	r = probe_simulated_hide(&truth, &session->topology);
	if (!r)
		r = probe_simulated_open(&truth, &rules, SEED, &session->probes[0]);
	if (r < 0) {
		status = command_failed(NULL, r, "\"%s\" cannot be simulated", folder);
	} else {
		session->probes[0]->stop = &interrupt_wanted;
		session->probe_count = 1;
	}
	topology_fini(&truth);
	return status;
}

static int open_here(struct session *session)
{
	struct diag diag = { 0 };
	struct probe *cuda = NULL;
	int r;

	r = discover(NULL, &session->topology, NULL, &(enum discover_source){ DISCOVER_HERE }, &diag);
	if (r < 0)
		return command_failed(&diag, r, "this machine cannot be looked at");
	r = probe_cuda_open(&session->topology, &interrupt_wanted, &cuda, &session->no_gpu);
	if (!r)
		session->probes[session->probe_count++] = cuda;
	else if (!session->no_gpu.text[0])
		diag_set(&session->no_gpu, 0, 0, "%s", strerror(-r));
	r = probe_memory_open(&session->topology, &interrupt_wanted, &session->probes[session->probe_count], &diag);
	if (r < 0)
		return command_failed(&diag, r, "memory cannot be measured");
	session->probe_count++;
	r = probe_rdma_open(&session->topology, &interrupt_wanted,
			    &(struct probe_rdma_options){
				    .params = &session->params, .cuda = cuda, .ret_no_gpu = &session->no_rdma_of_gpu },
			    &session->probes[session->probe_count], &session->no_rdma);
	if (!r)
		session->probe_count++;
	else if (!session->no_rdma.text[0])
		diag_set(&session->no_rdma, 0, 0, "%s", strerror(-r));
	return COMMAND_OK;
}

/* ------------------------------------------------------------------------------------------------------------ keep */

/*
 * What is known of this machine from before: of its links, where this time there is nothing better; of the cluster, unless
 * a file says it.
 */
static void add_known(struct session *session, struct profile *profile)
{
	struct profile before;
	struct diag why = { 0 };
	char path[PATH_MAX];

	profile_init(&before);
	if (!store_find(&session->params, &profile->fingerprint, &before, path, sizeof(path), &why)) {
		if (session->report.stopped) {
			struct topology fresh = session->topology;

			source_merge(&fresh, &before.topology);
			session->topology = before.topology;
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
static int take_fingerprint(const struct session *session, struct fingerprint *ret)
{
	static const char text[] = "cpu simulated=1\n";

	return session->simulated ? fingerprint_of_text(text, sizeof(text) - 1, ret) : fingerprint_take("", ret);
}

static bool to_standard_output(const struct command_call *call)
{
	const char *output = command_value(call, "output");

	return output && !strcmp(output, "-");
}

static int print_profile(const struct profile *profile, struct session *session, FILE *out)
{
	size_t bytes = 0;
	char *text = NULL;
	int r = profile_write(profile, &text, &bytes);

	if (r < 0)
		return r;
	fwrite(text, 1, bytes, out);
	sys_free(text);
	snprintf(session->path, sizeof(session->path), "standard output");
	return 0;
}

static int save(const struct command_call *call, struct session *session, int64_t date_s, FILE *out)
{
	const char *output = command_value(call, "output");
	struct profile profile;
	struct diag why = { 0 };
	int r;

	/* Nothing was measured, which is no profile and shall replace none; or nothing that is. */
	if (!session->report.run_count || (session->simulated && !output))
		return COMMAND_OK;
	profile_init(&profile);
	r = take_fingerprint(session, &profile.fingerprint);
	if (r < 0) {
		profile_fini(&profile);
		return command_failed(NULL, r, "the machine's fingerprint cannot be taken");
	}
	profile.cluster = session->cluster;
	session->cluster = NULL;
	if (!session->simulated)
		add_known(session, &profile);
	profile.date_s = date_s;
	snprintf(profile.measured_by, sizeof(profile.measured_by), "tributary %s", TRIBUTARY_VERSION);
	/* Lent: taken back below. */
	profile.topology = session->topology;
	r = to_standard_output(call)
		    ? print_profile(&profile, session, out)
		    : store_save(&session->params, &profile, output, session->path, sizeof(session->path), &why);
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
		return command_usage_error("measure", "--seconds is \"%s\", expected 1 to %d", text, SECONDS_MAX);
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

static bool has_rdma(const struct session *session)
{
	for (uint32_t i = 0; i < session->topology.vertex_count; i++)
		if (session->topology.vertices[i].kind == TOPOLOGY_NIC && session->topology.vertices[i].nic.rdma)
			return true;
	return false;
}

static int measure(const struct command_call *call, struct session *session, uint64_t budget_ns, FILE *profile_out)
{
	FILE *out = to_standard_output(call) ? stderr : profile_out;
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
	if (session->no_gpu.text[0] && !command_given(call, "json"))
		fprintf(out, "no GPU found: %s\n", session->no_gpu.text);
	if (session->no_rdma.text[0] && has_rdma(session) && !command_given(call, "json"))
		fprintf(out, "RDMA devices are not measured: %s\n", session->no_rdma.text);
	if (session->no_rdma_of_gpu.text[0] && !command_given(call, "json"))
		fprintf(out, "RDMA with the memory of GPUs is not measured: %s\n", session->no_rdma_of_gpu.text);
	interrupt_catch();
	r = measure_run(&session->topology, session->probes, session->probe_count, &options, &session->report);
	interrupt_release();
	measure_text_end(&progress);
	if (r < 0)
		return command_failed(NULL, r, "the measurement failed");
	status = save(call, session, options.date_s, profile_out);
	if (command_given(call, "json"))
		r = measure_print_json(&session->topology, &session->report, session->path,
				       session->no_gpu.text[0] ? session->no_gpu.text : NULL, out);
	else
		r = measure_print(call, &session->topology, &session->report, session->path, out);
	if (status == COMMAND_OK && !session->report.run_count && !session->report.stopped)
		status = command_failed(NULL, 0, "nothing was measured, and no profile is written: %s",
					session->report.out_of_time ? "give it more --seconds"
								    : "there is nothing that can be");
	if (status == COMMAND_OK && session->report.stopped) {
		fprintf(stderr, "tributary: interrupted: %s\n",
			session->path[0] ? "what was known by then is kept" : "nothing is kept");
		status = COMMAND_FAILED;
	}
	return status != COMMAND_OK ? status : r;
}

static int run(const struct command_call *call, FILE *out)
{
	const char *folder = command_value(call, "simulate");
	struct session session = { 0 };
	uint64_t budget_ns;
	int status = get_budget(call, &budget_ns);

	if (status == COMMAND_OK)
		status = command_cluster_of(call, "cluster", &session.cluster);
	if (status != COMMAND_OK)
		return status;
	command_load_params(&session.params);
	status = check_output(call, &session.params);
	if (status != COMMAND_OK) {
		cluster_free(session.cluster);
		return status;
	}
	topology_init(&session.topology);
	status = folder ? open_simulated(&session, folder) : open_here(&session);
	if (status == COMMAND_OK)
		status = measure(call, &session, budget_ns, out);
	session_fini(&session);
	return status;
}

const struct command command_measure = {
	.name = "measure",
	.operands = "",
	.help = "measure what each link carries under contention, and keep it as this machine's profile",
	.about = "Takes less than a minute. Do not use the machine meanwhile: rates that a neighbour disturbs are "
		 "measured again, "
		 "and named when that does not help. Ctrl-C ends it and keeps what is known.\n"
		 "Without a GPU it measures the memory.",
	.options = { { "quick", NULL, "10 seconds, and only what matters most", NULL },
		     { "seconds", "SECONDS", "time for the whole; without it 60, or 10 with --quick", NULL },
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
	.run = run,
};
