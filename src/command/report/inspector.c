/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of NCCL Inspector, the profiler plugin that comes with NCCL (2.28.9: ext-profiler/inspector, its README): JSON
 * lines, one for each collective of a rank: {"header": ..., "metadata": ..., "coll_perf": ...}. A line with something else in its place ("p2p_perf") is
 * counted.
 */
#include "command/report/report.h"
#include "command/report/stream.h"

#include "base/log.h"
#include "command/json.h"

#include <errno.h>
#include <string.h>

static void forget(struct report_inspector *inspector)
{
	json_decref(inspector->header);
	json_decref(inspector->metadata);
	json_decref(inspector->performance);
	inspector->header = inspector->metadata = inspector->performance = NULL;
	inspector->other[0] = '\0';
}

void report_inspector_fini(struct report_inspector *inspector)
{
	forget(inspector);
}

static json_int_t count_of(const json_t *of, const char *key)
{
	const json_t *value = json_object_get(of, key);

	return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
}

static int take_line(const struct report_inspector *inspector, struct report *report, const struct report_piece *piece,
		     struct diag *diag)
{
	const json_t *performance = inspector->performance, *header = inspector->header;
	const char *id = json_text_of(header, "id"), *name = json_text_of(header, "comm_name"),
		   *collective = json_text_of(performance, "coll"),
		   *clock = json_text_of(performance, "coll_timing_source");
	json_int_t rank = count_of(header, "rank"), ranks = count_of(header, "n_ranks"),
		   bytes = count_of(performance, "coll_msg_size_bytes"),
		   time_us = count_of(performance, "coll_exec_time_us");
	struct report_member member = { .number = rank };
	struct report_kernel kernel = { .collective = report_collective_of(collective) };
	char shown[REPORT_NAME_BYTES];
	int r;

	if (!*id || !*collective || rank < 0 || ranks < 1 || ranks > UINT32_MAX || bytes < 0 || time_us < 0 ||
	    bytes > INT64_MAX / ranks || time_us > INT64_MAX / 1000) {
		diag_set(diag, piece->line, 0,
			 "a collective of NCCL Inspector needs header.id, .rank, .n_ranks and coll_perf.coll, "
			 ".coll_msg_size_bytes, .coll_exec_time_us");
		return -EINVAL;
	}
	/* It says what a rank gives to AllGather, and gets of ReduceScatter: its larger buffer holds that of every rank. */
	kernel.bytes = (uint64_t)bytes;
	if (kernel.collective == REPORT_ALLGATHER || kernel.collective == REPORT_REDUCESCATTER)
		kernel.bytes *= (uint64_t)ranks;
	kernel.end_ns = time_us * 1000;
	kernel.ranks = (uint32_t)ranks;
	kernel.is_untimed = *clock && strcmp(clock, "kernel_gpu") != 0;
	report->not_by_gpu += kernel.is_untimed;
	snprintf(member.name, sizeof(member.name), "rank %lld", (long long)rank);
	snprintf(member.host, sizeof(member.host), "%s", json_text_of(inspector->metadata, "hostname"));
	if (*name && strcmp(name, "unknown") != 0)
		snprintf(shown, sizeof(shown), "%.40s (%.40s)", name, id);
	else
		snprintf(shown, sizeof(shown), "communicator %.40s", id);
	r = report_group_of(report, id, shown, &kernel.group);
	return r < 0 ? r : report_add_collective(report, &member, &kernel);
}

int report_inspector_take(struct report_inspector *inspector, struct report *report, const struct report_piece *piece,
			  struct diag *diag)
{
	json_t **room = !strcmp(piece->key, "header")     ? &inspector->header
			: !strcmp(piece->key, "metadata") ? &inspector->metadata
							  : &inspector->performance;
	bool is_other = room == &inspector->performance && strcmp(piece->key, "coll_perf") != 0;
	json_error_t error;
	int r = 0;

	if (piece->kind == REPORT_VALUE && !is_other) {
		json_decref(*room);
		*room = json_loadb(piece->text, piece->bytes, JSON_DECODE_ANY, &error);
		if (!*room)
			diag_set(diag, piece->line, piece->column, "%s", error.text);
		return *room ? 0 : -EINVAL;
	}
	if (piece->kind == REPORT_VALUE && !inspector->other[0])
		snprintf(inspector->other, sizeof(inspector->other), "%s", piece->key);
	if (piece->kind != REPORT_END)
		return 0;
	if (inspector->performance) {
		inspector->lines++;
		r = take_line(inspector, report, piece, diag);
	} else if (inspector->header) {
		if (!inspector->left_out++)
			snprintf(inspector->left_out_key, sizeof(inspector->left_out_key), "%s", inspector->other);
		inspector->left_out_several |= strcmp(inspector->left_out_key, inspector->other) != 0;
	}
	forget(inspector);
	return r;
}
