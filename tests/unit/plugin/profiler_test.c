/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler half as NCCL drives it, through every version's table, against counts kept beside it. */
#include "plugin/profiler.h"

#include "nccl/profiler.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "profile/operations.h"
#include "profile/tuning.h"
#include "support/log_lines.h"
#include "support/runtime.h"

#include "base/sys.h"

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

extern const struct nccl_profiler_v1 ncclProfiler_v1;
extern const struct nccl_profiler_v2 ncclProfiler_v2;
extern const struct nccl_profiler_v3 ncclProfiler_v3;
extern const struct nccl_profiler_v4 ncclProfiler_v4;
extern const struct nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

enum { OLDEST = 1, NEWEST = 6, KINDS = 7, RANKS = 4, THREADS = 2 };
#define COUNT_EVENTS (NCCL_PROFILER_COLL | NCCL_PROFILER_P2P)

static int mask;
static uint64_t now_ns;

/* What NCCL runs, in its own words and numbers. */
static const struct {
	const char *name;
	uint8_t func;
	int collective;
} kinds[KINDS] = {
	{ "AllReduce", 4, PREDICT_ALLREDUCE },
	{ "AllGather", 2, PREDICT_ALLGATHER },
	{ "ReduceScatter", 3, PREDICT_REDUCESCATTER },
	{ "Broadcast", 0, PREDICT_BROADCAST },
	{ "Reduce", 1, PREDICT_REDUCE },
	{ "Send", 6, OPERATIONS_SEND },
	{ "Recv", 7, OPERATIONS_RECV },
};
static const char *const algorithms[] = {
	"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"
};
static const char *const protocols[] = { "LL", "LL128", "SIMPLE" };
static const struct {
	const char *name;
	uint8_t number;
	unsigned bytes;
} types[] = { { "ncclFloat32", NCCL_FLOAT32, 4 },
	      { "ncclBfloat16", NCCL_BFLOAT16, 2 },
	      { "Unknown", NCCL_UINT8, 1 },
	      { "ncclFloat64", NCCL_FLOAT64, 8 } };

struct operation {
	unsigned kind, algorithm, protocol, type, channels;
	size_t count;
	bool captured, untold; /* untold: a broadcast of NCCL 2.30, of which only the call is told */
};

static bool is_p2p(const struct operation *operation)
{
	return operation->kind >= 5;
}

/* ----------------------------------------------------------------------------------------------------------- as NCCL */

static enum nccl_result begin_comm(int version, uint64_t id, int ranks, int rank, void **ret)
{
	switch (version) {
	case 1:
		return ncclProfiler_v1.init(ret, &mask);
	case 2:
		return ncclProfiler_v2.init(ret, &mask);
	case 3:
		return ncclProfiler_v3.init(ret, &mask);
	case 4:
		return ncclProfiler_v4.init(ret, &mask, "name", id, 1, ranks, rank, log_lines_ignore);
	case 5:
		return ncclProfiler_v5.init(ret, id, &mask, NULL, 1, ranks, rank, log_lines_ignore);
	default:
		return ncclProfiler_v6.init(ret, id, &mask, NULL, 1, ranks, rank, log_lines_ignore);
	}
}

static const struct nccl_profiler_v5 *table_of(int version)
{
	return version == 6 ? &ncclProfiler_v6 : &ncclProfiler_v5;
}

#define FILL(event, operation, number_of_channels)                                \
	do {                                                                      \
		(event).coll.func = kinds[(operation)->kind].name;                \
		(event).coll.datatype = types[(operation)->type].name;            \
		(event).coll.algo = algorithms[(operation)->algorithm];           \
		(event).coll.proto = protocols[(operation)->protocol];            \
		(event).coll.count = (operation)->count;                          \
		(event).coll.number_of_channels = (uint8_t)(operation)->channels; \
		if (!is_p2p(operation))                                           \
			break;                                                    \
		memset(&(event).coll, 0, sizeof((event).coll));                   \
		(event).type = NCCL_PROFILER_P2P;                                 \
		(event).p2p.func = kinds[(operation)->kind].name;                 \
		(event).p2p.datatype = types[(operation)->type].name;             \
		(event).p2p.count = (operation)->count;                           \
	} while (0)

