/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/profiler.h"

#include "base/log.h"
#include "base/sys.h"
#include "plugin/calls.h"
#include "plugin/fork.h"
#include "plugin/metrics.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "profile/operations.h"
#include "profile/tuning.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/*
 * In its first window NCCL connects a communicator to its own proxy for each channel, which takes long: the operation that
 * opens the window and the next one are none to go by.
 */
enum { COMM_SKIPS = 2 };
enum { PROBES = 64, SAMPLES = 512, SAMPLE_TRIES = 8, ROW_BITS = 11 };
_Static_assert(OPERATIONS_ROWS == 1 << ROW_BITS, "rows are found by the high bits of a product");
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

struct plugin_profiler {
	size_t index; /* in operations.comms; OPERATIONS_COMMS: there was no room */
	unsigned rank_count;
	struct plugin_calls *calls; /* NULL: nobody asks for them */
	_Atomic unsigned skipped;   /* operations in windows, up to COMM_SKIPS */
};

/*
 * An operation whose channels are awaited. word: odd while it is, and another one each time, so that an event that comes
 * after its sample was given up finds a word that is not its handle's.
 */
struct sample {
	_Atomic uint64_t word, bytes;
	_Atomic(struct operations_row *) row;
	_Atomic unsigned channels, begun, ended; /* channels 0: all that have begun */
	_Atomic unsigned window;                 /* in which it began */
	_Atomic uint64_t first_ns, last_ns;
};

static struct {
	pthread_mutex_t lock;                    /* guards is_open, and mask and time_events where they are written */
	_Atomic(struct operations *) operations; /* NULL: nothing is counted */
	bool is_open[OPERATIONS_COMMS + 1];
	size_t open_count;
	_Atomic(int *) mask;        /* NCCL's; NULL: no communicator is open, or there are no times */
	_Atomic uint64_t switch_ns; /* when the window opens or closes; UINT64_MAX: never */
	_Atomic unsigned window;    /* odd: open */
	int time_events;
	struct sample samples[SAMPLES];
	_Atomic unsigned next_sample, opened_at; /* opened_at: the next sample when the window opened */
} profiler = { .lock = PTHREAD_MUTEX_INITIALIZER, .switch_ns = UINT64_MAX };

/* What the handles of calls point to, by bits. The addresses are even: no channels' handles. */
enum { CALL_CAPTURED = 1, CALL_COUNTED = 2 };
static const uint64_t calls[4];

