/* SPDX-License-Identifier: Apache-2.0 */
/* A file, of whatever kind it is, into a report. */
#include "command/report/report.h"
#include "command/report/stream.h"

#include "base/log.h"
#include "base/sys.h"
#include "command/command.h"
#include "command/file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int failed(const char *path, struct diag *diag, int r)
{
	if (r == -EPIPE)
		strncat(diag->text,
			"; the profiler did not finish writing it, or it was not copied whole: let the job write it again",
			sizeof(diag->text) - strlen(diag->text) - 1);
	return r == -EINVAL || r == -EPIPE ? command_failed(diag, 0, "\"%s\" cannot be read", path)
					   : file_unreadable(path, r, NULL);
}

static int take_all(struct report *report, struct report_stream *stream, struct report_trace *trace,
		    struct report_inspector *inspector, struct diag *diag)
{
	struct report_piece piece;
	int r;

	do {
		r = report_stream_next(stream, &piece, diag);
		if (!r)
			r = report_trace_take(trace, report, &piece, diag);
		if (!r)
			r = report_inspector_take(inspector, report, &piece, diag);
	} while (!r && piece.kind != REPORT_FINISHED);
	return r;
}

/* The name of a file without its folder. */
static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static int add_lane(struct report *report, const char *path, const struct report_trace *trace, struct report_lane *lane)
{
	struct report_rank rank = { .number = trace->rank };
	char device[32] = "";

	if (trace->lane_count > 1)
		snprintf(device, sizeof(device), " GPU %" PRId64, lane->device);
	if (trace->rank >= 0)
		snprintf(rank.name, sizeof(rank.name), "rank %" PRId64 "%s", trace->rank, device);
	else
		snprintf(rank.name, sizeof(rank.name), "%.60s%s", base_of(path), device);
	for (size_t i = 0; i < report->rank_count; i++)
		if (!strcmp(report->ranks[i].name, rank.name))
			return command_failed(
				NULL, 0, "\"%s\" is a second trace of %s: give one of each rank, of the same steps",
				path, rank.name);
	/* The CPU's steps are for where the GPU has none. */
	for (size_t i = 0; i < trace->step_count; i++) {
		if (sys_grow(&lane->steps, lane->step_count, 1, sizeof(*lane->steps)) < 0)
			return file_unreadable(path, -ENOMEM, NULL);
		lane->steps[lane->step_count++] = trace->steps[i];
	}
	if (report_add_lane(report, &rank, lane) < 0)
		return file_unreadable(path, -ENOMEM, NULL);
	report->has_traces = true;
	return COMMAND_OK;
}

static int add_trace(struct report *report, const char *path, struct report_trace *trace)
{
	int status = COMMAND_OK;

	for (size_t i = 0; i < trace->lane_count && status == COMMAND_OK; i++)
		if (trace->lanes[i].kernel_count)
			status = add_lane(report, path, trace, &trace->lanes[i]);
	return status;
}

static bool has_kernels(const struct report_trace *trace)
{
	for (size_t i = 0; i < trace->lane_count; i++)
		if (trace->lanes[i].kernel_count)
			return true;
	return false;
}

static void say_left_out(const char *path, const struct report_inspector *inspector)
{
	char kind[64 + 32] = "nothing but a header";

	if (!inspector->left_out)
		return;
	if (inspector->left_out_key[0])
		snprintf(kind, sizeof(kind), "\"%s\"%s", inspector->left_out_key,
			 inspector->left_out_several ? " and other things" : "");
	command_say("\"%s\": %" PRIu64 " of %" PRIu64
		    " records of NCCL Inspector %s left out: %s %s in place of \"coll_perf\", and only collectives are "
		    "read",
		    path, inspector->left_out, inspector->left_out + inspector->lines,
		    inspector->left_out == 1 ? "is" : "are", inspector->left_out == 1 ? "it has" : "they have", kind);
}

int report_read(struct report *report, const char *path)
{
	struct report_inspector inspector = { .lines = 0 };
	struct report_trace trace = { .rank = -1 };
	struct report_stream *stream;
	struct diag diag = { 0 };
	int r = report_stream_open(path, &stream, &diag), status = COMMAND_OK;

	if (r < 0)
		return failed(path, &diag, r);
	r = take_all(report, stream, &trace, &inspector, &diag);
	report_stream_close(stream);
	report->has_inspector |= inspector.lines > 0;
	if (r == 0 || r == -EPIPE)
		say_left_out(path, &inspector);
	if (r == -EPIPE && inspector.lines) /* as a job that was ended leaves it */
		command_warn(&diag, "\"%s\": the last line is left out", path);
	else if (r < 0)
		status = failed(path, &diag, r);
	else if (has_kernels(&trace))
		status = add_trace(report, path, &trace);
	else if (!inspector.lines && !inspector.left_out)
		status = command_failed(
			NULL, 0,
			"\"%s\" has no kernels of a GPU and no collectives of NCCL Inspector: give what PyTorch's "
			"profiler exports with ProfilerActivity.CUDA, or the files of NCCL_INSPECTOR_DUMP_DIR",
			path);
	report_trace_fini(&trace);
	report_inspector_fini(&inspector);
	return status;
}
