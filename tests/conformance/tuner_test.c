/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built library's tuner tables, versions 2 to 6, as NCCL drives them. No plan is published here, so whatever the
 * table of costs looks like it must come back bit for bit, and nothing may fail: a tuner's error is the user's.
 */
#include "plugin_ops.h"

#include "nccl/tuner_v2.h"
#include "nccl/tuner_v3.h"
#include "nccl/tuner_v4.h"
#include "nccl/tuner_v5.h"
#include "nccl/tuner_v6.h"
#include "support/log_lines.h"
#include "support/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { OLDEST = 2, NEWEST = 6, ALGORITHMS_MAX = 12, PROTOCOLS_MAX = 5, GUARD = 8, THREADS = 4, ROUNDS = 2000 };
enum { COSTS = ALGORITHMS_MAX * PROTOCOLS_MAX, CHANNELS_BEFORE = -77 };

static struct {
	const struct nccl_tuner_v2 *v2;
	const struct nccl_tuner_v3 *v3;
	const struct nccl_tuner_v4 *v4;
	const struct nccl_tuner_v5 *v5;
	const struct nccl_tuner_v6 *v6;
} tables;

/* One question, whatever version it is asked in. */
struct question {
	int func, pipe_ops, algorithms, protocols;
	size_t bytes;
	float guarded[GUARD + COSTS + GUARD];
	int channels, algorithm, protocol;
};

static void ask_random(uint64_t *random, struct question *ret)
{
	static const int shapes[][2] = {
		{ 7, 3 }, { 7, 3 }, { 6, 3 }, { 7, 4 }, { 12, 5 }, { 1, 1 }, { 0, 0 }, { 3, 2 }
	};
	size_t shape = random_below(random, sizeof(shapes) / sizeof(shapes[0]));

	*ret = (struct question){
		.func = (int)random_below(random, 12) - 2,
		.pipe_ops = (int)random_below(random, 40) - 2,
		.algorithms = shapes[shape][0],
		.protocols = shapes[shape][1],
		.bytes = (size_t)(random_next(random) >> random_below(random, 64)),
		.channels = CHANNELS_BEFORE,
		.algorithm = -1,
		.protocol = -1,
	};
	for (size_t i = 0; i < sizeof(ret->guarded) / sizeof(float); i++) {
		uint32_t bits = (uint32_t)random_next(random);

		if (random_below(random, 3) == 0)
			ret->guarded[i] = -1;
		else if (random_below(random, 8) == 0)
			memcpy(&ret->guarded[i], &bits, sizeof(bits)); /* anything, NaN too */
		else
			ret->guarded[i] = (float)random_below(random, 1000000) / 64;
	}
}

static enum nccl_result ask(int version, void *context, struct question *question)
{
	float **costs = (float **)(void *)(question->guarded + GUARD);
	enum nccl_func func = (enum nccl_func)question->func;

	switch (version) {
	case 2:
		return tables.v2->getCollInfo(context, func, question->bytes, 0, 1, question->pipe_ops,
					      &question->algorithm, &question->protocol, &question->channels);
	case 3:
		return tables.v3->getCollInfo(context, func, question->bytes, question->pipe_ops, costs,
					      question->algorithms, question->protocols, &question->channels);
	case 4:
		return tables.v4->getCollInfo(context, func, question->bytes, question->pipe_ops, costs,
					      question->algorithms, question->protocols, 1, &question->channels);
	case 5:
		return tables.v5->getCollInfo(context, func, question->bytes, question->pipe_ops, costs,
					      question->algorithms, question->protocols, 0, &question->channels);
	default:
		return tables.v6->getCollInfo(context, func, question->bytes, question->pipe_ops, costs,
					      question->algorithms, question->protocols, 0, &question->channels);
	}
}

static enum nccl_result begin(int version, uint64_t comm_id, size_t ranks, size_t nodes,
			      struct nccl_tuner_constants_v5 *constants, void **ret_context)
{
	struct nccl_tuner_nvl_domain_v5 domain = { 1, (int)ranks, (int)ranks };

