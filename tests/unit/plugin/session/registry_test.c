#include "plugin/session/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "plugin/session/presence.h"
#include "support/tree.h"

enum { HOST = 7, CLAIMERS = 8, CROWD = 4 };

struct registry_place {
	char root[64], folder[PARAMS_STRING_BYTES + 32];
	struct session_registry registry;
	struct session_census census;
	struct session_decision decision;
	struct diag diag;
};

static struct session_process process_of_job(uint64_t key, uint32_t size, uint32_t rank, uint32_t world)
{
	struct session_process process;

	memset(&process, 0, sizeof(process));
	process.job_key = key;
	process.host = HOST;
	process.local_size = size;
	process.local_rank = rank;
	process.world_size = world;
	return process;
}

static int place_open(void **state)
{
	struct session_process process = process_of_job(1, 1, 0, 1);
	struct registry_place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	snprintf(place->root, sizeof(place->root), "/dev/shm/tributary-registry-XXXXXX");
	assert_non_null(mkdtemp(place->root));
	assert_int_equal(session_registry_open(place->root, &process, &place->registry, &place->diag), 0);
	snprintf(place->folder, sizeof(place->folder), "%s", place->registry.path);
	*state = place;
	return 0;
}

static int place_close(void **state)
{
	struct registry_place *place = *state;

	session_registry_close(&place->registry);
	tree_remove(place->root);
	free(place);
	return 0;
}

static void record(struct registry_place *place, unsigned slot, uint64_t comm, const char *bus_id)
{
	struct session_record record;

	memset(&record, 0, sizeof(record));
	record.used = 1;
	record.comm_id = comm;
	record.host = HOST;
	snprintf(record.bus_id, sizeof(record.bus_id), "%s", bus_id);
	assert_int_equal(session_registry_write(&place->registry, slot, &record), 0);
}

static int look(struct registry_place *place, uint64_t comm)
{
	return session_registry_look(&place->registry, comm, HOST, &place->census, &place->diag);
}

static void what_is_written_is_found(void **state)
{
	struct registry_place *place = *state;

	record(place, 0, 5, "0000:10:00.0");
	record(place, SESSION_RECORDS - 1, 6, "0000:11:00.0");
	assert_int_equal(look(place, 5), 0);
	assert_int_equal(place->census.process_count, 1);
	assert_int_equal(place->census.states[0], PROCESS_ALIVE);
	assert_int_equal(place->census.member_count, 1);
	assert_string_equal(place->census.members[0].record.bus_id, "0000:10:00.0");
	assert_int_equal(look(place, 6), 0);
	assert_int_equal(place->census.member_count, 1);
	assert_int_equal(look(place, 7), 0);
	assert_int_equal(place->census.member_count, 0);
	record(place, 0, 7, "0000:12:00.0");
	assert_int_equal(look(place, 5), 0);
	assert_int_equal(place->census.member_count, 0);
}

static void where_ranks_of_others_are_is_seen(void **state)
{
	struct registry_place *place = *state;
	struct session_record record;

	memset(&record, 0, sizeof(record));
	record.used = 1;
	record.host = HOST;
	for (unsigned i = 0; i < 6; i++) {
		record.comm_id = 20 + i;
		record.serial = 30 + i;
		record.phase = i < 4 ? i : SESSION_HAS_READ;
		record.phase_ns = i == 5 ? clock_now_ns() - 60 * NS_PER_S : clock_now_ns();
		assert_int_equal(session_registry_write(&place->registry, i, &record), 0);
	}
	assert_int_equal(look(place, 20), 0);
	assert_int_equal(place->census.member_count, 1);
	assert_int_equal(place->census.other_count, 4); /* those in their phases, and who has just read */
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(place->census.others[i].comm_id, 21 + i);
		assert_int_equal(place->census.others[i].serial, 31 + i);
		assert_int_equal(place->census.others[i].phase, 1 + i);
		assert_true(process_identity_same(&place->census.others[i].identity, &place->registry.self));
	}
	assert_int_equal(look(place, 21), 0);
	assert_int_equal(place->census.member_count, 1);
	assert_int_equal(place->census.members[0].record.phase, SESSION_ARRIVED);
	assert_int_equal(place->census.other_count, 3);
	assert_int_equal(session_registry_look(&place->registry, 21, HOST + 1, &place->census, &place->diag), 0);
	assert_int_equal(place->census.other_count, 0);
}

