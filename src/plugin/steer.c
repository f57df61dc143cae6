/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/sys.h"
#include "gpu/current.h"
#include "plugin/fork.h"
#include "plugin/net.h"
#include "plugin/state.h"
#include "plugin/steer/collnet.h"
#include "plugin/steer/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/*
 * The library is never unloaded (-z nodelete), so this is the end of the process, where other threads may still be at
 * work: only what would be left behind goes. Who holds the lock for long has ended with it.
 */
__attribute__((destructor)) static void leave(void)
{
	enum { TRIES = 100 };
	int r = EBUSY;

	if (plugin_is_forked())
		return;
	for (unsigned i = 0; i < TRIES && r; i++) {
		r = pthread_mutex_trylock(&steer_here.lock);
		if (r)
			nanosleep(&(struct timespec){ .tv_nsec = (long)NS_PER_MS }, NULL);
	}
	if (r)
		return;
	if (atomic_load(&steer_here.ready)) {
		for (struct steer_thread *thread = steer_here.threads; thread; thread = thread->next)
			steer_thread_withdraw(thread);
		steer_status_end(&steer_here.status, &steer_here.setup);
		steer_registry_close(&steer_here.setup.registry);
		steer_elsewhere_close(&steer_here.setup.elsewhere);
	} else if (steer_here.status.params) {
		steer_status_end(&steer_here.status, &steer_here.setup);
	}
	pthread_mutex_unlock(&steer_here.lock);
}

/* ---------------------------------------------------------------------------------------------------------------- setup */

static void point_nccl_to_topology(void)
{
	if (setenv(STEER_MARK_VARIABLE, steer_here.setup.topology.path, 1) < 0 ||
	    setenv(STEER_TOPOLOGY_VARIABLE, steer_here.setup.topology.path, 1) < 0)
		log_warn("%s cannot be set: %s", STEER_TOPOLOGY_VARIABLE, strerror(errno));
}

static struct params_source source_of(void)
{
	return steer_here.source ? *steer_here.source : params_from_environment();
}

/* Under the lock. */
static void setup_once(void)
{
	const struct params_source from = source_of(), *source = &from;
	const unsigned nccl_version = atomic_load(&steer_here.nccl_version);

	if (atomic_load_explicit(&steer_here.ready, memory_order_relaxed))
		return;
	steer_setup(source, steer_here.root, nccl_version, &steer_here.setup);
	plugin_state_tell_tuning(steer_tuning_told(&steer_here.setup.tuning));
	steer_status_begin(plugin_state_params(), source, &steer_here.setup, &steer_here.status);
	/* Without the environment half the environment itself is the only way, before NCCL reads it for the first time. */
	if (!nccl_version && steer_here.setup.level > STEER_OFF)
		point_nccl_to_topology();
	if (steer_here.setup.registers)
		steer_here.setup.registers = pthread_key_create(&steer_here.key, steer_thread_end) == 0;
	atomic_store_explicit(&steer_here.ready, true, memory_order_release);
	steer_collnet_advise(&steer_here.setup);
}

void steer_environment_half(unsigned nccl_version)
{
	atomic_store(&steer_here.nccl_version, nccl_version);
}

void steer_begin_process(void)
{
	int saved_errno = errno;

	pthread_mutex_lock(&steer_here.lock);
	setup_once();
	pthread_mutex_unlock(&steer_here.lock);
	errno = saved_errno;
}

/* ---------------------------------------------------------------------------------------------------------------- begin */

static enum steer_reason reason_of_gpu(char bus_id[static STEER_BUS_ID_BYTES])
{
	const struct topology *topology = &steer_here.setup.machine.topology;
	struct diag diag = { .text = "" };
	uint32_t gpu;

	if (gpu_current_bus_id(bus_id, &diag) < 0) {
		log_info(LOG_INIT, "Tributary does not know this rank's GPU: %s", diag.text);
		return STEER_REASON_NO_GPU;
	}
	gpu = topology_find_bus_id(topology, bus_id);
	if (gpu == TOPOLOGY_NONE || topology->vertices[gpu].kind != TOPOLOGY_GPU)
		return STEER_REASON_NO_GPU;
	return topology->vertices[gpu].gpu.mig >= 0 ? STEER_REASON_MIG : STEER_ELIGIBLE;
}

/*
 * Under the lock. Also remembers what is to be a child of this one, for good: hosts that forget after other communicators would
 * choose differently. False as well where there is no room, and it cannot follow a table then.
 */