	switch (version) {
	case 2:
		return tables.v2->init(ranks, nodes, log_lines_ignore, ret_context);
	case 3:
		return tables.v3->init(ranks, nodes, log_lines_ignore, ret_context);
	case 4:
		return tables.v4->init(ranks, nodes, log_lines_ignore, ret_context);
	case 5:
		return tables.v5->init(ret_context, comm_id, ranks, nodes, log_lines_ignore, &domain, constants);
	default:
		return tables.v6->init(ret_context, comm_id, ranks, nodes, log_lines_ignore, &domain, constants);
	}
}

static enum nccl_result end(int version, void *context)
{
	switch (version) {
	case 2:
		return tables.v2->destroy(context);
	case 3:
		return tables.v3->destroy(context);
	case 4:
		return tables.v4->destroy(context);
	case 5:
		return tables.v5->finalize(context);
	default:
		return tables.v6->finalize(context);
	}
}

/* Of what NCCL gives to collnet collnet's entries may change, if they are allowed, and nothing else. */
static void forgive_collnet(const struct question *before, struct question *after)
{
	static const int entries[] = { NCCL_ALGO_COLLNET_DIRECT_ID * NCCL_PROTO_COUNT + NCCL_PROTO_SIMPLE_ID,
				       NCCL_ALGO_COLLNET_CHAIN_ID * NCCL_PROTO_COUNT + NCCL_PROTO_SIMPLE_ID };

	if ((before->func != NCCL_FUNC_ALLREDUCE && before->func != NCCL_FUNC_ALLGATHER &&
	     before->func != NCCL_FUNC_REDUCESCATTER) ||
	    before->protocols != NCCL_PROTO_COUNT || before->algorithms <= NCCL_ALGO_COLLNET_CHAIN_ID)
		return;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (before->guarded[GUARD + entries[i]] >= 0 && after->guarded[GUARD + entries[i]] >= 0)
			after->guarded[GUARD + entries[i]] = before->guarded[GUARD + entries[i]];
}

/* True if all of it came back as it was, errno too. */
static bool unchanged(int version, void *context, struct question *question)
{
	struct question before = *question;
	enum nccl_result r;

	errno = 77;
	r = ask(version, context, question);
	forgive_collnet(&before, question);
	return r == NCCL_SUCCESS && errno == 77 && question->channels == before.channels &&
	       question->algorithm == before.algorithm && question->protocol == before.protocol &&
	       memcmp(before.guarded, question->guarded, sizeof(before.guarded)) == 0;
}

static void every_table_is_whole_and_named(void **state)
{
	(void)state;
	assert_non_null(tables.v2->name);
	assert_string_equal(tables.v2->name, tables.v6->name);
	assert_string_equal(tables.v3->name, tables.v6->name);
	assert_string_equal(tables.v4->name, tables.v6->name);
	assert_string_equal(tables.v5->name, tables.v6->name);
	assert_non_null(tables.v6->getChunkSize);
}

static void costs_come_back_as_they_were(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	for (int version = OLDEST; version <= NEWEST; version++) {
		for (int i = 0; i < ROUNDS; i++) {
			size_t nodes = 1 + random_below(&random, 4);
			size_t ranks = nodes * (1 + random_below(&random, 8));
			struct nccl_tuner_constants_v5 constants, before;
			struct question question;
			void *context = (void *)1;

			memset(&constants, (int)random_below(&random, 256), sizeof(constants));
			before = constants;
			assert_int_equal(begin(version, random_next(&random), ranks, nodes,
					       random_below(&random, 8) ? &constants : NULL, &context),
					 NCCL_SUCCESS);
			assert_memory_equal(&constants, &before, sizeof(before));
			for (int j = 0; j < 4; j++) {
				ask_random(&random, &question);
				assert_true(unchanged(version, context, &question));
			}
			assert_int_equal(end(version, context), NCCL_SUCCESS);
		}
	}
}

