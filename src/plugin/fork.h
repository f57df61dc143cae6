/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps forked children away from the engine. PyTorch's data loaders fork after NCCL was initialised: the child has a
 * copy of our memory and sockets but none of our threads, and whatever it did would disturb its parent's connections.
 *
 * The mark is a byte in a page that the kernel gives to children wiped (MADV_WIPEONFORK, Linux 4.14); on older kernels
 * the process id is compared instead. The test costs a load of the mark's address and a load of the mark.
 *
 * Threads: plugin_fork_arm() under the caller's lock; plugin_fork_check() from any thread.
 */
#ifndef TRIBUTARY_PLUGIN_FORK_H
#define TRIBUTARY_PLUGIN_FORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct plugin_fork {
	_Atomic(const volatile unsigned char *) mark; /* never NULL; not 0: certainly not a child */
	pid_t owner;
	void *page; /* NULL: the process id decides */
};

/* Before plugin_fork_arm(): no process counts as a child. */
extern const unsigned char plugin_fork_unarmed_mark;
#define PLUGIN_FORK_UNARMED                       \
	{                                         \
		.mark = &plugin_fork_unarmed_mark \
	}

/* The process's own; it lives in state.c with the rest of the state. */
extern struct plugin_fork plugin_fork;

/* From now on children of this process are found. Again: nothing. */
void plugin_fork_arm(struct plugin_fork *state);
/* The same for kernels without MADV_WIPEONFORK. */
void plugin_fork_arm_by_pid(struct plugin_fork *state);
/* Only for tests: back to unarmed, memory freed. */
void plugin_fork_disarm(struct plugin_fork *state);

bool plugin_fork_is_copy(const struct plugin_fork *state); /* the second half of the check */

static inline bool plugin_fork_check(const struct plugin_fork *state)
{
	/* Pairs with the release in plugin_fork_arm(): page and owner are set before the mark is seen. */
	const volatile unsigned char *mark = atomic_load_explicit(&state->mark, memory_order_acquire);

	return *mark == 0 && plugin_fork_is_copy(state);
}

/* Is this a forked child of the process that initialised the plugin? */
static inline bool plugin_is_forked(void)
{
	return plugin_fork_check(&plugin_fork);
}

#endif