static void who_is_about_to_read_is_seen(void **state)
{
	struct registry_place *place = *state;

	assert_int_equal(look(place, 1), 0);
	assert_int_equal(place->census.processes[0].readers.count, 0);
	assert_int_equal(session_registry_readers(&place->registry, &(struct session_reader_counts){ 2, 1, 77 }), 0);
	assert_int_equal(look(place, 1), 0);
	assert_int_equal(place->census.processes[0].readers.count, 2);
	assert_int_equal(place->census.processes[0].readers.stranger_count, 1);
	assert_int_equal(place->census.processes[0].readers.since_ns, 77);
	assert_int_equal(session_registry_readers(&place->registry, &(struct session_reader_counts){ 2, 2, 77 }), 0);
	assert_int_equal(look(place, 1), 0);
	assert_int_equal(place->census.processes[0].readers.stranger_count, 2);
	assert_int_equal(session_registry_readers(&place->registry, &(struct session_reader_counts){ .count = 0 }), 0);
	assert_int_equal(look(place, 1), 0);
	assert_int_equal(place->census.processes[0].readers.count, 0);
}

/* A file in the folder, its bytes and mode as said. */
static void put(struct registry_place *place, const char *name, const void *data, size_t bytes, mode_t mode)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", place->folder, name);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void foreign_and_broken_files_do_not_mislead(void **state)
{
	struct registry_place *place = *state;
	struct session_process_file *file = calloc(1, sizeof(*file));
	char name[128], path[512];

	assert_non_null(file);
	record(place, 0, 5, "0000:10:00.0");
	put(place, "p-", "", 0, 0600);
	put(place, "p-garbage", "x", 1, 0600);
	put(place, "p-1-2-3-4-5", "x", 1, 0600);
	put(place, "readme", "x", 1, 0600);
	snprintf(path, sizeof(path), "%s/p-link", place->folder);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(look(place, 5), 0); /* none of them names a process */
	assert_int_equal(place->census.member_count, 1);
	/* Of a process that is there, and cannot be read: who is there is not known. */
	snprintf(name, sizeof(name), "p-%08x-%llx-1-0", (uint32_t)place->registry.self.boot,
		 (unsigned long long)place->registry.self.pid_namespace);
	put(place, name, "x", 1, 0600); /* process 1 with another start: gone */
	assert_int_equal(look(place, 5), 0);
	snprintf(name, sizeof(name), "p-%s", place->registry.id);
	put(place, name, "x", 1, 0600);
	assert_int_equal(look(place, 5), -EINVAL);
	memcpy(file, place->registry.own, sizeof(*file));
	put(place, name, file, sizeof(*file), 0644); /* open to others */
	assert_int_equal(look(place, 5), -EINVAL);
	put(place, name, file, sizeof(*file), 0600);
	assert_int_equal(look(place, 5), 0);
	file->process.identity.pid++;
	session_process_seal(file);
	put(place, name, file, sizeof(*file), 0600); /* says that it is another one than its name says */
	assert_int_equal(look(place, 5), -EINVAL);
	file->process.local_size++;
	put(place, name, file, sizeof(*file), 0600); /* and its checksum is wrong */
	assert_int_equal(look(place, 5), -EINVAL);
	memcpy(file, place->registry.own, sizeof(*file));
	file->records[0].comm_id++;
	assert_int_equal(session_process_read(file, sizeof(*file), file), 0);
	assert_int_equal(file->records[0].used, 0); /* one that is not whole is none */
	free(file);
}

static bool is_in_folder(const struct registry_place *place, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", place->folder, name);
	return access(path, F_OK) == 0;
}

static int sweep_by_another(struct registry_place *place)
{
	struct session_registry another;
	pid_t pid = fork();
	int status;

	if (!pid) /* a process of its own: ids of processes name the files */
		_exit(session_registry_open(place->root, NULL, &another, &place->diag) < 0);
	return waitpid(pid, &status, 0) < 0 ? -1 : status;
}

