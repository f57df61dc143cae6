/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collnet by agreement, on hosts that are unlike: real heads come together over the loopback device, tell the ranks of
 * their hosts through folders as the registry has them, and every rank makes its own choice of algorithm. A rank that
 * chooses another one than the rest would make NCCL hang.
 */
#include "plugin/steer/agreed.h"

#include "support/runtime.h"
#include "support/tree.h"
#include "tributary/predict.h"
#include "unit/aggregate/group_harness.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	HOSTS_MAX = 6,
	LOCAL_MAX = 4,
	ROUNDS = 60,
	ROUNDS_LONG = 3000,
	GROUPS_MAX = 2,
	COMM = 77,
	HOST_BPS = 50000000,
	NARROW_BPS = 12500000,
	SMALLEST_LOG2 = 3,
	LARGEST_LOG2 = 30,
};

/* A rank as its plugin is: what it has in the registry, and which of its host's registries that is. */
struct rank {
	bool registers;
	unsigned folder; /* containers of one host may have two */
	struct steer_member member;
};
struct host {
	char folders[2][64];
	int fds[2];
	size_t count;
	struct rank ranks[LOCAL_MAX];
	struct steer_audience audience;
	int fd; /* the head's */
	bool cannot_tell, has_stale;
};
struct job {
	uint64_t random, tuning; /* the number of the tables that ranks have */
	size_t host_count, rank_count;
	struct host hosts[HOSTS_MAX];
	uint64_t serials;
};

static bool one_in(struct job *job, unsigned of)
{
	return random_below(&job->random, of) == 0;
}

static void rank_make(struct job *job, struct host *host, size_t local, bool is_odd)
{
	struct rank *rank = &host->ranks[local];
	struct steer_process *process = &rank->member.process;
	struct steer_record *record = &rank->member.record;

	memset(rank, 0, sizeof(*rank));
	rank->registers = !is_odd || one_in(job, 3);
	rank->folder = is_odd && one_in(job, 3);
	record->tuning[STEER_TUNING_SEVERAL] = is_odd ? job->serials % 3 : job->tuning;
	process->identity.pid = (uint32_t)(100 + local);
	process->identity.start_ticks = ++job->serials;
	record->comm_id = COMM;
	record->serial = ++job->serials;
	record->follows = !is_odd || one_in(job, 2);
	record->used = 1;
	snprintf(record->bus_id, sizeof(record->bus_id), "0000:%02x:00.0", (unsigned)local & 0xffU);
}

