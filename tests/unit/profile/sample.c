/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/profile/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"

static uint32_t add_vertex(struct topology *topology, enum topology_kind kind, const char *name, const char *bus_id)
{
	struct topology_vertex vertex = topology_vertex_of(kind, name);
	uint32_t index = TOPOLOGY_NONE;

	snprintf(vertex.bus_id, sizeof(vertex.bus_id), "%s", bus_id);
	assert_int_equal(topology_add_vertex(topology, &vertex, &index), 0);
	return index;
}

struct profile sample_profile(const struct fingerprint *fingerprint)
{
	struct topology_capacity measured = { 24500000000, 900, 0.0125, 1753900000, TOPOLOGY_MEASURED };
	struct topology_pair pair = { .p2p_works = true };
	struct topology_link link;
	struct profile profile;
	uint32_t members[2], cpu, at;

	profile_init(&profile);
	cpu = add_vertex(&profile.topology, TOPOLOGY_CPU, "cpu0", "");
	pair.from = add_vertex(&profile.topology, TOPOLOGY_GPU, "gpu0", "0000:19:00.0");
	pair.to = add_vertex(&profile.topology, TOPOLOGY_GPU, "gpu1", "0000:1a:00.0");
	for (uint32_t gpu = 0; gpu < 2; gpu++) {
		link = topology_link_of(TOPOLOGY_LINK_PCI, gpu ? pair.to : pair.from, cpu);
		link.pci = (struct topology_pci_link){ 4, 16, 4, 16, "0000:16:02.0" };
		link.nominal_Bps = topology_pci_Bps(4, 16);
		link.capacity[TOPOLOGY_UP] = measured;
		link.capacity[TOPOLOGY_DOWN] = measured;
		assert_int_equal(topology_add_link(&profile.topology, &link, &at), 0);
		members[gpu] = topology_directed(at, TOPOLOGY_UP);
	}
	assert_int_equal(topology_add_limit(&profile.topology, "both", &measured, members, 2, NULL), 0);
	pair.p2p = measured;
	assert_int_equal(topology_add_pair(&profile.topology, &pair, NULL), 0);
	snprintf(profile.topology.driver, sizeof(profile.topology.driver), "nvidia 550.54.15");
	profile.date_s = 1753900000;
	snprintf(profile.measured_by, sizeof(profile.measured_by), "tributary 0.1.0");
	if (fingerprint)
		assert_int_equal(fingerprint_of_text(fingerprint->text, fingerprint->bytes, &profile.fingerprint), 0);
	else
		assert_int_equal(fingerprint_of_text("", 0, &profile.fingerprint), 0);
	return profile;
}

char *sample_resealed(const char *text)
{
	const char *last = strstr(text, "\nchecksum ");
	size_t bytes, room;
	char *sealed;

	assert_non_null(last);
	bytes = (size_t)(last + 1 - text);
	room = bytes + 32;
	sealed = malloc(room);
	assert_non_null(sealed);
	memcpy(sealed, text, bytes);
	snprintf(sealed + bytes, room - bytes, "checksum crc32 %08" PRIx32 "\n", crc_ieee32(text, bytes));
	return sealed;
}

char *sample_replaced(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	size_t bytes = strlen(text) - strlen(from) + strlen(to) + 1;
	char *replaced = malloc(bytes);

	assert_non_null(at);
	assert_non_null(replaced);
	snprintf(replaced, bytes, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	return replaced;
}
