/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

uint32_t machine_vertex(struct topology *topology, enum topology_kind kind, const char *name)
{
	struct topology_vertex vertex = topology_vertex_of(kind, name);
	uint32_t index;

	assert_int_equal(topology_add_vertex(topology, &vertex, &index), 0);
	return index;
}

uint32_t machine_link(struct topology *topology, enum topology_link_kind kind, uint32_t lower, uint32_t upper)
{
	struct topology_link link = topology_link_of(kind, lower, upper);
	uint32_t index;

	assert_int_equal(topology_add_link(topology, &link, &index), 0);
	return index;
}

uint32_t machine_directed(const struct topology *topology, const char *name)
{
	uint32_t directed = topology_find_directed(topology, name);

	if (directed == TOPOLOGY_NONE)
		fail_msg("there is no %s", name);
	return directed;
}

void machine_rate(struct topology *topology, const char *directed, uint64_t rate_Bps)
{
	uint32_t index = machine_directed(topology, directed);

	topology->links[index / 2].capacity[index % 2] = (struct topology_capacity){ .rate_Bps = rate_Bps,
										     .provenance = TOPOLOGY_MEASURED };
}

static void build_socket(struct machine *machine, unsigned socket)
{
	static const unsigned bridges[2] = { 0x16, 0x96 };
	struct topology *topology = &machine->topology;
	unsigned bus = bridges[socket];
	char name[TOPOLOGY_NAME_BYTES];

	snprintf(name, sizeof(name), "cpu%u", socket);
	machine->cpu[socket] = machine_vertex(topology, TOPOLOGY_CPU, name);
	snprintf(name, sizeof(name), "memory%u", socket);
	machine->memory[socket] = machine_vertex(topology, TOPOLOGY_MEMORY, name);
	machine_link(topology, TOPOLOGY_LINK_MEMORY, machine->memory[socket], machine->cpu[socket]);
	snprintf(name, sizeof(name), "bridge:0000:%02x", bus++);
	machine->bridge[socket] = machine_vertex(topology, TOPOLOGY_BRIDGE, name);
	machine_link(topology, TOPOLOGY_LINK_INTERNAL, machine->bridge[socket], machine->cpu[socket]);
	snprintf(name, sizeof(name), "switch:0000:%02x:00.0", bus++);
	machine->top[socket] = machine_vertex(topology, TOPOLOGY_SWITCH, name);
	machine_link(topology, TOPOLOGY_LINK_PCI, machine->top[socket], machine->bridge[socket]);
	for (unsigned i = 2 * socket; i < 2 * socket + 2; i++, bus += 4) {
		snprintf(name, sizeof(name), "switch:0000:%02x:00.0", bus);
		machine->leaf[i] = machine_vertex(topology, TOPOLOGY_SWITCH, name);
		machine_link(topology, TOPOLOGY_LINK_PCI, machine->leaf[i], machine->top[socket]);
		for (unsigned gpu = 2 * i; gpu < 2 * i + 2; gpu++) {
			struct topology_vertex vertex;

			snprintf(name, sizeof(name), "gpu%u", gpu);
			vertex = topology_vertex_of(TOPOLOGY_GPU, name);
			vertex.gpu.index = (int)gpu;
			snprintf(vertex.bus_id, sizeof(vertex.bus_id), "0000:%02x:00.0", bus + 1 + gpu % 2);
			assert_int_equal(topology_add_vertex(topology, &vertex, &machine->gpu[gpu]), 0);
			machine_link(topology, TOPOLOGY_LINK_PCI, machine->gpu[gpu], machine->leaf[i]);
		}
	}
	snprintf(name, sizeof(name), "mlx5_%u", socket);
	machine->nic[socket] = machine_vertex(topology, TOPOLOGY_NIC, name);
	machine_link(topology, TOPOLOGY_LINK_PCI, machine->nic[socket], machine->leaf[2 * socket]);
	machine_link(topology, TOPOLOGY_LINK_NETWORK, machine->nic[socket], machine->network);
}

void machine_build(struct machine *machine)
{
	topology_init(&machine->topology);
	machine->network = machine_vertex(&machine->topology, TOPOLOGY_NETWORK, "network0");
	build_socket(machine, 0);
	build_socket(machine, 1);
	machine_link(&machine->topology, TOPOLOGY_LINK_SOCKET, machine->cpu[0], machine->cpu[1]);
}

/* ---------------------------------------------------------------------------------------------------------- shuffle */

enum { SHUFFLE_MOST = 4096 };

static void shuffle(uint32_t *list, size_t count, uint64_t *seed)
{
	assert_true(count <= SHUFFLE_MOST);
	for (uint32_t i = 0; i < count; i++)
		list[i] = i;
	for (size_t i = count; i > 1; i--) {
		size_t other = random_below(seed, i);
		uint32_t kept = list[i - 1];

		list[i - 1] = list[other];
		list[other] = kept;
	}
}