static void chunks_are_no_longer_than_the_operation(void **state)
{
	uint64_t random = runtime_seed();
	unsigned shortened = 0;
	void *context = NULL;

	(void)state;
	assert_int_equal(begin(6, 5, 4, 1, NULL, &context), NCCL_SUCCESS);
	for (int i = 0; i < ROUNDS; i++) {
		size_t bytes = (size_t)random_next(&random) >> random_below(&random, 64);
		size_t chunk_bytes = (size_t)random_next(&random) >> random_below(&random, 64), before = chunk_bytes;
		int func = (int)random_below(&random, 12), algorithm = (int)random_below(&random, 9);
		int protocol = (int)random_below(&random, 4);

		if (i % 2) {
			func = NCCL_FUNC_ALLREDUCE;
			algorithm = NCCL_ALGO_COLLNET_CHAIN_ID;
			protocol = NCCL_PROTO_SIMPLE_ID;
		}
		assert_int_equal(tables.v6->getChunkSize(context, (enum nccl_func)func, bytes, algorithm, protocol,
							 (int)random_below(&random, 65), &chunk_bytes),
				 NCCL_SUCCESS);
		if (chunk_bytes == before)
			continue;
		shortened++;
		assert_true(func == NCCL_FUNC_ALLREDUCE && algorithm == NCCL_ALGO_COLLNET_CHAIN_ID &&
			    protocol == NCCL_PROTO_SIMPLE_ID);
		assert_true(chunk_bytes < before && chunk_bytes >= bytes && chunk_bytes < bytes + 512 &&
			    chunk_bytes % 512 == 0);
	}
	assert_true(shortened > ROUNDS / 8);
	assert_int_equal(end(6, context), NCCL_SUCCESS);
}

struct worker {
	unsigned number;
	bool good;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint64_t random = runtime_seed() + worker->number;

	worker->good = true;
	for (int i = 0; i < ROUNDS / 4; i++) {
		int version = OLDEST + (int)random_below(&random, NEWEST - OLDEST + 1);
		struct nccl_tuner_constants_v5 constants = { .llMaxBws = { { 1 } } };
		struct question question;
		void *context = NULL;

		ask_random(&random, &question);
		if (begin(version, random_below(&random, 3), 8, 1, &constants, &context) != NCCL_SUCCESS ||
		    !unchanged(version, context, &question) || end(version, context) != NCCL_SUCCESS)
			worker->good = false;
	}
	return NULL;
}

static void communicators_of_several_threads_do_not_disturb_each_other(void **state)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].number = i;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_true(workers[i].good);
	}
}

/* A data loader that was forked with a communicator in its memory. */
static void a_forked_child_changes_nothing_and_does_not_fail(void **state)
{
	void *context = NULL, *other = NULL;
	struct question question;
	uint64_t random = runtime_seed();
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(begin(5, 9, 4, 1, NULL, &context), NCCL_SUCCESS);
	ask_random(&random, &question);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool good = unchanged(5, context, &question) && begin(6, 10, 4, 1, NULL, &other) == NCCL_SUCCESS &&
			    end(6, other) == NCCL_SUCCESS && end(5, context) == NCCL_SUCCESS;

		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(end(5, context), NCCL_SUCCESS);
}

static void nothing_is_left_open(void **state)
{
	unsigned before = runtime_fd_count();
	void *context = NULL;

	(void)state;
	for (int version = OLDEST; version <= NEWEST; version++) {
		assert_int_equal(begin(version, 11, 4, 1, NULL, &context), NCCL_SUCCESS);
		assert_int_equal(end(version, context), NCCL_SUCCESS);
	}
	assert_int_equal(runtime_fd_count(), before);
}

static int find_tables(void **state)
{
	void *library = dlopen(plugin_ops_path(), RTLD_NOW | RTLD_LOCAL);

	(void)state;
	if (!library)
		return runtime_complain(ENOENT, "%s", dlerror());
	tables.v2 = dlsym(library, "ncclTunerPlugin_v2");
	tables.v3 = dlsym(library, "ncclTunerPlugin_v3");
	tables.v4 = dlsym(library, "ncclTunerPlugin_v4");
	tables.v5 = dlsym(library, "ncclTunerPlugin_v5");
	tables.v6 = dlsym(library, "ncclTunerPlugin_v6");
	return tables.v2 && tables.v3 && tables.v4 && tables.v5 && tables.v6 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_table_is_whole_and_named),
		cmocka_unit_test(costs_come_back_as_they_were),
		cmocka_unit_test(chunks_are_no_longer_than_the_operation),
		cmocka_unit_test(communicators_of_several_threads_do_not_disturb_each_other),
		cmocka_unit_test(a_forked_child_changes_nothing_and_does_not_fail),
		cmocka_unit_test(nothing_is_left_open),
	};

	runtime_start("tuner", 120);
	return cmocka_run_group_tests_name("conformance/tuner", tests, find_tables, NULL);
}
