/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tributary bench`: the options are here, the rest is Python, which users of NCCL have anyway: perf/bench in the source, and
 * share/tributary/bench where this is installed.
 */
#include "command/command.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAIN_FILE "bench.py"

/* The folder of the program, and that of the Python. False: there is none. */
static bool find_files(char program[static PATH_MAX], char file[static PATH_MAX])
{
	static const char *const places[] = { "../share/tributary/bench", "../perf/bench", "../../perf/bench" };
	ssize_t bytes = readlink("/proc/self/exe", program, PATH_MAX - 1);
	char *end;

	program[bytes > 0 ? bytes : 0] = '\0';
	end = strrchr(program, '/');
	for (size_t i = 0; end && i < sizeof(places) / sizeof(places[0]); i++) {
		int length = snprintf(file, PATH_MAX, "%.*s/%s/" MAIN_FILE, (int)(end - program), program, places[i]);

		if (length < PATH_MAX && access(file, R_OK) == 0)
			return true;
	}
	return false;
}

/* "--name=value" of what was given; the caller frees it. NULL: no memory. */
static char *option_word(const char *name, const char *value)
{
	size_t bytes = strlen(name) + strlen(value) + sizeof("--=");
	char *word = malloc(bytes);

	if (word)
		snprintf(word, bytes, *value ? "--%s=%s" : "--%s", name, value);
	return word;
}

static int become_python(const struct command_call *call, char *program, char *file)
{
	enum { BEFORE = 3 };
	size_t count = options_count(call->command->options), rest = 0, end = BEFORE;
	char **words;
	int error;

	while (call->rest && call->rest[rest])
		rest++;
	words = calloc(BEFORE + 1 + count + 1 + rest + 1, sizeof(*words));
	if (!words)
		return command_failed(NULL, ENOMEM, "python3 cannot be run");
	words[0] = (char[]){ "python3" };
	words[1] = (char[]){ "-B" }; /* nothing is written beside the files */
	words[2] = file;
	words[end++] = option_word("program", program);
	for (size_t i = 0; i < count; i++) {
		const char *name = call->command->options[i].name, *value = command_value(call, name);

		if (value)
			words[end++] = option_word(name, value);
	}
	words[end] = (char[]){ "--" };
	for (size_t i = 0; i < rest; i++)
		words[end + 1 + i] = call->rest[i];
	execvp(words[0], words);
	error = errno;
	for (size_t i = BEFORE; i < end; i++)
		free(words[i]);
	free(words);
	return command_failed(NULL, error, "python3 cannot be run, and `tributary bench` needs it, 3.8 or newer");
}

static int run(const struct command_call *call, FILE *out)
{
	char program[PATH_MAX], file[PATH_MAX];

	if (!find_files(program, file))
		return command_failed(NULL, 0,
				      MAIN_FILE
				      " is neither in ../share/tributary/bench nor in ../perf/bench, seen from "
				      "this program's folder: install it again");
	fflush(out);
	return become_python(call, program, file);
}

const struct command command_bench = {
	.name = "bench",
	.group = COMMAND_JOBS,
	.operands = "[COMMAND...]",
	.help = "compare with and without Tributary, in turns: one sentence says what it brings",
	.about =
		"The words after -- start the ranks: tributary bench -- torchrun --nproc-per-node 8; -- srun -N4 "
		"--ntasks-per-node 8; -- mpirun -np 32 -hostfile hosts. Without them it is this machine's GPUs alone. With torchrun on "
		"several hosts give the same line on each; the figures are where rank 0 is. Results are checked.\n"
		"A difference counts if it is above 5 %, or 10 % on emulated hosts, and its 95 % interval leaves out 1. NCCL's log must show that Tributary "
		"was there in one turn, and not in the other.\n"
		"With --job or --metric the words are a job of your own: tributary bench --metric 'step_ms=([0-9.]+)' -- torchrun "
		"train.py.\n"
		"Without NCCL, in a build of the source, plugins are compared, as on the emulated hosts of tests/testbed: "
		"tributary bench -- tests/testbed/testbed run tests/testbed/two-leaves-narrow.bed --.\n"
		"The exit status is 3 when something is slower, 1 when something failed or a result was wrong.",
	.options = { { "worker", "auto|nccl-tests|torch|plugins",
		       "what the ranks run; auto: the first of these that is here, and no nccl-tests under torchrun",
		       "auto" },
		     { "nccl-tests", "FOLDER", "where all_reduce_perf and the others are; without it in PATH", NULL },
		     { "operations", "LIST", "some of all_reduce,all_gather,reduce_scatter,all_to_all,sendrecv", NULL },
		     { "sizes", "FROM-TO", "as 1K-64M, each four times the one before", NULL },
		     { "turns", "N", "on each side, 6 at least: 11, of nccl-tests and jobs 7", NULL },
		     { "seconds", "SECONDS", "for all figures together, of torch and plugins", "90" },
		     { "timeout", "SECONDS", "for one start of the launcher: 600, of a job 3600", NULL },
		     { "ranks", "N", "how many on this machine, without a launcher", NULL },
		     { "mps", NULL, "ranks that share one GPU run side by side, by MPS", NULL },
		     { "job", NULL, "the words after -- are a job of your own: its wall time", NULL },
		     { "metric", "REGEX", "the same, and what it prints of itself: the number in the first group",
		       NULL },
		     { "higher", NULL, "more of the metric is better, as tokens per second", NULL },
		     { "csv", NULL, "print comma-separated values", NULL },
		     { "report", "FILE",
		       "write a file to send in: all values, versions, this machine, the settings but for secrets",
		       NULL },
		     COMMAND_OPTION_JSON },
	.example = "tributary bench -- torchrun --nproc_per_node=4",
	.run = run,
};
