/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregator: its threads, and the life of its groups as others see it. */
#include "aggregate/aggregator/aggregator.h"

#include "aggregate/aggregator/internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS = 64, IDLE_MS = 100 };

/* What groups may have under way together: what the card takes in in so long, and enough for some large segments. */
#define SHARE_PER_S 250 /* 4 ms */
#define SHARE_LEAST (UINT64_C(8) << 20)

static void wake(struct aggregator_thread *thread)
{
	uint64_t one = 1;

	if (write(thread->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it is awake anyway */
}

/* ----------------------------------------------------------------------------------------------------------- threads */

static void take_arriving(struct aggregator_thread *thread)
{
	struct aggregator_group *group;

	pthread_mutex_lock(&thread->lock);
	group = thread->arriving;
	thread->arriving = NULL;
	pthread_mutex_unlock(&thread->lock);
	while (group) {
		struct aggregator_group *next = group->next;

		group->next = thread->groups;
		thread->groups = group;
		group = next;
	}
}

static void group_free(struct aggregator_group *group)
{
	if (!group)
		return;
	aggregator_bootstrap_end(group);
	aggregator_flow_end(group); /* segments that are under way give their share back */
	aggregator_share_leave(&group->user);
	group->aggregator->setup.ops->close_listener(group->listener);
	for (size_t i = 0; i < group->slots_free; i++)
		sys_unmap_pages(group->slots[i], AGGREGATOR_WIRE_SEGMENT_BYTES_MAX);
	sys_free(group->slots);
	pthread_mutex_destroy(&group->lock);
	sys_free(group);
}

static void release(struct aggregator_group *group)
{
	atomic_fetch_sub(&group->thread->load, (unsigned)group->member_count);
	group_free(group);
}

static void poll_group(struct aggregator_group *group, uint64_t now_ns)
{
	int state = atomic_load(&group->state);

	group->soon = group->now = group->progressed = false;
	if (state == AGGREGATOR_CONNECTING && aggregator_bootstrap(group, now_ns) == 1) {
		aggregator_bootstrap_end(group);
		aggregator_flow_begin(group);
		if (atomic_load(&group->state) == AGGREGATOR_CONNECTING)
			atomic_store(&group->state, AGGREGATOR_READY);
		group->now = true;
	} else if (state == AGGREGATOR_CONNECTING) {
		group->soon = true;
	} else if (state == AGGREGATOR_READY) {
		aggregator_flow(group, now_ns);
	}
	/* Members see the end at once, and no one is kept waiting; the sentence waits for who asks. */
	if (atomic_load(&group->state) == AGGREGATOR_FAILED && group->peers) {
		aggregator_flow_end(group);
		aggregator_share_rest(&group->user);
	}
}

static int poll_groups(struct aggregator_thread *thread)
{
	struct aggregator_group **link = &thread->groups;
	uint64_t now_ns = clock_now_ns();
	int wait_ms = IDLE_MS;

	while (*link) {
		struct aggregator_group *group = *link;

		if (atomic_load(&group->ended)) {
			*link = group->next;
			release(group);
			continue;
		}
		poll_group(group, now_ns);
		if (group->now || group->progressed)
			wait_ms = 0;
		else if (group->soon && wait_ms > 1)
			wait_ms = 1;
		link = &group->next;
	}
	return wait_ms;
}

static void *run(void *arg)
{
	struct aggregator_thread *thread = arg;
	struct epoll_event events[EVENTS];
	uint64_t drained;

	for (;;) {
		int wait_ms, count;

		take_arriving(thread);
		wait_ms = poll_groups(thread);
		if (atomic_load(&thread->stop) && !thread->groups)
			return NULL;
		count = epoll_wait(thread->epoll_fd, events, EVENTS, wait_ms);
		for (int i = 0; i < count; i++) {
			struct aggregator_peer *peer = events[i].data.ptr;

			/* Peers are freed by this thread alone, after their connections left the set. */
			if (peer)
				peer->ready = true;
			else if (read(thread->wake_fd, &drained, sizeof(drained)) < 0)
				continue; /* somebody else has */
		}
	}
}

static int thread_open(struct aggregator *aggregator, struct aggregator_thread *thread, unsigned index)
{
	struct epoll_event event = { .events = EPOLLIN };
	char name[16];

	thread->aggregator = aggregator;
	thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (thread->epoll_fd < 0 || thread->wake_fd < 0 ||
	    epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, thread->wake_fd, &event) < 0)
		return -errno;
	snprintf(name, sizeof(name), "aggregate-%u", index % 1000);
	thread->runs = true;
	return sys_thread_start(run, thread, name, &thread->thread);
}

int aggregator_open(const struct aggregator_setup *setup, struct aggregator **ret)
{
	struct aggregator *aggregator = sys_zalloc(sizeof(*aggregator));
	struct transport_properties properties;
	uint64_t most_bytes = SHARE_LEAST;
	int r = 0;

	if (!aggregator)
		return -ENOMEM;
	aggregator->setup = *setup;
	aggregator->level = reduce_level_start(setup->params->simd);
	if (!setup->ops->device_properties(setup->transport, 0, &properties) &&
	    properties.speed_Bps / SHARE_PER_S > most_bytes)
		most_bytes = properties.speed_Bps / SHARE_PER_S;
	aggregator_share_init(&aggregator->share, most_bytes, AGGREGATOR_WIRE_SEGMENT_BYTES_MAX);
	pthread_mutex_init(&aggregator->lock, NULL);
	aggregator->threads = sys_zalloc(setup->thread_count * sizeof(*aggregator->threads));
	for (unsigned i = 0; aggregator->threads && i < setup->thread_count; i++) {
		aggregator->threads[i].epoll_fd = aggregator->threads[i].wake_fd = -1;
		pthread_mutex_init(&aggregator->threads[i].lock, NULL);
	}
	for (unsigned i = 0; aggregator->threads && r == 0 && i < setup->thread_count; i++) {
		r = thread_open(aggregator, &aggregator->threads[i], i);
		if (r < 0)
			aggregator->threads[i].runs = false;
	}
	if (!aggregator->threads)
		r = -ENOMEM;
	if (r < 0) {
		log_warn("the threads of the aggregator cannot be started: %s", strerror(-r));
		aggregator_close(aggregator);
		return r;
	}
	*ret = aggregator;
	return 0;
}

void aggregator_close(struct aggregator *aggregator)
{
	if (!aggregator)
		return;
	for (unsigned i = 0; aggregator->threads && i < aggregator->setup.thread_count; i++) {
		struct aggregator_thread *thread = &aggregator->threads[i];

		atomic_store(&thread->stop, true);
		if (thread->runs) {
			wake(thread);
			pthread_join(thread->thread, NULL);
		}
		sys_close(&thread->epoll_fd);
		sys_close(&thread->wake_fd);
		pthread_mutex_destroy(&thread->lock);
	}
	sys_free(aggregator->threads);
	aggregator_share_fini(&aggregator->share);
	pthread_mutex_destroy(&aggregator->lock);
	sys_free(aggregator);
}

/* ------------------------------------------------------------------------------------------------------------ groups */

/* One segment of the largest kind must fit, whoever is its root; else members would wait for ever. */
static size_t slots_needed(size_t member_count)
{
	return 2 * member_count;
}

static int count_in(struct aggregator *aggregator)
{
	int r = -ENOSPC;

	pthread_mutex_lock(&aggregator->lock);
	if (aggregator->group_count < aggregator->setup.groups_max) {
		aggregator->group_count++;
		r = 0;
	}
	pthread_mutex_unlock(&aggregator->lock);
	return r;
}

static void count_out(struct aggregator *aggregator)
{
	pthread_mutex_lock(&aggregator->lock);
	aggregator->group_count--;
	pthread_mutex_unlock(&aggregator->lock);
}

static void wake_group(void *arg)
{
	const struct aggregator_group *group = arg;

	wake(group->thread);
}

static struct aggregator_thread *least_loaded(struct aggregator *aggregator)
{
	struct aggregator_thread *found = &aggregator->threads[0];

	for (unsigned i = 1; i < aggregator->setup.thread_count; i++)
		if (atomic_load(&aggregator->threads[i].load) < atomic_load(&found->load))
			found = &aggregator->threads[i];
	return found;
}

int aggregator_begin(struct aggregator *aggregator, const struct aggregator_request *request,
		     uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct aggregator_group **ret)
{
	uint64_t window_bytes = aggregator->setup.memory_max_bytes / aggregator->setup.groups_max;
	struct aggregator_group *group;
	int r;

	if (!request->member_count || request->member_count > AGGREGATOR_MEMBERS_MAX)
		return -EINVAL;
	if (window_bytes / AGGREGATOR_WIRE_SEGMENT_BYTES_MAX < slots_needed(request->member_count))
		return -EDQUOT;
	r = count_in(aggregator);
	if (r < 0)
		return r;
	group = sys_zalloc(sizeof(*group));
	if (!group) {
		r = -ENOMEM;
		goto fail;
	}
	group->aggregator = aggregator;
	pthread_mutex_init(&group->lock, NULL);
	memcpy(group->id, request->id, sizeof(group->id));
	group->device = request->device;
	group->timeout_ns = request->timeout_ns;
	group->member_count = group->node_count = request->member_count;
	group->chain = AGGREGATOR_WIRE_NONE;
	group->slot_count = (size_t)(window_bytes / AGGREGATOR_WIRE_SEGMENT_BYTES_MAX);
	group->slots = sys_zalloc(group->slot_count * sizeof(*group->slots));
	group->peers = sys_zalloc(AGGREGATOR_NODES_MAX * sizeof(*group->peers));
	if (!group->slots || !group->peers) {
		r = -ENOMEM;
		goto fail;
	}
	for (size_t i = 0; i < request->member_count; i++)
		memcpy(group->peers[i].handle, request->handles + i * TRANSPORT_HANDLE_BYTES, TRANSPORT_HANDLE_BYTES);
	r = aggregator->setup.ops->listen(aggregator->setup.transport, request->device, handle, &group->listener);
	if (r < 0)
		goto fail;
	group->thread = least_loaded(aggregator);
	aggregator_share_join(&aggregator->share, &group->user, wake_group, group);
	*ret = (struct aggregator_group *)group;
	return 0;
fail:
	group_free(group);
	count_out(aggregator);
	return r;
}

int aggregator_go(struct aggregator_group *handle, unsigned position, size_t aggregator_count, const uint8_t *handles)
{
	struct aggregator_group *group = (struct aggregator_group *)handle;

	if (position >= aggregator_count || group->member_count + aggregator_count > AGGREGATOR_NODES_MAX)
		return -EINVAL;
	group->self = group->member_count + position;
	group->node_count = group->member_count + aggregator_count;
	for (size_t i = 0; i < aggregator_count; i++)
		memcpy(group->peers[group->member_count + i].handle, handles + i * TRANSPORT_HANDLE_BYTES,
		       TRANSPORT_HANDLE_BYTES);
	group->since_ns = group->looked_ns = clock_now_ns();
	atomic_store(&group->state, AGGREGATOR_CONNECTING);
	atomic_fetch_add(&group->thread->load, (unsigned)group->member_count);
	pthread_mutex_lock(&group->thread->lock);
	group->next = group->thread->arriving;
	group->thread->arriving = group;
	pthread_mutex_unlock(&group->thread->lock);
	wake(group->thread);
	return 0;
}

void aggregator_status(struct aggregator_group *handle, struct aggregator_status *ret)
{
	struct aggregator_group *group = (struct aggregator_group *)handle;

	ret->state = (enum aggregator_state)atomic_load(&group->state);
	ret->counters = (struct aggregator_counters){ .bytes_in = atomic_load(&group->bytes_in),
						      .bytes_out = atomic_load(&group->bytes_out),
						      .segments = atomic_load(&group->segments) };
	ret->window_bytes = group->slot_count * AGGREGATOR_WIRE_SEGMENT_BYTES_MAX;
	pthread_mutex_lock(&group->lock);
	memcpy(ret->sentence, group->sentence, sizeof(ret->sentence));
	pthread_mutex_unlock(&group->lock);
}

void aggregator_end(struct aggregator_group *handle)
{
	struct aggregator_group *group = (struct aggregator_group *)handle;

	if (!group)
		return;
	/* At once: who ends a group may begin the next one before its thread has come to free it. */
	count_out(group->aggregator);
	if (atomic_load(&group->state) != AGGREGATOR_OFFERED) {
		/* Its thread may free it as soon as the mark is set. */
		struct aggregator_thread *thread = group->thread;

		atomic_store(&group->ended, true);
		wake(thread);
		return;
	}
	group_free(group);
}