static bool between_equals(const struct topology *topology, const struct topology_link *link)
{
	return (link->kind == TOPOLOGY_LINK_SOCKET || link->kind == TOPOLOGY_LINK_NVLINK) &&
	       topology->vertices[link->lower].kind == topology->vertices[link->upper].kind;
}

static struct topology_link turned(const struct topology_link *link)
{
	struct topology_link other = *link;

	other.lower = link->upper;
	other.upper = link->lower;
	other.capacity[TOPOLOGY_UP] = link->capacity[TOPOLOGY_DOWN];
	other.capacity[TOPOLOGY_DOWN] = link->capacity[TOPOLOGY_UP];
	return other;
}

void machine_shuffle(const struct topology *from, uint64_t *seed, struct topology *ret)
{
	static uint32_t order[SHUFFLE_MOST], vertex_of[SHUFFLE_MOST], directed_of[2 * SHUFFLE_MOST];
	static uint32_t members[2 * SHUFFLE_MOST];

	topology_init(ret);
	memcpy(ret->name, from->name, sizeof(ret->name));
	memcpy(ret->driver, from->driver, sizeof(ret->driver));
	shuffle(order, from->vertex_count, seed);
	for (size_t i = 0; i < from->vertex_count; i++)
		assert_int_equal(topology_add_vertex(ret, &from->vertices[order[i]], &vertex_of[order[i]]), 0);
	shuffle(order, from->link_count, seed);
	for (size_t i = 0; i < from->link_count; i++) {
		struct topology_link link = from->links[order[i]];
		bool turn = between_equals(from, &link) && i % 2;
		uint32_t index;

		if (turn)
			link = turned(&link);
		link.lower = vertex_of[link.lower];
		link.upper = vertex_of[link.upper];
		assert_int_equal(topology_add_link(ret, &link, &index), 0);
		directed_of[2 * order[i]] = topology_directed(index, turn ? TOPOLOGY_DOWN : TOPOLOGY_UP);
		directed_of[2 * order[i] + 1] = topology_directed(index, turn ? TOPOLOGY_UP : TOPOLOGY_DOWN);
	}
	shuffle(order, from->limit_count, seed);
	for (size_t i = 0; i < from->limit_count; i++) {
		const struct topology_limit *limit = &from->limits[order[i]];

		for (size_t j = 0; j < limit->member_count; j++)
			members[j] = directed_of[limit->members[limit->member_count - 1 - j]];
		assert_int_equal(
			topology_add_limit(ret, limit->name, &limit->capacity, members, limit->member_count, NULL), 0);
	}
	shuffle(order, from->pair_count, seed);
	for (size_t i = 0; i < from->pair_count; i++) {
		struct topology_pair pair = from->pairs[order[i]];

		pair.from = vertex_of[pair.from];
		pair.to = vertex_of[pair.to];
		assert_int_equal(topology_add_pair(ret, &pair, NULL), 0);
	}
}

/* ----------------------------------------------------------------------------------------------------------- random */

static void random_text(uint64_t *seed, char *text, size_t text_bytes)
{
	size_t bytes = random_below(seed, 3) ? 0 : random_below(seed, text_bytes);

	for (size_t i = 0; i < bytes; i++)
		text[i] = (char)(1 + random_below(seed, 255));
	text[bytes] = '\0';
}

static int random_int(uint64_t *seed)
{
	static const int some[] = { -1, 0, 1, 7, 86, INT32_MAX };

	return some[random_below(seed, sizeof(some) / sizeof(some[0]))];
}

static uint64_t random_u64(uint64_t *seed)
{
	return random_below(seed, 2) ? random_next(seed) >> random_below(seed, 64) : 0;
}

static struct topology_capacity random_capacity(uint64_t *seed)
{
	struct topology_capacity capacity = { 0 };

	if (!random_below(seed, 3))
		return capacity;
	capacity.rate_Bps = random_u64(seed);
	capacity.latency_ns = random_u64(seed);
	capacity.spread = (double)random_below(seed, 5) * 0.0123456789;
	capacity.date_s = (int64_t)random_u64(seed);
	capacity.provenance = (enum topology_provenance)random_below(seed, TOPOLOGY_PROVENANCE_COUNT);
	return capacity;
}

