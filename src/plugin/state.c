/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/state.h"

#include "aggregate/aggregate.h"
#include "base/log.h"
#include "plugin/cluster.h"
#include "plugin/fork.h"
#include "plugin/metrics.h"
#include "tributary/cluster.h"
#include "transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

struct plugin_fork plugin_fork = PLUGIN_FORK_UNARMED;

static struct {
	pthread_mutex_t lock; /* guards all that is not atomic; loaded parameters are not written again */
	const struct transport_ops *ops;
	bool ops_are_given; /* by a test */
	const struct plugin_rdma_source *rdma;
	atomic_bool loaded; /* params and choice may be read */
	struct params params;
	struct plugin_choice choice;
	/*
	 * Who holds the transport. 0 to 1 and 1 to 0 happen under the lock alone, after the transport was opened and
	 * before it is closed; everything else needs no lock.
	 */
	_Atomic unsigned holders;
	bool held_for_good;
	struct transport *transport;
	struct plugin_devices devices;
	struct aggregate_engine *engine; /* NULL: nobody holds it */
	unsigned engine_holders;
	bool cluster_known;
	struct cluster *cluster;
} state = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.ops = &transport_tcp,
	.rdma = &plugin_rdma_here,
};

/* Of its own, for it is held while queued lines are written: who comes as the last one goes must not lose the sink. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned log_holders;
static bool log_held_for_good;

static void complain(void *arg, const char *sentence)
{
	(void)arg;
	log_warn("%s", sentence);
}

/* Asked for by name: auto leaves hosts with RDMA to NCCL's own transport. */
static void choose_verbs_locked(void)
{
	struct diag diag = { 0 };

	if (transport_verbs_is_there(&state.params, &diag))
		state.ops = &transport_verbs;
	else
		log_warn("TRIBUTARY_NET=verbs is not usable, so TCP is used: %s", diag.text);
}

void plugin_state_load(void)
{
	struct params_source source;

	if (atomic_load_explicit(&state.loaded, memory_order_acquire))
		return;
	pthread_mutex_lock(&state.lock);
	if (!atomic_load_explicit(&state.loaded, memory_order_relaxed)) {
		plugin_fork_arm(&plugin_fork);
		source = params_from_environment();
		params_load(&source, complain, NULL, &state.params);
		plugin_choose(&state.params, state.rdma, &state.choice);
		if (state.choice.wants_verbs && !state.ops_are_given)
			choose_verbs_locked();
		atomic_store_explicit(&state.loaded, true, memory_order_release);
	}
	pthread_mutex_unlock(&state.lock);
}

void plugin_state_log_hold(log_sink *logger, bool for_good)
{
	pthread_mutex_lock(&log_lock);
	log_holders += !for_good || !log_held_for_good;
	log_held_for_good |= for_good;
	log_set_sink(logger);
	pthread_mutex_unlock(&log_lock);
}

void plugin_state_log_put(void)
{
	pthread_mutex_lock(&log_lock);
	if (--log_holders == 0)
		log_set_sink(NULL);
	pthread_mutex_unlock(&log_lock);
}

const struct params *plugin_state_params(void)
{
	return &state.params;
}

void plugin_state_tell_tuning(uint64_t number)
{
	state.params.tuning_told = number;
}

const struct plugin_choice *plugin_state_choice(void)
{
	return &state.choice;
}

const struct plugin_rdma *plugin_state_rdma(void)
{
	pthread_mutex_lock(&state.lock);
	if (!state.choice.looked)
		plugin_rdma_look(state.rdma, &state.choice.rdma);
	state.choice.looked = true;
	pthread_mutex_unlock(&state.lock);
	return &state.choice.rdma;
}

const struct transport_ops *plugin_state_ops(void)
{
	return state.ops;
}