static void start_v1(void *context, const struct operation *operation, void **handle)
{
	struct nccl_profiler_event_v1 event = { .type = NCCL_PROFILER_COLL };

	if (is_p2p(operation)) {
		event.type = NCCL_PROFILER_P2P;
		event.p2p.func = kinds[operation->kind].func;
		event.p2p.datatype = types[operation->type].number;
		event.p2p.count = operation->count;
	} else {
		event.coll.func = kinds[operation->kind].func;
		event.coll.datatype = types[operation->type].number;
		event.coll.algo = (uint8_t)operation->algorithm;
		event.coll.proto = (uint8_t)operation->protocol;
		event.coll.count = operation->count;
		event.coll.nMaxChannels = (uint8_t)operation->channels;
	}
	assert_int_equal(ncclProfiler_v1.startEvent(context, handle, &event), NCCL_SUCCESS);
}

static void start_v2_4(int version, void *context, const struct operation *operation, void **handle)
{
	struct nccl_profiler_event_v2 v2 = { .type = NCCL_PROFILER_COLL };
	struct nccl_profiler_event_v3 v3 = { .type = NCCL_PROFILER_COLL };
	struct nccl_profiler_event_v4 v4 = { .type = NCCL_PROFILER_COLL };

	FILL(v2, operation, nMaxChannels);
	FILL(v3, operation, nMaxChannels);
	FILL(v4, operation, nChannels);
	if (is_p2p(operation))
		v4.p2p.nChannels = (uint8_t)operation->channels;
	assert_int_equal(version == 2   ? ncclProfiler_v2.startEvent(context, handle, &v2)
			 : version == 3 ? ncclProfiler_v3.startEvent(context, handle, &v3)
					: ncclProfiler_v4.startEvent(context, handle, &v4),
			 NCCL_SUCCESS);
}

/* Groups and calls come first, as from NCCL 2.28 on. */
static void start_v5(int version, void *context, const struct operation *operation, void **handle)
{
	struct nccl_profiler_event_v5 event = { .type = NCCL_PROFILER_GROUP_API };
	void *call = &event, *group = &event;

	event.groupApi.graphCaptured = operation->captured;
	assert_int_equal(table_of(version)->startEvent(context, &group, &event), NCCL_SUCCESS);
	assert_null(group);
	memset(&event, 0, sizeof(event));
	event.type = is_p2p(operation) ? NCCL_PROFILER_P2P_API : NCCL_PROFILER_COLL_API;
	if (is_p2p(operation)) {
		event.p2pApi.graphCaptured = operation->captured;
	} else {
		event.collApi.func = kinds[operation->kind].name;
		event.collApi.datatype = types[operation->type].name;
		event.collApi.count = operation->count;
		event.collApi.graphCaptured = operation->captured;
	}
	assert_int_equal(table_of(version)->startEvent(context, &call, &event), NCCL_SUCCESS);
	assert_int_equal(table_of(version)->stopEvent(call), NCCL_SUCCESS);
	*handle = NULL;
	if (operation->untold)
		return;
	memset(&event, 0, sizeof(event));
	event.type = NCCL_PROFILER_COLL;
	FILL(event, operation, nChannels);
	if (is_p2p(operation))
		event.p2p.nChannels = (uint8_t)operation->channels;
	event.parentObj = call;
	assert_int_equal(table_of(version)->startEvent(context, handle, &event), NCCL_SUCCESS);
}

static void *start(int version, void *context, const struct operation *operation)
{
	void *handle = (void *)(uintptr_t)0xdead;

	if (version == 1)
		start_v1(context, operation, &handle);
	else if (version < 5)
		start_v2_4(version, context, operation, &handle);
	else
		start_v5(version, context, operation, &handle);
	return handle;
}

static void end_comm(int version, void *context)
{
	assert_int_equal((version < 5 ? ncclProfiler_v1.finalize : table_of(version)->finalize)(context), NCCL_SUCCESS);
}

static void *channel(int version, void *context, void *parent, uint64_t gpu_ns)
{
	struct nccl_profiler_event_v5 event = { .type = NCCL_PROFILER_KERNEL_CH, .parentObj = parent };
	void *handle = &event;

	event.kernelCh.pTimer = gpu_ns;
	assert_int_equal(table_of(version)->startEvent(context, &handle, &event), NCCL_SUCCESS);
	return handle;
}