static void random_vertex(uint64_t *seed, struct topology *topology)
{
	enum topology_kind kind = (enum topology_kind)random_below(seed, TOPOLOGY_KIND_COUNT);
	struct topology_vertex vertex = topology_vertex_of(kind, topology_kind_word(kind));
	size_t bytes = strlen(vertex.name);

	snprintf(vertex.name + bytes, sizeof(vertex.name) - bytes, "%02u%s", (unsigned)random_below(seed, 20),
		 random_below(seed, 4) ? "" : ":\xc3\xa9.=%");
	random_text(seed, vertex.bus_id, sizeof(vertex.bus_id));
	random_text(seed, vertex.model, sizeof(vertex.model));
	vertex.pci.class_code = (uint32_t)random_u64(seed);
	vertex.pci.vendor = (uint16_t)random_u64(seed);
	vertex.pci.device = (uint16_t)random_u64(seed);
	vertex.pci.subsystem_vendor = (uint16_t)random_u64(seed);
	vertex.pci.subsystem_device = (uint16_t)random_u64(seed);
	vertex.gpu = (struct topology_gpu){ .index = random_int(seed),
					    .sm = random_int(seed),
					    .gdr = random_below(seed, 2),
					    .mig = random_int(seed),
					    .bar1_bytes = random_u64(seed) };
	random_text(seed, vertex.nic.interface, sizeof(vertex.nic.interface));
	vertex.nic.port = random_int(seed);
	vertex.nic.guid = random_u64(seed);
	vertex.nic.speed_Bps = random_u64(seed);
	vertex.nic.latency_ns = random_u64(seed);
	vertex.nic.max_connections = random_int(seed);
	vertex.nic.gdr = random_below(seed, 2);
	vertex.nic.collnet = random_below(seed, 2);
	vertex.nic.rdma = random_below(seed, 2);
	vertex.cpu.numa = random_int(seed);
	random_text(seed, vertex.cpu.architecture, sizeof(vertex.cpu.architecture));
	random_text(seed, vertex.cpu.vendor, sizeof(vertex.cpu.vendor));
	vertex.cpu.family = random_int(seed);
	vertex.cpu.model = random_int(seed);
	random_text(seed, vertex.cpu.affinity, sizeof(vertex.cpu.affinity));
	vertex.memory_bytes = random_u64(seed);
	(void)topology_add_vertex(topology, &vertex, NULL); /* -EEXIST now and then */
}

static void random_link(uint64_t *seed, struct topology *topology)
{
	uint32_t lower = (uint32_t)random_below(seed, topology->vertex_count);
	uint32_t upper = (uint32_t)random_below(seed, topology->vertex_count);
	struct topology_link link =
		topology_link_of((enum topology_link_kind)random_below(seed, TOPOLOGY_LINK_KIND_COUNT), lower, upper);

	if (topology->link_count && !random_below(seed, 3)) {
		/* Once more the same, or nearly so, or the other way round. */
		link = topology->links[random_below(seed, topology->link_count)];
		if (!random_below(seed, 3))
			link = turned(&link);
		if (!random_below(seed, 3))
			link.pci.lanes = 4;
	} else if (random_below(seed, 3)) {
		link.count = 1 + (unsigned)random_below(seed, 4);
		link.pci.generation = (unsigned)random_below(seed, 9);
		link.pci.lanes = (unsigned)random_below(seed, 17);
		link.pci.most_generation = (unsigned)random_below(seed, 8);
		link.pci.most_lanes = (unsigned)random_below(seed, 33);
		random_text(seed, link.pci.port, sizeof(link.pci.port));
		link.nominal_Bps = random_u64(seed);
		link.capacity[0] = random_capacity(seed);
		link.capacity[1] = random_capacity(seed);
	}
	(void)topology_add_link(topology, &link, NULL); /* -EINVAL when both ends are one vertex */
}

static void random_limit(uint64_t *seed, struct topology *topology)
{
	struct topology_capacity capacity = random_capacity(seed);
	uint32_t members[6];
	size_t count = topology->link_count ? random_below(seed, 7) : 0;
	char name[TOPOLOGY_NAME_BYTES];

	for (size_t i = 0; i < count; i++)
		members[i] = (uint32_t)random_below(seed, 2 * topology->link_count);
	snprintf(name, sizeof(name), "limit%u.a>b#,=", (unsigned)random_below(seed, 100));
	(void)topology_add_limit(topology, name, &capacity, members, count, NULL);
}

void machine_random(uint64_t *seed, struct topology *ret)
{
	size_t vertices = random_below(seed, 12), links = random_below(seed, 30), limits = random_below(seed, 6);

	topology_init(ret);
	random_text(seed, ret->name, sizeof(ret->name));
	random_text(seed, ret->driver, sizeof(ret->driver));
	for (size_t i = 0; i < vertices; i++)
		random_vertex(seed, ret);
	for (size_t i = 0; ret->vertex_count && i < links; i++)
		random_link(seed, ret);
	for (size_t i = 0; i < limits; i++)
		random_limit(seed, ret);
	for (size_t i = 0; ret->vertex_count && i < 5; i++) {
		struct topology_pair pair = { .from = (uint32_t)random_below(seed, ret->vertex_count),
					      .to = (uint32_t)random_below(seed, ret->vertex_count),
					      .p2p_works = random_below(seed, 2),
					      .p2p = random_capacity(seed),
					      .host = random_capacity(seed) };

		(void)topology_add_pair(ret, &pair, NULL);
	}
}

char *machine_text(const struct topology *topology)
{
	size_t bytes;
	char *text;

	assert_int_equal(topology_write(topology, &text, &bytes), 0);
	assert_int_equal(strlen(text), bytes);
	return text;
}
