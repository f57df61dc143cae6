#include "command/jobs.h"

#include "base/params.h"
#include "base/sys.h"
#include "plugin/steer/status.h"
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

uint64_t job_count(const struct job *job, bool with_channels)
{
	uint64_t count = 0;

	for (size_t i = 0; i < job->comm_count; i++)
		count += (job->comms[i].channels != 0) == with_channels ? job->comms[i].count : 0;
	return count;
}

void jobs_fini(struct jobs *jobs)
{
	for (size_t i = 0; i < jobs->count; i++)
		free(jobs->at[i].comms);
	free(jobs->at);
	*jobs = (struct jobs){ .count = 0 };
}

/* ------------------------------------------------------------------------------------------------------------- parsing */

static void take_reason(const char *word, char ret[static JOBS_WHY_BYTES])
{
	snprintf(ret, JOBS_WHY_BYTES, "%.191s", strcmp(word, "-") != 0 ? word : "");
}

static int add_process(struct jobs *jobs, const char *line, bool running)
{
	char network[JOBS_WORD_BYTES], why[JOBS_WHY_BYTES];
	struct job job = { .running = running, .process_count = 1 }, *grown;

	if (sscanf(line,
		   "process %*s job %16s start %" SCNd64 " rank %*d size %*u network %64s host %64s command %64s why "
		   "%191[^\n]",
		   job.id, &job.start_s, network, job.host, job.command, why) != 6)
		return -EINVAL;
	job.ours = !strcmp(network, "ours");
	job.end_s = job.start_s;
	take_reason(why, job.why);
	grown = realloc(jobs->at, (jobs->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	jobs->at = grown;
	jobs->at[jobs->count++] = job;
	return 0;
}

static int add_comm(struct job *job, const struct job_comm *comm)
{
	struct job_comm *grown;

	for (size_t i = 0; i < job->comm_count; i++) {
		struct job_comm *at = &job->comms[i];

		if (at->channels == comm->channels && !strcmp(at->gpus, comm->gpus) && !strcmp(at->why, comm->why)) {
			at->count += comm->count;
			memcpy(at->last_id, comm->last_id, sizeof(at->last_id));
			return 0;
		}
	}
	grown = realloc(job->comms, (job->comm_count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	job->comms = grown;
	job->comms[job->comm_count++] = *comm;
	return 0;
}

static int parse_comm(struct job *job, const char *line)
{
	char why[JOBS_WHY_BYTES];
	struct job_comm comm;

	if (sscanf(line, "comm %16s count %" SCNu64 " gpus %95s channels %u alone %lf several %lf why %191[^\n]",
		   comm.last_id, &comm.count, comm.gpus, &comm.channels, &comm.alone_GBps, &comm.several_GBps,
		   why) != 7)
		return 0;
	take_reason(why, comm.why);
	return add_comm(job, &comm);
}

/* What is no such line is passed over: another version may have written it, or it is damaged. */
int jobs_parse(struct jobs *jobs, const char *text, bool running)
{
	bool is_inside = false;
	int r = 0;

	for (const char *line = text; line && *line && r != -ENOMEM; line = strchr(line, '\n'), line += line ? 1 : 0) {
		if (!strncmp(line, "process ", strlen("process "))) {
			r = add_process(jobs, line, running);
			is_inside = r == 0;
		} else if (is_inside && !strncmp(line, "comm ", strlen("comm "))) {
			r = parse_comm(&jobs->at[jobs->count - 1], line);
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
	int order = strcmp(a->id, b->id);

	if (!order)
		order = strcmp(a->host, b->host);
	return order ? order : (a->start_s > b->start_s) - (a->start_s < b->start_s);
}

static int newest_first(const void *left, const void *right)
{
	const struct job *a = left, *b = right;

	return a->start_s != b->start_s ? (a->start_s < b->start_s) - (a->start_s > b->start_s) : by_job(left, right);
}

static bool is_same_job(const struct job *a, const struct job *b)
{
	return !strcmp(a->id, b->id) && !strcmp(a->host, b->host) && (a->running || b->start_s <= a->end_s + GAP_S);
}

void jobs_join(struct jobs *jobs)
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
		free(from->comms);
		job->process_count += from->process_count;
		job->running |= from->running;
		job->end_s = from->end_s > job->end_s ? from->end_s : job->end_s;
		if (!job->why[0])
			memcpy(job->why, from->why, sizeof(job->why));
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
static int read_whole(int fd, char text[static STEER_STATUS_TEXT_BYTES])
{
	char before[STEER_STATUS_TEXT_BYTES] = "";

	for (unsigned i = 0; i < READ_TRIES; i++) {
		ssize_t bytes = pread(fd, text, STEER_STATUS_TEXT_BYTES - 1, 0);

		if (bytes < 0)
			return -errno;
		text[bytes] = '\0';
		if (i && !strcmp(text, before))
			return 0;
		memcpy(before, text, (size_t)bytes + 1);
	}
	return -EAGAIN;
}

static int take_running(void *arg, const char *name)
{
	char text[STEER_STATUS_TEXT_BYTES];
	struct reading *reading = arg;
	bool alive;
	int fd;

	alive = steer_registry_is_alive(&reading->registry, name + 2);
	fd = sys_openat(reading->registry.directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd >= 0 && read_whole(fd, text) == 0)
		reading->result = jobs_parse(reading->jobs, text, alive);
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
	snprintf(path, sizeof(path), "%s/tributary-%u", params->shared_dir, (unsigned)geteuid());
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