static void channel_end(int version, void *handle, uint64_t gpu_ns)
{
	union nccl_profiler_args_v5 args = { .kernelCh = { gpu_ns } };

	if (!handle)
		return;
	assert_int_equal(table_of(version)->recordEventState(handle, NCCL_PROFILER_KERNEL_CH_STOP, &args),
			 NCCL_SUCCESS);
	assert_int_equal(table_of(version)->stopEvent(handle), NCCL_SUCCESS);
}

/* ------------------------------------------------------------------------------------------------------------ the model */

/* Of each kind and size class, whatever the rest. */
struct model {
	uint64_t count[KINDS][65], bytes[KINDS][65], captured;
};

static void model_add(struct model *model, int version, const struct operation *operation)
{
	uint64_t bytes = (uint64_t)operation->count * types[operation->type].bytes;

	if (operation->captured && version >= 5) {
		model->captured++;
		return;
	}
	if ((operation->kind == 1 || operation->kind == 2) && version >= 4)
		bytes *= RANKS;
	model->count[operation->kind][tuning_size_class(bytes)]++;
	model->bytes[operation->kind][tuning_size_class(bytes)] += bytes;
}

static void model_take(void *arg, const struct operations_line *line)
{
	struct model *model = arg;
	unsigned kind = 0;

	while (kinds[kind].collective != line->collective)
		kind++;
	model->count[kind][line->size_class] -= line->count;
	model->bytes[kind][line->size_class] -= line->bytes;
}

/* All that was counted is in the model, and the other way round. */
static void model_check(struct model *model)
{
	static const struct model empty;
	struct operations_head head;

	operations_head(plugin_profiler_operations(), &head);
	operations_each(plugin_profiler_operations(), model_take, model);
	model->captured -= head.captured;
	assert_int_equal(head.lost, 0);
	assert_memory_equal(model, &empty, sizeof(empty));
}

static struct operation random_operation(uint64_t *random)
{
	struct operation operation = {
		.kind = (unsigned)random_below(random, KINDS),
		.algorithm = (unsigned)random_below(random, PREDICT_ALGORITHM_COUNT),
		.protocol = (unsigned)random_below(random, PREDICT_PROTOCOL_COUNT),
		.type = (unsigned)random_below(random, sizeof(types) / sizeof(types[0])),
		.channels = (unsigned)random_below(random, 3),
		.count = (size_t)(random_next(random) >> (24 + random_below(random, 40))),
		.captured = random_below(random, 8) == 0,
	};

	operation.untold = operation.kind == 3 && random_below(random, 2);
	return operation;
}

/* ---------------------------------------------------------------------------------------------------------------- tests */

static void begin(const char *choice)
{
	setenv("TRIBUTARY_PROFILER", choice, 1);
	now_ns = 1000 * NS_PER_S;
	clock_set_fake(&now_ns);
	mask = 0;
#ifdef TRIBUTARY_FAULTS
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
#endif
	plugin_profiler_reset();
	steer_reset(NULL, "");
	plugin_state_reset(NULL, NULL);
}

static uint64_t sampled_count, sampled_ns;

static void add_samples(void *arg, const struct operations_line *line)
{
	(void)arg;
	sampled_count += line->sampled;
	sampled_ns += line->sampled_ns;
}

static void count_samples(void)
{
	sampled_count = sampled_ns = 0;
	operations_each(plugin_profiler_operations(), add_samples, NULL);
}

static enum operations_times times(void)
{
	struct operations_head head;

	operations_head(plugin_profiler_operations(), &head);
	return head.times;
}

static void every_version_counts_what_ran(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	for (int version = OLDEST; version <= NEWEST; version++) {
		static struct model model;
		void *comms[3];

		begin("count");
		memset(&model, 0, sizeof(model));
		for (int i = 0; i < 3; i++)
			assert_int_equal(begin_comm(version, (uint64_t)i + 1, RANKS, i, &comms[i]), NCCL_SUCCESS);
		assert_int_equal(mask, COUNT_EVENTS | (version == 6 ? NCCL_PROFILER_CE_COLL : 0));
		for (unsigned i = 0; i < 1000; i++) {
			struct operation operation = random_operation(&random);

			operation.untold = operation.untold && version >= 5;
			errno = 77;
			assert_null(start(version, comms[random_below(&random, 3)], &operation));
			assert_int_equal(errno, 77);
			model_add(&model, version, &operation);
		}
		for (int i = 0; i < 3; i++)
			end_comm(version, comms[i]);
		model_check(&model);
	}
}

