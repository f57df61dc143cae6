/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/status.h"

#include "base/hash.h"
#include "base/parse.h"
#include "base/sys.h"
#include "plugin/metrics.h"
#include "plugin/steer/folder.h"
#include "plugin/steer/operations.h"
#include "plugin/steer/report.h"
#include "profile/store_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MODE = 0600 };

uint64_t steer_status_job(const struct steer_job *job, uint64_t process_group)
{
	return job->local_rank == STEER_RANK_UNKNOWN ? hash_bytes(job->key, &process_group, sizeof(process_group))
						     : job->key;
}

static size_t write_text(struct steer_status *status)
{
	size_t used = job_text_process(&status->process, status->text);

	for (size_t i = 0; i < status->comm_count; i++)
		used += job_text_comm(&status->comms[i], status->text + used);
	return used;
}

/* The text, of so many bytes, what was done (NULL: not known), and that it has ended. */
static int keep(struct steer_status *status, size_t bytes, const struct operations *operations, time_t end_s)
{
	if (operations)
		bytes += operations_print(operations, status->text + bytes);
	bytes += (size_t)snprintf(status->text + bytes, JOB_LINE_BYTES, "end %lld\n", (long long)end_s);
	return store_jobs_add(status->params, status->process.host, status->text, bytes);
}

struct left {
	struct steer_status *status;
	const struct steer_registry *registry;
	struct operations *operations; /* room to read one; NULL: no memory */
};

/* A file of a process that is gone, which comes after what take_left reads of it. */
static int drop_operations(void *arg, const char *name)
{
	const struct left *left = arg;

	if (!steer_registry_is_alive(left->registry, name + 2))
		unlinkat(left->registry->directory, name, 0);
	return 0;
}

/* Of all that find it only the one that takes its name away keeps it. */
static int take_left(void *arg, const char *name)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const struct left *left = arg;
	char *text = left->status->text;
	struct stat st;
	int fd, r = 0;
	bool counted;

	if (steer_registry_is_alive(left->registry, name + 2))
		return 0;
	fd = sys_openat(left->registry->directory, name, O_RDONLY, 0);
	if (fd < 0)
		return 0;
	counted = left->operations && steer_operations_read(left->registry->directory, name + 2, left->operations) == 0;
	if (unlinkat(left->registry->directory, name, 0) == 0 && fstat(fd, &st) == 0 &&
	    st.st_size < JOB_TEXT_BYTES - JOB_LINE_BYTES) {
		r = sys_pread_whole(fd, text, (size_t)st.st_size, 0);
		text[r == 0 ? st.st_size : 0] = '\0';
		if (r == 0 && strlen(text) == (size_t)st.st_size)
			r = keep(left->status, (size_t)st.st_size, counted ? left->operations : NULL, st.st_mtime);
	}
	if (r < 0 && log_once(&said))
		log_info(LOG_INIT, "What became of a job's communicators cannot be kept for `tributary status`: %s",
			 strerror(-r));
	sys_close(&fd);
	return 0;
}

static void take_all_left(struct steer_status *status, const struct steer_registry *registry)
{
	struct left left = { status, registry, sys_zalloc(sizeof(*left.operations)) };

	(void)sys_each_name(registry->directory, ".", "t-", take_left, &left);
	(void)sys_each_name(registry->directory, ".", "o-", drop_operations, &left);
	sys_free(left.operations);
}

/* ------------------------------------------------------------------------------------------------------------ running */

/* It only grows, so whoever reads it sees whole lines but for those that change. */
static void write_running(struct steer_status *status, const struct steer_registry *registry)
{
	char name[STEER_FOLDER_NAME_BYTES];
	int fd;

	if (!registry->own)
		return;
	steer_folder_name('t', registry->id, name);
	fd = sys_openat(registry->directory, name, O_WRONLY | O_CREAT, FILE_MODE);
	if (fd >= 0)
		(void)sys_pwrite_whole(fd, status->text, write_text(status), 0);
	sys_close(&fd);
}

static void remove_running(const struct steer_registry *registry)
{
	static const char kinds[] = { 't', 'o' };
	char name[STEER_FOLDER_NAME_BYTES];

	for (size_t i = 0; i < sizeof(kinds) && registry->directory >= 0; i++) {
		steer_folder_name(kinds[i], registry->id, name);
		unlinkat(registry->directory, name, 0);
	}
}

