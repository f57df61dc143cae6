/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine with two NUMA nodes as a folder with sys/ and proc/, for hwloc and for us. Node 0: a switch with two GPUs and a
 * NIC of two ports; node 1: a switch with two GPUs, and a NIC in a slot of its own. Secrets are in all places where
 * machines have them.
 */
#ifndef TRIBUTARY_TESTS_UNIT_DISCOVER_FAKE_MACHINE_H
#define TRIBUTARY_TESTS_UNIT_DISCOVER_FAKE_MACHINE_H

#include "support/tree.h"

/* cmocka's setup: *state is a struct tree, for tree_free. */
int fake_machine_new(void **state);

/* Words that must be in no capture; ends with NULL. */
extern const char *const fake_machine_secrets[];

#endif
