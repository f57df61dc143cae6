/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary report`: what communication costs a job, from what a profiler wrote. */
#include "command/command.h"

#include "command/file.h"
#include "command/json.h"
#include "command/report/report.h"
#include "command/show/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int draw_page(const void *arg, FILE *to)
{
	page_begin("report", to);
	return page_end("tributary-report 1", report_json(arg), to);
}

static int print(const struct command_call *call, const struct report *report, FILE *out)
{
	const char *page = command_value(call, "html");
	int status = COMMAND_OK;

	if (page)
		status = file_put_made(page, "the page cannot be drawn", draw_page, report, out);
	if (status == COMMAND_OK && command_given(call, "json"))
		return json_print("tributary-report 1", report_json(report), out);
	if (status == COMMAND_OK && !page)
		report_print(report, out);
	return status;
}

static int finish(struct report *report)
{
	if (report->has_traces && report->has_inspector)
		return command_usage_error("report", "give traces or files of NCCL Inspector, not both at once");
	/* All that there was has been left out, and said so. */
	if (!report->has_traces && !report->has_inspector)
		return COMMAND_FAILED;
	report_finish(report);
	return COMMAND_OK;
}

/* files: of --before, with commas between them; they are cut apart. */
static int read_before(char *files, struct report *report)
{
	int status = COMMAND_OK;
	char *rest;

	for (char *path = strtok_r(files, ",", &rest); path && status == COMMAND_OK; path = strtok_r(NULL, ",", &rest))
		status = report_read(report, path);
	return status == COMMAND_OK ? finish(report) : status;
}

static int compare(const char *list, struct report *before, struct report *report)
{
	char *files = strdup(list);
	int status;

	if (!files)
		return command_failed(NULL, ENOMEM, "\"%s\" cannot be read", list);
	status = read_before(files, before);
	free(files);
	if (status != COMMAND_OK)
		return status;
	if (report_step_ns(before) <= 0 || report_step_ns(report) <= 0)
		return command_failed(NULL, 0,
				      "--before compares steps, and the files %s have none: give traces in which "
				      "prof.step() marks them",
				      report_step_ns(before) > 0 ? "of now" : "before");
	report->before = before;
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	struct report report = { .rank_count = 0 }, before = { .rank_count = 0 };
	const char *list = command_value(call, "before");
	int status = COMMAND_OK;

	for (char **path = call->rest; *path && status == COMMAND_OK; path++)
		status = report_read(&report, *path);
	if (status == COMMAND_OK)
		status = finish(&report);
	if (status == COMMAND_OK && list)
		status = compare(list, &before, &report);
	if (status == COMMAND_OK)
		status = print(call, &report, out);
	report_fini(&before);
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
	.options = { { "before", "FILE[,FILE]", "traces of the same job before a change: what its steps gain", NULL },
		     { "html", "FILE", "one page: what the steps of each rank consist of, beside those before", NULL },
		     COMMAND_OPTION_JSON },
	.example = "tributary report rank0.json.gz rank1.json.gz",
	.run = run,
};