/* Of another process id namespace only the lock tells; who has none may be there. */
static void who_is_elsewhere_is_there_while_it_has_its_lock(void **state)
{
	struct registry_place *place = *state;
	struct session_process_file *file = calloc(1, sizeof(*file));
	char id[128], process[160], life[160], graph[160], plan[160], path[512];
	int fd;

	assert_non_null(file);
	memcpy(file, place->registry.own, sizeof(*file));
	file->process.identity.pid_namespace++;
	file->process.identity.pid = 1;
	session_process_seal(file);
	snprintf(id, sizeof(id), "%08x-%llx-1-%llx", (uint32_t)file->process.identity.boot,
		 (unsigned long long)file->process.identity.pid_namespace,
		 (unsigned long long)file->process.identity.start_ticks);
	snprintf(process, sizeof(process), "p-%s", id);
	snprintf(life, sizeof(life), "l-%s", id);
	snprintf(graph, sizeof(graph), "g-%s", id);
	snprintf(plan, sizeof(plan), "x-%s-1", id);
	put(place, process, file, sizeof(*file), 0600);
	put(place, graph, "", 0, 0600);
	put(place, plan, "", 0, 0600);
	assert_int_equal(sweep_by_another(place), 0);
	assert_int_equal(look(place, 5), 0);
	assert_int_equal(place->census.process_count, 2);
	put(place, life, "", 0, 0600);
	snprintf(path, sizeof(path), "%s/%s", place->folder, life);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(sweep_by_another(place), 0);
	assert_int_equal(look(place, 5), 0);
	assert_int_equal(place->census.process_count, 2);
	assert_int_equal(place->census.states[0] + place->census.states[1], PROCESS_ALIVE + PROCESS_UNKNOWN);
	close(fd);
	assert_int_equal(look(place, 5), 0);
	assert_int_equal(place->census.process_count, 1);
	assert_int_equal(sweep_by_another(place), 0);
	assert_false(is_in_folder(place, process) || is_in_folder(place, graph) || is_in_folder(place, plan) ||
		     is_in_folder(place, life));
	snprintf(life, sizeof(life), "l-%s", place->registry.id);
	assert_true(is_in_folder(place, life));
	free(file);
}

static void a_decision_is_made_once(void **state)
{
	struct registry_place *place = *state;
	int rest = 0, plans = 0, status, done[2];

	assert_int_equal(pipe(done), 0);
	for (int i = 0; i < CLAIMERS; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid) {
			struct session_process process = process_of_job(1, CLAIMERS, (uint32_t)i, CLAIMERS);
			struct session_registry registry;

			if (session_registry_open(place->root, &process, &registry, &place->diag) < 0)
				_exit(99);
			place->decision.comm_id = 5;
			place->decision.host = HOST;
			place->decision.verdict = SESSION_REST;
			snprintf(place->decision.reason, sizeof(place->decision.reason), "%d", i);
			if (session_registry_decide(&registry, &place->decision, &place->diag) < 0)
				_exit(98);
			/* Nobody goes before all are done: who comes later would sweep up after them. */
			close(done[1]);
			while (read(done[0], &status, sizeof(status)) > 0)
				;
			_exit(atoi(place->decision.reason)); /* whose it is */
		}
	}
	close(done[0]);
	for (int i = 0; i < 100 && session_registry_decision(&place->registry, 5, HOST, &place->decision, &place->diag);
	     i++)
		usleep(10000);
	close(done[1]);
	for (int i = 0; i < CLAIMERS; i++) {
		assert_true(wait(&status) > 0);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < CLAIMERS);
		if (i == 0)
			rest = WEXITSTATUS(status);
		plans += WEXITSTATUS(status) != rest;
	}
	assert_int_equal(plans, 0);
	assert_int_equal(session_registry_decision(&place->registry, 5, HOST, &place->decision, &place->diag), 0);
	assert_int_equal(atoi(place->decision.reason), rest);
	assert_int_equal(session_registry_decision(&place->registry, 5, HOST + 1, &place->decision, &place->diag),
			 -ENOENT);
	session_registry_forget(&place->registry, 5, HOST);
	assert_int_equal(session_registry_decision(&place->registry, 5, HOST, &place->decision, &place->diag), -ENOENT);
}