/* holders + 1, unless it is 0. Acquire: the transport was set before the first holder was counted. */
static bool hold_if_held(void)
{
	unsigned holders = atomic_load_explicit(&state.holders, memory_order_relaxed);

	while (holders > 0) {
		if (atomic_compare_exchange_weak_explicit(&state.holders, &holders, holders + 1, memory_order_acquire,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

/* holders - 1, unless it is the last. */
static bool put_if_not_last(void)
{
	unsigned holders = atomic_load_explicit(&state.holders, memory_order_relaxed);

	while (holders > 1) {
		if (atomic_compare_exchange_weak_explicit(&state.holders, &holders, holders - 1, memory_order_release,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

static int get_locked(void)
{
	struct transport *transport;
	int r;

	if (!state.choice.ours)
		return -ENODEV;
	if (hold_if_held())
		return 0;
	r = state.ops->open(&state.params, &transport);
	if (r < 0)
		return r;
	r = plugin_devices_refresh(&state.devices, state.ops, transport);
	if (r < 0) {
		state.ops->close(transport);
		return r;
	}
	state.transport = transport;
	plugin_metrics_open(&state.params, state.ops, transport);
	atomic_store_explicit(&state.holders, 1, memory_order_release);
	return 0;
}

static void put_locked(void)
{
	/* Others may still take or leave holds without the lock, but nobody can while the count is 0. */
	if (atomic_fetch_sub_explicit(&state.holders, 1, memory_order_acq_rel) != 1)
		return;
	plugin_metrics_close();
	state.ops->close(state.transport);
	state.transport = NULL;
}

int plugin_state_get(struct transport **ret)
{
	int r = 0;

	plugin_state_load();
	if (!hold_if_held()) {
		pthread_mutex_lock(&state.lock);
		r = get_locked();
		pthread_mutex_unlock(&state.lock);
	}
	if (r == 0)
		*ret = state.transport;
	return r;
}

void plugin_state_hold(void)
{
	atomic_fetch_add_explicit(&state.holders, 1, memory_order_relaxed);
}

void plugin_state_put(void)
{
	if (put_if_not_last())
		return;
	pthread_mutex_lock(&state.lock);
	put_locked();
	pthread_mutex_unlock(&state.lock);
}

int plugin_state_get_for_good(void)
{
	int r = 0;

	plugin_state_load();
	pthread_mutex_lock(&state.lock);
	if (!state.held_for_good) {
		r = get_locked();
		state.held_for_good = r == 0;
	}
	pthread_mutex_unlock(&state.lock);
	return r;
}

static const struct cluster *cluster_locked(void)
{
	if (!state.cluster_known)
		state.cluster = plugin_cluster_load(&state.params);
	state.cluster_known = true;
	return state.cluster;
}

const struct cluster *plugin_state_cluster(void)
{
	const struct cluster *cluster;

	plugin_state_load();
	pthread_mutex_lock(&state.lock);
	cluster = cluster_locked();
	pthread_mutex_unlock(&state.lock);
	return cluster;
}

static int engine_open_locked(void)
{
	struct aggregate_setup setup = { .params = &state.params,
					 .ops = state.ops,
					 .totals = plugin_metrics_aggregation() };
	int r;

	r = get_locked();
	if (r < 0)
		return r;
	setup.transport = state.transport;
	setup.cluster = cluster_locked();
	r = aggregate_open(&setup, &state.engine);
	if (r < 0)
		put_locked();
	return r;
}

int plugin_state_engine_get(struct aggregate_engine **ret)
{
	int r = 0;

	plugin_state_load();
	if (!state.params.collnet)
		return -ENODEV;
	pthread_mutex_lock(&state.lock);
	if (!state.engine)
		r = engine_open_locked();
	if (r == 0) {
		state.engine_holders++;
		*ret = state.engine;
	}
	pthread_mutex_unlock(&state.lock);
	return r;
}

void plugin_state_engine_hold(void)
{
	pthread_mutex_lock(&state.lock);
	state.engine_holders++;
	pthread_mutex_unlock(&state.lock);
}

void plugin_state_engine_put(void)
{
	struct aggregate_engine *engine = NULL;

	pthread_mutex_lock(&state.lock);
	if (--state.engine_holders == 0) {
		engine = state.engine;
		state.engine = NULL;
	}
	pthread_mutex_unlock(&state.lock);
	if (!engine)
		return;
	aggregate_close(engine); /* without the lock: it waits for the engine's thread */
	plugin_state_put();
}

/* Opens the transport for a moment if the devices are not known yet. */
static int know_devices_locked(void)
{
	int r;

	if (state.devices.known)
		return 0;
	r = get_locked();
	if (r == 0)
		put_locked();
	return r;
}

int plugin_state_device_count(int *ret)
{
	int r;

	plugin_state_load();
	pthread_mutex_lock(&state.lock);
	r = know_devices_locked();
	if (r == -ENODEV && !state.choice.ours)
		r = 0;
	if (r == 0)
		*ret = state.devices.count;
	pthread_mutex_unlock(&state.lock);
	return r;
}

int plugin_state_device(int device, struct plugin_net_properties *ret)
{
	int r;

	plugin_state_load();
	pthread_mutex_lock(&state.lock);
	r = know_devices_locked();
	if (r == 0)
		r = plugin_devices_get(&state.devices, device, ret);
	pthread_mutex_unlock(&state.lock);
	return r;
}

int plugin_state_served(int device)
{
	return plugin_devices_served(&state.devices, device);
}

/*
 * NCCL joins devices without a PCI path (in containers) by itself, and then finds no way from a GPU to what came of it.
 * Refused, they stay single, as they are with NCCL's own sockets.
 */
static bool may_join_locked(int count, const int *members)
{
	struct plugin_net_properties properties;

	if (state.params.join != JOIN_AUTO)
		return state.params.join == JOIN_ALWAYS;
	for (int i = 0; i < count; i++) {
		if (plugin_devices_get(&state.devices, members[i], &properties) == 0 && !properties.pci_path) {
			log_info(LOG_NET, "%s has no PCI path and is joined with no other device (TRIBUTARY_JOIN)",
				 properties.name);
			return false;
		}
	}
	return true;
}

int plugin_state_join(int count, const int *members, int *ret_device)
{
	int r;

	plugin_state_load();
	pthread_mutex_lock(&state.lock);
	r = get_locked();
	if (r == 0) {
		r = -EOPNOTSUPP;
		if (may_join_locked(count, members))
			r = plugin_devices_join(&state.devices, state.ops, state.transport, count, members, ret_device);
		put_locked();
	}
	pthread_mutex_unlock(&state.lock);
	return r;
}

void plugin_state_reset(const struct transport_ops *ops, const struct plugin_rdma_source *rdma)
{
	pthread_mutex_lock(&state.lock);
	if (state.held_for_good) {
		state.held_for_good = false;
		put_locked();
	}
	plugin_devices_fini(&state.devices);
	cluster_free(state.cluster);
	state.cluster = NULL;
	state.cluster_known = false;
	log_holders = 0;
	log_held_for_good = false;
	plugin_fork_disarm(&plugin_fork);
	state.ops = ops ? ops : &transport_tcp;
	state.ops_are_given = ops != NULL;
	state.rdma = rdma ? rdma : &plugin_rdma_here;
	atomic_store_explicit(&state.loaded, false, memory_order_relaxed);
	pthread_mutex_unlock(&state.lock);
}

unsigned plugin_state_holders(void)
{
	return atomic_load_explicit(&state.holders, memory_order_relaxed);
}

unsigned plugin_state_engine_holders(void)
{
	unsigned holders;

	pthread_mutex_lock(&state.lock);
	holders = state.engine_holders;
	pthread_mutex_unlock(&state.lock);
	return holders;
}
