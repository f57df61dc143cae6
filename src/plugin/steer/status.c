#include "plugin/steer/status.h"

#include "base/parse.h"
#include "base/sys.h"
#include "plugin/steer/folder.h"
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
	return job->local_rank == STEER_RANK_UNKNOWN ? process_hash(job->key, &process_group, sizeof(process_group))
						     : job->key;
}

/* A word of a line: names come from outside. */
static void word_of(const char *text, char ret[static STEER_STATUS_WORD_BYTES])
{
	size_t bytes = 0;

	for (; bytes < STEER_STATUS_WORD_BYTES - 1 && text[bytes]; bytes++)
		ret[bytes] = text[bytes] > ' ' && text[bytes] < 0x7f ? text[bytes] : '_';
	if (!bytes)
		ret[bytes++] = '-';
	ret[bytes] = '\0';
}

static size_t text_of(const struct steer_status *status, char text[static STEER_STATUS_TEXT_BYTES])
{
	size_t used = (size_t)snprintf(text, STEER_STATUS_TEXT_BYTES, "%s", status->process);

	for (size_t i = 0; i < status->comm_count; i++) {
		const struct steer_status_comm *comm = &status->comms[i];

		used += (size_t)snprintf(text + used, STEER_STATUS_TEXT_BYTES - used,
					 "comm %016" PRIx64 " count %" PRIu64 " gpus %s channels %u alone %.2f several "
					 "%.2f why %s\n",
					 comm->last_id, comm->count, comm->gpus, comm->channels, comm->alone_GBps,
					 comm->several_GBps, comm->why[0] ? comm->why : "-");
	}
	return used;
}

static int keep(const struct steer_status *status, char text[static STEER_STATUS_TEXT_BYTES], size_t bytes,
		time_t end_s)
{
	char host[STEER_STATUS_WORD_BYTES] = "";
	const char *at = strstr(text, " host ");

	if (at)
		(void)sscanf(at, " host %64s", host);
	bytes += (size_t)snprintf(text + bytes, STEER_STATUS_TEXT_BYTES - bytes, "end %lld\n", (long long)end_s);
	return store_jobs_add(status->params, host, text, bytes);
}

struct left {
	const struct steer_status *status;
	const struct steer_registry *registry;
	char text[STEER_STATUS_TEXT_BYTES];
};

/* Of all that find it only the one that takes its name away keeps it. */
static int take_left(void *arg, const char *name)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct left *left = arg;
	struct stat st;
	int fd, r = 0;

	if (steer_registry_is_alive(left->registry, name + 2))
		return 0;
	fd = sys_openat(left->registry->directory, name, O_RDONLY | O_NOFOLLOW, 0);
	if (fd < 0)
		return 0;
	if (unlinkat(left->registry->directory, name, 0) == 0 && fstat(fd, &st) == 0 &&
	    st.st_size < STEER_STATUS_TEXT_BYTES - STEER_STATUS_LINE_BYTES) {
		r = sys_pread_whole(fd, left->text, (size_t)st.st_size, 0);
		left->text[r == 0 ? st.st_size : 0] = '\0';
		if (r == 0 && strlen(left->text) == (size_t)st.st_size)
			r = keep(left->status, left->text, (size_t)st.st_size, st.st_mtime);
	}
	if (r < 0 && log_once(&said))
		log_info(LOG_INIT, "What became of a job's communicators cannot be kept for `tributary status`: %s",
			 strerror(-r));
	sys_close(&fd);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ running */

/* It only grows, so whoever reads it sees whole lines but for those that change. */
static void write_running(const struct steer_status *status, const struct steer_registry *registry)
{
	char *text = registry->own ? sys_zalloc(STEER_STATUS_TEXT_BYTES) : NULL, name[STEER_FOLDER_NAME_BYTES];
	int fd;

	if (!text)
		return;
	snprintf(name, sizeof(name), "t-%.76s", registry->id);
	fd = sys_openat(registry->directory, name, O_WRONLY | O_CREAT | O_NOFOLLOW, FILE_MODE);
	if (fd >= 0)
		(void)sys_pwrite_whole(fd, text, text_of(status, text), 0);
	sys_close(&fd);
	sys_free(text);
}