void steer_status_begin(const struct params *params, const struct params_source *source,
			const struct steer_setup *setup, struct steer_status *ret)
{
	const struct steer_job *job = &setup->settings.job;
	uint64_t key = steer_status_job(job, (uint64_t)getpgrp());
	const char *run = source->get(STEER_JOB_VARIABLE);
	bool is_run = run && parse_hex64(run, &key) == 0;
	bool is_first = job->local_rank == STEER_RANK_UNKNOWN || !job->local_rank;
	struct job_process *process = &ret->process;

	if (ret->apart.own) {
		remove_running(&ret->apart);
		steer_registry_close(&ret->apart);
	}
	*ret = (struct steer_status){ .params = params,
				      .operations = ret->operations,
				      .apart = { .directory = -1, .process_fd = -1 },
				      .process = { .start_s = time(NULL),
						   .rank = (int)job->local_rank,
						   .size = job->local_size,
						   .ours = setup->nets.ours } };
	(void)gethostname(process->host, sizeof(process->host) - 1);
	snprintf(process->process, sizeof(process->process), "%s", setup->registry.id);
	snprintf(process->job, sizeof(process->job), "%016" PRIx64, key);
	snprintf(process->command, sizeof(process->command), "%.64s", program_invocation_short_name);
	plugin_metrics_rank(process->rank);
	log_sentence(process->why, sizeof(process->why), "%s", setup->why.text);
	if (setup->registry.own) {
		take_all_left(ret, &setup->registry);
		if (process->why[0])
			write_running(ret, &setup->registry);
	} else if (process->why[0] && is_run && is_first) {
		/* At once, as many a process ends by _exit, and only for somebody who waits for it. */
		(void)keep(ret, write_text(ret), NULL, process->start_s);
	}
}

static void gpus_of(const struct topology *topology, const struct steer_decision *decision,
		    char text[static JOB_GPUS_BYTES])
{
	int used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < decision->member_count && used < JOB_GPUS_BYTES; i++) {
		const char *bus_id = decision->members[i].bus_id;
		uint32_t gpu = topology_find_bus_id(topology, bus_id);

		used += gpu == TOPOLOGY_NONE ? snprintf(text + used, (size_t)(JOB_GPUS_BYTES - used), "%s%s",
							i ? "," : "", bus_id[0] ? bus_id : "?")
					     : snprintf(text + used, (size_t)(JOB_GPUS_BYTES - used), "%s%d",
							i ? "," : "", topology->vertices[gpu].gpu.index);
	}
}

void steer_status_add(struct steer_status *status, const struct steer_setup *setup,
		      const struct steer_decision *decision)
{
	const struct topology *topology = &setup->machine.topology;
	struct job_comm comm = { .count = 0 };
	size_t i = 0;

	plugin_metrics_communicator(decision->result == STEER_PLAN);
	gpus_of(topology, decision, comm.gpus);
	memcpy(comm.why, decision->reason, sizeof(comm.why));
	if (decision->result == STEER_PLAN) {
		comm.channels = (unsigned)decision->set.channel_count;
		steer_report_rates(topology, decision, &comm.alone_GBps, &comm.several_GBps);
	}
	while (i < status->comm_count && !job_comm_is_same(&status->comms[i], &comm))
		i++;
	if (i == JOB_COMMS)
		return;
	if (i == status->comm_count)
		status->comms[status->comm_count++] = comm;
	snprintf(status->comms[i].last_id, sizeof(comm.last_id), "%016" PRIx64, decision->comm_id);
	status->comms[i].count++;
	write_running(status, &setup->registry);
}

/* Not as a process that may have ranks: it would seem to have told of all of them. */
static void open_apart(struct steer_status *status, const struct steer_setup *setup)
{
	struct steer_process process;
	struct diag unused;

	memset(&process, 0, sizeof(process)); /* it is written as bytes */
	process.host = setup->settings.host;
	if (status->params->shared_dir[0] != '/' ||
	    steer_registry_open_apart(status->params->shared_dir, &process, &status->apart, &unused) < 0)
		return;
	take_all_left(status, &status->apart);
	snprintf(status->process.process, sizeof(status->process.process), "%s", status->apart.id);
}

struct operations *steer_status_operations(struct steer_status *status, const struct steer_setup *setup)
{
	const struct steer_registry *registry = setup->registry.own ? &setup->registry : &status->apart;

	if (status->operations)
		return status->operations;
	if (!setup->registry.own)
		open_apart(status, setup);
	status->operations = steer_operations_make(registry);
	write_running(status, registry);
	return status->operations;
}

/* At the end of the process: nothing is said any more. */
void steer_status_end(struct steer_status *status, struct steer_setup *setup)
{
	int saved_errno = errno;

	remove_running(&setup->registry);
	remove_running(&status->apart);
	if ((setup->registry.own && (status->comm_count || status->process.why[0])) ||
	    operations_any(status->operations))
		(void)keep(status, write_text(status), status->operations, time(NULL));
	steer_registry_close(&status->apart);
	errno = saved_errno;
}