static void off_asks_nccl_for_nothing(void **state)
{
	const struct operation operation = { .count = 8 };
	void *comm = &mask;

	(void)state;
	begin("off");
	for (int version = OLDEST; version <= NEWEST; version++) {
		assert_int_equal(begin_comm(version, 1, RANKS, 0, &comm), NCCL_SUCCESS);
		assert_null(comm);
		assert_null(start(version, NULL, &operation)); /* of a communicator beside one that is counted */
		end_comm(version, NULL);
	}
	assert_int_equal(mask, 0);
	assert_null(plugin_profiler_operations());
}

static void without_memory_nothing_is_counted_and_nothing_fails(void **state)
{
#ifdef TRIBUTARY_FAULTS
	void *comm = &mask;

	(void)state;
	begin("count");
	sys_fault_set(SYS_FAULT_MEMORY, 1, ENOMEM); /* neither in shared memory nor of its own */
	sys_fault_set_again(SYS_FAULT_MEMORY, 1);
	assert_int_equal(begin_comm(6, 1, RANKS, 0, &comm), NCCL_SUCCESS);
	assert_null(comm);
	assert_int_equal(mask, 0);
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_int_equal(begin_comm(6, 1, RANKS, 0, &comm), NCCL_SUCCESS);
	assert_non_null(comm);
	end_comm(6, comm);
#else
	(void)state;
	printf("skipped: faults are injected by make check-faults\n");
	skip();
#endif
}

static void count_into(void *arg, const struct operations_line *line)
{
	*(uint64_t *)arg += line->count;
}

static void communicators_for_which_there_is_no_room_are_lost(void **state)
{
	const struct operation operation = { .count = 8 };
	void *comms[OPERATIONS_COMMS + 3];
	struct operations_head head;
	uint64_t count = 0;

	(void)state;
	begin("count");
	for (int i = 0; i < OPERATIONS_COMMS + 3; i++) {
		assert_int_equal(begin_comm(5, (uint64_t)i, RANKS, 0, &comms[i]), NCCL_SUCCESS);
		assert_null(start(5, comms[i], &operation));
	}
	operations_head(plugin_profiler_operations(), &head);
	operations_each(plugin_profiler_operations(), count_into, &count);
	assert_int_equal(head.lost, 3);
	assert_int_equal(count, OPERATIONS_COMMS);
	for (int i = 0; i < OPERATIONS_COMMS + 3; i++)
		end_comm(5, comms[i]);
}

static void rows_for_which_there_is_no_room_are_lost(void **state)
{
	uint64_t random = runtime_seed(), count = 0;
	struct operations_head head;
	void *comm;

	(void)state;
	begin("count");
	assert_int_equal(begin_comm(5, 1, RANKS, 0, &comm), NCCL_SUCCESS);
	for (unsigned i = 0; i < 20 * OPERATIONS_ROWS; i++) {
		struct operation operation = random_operation(&random);

		operation.channels = (unsigned)random_below(&random, 64);
		operation.captured = false;
		(void)start(5, comm, &operation);
	}
	operations_head(plugin_profiler_operations(), &head);
	operations_each(plugin_profiler_operations(), count_into, &count);
	assert_true(head.lost > 0);
	assert_int_equal(head.lost + count, 20 * OPERATIONS_ROWS);
	end_comm(5, comm);
}

/* A job that makes one after another. */
static void communicators_of_one_shape_follow_each_other(void **state)
{
	const struct operation operation = { .count = 8 };
	const struct operations *operations;
	void *comm;

	(void)state;
	begin("count");
	for (unsigned i = 1; i <= 10 * OPERATIONS_COMMS; i++) {
		assert_int_equal(begin_comm(4, i, RANKS, 1, &comm), NCCL_SUCCESS);
		assert_null(start(4, comm, &operation));
		end_comm(4, comm);
	}
	operations = plugin_profiler_operations();
	assert_int_equal(operations->row_count, 1);
	assert_int_equal(operations->lost, 0);
	assert_int_equal(operations->comms[0].communicators, 10 * OPERATIONS_COMMS);
	assert_int_equal(operations->comms[0].last_id, 10 * OPERATIONS_COMMS);
}

