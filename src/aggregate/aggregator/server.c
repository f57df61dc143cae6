/* Server: its threads, and the life of its groups as others see it. */
#include "aggregate/aggregator/server.h"

#include "aggregate/aggregator/server_internal.h"
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

static void wake(struct server_thread *thread)
{
	uint64_t one = 1;

	if (write(thread->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it is awake anyway */
}

/* ----------------------------------------------------------------------------------------------------------- threads */

static void take_arriving(struct server_thread *thread)
{
	struct server_group *group;

	pthread_mutex_lock(&thread->lock);
	group = thread->arriving;
	thread->arriving = NULL;
	pthread_mutex_unlock(&thread->lock);
	while (group) {
		struct server_group *next = group->next;

		group->next = thread->groups;
		thread->groups = group;
		group = next;
	}
}

static void group_free(struct server_group *group)
{
	if (!group)
		return;
	server_bootstrap_end(group);
	server_flow_end(group); /* segments that are under way give their share back */
	server_share_leave(&group->user);
	group->server->setup.ops->close_listener(group->listener);
	for (size_t i = 0; i < group->slots_free; i++)
		sys_unmap_pages(group->slots[i], SERVER_WIRE_SEGMENT_BYTES_MAX);
	sys_free(group->slots);
	pthread_mutex_destroy(&group->lock);
	sys_free(group);
}

static void release(struct server_group *group)
{
	struct aggregate_server *server = group->server;

	atomic_fetch_sub(&group->thread->load, (unsigned)group->member_count);
	group_free(group);
	pthread_mutex_lock(&server->lock);
	server->group_count--;
	pthread_mutex_unlock(&server->lock);
}

static void turn_of(struct server_group *group, uint64_t now_ns)
{
	int state = atomic_load(&group->state);

	group->soon = group->now = group->progressed = false;
	if (state == AGGREGATE_SERVER_CONNECTING && server_bootstrap(group, now_ns) == 1) {
		server_bootstrap_end(group);
		server_flow_begin(group);
		if (atomic_load(&group->state) == AGGREGATE_SERVER_CONNECTING)
			atomic_store(&group->state, AGGREGATE_SERVER_READY);
		group->now = true;
	} else if (state == AGGREGATE_SERVER_CONNECTING) {
		group->soon = true;
	} else if (state == AGGREGATE_SERVER_READY) {
		server_flow(group, now_ns);
	}
	/* Members see the end at once, and nobody waits for its turn; the sentence waits for who asks. */
	if (atomic_load(&group->state) == AGGREGATE_SERVER_FAILED && group->peers) {
		server_flow_end(group);
		server_share_rest(&group->user);
	}
}

static int turns(struct server_thread *thread)
{
	struct server_group **link = &thread->groups;
	uint64_t now_ns = clock_now_ns();
	int wait_ms = IDLE_MS;

	while (*link) {
		struct server_group *group = *link;

		if (atomic_load(&group->ended)) {
			*link = group->next;
			release(group);
			continue;
		}
		turn_of(group, now_ns);
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
	struct server_thread *thread = arg;
	struct epoll_event events[EVENTS];
	uint64_t drained;

	for (;;) {
		int wait_ms, count;

		take_arriving(thread);
		wait_ms = turns(thread);
		if (atomic_load(&thread->stop) && !thread->groups)
			return NULL;
		count = epoll_wait(thread->epoll_fd, events, EVENTS, wait_ms);
		for (int i = 0; i < count; i++) {
			struct server_peer *peer = events[i].data.ptr;

			/* Peers are freed by this thread alone, after their connections left the set. */
			if (peer)
				peer->ready = true;
			else if (read(thread->wake_fd, &drained, sizeof(drained)) < 0)
				continue; /* somebody else has */
		}
	}
}

static int thread_open(struct aggregate_server *server, struct server_thread *thread, unsigned index)
{
	struct epoll_event event = { .events = EPOLLIN };
	char name[16];

	thread->server = server;
	thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (thread->epoll_fd < 0 || thread->wake_fd < 0 ||
	    epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, thread->wake_fd, &event) < 0)
		return -errno;
	snprintf(name, sizeof(name), "aggregate-%u", index % 1000);
	thread->runs = true;
	return sys_thread_start(run, thread, name, &thread->thread);
}

int aggregate_server_open(const struct aggregate_server_setup *setup, struct aggregate_server **ret)
{
	struct aggregate_server *server = sys_zalloc(sizeof(*server));
	struct transport_properties properties;
	uint64_t most_bytes = SHARE_LEAST;
	int r = 0;

	if (!server)
		return -ENOMEM;
	server->setup = *setup;
	server->level = reduce_level_start(setup->params->simd);
	if (!setup->ops->device_properties(setup->transport, 0, &properties) &&
	    properties.speed_Bps / SHARE_PER_S > most_bytes)
		most_bytes = properties.speed_Bps / SHARE_PER_S;
	server_share_init(&server->share, most_bytes, SERVER_WIRE_SEGMENT_BYTES_MAX);
	pthread_mutex_init(&server->lock, NULL);
	server->threads = sys_zalloc(setup->thread_count * sizeof(*server->threads));
	for (unsigned i = 0; server->threads && i < setup->thread_count; i++) {
		server->threads[i].epoll_fd = server->threads[i].wake_fd = -1;
		pthread_mutex_init(&server->threads[i].lock, NULL);
	}
	for (unsigned i = 0; server->threads && r == 0 && i < setup->thread_count; i++) {
		r = thread_open(server, &server->threads[i], i);
		if (r < 0)
			server->threads[i].runs = false;
	}
	if (!server->threads)
		r = -ENOMEM;
	if (r < 0) {
		log_warn("the threads of the aggregator cannot be started: %s", strerror(-r));
		aggregate_server_close(server);
		return r;
	}
	*ret = server;
	return 0;
}

void aggregate_server_close(struct aggregate_server *server)
{
	if (!server)
		return;
	for (unsigned i = 0; server->threads && i < server->setup.thread_count; i++) {
		struct server_thread *thread = &server->threads[i];

		atomic_store(&thread->stop, true);
		if (thread->runs) {
			wake(thread);
			pthread_join(thread->thread, NULL);
		}
		sys_close(&thread->epoll_fd);
		sys_close(&thread->wake_fd);
		pthread_mutex_destroy(&thread->lock);
	}
	sys_free(server->threads);
	server_share_fini(&server->share);
	pthread_mutex_destroy(&server->lock);
	sys_free(server);
}

/* ------------------------------------------------------------------------------------------------------------ groups */

/* One segment of the largest kind must fit, whoever is its root; else members would wait for ever. */
static size_t slots_needed(size_t member_count)
{
	return 2 * member_count;
}

static int count_in(struct aggregate_server *server)
{
	int r = -ENOSPC;

	pthread_mutex_lock(&server->lock);
	if (server->group_count < server->setup.groups_max) {
		server->group_count++;
		r = 0;
	}
	pthread_mutex_unlock(&server->lock);
	return r;
}

static void wake_group(void *arg)
{
	const struct server_group *group = arg;

	wake(group->thread);
}

static struct server_thread *least_loaded(struct aggregate_server *server)
{
	struct server_thread *found = &server->threads[0];

	for (unsigned i = 1; i < server->setup.thread_count; i++)
		if (atomic_load(&server->threads[i].load) < atomic_load(&found->load))
			found = &server->threads[i];
	return found;
}

int aggregate_server_begin(struct aggregate_server *server, const struct aggregate_server_request *request,
			   uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct aggregate_server_group **ret)
{
	uint64_t window_bytes = server->setup.memory_max_bytes / server->setup.groups_max;
	struct server_group *group;
	int r;

	if (!request->member_count || request->member_count > AGGREGATE_SERVER_MEMBERS_MAX)
		return -EINVAL;
	if (window_bytes / SERVER_WIRE_SEGMENT_BYTES_MAX < slots_needed(request->member_count))
		return -EDQUOT;
	r = count_in(server);
	if (r < 0)
		return r;
	group = sys_zalloc(sizeof(*group));
	if (!group) {
		r = -ENOMEM;
		goto fail;
	}
	group->server = server;
	pthread_mutex_init(&group->lock, NULL);
	memcpy(group->id, request->id, sizeof(group->id));
	group->device = request->device;
	group->timeout_ns = request->timeout_ns;
	group->member_count = group->node_count = request->member_count;
	group->chain = SERVER_WIRE_NONE;
	group->slot_count = (size_t)(window_bytes / SERVER_WIRE_SEGMENT_BYTES_MAX);
	group->slots = sys_zalloc(group->slot_count * sizeof(*group->slots));
	group->peers = sys_zalloc(SERVER_NODES_MAX * sizeof(*group->peers));
	if (!group->slots || !group->peers) {
		r = -ENOMEM;
		goto fail;
	}
	for (size_t i = 0; i < request->member_count; i++)
		memcpy(group->peers[i].handle, request->handles + i * TRANSPORT_HANDLE_BYTES, TRANSPORT_HANDLE_BYTES);
	r = server->setup.ops->listen(server->setup.transport, request->device, handle, &group->listener);
	if (r < 0)
		goto fail;
	group->thread = least_loaded(server);
	server_share_join(&server->share, &group->user, wake_group, group);
	*ret = (struct aggregate_server_group *)group;
	return 0;
fail:
	group_free(group);
	pthread_mutex_lock(&server->lock);
	server->group_count--;
	pthread_mutex_unlock(&server->lock);
	return r;
}

int aggregate_server_go(struct aggregate_server_group *handle, unsigned position, size_t server_count,
			const uint8_t *handles)
{
	struct server_group *group = (struct server_group *)handle;

	if (position >= server_count || group->member_count + server_count > SERVER_NODES_MAX)
		return -EINVAL;
	group->self = group->member_count + position;
	group->node_count = group->member_count + server_count;
	for (size_t i = 0; i < server_count; i++)
		memcpy(group->peers[group->member_count + i].handle, handles + i * TRANSPORT_HANDLE_BYTES,
		       TRANSPORT_HANDLE_BYTES);
	group->deadline_ns = clock_now_ns() + group->timeout_ns;
	atomic_store(&group->state, AGGREGATE_SERVER_CONNECTING);
	atomic_fetch_add(&group->thread->load, (unsigned)group->member_count);
	pthread_mutex_lock(&group->thread->lock);
	group->next = group->thread->arriving;
	group->thread->arriving = group;
	pthread_mutex_unlock(&group->thread->lock);
	wake(group->thread);
	return 0;
}

void aggregate_server_look(struct aggregate_server_group *handle, struct aggregate_server_look *ret)
{
	struct server_group *group = (struct server_group *)handle;

	ret->state = (enum aggregate_server_state)atomic_load(&group->state);
	ret->counters = (struct aggregate_server_counters){ .bytes_in = atomic_load(&group->bytes_in),
							    .bytes_out = atomic_load(&group->bytes_out),
							    .segments = atomic_load(&group->segments) };
	ret->window_bytes = group->slot_count * SERVER_WIRE_SEGMENT_BYTES_MAX;
	pthread_mutex_lock(&group->lock);
	memcpy(ret->sentence, group->sentence, sizeof(ret->sentence));
	pthread_mutex_unlock(&group->lock);
}

void aggregate_server_end(struct aggregate_server_group *handle)
{
	struct server_group *group = (struct server_group *)handle;
	struct aggregate_server *server;

	if (!group)
		return;
	server = group->server;
	if (atomic_load(&group->state) != AGGREGATE_SERVER_OFFERED) {
		/* Its thread may free it as soon as the mark is set. */
		struct server_thread *thread = group->thread;

		atomic_store(&group->ended, true);
		wake(thread);
		return;
	}
	group_free(group);
	pthread_mutex_lock(&server->lock);
	server->group_count--;
	pthread_mutex_unlock(&server->lock);
}
