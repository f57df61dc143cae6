/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a trace of PyTorch's profiler (Kineto, Chrome's JSON) that matter here: kernels, and where steps begin. */
#include "command/report/report.h"
#include "command/report/stream.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/sys.h"
#include "command/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STEP         "ProfilerStep#"
/* A kernel's category, and that of old versions, "Kernel"; also the end of names like cudaLaunchKernel, which do no harm. */
#define KERNEL       "ernel\""
/* In ns, of either sign: far beyond any clock, and no sum of two overflows. */
#define TIME_MOST_US 4e15

void report_trace_fini(struct report_trace *trace)
{
	for (size_t i = 0; i < trace->lane_count; i++) {
		sys_free(trace->lanes[i].kernels);
		sys_free(trace->lanes[i].steps);
	}
	sys_free(trace->lanes);
	sys_free(trace->steps);
	*trace = (struct report_trace){ .rank = -1 };
}

static int complain(const struct report_piece *piece, struct diag *diag, const char *what)
{
	diag_set(diag, piece->line, piece->column, "%s", what);
	return -EINVAL;
}

/* -------------------------------------------------------------------------------------------------------------- values */

/* Whole, from 0, as number or as text; -1: it is not there. */
static int64_t count_of(const json_t *of, const char *key)
{
	const json_t *value = json_object_get(of, key);
	uint64_t number;

	if (json_is_integer(value))
		return json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
	return parse_u64(json_text_of(of, key), 0, INT64_MAX, &number) == 0 ? (int64_t)number : -1;
}

/* In two parts: old traces count from 1970, and a double has no ns then. */
static int64_t to_ns(double time_us)
{
	double whole = floor(time_us);

	return (int64_t)whole * 1000 + (int64_t)llround((time_us - whole) * 1e3);
}

static bool times_of(const json_t *event, int64_t *ret_start_ns, int64_t *ret_end_ns)
{
	const json_t *start = json_object_get(event, "ts"), *duration = json_object_get(event, "dur");
	double start_us = json_number_value(start), duration_us = json_number_value(duration);

	if (!json_is_number(start) || !json_is_number(duration) || fabs(start_us) > TIME_MOST_US || duration_us < 0 ||
	    duration_us > TIME_MOST_US)
		return false;
	*ret_start_ns = to_ns(start_us);
	*ret_end_ns = *ret_start_ns + to_ns(duration_us);
	return true;
}

/* Of an element, by PyTorch's word for its type; 0: not known. */
static uint64_t element_bytes(const char *type)
{
	static const struct {
		const char *word;
		uint64_t bytes;
	} types[] = { { "Float8", 1 },   { "Byte", 1 },   { "Char", 1 },         { "Bool", 1 },
		      { "BFloat16", 2 }, { "Half", 2 },   { "Short", 2 },        { "Float", 4 },
		      { "Int", 4 },      { "Long", 8 },   { "Double", 8 },       { "UInt16", 2 },
		      { "UInt32", 4 },   { "UInt64", 8 }, { "ComplexFloat", 8 }, { "ComplexDouble", 16 } };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strncmp(type, types[i].word, strlen(types[i].word)) && (!i || !type[strlen(types[i].word)]))
			return types[i].bytes;
	return 0;
}

/* -------------------------------------------------------------------------------------------------------------- events */

static struct report_lane *lane_of(struct report_trace *trace, int64_t device)
{
	for (size_t i = 0; i < trace->lane_count; i++)
		if (trace->lanes[i].device == device)
			return &trace->lanes[i];
	if (sys_grow(&trace->lanes, trace->lane_count, 1, sizeof(*trace->lanes)) < 0)
		return NULL;
	trace->lanes[trace->lane_count].device = device;
	return &trace->lanes[trace->lane_count++];
}

/* Of the device, or of the process whose name stands for it. */
static int64_t device_of(const json_t *event)
{
	int64_t device = count_of(json_object_get(event, "args"), "device");

	return device >= 0 ? device : count_of(event, "pid");
}

/* The process group, if it is said: by name and ranks, as other groups of the job may have the same name. */
static int group_of(struct report *report, const json_t *args, uint32_t *ret)
{
	json_t *ranks = json_object_get(args, "Process Group Ranks");
	const char *name = json_text_of(args, "Process Group Name"),
		   *words = json_text_of(args, "Process Group Description");
	char *list = json_dumps(ranks, JSON_ENCODE_ANY | JSON_COMPACT), *key = NULL, shown[REPORT_NAME_BYTES];
	int r = 0;

	if (*name && list && asprintf(&key, "%s %s", name, list) < 0) {
		key = NULL;
		r = -ENOMEM;
	}
	snprintf(shown, sizeof(shown), "process group %.32s%s%.32s", name, *words ? ", " : "", words);
	if (!r)
		r = report_group_of(report, key ? key : "", shown, ret);
	free(list);
	free(key);
	return r;
}

