/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places where processes run: each has a /dev/shm of its own. One without a network of its own is a container on the
 * tests' host; one with its own network and name is another host. All of them see the GPUs of one machine in sysfs.
 *
 * One process, one thread; places end with it.
 */
#ifndef TESTS_STANDIN_PLACE_H
#define TESTS_STANDIN_PLACE_H

#include "world.h"

#include <stdbool.h>
#include <sys/types.h>

struct place {
	int mounts, network, name; /* namespaces; network and name: -1: the tests' own */
	int shm;                   /* folder */
};

/* Before all others: namespaces in which this process may make more. -errno: it may not. */
int places_begin(void);
/* sysfs has the GPUs of this world from now on, for this process and the places that it makes. */
int places_show_gpus(const struct world *world);
int place_make(bool is_other_host, struct place *ret);
/* The calling process, of one thread, is there from now on. */
int place_enter(const struct place *place);

/*
 * Files and folders in its /dev/shm. communicators: only what the plugin has for single communicators, which is there while
 * one of them is being initialised.
 */
unsigned place_count(const struct place *place, bool communicators);
void place_wipe(const struct place *place);
/* A process of a version of the plugin whose files cannot be read, as long as the descriptor is open. */
int place_put_foreigner(const struct place *place);

#endif