static unsigned call_of(const void *parent)
{
	for (unsigned i = 1; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (parent == &calls[i])
			return i;
	return 0;
}

const struct operations *plugin_profiler_operations(void)
{
	return atomic_load_explicit(&profiler.operations, memory_order_acquire);
}

/* ------------------------------------------------------------------------------------------------------------- windows */

static void mask_set(int *mask, int events, bool on)
{
	if (on)
		__atomic_fetch_or(mask, events, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(mask, ~events, __ATOMIC_RELAXED);
}

static void windows_begin_locked(int *mask, int events)
{
	profiler.time_events = events;
	atomic_fetch_and(&profiler.window, ~1U);
	atomic_store(&profiler.mask, mask);
	atomic_store(&profiler.switch_ns, clock_now_ns() + PLUGIN_PROFILER_FIRST_NS);
}

/* A graph is being captured, or (NULL) the mask may go. */
static void windows_end(struct operations *operations)
{
	uint64_t times = OPERATIONS_TIMES_ON;
	int *mask;

	if (operations)
		atomic_compare_exchange_strong(&operations->times, &times, OPERATIONS_TIMES_GRAPHS);
	atomic_store(&profiler.switch_ns, UINT64_MAX);
	mask = atomic_exchange(&profiler.mask, NULL); /* first: window_turn() looks at it last */
	atomic_fetch_and(&profiler.window, ~1U);
	if (mask)
		mask_set(mask, profiler.time_events, false);
}

/*
 * Only one thread makes each change. It may come late: one that finds the windows ended takes its change back. Where NCCL's
 * connecting takes longer than a window, nothing was sampled in it: it goes on, once.
 */
static void window_turn(void)
{
	uint64_t then_ns = atomic_load_explicit(&profiler.switch_ns, memory_order_relaxed), now_ns;
	unsigned next_sample;
	bool opens, goes_on;
	int *mask;

	if (then_ns == UINT64_MAX)
		return;
	now_ns = clock_now_ns();
	mask = atomic_load(&profiler.mask);
	if (now_ns < then_ns || !mask)
		return;
	opens = !(atomic_load(&profiler.window) & 1);
	next_sample = atomic_load(&profiler.next_sample);
	goes_on = !opens && next_sample == atomic_load(&profiler.opened_at);
	if (!atomic_compare_exchange_strong(&profiler.switch_ns, &then_ns,
					    now_ns + (opens || goes_on
							      ? PLUGIN_PROFILER_WINDOW_NS
							      : PLUGIN_PROFILER_PERIOD_NS - PLUGIN_PROFILER_WINDOW_NS)))
		return;
	atomic_store(&profiler.opened_at, goes_on ? next_sample - 1 : next_sample);
	if (goes_on)
		return;
	atomic_fetch_add(&profiler.window, 1);
	mask_set(mask, profiler.time_events, opens);
	if (opens && !atomic_load(&profiler.mask)) {
		atomic_fetch_and(&profiler.window, ~1U);
		mask_set(mask, profiler.time_events, false);
	}
}

/* -------------------------------------------------------------------------------------------------------- communicators */

/* That of a closed communicator of the same shape, or a free one. */
static size_t comm_find_locked(struct operations *operations, const struct plugin_profiler_comm *comm)
{
	size_t free_index = OPERATIONS_COMMS;

	for (size_t i = OPERATIONS_COMMS; i-- > 0;) {
		const struct operations_comm *at = &operations->comms[i];

		if (!at->communicators)
			free_index = i;
		else if (!profiler.is_open[i] && at->rank_count == comm->rank_count &&
			 at->node_count == comm->node_count && at->rank == comm->rank)
			return i;
	}
	return free_index;
}

static void open_locked(struct operations *operations, const struct plugin_profiler_comm *comm,
			struct plugin_profiler *ret)
{
	const size_t index = comm_find_locked(operations, comm);

	ret->index = index;
	profiler.is_open[index] = true;
	if (index < OPERATIONS_COMMS) {
		struct operations_comm *at = &operations->comms[index];

		at->last_id = comm->id;
		at->rank_count = comm->rank_count;
		at->node_count = comm->node_count;
		at->rank = comm->rank;
		at->communicators++;
	}
}

static void times_begin_locked(struct operations *operations, const struct plugin_profiler_comm *comm, int *mask)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!comm->time_events) {
		operations->times = OPERATIONS_TIMES_OLD;
		if (log_once(&said))
			log_info(LOG_INIT,
				 "Tributary counts operations and times none (TRIBUTARY_PROFILER=time): NCCL before "
				 "2.28 does not tell which are captured in CUDA graphs");
		return;
	}
	if (operations->times == OPERATIONS_TIMES_OFF)
		operations->times = OPERATIONS_TIMES_ON;
	if (operations->times == OPERATIONS_TIMES_ON && !atomic_load(&profiler.mask)) {
		windows_begin_locked(mask, comm->time_events);
		if (operations->times != OPERATIONS_TIMES_ON) /* a graph was captured meanwhile */
			windows_end(NULL);
	}
}

