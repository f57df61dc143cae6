/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/calls.h"

#include "base/sys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct plugin_calls {
	LIST_ENTRY(plugin_calls) next;
	uint64_t comm_id;
	pthread_t thread; /* that opened it: a process may have several ranks of a communicator */
	unsigned users;
	atomic_uint_least64_t count;
};

static LIST_HEAD(, plugin_calls) open_calls = LIST_HEAD_INITIALIZER(open_calls); /* newest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;                         /* guards it, and users */

struct plugin_calls *plugin_calls_open(uint64_t comm_id)
{
	struct plugin_calls *ret = sys_zalloc(sizeof(*ret));

	if (!ret)
		return NULL;
	ret->comm_id = comm_id;
	ret->thread = pthread_self();
	ret->users = 1;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&open_calls, ret, next);
	pthread_mutex_unlock(&lock);
	return ret;
}

void plugin_calls_put(struct plugin_calls *calls)
{
	bool is_last;

	if (!calls)
		return;
	pthread_mutex_lock(&lock);
	is_last = --calls->users == 0;
	pthread_mutex_unlock(&lock);
	if (is_last)
		sys_free(calls);
}

void plugin_calls_close(struct plugin_calls *calls)
{
	if (!calls)
		return;
	pthread_mutex_lock(&lock);
	LIST_REMOVE(calls, next);
	pthread_mutex_unlock(&lock);
	plugin_calls_put(calls);
}

struct plugin_calls *plugin_calls_take(uint64_t comm_id)
{
	struct plugin_calls *ret;

	pthread_mutex_lock(&lock);
	for (ret = LIST_FIRST(&open_calls); ret; ret = LIST_NEXT(ret, next))
		if (ret->comm_id == comm_id && pthread_equal(ret->thread, pthread_self()))
			break;
	if (ret)
		ret->users++;
	pthread_mutex_unlock(&lock);
	return ret;
}

void plugin_calls_add(struct plugin_calls *calls)
{
	if (calls)
		atomic_fetch_add_explicit(&calls->count, 1, memory_order_relaxed);
}

uint64_t plugin_calls_count(const struct plugin_calls *calls)
{
	return atomic_load_explicit(&calls->count, memory_order_relaxed);
}