static bool is_shrunk(struct steer_thread *thread, uint64_t comm_id)
{
	bool found = false;

	for (size_t i = 0; i < steer_here.child_count; i++)
		found |= steer_here.children[i] == comm_id;
	steer_here.forgot |= sys_grow(&steer_here.children, steer_here.child_count, 1, sizeof(uint64_t)) < 0;
	if (!steer_here.forgot)
		steer_here.children[steer_here.child_count++] = steer_shrink_id(comm_id);
	thread->cannot_follow = steer_here.forgot;
	return found;
}

/* Under the lock. */
static void enter(struct steer_thread *thread, uint64_t comm_id)
{
	struct steer_record *record = &thread->record;
	struct diag diag = { .text = "" };
	bool shrunk = is_shrunk(thread, comm_id);

	memset(record, 0, sizeof(*record)); /* it is written as bytes */
	record->comm_id = comm_id;
	record->machine = steer_here.setup.machine.hash;
	record->serial = ++steer_here.serials;
	record->reason = reason_of_gpu(record->bus_id);
	record->follows = record->bus_id[0] && !shrunk && !steer_here.setup.settings.other_tuner &&
			  steer_collnet_is_possible();
	if (steer_here.setup.reason)
		record->reason = steer_here.setup.reason;
	else if (!record->reason && shrunk)
		record->reason = STEER_REASON_SHRINK;
	for (int kind = 0; kind < STEER_TUNING_KINDS && !shrunk; kind++)
		record->tuning[kind] = steer_here.setup.tuning.numbers[kind];
	record->named = steer_here.setup.tuning.is_named && record->tuning[STEER_TUNING_ALONE];
	thread->graph_fd = record->reason ? -1 : steer_memory_file(STEER_GRAPH_BYTES, thread->graph_path);
	if (!record->reason && thread->graph_fd < 0)
		record->reason = STEER_REASON_NO_ROOM;
	if (steer_registry_restore(&steer_here.setup.registry, &diag) == 0) {
		thread->process = steer_process_hash(&steer_here.setup.registry.own->process);
		thread->slot = steer_registry_add(&steer_here.setup.registry, record);
	}
	/* Without a record it is not known to the others; for none of the proofs is the set complete then. */
	if (thread->slot < 0)
		log_info(LOG_INIT, "Tributary cannot tell the other ranks of communicator %016llx of this one: %s",
			 (unsigned long long)comm_id, diag.text[0] ? diag.text : "shared memory is full");
	thread->state = STEER_THREAD_REGISTERED;
}

bool steer_wants_communicators(void)
{
	return atomic_load_explicit(&steer_here.ready, memory_order_acquire) &&
	       (steer_here.setup.level == STEER_FULL || steer_tuning_is_there(&steer_here.setup.tuning));
}

void steer_begin(uint64_t comm_id)
{
	struct steer_thread *thread;
	int saved_errno = errno;

	pthread_mutex_lock(&steer_here.lock);
	setup_once();
	thread = steer_thread_make();
	pthread_mutex_unlock(&steer_here.lock);
	if (thread) {
		steer_thread_idle(thread);
		thread->has_decision = thread->cannot_follow = false;
		pthread_mutex_lock(&steer_here.lock);
		enter(thread, comm_id);
		pthread_mutex_unlock(&steer_here.lock);
	}
	errno = saved_errno;
}

/* -------------------------------------------------------------------------------------------------------------- answers */

static const char *users(const char *name)
{
	return steer_here.source ? steer_here.source->get(name) : getenv(name);
}

static void decide_aloud(struct steer_thread *thread)
{
	log_collect();
	steer_thread_decide(thread);
	log_flush();
}

/* The decision says which of two texts all ranks get, where there are two. */
static const char *topology_file(struct steer_thread *thread)
{
	const struct steer_setup *setup = &steer_here.setup;

	if (thread && thread->state == STEER_THREAD_REGISTERED) {
		thread->state = STEER_THREAD_TOPOLOGY;
		if (setup->machine.shaped_text)
			decide_aloud(thread);
	} else if (thread && thread->state == STEER_THREAD_DECIDED) {
		steer_thread_idle(thread);
	}
	if (setup->level <= STEER_OFF)
		return users(STEER_TOPOLOGY_VARIABLE);
	return thread && thread->state == STEER_THREAD_TOPOLOGY && thread->has_decision && thread->decision.shaped
		       ? setup->shaped.path
		       : setup->topology.path;
}