void plugin_profiler_init(const struct plugin_profiler_comm *comm, int *mask, struct plugin_profiler **ret)
{
	const struct params *params;
	struct operations *operations;
	struct plugin_profiler *opened = NULL;
	int saved_errno = errno, call_events = 0;

	*ret = NULL;
	if (plugin_is_forked())
		return;
	plugin_state_load();
	params = plugin_state_params();
	operations = params->disable || params->profiler == PROFILER_OFF ? NULL : steer_operations();
	if (params_tuning_named(params))
		call_events = comm->call_events;
	if (operations || call_events)
		opened = sys_zalloc(sizeof(*opened));
	if (opened) {
		opened->index = OPERATIONS_COMMS;
		opened->rank_count = comm->rank_count;
		opened->calls = call_events ? plugin_calls_open(comm->id) : NULL;
		pthread_mutex_lock(&profiler.lock);
		profiler.open_count++;
		mask_set(mask, call_events, true);
		if (operations) {
			atomic_store_explicit(&profiler.operations, operations, memory_order_release);
			open_locked(operations, comm, opened);
			mask_set(mask, comm->count_events, true);
			if (params->profiler == PROFILER_TIME)
				times_begin_locked(operations, comm, mask);
			plugin_metrics_count(params, operations);
		}
		pthread_mutex_unlock(&profiler.lock);
	}
	*ret = opened;
	errno = saved_errno;
}

void plugin_profiler_fini(struct plugin_profiler *closed)
{
	int saved_errno = errno;

	if (!closed || plugin_is_forked())
		return;
	pthread_mutex_lock(&profiler.lock);
	profiler.is_open[closed->index] = false;
	if (--profiler.open_count == 0) {
		windows_end(NULL); /* NCCL may be unloaded, and its mask with it */
		plugin_metrics_count_end();
	}
	pthread_mutex_unlock(&profiler.lock);
	plugin_calls_close(closed->calls);
	sys_free(closed);
	errno = saved_errno;
}

/* ------------------------------------------------------------------------------------------------------------ counting */

static void add(_Atomic uint64_t *sum, uint64_t more)
{
	atomic_fetch_add_explicit(sum, more, memory_order_relaxed);
}

/* NULL: no room. */
static struct operations_row *row_of(struct operations *operations, uint64_t key)
{
	const size_t start = (size_t)(key * GOLDEN >> (64 - ROW_BITS));

	for (size_t i = 0; i < PROBES; i++) {
		struct operations_row *row = &operations->rows[(start + i) % OPERATIONS_ROWS];
		uint64_t found = atomic_load_explicit(&row->key, memory_order_relaxed);

		if (!found && atomic_compare_exchange_strong(&row->key, &found, key)) {
			add(&operations->row_count, 1);
			return row;
		}
		if (found == key)
			return row;
	}
	return NULL;
}

/* ------------------------------------------------------------------------------------------------------------- samples */

/* A handle: a word of a sample, its index, and whether it is the operation's or a channel's. Never NULL. */
enum { HANDLE_CHANNEL = 1, HANDLE_INDEX = 1, HANDLE_WORD = 16 };
_Static_assert(SAMPLES <= 1 << (HANDLE_WORD - HANDLE_INDEX), "an index is part of a handle");
_Static_assert(sizeof(void *) == sizeof(uint64_t), "handles are 64 bits");

static void *handle_of(uint64_t word, size_t index, unsigned kind)
{
	return (void *)(uintptr_t)(word << HANDLE_WORD | index << HANDLE_INDEX | kind);
}

static struct sample *sample_of(const void *handle, unsigned kind)
{
	const uint64_t bits = (uint64_t)(uintptr_t)handle;
	const size_t index = bits >> HANDLE_INDEX & ((1U << (HANDLE_WORD - HANDLE_INDEX)) - 1);
	struct sample *sample;

	if (!handle || (bits & HANDLE_CHANNEL) != kind || index >= SAMPLES)
		return NULL;
	sample = &profiler.samples[index];
	return handle_of(atomic_load(&sample->word), index, kind) == handle ? sample : NULL;
}

