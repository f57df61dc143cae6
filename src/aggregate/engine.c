/* SPDX-License-Identifier: Apache-2.0 */
/* The engine and its thread, which polls every group and sleeps when none has anything to do. */
#include "aggregate/group.h"
#include "aggregate/aggregators.h"
#include "base/pin.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/params.h"
#include "base/process.h"
#include "base/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	EVENTS_AT_ONCE = 64,
	IDLE_MS = 1000,
	BUSY_MS = 100, /* everything is looked at then, whatever was reported */
	SOON_MS = 1,
	HELP_PASSES = 4,
	SPREAD_MOST = 8, /* hosts that count of those that a host sends to */
	QUEUE_BITS = 16, /* of an event's key: which of the group's queues; the higher ones: which group */
};
#define HELP_LASTS_NS (2 * NS_PER_MS)
_Static_assert(2 * (SCHEDULE_MEMBERS_MAX + SCHEDULE_NODES_MAX) <= 1 << QUEUE_BITS, "a queue's number in an event");

int aggregate_open(const struct aggregate_setup *setup, struct aggregate_engine **ret)
{
	struct aggregate_engine *engine;
	char name[MEMBER_WIRE_NAME_BYTES * 2] = "";

	engine = sys_zalloc(sizeof(*engine));
	if (!engine)
		return -ENOMEM;
	pthread_mutex_init(&engine->lock, NULL);
	pthread_mutex_init(&engine->drive, NULL);
	engine->setup = *setup;
	engine->epoll_fd = engine->wake_fd = -1;
	engine->level = reduce_level_start(setup->params->simd);
	if (!setup->host_name && gethostname(name, sizeof(name) - 1) < 0)
		snprintf(name, sizeof(name), "?");
	snprintf(engine->host_name, sizeof(engine->host_name), "%s", setup->host_name ? setup->host_name : name);
	/* Simulated hosts share all but their names. */
	engine->host_id = hash_text(process_host(), setup->host_name ? setup->host_name : name);
	*ret = engine;
	return 0;
}

void aggregate_close(struct aggregate_engine *engine)
{
	if (!engine)
		return;
	if (engine->runs) {
		atomic_store(&engine->stop, true);
		engine_wake(engine);
		pthread_join(engine->thread, NULL);
	}
	sys_close(&engine->epoll_fd);
	sys_close(&engine->wake_fd);
	pthread_mutex_destroy(&engine->drive);
	pthread_mutex_destroy(&engine->lock);
	sys_free(engine);
}

int aggregate_listen(struct aggregate_engine *engine, int device, uint8_t handle[static AGGREGATE_HANDLE_BYTES],
		     struct aggregate_listener **ret)
{
	struct aggregate_listener *listener = sys_zalloc(sizeof(*listener));
	int r;

	if (!listener)
		return -ENOMEM;
	listener->engine = engine;
	listener->device = device;
	r = engine->setup.ops->listen(engine->setup.transport, device, listener->handle, &listener->listener);
	if (r < 0) {
		sys_free(listener);
		return r;
	}
	memcpy(handle, listener->handle, AGGREGATE_HANDLE_BYTES);
	*ret = listener;
	return 0;
}

void aggregate_set_terms(struct aggregate_listener *listener, const struct aggregate_terms *terms)
{
	listener->terms = *terms;
}

void aggregate_close_listener(struct aggregate_listener *listener)
{
	if (!listener)
		return;
	listener->engine->setup.ops->close_listener(listener->listener);
	sys_free(listener);
}

/* ------------------------------------------------------------------------------------------------------- the thread */