static const char *graph_file(struct steer_thread *thread)
{
	const struct steer_setup *setup = &steer_here.setup;

	if (thread && thread->state == STEER_THREAD_TOPOLOGY &&
	    (steer_plans(setup) || steer_tuning_is_there(&setup->tuning))) {
		thread->state = STEER_THREAD_DECIDED;
		if (!setup->machine.shaped_text)
			decide_aloud(thread);
	}
	if (setup->settings.users_graph)
		return users(STEER_GRAPH_VARIABLE);
	return thread ? thread->graph : NULL;
}

const char *steer_get(const char *name)
{
	int saved_errno = errno;
	const char *value;
	bool ready;

	if (strncmp(name, "NCCL_", 5) != 0 || plugin_is_forked())
		return users(name);
	ready = atomic_load_explicit(&steer_here.ready, memory_order_acquire);
	if (!strcmp(name, "NCCL_NET") && steer_this_thread())
		steer_thread_idle(steer_this_thread());
	if (ready && !strcmp(name, STEER_TOPOLOGY_VARIABLE))
		value = topology_file(steer_this_thread());
	else if (ready && !strcmp(name, STEER_GRAPH_VARIABLE))
		value = graph_file(steer_this_thread());
	else
		value = users(name);
	if (!strcmp(name, "NCCL_PROTO") && steer_this_thread())
		steer_thread_idle(steer_this_thread());
	errno = saved_errno;
	return value;
}

/* Not when NCCL_NET is asked: before NCCL 2.30 nobody has given the plugin a logger by then. */
static void say_if_another_network_is_named(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *value = users("NCCL_NET");

	if (value && strcasecmp(value, PLUGIN_NET_NAME) != 0 && log_once(&said))
		log_info(LOG_INIT,
			 "Tributary hears of no communicator and plans no channels, as NCCL_NET=%s is set; "
			 "TRIBUTARY_NET=off leaves the network to NCCL, too",
			 value);
}

int steer_tuner(uint64_t comm_id, struct steer_facts *ret)
{
	const struct steer_thread *thread = plugin_is_forked() ? NULL : steer_this_thread();
	const struct topology *topology = &steer_here.setup.machine.topology;
	const struct plan_request *request;

	if (!plugin_is_forked())
		say_if_another_network_is_named();
	if (!thread || !thread->has_decision || (comm_id && thread->record.comm_id != comm_id))
		return -ENOENT;
	*ret = (struct steer_facts){ .published = thread->decision.result == STEER_PLAN };
	if (!ret->published)
		return 0;
	request = &thread->decision.request;
	ret->set = thread->decision.set;
	ret->local_gpu_count = request->gpu_count;
	for (size_t i = 0; i < request->gpu_count; i++) {
		int sm = topology->vertices[request->gpus[i]].gpu.sm;

		ret->sm = i == 0 || sm < ret->sm ? sm : ret->sm;
	}
	return 0;
}

/* Under the lock: where NCCL asks for nothing but what it may count. A setup later takes the place of this one. */
static void setup_to_count(void)
{
	const struct params_source source = source_of();

	steer_setup_init(&steer_here.setup);
	steer_settings_read(&source, steer_here.root ? steer_here.root : "", plugin_state_params()->local_processes,
			    &steer_here.setup.settings);
	diag_set(&steer_here.setup.why, 0, 0, "NCCL uses another network: unset NCCL_NET");
	steer_status_begin(plugin_state_params(), &source, &steer_here.setup, &steer_here.status);
}

struct operations *steer_operations(void)
{
	struct operations *operations;
	int saved_errno = errno;

	if (plugin_is_forked())
		return NULL;
	pthread_mutex_lock(&steer_here.lock);
	if (!atomic_load(&steer_here.ready) && !steer_here.status.params)
		setup_to_count();
	operations = steer_status_operations(&steer_here.status, &steer_here.setup);
	pthread_mutex_unlock(&steer_here.lock);
	errno = saved_errno;
	return operations;
}

void steer_reset(const struct params_source *source, const char *root)
{
	while (steer_here.threads)
		steer_thread_end(steer_here.threads);
	if (atomic_exchange(&steer_here.ready, false)) {
		if (steer_here.setup.registers) /* whichever threads had a value of it are gone, or begin anew */
			pthread_key_delete(steer_here.key);
		steer_status_end(&steer_here.status, &steer_here.setup);
		steer_setup_end(&steer_here.setup);
	} else if (steer_here.status.params) {
		steer_status_end(&steer_here.status, &steer_here.setup);
	}
	steer_here.status.params = NULL;
	steer_here.status.operations = NULL; /* not unmapped: its counters may be in use */
	steer_here.child_count = 0;
	atomic_store(&steer_here.nccl_version, 0);
	steer_here.source = source;
	steer_here.root = root ? root : "";
}
