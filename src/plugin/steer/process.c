/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/process.h"

#include "base/sys.h"
#include "plugin/fork.h"

struct steer_here steer_here = { .lock = PTHREAD_MUTEX_INITIALIZER, .root = "" };

void steer_thread_withdraw(struct steer_thread *thread)
{
	if (thread->is_author)
		steer_registry_forget(&steer_here.setup.registry, thread->record.comm_id);
	steer_registry_drop(&steer_here.setup.registry, thread->slot);
	thread->is_author = false;
	thread->slot = STEER_NO_SLOT;
}

void steer_thread_idle(struct steer_thread *thread)
{
	if (thread->state == STEER_THREAD_IDLE)
		return;
	pthread_mutex_lock(&steer_here.lock);
	steer_thread_withdraw(thread);
	pthread_mutex_unlock(&steer_here.lock);
	sys_close(&thread->graph_fd);
	thread->graph = NULL;
	thread->state = STEER_THREAD_IDLE;
}

void steer_thread_end(void *arg)
{
	struct steer_thread *thread = arg, **link = &steer_here.threads;

	if (plugin_is_forked())
		return;
	steer_thread_idle(thread);
	pthread_mutex_lock(&steer_here.lock);
	while (*link != thread)
		link = &(*link)->next;
	*link = thread->next;
	pthread_mutex_unlock(&steer_here.lock);
	sys_free(thread);
}

struct steer_thread *steer_this_thread(void)
{
	return atomic_load_explicit(&steer_here.ready, memory_order_acquire) && steer_here.setup.registers
		       ? pthread_getspecific(steer_here.key)
		       : NULL;
}

struct steer_thread *steer_thread_make(void)
{
	struct steer_thread *thread = steer_this_thread();

	if (thread || !steer_here.setup.registers)
		return thread;
	thread = sys_zalloc(sizeof(*thread));
	if (!thread)
		return NULL;
	if (pthread_setspecific(steer_here.key, thread) != 0) {
		sys_free(thread);
		return NULL;
	}
	thread->slot = STEER_NO_SLOT;
	thread->graph_fd = -1;
	thread->next = steer_here.threads;
	steer_here.threads = thread;
	return thread;
}