static void host_make(struct job *job, struct host *host)
{
	memset(host, 0, sizeof(*host));
	for (size_t i = 0; i < 2; i++) {
		snprintf(host->folders[i], sizeof(host->folders[i]), "/dev/shm/tributary-agreed-XXXXXX");
		assert_non_null(mkdtemp(host->folders[i]));
		host->fds[i] = open(host->folders[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(host->fds[i] >= 0);
	}
	host->count = 1 + (size_t)random_below(&job->random, LOCAL_MAX);
	host->cannot_tell = one_in(job, 12);
	job->rank_count += host->count;
}

static int by_gpu(const void *left, const void *right)
{
	const struct steer_member *a = left, *b = right;

	return strcmp(a->record.bus_id, b->record.bus_id);
}

/* What the host's head finds, which is its last rank: by steer_registry_scan(). */
static void listen_to(struct host *host)
{
	struct steer_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	const struct rank *head = &host->ranks[host->count - 1];

	assert_non_null(snapshot);
	host->fd = host->fds[head->folder];
	for (size_t i = 0; head->registers && i < host->count; i++)
		if (host->ranks[i].registers && host->ranks[i].folder == head->folder)
			snapshot->members[snapshot->member_count++] = host->ranks[i].member;
	if (host->has_stale) { /* of an abandoned communicator with the same id */
		struct steer_member *stale = &snapshot->members[snapshot->member_count++];

		*stale = host->ranks[host->count - 1].member;
		stale->record.serial = UINT64_MAX;
		stale->process.overflowed = !head->registers;
	}
	qsort(snapshot->members, snapshot->member_count, sizeof(snapshot->members[0]), by_gpu);
	steer_agreed_audience(snapshot, &host->audience);
	free(snapshot);
}

static int tell(void *arg, const struct aggregate_facts *facts)
{
	struct host *host = arg;
	const struct steer_agreed agreed = { facts->gain_permille, (unsigned)facts->rank_count, facts->tuning };

	return host->cannot_tell ? -ENOSPC : steer_agreed_tell(host->fd, &host->audience, &agreed);
}

/* One group of heads, as of one card of each host. Whether it stands; it does at all or at none. */
static bool heads_agree(struct job *job, const char *leaves, uint64_t uplink_Bps)
{
	bool another_file = one_in(job, 12), stands;
	struct cluster other;
	struct params params;
	struct harness harness;
	size_t groups = 0;

	group_harness_params(&params);
	assert_int_equal(group_harness_gather(&harness, &params, leaves), 0);
	for (size_t i = 0; i < harness.cluster.host_count; i++)
		harness.hosts[i].rate_Bps = HOST_BPS;
	for (size_t i = 0; i < harness.cluster.switch_count; i++)
		harness.switches[i].up_rate_Bps = harness.switches[i].down_rate_Bps = uplink_Bps;
	if (another_file) { /* an engine reads it when its group forms */
		struct group_harness_member *odd = &harness.members[job->host_count - 1];
		struct aggregate_setup setup = group_harness_setup(&harness, job->host_count - 1);

		other = harness.cluster;
		other.fingerprint++;
		setup.cluster = &other;
		aggregate_close_listener(odd->listener);
		aggregate_close(odd->engine);
		assert_int_equal(aggregate_open(&setup, &odd->engine), 0);
		assert_int_equal(aggregate_listen(odd->engine, 0, odd->handle, &odd->listener), 0);
	}
	for (size_t i = 0; i < job->host_count; i++) {
		const struct aggregate_terms terms = { .rank_count = job->hosts[i].audience.count,
						       .tuning = job->hosts[i].audience.tuning,
						       .tell = tell,
						       .arg = &job->hosts[i] };

		aggregate_set_terms(harness.members[i].listener, &terms);
	}
	(void)group_harness_connect(&harness);
	for (size_t i = 0; i < job->host_count; i++)
		groups += harness.members[i].group != NULL;
	stands = groups > 0;
	assert_true(groups == 0 || groups == job->host_count);
	if (another_file)
		assert_false(stands);
	group_harness_close(&harness);
	return stands;
}

/* What this rank takes for an AllReduce, by NCCL's table, which is the same on all ranks. */
static int choice(const struct predict_collnet *collnet, uint64_t bytes, bool has_collnet)
{
	float costs[PREDICT_ALGORITHM_COUNT][PREDICT_PROTOCOL_COUNT];
	const struct predict_table table = { &costs[0][0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT };
	int best = PREDICT_TREE;

	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++)
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++)
			costs[a][p] = -1;
	costs[PREDICT_TREE][PREDICT_SIMPLE] = 120 + (float)bytes / 6000;
	costs[PREDICT_RING][PREDICT_SIMPLE] = 400 + (float)bytes / 9000;
	if (has_collnet)
		costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = 90 + (float)bytes / 12000;
	(void)predict_collnet_edit(collnet, PREDICT_ALLREDUCE, bytes, 1, &table);
	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++)
		if (costs[a][PREDICT_SIMPLE] >= 0 && costs[a][PREDICT_SIMPLE] < costs[best][PREDICT_SIMPLE])
			best = a;
	return best;
}