void steer_status_begin(const struct params *params, const struct params_source *source,
			const struct steer_setup *setup, struct steer_status *ret)
{
	char host[STEER_STATUS_WORD_BYTES] = "", host_word[STEER_STATUS_WORD_BYTES];
	char command[STEER_STATUS_WORD_BYTES], why[STEER_REASON_BYTES];
	const char *run = source->get(STEER_JOB_VARIABLE);
	const struct steer_job *job = &setup->settings.job;
	uint64_t key = steer_status_job(job, (uint64_t)getpgrp());
	bool is_run, is_first = job->local_rank == STEER_RANK_UNKNOWN || !job->local_rank;
	struct left *left;

	*ret = (struct steer_status){ .is_open = true, .params = params, .has_reason = setup->why.text[0] };
	is_run = run && parse_hex64(run, &key) == 0;
	(void)gethostname(host, sizeof(host) - 1);
	word_of(host, host_word);
	word_of(program_invocation_short_name, command);
	log_sentence(why, sizeof(why), "%s", setup->why.text[0] ? setup->why.text : "-");
	snprintf(ret->process, sizeof(ret->process),
		 "process %s job %016" PRIx64 " start %lld rank %d size %u network %s host %s command %s why %s\n",
		 setup->registry.id[0] ? setup->registry.id : "-", key, (long long)time(NULL), (int)job->local_rank,
		 job->local_size, setup->nets.ours ? "ours" : "nccl", host_word, command, why);
	left = sys_zalloc(sizeof(*left));
	/* Without the registry: at once, as many a process ends by _exit, and only for somebody who waits for it. */
	if (left && !setup->registry.own && ret->has_reason && is_run && is_first)
		(void)keep(ret, left->text, text_of(ret, left->text), time(NULL));
	if (!left || !setup->registry.own) {
		sys_free(left);
		return;
	}
	*left = (struct left){ .status = ret, .registry = &setup->registry };
	(void)sys_each_name(setup->registry.directory, ".", "t-", take_left, left);
	sys_free(left);
	if (ret->has_reason)
		write_running(ret, &setup->registry);
}

static void gpus_of(const struct topology *topology, const struct steer_decision *decision,
		    char text[static STEER_STATUS_GPUS_BYTES])
{
	int used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < decision->member_count && used < STEER_STATUS_GPUS_BYTES; i++) {
		const char *bus_id = decision->members[i].bus_id;
		uint32_t gpu = topology_find_bus_id(topology, bus_id);

		used += gpu == TOPOLOGY_NONE ? snprintf(text + used, (size_t)(STEER_STATUS_GPUS_BYTES - used), "%s%s",
							i ? "," : "", bus_id[0] ? bus_id : "?")
					     : snprintf(text + used, (size_t)(STEER_STATUS_GPUS_BYTES - used), "%s%d",
							i ? "," : "", topology->vertices[gpu].gpu.index);
	}
}

void steer_status_add(struct steer_status *status, const struct steer_setup *setup,
		      const struct steer_decision *decision)
{
	const struct topology *topology = &setup->machine.topology;
	struct steer_status_comm comm = { 0 };
	size_t i = 0;

	gpus_of(topology, decision, comm.gpus);
	memcpy(comm.why, decision->reason, sizeof(comm.why));
	if (decision->verdict == STEER_PLAN) {
		comm.channels = (unsigned)decision->set.channel_count;
		steer_report_rates(topology, decision, &comm.alone_GBps, &comm.several_GBps);
	}
	while (i < status->comm_count &&
	       (status->comms[i].channels != comm.channels || strcmp(status->comms[i].gpus, comm.gpus) != 0 ||
		strcmp(status->comms[i].why, comm.why) != 0))
		i++;
	if (i == STEER_STATUS_COMMS)
		return;
	if (i == status->comm_count)
		status->comms[status->comm_count++] = comm;
	status->comms[i].last_id = decision->comm_id;
	status->comms[i].count++;
	write_running(status, &setup->registry);
}

/* At the end of the process: nothing is said any more. */
void steer_status_end(struct steer_status *status, struct steer_setup *setup)
{
	char name[STEER_FOLDER_NAME_BYTES], *text;

	if (!status->is_open)
		return;
	status->is_open = false;
	if (setup->registry.directory >= 0) {
		snprintf(name, sizeof(name), "t-%.76s", setup->registry.id);
		unlinkat(setup->registry.directory, name, 0);
	}
	text = setup->registry.own && (status->comm_count || status->has_reason) ? sys_zalloc(STEER_STATUS_TEXT_BYTES)
										 : NULL;
	if (text)
		(void)keep(status, text, text_of(status, text), time(NULL));
	sys_free(text);
}
