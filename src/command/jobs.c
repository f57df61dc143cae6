/* SPDX-License-Identifier: Apache-2.0 */
#include "command/jobs.h"

#include "base/params.h"
#include "base/process.h"
#include "base/sys.h"
#include "plugin/steer/operations.h"
#include "plugin/steer/registry.h"
#include "profile/store_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_TRIES = 100 };
/* Between the end of one process and the start of the next of the same job. */
#define GAP_S 2

uint64_t jobs_count(const struct job *job, bool with_channels)
{
	uint64_t count = 0;

	for (size_t i = 0; i < job->comm_count; i++)
		count += (job->comms[i].channels != 0) == with_channels ? job->comms[i].count : 0;
	return count;
}

void jobs_fini(struct jobs *jobs)
{
	for (size_t i = 0; i < jobs->count; i++) {
		free(jobs->at[i].comms);
		free(jobs->at[i].operations);
	}
	free(jobs->at);
	*jobs = (struct jobs){ .count = 0 };
}

/* ------------------------------------------------------------------------------------------------------------- parsing */

static int add_process(struct jobs *jobs, const char *line, bool running)
{
	struct job job = { .running = running, .process_count = 1 };

	if (!job_text_read_process(line, &job.process))
		return -EINVAL;
	job.end_s = job.process.start_s;
	if (sys_grow(&jobs->at, jobs->count, 1, sizeof(job)) < 0)
		return -ENOMEM;
	jobs->at[jobs->count++] = job;
	return 0;
}

static int add_comm(struct job *job, const struct job_comm *comm)
{
	for (size_t i = 0; i < job->comm_count; i++) {
		struct job_comm *at = &job->comms[i];

		if (job_comm_is_same(at, comm)) {
			at->count += comm->count;
			memcpy(at->last_id, comm->last_id, sizeof(at->last_id));
			return 0;
		}
	}
	if (sys_grow(&job->comms, job->comm_count, 1, sizeof(*job->comms)) < 0)
		return -ENOMEM;
	job->comms[job->comm_count++] = *comm;
	return 0;
}

static int add_operation(struct job *job, const struct operations_line *line)
{
	if (sys_grow(&job->operations, job->operation_count, 1, sizeof(*line)) < 0)
		return -ENOMEM;
	job->operations[job->operation_count++] = *line;
	return 0;
}

static void add_head(struct job *job, const struct operations_head *head)
{
	struct operations_head *sum = &job->operations_head;

	sum->times = head->times > sum->times ? head->times : sum->times;
	sum->lost += head->lost;
	sum->captured += head->captured;
}

/* What is no such line is passed over: another version may have written it, or it is damaged. */
static int jobs_parse(struct jobs *jobs, const char *text, bool running)
{
	struct operations_head head;
	struct operations_line operation;
	struct job_comm comm;
	bool is_inside = false;
	int r = 0;

	for (const char *line = text; line && *line && r != -ENOMEM; line = strchr(line, '\n'), line += line ? 1 : 0) {
		if (!strncmp(line, "process ", strlen("process "))) {
			r = add_process(jobs, line, running);
			is_inside = r == 0;
		} else if (is_inside && job_text_read_comm(line, &comm)) {
			r = add_comm(&jobs->at[jobs->count - 1], &comm);
		} else if (is_inside && operations_read_line(line, &operation)) {
			r = add_operation(&jobs->at[jobs->count - 1], &operation);
		} else if (is_inside && operations_read_head(line, &head)) {
			add_head(&jobs->at[jobs->count - 1], &head);
		} else if (is_inside && sscanf(line, "end %" SCNd64, &jobs->at[jobs->count - 1].end_s) == 1) {
			is_inside = false;
		}
	}
	return r == -ENOMEM ? r : 0;
}

/* ------------------------------------------------------------------------------------------------------------- joining */

static int by_job(const void *left, const void *right)
{
	const struct job *a = left, *b = right;
	int order = strcmp(a->process.job, b->process.job);

	if (!order)
		order = strcmp(a->process.host, b->process.host);
	return order ? order : (a->process.start_s > b->process.start_s) - (a->process.start_s < b->process.start_s);
}

static int newest_first(const void *left, const void *right)
{
	const struct job *a = left, *b = right;

	return a->process.start_s != b->process.start_s
		       ? (a->process.start_s < b->process.start_s) - (a->process.start_s > b->process.start_s)
		       : by_job(left, right);
}

static bool is_same_job(const struct job *a, const struct job *b)
{
	return !strcmp(a->process.job, b->process.job) && !strcmp(a->process.host, b->process.host) &&
	       (a->running || b->process.start_s <= a->end_s + GAP_S);
}