/* As the tuner's init: plugin/steer.c, steer_collnet_agreed(). */
static struct steer_agreed heard(const struct host *host, const struct rank *rank, size_t rank_count)
{
	struct steer_agreed agreed = { 0, 0, 0 };
	int r = -ENOENT;
	char id[STEER_ID_BYTES];

	steer_process_id(&rank->member.process, id);
	if (rank->registers && rank->member.record.follows) /* another tuner asks nobody */
		r = steer_agreed_hear(host->fds[rank->folder], id, rank->member.record.serial, &agreed);
	assert_true(r == 0 || r == -ENOENT);
	return r == 0 && agreed.rank_count == rank_count ? agreed : (struct steer_agreed){ 0, 0, 0 };
}

/* Returns whether all ranks take collnet for the largest operation. */
static bool all_choose_alike(const struct job *job, bool has_collnet)
{
	struct predict_collnet first, collnet;
	struct steer_agreed agreed;
	uint64_t tuning = 0;

	for (size_t h = 0; h < job->host_count; h++) {
		for (size_t i = 0; i < job->hosts[h].count; i++) {
			predict_collnet_make(job->rank_count, job->host_count, NULL, &collnet);
			/* Where there is none, whatever was told is of no account. */
			agreed = heard(&job->hosts[h], &job->hosts[h].ranks[i], job->rank_count);
			collnet.gain_permille = agreed.gain_permille;
			/* Where collnet stands, all or none follow a table; who does has it. */
			if (h == 0 && i == 0)
				tuning = agreed.tuning;
			assert_true(agreed.tuning == tuning || !has_collnet);
			if (agreed.tuning)
				assert_true(job->hosts[h].ranks[i].member.record.tuning[STEER_TUNING_SEVERAL] ==
					    agreed.tuning);
			if (h == 0 && i == 0)
				first = collnet;
			for (int log2 = SMALLEST_LOG2; log2 <= LARGEST_LOG2; log2++)
				assert_int_equal(choice(&collnet, UINT64_C(1) << log2, has_collnet),
						 choice(&first, UINT64_C(1) << log2, has_collnet));
		}
	}
	return choice(&first, UINT64_C(1) << LARGEST_LOG2, has_collnet) == PREDICT_COLLNET_CHAIN;
}

static void job_end(struct job *job)
{
	char id[STEER_ID_BYTES];

	for (size_t h = 0; h < job->host_count; h++) {
		struct host *host = &job->hosts[h];

		for (size_t f = 0; f < 2; f++) {
			for (size_t i = 0; i < host->count; i++) {
				steer_process_id(&host->ranks[i].member.process, id);
				steer_agreed_forget(host->fds[f], id, host->ranks[i].member.record.serial);
			}
			steer_agreed_forget(host->fds[f], id, UINT64_MAX); /* the head's stale one */
			assert_int_equal(rmdir(host->folders[f]), 0);      /* nothing is left */
			close(host->fds[f]);
		}
	}
}

static bool one_job(struct job *job, bool are_alike, uint64_t uplink_Bps)
{
	size_t group_count = 1 + (size_t)random_below(&job->random, GROUPS_MAX);
	char leaves[HOSTS_MAX + 1] = "";
	bool has_collnet = true, takes;
	size_t odd;

	job->host_count = 3 + (size_t)random_below(&job->random, HOSTS_MAX - 2);
	job->rank_count = 0;
	job->tuning = job->serials % 3;
	odd = (size_t)random_below(&job->random, job->host_count + 2);
	for (size_t h = 0; h < job->host_count; h++) {
		leaves[h] = h < job->host_count / 2 ? 'a' : 'b';
		host_make(job, &job->hosts[h]);
		job->hosts[h].cannot_tell &= !are_alike;
		for (size_t i = 0; i < job->hosts[h].count; i++)
			rank_make(job, &job->hosts[h], i, !are_alike && (h == odd ? i == 0 : one_in(job, 40)));
		job->hosts[h].has_stale = h == odd && !are_alike && one_in(job, 2);
		listen_to(&job->hosts[h]);
	}
	for (size_t g = 0; g < group_count && has_collnet; g++)
		has_collnet = heads_agree(job, leaves, g ? NARROW_BPS : uplink_Bps);
	takes = all_choose_alike(job, has_collnet);
	job_end(job);
	return takes;
}

