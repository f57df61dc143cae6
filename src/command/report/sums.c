/* SPDX-License-Identifier: Apache-2.0 */
/* What overlaps what, and the sums of it. */
#include "command/report/report.h"

#include "base/minmax.h"
#include "base/sys.h"
#include "profile/tuning.h"
#include "tributary/predict.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A group is compared where its ranks have as much to do, and a rank is slow where the others' times are so much longer. */
#define EQUAL_PART 0.9
#define SLOW_PART  0.85

void report_fini(struct report *report)
{
	for (size_t i = 0; i < report->group_count; i++)
		free(report->groups[i].key);
	sys_free(report->groups);
	sys_free(report->ranks);
	sys_free(report->rows);
	sys_free(report->members);
	*report = (struct report){ .rank_count = 0 };
}

/* ------------------------------------------------------------------------------------------------------- collectives */

static const struct {
	const char *word;
	int predicted; /* as; -1: the model has none */
} collectives[REPORT_COLLECTIVE_COUNT] = {
	[REPORT_ALLREDUCE] = { "AllReduce", PREDICT_ALLREDUCE },
	[REPORT_ALLGATHER] = { "AllGather", PREDICT_ALLGATHER },
	[REPORT_REDUCESCATTER] = { "ReduceScatter", PREDICT_REDUCESCATTER },
	[REPORT_ALLTOALL] = { "AlltoAll", PREDICT_ALLGATHER }, /* all but its own part of the buffer goes out, too */
	[REPORT_BROADCAST] = { "Broadcast", PREDICT_BROADCAST },
	[REPORT_REDUCE] = { "Reduce", PREDICT_REDUCE },
	[REPORT_SENDRECV] = { "SendRecv", PREDICT_BROADCAST },
	[REPORT_OTHER] = { "other", -1 },
};

const char *report_collective_word(enum report_collective collective)
{
	return collectives[collective].word;
}

double report_bus_factor(enum report_collective collective, uint32_t ranks)
{
	int predicted = collectives[collective].predicted;

	return predicted < 0 || ranks < 2 ? 0 : predict_bus_factor((enum predict_collective)predicted, ranks);
}

enum report_collective report_collective_of(const char *name)
{
	static const struct {
		const char *part;
		enum report_collective collective;
	} parts[] = { /* "reduce" is in others */
		      { "allreduce", REPORT_ALLREDUCE },
		      { "allgather", REPORT_ALLGATHER },
		      { "reducescatter", REPORT_REDUCESCATTER },
		      { "alltoall", REPORT_ALLTOALL },
		      { "all2all", REPORT_ALLTOALL },
		      { "broadcast", REPORT_BROADCAST },
		      { "reduce", REPORT_REDUCE },
		      { "send", REPORT_SENDRECV },
		      { "recv", REPORT_SENDRECV }
	};
	char plain[256];
	size_t bytes = 0;

	for (; *name && bytes + 1 < sizeof(plain); name++)
		if (*name != '_')
			plain[bytes++] = (char)tolower((unsigned char)*name);
	plain[bytes] = '\0';
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(plain, parts[i].part))
			return parts[i].collective;
	return REPORT_OTHER;
}

int report_group_of(struct report *report, const char *key, const char *name, uint32_t *ret)
{
	struct report_group *group;

	/* The newest first: a trace's events have those that it brought. */
	for (size_t i = report->group_count; i-- > 0;)
		if (!strcmp(report->groups[i].key, key)) {
			*ret = (uint32_t)i;
			return 0;
		}
	if (sys_grow(&report->groups, report->group_count, 1, sizeof(*group)) < 0)
		return -ENOMEM;
	group = &report->groups[report->group_count];
	group->key = strdup(key);
	if (!group->key)
		return -ENOMEM;
	snprintf(group->name, sizeof(group->name), "%s", name);
	*ret = (uint32_t)report->group_count++;
	return 0;
}

static struct report_row *row_of(struct report *report, const struct report_kernel *kernel)
{
	size_t class = tuning_size_class(kernel->bytes);
	uint64_t most = kernel->bytes ? UINT64_C(1) << (class < 63 ? class : 63) : 0;
	struct report_row *row;