/* Makes one job of the processes that have the same id and were there at the same time. */
static void jobs_join(struct jobs *jobs)
{
	size_t count = 0;

	if (!jobs->count)
		return; /* qsort takes no NULL */
	qsort(jobs->at, jobs->count, sizeof(*jobs->at), by_job);
	for (size_t i = 0; i < jobs->count; i++) {
		struct job *from = &jobs->at[i], *job = count ? &jobs->at[count - 1] : NULL;

		if (!job || !is_same_job(job, from)) {
			jobs->at[count++] = *from;
			continue;
		}
		for (size_t k = 0; k < from->comm_count; k++)
			(void)add_comm(job, &from->comms[k]); /* for want of memory the count is short */
		for (size_t k = 0; k < from->operation_count; k++)
			(void)add_operation(job, &from->operations[k]);
		add_head(job, &from->operations_head);
		free(from->comms);
		free(from->operations);
		job->process_count += from->process_count;
		job->running |= from->running;
		job->end_s = from->end_s > job->end_s ? from->end_s : job->end_s;
		if (!job->process.why[0])
			memcpy(job->process.why, from->process.why, sizeof(job->process.why));
	}
	jobs->count = count;
	qsort(jobs->at, jobs->count, sizeof(*jobs->at), newest_first);
}

/* ------------------------------------------------------------------------------------------------------------- reading */

struct reading {
	struct jobs *jobs;
	struct steer_registry registry; /* only its folder */
	int result;
};

static void take_recent(void *arg, const char *text)
{
	struct reading *reading = arg;

	if (reading->result == 0)
		reading->result = jobs_parse(reading->jobs, text, false);
}

/* Again where the process has written meanwhile. */
static int read_whole(int fd, char text[static JOB_TEXT_BYTES])
{
	char before[JOB_TEXT_BYTES] = "";

	for (unsigned i = 0; i < READ_TRIES; i++) {
		ssize_t bytes = pread(fd, text, JOB_TEXT_BYTES - 1, 0);

		if (bytes < 0)
			return -errno;
		text[bytes] = '\0';
		if (i && !strcmp(text, before))
			return 0;
		memcpy(before, text, (size_t)bytes + 1);
	}
	return -EAGAIN;
}

static void take_operation(void *arg, const struct operations_line *line)
{
	struct reading *reading = arg;

	if (reading->result == 0)
		reading->result = add_operation(&reading->jobs->at[reading->jobs->count - 1], line);
}

/* What the last job of the list, which is of that process, has counted so far. */
static void take_operations(struct reading *reading, const char *id)
{
	struct operations *operations = sys_zalloc(sizeof(*operations));
	struct operations_head head;

	if (operations && steer_operations_read(reading->registry.directory, id, operations) == 0) {
		operations_head(operations, &head);
		add_head(&reading->jobs->at[reading->jobs->count - 1], &head);
		operations_each(operations, take_operation, reading);
	}
	sys_free(operations);
}

static int take_running(void *arg, const char *name)
{
	char text[JOB_TEXT_BYTES];
	struct reading *reading = arg;
	const size_t before = reading->jobs->count;
	bool alive;
	int fd;

	alive = steer_registry_is_alive(&reading->registry, name + 2);
	fd = sys_openat(reading->registry.directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd >= 0 && read_whole(fd, text) == 0)
		reading->result = jobs_parse(reading->jobs, text, alive);
	if (reading->result == 0 && reading->jobs->count == before + 1)
		take_operations(reading, name + 2);
	sys_close(&fd);
	return reading->result;
}

int jobs_read(const struct params *params, struct jobs *ret)
{
	struct reading reading = { .jobs = ret, .registry = { .id = "-" } };
	char path[PARAMS_STRING_BYTES + 32];
	struct stat st;

	*ret = (struct jobs){ .count = 0 };
	(void)store_jobs_read(params, take_recent, &reading);
	snprintf(path, sizeof(path), "%s/tributary-%u", params->shared_dir, (unsigned)process_user());
	reading.registry.directory = sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (reading.registry.directory >= 0 && fstat(reading.registry.directory, &st) == 0 && st.st_uid == geteuid() &&
	    reading.result == 0)
		(void)sys_each_name(reading.registry.directory, ".", "t-", take_running, &reading);
	sys_close(&reading.registry.directory);
	if (reading.result < 0)
		jobs_fini(ret);
	else
		jobs_join(ret);
	return reading.result;
}
