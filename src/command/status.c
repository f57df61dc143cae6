/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary status`: which communicators of this user's jobs have channels, and why the others have none. */
#include "command/command.h"

#include "base/params.h"
#include "base/parse.h"
#include "command/answer.h"
#include "command/jobs.h"
#include "command/json.h"
#include "command/print/units.h"
#include "command/status/measured.h"
#include "command/status/metrics.h"
#include "command/term.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIME_BYTES = 32, JOBS_MAX = 1000 };

static void time_words(int64_t time_s, char text[static TIME_BYTES])
{
	time_t then = (time_t)time_s;
	struct tm tm;

	snprintf(text, TIME_BYTES, "?");
	if (localtime_r(&then, &tm))
		strftime(text, TIME_BYTES, "%Y-%m-%d %H:%M:%S", &tm);
}

/* -------------------------------------------------------------------------------------------------------------- text */

static void print_comm(const struct job_comm *comm, FILE *out)
{
	char gpus[JOB_GPUS_BYTES], why[JOB_WHY_BYTES], rate[UNITS_BYTES];

	term_clean(comm->gpus, gpus, sizeof(gpus));
	term_clean(comm->why, why, sizeof(why));
	fprintf(out, "    %" PRIu64 " of GPU%s %s: ", comm->count, strchr(gpus, ',') ? "s" : "", gpus);
	if (!comm->channels) {
		fprintf(out, "NCCL searches: %s\n", why);
		return;
	}
	fprintf(out, "%u channel%s", comm->channels, comm->channels == 1 ? "" : "s");
	if (comm->alone_GBps > 0)
		fprintf(out, ", AllReduce %s on one host", units_rate(comm->alone_GBps * 1e9, rate));
	if (comm->several_GBps > 0)
		fprintf(out, ", AllReduce %s between two", units_rate(comm->several_GBps * 1e9, rate));
	fputc('\n', out);
}

static void print_job(const struct job *job, const struct measured *measured, FILE *out)
{
	char start[TIME_BYTES], end[TIME_BYTES], why[JOB_WHY_BYTES], command[JOB_WORD_BYTES], host[JOB_WORD_BYTES];
	bool is_known;

	time_words(job->process.start_s, start);
	time_words(job->end_s, end);
	term_clean(job->process.command, command, sizeof(command));
	term_clean(job->process.host, host, sizeof(host));
	term_clean(job->process.why, why, sizeof(why));
	/* The end of a process that was killed is when it last had something to tell. */
	is_known = !job->running && job->end_s > job->process.start_s;
	fprintf(out, "%s on %s: %s %s%s%s, over %s network\n", command, host,
		job->running ? "running since"
		: is_known   ? "ran from"
			     : "ran at",
		start, is_known ? " to " : "", is_known ? end : "", job->process.ours ? "Tributary's" : "NCCL's own");
	if (job->comm_count || !why[0])
		fprintf(out, "  communicators: %" PRIu64 " with channels, %" PRIu64 " without\n", jobs_count(job, true),
			jobs_count(job, false));
	if (why[0])
		fprintf(out, "    all: NCCL searches: %s\n", why);
	for (size_t i = 0; i < job->comm_count; i++)
		print_comm(&job->comms[i], out);
	measured_print(measured, out);
}

/* -------------------------------------------------------------------------------------------------------------- JSON */

static json_t *gpus_json(const char *text)
{
	json_t *list = json_array();
	const char *item;
	size_t bytes;

	while (parse_list_next(&text, ',', &item, &bytes)) {
		char word[JOB_GPUS_BYTES];
		uint64_t number;

		snprintf(word, sizeof(word), "%.*s", (int)bytes, item);
		json_array_append_new(list, parse_u64(word, 0, UINT32_MAX, &number) == 0
						    ? json_integer((json_int_t)number)
						    : json_text(word));
	}
	return list;
}

static json_t *rate_json(double rate_GBps)
{
	return rate_GBps > 0 ? json_real(rate_GBps) : json_null();
}

static json_t *job_json(const struct job *job, const struct measured *measured)
{
	json_t *comms = json_array();

	for (size_t i = 0; i < job->comm_count; i++) {
		const struct job_comm *comm = &job->comms[i];

		json_array_append_new(comms,
				      json_pack("{so sI so sI so so so}", "last_id", json_text(comm->last_id), "count",
						(json_int_t)comm->count, "gpus", gpus_json(comm->gpus), "channels",
						(json_int_t)comm->channels, "one_host_GBps",
						rate_json(comm->alone_GBps), "two_hosts_GBps",
						rate_json(comm->several_GBps), "reason", json_known_text(comm->why)));
	}
	return json_pack("{so so so sb sI so sI ss so so so}", "id", json_text(job->process.job), "host",
			 json_text(job->process.host), "command", json_text(job->process.command), "running",
			 job->running, "start_s", (json_int_t)job->process.start_s, "end_s",
			 job->running ? json_null() : json_integer(job->end_s), "processes",
			 (json_int_t)job->process_count, "network", job->process.ours ? "tributary" : "nccl", "reason",
			 json_known_text(job->process.why), "communicators", comms, "collectives",
			 measured_json(measured));
}

/* ------------------------------------------------------------------------------------------------------------ answer */

/* The jobs that are shown, the newest first. */
struct shown {
	const struct job **at;
	struct measured *measured;
	size_t count;
	struct expect *expect;
};

static void shown_fini(struct shown *shown)
{
	for (size_t i = 0; i < shown->count; i++)
		measured_fini(&shown->measured[i]);
	expect_close(shown->expect);
	free(shown->measured);
	free(shown->at);
}

/* Communicators that have channels, and that want some and have none: how many, and the first reason. */
struct tally {
	uint64_t with, without;
	const char *why;
};

static void count_job(const struct job *job, struct tally *ret)
{
	ret->with += jobs_count(job, true);
	if (job->process.why[0])
		ret->why = job->process.why;
	for (size_t i = 0; i < job->comm_count; i++) {
		const struct job_comm *comm = &job->comms[i];

		if (comm->channels || !strcmp(comm->why, JOB_WHY_ONE_GPU))
			continue;
		ret->without += comm->count;
		if (!ret->why)
			ret->why = comm->why;
	}
}

/* Of the jobs that run; where none does, of the last one, and of those that began in the same second. */
static void answer(const struct shown *shown, bool all, struct answer *ret)
{
	const struct measured_row *worst = NULL;
	struct tally tally = { .why = NULL };
	size_t running = 0, last = 0;
	int64_t last_s;
	char whose[160] = "";

	*ret = (struct answer){ .text = "" };
	if (!shown->count) {
		answer_add(
			ret,
			"There is no record of a job of this user%s; `tributary doctor` names what stands in the way.",
			all ? "" : " on this host");
		return;
	}
	last_s = shown->at[0]->process.start_s;
	for (size_t i = 0; i < shown->count; i++)
		running += shown->at[i]->running;
	for (size_t i = shown->count; i-- > 0;)
		if (running ? shown->at[i]->running : shown->at[i]->process.start_s == last_s) {
			last += !running;
			count_job(shown->at[i], &tally);
			worst = measured_worst(&shown->measured[i]) ? measured_worst(&shown->measured[i]) : worst;
			snprintf(whose, sizeof(whose), "%s, which %s,", shown->at[i]->process.command,
				 running ? "runs" : "was the last job");
		}
	if (running > 1)
		snprintf(whose, sizeof(whose), "%zu running jobs", running);
	if (last > 1)
		snprintf(whose, sizeof(whose), "the last %zu jobs, which began together,", last);
	if (tally.why && !tally.without)
		answer_add(ret, "No communicator of %s has channels: %s.", whose, tally.why);
	else if (tally.why)
		answer_add(ret, "%" PRIu64 " of %" PRIu64 " communicators of %s have no channels: %s.", tally.without,
			   tally.with + tally.without, whose, tally.why);
	else if (tally.with)
		answer_add(ret, "%she communicators of %s have channels, where they have several GPUs.",
			   worst ? "T" : "All is well: t", whose);
	else
		answer_add(ret, "The communicators of %s have one GPU each and need no channels.", whose);
	if (worst) {
		answer_add(ret, " ");
		measured_answer(worst, ret);
		answer_add(ret, ".");
	}
}

/* -------------------------------------------------------------------------------------------------------------- whole */

/* Those that run, and so many recent ones, of this host or of all. *ret is to be ended in any case. */
static int select_jobs(const struct jobs *jobs, size_t most, bool all, struct shown *ret)
{
	char host[JOB_WORD_BYTES] = "";
	size_t recent = 0;

	*ret = (struct shown){ .at = calloc(jobs->count + 1, sizeof(const struct job *)),
			       .measured = calloc(jobs->count + 1, sizeof(struct measured)) };
	if (!ret->at || !ret->measured)
		return command_failed(NULL, ENOMEM, "the jobs cannot be shown");
	(void)gethostname(host, sizeof(host) - 1);
	for (size_t i = 0; i < jobs->count; i++) {
		const struct job *job = &jobs->at[i];

		if ((!all && strcmp(job->process.host, host) != 0) || (!job->running && recent == most))
			continue;
		recent += !job->running;
		ret->at[ret->count++] = job;
	}
	return COMMAND_OK;
}

/* What the jobs' collectives took; the machine is looked at only if there is anything to compare. */
static int add_measured(const struct command_call *call, const struct jobs *jobs, struct shown *shown)
{
	const char *from = command_value(call, "from"), *profile = command_value(call, "profile");
	char host[JOB_WORD_BYTES] = "";

	(void)gethostname(host, sizeof(host) - 1);
	for (size_t i = 0; i < shown->count; i++) {
		const struct job *job = shown->at[i];
		bool is_machine = from || profile || !strcmp(job->process.host, host);

		if (is_machine && !shown->expect && measured_has_times(job))
			shown->expect = expect_open(from, profile);
		if (measured_make(job, jobs, is_machine ? shown->expect : NULL, &shown->measured[i]) < 0)
			return command_failed(NULL, ENOMEM, "the jobs cannot be shown");
	}
	return COMMAND_OK;
}

static int print(const struct command_call *call, const struct jobs *jobs, size_t most, FILE *out)
{
	const char *folder = command_value(call, "metrics");
	bool all = command_given(call, "all");
	struct shown shown;
	struct answer first;
	int status = select_jobs(jobs, most, all, &shown);

	if (status == COMMAND_OK)
		status = add_measured(call, jobs, &shown);
	if (status != COMMAND_OK)
		goto fail;
	answer(&shown, all, &first);
	if (folder) {
		status = status_metrics_write(shown.at, shown.measured, shown.count, folder);
	} else if (command_given(call, "json")) {
		json_t *list = json_array();

		for (size_t i = 0; i < shown.count; i++)
			json_array_append_new(list, job_json(shown.at[i], &shown.measured[i]));
		status = json_print("tributary-status 1",
				    json_pack("{so so}", "answer", answer_json(&first), "jobs", list), out);
	} else if (!shown.count) {
		fprintf(out, "%s\n", first.text);
	} else {
		answer_print(&first, out);
		for (size_t i = 0; i < shown.count; i++)
			print_job(shown.at[i], &shown.measured[i], out);
	}
fail:
	shown_fini(&shown);
	return status;
}

static int run(const struct command_call *call, FILE *out)
{
	struct params params;
	struct jobs jobs;
	uint64_t most = 0;
	int status, r;

	if (command_given(call, "metrics") && command_given(call, "json"))
		return command_usage_error(call->command->name,
					   "--metrics writes a file, and --json prints: give one of them");
	if (command_number(call, "jobs", 1, JOBS_MAX, &most) != COMMAND_OK)
		return COMMAND_USAGE;
	command_load_params(&params);
	r = jobs_read(&params, &jobs);
	if (r < 0)
		return command_failed(NULL, -r, "the jobs cannot be read");
	status = print(call, &jobs, (size_t)most, out);
	jobs_fini(&jobs);
	return status;
}

const struct command command_status = {
	.name = "status",
	.group = COMMAND_JOBS,
	.operands = "",
	.help = "which communicators of running and recent jobs have channels, and why not",
	.about =
		"Of the jobs of this user on this host, the newest first: for each kind of communicator its GPUs, "
		"its channels and what AllReduce of 256 MiB should reach, or the reason why NCCL searches, with "
		"what helps. Running jobs tell in shared memory (TRIBUTARY_SHARED_DIR), recent ones in the state "
		"directory (TRIBUTARY_STATE_DIR). docs/design/steering.md lists the reasons.\n"
		"With TRIBUTARY_PROFILER=time it has what NCCL took for each collective and size beside what the model "
		"predicts on this machine, and where they differ by more than 15 % the likely cause: another algorithm "
		"than predicted, a slow rank, a link below its profile, another job. Where nothing at hand shows one it "
		"says so.",
	.options = { { "jobs", "N", "recent jobs to show at most, beside those that run", "20" },
		     { "all", NULL, "also those of other hosts, where the state directory is shared", NULL },
		     COMMAND_OPTION_FROM,
		     COMMAND_OPTION_PROFILE,
		     COMMAND_OPTION_JSON,
		     { "metrics", "FOLDER",
		       "print nothing: write what the collectives of running jobs took and what was predicted into a "
		       "file there, for Prometheus",
		       NULL } },
	.metrics = status_metrics_tables,
	.example = "tributary status",
	.run = run,
};
