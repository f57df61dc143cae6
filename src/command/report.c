/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary report`: what communication costs a job, from what a profiler wrote. */
#include "command/command.h"

#include "command/json.h"
#include "command/report/report.h"

static int print(const struct command_call *call, const struct report *report, FILE *out)
{
	if (report->has_traces && report->has_inspector)
		return command_usage_error("report", "give traces or files of NCCL Inspector, not both at once");
	if (command_given(call, "json"))
		return json_print("tributary-report 1", report_json(report), out);
	report_print(report, out);
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	struct report report = { .rank_count = 0 };
	int status = COMMAND_OK;

	for (char **path = call->rest; *path && status == COMMAND_OK; path++)
		status = report_read(&report, *path);
	if (status == COMMAND_OK) {
		report_finish(&report);
		status = print(call, &report, out);
	}
	report_fini(&report);
	return status;
}

const struct command command_report = {
	.name = "report",
	.group = COMMAND_JOBS,
	.operands = "FILE...",
	.help = "how much of a step communication takes, from a profiler's files",
	.about =
		"FILE is a trace of PyTorch's profiler (export_chrome_trace, also .gz; one of each rank), or a file of "
		"NCCL Inspector (NCCL_INSPECTOR_DUMP_DIR). Exposed communication is the time in which a kernel of NCCL "
		"runs on a GPU and no other kernel does, over all its streams, as MAD-Max has it; copies are no computing. "
		"Steps are ProfilerStep#N. For each collective and size: how often, how long, how fast; and which rank the "
		"others wait for, where all have the same to do. Events are read one by one, so a trace may be larger than "
		"memory.",
	.options = { COMMAND_OPTION_JSON },
	.example = "tributary report rank0.json.gz rank1.json.gz",
	.run = run,
};
