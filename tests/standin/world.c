/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "profile/fingerprint.h"
#include "profile/profile.h"
#include "profile/store.h"
#include "base/params.h"
#include "support/machines.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void nic_rename(struct topology *topology)
{
	const char *interface = getenv("TRIBUTARY_IF");
	uint32_t *nics;
	size_t count;

	assert_int_equal(topology_list(topology, TOPOLOGY_NIC, &nics, &count), 0);
	if (count) {
		struct topology_nic *nic = &topology->vertices[nics[0]].nic;

		snprintf(nic->interface, sizeof(nic->interface), "%s", interface ? interface : "lo");
	}
	free(nics);
}

static void gpus_list(const struct topology *topology, struct world *ret)
{
	for (int dev = 0; dev < WORLD_GPUS_MAX; dev++) {
		char name[16];
		uint32_t gpu;

		snprintf(name, sizeof(name), "gpu%d", dev);
		gpu = topology_find(topology, name);
		if (gpu == TOPOLOGY_NONE)
			break;
		ret->devs[ret->gpu_count] = dev;
		snprintf(ret->bus_ids[ret->gpu_count++], BOARD_BUS_ID_BYTES, "%.23s", topology->vertices[gpu].bus_id);
	}
	assert_true(ret->gpu_count >= 2);
}

void world_make(const char *machine, struct world *ret)
{
	struct topology topology;

	memset(ret, 0, sizeof(*ret));
	assert_true(machines_load(machine, &topology));
	gpus_list(&topology, ret);
	topology_fini(&topology);
}

/* The plugin reports devices by interface, so the machine's NIC gets the name of the one that is here. */
void world_measure(const char *folder, const char *machine, struct world *ret)
{
	struct profile profile;
	struct params params;
	char saved[512];
	struct diag why;

	profile_init(&profile);
	assert_true(machines_load(machine, &profile.topology));
	nic_rename(&profile.topology);
	assert_int_equal(fingerprint_take("", &profile.fingerprint), 0);
	profile.date_s = 1700000000;
	snprintf(profile.measured_by, sizeof(profile.measured_by), "the stand-in's tests");
	snprintf(ret->profile, sizeof(ret->profile), "%s/%s.profile", folder, machine);
	params_defaults(&params);
	if (store_save(&params, &profile, ret->profile, saved, sizeof(saved), &why) < 0)
		fail_msg("%s: %s", ret->profile, why.text);
	assert_int_equal(chmod(ret->profile, 0644), 0);
	profile_fini(&profile);
}

void world_library(const char *name, char *ret, size_t bytes)
{
	char self[256];
	ssize_t got = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	assert_true(got > 0);
	self[got] = '\0';
	slash = strrchr(self, '/');
	assert_non_null(slash);
	*slash = '\0';
	assert_true(snprintf(ret, bytes, "%s/%s", self, name) < (int)bytes);
}