/* What NCCL's kernels are called: ncclDevKernel_..., ncclKernel_..., rcclGenericKernel<...>(ncclDevKernelArgs...). */
static bool is_communication(const char *name)
{
	return strcasestr(name, "nccl") && strcasestr(name, "kernel");
}

static int describe(struct report *report, const json_t *event, struct report_kernel *ret)
{
	const json_t *args = json_object_get(event, "args");
	const char *collective = json_text_of(args, "Collective name");
	int64_t in = count_of(args, "In msg nelems"), out = count_of(args, "Out msg nelems"),
		ranks = count_of(args, "Group size"), most = in > out ? in : out;

	ret->collective = report_collective_of(json_text_of(event, "name"));
	/* A kernel that sends is part of what PyTorch calls AlltoAll, and generic ones have no other name. */
	if (*collective && ret->collective >= REPORT_SENDRECV)
		ret->collective = report_collective_of(collective);
	if (most > 0 && (uint64_t)most < UINT64_C(1) << 56)
		ret->bytes = (uint64_t)most * element_bytes(json_text_of(args, "dtype"));
	ret->ranks = ranks > 0 && ranks < UINT32_MAX ? (uint32_t)ranks : 0;
	return group_of(report, args, &ret->group);
}

static int take_kernel(struct report_trace *trace, struct report *report, const json_t *event,
		       const struct report_piece *piece, struct diag *diag)
{
	struct report_kernel kernel = { .collective = REPORT_COLLECTIVE_COUNT };
	struct report_lane *lane;
	int r = 0;

	if (!times_of(event, &kernel.start_ns, &kernel.end_ns))
		return complain(piece, diag, "a kernel has no \"ts\" and \"dur\", its time in microseconds");
	if (is_communication(json_text_of(event, "name")))
		r = describe(report, event, &kernel);
	lane = r < 0 ? NULL : lane_of(trace, device_of(event));
	if (!lane || sys_grow(&lane->kernels, lane->kernel_count, 1, sizeof(kernel)) < 0)
		return -ENOMEM;
	lane->kernels[lane->kernel_count++] = kernel;
	return 0;
}

static int take_step(struct report_trace *trace, const json_t *event, const struct report_piece *piece,
		     struct diag *diag)
{
	struct report_step step = { .on_gpu = !strcmp(json_text_of(event, "cat"), "gpu_user_annotation") };
	struct report_lane *lane;
	uint64_t number;

	if (parse_u64(json_text_of(event, "name") + strlen(STEP), 0, INT64_MAX - 1, &number) < 0)
		return 0; /* another's name for something */
	if (!times_of(event, &step.start_ns, &step.end_ns))
		return complain(piece, diag, "a step has no \"ts\" and \"dur\", its time in microseconds");
	step.number = (int64_t)number;
	lane = step.on_gpu ? lane_of(trace, device_of(event)) : NULL;
	if (step.on_gpu && (!lane || sys_grow(&lane->steps, lane->step_count, 1, sizeof(step)) < 0))
		return -ENOMEM;
	if (lane) {
		lane->steps[lane->step_count++] = step;
		return 0;
	}
	if (sys_grow(&trace->steps, trace->step_count, 1, sizeof(step)) < 0)
		return -ENOMEM;
	trace->steps[trace->step_count++] = step;
	return 0;
}

static int take_event(struct report_trace *trace, struct report *report, const struct report_piece *piece,
		      struct diag *diag)
{
	json_error_t error;
	json_t *event;
	int r = 0;

	/* The many events of the CPU need not be parsed. */
	if (!memmem(piece->text, piece->bytes, KERNEL, strlen(KERNEL)) &&
	    !memmem(piece->text, piece->bytes, STEP, strlen(STEP)))
		return 0;
	event = json_loadb(piece->text, piece->bytes, 0, &error);
	if (!event)
		return complain(piece, diag, error.text);
	if (!strcmp(json_text_of(event, "ph"), "X")) {
		if (!strcasecmp(json_text_of(event, "cat"), "kernel"))
			r = take_kernel(trace, report, event, piece, diag);
		else if (!strncmp(json_text_of(event, "name"), STEP, strlen(STEP)))
			r = take_step(trace, event, piece, diag);
	}
	json_decref(event);
	return r;
}

int report_trace_take(struct report_trace *trace, struct report *report, const struct report_piece *piece,
		      struct diag *diag)
{
	json_t *value;

	if (piece->kind == REPORT_EVENT)
		return take_event(trace, report, piece, diag);
	if (piece->kind != REPORT_VALUE || strcmp(piece->key, "distributedInfo") != 0)
		return 0;
	value = json_loadb(piece->text, piece->bytes, 0, NULL);
	if (value)
		trace->rank = count_of(value, "rank");
	json_decref(value);
	return 0;
}
