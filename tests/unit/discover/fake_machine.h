/*
 * A machine with two NUMA nodes as a folder with sys/ and proc/, for hwloc and for us. Node 0: a switch with two GPUs and a
 * NIC of two ports; node 1: a switch with two GPUs, and a NIC in a slot of its own. Secrets are in all places where
 * machines have them.
 */
#ifndef TRIBUTARY_TESTS_UNIT_DISCOVER_FAKE_MACHINE_H
#define TRIBUTARY_TESTS_UNIT_DISCOVER_FAKE_MACHINE_H

#include <stddef.h>

struct fake_machine {
	char root[64];
	int fd;
};

/* cmocka set-up and tear-down: *state is a struct fake_machine. */
int fake_machine_new(void **state);
int fake_machine_free(void **state);

void fake_machine_bytes(struct fake_machine *machine, const char *path, const void *data, size_t bytes);
void fake_machine_file(struct fake_machine *machine, const char *path, const char *text);
void fake_machine_link(struct fake_machine *machine, const char *path, const char *target);

/* Words that must be in no capture; ends with NULL. */
extern const char *const fake_machine_secrets[];

#endif