static void without_room_one_follows_and_does_not_decide(void **state)
{
	struct registry_place *place = *state;

	place->decision.comm_id = 5;
	place->decision.host = HOST;
	assert_int_equal(session_registry_decide(&place->registry, &place->decision, &place->diag), 0);
	assert_false(place->registry.has_spare);
	place->decision.comm_id = 6;
	assert_int_equal(session_registry_decide(&place->registry, &place->decision, &place->diag), -ENOSPC);
	assert_int_equal(session_registry_spare(&place->registry), 0);
	assert_int_equal(session_registry_decide(&place->registry, &place->decision, &place->diag), 0);
	place->decision.comm_id = 5;
	assert_int_equal(session_registry_decide(&place->registry, &place->decision, &place->diag), 0);
	assert_int_equal(place->decision.comm_id, 5);
}

static void decisions_are_checked(void **state)
{
	struct registry_place *place = *state;
	struct session_decision *decision = &place->decision, *ret = calloc(1, sizeof(*ret));

	assert_non_null(ret);
	memset(decision, 0, sizeof(*decision));
	decision->verdict = SESSION_PLAN;
	decision->member_count = 2;
	decision->request.gpu_count = 2;
	decision->set.channel_count = 1;
	for (unsigned i = 0; i < 2; i++) {
		struct plan *plan = &decision->set.plans[i];

		decision->set.has[i] = true;
		plan->pattern = (enum plan_pattern)i;
		plan->gpu_count = 2;
		plan->channel_count = 1;
		plan->channels[0].order[1] = 1;
	}
	session_decision_seal(decision);
	assert_int_equal(session_decision_read(decision, sizeof(*decision), ret), 0);
	assert_int_equal(session_decision_read(decision, sizeof(*decision) - 1, ret), -EINVAL);
#define REFUSED(field, value)                                                               \
	do {                                                                                \
		struct session_decision *copy = malloc(sizeof(*copy));                      \
		assert_non_null(copy);                                                      \
		memcpy(copy, decision, sizeof(*copy));                                      \
		copy->field = (value);                                                      \
		assert_int_equal(session_decision_read(copy, sizeof(*copy), ret), -EINVAL); \
		session_decision_seal(copy);                                                \
		assert_int_equal(session_decision_read(copy, sizeof(*copy), ret), -EINVAL); \
		free(copy);                                                                 \
	} while (0)
	REFUSED(verdict, 2);
	REFUSED(member_count, 3);
	REFUSED(request.gpu_count, PLAN_GPUS_MAX + 1);
	REFUSED(request.nic_count, PLAN_NICS_MAX + 1);
	REFUSED(request.nic_count, SIZE_MAX);
	REFUSED(set.channel_count, 0);
	REFUSED(set.channel_count, PLAN_CHANNELS_MAX + 1);
	REFUSED(set.has[PLAN_RING], false);
	REFUSED(set.plans[PLAN_RING].channels[0].order[1], 0); /* a GPU twice */
	REFUSED(set.plans[PLAN_RING].channels[0].order[1], 2);
	REFUSED(set.plans[PLAN_TREE].channel_count, 2);
	REFUSED(set.plans[PLAN_TREE].pattern, PLAN_RING);
	REFUSED(set.plans[PLAN_RING].intra_class, TOPOLOGY_CLASS_COUNT);
	REFUSED(set.where, PLAN_WHERE_COUNT);
#undef REFUSED
	memset(decision->reason, 'x', sizeof(decision->reason));
	session_decision_seal(decision);
	assert_int_equal(session_decision_read(decision, sizeof(*decision), ret), -EINVAL);
	free(ret);
}

static void evidence_is_all_of_the_job_and_each_once(void **state)
{
	struct registry_place *place = *state;
	struct session_census *census = &place->census;
	struct diag diag;

	census->process_count = 3;
	census->member_count = 2;
	for (uint32_t i = 0; i < 3; i++) {
		census->processes[i] = process_of_job(1, 3, i, 3);
		census->states[i] = PROCESS_ALIVE;
		census->members[i].process = census->processes[i];
	}
	assert_true(session_census_complete(census, &diag));
	assert_true(session_census_is_whole_job(census));
	census->process_count = 2;
	assert_false(session_census_complete(census, &diag));
	census->process_count = 3;
	census->processes[2].local_rank = 1;
	assert_false(session_census_complete(census, &diag));
	census->processes[2].local_rank = SESSION_RANK_UNKNOWN;
	assert_true(session_census_complete(census, &diag));
	census->states[2] = PROCESS_UNKNOWN;
	assert_false(session_census_complete(census, &diag));
	census->states[2] = PROCESS_ALIVE;
	census->processes[2].local_size = 4;
	assert_false(session_census_complete(census, &diag));
	census->processes[2].local_size = 3;
	census->processes[2].host = HOST + 1; /* NCCL_HOSTID */
	assert_true(session_census_complete(census, &diag));
	assert_false(session_census_is_whole_job(census));
	census->processes[2].host = HOST;
	census->members[1].process.job_key = 2; /* of another agent, of which nobody is known */
	assert_false(session_census_complete(census, &diag));
	assert_false(session_census_is_whole_job(census));
	census->members[1].process.job_key = 1;
	for (uint32_t i = 0; i < 3; i++)
		census->members[i].process.world_size = 6;
	assert_false(session_census_is_whole_job(census));
	census->members[0].process.local_size = 0;
	assert_false(session_census_complete(census, &diag));
}

