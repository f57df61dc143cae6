/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/fork.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MARK_BYTES = 1 }; /* the kernel rounds it up to a page */

const unsigned char plugin_fork_unarmed_mark = 1;
static const unsigned char by_pid_mark; /* always 0: ask for the process id every time */

static void *wiped_page_new(void)
{
#if defined(MADV_WIPEONFORK) && !defined(TRIBUTARY_FORK_BY_PID)
	unsigned char *page = mmap(NULL, MARK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, MARK_BYTES, MADV_WIPEONFORK) < 0) {
		munmap(page, MARK_BYTES);
		return NULL;
	}
	*page = 1;
	return page;
#else
	return NULL;
#endif
}

static bool is_armed(const struct plugin_fork *state)
{
	return atomic_load_explicit(&state->mark, memory_order_relaxed) != &plugin_fork_unarmed_mark;
}

void plugin_fork_arm_by_pid(struct plugin_fork *state)
{
	if (is_armed(state))
		return;
	state->owner = getpid();
	atomic_store_explicit(&state->mark, &by_pid_mark, memory_order_release);
}

void plugin_fork_arm(struct plugin_fork *state)
{
	int saved_errno = errno;

	if (is_armed(state))
		return;
	state->page = wiped_page_new();
	errno = saved_errno;
	if (!state->page) {
		plugin_fork_arm_by_pid(state);
		return;
	}
	atomic_store_explicit(&state->mark, state->page, memory_order_release);
}

void plugin_fork_disarm(struct plugin_fork *state)
{
	atomic_store_explicit(&state->mark, &plugin_fork_unarmed_mark, memory_order_release);
	if (state->page)
		munmap(state->page, MARK_BYTES);
	state->page = NULL;
}

bool plugin_fork_is_copy(const struct plugin_fork *state)
{
	/* A wiped page is proof by itself; a process id could be the parent's own in another pid namespace. */
	return state->page || getpid() != state->owner;
}