/* An operation of so many channels, whose ends come in another order and of which the first takes ns. */
static void time_operation(int version, void *comm, const struct operation *operation, uint64_t ns)
{
	void *handle = start(version, comm, operation), *channels[3];

	for (unsigned i = 0; i < operation->channels; i++)
		channels[i] = channel(version, comm, handle, 5000 + i);
	for (unsigned i = operation->channels; i-- > 0;)
		channel_end(version, channels[i], 5000 + ns - i);
	(void)table_of(version)->stopEvent(handle);
}

static void times_are_those_of_windows(void **state)
{
	const struct operation operation = { .count = 1000, .channels = 3, .algorithm = 1 };

	(void)state;
	for (int version = 5; version <= NEWEST; version++) {
		const int base = COUNT_EVENTS | (version == 6 ? NCCL_PROFILER_CE_COLL : 0);
		const int both = base | NCCL_PROFILER_KERNEL_CH;
		uint64_t expected = 0;
		void *comm;

		begin("time");
		assert_int_equal(begin_comm(version, 1, RANKS, 0, &comm), NCCL_SUCCESS);
		assert_int_equal(times(), OPERATIONS_TIMES_ON);
		for (uint64_t ms = 0; ms < 200000; ms += 100) {
			const uint64_t since = ms < 10000 ? 60000 : (ms - 10000) % 60000;

			now_ns = 1000 * NS_PER_S + ms * NS_PER_MS;
			time_operation(version, comm, &operation, 700);
			assert_int_equal(mask, since < 1000 ? both : base);
			expected += since < 1000;
		}
		count_samples();
		expected -= 2; /* the first two, in which NCCL connects */
		assert_int_equal(sampled_count, expected);
		assert_int_equal(sampled_ns, expected * 700);
		end_comm(version, comm);
		assert_int_equal(mask, base);
	}
}

/* NCCL connects in it; and in 2.30 it tells nothing of how broadcasts run. */
static void a_window_without_samples_goes_on_once(void **state)
{
	const struct operation operation = { .count = 1000, .channels = 1 };
	const struct operation broadcast = { .kind = 3, .count = 1000, .untold = true };
	void *comm;

	(void)state;
	begin("time");
	assert_int_equal(begin_comm(6, 1, RANKS, 0, &comm), NCCL_SUCCESS);
	now_ns += PLUGIN_PROFILER_FIRST_NS;
	time_operation(6, comm, &operation, 10);
	now_ns += 2 * PLUGIN_PROFILER_WINDOW_NS;
	for (unsigned i = 0; i < 3; i++)
		time_operation(6, comm, &operation, 10);
	count_samples();
	assert_int_equal(sampled_count, 2);
	now_ns += PLUGIN_PROFILER_WINDOW_NS;
	time_operation(6, comm, &operation, 10);
	assert_false(mask & NCCL_PROFILER_KERNEL_CH);
	now_ns += PLUGIN_PROFILER_PERIOD_NS;
	for (unsigned i = 0; i < 3; i++) {
		assert_null(start(6, comm, &broadcast));
		assert_int_equal(!!(mask & NCCL_PROFILER_KERNEL_CH), i < 2);
		now_ns += PLUGIN_PROFILER_WINDOW_NS;
	}
	end_comm(6, comm);
}

static void a_captured_operation_ends_the_times(void **state)
{
	struct operation operation = { .count = 1000, .channels = 1 };
	void *comm;

	(void)state;
	begin("time");
	assert_int_equal(begin_comm(6, 1, RANKS, 0, &comm), NCCL_SUCCESS);
	now_ns += PLUGIN_PROFILER_FIRST_NS;
	for (unsigned i = 0; i < 3; i++)
		time_operation(6, comm, &operation, 10);
	assert_true(mask & NCCL_PROFILER_KERNEL_CH);
	operation.captured = true;
	assert_null(start(6, comm, &operation));
	assert_false(mask & NCCL_PROFILER_KERNEL_CH);
	assert_int_equal(times(), OPERATIONS_TIMES_GRAPHS);
	operation.captured = false;
	for (unsigned i = 0; i < 1000; i++) {
		now_ns += NS_PER_S / 2;
		time_operation(6, comm, &operation, 10);
		assert_false(mask & NCCL_PROFILER_KERNEL_CH);
	}
	end_comm(6, comm);
	assert_int_equal(begin_comm(6, 2, RANKS, 0, &comm), NCCL_SUCCESS);
	now_ns += 2 * PLUGIN_PROFILER_FIRST_NS;
	assert_null(start(6, comm, &operation));
	assert_false(mask & NCCL_PROFILER_KERNEL_CH);
	count_samples();
	assert_int_equal(sampled_count, 1);
	end_comm(6, comm);
}

