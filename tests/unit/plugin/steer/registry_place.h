/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry of this process in a folder of its own, and other processes that use it. Every function fails the running test
 * when it cannot do its work.
 */
#ifndef TRIBUTARY_TESTS_UNIT_PLUGIN_STEER_REGISTRY_PLACE_H
#define TRIBUTARY_TESTS_UNIT_PLUGIN_STEER_REGISTRY_PLACE_H

#include "plugin/steer/registry.h"
#include "support/tree.h"

#include <sys/types.h>

enum { REGISTRY_PLACE_HOST = 7 };

struct registry_place {
	char root[64], folder[PARAMS_STRING_BYTES + 32];
	struct steer_registry registry;
	struct steer_snapshot snapshot;
	struct steer_decision decision;
	struct diag diag;
};

/* cmocka setup and teardown: *state is the place. */
int registry_place_open(void **state);
int registry_place_close(void **state);

struct steer_process registry_place_process(uint32_t size, uint32_t rank);
/* What steer_registry_add returns for a record of that communicator. */
int registry_place_add(struct steer_registry *registry, uint64_t comm, const char *bus_id);
void registry_place_scan(struct registry_place *place, uint64_t comm);
/* That NCCL searches; the reason is the number. */
void registry_place_decision(struct steer_decision *decision, uint64_t comm, int number);
/* A process comes, removes what the dead have left, and takes away its own when it goes. */
void registry_place_sweep(const struct registry_place *place);

/*
 * As in a container: from now on this process is in a process id namespace with a /proc of its own, where it has number 1.
 * The caller stays outside, waits for it, and ends with its status. False: none may be made here.
 */
bool registry_place_contain(void);

/* Another process of the user, with a registry of its own. */
struct registry_other {
	pid_t pid;
	int orders, replies;
};
enum registry_order {
	REGISTRY_ADD,     /* a record of communicator 5 with GPU 0000:11:00.0 */
	REGISTRY_CLAIM,   /* communicator 5 */
	REGISTRY_DECIDE,  /* communicator 5 */
	REGISTRY_TEAR,    /* half a record */
	REGISTRY_REPLACE, /* its file becomes one of another version */
	REGISTRY_FORK,    /* a child that holds all descriptors and waits to be killed; the reply is its pid */
	REGISTRY_END,     /* closes and exits */
};
struct registry_other registry_other_start(const struct registry_place *place);
/* In a process id namespace of its own. False: none may be made here. */
bool registry_other_contain(const struct registry_place *place, struct registry_other *ret);
int registry_other_do(const struct registry_other *other, enum registry_order order);
/* By that signal; 0: it closes its registry. */
void registry_other_end(struct registry_other *other, int signal);

#endif
