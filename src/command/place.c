/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary place`: which GPUs or hosts a job should have beside those that run. */
#include "command/command.h"

#include "command/cluster_open.h"
#include "command/cluster_rates.h"
#include "command/answer.h"
#include "command/json.h"
#include "command/place/placing.h"
#include "command/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_words[] = { [PLAN_PLACE_HOST] = "host-bound", [PLAN_PLACE_PEER] = "peer-bound" };

static bool is_placed(const struct placing_job *job)
{
	return job->state == PLACING_PLACED;
}

static const struct plan_place_slot *slot_of(const struct placing *placing, const struct placing_job *job, size_t i)
{
	return &placing->tree.slots[job->slots[i]];
}

/* "0,1,4" of GPUs, "node1,node2" of hosts. */
static void print_slots(const struct placing *placing, const struct placing_job *job, FILE *out)
{
	for (size_t i = 0; i < job->job.count; i++) {
		if (placing->hosts)
			fprintf(out, "%s%s", i ? "," : "", slot_of(placing, job, i)->name);
		else
			fprintf(out, "%s%u", i ? "," : "", slot_of(placing, job, i)->number);
	}
}

static const char *worst_name(const struct placing *placing, const struct placing_job *job)
{
	return job->result.worst == PLAN_PLACE_NONE ? "" : placing->tree.nodes[job->result.worst].name;
}

static void print_why(const struct placing *placing, const struct placing_job *job, FILE *out)
{
	if (job->job.count > placing->tree.slot_count)
		fprintf(out, "cannot be placed: there are %zu %s, and it wants %zu", placing->tree.slot_count,
			placing->hosts ? "hosts" : "GPUs", job->job.count);
	else if (job->job.count > job->free)
		fprintf(out, "waits: %zu of %zu %s are free", job->free, job->job.count,
			placing->hosts ? "hosts" : "GPUs");
	else
		fprintf(out, "waits: it and others would fill the uplink of %s (--share places it all the same)",
			worst_name(placing, job));
}

static void print_job(const struct placing *placing, const struct placing_job *job, FILE *out)
{
	fprintf(out, "%s (%s): ", job->name, kind_words[job->job.kind]);
	if (!is_placed(job)) {
		print_why(placing, job, out);
		return;
	}
	fputs(placing->hosts ? "hosts " : "GPUs ", out);
	print_slots(placing, job, out);
	if (job->result.share < 0.975)
		fprintf(out, "; %s %.0f %% of its rate on the uplink of %s",
			job->result.shared ? "shared, at most" : "even alone, at most", 100 * job->result.share,
			worst_name(placing, job));
}

/* Of one job, its line; of several, how many have a place. */
static void answer(const struct placing *placing, struct answer *ret)
{
	size_t placed = 0;

	*ret = (struct answer){ .text = "" };
	for (size_t i = 0; i < placing->order_count; i++)
		placed += is_placed(&placing->jobs[placing->order[i]]);
	if (!placing->order_count) {
		answer_add(ret, "There is no job to place.");
	} else if (placing->order_count == 1) {
		FILE *line = fmemopen(ret->text, sizeof(ret->text), "w");

		if (!line)
			return;
		print_job(placing, &placing->jobs[placing->order[0]], line);
		fclose(line);
	} else if (placed == placing->order_count) {
		answer_add(ret, "All %zu jobs have a place.", placed);
	} else {
		answer_add(ret, "%zu of %zu jobs have a place, the others wait.", placed, placing->order_count);
	}
}

static void print_text(const struct placing *placing, FILE *out)
{
	struct answer first;

	answer(placing, &first);
	if (placing->order_count > 1)
		answer_print(&first, out);
	else
		fprintf(out, "%s\n", first.text);
	for (size_t i = 0; i < placing->order_count && placing->order_count > 1; i++) {
		print_job(placing, &placing->jobs[placing->order[i]], out);
		fputc('\n', out);
	}
}

/* For launchers: a line or more for each job that was placed, with its name where there are several. */
static void print_files(const struct placing *placing, const char *format, FILE *out)
{
	for (size_t i = 0; i < placing->order_count; i++) {
		const struct placing_job *job = &placing->jobs[placing->order[i]];

		if (!is_placed(job)) {
			fprintf(stderr, "tributary: %s ", job->name);
			print_why(placing, job, stderr);
			fputc('\n', stderr);
			continue;
		}
		if (placing->order_count > 1)
			fprintf(out, "# %s\n", job->name);
		if (!strcmp(format, "cuda")) {
			fputs("CUDA_VISIBLE_DEVICES=", out);
			print_slots(placing, job, out);
		} else if (!strcmp(format, "slurm") && placing->hosts) {
			fputs("--nodelist=", out);
			print_slots(placing, job, out);
			fprintf(out, " --gres=gpu:%u", placing->gpus);
		} else if (!strcmp(format, "slurm")) {
			fprintf(out, "--gres=gpu:%zu --gpu-bind=map_gpu:", placing->tree.slot_count);
			print_slots(placing, job, out);
		} else {
			for (size_t j = 0; j < job->job.count; j++)
				fprintf(out, "%s%s slots=%u", j ? "\n" : "", slot_of(placing, job, j)->name,
					placing->gpus);
		}
		fputc('\n', out);
	}
}

static json_t *job_json(const struct placing *placing, const struct placing_job *job)
{
	json_t *slots = json_array(), *why = json_null();
	char *text = NULL;
	size_t bytes;
	FILE *memory;

	for (size_t i = 0; is_placed(job) && i < job->job.count; i++)
		json_array_append_new(slots, placing->hosts ? json_text(slot_of(placing, job, i)->name)
							    : json_integer(slot_of(placing, job, i)->number));
	if (!is_placed(job) && (memory = open_memstream(&text, &bytes))) {
		print_why(placing, job, memory);
		fclose(memory);
		why = json_text(text);
		free(text);
	}
	return json_pack("{so ss so so sf sb so}", "name", json_text(job->name), "kind",
			 job->job.kind == PLAN_PLACE_HOST ? "host" : "peer", placing->hosts ? "hosts" : "gpus", slots,
			 "waits", why, "share", is_placed(job) ? job->result.share : 0.0, "shared",
			 (int)(is_placed(job) && job->result.shared), "fullest_uplink",
			 is_placed(job) && job->result.worst != PLAN_PLACE_NONE ? json_text(worst_name(placing, job))
										: json_null());
}

static int print(const struct command_call *call, const struct placing *placing, FILE *out)
{
	const char *format = command_value(call, "format");
	int status = COMMAND_OK;

	for (size_t i = 0; i < placing->order_count; i++)
		if (!is_placed(&placing->jobs[placing->order[i]]))
			status = COMMAND_FAILED;
	if (command_given(call, "json")) {
		json_t *jobs = json_array();
		struct answer first;

		answer(placing, &first);
		for (size_t i = 0; i < placing->order_count; i++)
			json_array_append_new(jobs, job_json(placing, &placing->jobs[placing->order[i]]));
		if (json_print("tributary-place 1", json_pack("{so so}", "answer", answer_json(&first), "jobs", jobs),
			       out) != COMMAND_OK)
			status = COMMAND_FAILED;
	} else if (!strcmp(format, "text")) {
		print_text(placing, out);
	} else {
		print_files(placing, format, out);
	}
	return status;
}

static int find(const struct command_call *call, struct placing *placing)
{
	const char *format = command_value(call, "format");
	int status;

	if (!strcmp(format, placing->hosts ? "cuda" : "hostfile"))
		return command_usage_error("place", "--format %s is for %s", format,
					   placing->hosts ? "GPUs of one machine: leave out --cluster"
							  : "hosts: give --cluster FILE");
	status = placing_read(call, placing);
	return status == COMMAND_OK ? placing_run(placing) : status;
}

static int place_on_hosts(const struct command_call *call, struct placing *placing, FILE *out)
{
	const char *path = command_value(call, "cluster");
	struct cluster *cluster = NULL;
	struct cluster_rates rates;
	uint64_t count = 0;
	int status, r;

	if (command_number(call, "gpus", 1, 64, &count) != COMMAND_OK)
		return COMMAND_USAGE;
	status = command_cluster_of(call, "cluster", &cluster);
	if (status != COMMAND_OK)
		return status;
	placing->gpus = (unsigned)count;
	placing->hosts = true;
	status = cluster_rates_fill(call, cluster, &rates);
	r = status == COMMAND_OK ? plan_place_of_cluster(cluster, &placing->tree) : 0;
	if (r < 0)
		status = command_failed(NULL, r == -ENOENT ? 0 : r, "the cluster has no hosts");
	if (status == COMMAND_OK)
		status = find(call, placing);
	if (status == COMMAND_OK) {
		cluster_rates_note(&rates, path, "is never full");
		status = print(call, placing, out);
	}
	placing_fini(placing);
	plan_place_fini(&placing->tree);
	cluster_free(cluster);
	return status;
}

/* By them alone it can be told what is full. */
static void note_unknown(const struct topology *topology)
{
	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];

		if (link->kind == TOPOLOGY_LINK_PCI && (link->nominal_Bps || link->capacity[TOPOLOGY_UP].rate_Bps))
			return;
	}
	command_say("the rates of this machine's links are not known: none is ever full (`tributary measure` "
		    "finds them)");
}

static int place_on_gpus(const struct command_call *call, struct placing *placing, FILE *out)
{
	struct source source;
	int status = source_load(call, SOURCE_PROFILE_ALONE, &source), r;

	if (status != COMMAND_OK)
		return status;
	placing->gpus = 1;
	r = plan_place_of_machine(&source.topology, &placing->tree);
	status = r < 0 ? command_failed(NULL, r == -ENOENT ? 0 : r,
					"the machine has no GPU to place on (--from FILE: another machine; --cluster "
					"FILE: hosts)")
		       : find(call, placing);
	if (status == COMMAND_OK) {
		note_unknown(&source.topology);
		status = print(call, placing, out);
	}
	placing_fini(placing);
	plan_place_fini(&placing->tree);
	source_fini(&source);
	return status;
}

static int run(const struct command_call *call, FILE *out)
{
	struct placing *placing;
	int status;

	if (command_value(call, "cluster") && (command_given(call, "from") || command_given(call, "profile")))
		return command_usage_error("place",
					   "--cluster has hosts, --from and --profile are of one machine's GPUs: "
					   "give one");
	if (command_given(call, "exclude") && !command_given(call, "cluster"))
		return command_usage_error("place", "--exclude is for the file of --cluster");
	if (command_given(call, "rate") && !command_given(call, "cluster"))
		return command_usage_error("place", "--rate is for --cluster: a machine's rates are in its profile");
	if (command_given(call, "json") && strcmp(command_value(call, "format"), "text") != 0)
		return command_usage_error("place", "--json and --format %s: give one", command_value(call, "format"));
	placing = calloc(1, sizeof(*placing));
	if (!placing)
		return command_failed(NULL, ENOMEM, "the jobs cannot be placed");
	status = command_value(call, "cluster") ? place_on_hosts(call, placing, out)
						: place_on_gpus(call, placing, out);
	free(placing);
	return status;
}

const struct command command_place = {
	.name = "place",
	.group = COMMAND_CLUSTERS,
	.operands = "[JOB]",
	.help = "which GPUs or hosts a job should have, so that it and others fill no uplink together",
	.about = "JOB is host:COUNT or peer:COUNT (GPUs), and a rate for each GPU, with --cluster for each host, if it "
		 "is known: host:2:10GB/s. Host-bound "
		 "jobs (data from "
		 "memory, disks, storage) are spread over switches, peer-bound ones (AllReduce) kept on one; "
		 "docs/guide/cluster.md has the "
		 "rule. On this machine's GPUs or a file's; with --cluster on hosts.\n"
		 "A job that would fill an uplink together with others waits: it is named, and the exit status is 1.",
	.options = { { "jobs", "FILE", "jobs, a line each: running NAME host|peer LIST, wants NAME host|peer COUNT",
		       NULL },
		     { "busy", "LIST", "GPUs (0-3,6) or hosts (node[1-4]) that may not be taken", NULL },
		     { "cluster", "FILE", "place on hosts of this cluster, in any form that `cluster show` reads",
		       NULL },
		     COMMAND_OPTION_EXCLUDE,
		     COMMAND_OPTION_RATE,
		     { "gpus", "N", "of each host, with --cluster", "1" },
		     { "share", NULL, "place jobs that would share a full uplink too", NULL },
		     { "format", "text|cuda|hostfile|slurm",
		       "what is printed: sentences, CUDA_VISIBLE_DEVICES, a hosts file, options for srun", "text" },
		     COMMAND_OPTION_FROM,
		     COMMAND_OPTION_PROFILE,
		     COMMAND_OPTION_JSON },
	.example = "tributary place peer:4 --from machine.topology",
	.run = run,
};