/* What NCCL may do when a communicator is aborted: starts without ends, ends without starts, ends after everything. */
static void events_out_of_order_do_no_harm(void **state)
{
	const struct operation operation = { .count = 1000, .channels = 2 };
	uint64_t random = runtime_seed();
	void *handles[64] = { NULL }, *comm;

	(void)state;
	begin("time");
	assert_int_equal(begin_comm(5, 1, RANKS, 0, &comm), NCCL_SUCCESS);
	now_ns += PLUGIN_PROFILER_FIRST_NS;
	for (unsigned i = 0; i < 200000; i++) {
		void **at = &handles[random_below(&random, 64)];

		if (i % 1000 == 0)
			now_ns += NS_PER_S;
		switch (random_below(&random, 4)) {
		case 0:
			*at = start(5, comm, &operation);
			break;
		case 1:
			*at = channel(5, comm, *at, random_below(&random, 1000000));
			break;
		case 2:
			channel_end(5, *at, random_below(&random, 1000000));
			break;
		default:
			assert_int_equal(ncclProfiler_v5.stopEvent(*at), NCCL_SUCCESS);
			break;
		}
	}
	assert_int_equal(ncclProfiler_v5.recordEventState(handles[0], NCCL_PROFILER_KERNEL_CH_STOP, NULL),
			 NCCL_SUCCESS);
	end_comm(5, comm);
	channel_end(5, handles[1], 5);
	count_samples();
	assert_true(sampled_ns <= sampled_count * 1000000);
}

static void *work(void *arg)
{
	const struct operation operation = { .count = 1000, .channels = 2 };

	for (unsigned i = 0; i < 20000; i++)
		time_operation(5, arg, &operation, 900);
	return NULL;
}

static void two_communicators_on_two_threads(void **state)
{
	pthread_t threads[2 * THREADS];
	void *comms[THREADS];
	uint64_t count = 0;

	(void)state;
	begin("time");
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(begin_comm(5, (uint64_t)i, RANKS, i, &comms[i]), NCCL_SUCCESS);
	now_ns += PLUGIN_PROFILER_FIRST_NS;
	for (int i = 0; i < 2 * THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, comms[i % THREADS]), 0);
	for (int i = 0; i < 2 * THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	operations_each(plugin_profiler_operations(), count_into, &count);
	count_samples();
	assert_int_equal(count, 2 * THREADS * 20000);
	assert_true(sampled_count > count / 2 && sampled_count <= count);
	assert_int_equal(sampled_ns, sampled_count * 900);
	for (int i = 0; i < THREADS; i++)
		end_comm(5, comms[i]);
}

static void a_forked_child_counts_nothing(void **state)
{
	const struct operation operation = { .count = 8, .channels = 1 };
	uint64_t count = 0;
	void *comm, *other = &count;
	int status;
	pid_t child;

	(void)state;
	begin("time");
	assert_int_equal(begin_comm(6, 1, RANKS, 0, &comm), NCCL_SUCCESS);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		void *handle = start(6, comm, &operation);

		channel_end(6, channel(6, comm, comm, 1), 2);
		(void)begin_comm(6, 2, RANKS, 0, &other);
		end_comm(6, comm);
		operations_each(plugin_profiler_operations(), count_into, &count);
		_exit(handle || other || count ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	end_comm(6, comm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version_counts_what_ran),
		cmocka_unit_test(off_asks_nccl_for_nothing),
		cmocka_unit_test(without_memory_nothing_is_counted_and_nothing_fails),
		cmocka_unit_test(communicators_for_which_there_is_no_room_are_lost),
		cmocka_unit_test(rows_for_which_there_is_no_room_are_lost),
		cmocka_unit_test(communicators_of_one_shape_follow_each_other),
		cmocka_unit_test(times_are_those_of_windows),
		cmocka_unit_test(a_window_without_samples_goes_on_once),
		cmocka_unit_test(a_captured_operation_ends_the_times),
		cmocka_unit_test(events_out_of_order_do_no_harm),
		cmocka_unit_test(two_communicators_on_two_threads),
		cmocka_unit_test(a_forked_child_counts_nothing),
	};

	runtime_start("profiler", 60);
	return cmocka_run_group_tests_name("plugin/profiler", tests, NULL, NULL);
}