	for (size_t i = 0; i < report->row_count; i++) {
		row = &report->rows[i];
		if (row->collective == kernel->collective && row->bytes_most == most && row->ranks == kernel->ranks)
			return row;
	}
	if (sys_grow(&report->rows, report->row_count, 1, sizeof(*row)) < 0)
		return NULL;
	row = &report->rows[report->row_count++];
	*row = (struct report_row){
		.collective = kernel->collective, .bytes_most = most, .ranks = kernel->ranks, .until_ns = INT64_MIN
	};
	return row;
}

int report_add_collective(struct report *report, const struct report_member *member, const struct report_kernel *kernel)
{
	struct report_row *row = row_of(report, kernel);
	struct report_member *at = NULL;

	if (!row)
		return -ENOMEM;
	row->count++;
	if (kernel->is_untimed)
		return 0;
	row->timed++;
	row->bytes += kernel->bytes;
	row->time_ns += kernel->end_ns - kernel->start_ns;
	/* The root of a broadcast, and who sends, need not wait for the others. */
	if (kernel->collective > REPORT_ALLTOALL || !*report->groups[kernel->group].key)
		return 0;
	for (size_t i = report->member_count; i-- > 0 && !at;)
		if (report->members[i].group == kernel->group && report->members[i].number == member->number &&
		    !strcmp(report->members[i].name, member->name))
			at = &report->members[i];
	if (!at) {
		if (sys_grow(&report->members, report->member_count, 1, sizeof(*at)) < 0)
			return -ENOMEM;
		at = &report->members[report->member_count++];
		*at = *member;
		at->group = kernel->group;
	}
	at->count++;
	at->bytes += kernel->bytes;
	at->time_ns += kernel->end_ns - kernel->start_ns;
	return 0;
}

/* -------------------------------------------------------------------------------------------------------------- steps */

