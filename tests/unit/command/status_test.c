/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary status` and the last lines of `tributary run`, as the built program, over records as the plugin writes them. */
#include "command/command.h"

#include "program.h"
#include "schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/obstacles.h"
#include "plugin/steer/status.h"
#include "profile/store_jobs.h"
#include "tributary/predict.h"

static struct params params;
static char host[65];

static int begin(void **state)
{
	static const char *const names[] = {
		"NCCL_NET_PLUGIN", "NCCL_ENV_PLUGIN", "NCCL_NET",       "NCCL_TOPO_FILE",
		"NCCL_GRAPH_FILE", "LOCAL_RANK",      "WORLD_SIZE",     "LOCAL_WORLD_SIZE",
		"LOCAL_SIZE",      "TRIBUTARY_STEER", "_TRIBUTARY_JOB", "NCCL_SHM_DISABLE"
	};
	char line[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	snprintf(line, sizeof(line), "rm -rf '%s/state' '%s/shared'; mkdir '%s/shared'", program_folder(),
		 program_folder(), program_folder());
	assert_int_equal(system(line), 0);
	memset(&params, 0, sizeof(params));
	snprintf(params.state_dir, sizeof(params.state_dir), "%s/state", program_folder());
	snprintf(params.shared_dir, sizeof(params.shared_dir), "%s/shared", program_folder());
	setenv("TRIBUTARY_STATE_DIR", params.state_dir, 1);
	setenv("TRIBUTARY_SHARED_DIR", params.shared_dir, 1);
	setenv("TRIBUTARY_NET", "tcp", 1);
	setenv("NCCL_CONF_FILE", "/nonexistent", 1);
	setenv("HOME", program_folder(), 1); /* no .nccl.conf of this user's */
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	return 0;
}

__attribute__((format(printf, 1, 2))) static void add(const char *fmt, ...)
{
	char text[4096];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	assert_int_equal(store_jobs_add(&params, host, text, strlen(text)), 0);
}

static json_t *jobs_of(const char *arguments, json_t **ret_all)
{
	char text[1 << 16], line[128];

	snprintf(line, sizeof(line), "status --json %s", arguments);
	assert_int_equal(program_run(line, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	*ret_all = schema_check_output(text);
	return json_object_get(*ret_all, "jobs");
}

static int64_t number(const json_t *of, const char *key)
{
	assert_true(json_is_integer(json_object_get(of, key)));
	return json_integer_value(json_object_get(of, key));
}

#define PROCESS(of, job, start, why) \
	"process a-b job " job " start " start " rank 0 size 2 network nccl host %s command python3 why " why "\n", of

static void nothing_is_said_plainly(void **state)
{
	char text[1024];
	json_t *all;

	(void)state;
	assert_int_equal(program_run("status", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "There is no record of a job of this user"));
	assert_int_equal(json_array_size(jobs_of("", &all)), 0);
	json_decref(all);
}

/* Ranks that have no job's number in common are jobs of their own: what one of them lacks is not passed over. */
static void jobs_that_began_together_are_answered_for_together(void **state)
{
	json_t *all;

	(void)state;
	for (int i = 0; i < 2; i++)
		add("process a-%d job 000000000000000%d start 1000 rank 0 size 1 network ours host %s command python3 "
		    "why -\ncomm 0000000000000007 count %d gpus 0,1 channels %d alone 1 several 0 why %s\nend 1500\n",
		    i, i, host, i ? 1 : 3, i, i ? "-" : "no profile");
	(void)jobs_of("", &all);
	assert_non_null(strstr(json_string_value(json_object_get(all, "answer")),
			       "3 of 4 communicators of the last 2 jobs, which began together, have no channels"));
	json_decref(all);
}

static void processes_of_a_job_are_one(void **state)
{
	char text[4096];
	json_t *all, *jobs, *comms;

	(void)state;
	add("comm 1 of nobody\nrubbish\n");
	add(PROCESS(host, "00000000000000aa", "1000", "-"));
	add("comm 0000000000000001 count 1 gpus 0,1 channels 4 alone 39.75 several 0.00 why -\n"
	    "comm 0000000000000002 count 2 gpus 0 channels 0 alone 0.00 several 0.00 why it has one GPU\nend 1500\n");
	add(PROCESS(host, "00000000000000aa", "1001", "-"));
	add("comm 0000000000000003 count 3 gpus 0 channels 0 alone 0.00 several 0.00 why it has one GPU\n"
	    "damaged line\nend 1400\n");
	/* The same id, later: another job. */
	add(PROCESS(host, "00000000000000aa", "2000", "NCCL_GRAPH_FILE is set: unset it"));
	add("end 2100\n");
	add(PROCESS("elsewhere", "00000000000000bb", "3000", "-"));
	add("end 3100\n");
	jobs = jobs_of("", &all);
	assert_int_equal(json_array_size(jobs), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(jobs, 0), "reason")),
			    "NCCL_GRAPH_FILE is set: unset it");
	jobs = json_array_get(jobs, 1);
	assert_int_equal(number(jobs, "processes"), 2);
	assert_int_equal(number(jobs, "start_s"), 1000);
	assert_int_equal(number(jobs, "end_s"), 1500);
	assert_string_equal(json_string_value(json_object_get(jobs, "network")), "nccl");
	comms = json_object_get(jobs, "communicators");
	assert_int_equal(json_array_size(comms), 2);
	assert_int_equal(number(json_array_get(comms, 0), "channels"), 4);
	assert_true(json_real_value(json_object_get(json_array_get(comms, 0), "one_host_GBps")) == 39.75);
	assert_true(json_is_null(json_object_get(json_array_get(comms, 0), "two_hosts_GBps")));
	assert_int_equal(json_array_size(json_object_get(json_array_get(comms, 0), "gpus")), 2);
	assert_int_equal(number(json_array_get(comms, 1), "count"), 5);
	json_decref(all);
	assert_int_equal(json_array_size(jobs_of("--all", &all)), 3);
	json_decref(all);
	assert_int_equal(json_array_size(jobs_of("--jobs 1", &all)), 1);
	json_decref(all);
	assert_int_equal(program_run("status", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "communicators: 1 with channels, 5 without\n"
				     "    1 of GPUs 0,1: 4 channels, AllReduce 39.8 GB/s on one host\n"
				     "    5 of GPU 0: NCCL searches: it has one GPU\n"));
	assert_int_equal(program_run("status --jobs 0", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
}

/* ------------------------------------------------------------------------------------------- measured beside predicted */

#define COMM "comm 0000000000000007 count 1 gpus 0,1,2,3 channels 4 alone 38.00 several 0.00 why -\n"

/* Four ranks, AllReduce of 64 MiB as NCCL ran it, and how long each took for it. */
static void add_ranks(const char *job, const char *way, const double times_us[4])
{
	for (int i = 0; i < 4; i++)
		add("process a-%d job %s start 1000 rank %d size 4 network ours host %s command python3 why -\n" COMM
		    "operations times %s lost 0 captured 0\n"
		    "operation allreduce to 67108864 %s channels 8 of 0000000000000007 communicators 1 ranks 4 nodes 1 rank %d "
		    "count 500 bytes 33554432000 sampled %d sampled_bytes 671088640 ns %.0f least 1 most 1\nend 1500\n",
		    i, job, i, host, times_us[i] > 0 ? "on" : "off", way, i, times_us[i] > 0 ? 10 : 0,
		    times_us[i] * 1e4);
}

/* With all but the last GPU's link as it was measured. */
static const char *machine(bool is_degraded)
{
	static const char link[] = "port=0000:61:01.0 nominal_Bps=", whole[] = "24000000000";
	char *text = program_source_text("topo/nvlink-pairs-4gpu/machine.topology"), *at;
	static char from[512];

	if (is_degraded) {
		at = strstr(text, "port=0000:60:01.0 nominal_Bps=");
		assert_non_null(at);
		memcpy(at + strlen(link), "12000000000", strlen(whole));
	}
	snprintf(from, sizeof(from), "--from %s", program_put("machine.topology", text));
	free(text);
	return from;
}

/* Of the first collective of the newest job; answer may be NULL. */
static json_t *collective_of(const char *arguments, json_t **ret_all, const char **ret_answer)
{
	json_t *jobs = jobs_of(arguments, ret_all);

	*ret_answer = json_string_value(json_object_get(*ret_all, "answer"));
	return json_array_get(json_object_get(json_array_get(jobs, 0), "collectives"), 0);
}

static double predicted_us(void)
{
	const char *answer;
	json_t *all, *one;
	double time_us;

	add_ranks("00000000000000aa", "algorithm ring protocol simple", (const double[4]){ 0, 0, 0, 0 });
	one = collective_of("", &all, &answer);
	assert_string_equal(json_string_value(json_object_get(one, "cause")), "not-measured");
	assert_true(json_is_null(json_object_get(one, "predicted_us"))); /* nobody looked at a machine */
	json_decref(all);
	assert_int_equal(begin(NULL), 0);
	add_ranks("00000000000000aa", "algorithm ring protocol simple", (const double[4]){ 1, 1, 1, 1 });
	one = collective_of(machine(false), &all, &answer);
	time_us = program_number(one, "predicted_us");
	assert_true(time_us > 1000 && time_us < 10000);
	/* 64 MiB, 2 × 3/4 of it over each link. */
	program_check_near(program_number(one, "predicted_GBps"), 67108864 * 1.5 / time_us / 1e3, 1e-3);
	json_decref(all);
	return time_us;
}

static void what_was_measured_stands_beside_what_was_predicted(void **state)
{
	static const struct {
		const char *way;
		double times[4]; /* of what is predicted */
		bool is_degraded, beside;
		const char *cause, *says;
	} cases[] = {
		{ "algorithm ring protocol simple", { 1.1, 1.05, 1, 1.1 }, true, true, "agrees", "All is well" },
		{ "algorithm ring protocol simple", { 0.5, 0.5, 0.5, 0.5 }, false, false, "faster", "All is well" },
		{ "algorithm tree protocol ll", { 0, 0, 0, 0 }, false, false, "not-measured", "All is well" },
		{ "algorithm ring protocol simple",
		  { 2, 2.1, 1, 2 },
		  true,
		  true,
		  "slow-rank",
		  "the others wait for rank 2" },
		{ "algorithm ring protocol simple",
		  { 1.6, 1.7, 1.6, 1.6 },
		  true,
		  true,
		  "link",
		  "now carries 12.0 GB/s" },
		{ "algorithm ring protocol simple",
		  { 3, 3, 3, 3 },
		  true,
		  true,
		  "other-job",
		  "other (job 00000000000000bb)" },
		{ "algorithm ring protocol simple", { 3, 3, 3, 3 }, true, false, "not-known", "cause not known" },
	};
	double whole_us = predicted_us();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *answer;
		json_t *all, *one;
		double times_us[4];

		assert_int_equal(begin(NULL), 0);
		for (size_t k = 0; k < 4; k++)
			times_us[k] = cases[i].times[k] * whole_us;
		if (cases[i].beside)
			add("process b job 00000000000000bb start 900 rank 0 size 1 network ours host %s command other why -\n"
			    "comm 0000000000000009 count 1 gpus 3 channels 0 alone 0 several 0 why one\nend 1600\n",
			    host);
		add_ranks("00000000000000aa", cases[i].way, times_us);
		one = collective_of(machine(cases[i].is_degraded), &all, &answer);
		if (strcmp(json_string_value(json_object_get(one, "cause")), cases[i].cause) != 0 ||
		    !strstr(answer, cases[i].says))
			fail_msg("case %zu: %s, %s", i, json_string_value(json_object_get(one, "cause")), answer);
		json_decref(all);
	}
}

/* The model's own time for what NCCL took. */
static void another_choice_is_named_if_its_time_is_the_models(void **state)
{
	const char *answer;
	char text[8192], line[640];
	json_t *all, *one;
	double tree_us = 0;
	size_t i;

	(void)state;
	snprintf(line, sizeof(line), "tune %s --json", machine(false));
	{
		static char tuned[1 << 20];
		json_t *value, *sizes, *ways, *way;

		assert_int_equal(program_run(line, PROGRAM_STDOUT, tuned, sizeof(tuned)), COMMAND_OK);
		value = json_loads(tuned, 0, NULL);
		sizes = json_object_get(json_array_get(json_object_get(value, "collectives"), PREDICT_ALLREDUCE),
					"sizes");
		ways = json_object_get(json_array_get(sizes, 23), "allowed");
		json_array_foreach(ways, i,
				   way) if (!strcmp(json_string_value(json_object_get(way, "algorithm")), "Tree") &&
					    !strcmp(json_string_value(json_object_get(way, "protocol")), "LL"))
			tree_us = program_number(way, "time_us");
		json_decref(value);
	}
	assert_true(tree_us > 0);
	add_ranks("00000000000000aa", "algorithm tree protocol ll",
		  (const double[4]){ tree_us, tree_us, tree_us, tree_us });
	one = collective_of(machine(false), &all, &answer);
	assert_string_equal(json_string_value(json_object_get(one, "cause")), "other-choice");
	assert_non_null(strstr(answer, "NCCL took Tree/LL"));
	json_decref(all);
	snprintf(line, sizeof(line), "status %s", machine(false));
	assert_int_equal(program_run(line, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "GPUs 0,1,2,3, 4 ranks  AllReduce  64 MiB  Tree/LL, 8 channels    500"));
	/* Not where a tuning table of this shape says to take it. */
	for (int ranks = 8; ranks >= 4; ranks -= 4) {
		char table[512];

		snprintf(table, sizeof(table),
			 "tributary tuning 1\nnccl 2.28.9\nranks %d\nhosts 1\ngpus A\nnetwork B\nmeasured "
			 "2026-11-27T18:30:00Z\nchoice allreduce 67108864 tree ll 0 0 1 2\n",
			 ranks);
		snprintf(line, sizeof(line), "tune --install %s", program_put("table", table));
		assert_int_equal(program_run(line, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
		one = collective_of(machine(false), &all, &answer);
		assert_string_equal(json_string_value(json_object_get(one, "cause")),
				    ranks == 4 ? "agrees" : "other-choice");
		json_decref(all);
	}
	/* Of a process that plans nothing, on all GPUs of the machine and on some of them. */
	for (int ranks = 4; ranks >= 2; ranks -= 2) {
		assert_int_equal(begin(NULL), 0);
		add("process c job 00000000000000cc start 1000 rank 0 size 1 network nccl host %s command python3 why none\n"
		    "operation allreduce to 67108864 algorithm ring protocol simple channels 2 of 9 communicators 1 ranks %d nodes 1 "
		    "rank 0 count 5 bytes 335544320 sampled 1 sampled_bytes 67108864 ns 9000000 least 1 most 1\nend 1500\n",
		    host, ranks);
		one = collective_of(machine(false), &all, &answer);
		assert_int_equal(json_is_number(json_object_get(one, "predicted_us")), ranks == 4);
		json_decref(all);
	}
	snprintf(line, sizeof(line), "status %s", machine(false));
	assert_int_equal(program_run(line, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "    2 ranks    AllReduce  64 MiB  Ring/Simple, 2 channels "));
	/* Without a profile of this machine nothing is claimed. */
	assert_int_equal(program_run("status", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "nothing is predicted: "));
}

static const char *no_variable(const char *name)
{
	(void)name;
	return NULL;
}

static void a_process_that_lives_is_running(void **state)
{
	static const struct params_source nothing = { .get = no_variable };
	static struct steer_decision decision = { .comm_id = 7, .member_count = 1, .reason = "for once" };
	static struct steer_status status;
	static struct steer_setup setup;
	struct steer_process process;
	json_t *all, *jobs;
	struct diag diag;

	(void)state;
	memset(&process, 0, sizeof(process));
	steer_setup_init(&setup);
	setup.settings.job.local_rank = STEER_RANK_UNKNOWN;
	assert_int_equal(steer_registry_open(params.shared_dir, &process, &setup.registry, &diag), 0);
	steer_status_begin(&params, &nothing, &setup, &status);
	steer_status_add(&status, &setup, &decision);
	jobs = jobs_of("", &all);
	assert_int_equal(json_array_size(jobs), 1);
	assert_true(json_is_true(json_object_get(json_array_get(jobs, 0), "running")));
	assert_true(json_is_null(json_object_get(json_array_get(jobs, 0), "end_s")));
	json_decref(all);
	steer_status_end(&status, &setup);
	steer_registry_close(&setup.registry);
	jobs = jobs_of("", &all);
	assert_int_equal(json_array_size(jobs), 1);
	assert_true(json_is_false(json_object_get(json_array_get(jobs, 0), "running")));
	json_decref(all);
}

/* What a rank of the command would leave. */
#define RANK(lines)                                                                                                 \
	"mkdir -p $TRIBUTARY_STATE_DIR; printf \"process - job $_TRIBUTARY_JOB start 5 rank 0 size 1 network ours " \
	"host "                                                                                                     \
	"$(uname -n) command sh why -\\n" lines "end 6\\n\" >> $TRIBUTARY_STATE_DIR/jobs-00"

static void run_ends_with_two_lines(void **state)
{
	char text[4096];

	(void)state;
	assert_int_equal(
		program_run("run -- sh -c '" RANK(
				    "comm 1 count 3 gpus 0,1 channels 2 alone 1 several 1 why -\\n"
				    "comm 2 count 1 gpus 0 channels 0 alone 0 several 0 why first\\n"
				    "comm 2 count 2 gpus 1 channels 0 alone 0 several 0 why second\\n") "; exit 5'",
			    PROGRAM_STDERR, text, sizeof(text)),
		5);
	assert_null(strstr(text, "timed"));
	assert_non_null(strstr(text,
			       "tributary: communicators on this host: 3 with planned channels, 3 without\n"
			       "tributary: what stands in the way: second (and other reasons: tributary status)\n"));
	assert_int_equal(
		program_run("run -- sh -c '" RANK("comm 1 count 3 gpus 0,1 channels 2 alone 1 several 1 why -\\n") "'",
			    PROGRAM_STDERR, text, sizeof(text)),
		0);
	assert_non_null(strstr(text, "3 with planned channels, 0 without\n"
				     "tributary: nothing stands in the way of plans\n"));
}

static void run_says_if_what_was_timed_cannot_be_compared(void **state)
{
	char text[4096];

	(void)state;
	/* Its settings are in the environment of the command, and not in that of the job. */
	setenv("NCCL_CONF_FILE", program_put("nccl.conf", "NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\nTRIBUTARY_TIMEOUT=9\n"), 1);
	assert_int_equal(
		program_run(
			"run -- sh -c '" RANK(
				"comm 1 count 1 gpus 0,1 channels 2 alone 1 several 1 why -\\n"
				"operation allreduce to 1024 algorithm ring protocol simple channels 2 of 1 communicators 1 ranks 2 "
				"nodes 1 rank 0 count 1 bytes 1024 sampled 1 sampled_bytes 1024 ns 9000 least 1 most 1\\n") "'",
			PROGRAM_STDERR, text, sizeof(text)),
		COMMAND_OK);
	unsetenv("NCCL_CONF_FILE");
	assert_non_null(strstr(text, "tributary: collectives were timed, and nothing is predicted: "));
}

static void run_names_what_is_set(void **state)
{
	char text[4096];

	(void)state;
	setenv("NCCL_NET", "Socket", 1);
	assert_int_equal(program_run("run -- true", PROGRAM_STDERR, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "tributary: NCCL has told Tributary of no communicator on this host\n"
				     "tributary: what stands in the way: NCCL_NET=Socket "));
	unsetenv("NCCL_NET");
	assert_int_equal(program_run("run -- true", PROGRAM_STDERR, text, sizeof(text)), 0);
	assert_non_null(
		strstr(text, "what stands in the way: there is no profile")); /* and not that run sets too little */
}

static void one_rank_of_a_host_writes_the_lines(void **state)
{
	char text[4096];

	(void)state;
	setenv("WORLD_SIZE", "2", 1);
	setenv("LOCAL_WORLD_SIZE", "2", 1);
	setenv("LOCAL_RANK", "1", 1);
	assert_int_equal(program_run("run -- true", PROGRAM_STDERR, text, sizeof(text)), 0);
	assert_null(strstr(text, "communicator"));
	setenv("LOCAL_RANK", "0", 1);
	assert_int_equal(program_run("run -- true", PROGRAM_STDERR, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "communicator"));
	setenv("_TRIBUTARY_JOB", "00000000000000aa", 1); /* run by another `tributary run` */
	assert_int_equal(program_run("run -- true", PROGRAM_STDERR, text, sizeof(text)), 0);
	assert_null(strstr(text, "communicator"));
}

static void run_passes_signals_on_and_ends_alike(void **state)
{
	char text[4096];

	(void)state;
	assert_int_equal(program_run("run -- sh -c 'trap \"exit 9\" TERM; kill -TERM $PPID; while :; do :; done'",
				     PROGRAM_STDOUT, text, sizeof(text)),
			 9);
	assert_int_equal(program_run("run -- sh -c 'kill -KILL $$'; echo $?", PROGRAM_STDOUT, text, sizeof(text)), 0);
	assert_string_equal(text, "137\n");
	/* It does not outlive this one. The pipe ends when nobody has it any more. */
	assert_int_equal(program_run("run -- sh -c 'kill -KILL $PPID; while :; do :; done'; echo $?", PROGRAM_STDOUT,
				     text, sizeof(text)),
			 0);
	assert_string_equal(text, "137\n");
}

static bool has(const struct obstacle *list, size_t count, const char *name, bool total)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(list[i].name, name) && list[i].is_total == total && strpbrk(list[i].text, ";:"))
			return true;
	return false;
}

static void each_setting_in_the_way_is_found(void **state)
{
	static const struct {
		const char *name, *harmless, *harmful;
		bool total;
	} cases[] = {
		{ "NCCL_ENV_PLUGIN", "tributary", "none", true },
		{ "NCCL_NET_PLUGIN", "/opt/libnccl-net-tributary.so", "/home/tributary/libnccl-net-ofi.so", true },
		{ "NCCL_NET", "tributary", "IB", true },
		{ "NCCL_TOPO_FILE", NULL, "file", true },
		{ "NCCL_GRAPH_FILE", NULL, "file", true },
		{ "NCCL_SHM_DISABLE", "0", "1", true },
		{ "NCCL_MULTI_RANK_GPU_ENABLE", "0", "1", false },
		{ "TRIBUTARY_STEER", "full", "topology", true },
		{ "TRIBUTARY_DISABLE", "0", "1", true },
		{ "TRIBUTARY_SHARED_DIR", "/tmp", "/nonexistent", true },
	};
	struct obstacle list[OBSTACLES_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].harmless)
			setenv(cases[i].name, cases[i].harmless, 1);
		if (has(list, obstacles_find(list, NULL), cases[i].name, cases[i].total))
			fail_msg("%s=%s is harmless", cases[i].name, cases[i].harmless);
		setenv(cases[i].name, cases[i].harmful, 1);
		if (!has(list, obstacles_find(list, NULL), cases[i].name, cases[i].total))
			fail_msg("%s=%s is in the way", cases[i].name, cases[i].harmful);
		unsetenv(cases[i].name);
	}
	assert_true(has(list, obstacles_find(list, NULL), "NCCL_ENV_PLUGIN", true)); /* nothing names it */
	assert_true(has(list, obstacles_find(list, NULL), "profile", true));
	setenv("TRIBUTARY_LOCAL_PROCESSES", "4", 1);
	assert_false(has(list, obstacles_find(list, NULL), "launcher", false));
	unsetenv("TRIBUTARY_LOCAL_PROCESSES");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_said_plainly, begin),
		cmocka_unit_test_setup(jobs_that_began_together_are_answered_for_together, begin),
		cmocka_unit_test_setup(processes_of_a_job_are_one, begin),
		cmocka_unit_test_setup(a_process_that_lives_is_running, begin),
		cmocka_unit_test_setup(what_was_measured_stands_beside_what_was_predicted, begin),
		cmocka_unit_test_setup(another_choice_is_named_if_its_time_is_the_models, begin),
		cmocka_unit_test_setup(run_ends_with_two_lines, begin),
		cmocka_unit_test_setup(run_says_if_what_was_timed_cannot_be_compared, begin),
		cmocka_unit_test_setup(run_names_what_is_set, begin),
		cmocka_unit_test_setup(one_rank_of_a_host_writes_the_lines, begin),
		cmocka_unit_test_setup(run_passes_signals_on_and_ends_alike, begin),
		cmocka_unit_test_setup(each_setting_in_the_way_is_found, begin),
	};

	return cmocka_run_group_tests_name("status", tests, program_find, NULL);
}
