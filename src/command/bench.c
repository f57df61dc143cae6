/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary bench`: the options; the rest is perf/bench/bench.py. */
#include "command/command.h"

#include "command/env.h"
#include "command/file.h"
#include "command/python.h"
#include "command/show/page.h"

#include <errno.h>
#include <string.h>

/* The page, in which bench.py puts its JSON in the place of this; without a name, for as long as this process lives. */
static int make_page(char *path, size_t path_bytes)
{
	FILE *page = tmpfile();
	int r;

	if (!page)
		return command_failed(NULL, errno, "the page cannot be drawn");
	page_begin("bench", page);
	r = page_end("tributary-bench 1", json_object(), page);
	if (r < 0 || fflush(page) != 0)
		return command_failed(NULL, r < 0 ? -r : errno, "the page cannot be drawn");
	snprintf(path, path_bytes, "/dev/fd/%d", fileno(page));
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	const char *html = command_value(call, "html");
	char page[32] = "";
	int status = COMMAND_OK;

	if (html && !strcmp(html, "-"))
		return command_usage_error("bench", "--html is \"-\", expected a file");
	if (html)
		status = file_check_put(html);
	if (html && status == COMMAND_OK)
		status = make_page(page, sizeof(page));
	return status == COMMAND_OK ? python_become(call, "bench.py", html ? page : NULL, out) : status;
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
		"Without NCCL the plugin is compared with one that moves messages as NCCL's sockets do. testbed, which comes with "
		"this command and needs iproute2 and ethtool, emulates hosts: tributary bench -- testbed run "
		"two-leaves-narrow.bed --.\n"
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
		     ENV_OPTION_TUNING,
		     { "mps", NULL, "ranks that share one GPU run side by side, by MPS", NULL },
		     { "job", NULL, "the words after -- are a job of your own: its wall time", NULL },
		     { "metric", "REGEX", "the same, and what it prints of itself: the number in the first group",
		       NULL },
		     { "higher", NULL, "more of the metric is better, as tokens per second", NULL },
		     { "html", "FILE", "one page: the times of each size without and with Tributary", NULL },
		     { "csv", NULL, "print comma-separated values", NULL },
		     { "report", "FILE",
		       "write a file to send in: all values, versions, the settings but for secrets, this machine "
		       "with its name and addresses",
		       NULL },
		     COMMAND_OPTION_JSON },
	.example = "tributary bench -- torchrun --nproc_per_node=4",
	.run = run,
};