static int by_number(const void *left, const void *right)
{
	const struct report_step *a = left, *b = right;

	if (a->number != b->number)
		return (a->number > b->number) - (a->number < b->number);
	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static int by_time(const void *left, const void *right)
{
	const int64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* One entry a step, in order: where the GPU has them, its own, of all streams. */
static void merge_steps(struct report_lane *lane)
{
	struct report_step *steps = lane->steps;
	bool on_gpu = false;
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < lane->step_count; i++)
		on_gpu |= steps[i].on_gpu;
	for (size_t i = 0; i < lane->step_count; i++)
		if (steps[i].on_gpu == on_gpu)
			steps[count++] = steps[i];
	if (count)
		qsort(steps, count, sizeof(*steps), by_number);
	for (size_t i = 0; i < count; i++) {
		if (kept && steps[kept - 1].number == steps[i].number)
			steps[kept - 1].end_ns = max_i64(steps[kept - 1].end_ns, steps[i].end_ns);
		else
			steps[kept++] = steps[i];
	}
	lane->step_count = kept;
}

/* A step lasts to the next one's begin; the last one until the GPU is done. The times. -ENOMEM. */
static int time_steps(const struct report_lane *lane, struct report_rank *rank)
{
	size_t count = lane->step_count;
	int64_t *times;

	rank->step_count = count;
	if (!count)
		return 0;
	times = calloc(count, sizeof(*times));
	if (!times)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct report_step *step = &lane->steps[i];
		int64_t end_ns = i + 1 == count ? rank->end_ns : step->end_ns;

		if (i + 1 < count && step[1].number == step->number + 1 && step[1].start_ns > step->start_ns)
			end_ns = step[1].start_ns;
		times[i] = end_ns - step->start_ns;
	}
	qsort(times, count, sizeof(*times), by_time);
	rank->step_least_ns = times[0];
	rank->step_median_ns = (times[(count - 1) / 2] + times[count / 2]) / 2;
	rank->step_most_ns = times[count - 1];
	free(times);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ overlap */

/* Time in which something computes, in order, and what there was of it before. */
struct busy {
	int64_t start_ns, end_ns, before_ns;
};
struct computing {
	struct busy *at;
	size_t count;
};

static int64_t computed_until(const struct computing *computing, int64_t time_ns)
{
	size_t low = 0, high = computing->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (computing->at[middle].start_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return 0;
	return computing->at[low - 1].before_ns + min_i64(time_ns, computing->at[low - 1].end_ns) -
	       computing->at[low - 1].start_ns;
}

/* Kernels in the order of their starts. -ENOMEM. */
static int unite(const struct report_lane *lane, const struct report_rank *rank, struct computing *ret)
{
	size_t count = 0;

	ret->count = 0;
	ret->at = calloc(lane->kernel_count + 1, sizeof(*ret->at));
	if (!ret->at)
		return -ENOMEM;
	for (size_t i = 0; i < lane->kernel_count; i++) {
		const struct report_kernel *kernel = &lane->kernels[i];
		int64_t start_ns = max_i64(kernel->start_ns, rank->begin_ns);
		struct busy *last = count ? &ret->at[count - 1] : NULL;

		if (kernel->collective != REPORT_COLLECTIVE_COUNT || kernel->end_ns <= start_ns)
			continue;
		if (last && start_ns <= last->end_ns)
			last->end_ns = max_i64(last->end_ns, kernel->end_ns);
		else
			ret->at[count++] = (struct busy){ start_ns, kernel->end_ns,
							  last ? last->before_ns + last->end_ns - last->start_ns : 0 };
	}
	ret->count = count;
	return 0;
}

/* Of the part of start to end that *until has not reached: without computing. */
static int64_t exposed(const struct computing *computing, int64_t *until_ns, int64_t start_ns, int64_t end_ns)
{
	start_ns = max_i64(start_ns, *until_ns);
	if (end_ns <= start_ns)
		return 0;
	*until_ns = end_ns;
	return end_ns - start_ns - (computed_until(computing, end_ns) - computed_until(computing, start_ns));
}

static int add_kernels(struct report *report, struct report_rank *rank, const struct report_lane *lane,
		       const struct computing *computing)
{
	int64_t until_ns[REPORT_COLLECTIVE_COUNT], all_ns = rank->begin_ns, any_ns = all_ns;
	static const struct computing nothing;
	struct report_member member = { .number = rank->number };
	int r = 0;

	snprintf(member.name, sizeof(member.name), "%s", rank->name);
	for (size_t i = 0; i < REPORT_COLLECTIVE_COUNT; i++)
		until_ns[i] = rank->begin_ns;
	for (size_t i = 0; i < report->row_count; i++)
		report->rows[i].until_ns = INT64_MIN;
	for (size_t i = 0; i < lane->kernel_count && !r; i++) {
		const struct report_kernel *kernel = &lane->kernels[i];
		int64_t start_ns = max_i64(kernel->start_ns, rank->begin_ns);
		struct report_row *row;

		if (kernel->collective == REPORT_COLLECTIVE_COUNT || kernel->end_ns <= start_ns)
			continue;
		rank->exposed_by[kernel->collective] += exposed(computing, &until_ns[kernel->collective], start_ns,
								kernel->end_ns);
		rank->exposed_ns += exposed(computing, &all_ns, start_ns, kernel->end_ns);
		rank->communication_ns += exposed(&nothing, &any_ns, start_ns, kernel->end_ns);
		row = row_of(report, kernel);
		if (!row)
			return -ENOMEM;
		row->exposed_ns += exposed(computing, &row->until_ns, start_ns, kernel->end_ns);
		if (kernel->start_ns < rank->begin_ns)
			continue; /* of an earlier step, and only its end is here */
		rank->count++;
		r = report_add_collective(report, &member, kernel);
	}
	return r;
}

static int by_start(const void *left, const void *right)
{
	const struct report_kernel *a = left, *b = right;

	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

int report_add_lane(struct report *report, const struct report_rank *rank, struct report_lane *lane)
{
	struct report_rank sum = *rank;
	struct computing computing = { NULL, 0 };
	int r;

	qsort(lane->kernels, lane->kernel_count, sizeof(*lane->kernels), by_start);
	merge_steps(lane);
	sum.begin_ns = lane->step_count ? lane->steps[0].start_ns : lane->kernels[0].start_ns;
	sum.end_ns = lane->step_count ? lane->steps[lane->step_count - 1].end_ns : sum.begin_ns;
	for (size_t i = 0; i < lane->kernel_count; i++)
		sum.end_ns = max_i64(sum.end_ns, lane->kernels[i].end_ns);
	r = unite(lane, &sum, &computing);
	if (!r)
		r = time_steps(lane, &sum);
	if (!r) {
		sum.computing_ns = computed_until(&computing, sum.end_ns);
		r = add_kernels(report, &sum, lane, &computing);
	}
	if (!r)
		r = sys_grow(&report->ranks, report->rank_count, 1, sizeof(sum));
	if (!r)
		report->ranks[report->rank_count++] = sum;
	free(computing.at);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------ the end */

static int by_size(const void *left, const void *right)
{
	const struct report_row *a = left, *b = right;

	if (a->collective != b->collective)
		return (a->collective > b->collective) - (a->collective < b->collective);
	if (a->bytes_most != b->bytes_most)
		return (a->bytes_most > b->bytes_most) - (a->bytes_most < b->bytes_most);
	return (a->ranks > b->ranks) - (a->ranks < b->ranks);
}

static int by_rank(const void *left, const void *right)
{
	const struct report_rank *a = left, *b = right;

	return a->number != b->number ? (a->number > b->number) - (a->number < b->number) : strcmp(a->name, b->name);
}

static int by_group(const void *left, const void *right)
{
	const struct report_member *a = left, *b = right;

	if (a->group != b->group)
		return (a->group > b->group) - (a->group < b->group);
	return a->number != b->number ? (a->number > b->number) - (a->number < b->number) : strcmp(a->name, b->name);
}

static double mean_ns(const struct report_member *member)
{
	return (double)member->time_ns / (double)member->count;
}

static int by_double(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/*
 * All ranks of such a collective are done at the same time, so the one that came last has the shortest time in it. Whether
 * one came last far more often than the others: *slow is set then, where more time is lost by it than by what is there.
 */
static void compare_group(struct report *report, const struct report_member *members, size_t count, double *lost_ns)
{
	const struct report_member *first = members;
	double *others = calloc(count, sizeof(*others)), median;
	size_t other_count = 0;

	for (size_t i = 1; others && i < count; i++) {
		if ((double)members[i].count < EQUAL_PART * (double)members[0].count ||
		    (double)members[0].count < EQUAL_PART * (double)members[i].count ||
		    (double)members[i].bytes < EQUAL_PART * (double)members[0].bytes ||
		    (double)members[0].bytes < EQUAL_PART * (double)members[i].bytes)
			count = 0;
		else if (mean_ns(&members[i]) < mean_ns(first))
			first = &members[i];
	}
	for (size_t i = 0; others && i < count; i++)
		if (&members[i] != first)
			others[other_count++] = mean_ns(&members[i]);
	if (other_count) {
		qsort(others, other_count, sizeof(*others), by_double);
		median = (others[(other_count - 1) / 2] + others[other_count / 2]) / 2;
		if (mean_ns(first) < SLOW_PART * median &&
		    (median - mean_ns(first)) * (double)first->count > *lost_ns) {
			*lost_ns = (median - mean_ns(first)) * (double)first->count;
			report->slow = first;
			report->slow_ns = mean_ns(first);
			report->others_ns = median;
		}
	}
	free(others);
}

void report_finish(struct report *report)
{
	double lost_ns = 0;

	if (report->row_count)
		qsort(report->rows, report->row_count, sizeof(*report->rows), by_size);
	if (report->rank_count)
		qsort(report->ranks, report->rank_count, sizeof(*report->ranks), by_rank);
	if (report->member_count)
		qsort(report->members, report->member_count, sizeof(*report->members), by_group);
	for (size_t i = 0, next; i < report->member_count; i = next) {
		for (next = i + 1;
		     next < report->member_count && report->members[next].group == report->members[i].group;)
			next++;
		compare_group(report, &report->members[i], next - i, &lost_ns);
	}
}

struct report_total report_total(const struct report *report)
{
	struct report_total total = { .time_ns = 0 };

	for (size_t i = 0; i < report->rank_count; i++) {
		const struct report_rank *rank = &report->ranks[i];

		total.time_ns += rank->end_ns - rank->begin_ns;
		total.communication_ns += rank->communication_ns;
		total.exposed_ns += rank->exposed_ns;
		total.step_count += rank->step_count;
		for (size_t k = 0; k < REPORT_COLLECTIVE_COUNT; k++)
			total.exposed_by[k] += rank->exposed_by[k];
	}
	return total;
}

double report_step_ns(const struct report *report)
{
	double sum_ns = 0;

	for (size_t i = 0; i < report->rank_count; i++) {
		if (!report->ranks[i].step_count)
			return 0;
		sum_ns += (double)report->ranks[i].step_median_ns;
	}
	return report->rank_count ? sum_ns / (double)report->rank_count : 0;
}

double report_exposed_ns(const struct report *report)
{
	struct report_total total = report_total(report);

	return total.step_count ? (double)total.exposed_ns / (double)total.step_count : 0;
}