void engine_wake(struct aggregate_engine *engine)
{
	uint64_t one = 1;

	atomic_fetch_add(&engine->posts, 1);
	if (atomic_load(&engine->sleeps) && write(engine->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it wakes up */
}

static void stir_by_events(struct group *group, const struct epoll_event *events, int count)
{
	for (int i = 0; i < count; i++) {
		uint64_t key = events[i].data.u64, queue = key & ((1U << QUEUE_BITS) - 1);

		if (key >> QUEUE_BITS != group->serial)
			continue;
		if (queue < group_queues(group))
			group->out[queue].ready = true;
		else if (queue < 2 * group_queues(group))
			group->in[queue - group_queues(group)].ready = true;
	}
}

static void poll_group(struct group *group, struct engine_pass *pass)
{
	bool all = pass->all || !group->watched, missed = group->missed;

	group->missed = atomic_load(&group->wanted);
	if (group->missed)
		return; /* whoever wants it would lose every race for the lock */
	pthread_mutex_lock(&group->lock);
	if (!group->closed && !group->error) {
		if (missed)
			queue_stir_all(group);
		if (pass->soon || all)
			group_stir(group, all);
		stir_by_events(group, pass->events, pass->event_count);
		pass->progressed |= group_poll(group, pass->now_ns);
		pass->received |= group->received;
		pass->busy |= !group->error && !group_is_idle(group);
		pass->wants_soon |= group->soon || !group->watched;
		pass->wants_now |= group->now;
	}
	pthread_mutex_unlock(&group->lock);
}

static void unuse(struct group *group)
{
	if (--group->users == 0)
		group_free(group);
}

static void poll_groups(struct aggregate_engine *engine, struct engine_pass *pass)
{
	struct group *group, *next;

	pthread_mutex_lock(&engine->lock);
	for (group = engine->groups; group; group = next) {
		group->users++;
		pthread_mutex_unlock(&engine->lock);
		poll_group(group, pass);
		pthread_mutex_lock(&engine->lock);
		/* Of one that was taken out nobody knows any more which came next: from the first, as events come but once. */
		next = group->forgotten ? engine->groups : group->next;
		pass->progressed |= group->forgotten;
		unuse(group);
	}
	pthread_mutex_unlock(&engine->lock);
}

/* Aggregators want a sign of life from the coordinator of a group, however idle it is. */
static int idle_ms(const struct aggregate_engine *engine)
{
	uint64_t part_ms = engine->setup.params->timeout_ns / NS_PER_MS / 10;

	return part_ms < IDLE_MS ? (int)part_ms : IDLE_MS;
}

/* Polls every group, with these events. The caller has the engine's drive. */
static void step(struct aggregate_engine *engine, const struct epoll_event *events, int count)
{
	struct engine_pass *pass = &engine->pass;
	uint64_t drained, now_ns = clock_now_ns();

	for (int i = 0; i < count; i++)
		if (!events[i].data.u64 && read(engine->wake_fd, &drained, sizeof(drained)) < 0)
			continue; /* somebody else's wake-up: none the worse */
	pass->now_ns = now_ns;
	pass->events = events;
	pass->event_count = count > 0 ? count : 0;
	/* What was received whole made space for what waits. */
	pass->soon = pass->received || clock_elapsed_ns(pass->soon_ns, now_ns) >= SOON_MS * NS_PER_MS;
	if (pass->soon)
		pass->soon_ns = now_ns;
	pass->all = clock_elapsed_ns(pass->all_ns, now_ns) >= BUSY_MS * NS_PER_MS;
	if (pass->all)
		pass->all_ns = now_ns;
	pass->progressed = pass->received = pass->busy = pass->wants_soon = pass->wants_now = false;
	poll_groups(engine, pass);
}

void engine_help(struct aggregate_engine *engine)
{
	struct epoll_event events[EVENTS_AT_ONCE];

	if (pthread_mutex_trylock(&engine->drive) != 0)
		return; /* somebody is at it */
	for (unsigned i = 0; i < HELP_PASSES; i++) {
		step(engine, events, epoll_wait(engine->epoll_fd, events, EVENTS_AT_ONCE, 0));
		if (!engine->pass.progressed)
			break;
	}
	atomic_store_explicit(&engine->helped_ns, clock_now_ns(), memory_order_relaxed);
	pthread_mutex_unlock(&engine->drive);
}

/* While callers look often enough a thread of our own would only be in their way. 0: nobody has for HELP_LASTS. */
static uint64_t help_lasts_ns(const struct aggregate_engine *engine)
{
	uint64_t helped_ns = atomic_load_explicit(&engine->helped_ns, memory_order_relaxed);
	uint64_t ago_ns = clock_elapsed_ns(helped_ns, clock_now_ns());

	return ago_ns < HELP_LASTS_NS ? HELP_LASTS_NS - ago_ns : 0;
}

/* False: nobody helps. */
static bool nap_while_helped(const struct aggregate_engine *engine)
{
	uint64_t nap_ns = help_lasts_ns(engine);
	const bool helped = nap_ns != 0;

	for (; nap_ns && !atomic_load(&engine->stop); nap_ns = help_lasts_ns(engine))
		nanosleep(&(struct timespec){ .tv_nsec = (long)nap_ns }, NULL);
	return helped;
}

/* Returns the number of events. */
static int wait_for_events(struct aggregate_engine *engine, const struct engine_pass *pass, uint64_t posts,
			   struct epoll_event *events)
{
	int count = 0;

	if (nap_while_helped(engine))
		return 0;
	if (pass->progressed && !pass->wants_now)
		return 0; /* what that made space for comes first, and costs no system call */
	if (pass->wants_now)
		return epoll_wait(engine->epoll_fd, events, EVENTS_AT_ONCE, 0);
	atomic_store(&engine->sleeps, true);
	if (atomic_load(&engine->posts) == posts)
		count = epoll_wait(engine->epoll_fd, events, EVENTS_AT_ONCE,
				   !pass->busy        ? idle_ms(engine)
				   : pass->wants_soon ? SOON_MS
						      : BUSY_MS);
	atomic_store(&engine->sleeps, false);
	return count;
}

static void *run(void *arg)
{
	struct aggregate_engine *engine = arg;
	struct epoll_event events[EVENTS_AT_ONCE];
	struct transport_properties properties;
	struct engine_pass pass;
	int count = 0;

	if (engine->setup.ops->device_properties(engine->setup.transport, engine->device, &properties) == 0)
		pin_near(properties.pci_path, 1);
	while (!atomic_load(&engine->stop)) {
		uint64_t posts = atomic_load(&engine->posts);

		pthread_mutex_lock(&engine->drive);
		step(engine, events, count);
		pass = engine->pass;
		pthread_mutex_unlock(&engine->drive);
		count = wait_for_events(engine, &pass, posts, events);
	}
	return NULL;
}

static int thread_start(struct aggregate_engine *engine)
{
	struct epoll_event wake = { .events = EPOLLIN, .data.u64 = 0 };
	int r = 0;

	if (engine->runs)
		return 0;
	engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (engine->epoll_fd < 0 || engine->wake_fd < 0 ||
	    epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake_fd, &wake) < 0)
		r = -errno;
	if (r == 0)
		r = sys_thread_start(run, engine, "tributary-sum", &engine->thread);
	if (r < 0) {
		log_warn("cannot start the aggregation thread: %s", strerror(-r));
		sys_close(&engine->epoll_fd);
		sys_close(&engine->wake_fd);
		return r;
	}
	engine->runs = true;
	return 0;
}

static int watch_queue(const struct aggregate_engine *engine, const struct queue *queue, uint64_t key)
{
	return queue->connection ? queue->ops->watch(queue->connection, engine->epoll_fd, key) : 0;
}

static bool watch_queues(const struct aggregate_engine *engine, const struct group *group)
{
	uint64_t key = group->serial << QUEUE_BITS;

	for (size_t i = 0; i < group_queues(group); i++)
		if (watch_queue(engine, &group->out[i], key | i) < 0 ||
		    watch_queue(engine, &group->in[i], key | (group_queues(group) + i)) < 0)
			return false;
	return true;
}

/* However many they are, what is in flight between a few fills a port. */
static unsigned spread_of(size_t hosts)
{
	return hosts < SPREAD_MOST ? (unsigned)hosts : SPREAD_MOST;
}

static size_t hosts_in(const struct group *group, size_t leaf)
{
	return (size_t)group->leaf_begin[leaf + 1] - group->leaf_begin[leaf];
}

/* Between leaves cards are what bounds an operation; where rates are not known, uplinks may be. */
static bool uplinks_are_wide(const struct group *group)
{
	const struct aggregate_facts *facts = &group->facts;

	for (size_t i = 0; i < group->count; i++) {
		const struct member_wire_facts *member = &group->members[i].facts;

		if (!member->rate_Bps || !member->up_rate_Bps || !member->down_rate_Bps)
			return false;
	}
	return group->leaf_count > 1 &&
	       facts->uplink_share / (double)facts->uplink_Bps <= facts->host_share / (double)facts->rate_Bps;
}

/*
 * A byte of so many that this member's host sends comes here. Of m leaves one sends another about 2/m of an operation,
 * between any two of their hosts, and one of n hosts sends 2 (n - 1) + 1 of it in all (schedule.h). Through narrow uplinks
 * all of it comes at once: no more than from the own leaf, then.
 */
static unsigned hosts_beside(const struct group *group, size_t member)
{
	size_t own = group->members[group->self].leaf, leaf = group->members[member].leaf;

	if (!uplinks_are_wide(group))
		return spread_of(hosts_in(group, own) - 1);
	if (leaf == own)
		return spread_of(hosts_in(group, own));
	return spread_of((2 * hosts_in(group, leaf) - 1) * hosts_in(group, own) * group->leaf_count / 2);
}

/*
 * What comes from an aggregator is a sum of what all sent, so it comes no faster than that; a grant would wait behind the
 * inputs in this host's port.
 */
static void tell_queues(const struct group *group)
{
	for (size_t i = 0; i < group->node_count; i++) {
		const struct queue *queue = queue_large(group, group->in, i);
		unsigned hosts = i < group->count ? hosts_beside(group, i) : spread_of(group->count);

		if (queue->connection)
			queue->ops->set(queue->connection, TRANSPORT_SET_SPREAD, hosts);
		if (queue->connection && i >= group->count)
			queue->ops->set(queue->connection, TRANSPORT_SET_UNPACED, 1);
	}
}

int engine_start(struct aggregate_engine *engine, int device)
{
	int r;

	pthread_mutex_lock(&engine->lock);
	if (!engine->runs)
		engine->device = device;
	r = thread_start(engine);
	pthread_mutex_unlock(&engine->lock);
	return r;
}

void engine_adopt(struct aggregate_engine *engine, struct group *group)
{
	pthread_mutex_lock(&engine->lock);
	group->serial = ++engine->serial;
	tell_queues(group);
	group->watched = watch_queues(engine, group);
	group->users = 1;
	group->next = engine->groups;
	engine->groups = group;
	pthread_mutex_unlock(&engine->lock);
}

void engine_forget(struct aggregate_engine *engine, struct group *group)
{
	struct group **link = &engine->groups;

	pthread_mutex_lock(&engine->lock);
	while (*link != group)
		link = &(*link)->next;
	*link = group->next;
	group->next = NULL;
	group->forgotten = true;
	unuse(group);
	pthread_mutex_unlock(&engine->lock);
}
