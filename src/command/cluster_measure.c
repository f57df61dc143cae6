/* SPDX-License-Identifier: Apache-2.0 */
#include "command/cluster_measure.h"

#include "base/clock.h"
#include "base/params.h"
#include "base/parse.h"
#include "command/cluster_open.h"
#include "command/command.h"
#include "command/file.h"
#include "command/interrupt.h"
#include "command/json.h"
#include "command/measure_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUND_MS_LEAST = 50, ROUND_MS_MOST = 5000, SEED = 1 };

/* -------------------------------------------------------------------------------------------------------------- JSON */

static json_t *direction_json(const struct fabric_direction *at)
{
	static const char *const words[] = { [FABRIC_NARROW] = "narrow",
					     [FABRIC_JOINT] = "narrow-one-of-two",
					     [FABRIC_HOSTS] = "not-narrow",
					     [FABRIC_OTHERS] = "cannot-tell" };

	return json_pack("{ss sf sf sf si}", "known", words[at->known], "rate_Bps", at->rate_Bps, "hosts_Bps",
			 at->hosts_Bps, "others_Bps", at->others_Bps, "rounds", (int)at->rounds);
}

static json_t *leaves_json(const struct fabric *fabric)
{
	json_t *list = json_array();

	for (size_t i = 0; i < fabric->leaf_count; i++) {
		const struct fabric_leaf *at = &fabric->leaves[i];
		bool one = fabric->leaf_count < 2;
		char name[32];

		snprintf(name, sizeof(name), "leaf%zu", i + 1);
		json_array_append_new(list, json_pack("{ss so so sb sf sI sf sI}", "name", name, "up",
						      one ? json_null() : direction_json(&at->up), "down",
						      one ? json_null() : direction_json(&at->down), "asymmetric",
						      at->asymmetric, "inside_part", at->inside_part, "inside_flows",
						      (json_int_t)at->inside_count, "outside_part", at->outside_part,
						      "outside_flows", (json_int_t)at->outside_count));
	}
	return list;
}

static json_t *hosts_json(const struct clusterprobe_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < result->host_count; i++) {
		const struct fabric_host *at = &result->fabric.hosts[i];
		char leaf[32];

		snprintf(leaf, sizeof(leaf), "leaf%u", at->leaf + 1U);
		json_array_append_new(list, json_pack("{so ss sf sf sb sb sb}", "name", json_text(result->names[i]),
						      "leaf", leaf, "out_Bps", at->out_Bps, "in_Bps", at->in_Bps,
						      "slow_out", (at->slow & FABRIC_SLOW_OUT) != 0, "slow_in",
						      (at->slow & FABRIC_SLOW_IN) != 0, "alone", at->alone));
	}
	return list;
}

static json_t *latencies_json(const struct clusterprobe_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < result->latency_count; i++) {
		const struct clusterprobe_latency *at = &result->latencies[i];

		json_array_append_new(list, json_pack("{so so sI sI}", "from", json_text(result->names[at->from]), "to",
						      json_text(result->names[at->to]), "median_ns",
						      (json_int_t)at->median_ns, "least_ns", (json_int_t)at->least_ns));
	}
	return list;
}

static json_t *flows_json(const struct clusterprobe_result *result)
{
	const struct clusterprobe_flows *at = &result->flows;

	if (!at->count)
		return json_null();
	return json_pack("{so so sf sI sf}", "from", json_text(result->names[at->from]), "to",
			 json_text(result->names[at->to]), "one_Bps", at->one_Bps, "count", (json_int_t)at->count,
			 "all_Bps", at->all_Bps);
}

static int print_json(const struct clusterprobe_result *result, const char *contradictions, FILE *out)
{
	const struct fabric *fabric = &result->fabric;
	json_t *lines = contradictions ? json_array() : json_null();

	for (const char *at = contradictions; at && *at;) {
		size_t bytes = strcspn(at, "\n");

		json_array_append_new(lines, json_stringn(at, bytes));
		at += bytes + (at[bytes] == '\n');
	}
	return json_print("tributary-cluster-measure 1",
			  json_pack("{sb sI sf sf sf sf sf so so so so so}", "leaves_found", fabric->leaf_count > 1,
				    "rounds", (json_int_t)fabric->round_count, "seconds", result->seconds, "median_Bps",
				    fabric->median_Bps, "full_part", fabric->full_part, "loaded_part",
				    fabric->loaded_part, "doubtful_part", fabric->doubtful_part, "leaves",
				    leaves_json(fabric), "hosts", hosts_json(result), "latencies",
				    latencies_json(result), "flows", flows_json(result), "contradictions", lines),
			  out);
}

/* ------------------------------------------------------------------------------------------------------------ results */

static int write_text(const void *cluster, FILE *to)
{
	return cluster_write(cluster, to);
}

static int write_file(const struct clusterprobe_result *result, const char *path, FILE *out)
{
	struct cluster *cluster = NULL;
	struct diag why = { 0 };
	int status, r = cluster_found(result, &cluster, &why);

	if (r < 0)
		return command_failed(&why, r, "what was found makes no cluster file");
	status = file_put_made(path, "the cluster file cannot be written", write_text, cluster, out);
	cluster_free(cluster);
	return status;
}

static int print_all(const struct command_call *call, const struct clusterprobe_result *result,
		     struct cluster *declared, FILE *file_out)
{
	const char *path = command_value(call, "out");
	FILE *out = path && !strcmp(path, "-") ? stderr : file_out;
	char *lines = NULL;
	size_t bytes = 0, count = 0;
	int status = COMMAND_OK;