/* NULL: all are in use. One of an earlier window is given up: some of its channels were told nothing of. */
static void *sample_begin(struct operations_row *row, const struct plugin_profiler_operation *operation, uint64_t bytes)
{
	const unsigned window = atomic_load_explicit(&profiler.window, memory_order_relaxed);
	const unsigned from = atomic_fetch_add_explicit(&profiler.next_sample, 1, memory_order_relaxed);

	if (!(window & 1))
		return NULL;
	for (unsigned i = 0; i < SAMPLE_TRIES; i++) {
		const size_t index = (from + i) % SAMPLES;
		struct sample *sample = &profiler.samples[index];
		uint64_t word = atomic_load(&sample->word), mine = (word | 1) + (word & 1 ? 2 : 0);

		if ((word & 1 && sample->window == window) ||
		    !atomic_compare_exchange_strong(&sample->word, &word, mine))
			continue;
		sample->row = row;
		sample->bytes = bytes;
		sample->channels = operation->channels;
		sample->window = window;
		atomic_store(&sample->begun, 0);
		atomic_store(&sample->ended, 0);
		atomic_store(&sample->first_ns, UINT64_MAX);
		atomic_store(&sample->last_ns, 0);
		return handle_of(mine, index, 0);
	}
	return NULL;
}

static void least(_Atomic uint64_t *at, uint64_t value, uint64_t none)
{
	uint64_t found = atomic_load_explicit(at, memory_order_relaxed);

	while ((found == none || value < found) && !atomic_compare_exchange_weak(at, &found, value))
		;
}

static void most(_Atomic uint64_t *at, uint64_t value)
{
	uint64_t found = atomic_load_explicit(at, memory_order_relaxed);

	while (value > found && !atomic_compare_exchange_weak(at, &found, value))
		;
}

/* word: its handle's. */
static void sample_end(struct sample *sample, uint64_t word)
{
	const uint64_t first_ns = sample->first_ns, last_ns = sample->last_ns, bytes = sample->bytes;
	struct operations_row *row = sample->row;

	/* +1: the word is even, and no handle's; the next one's is greater by two. */
	if (!atomic_compare_exchange_strong(&sample->word, &word, word + 1) || last_ns <= first_ns)
		return;
	add(&row->sampled, 1);
	add(&row->sampled_bytes, bytes);
	add(&row->sampled_ns, last_ns - first_ns);
	least(&row->least_ns, last_ns - first_ns, 0);
	most(&row->most_ns, last_ns - first_ns);
}

/* -------------------------------------------------------------------------------------------------------------- events */

static uint64_t bytes_of(const struct plugin_profiler *of, const struct plugin_profiler_operation *operation)
{
	return (operation->collective == PREDICT_ALLGATHER || operation->collective == PREDICT_REDUCESCATTER) &&
			       of->rank_count
		       ? operation->bytes * of->rank_count
		       : operation->bytes;
}

/* NULL: there was no room, which is counted, or taken back where times is -1. *ret_bytes: as NCCL's tuner counts them. */
static struct operations_row *count(const struct plugin_profiler *of, const struct plugin_profiler_operation *operation,
				    int times, uint64_t *ret_bytes)
{
	struct operations *operations = atomic_load_explicit(&profiler.operations, memory_order_acquire);
	const uint64_t bytes = bytes_of(of, operation);
	const struct operations_line line = { .collective = operation->collective,
					      .algorithm = operation->algorithm,
					      .protocol = operation->protocol,
					      .size_class = (unsigned)tuning_size_class(bytes),
					      .channels = operation->channels };
	struct operations_row *row = of->index < OPERATIONS_COMMS ? row_of(operations, operations_key(of->index, &line))
								  : NULL;

	*ret_bytes = bytes;
	add(row ? &row->count : &operations->lost, (uint64_t)(int64_t)times);
	if (row)
		add(&row->bytes, (uint64_t)times * bytes);
	return row;
}