static void sockets_of_other_folders_are_seen(void **state)
{
	struct registry_place *place = *state;
	struct session_presence presence, other;
	struct diag diag;
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t job = (uint64_t)getpid();

	assert_true(tmp >= 0);
	assert_int_equal(session_presence_open(&place->registry.self, job, HOST, place->registry.directory, &presence),
			 0);
	assert_false(session_presence_elsewhere(&presence, &diag));
	assert_int_equal(session_presence_open(&place->registry.self, job + 1, HOST, tmp, &other), 0);
	assert_false(session_presence_elsewhere(&presence, &diag)); /* another job */
	session_presence_close(&other);
	assert_int_equal(session_presence_open(&place->registry.self, job, HOST + 1, tmp, &other), 0);
	assert_false(session_presence_elsewhere(&presence, &diag)); /* on what NCCL takes for another host */
	session_presence_close(&other);
	assert_int_equal(session_presence_open(&place->registry.self, job, HOST, tmp, &other), 0);
	assert_true(session_presence_elsewhere(&presence, &diag));
	session_presence_close(&other);
	assert_false(session_presence_elsewhere(&presence, &diag));
	session_presence_close(&presence);
	close(tmp);
}

static void what_the_gone_left_is_removed_and_nothing_else(void **state)
{
	struct registry_place *place = *state;
	struct session_process process = process_of_job(1, 1, 0, 1);
	struct session_registry second;
	char name[128], plan[128], path[512];
	unsigned long long ns = place->registry.self.pid_namespace;
	uint32_t boot = (uint32_t)place->registry.self.boot;

	snprintf(name, sizeof(name), "g-%08x-%llx-1-1", boot, ns); /* pid 1 of another start */
	put(place, name, "x", 1, 0600);
	snprintf(name, sizeof(name), "t-%08x-%llx-1-1", boot + 1, ns); /* before the machine was started */
	put(place, name, "x", 1, 0600);
	snprintf(name, sizeof(name), "g-%08x-%llx-1-1", boot, ns + 1); /* of who knows whom */
	put(place, name, "x", 1, 0600);
	put(place, "x-1-1-1-1", "x", 1, 0600);                        /* whatever that is */
	snprintf(plan, sizeof(plan), "x-%08x-%llx-1-1-1f", boot, ns); /* for a plan of the first of them */
	put(place, plan, "x", 1, 0600);
	plan[0] = 'y';
	put(place, plan, "x", 1, 0600);
	assert_int_equal(session_registry_open(place->root, &process, &second, &place->diag), 0);
	snprintf(path, sizeof(path), "%s/%s", place->folder, name);
	assert_int_equal(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/x-1-1-1-1", place->folder);
	assert_int_equal(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/g-%08x-%llx-1-1", place->folder, boot, ns);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/t-%08x-%llx-1-1", place->folder, boot + 1, ns);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/%s", place->folder, plan);
	assert_int_equal(access(path, F_OK), -1);
	path[strlen(place->folder) + 1] = 'x';
	assert_int_equal(access(path, F_OK), -1);
	assert_false(session_registry_is_there(&place->registry)); /* it has the same id: this process */
	session_registry_close(&second);
}

/* The folder goes with the last process: nobody is left in one that was removed, and none stays behind. */
static int come_and_go(const char *root)
{
	struct session_process process = process_of_job(1, 1, 0, 1);

	for (unsigned i = 0; i < 300; i++) {
		struct session_registry registry;
		struct stat named, own;
		struct diag diag;

		if (session_registry_open(root, &process, &registry, &diag) < 0)
			return 1;
		if (!session_registry_is_there(&registry) || session_registry_spare(&registry) < 0)
			return 2;
		if (stat(registry.path, &named) < 0 || fstat(registry.directory, &own) < 0 ||
		    named.st_ino != own.st_ino)
			return 3;
		session_registry_close(&registry);
	}
	return 0;
}

static void processes_that_come_and_go_share_one_registry(void **state)
{
	char root[] = "/dev/shm/tributary-registry-XXXXXX", path[128];
	pid_t pids[CROWD];
	int status;

	(void)state;
	assert_non_null(mkdtemp(root));
	for (unsigned i = 0; i < CROWD; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (!pids[i])
			_exit(come_and_go(root));
	}
	for (unsigned i = 0; i < CROWD; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	snprintf(path, sizeof(path), "%s/tributary-%u", root, (unsigned)geteuid());
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(rmdir(root), 0);
}

/* At exit, while another thread of the process is in an init. */
static void what_was_withdrawn_is_not_written(void **state)
{
	struct registry_place *place = *state;
	struct session_record record;

	memset(&record, 0, sizeof(record));
	session_registry_withdraw(&place->registry);
	assert_int_equal(session_registry_write(&place->registry, 0, &record), -ESHUTDOWN);
	assert_int_equal(session_registry_overflow(&place->registry), -ESHUTDOWN);
}

#ifdef TRIBUTARY_FAULTS
/* Each call that can fail, in turn: an error, or what was asked for; never a crash, a leak or half a file. */
static void every_failure_is_reported(void **state)
{
	static const enum sys_fault_kind kinds[] = { SYS_FAULT_MEMORY, SYS_FAULT_FILE, SYS_FAULT_FILE_DATA };
	struct session_process process = process_of_job(1, 1, 0, 1);
	struct registry_place *place = *state;

	session_registry_close(&place->registry);
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		for (uint64_t nth = 1; nth < 40; nth++) {
			int r;

			sys_fault_set(kinds[kind], nth, ENOSPC);
			r = session_registry_open(place->root, &process, &place->registry, &place->diag);
			if (r == 0) {
				(void)look(place, 1);
				memset(&place->decision, 0, sizeof(place->decision));
				place->decision.comm_id = nth;
				place->decision.host = HOST;
				r = session_registry_decide(&place->registry, &place->decision, &place->diag);
				sys_fault_set(kinds[kind], 0, 0);
				if (r == 0)
					assert_int_equal(session_registry_decision(&place->registry, nth, HOST,
										   &place->decision, &place->diag),
							 0);
				session_registry_forget(&place->registry, nth, HOST);
			}
			sys_fault_set(kinds[kind], 0, 0);
			session_registry_close(&place->registry);
		}
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_is_found, place_open, place_close),
		cmocka_unit_test_setup_teardown(where_ranks_of_others_are_is_seen, place_open, place_close),
		cmocka_unit_test_setup_teardown(who_is_about_to_read_is_seen, place_open, place_close),
		cmocka_unit_test_setup_teardown(foreign_and_broken_files_do_not_mislead, place_open, place_close),
		cmocka_unit_test_setup_teardown(who_is_elsewhere_is_there_while_it_has_its_lock, place_open,
						place_close),
		cmocka_unit_test_setup_teardown(a_decision_is_made_once, place_open, place_close),
		cmocka_unit_test_setup_teardown(without_room_one_follows_and_does_not_decide, place_open, place_close),
		cmocka_unit_test_setup_teardown(decisions_are_checked, place_open, place_close),
		cmocka_unit_test_setup_teardown(evidence_is_all_of_the_job_and_each_once, place_open, place_close),
		cmocka_unit_test_setup_teardown(sockets_of_other_folders_are_seen, place_open, place_close),
		cmocka_unit_test_setup_teardown(what_was_withdrawn_is_not_written, place_open, place_close),
		cmocka_unit_test(processes_that_come_and_go_share_one_registry),
		cmocka_unit_test_setup_teardown(what_the_gone_left_is_removed_and_nothing_else, place_open,
						place_close),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test_setup_teardown(every_failure_is_reported, place_open, place_close),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