	if (declared) {
		FILE *text = open_memstream(&lines, &bytes);

		if (!text)
			return command_failed(NULL, ENOMEM, "cluster");
		count = cluster_contradictions(result, declared, "", text);
		fclose(text);
	}
	if (command_given(call, "json")) {
		status = print_json(result, lines, out);
	} else {
		cluster_found_print(result, out);
		if (declared && !count)
			fputs("Nothing contradicts what is declared.\n", out);
		else if (declared)
			fprintf(out, "%zu %s what is declared:\n%s", count,
				count == 1 ? "thing contradicts" : "things contradict", lines);
	}
	free(lines);
	if (status == COMMAND_OK && path)
		status = write_file(result, path, file_out);
	return status;
}

/* --------------------------------------------------------------------------------------------------------------- run */

static void show_progress(size_t round, size_t of, void *arg)
{
	measure_text_progress(arg, round, of, "rounds");
}

static int coordinator(const struct command_call *call, const struct clusterprobe_setup *setup,
		       const struct clusterprobe_options *wanted, FILE *out)
{
	struct measure_text progress;
	struct clusterprobe_options options = *wanted;
	struct clusterprobe_result result = { 0 };
	struct cluster *declared = NULL;
	struct diag diag = { 0 };
	int status = file_check_put(command_value(call, "out")), r;

	/* Before anybody is made to wait. */
	if (status == COMMAND_OK)
		status = command_cluster_of(call, "declared", &declared);
	if (status != COMMAND_OK)
		return status;
	measure_text_begin(stderr, &progress);
	options.progress = show_progress;
	options.progress_arg = &progress;
	r = clusterprobe_coordinator_run(setup, &options, &result, &diag);
	measure_text_end(&progress);
	if (r < 0)
		status = command_failed(NULL, diag.text[0] ? 0 : r, "%s",
					diag.text[0] ? diag.text : "the cluster cannot be measured");
	else
		status = print_all(call, &result, declared, out);
	clusterprobe_result_fini(&result);
	cluster_free(declared);
	return status;
}

static int read_options(const struct command_call *call, struct clusterprobe_options *ret)
{
	const char *limit = command_value(call, "limit"), *file = command_value(call, "out");
	uint64_t round_ms = 0, streams = 0;

	ret->seed = SEED;
	if (limit && parse_rate(limit, 1000, UINT64_MAX, &ret->limit_Bps) < 0)
		return command_wrong_value(call, "limit", PARSE_RATE_EXPECTED);
	if (command_number(call, "round", ROUND_MS_LEAST, ROUND_MS_MOST, &round_ms) != COMMAND_OK ||
	    command_number(call, "streams", 1, CLUSTERPROBE_STREAMS_MAX, &streams) != COMMAND_OK)
		return COMMAND_USAGE;
	if (file && !strcmp(file, "-") && command_given(call, "json"))
		return command_usage_error("cluster measure", "only one of --out, --json can go to standard output");
	ret->round_ms = (uint32_t)round_ms;
	ret->streams = (uint32_t)streams;
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	struct clusterprobe_setup setup = { .stop = &interrupt_wanted };
	struct clusterprobe_options options = { 0 };
	struct control_secret secret = { 0 };
	struct params params;
	struct diag diag = { 0 };
	int status = read_options(call, &options), r;

	if (status == COMMAND_OK)
		status = command_find_launch(call, "", &params, &secret, &setup);
	if (status != COMMAND_OK)
		return status;
	if (gethostname(setup.name, sizeof(setup.name) - 1) < 0)
		snprintf(setup.name, sizeof(setup.name), "rank%u", setup.launch.rank);
	setup.timeout_ns = params.timeout_ns;
	command_raise_descriptors();
	interrupt_catch();
	if (setup.launch.rank == 0) {
		status = coordinator(call, &setup, &options, out);
	} else {
		r = clusterprobe_worker_run(&setup, &diag);
		if (r < 0)
			status = command_failed(NULL, diag.text[0] || r == -EINTR ? 0 : r, "%s: %s", setup.name,
						r == -EINTR    ? "interrupted"
						: diag.text[0] ? diag.text
							       : "the cluster cannot be measured");
	}
	control_secret_forget(&secret);
	return status;
}

const struct command command_cluster_measure = {
	.name = "cluster measure",
	.group = COMMAND_CLUSTERS,
	.operands = "",
	.help = "measure which hosts share a leaf, how wide the uplinks are, which hosts are slow",
	.about = "Started on every host by mpirun, srun or torchrun (docs/guide/cluster.md): finds leaves, uplinks and "
		 "slow hosts by sending, and writes the cluster file. Do not use the network meanwhile.",
	.options = { { "out", "FILE", "write the cluster file there, on rank 0's host; - for standard output", NULL },
		     { "declared", "FILE", "compare with this cluster, in any form that `cluster show` reads", NULL },
		     COMMAND_OPTION_EXCLUDE,
		     { "limit", "RATE", "what each host sends at most", NULL },
		     { "round", "MS", "how long each round of flows is", "400" },
		     { "streams", "N", "connections for each flow, where one does not fill a NIC", "1" },
		     { "master", "ADDRESS", "where rank 0 listens; without it MASTER_ADDR and MASTER_PORT", NULL },
		     { "secret", "FILE", "the secret that all hosts share; without it that of TRIBUTARY_SECRET", NULL },
		     COMMAND_OPTION_JSON },
	.example = "srun --ntasks-per-node=1 tributary cluster measure --secret secret --out cluster",
	.run = run,
};