/* Broadcasts alone, which NCCL 2.30 tells no more of: all are rings. */
static void count_call(const struct plugin_profiler *of, uint64_t user_bytes, int times)
{
	const struct plugin_profiler_operation broadcast = {
		.collective = PREDICT_BROADCAST, .algorithm = PREDICT_RING, .protocol = -1, .bytes = user_bytes
	};
	uint64_t bytes;

	(void)count(of, &broadcast, times, &bytes);
}

void plugin_profiler_call(struct plugin_profiler *of, const uint64_t *broadcast_bytes, bool captured, void **ret_handle)
{
	struct operations *operations = atomic_load_explicit(&profiler.operations, memory_order_acquire);
	unsigned call = 0;

	*ret_handle = NULL;
	if (!of || plugin_is_forked())
		return;
	plugin_calls_add(of->calls);
	if (!operations)
		return;
	if (captured) {
		call |= CALL_CAPTURED;
		if (atomic_load_explicit(&profiler.mask, memory_order_relaxed))
			windows_end(operations);
	} else {
		window_turn();
	}
	if (broadcast_bytes) {
		call |= CALL_COUNTED;
		if (captured)
			add(&operations->captured, 1);
		else
			count_call(of, *broadcast_bytes, 1);
	}
	if (call)
		*ret_handle = (void *)(uintptr_t)&calls[call];
}

void plugin_profiler_operation(struct plugin_profiler *of, const struct plugin_profiler_operation *operation,
			       const void *parent, void **ret_handle)
{
	const unsigned call = call_of(parent);
	struct operations_row *row;
	uint64_t bytes;

	*ret_handle = NULL;
	if (!of || !plugin_profiler_operations() || plugin_is_forked())
		return;
	if (call & CALL_CAPTURED) {
		if (!(call & CALL_COUNTED))
			add(&atomic_load(&profiler.operations)->captured, 1);
		return;
	}
	if (call & CALL_COUNTED)
		count_call(of, operation->bytes, -1);
	row = count(of, operation, 1, &bytes);
	if (!row || !(atomic_load_explicit(&profiler.window, memory_order_relaxed) & 1))
		return;
	if (atomic_load_explicit(&of->skipped, memory_order_relaxed) < COMM_SKIPS)
		atomic_fetch_add_explicit(&of->skipped, 1, memory_order_relaxed);
	else
		*ret_handle = sample_begin(row, operation, bytes);
}

void plugin_profiler_channel(const void *parent, uint64_t gpu_ns, void **ret_handle)
{
	struct sample *sample = plugin_is_forked() ? NULL : sample_of(parent, 0);

	*ret_handle = NULL;
	if (!sample)
		return;
	atomic_fetch_add(&sample->begun, 1);
	least(&sample->first_ns, gpu_ns, UINT64_MAX);
	*ret_handle = (void *)((uintptr_t)parent | HANDLE_CHANNEL);
}

void plugin_profiler_channel_ended(const void *handle, uint64_t gpu_ns)
{
	struct sample *sample = plugin_is_forked() ? NULL : sample_of(handle, HANDLE_CHANNEL);

	if (sample)
		most(&sample->last_ns, gpu_ns);
}

void plugin_profiler_stop(const void *handle)
{
	struct sample *sample = plugin_is_forked() ? NULL : sample_of(handle, HANDLE_CHANNEL);

	unsigned ended, channels;

	if (!sample)
		return;
	ended = atomic_fetch_add(&sample->ended, 1) + 1;
	channels = atomic_load(&sample->channels);
	if (ended == (channels ? channels : atomic_load(&sample->begun)))
		sample_end(sample, (uint64_t)(uintptr_t)handle >> HANDLE_WORD);
}

void plugin_profiler_reset(void)
{
	pthread_mutex_lock(&profiler.lock);
	windows_end(NULL);
	memset(profiler.is_open, 0, sizeof(profiler.is_open));
	memset(profiler.samples, 0, sizeof(profiler.samples));
	profiler.open_count = 0;
	atomic_store(&profiler.operations, NULL);
	pthread_mutex_unlock(&profiler.lock);
}
