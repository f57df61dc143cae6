/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tributary run -- COMMAND`: the command, in the environment that `tributary env` prints, and two lines about what became
 * of its communicators. This process stays to write them: it passes signals on and ends as the command ends.
 */
#include "command/conf.h"
#include "command/env.h"
#include "command/jobs.h"
#include "command/obstacles.h"
#include "command/status/measured.h"

#include "base/clock.h"
#include "base/params.h"
#include "base/sys.h"
#include "plugin/steer/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_NOT_RUN = 126, STATUS_NOT_FOUND = 127 }; /* a shell's own */

/* ------------------------------------------------------------------------------------------------------------- the job */

/*
 * The name by which this command's processes are one job: of all that a launcher started on this host, or of this command
 * alone. False: another `tributary run` of the same job will write the lines.
 */
static bool name_job(char id[static 17])
{
	const struct params_source environment = params_from_environment();
	struct steer_settings settings;
	bool is_launched;

	if (getenv(STEER_JOB_VARIABLE))
		return false;
	steer_settings_read(&environment, "", 0, &settings);
	is_launched = settings.job.local_rank != STEER_RANK_UNKNOWN;
	if (is_launched)
		snprintf(id, 17, "%016" PRIx64, settings.job.key);
	else
		snprintf(id, 17, "%08x%08x", (unsigned)getpid(), (unsigned)clock_now_ns());
	return setenv(STEER_JOB_VARIABLE, id, 1) == 0 && (!is_launched || !settings.job.local_rank);
}

/* What the processes of one `tributary run` told on this host: NCCL programs may have run one after another. */
struct outcome {
	bool is_known;
	uint64_t planned, searched;
	const struct job_comm *main; /* the most frequent reason */
	bool has_others;
	const char *why; /* that holds for a process; NULL */
};

static void add_reasons(const struct job *job, struct outcome *outcome)
{
	for (size_t i = 0; i < job->comm_count; i++) {
		const struct job_comm *comm = &job->comms[i];

		if (!comm->why[0])
			continue;
		outcome->has_others |= outcome->main && strcmp(outcome->main->why, comm->why) != 0;
		if (!outcome->main || comm->count > outcome->main->count)
			outcome->main = comm;
	}
}

static struct outcome outcome_of(const struct jobs *jobs, const char *id)
{
	struct outcome outcome = { .why = NULL };
	char host[JOB_WORD_BYTES] = "";

	(void)gethostname(host, sizeof(host) - 1);
	for (size_t i = 0; i < jobs->count; i++) {
		const struct job *job = &jobs->at[i];

		if (strcmp(job->process.job, id) != 0 || strcmp(job->process.host, host) != 0)
			continue;
		outcome.is_known = true;
		outcome.planned += jobs_count(job, true);
		outcome.searched += jobs_count(job, false);
		outcome.why = job->process.why[0] ? job->process.why : outcome.why;
		add_reasons(job, &outcome);
	}
	return outcome;
}

/* A line of the collective that lost most time to its prediction. */
static void tell_measured(const struct jobs *jobs, const char *id)
{
	struct answer line = { .text = "" };
	struct expect *expect = NULL;

	for (size_t i = 0; i < jobs->count && !line.text[0]; i++) {
		const struct measured_row *worst;
		struct measured measured;

		if (strcmp(jobs->at[i].process.job, id) != 0 || !measured_has_times(&jobs->at[i]))
			continue;
		expect = expect ? expect : expect_open(NULL, NULL);
		if (!expect || measured_make(&jobs->at[i], jobs, expect, &measured) < 0)
			break;
		worst = measured_worst(&measured);
		if (measured.why_not)
			answer_add(&line, "collectives were timed, and nothing is predicted: %s", measured.why_not);
		else if (worst)
			measured_answer(worst, &line);
		measured_fini(&measured);
	}
	if (line.text[0])
		command_say("%s", line.text);
	expect_close(expect);
}

static void tell(const struct params *params, const char *id, const struct obstacle *obstacle)
{
	const char *way = obstacle ? obstacle->text : "the command used no NCCL, or one before 2.28.7";
	const char *others = "";
	struct outcome outcome;
	struct jobs jobs;

	(void)jobs_read(params, &jobs);
	outcome = outcome_of(&jobs, id);
	if (outcome.main)
		way = outcome.main->why;
	else if (outcome.is_known)
		way = outcome.why;
	if (outcome.has_others)
		others = " (and other reasons: tributary status)";
	if (outcome.is_known)
		command_say("communicators on this host: %" PRIu64 " with planned channels, %" PRIu64 " without",
			    outcome.planned, outcome.searched);
	else
		command_say("NCCL has told Tributary of no communicator on this host");
	if (way)
		command_say("what stands in the way: %s%s", way, others);
	else
		command_say("nothing stands in the way of plans");
	tell_measured(&jobs, id);
	jobs_fini(&jobs);
}

/* --------------------------------------------------------------------------------------------------------- the command */

/* In the child. The end of a pipe that exec closes is written to only if there was none. */
static void become(char **words, const sigset_t *mask, pid_t parent, int failed)
{
	int error;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(STATUS_NOT_RUN);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(words[0], words);
	error = errno;
	(void)command_failed(NULL, error, "%s cannot be run", words[0]);
	if (write(failed, &error, sizeof(error)) < 0)
		_exit(STATUS_NOT_RUN);
	_exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN);
}

/* Passes on what is sent to this process alone: a terminal's signals reach the command by themselves. */
static int wait_for(pid_t child, const sigset_t *signals)
{
	int status = 0;
	siginfo_t info;

	for (;;) {
		pid_t ended = waitpid(child, &status, WNOHANG);

		if (ended == child || (ended < 0 && errno != EINTR))
			return status;
		if (sigwaitinfo(signals, &info) > 0 && info.si_signo != SIGCHLD && info.si_code != SI_KERNEL)
			kill(child, info.si_signo);
	}
}

/* By the same signal as the command, without a second core file. */
static void end_by(int number)
{
	sigset_t only;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
	signal(number, SIG_DFL);
	sigemptyset(&only);
	sigaddset(&only, number);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	raise(number);
}

static int run_and_tell(const struct command_call *call, const struct params *params, const char *id,
			const struct obstacle *obstacle)
{
	static const int passed_on[] = {
		SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT
	};
	int failed[2], error, status;
	sigset_t signals, before;
	pid_t child, self = getpid();

	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(&signals, passed_on[i]);
	signal(SIGCHLD, SIG_DFL); /* else nothing could be waited for */
	sigprocmask(SIG_BLOCK, &signals, &before);
	if (pipe2(failed, O_CLOEXEC) < 0)
		return command_failed(NULL, errno, "%s cannot be run", call->rest[0]);
	child = fork();
	if (child == 0)
		become(call->rest, &before, self, failed[1]);
	sys_close(&failed[1]);
	if (child < 0) {
		sys_close(&failed[0]);
		return command_failed(NULL, errno, "%s cannot be run", call->rest[0]);
	}
	status = wait_for(child, &signals);
	if (read(failed[0], &error, sizeof(error)) == 0)
		tell(params, id, obstacle);
	sys_close(&failed[0]);
	if (WIFSIGNALED(status))
		end_by(WTERMSIG(status));
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* What `tributary run` itself does not put right. */
static const struct obstacle *find_obstacle(struct obstacle list[static OBSTACLES_MAX], struct params *params)
{
	size_t count = obstacles_find(list, params);

	for (size_t i = 0; i < count; i++)
		if (list[i].is_total && (list[i].is_set || strcmp(list[i].name, "NCCL_ENV_PLUGIN") != 0))
			return &list[i];
	return NULL;
}

static int run(const struct command_call *call, FILE *out)
{
	struct obstacle obstacles[OBSTACLES_MAX];
	const struct obstacle *obstacle;
	struct params params;
	struct env env;
	char id[17];
	int status = env_make(call, &env);

	if (status != COMMAND_OK)
		return status;
	env_explain(&env, "tributary: ", stderr);
	obstacle = find_obstacle(obstacles, &params);
	conf_unload(); /* NCCL reads the files itself */
	for (size_t i = 0; i < env.count; i++)
		if (setenv(env.variables[i].name, env.variables[i].value, 1) < 0)
			return command_failed(NULL, errno, "%s cannot be set", env.variables[i].name);
	fflush(out);
	if (name_job(id))
		return run_and_tell(call, &params, id, obstacle);
	execvp(call->rest[0], call->rest);
	status = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN;
	(void)command_failed(NULL, errno, "%s cannot be run", call->rest[0]);
	return status;
}

const struct command command_run = {
	.name = "run",
	.group = COMMAND_JOBS,
	.operands = "COMMAND...",
	.help = "run a command with what NCCL needs to use the plugin",
	.about =
		"Sets what `tributary env` prints and runs the command: tributary run -- torchrun --nproc-per-node 8 "
		"train.py. Options of the command's own come after --. At the end it says on standard error how many "
		"communicators had planned channels, and what stood in the way of the others; with TRIBUTARY_PROFILER=time also "
		"which collective lost most time to its prediction, and why. `tributary status` has more. Launchers that start processes on other hosts do not all pass the environment on: run it there, "
		"or mpirun -x.",
	.options = { ENV_OPTION_COLLNET, ENV_OPTION_TUNING },
	.example = "tributary run -- torchrun --nproc_per_node=4 train.py",
	.run = run,
};
