/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who else used this machine while it was measured: processes on its GPUs (NVML), bytes through its interfaces, CPU time. What
 * is measured here sends nothing through an interface's counters, so all that they count is of others. One thread.
 */
#ifndef TRIBUTARY_COMMAND_MEASURE_OTHERS_H
#define TRIBUTARY_COMMAND_MEASURE_OTHERS_H

#include "tributary/topology.h"

#include <jansson.h>
#include <stdio.h>

enum { MEASURE_OTHERS_USES_MAX = 64 };

struct measure_others_use {
	char subject[TOPOLOGY_NAME_BYTES]; /* a GPU, an interface, "the CPUs" */
	char text[320];
};

struct measure_others_uses {
	size_t count;
	struct measure_others_use items[MEASURE_OTHERS_USES_MAX];
};

struct measure_others;

/* Looks at the machine below that root ("": this one), before this process uses a GPU. -ENOMEM. */
int measure_others_begin(const char *root, struct measure_others **ret);
/* Looks again: what others used since. What the system does not tell is left out. */
void measure_others_end(const struct measure_others *others, const struct topology *topology,
			struct measure_others_uses *ret);
void measure_others_free(struct measure_others *others);

/* "gpu0, eth0 and the CPUs"; "" for none. */
void measure_others_subjects(const struct measure_others_uses *uses, char *ret, size_t ret_bytes);
void measure_others_print(const struct measure_others_uses *uses, FILE *out);
json_t *measure_others_json(const struct measure_others_uses *uses);

#endif