static void unlike_hosts_choose_alike(void **state)
{
	unsigned rounds = runtime_long() ? ROUNDS_LONG : ROUNDS, taken = 0;
	struct job *job = calloc(1, sizeof(*job));

	(void)state;
	assert_non_null(job);
	job->random = 20251125;
	for (unsigned i = 0; i < rounds; i++) {
		/* In statements of their own: in which order arguments are evaluated is the compiler's choice. */
		const bool is_wide = one_in(job, 8), are_alike = one_in(job, 3);

		taken += one_job(job, are_alike, is_wide ? HOST_BPS * 8 : NARROW_BPS);
	}
	free(job);
	assert_true(taken > rounds / 10 && taken < rounds); /* both kinds were tried */
}

static void hosts_that_are_alike_take_it_where_it_gains(void **state)
{
	struct job *job = calloc(1, sizeof(*job));

	(void)state;
	assert_non_null(job);
	job->random = 7;
	for (unsigned i = 0; i < 4; i++) {
		/* Groups with several cards have the lesser gain. */
		assert_false(one_job(job, true, (uint64_t)HOST_BPS * 8));
	}
	free(job);
}

/* A link that is not one of ours is no agreement, and one whose folder is gone may have been. */
static void what_cannot_be_heard_is_an_error(void **state)
{
	char folder[] = "/dev/shm/tributary-agreed-XXXXXX";
	struct steer_audience audience = { .count = 1, .at = { { .id = "id-of-one", .serial = 2 } } };
	struct steer_agreed agreed = { 1750, 8, UINT64_MAX };
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(steer_agreed_hear(fd, "id-of-one", 2, &agreed), -ENOENT);
	assert_int_equal(steer_agreed_tell(fd, &audience, &agreed), 0);
	agreed = (struct steer_agreed){ 0, 0, 0 };
	assert_int_equal(steer_agreed_hear(fd, "id-of-one", 2, &agreed), 0);
	assert_true(agreed.gain_permille == 1750 && agreed.rank_count == 8 && agreed.tuning == UINT64_MAX);
	assert_int_equal(steer_agreed_hear(fd, "id-of-one", 3, &agreed), -ENOENT);
	agreed = (struct steer_agreed){ 1600, 8, UINT64_MAX };
	assert_int_equal(steer_agreed_tell(fd, &audience, &agreed), 0);
	agreed.gain_permille = 1900;
	agreed.tuning = 9;
	assert_int_equal(steer_agreed_tell(fd, &audience, &agreed), 0);
	assert_int_equal(steer_agreed_hear(fd, "id-of-one", 2, &agreed), 0);
	assert_int_equal(agreed.gain_permille, 1600);
	assert_true(agreed.tuning == 0);
	agreed.rank_count = 9;
	assert_int_equal(steer_agreed_tell(fd, &audience, &agreed), 0);
	assert_int_equal(steer_agreed_hear(fd, "id-of-one", 2, &agreed), 0);
	assert_int_equal(agreed.rank_count, 0);
	steer_agreed_forget(fd, "id-of-one", 2);
	assert_int_equal(symlinkat("nonsense", fd, "a-id-of-one-2"), 0);
	assert_int_equal(steer_agreed_hear(fd, "id-of-one", 2, &agreed), -EINVAL);
	tree_remove(folder);
	assert_int_equal(steer_agreed_hear(fd, "id-of-one", 2, &agreed), -ESTALE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unlike_hosts_choose_alike),
		cmocka_unit_test(hosts_that_are_alike_take_it_where_it_gains),
		cmocka_unit_test(what_cannot_be_heard_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
