/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_spec.h"

#include "unit/topology/machine.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Rates in 10^8 bytes/s. */
const struct machine_spec machine_specs[] = {
	{ .name = "single root, no switch",
	  .gpus = 4,
	  .nics = 1,
	  .sockets = 1,
	  .gpu_rate = 240,
	  .memory_rate = 800,
	  .nic_rate = 120,
	  .wire_rate = 120 },
	{ .name = "single root, four switches",
	  .gpus = 8,
	  .nics = 2,
	  .sockets = 1,
	  .switches = 4,
	  .gdr = true,
	  .gpu_rate = 250,
	  .uplink_rate = 250,
	  .memory_rate = 1500,
	  .nic_rate = 250,
	  .wire_rate = 125 },
	{ .name = "dual root, two switches",
	  .gpus = 8,
	  .nics = 2,
	  .sockets = 2,
	  .switches = 2,
	  .gdr = true,
	  .gpu_rate = 240,
	  .uplink_rate = 240,
	  .socket_rate = 160,
	  .memory_rate = 900,
	  .nic_rate = 240,
	  .wire_rate = 120 },
	{ .name = "dual root, two switches, no P2P across",
	  .gpus = 8,
	  .nics = 1,
	  .sockets = 2,
	  .switches = 2,
	  .p2p = MACHINE_P2P_SOCKET,
	  .gpu_rate = 500,
	  .uplink_rate = 480,
	  .socket_rate = 300,
	  .memory_rate = 1400,
	  .nic_rate = 120,
	  .wire_rate = 120 },
	{ .name = "dual root, P2P off",
	  .gpus = 8,
	  .nics = 2,
	  .sockets = 2,
	  .p2p = MACHINE_P2P_NOWHERE,
	  .gpu_rate = 260,
	  .socket_rate = 400,
	  .memory_rate = 1800,
	  .nic_rate = 120,
	  .wire_rate = 110 },
	{ .name = "two levels of switches",
	  .gpus = 8,
	  .nics = 4,
	  .sockets = 2,
	  .switches = 4,
	  .tops = 2,
	  .gdr = true,
	  .gpu_rate = 130,
	  .uplink_rate = 128,
	  .top_rate = 125,
	  .socket_rate = 190,
	  .memory_rate = 700,
	  .nic_rate = 130,
	  .wire_rate = 60 },
	{ .name = "one switch above four",
	  .gpus = 8,
	  .nics = 1,
	  .sockets = 1,
	  .switches = 4,
	  .tops = 1,
	  .gpu_rate = 130,
	  .uplink_rate = 130,
	  .top_rate = 130,
	  .memory_rate = 700,
	  .nic_rate = 120,
	  .wire_rate = 12 },
	{ .name = "cascade",
	  .gpus = 8,
	  .nics = 2,
	  .sockets = 1,
	  .switches = 2,
	  .cascade = true,
	  .gdr = true,
	  .gpu_rate = 130,
	  .uplink_rate = 118,
	  .memory_rate = 600,
	  .nic_rate = 120,
	  .wire_rate = 60 },
	{ .name = "asymmetric sockets",
	  .gpus = 7,
	  .nics = 2,
	  .sockets = 2,
	  .switches = 3,
	  .gdr = true,
	  .gpu_rate = 240,
	  .uplink_rate = 200,
	  .socket_rate = 200,
	  .socket_back_rate = 90,
	  .memory_rate = 1000,
	  .nic_rate = 120,
	  .wire_rate = 120 },
	{ .name = "NVLink pairs",
	  .gpus = 8,
	  .nics = 2,
	  .sockets = 2,
	  .switches = 4,
	  .gdr = true,
	  .nvlink_rate = 560,
	  .gpu_rate = 240,
	  .uplink_rate = 230,
	  .socket_rate = 300,
	  .memory_rate = 1400,
	  .nic_rate = 240,
	  .wire_rate = 240 },
	{ .name = "NVLink mesh of four",
	  .gpus = 4,
	  .nics = 4,
	  .sockets = 1,
	  .switches = 2,
	  .gdr = true,
	  .nvlink_mesh = true,
	  .nvlink_rate = 1000,
	  .gpu_rate = 250,
	  .uplink_rate = 250,
	  .memory_rate = 1500,
	  .nic_rate = 250,
	  .wire_rate = 250 },
	{ .name = "NVLink mesh of six",
	  .gpus = 6,
	  .nics = 2,
	  .sockets = 1,
	  .switches = 3,
	  .gdr = true,
	  .nvlink_mesh = true,
	  .nvlink_rate = 500,
	  .gpu_rate = 250,
	  .uplink_rate = 250,
	  .memory_rate = 1500,
	  .nic_rate = 250,
	  .wire_rate = 250 },
	{ .name = "slots that share both directions",
	  .gpus = 6,
	  .nics = 1,
	  .sockets = 2,
	  .switches = 2,
	  .both_rate = 380,
	  .gpu_rate = 240,
	  .uplink_rate = 220,
	  .socket_rate = 250,
	  .memory_rate = 800,
	  .nic_rate = 120,
	  .wire_rate = 120 },
	{ .name = "measured pairs",
	  .gpus = 6,
	  .nics = 2,
	  .sockets = 2,
	  .switches = 2,
	  .gdr = true,
	  .pair_spread = 15,
	  .gpu_rate = 240,
	  .uplink_rate = 240,
	  .socket_rate = 300,
	  .memory_rate = 1400,
	  .nic_rate = 120,
	  .wire_rate = 110 },
	{ .name = "every link deviates",
	  .gpus = 8,
	  .nics = 2,
	  .sockets = 2,
	  .switches = 4,
	  .gdr = true,
	  .link_spread = 30,
	  .gpu_rate = 240,
	  .uplink_rate = 240,
	  .socket_rate = 300,
	  .memory_rate = 1400,
	  .nic_rate = 120,
	  .wire_rate = 110 },
	{ .name = "memory is the narrowest",
	  .gpus = 5,
	  .nics = 1,
	  .sockets = 2,
	  .p2p = MACHINE_P2P_NOWHERE,
	  .link_spread = 10,
	  .gpu_rate = 250,
	  .socket_rate = 600,
	  .memory_rate = 400,
	  .nic_rate = 120,
	  .wire_rate = 120 },
	/* Sixteen GPUs: all of them, and some subsets. */
	{ .name = "sixteen, four switches",
	  .gpus = 16,
	  .nics = 8,
	  .sockets = 2,
	  .switches = 4,
	  .tops = 2,
	  .gdr = true,
	  .gpu_rate = 240,
	  .uplink_rate = 230,
	  .top_rate = 230,
	  .socket_rate = 400,
	  .memory_rate = 2000,
	  .nic_rate = 240,
	  .wire_rate = 120 },
	{ .name = "sixteen, every link deviates",
	  .gpus = 16,
	  .nics = 16,
	  .sockets = 2,
	  .switches = 8,
	  .gdr = true,
	  .link_spread = 30,
	  .gpu_rate = 240,
	  .uplink_rate = 240,
	  .socket_rate = 500,
	  .memory_rate = 2000,
	  .nic_rate = 240,
	  .wire_rate = 120 },
	{ .name = "sixteen in an NVLink mesh",
	  .gpus = 16,
	  .nics = 8,
	  .sockets = 2,
	  .switches = 8,
	  .gdr = true,
	  .nvlink_mesh = true,
	  .nvlink_rate = 250,
	  .gpu_rate = 240,
	  .uplink_rate = 240,
	  .socket_rate = 500,
	  .memory_rate = 2000,
	  .nic_rate = 240,
	  .wire_rate = 240 },
	{ .name = "sixteen, measured pairs, P2P off",
	  .gpus = 16,
	  .nics = 4,
	  .sockets = 2,
	  .switches = 4,
	  .p2p = MACHINE_P2P_NOWHERE,
	  .pair_spread = 20,
	  .gpu_rate = 240,
	  .uplink_rate = 240,
	  .socket_rate = 900,
	  .memory_rate = 4000,
	  .nic_rate = 240,
	  .wire_rate = 240 },
	{ .name = "two GPUs",
	  .gpus = 2,
	  .nics = 1,
	  .sockets = 1,
	  .gpu_rate = 120,
	  .memory_rate = 300,
	  .nic_rate = 120,
	  .wire_rate = 12 },
};
const size_t machine_spec_count = sizeof(machine_specs) / sizeof(machine_specs[0]);
const struct machine_spec machine_sm_120 = {
	.name = "sm 120",
	.gpus = 8,
	.sockets = 2,
	.switches = 2,
	.p2p = MACHINE_P2P_SOCKET,
	.gpu_rate = 500,
	.uplink_rate = 480,
	.socket_rate = 160,
	.memory_rate = 2000,
};

double machine_cpu_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

struct builder {
	const struct machine_spec *spec;
	struct topology *topology;
	uint64_t seed;
	uint32_t cpus[2], switches[8], tops[4], gpus[PLAN_GPUS_MAX];
};

static uint64_t deviating(struct builder *builder, unsigned rate)
{
	unsigned spread = builder->spec->link_spread;
	uint64_t rate_Bps = (uint64_t)rate * 100000000;

	return spread ? rate_Bps / 100 * (100 - spread + random_below(&builder->seed, 2 * spread + 1)) : rate_Bps;
}

static struct topology_capacity capacity_of(uint64_t rate_Bps)
{
	struct topology_capacity capacity = { .rate_Bps = rate_Bps };

	capacity.provenance = rate_Bps ? TOPOLOGY_MEASURED : TOPOLOGY_UNKNOWN;
	return capacity;
}

static uint32_t join(struct builder *builder, enum topology_link_kind kind, uint32_t lower, uint32_t upper,
		     unsigned rate, unsigned back_rate)
{
	struct topology_link link = topology_link_of(kind, lower, upper);
	uint32_t index;

	link.capacity[TOPOLOGY_UP] = capacity_of(deviating(builder, rate));
	link.capacity[TOPOLOGY_DOWN] = capacity_of(deviating(builder, back_rate ? back_rate : rate));
	assert_int_equal(topology_add_link(builder->topology, &link, &index), 0);
	return index;
}

static uint32_t add(struct builder *builder, enum topology_kind kind, const char *word, unsigned number)
{
	char name[TOPOLOGY_NAME_BYTES];
	struct topology_vertex vertex;
	uint32_t index;

	snprintf(name, sizeof(name), "%s%u", word, number);
	vertex = topology_vertex_of(kind, name);
	if (kind == TOPOLOGY_GPU) {
		vertex.gpu.index = (int)number;
		vertex.gpu.gdr = builder->spec->gdr;
	} else if (kind == TOPOLOGY_NIC) {
		vertex.nic.gdr = builder->spec->gdr;
	}
	assert_int_equal(topology_add_vertex(builder->topology, &vertex, &index), 0);
	return index;
}

static uint32_t root_of(struct builder *builder, unsigned socket, unsigned number)
{
	uint32_t bridge = add(builder, TOPOLOGY_BRIDGE, "bridge", number);

	join(builder, TOPOLOGY_LINK_INTERNAL, bridge, builder->cpus[socket], 0, 0);
	return bridge;
}

static void build_switches(struct builder *builder)
{
	const struct machine_spec *spec = builder->spec;

	for (unsigned i = 0; i < spec->sockets; i++) {
		uint32_t memory = add(builder, TOPOLOGY_MEMORY, "memory", i);

		builder->cpus[i] = add(builder, TOPOLOGY_CPU, "cpu", i);
		join(builder, TOPOLOGY_LINK_MEMORY, memory, builder->cpus[i], spec->memory_rate, 0);
	}
	if (spec->sockets == 2)
		join(builder, TOPOLOGY_LINK_SOCKET, builder->cpus[0], builder->cpus[1], spec->socket_rate,
		     spec->socket_back_rate);
	for (unsigned i = 0; i < spec->tops; i++) {
		builder->tops[i] = add(builder, TOPOLOGY_SWITCH, "top", i);
		join(builder, TOPOLOGY_LINK_PCI, builder->tops[i], root_of(builder, i * spec->sockets / spec->tops, i),
		     spec->top_rate, 0);
	}
	for (unsigned i = 0; i < spec->switches; i++) {
		unsigned socket = i * spec->sockets / spec->switches;
		uint32_t upper;

		builder->switches[i] = add(builder, TOPOLOGY_SWITCH, "switch", i);
		if (spec->tops)
			upper = builder->tops[i * spec->tops / spec->switches];
		else if (spec->cascade && i && socket == (i - 1) * spec->sockets / spec->switches)
			upper = builder->switches[i - 1];
		else
			upper = root_of(builder, socket, 16 + i);
		join(builder, TOPOLOGY_LINK_PCI, builder->switches[i], upper, spec->uplink_rate, 0);
	}
}

/* Device i of `count`: below which switch, or on a bridge of its own. */
static uint32_t place_of(struct builder *builder, unsigned i, unsigned count, unsigned bridge)
{
	const struct machine_spec *spec = builder->spec;

	if (spec->switches)
		return builder->switches[i * spec->switches / count];
	return root_of(builder, i * spec->sockets / count, bridge);
}

static void build_pair(struct builder *builder, unsigned a, unsigned b)
{
	const struct machine_spec *spec = builder->spec;
	bool across = topology_cpu_of(builder->topology, builder->gpus[a]) !=
		      topology_cpu_of(builder->topology, builder->gpus[b]);
	struct topology_pair pair = { .from = builder->gpus[a], .to = builder->gpus[b] };

	pair.p2p_works = spec->p2p == MACHINE_P2P_ALL || (spec->p2p == MACHINE_P2P_SOCKET && !across);
	if (spec->pair_spread) {
		uint64_t rate_Bps = (uint64_t)spec->gpu_rate * 1000000;

		pair.p2p = capacity_of(rate_Bps * (100 - random_below(&builder->seed, spec->pair_spread)));
		pair.host = capacity_of(rate_Bps * (90 - random_below(&builder->seed, spec->pair_spread)));
	}
	if (pair.p2p_works && !spec->pair_spread)
		return;
	assert_int_equal(topology_add_pair(builder->topology, &pair, NULL), 0);
}

static void build_nvlinks(struct builder *builder)
{
	const struct machine_spec *spec = builder->spec;

	for (unsigned a = 0; spec->nvlink_rate && a < spec->gpus; a++)
		for (unsigned b = a + 1; b < spec->gpus; b++)
			if (spec->nvlink_mesh || (a % 2 == 0 && b == a + 1))
				join(builder, TOPOLOGY_LINK_NVLINK, builder->gpus[a], builder->gpus[b],
				     spec->nvlink_rate, 0);
	if (spec->nvswitch_rate) {
		uint32_t nvswitch = add(builder, TOPOLOGY_NVSWITCH, "nvswitch", 0);

		for (unsigned i = 0; i < spec->gpus; i++)
			join(builder, TOPOLOGY_LINK_NVLINK, builder->gpus[i], nvswitch, spec->nvswitch_rate, 0);
	}
}

static void build_gpu(struct builder *builder, unsigned i)
{
	const struct machine_spec *spec = builder->spec;
	struct topology_capacity both = capacity_of((uint64_t)spec->both_rate * 100000000);
	uint32_t link, members[2];
	char name[TOPOLOGY_NAME_BYTES];

	builder->gpus[i] = add(builder, TOPOLOGY_GPU, "gpu", i);
	link = join(builder, TOPOLOGY_LINK_PCI, builder->gpus[i], place_of(builder, i, spec->gpus, 64 + i),
		    spec->gpu_rate, 0);
	if (!spec->both_rate)
		return;
	snprintf(name, sizeof(name), "gpu%u.both", i);
	members[0] = topology_directed(link, TOPOLOGY_UP);
	members[1] = topology_directed(link, TOPOLOGY_DOWN);
	assert_int_equal(topology_add_limit(builder->topology, name, &both, members, 2, NULL), 0);
}

void machine_spec_build(const struct machine_spec *spec, uint64_t seed, struct topology *ret)
{
	struct builder builder = { .spec = spec, .topology = ret, .seed = seed };
	uint32_t network;

	topology_init(ret);
	build_switches(&builder);
	for (unsigned i = 0; i < spec->gpus; i++)
		build_gpu(&builder, i);
	for (unsigned a = 0; a < spec->gpus; a++)
		for (unsigned b = 0; b < spec->gpus; b++)
			if (a != b)
				build_pair(&builder, a, b);
	build_nvlinks(&builder);
	network = add(&builder, TOPOLOGY_NETWORK, "network", 0);
	for (unsigned i = 0; i < spec->nics; i++) {
		uint32_t nic = add(&builder, TOPOLOGY_NIC, "nic", i);

		join(&builder, TOPOLOGY_LINK_PCI, nic, place_of(&builder, i, spec->nics, 96 + i), spec->nic_rate, 0);
		join(&builder, TOPOLOGY_LINK_NETWORK, nic, network, spec->wire_rate, 0);
	}
}

struct plan_request machine_subset(const struct plan_request *all, unsigned mask, unsigned hosts)
{
	struct plan_request request = *all;

	request.gpu_count = 0;
	request.hosts = hosts;
	for (size_t i = 0; i < all->gpu_count; i++)
		if (mask & (1U << i))
			request.gpus[request.gpu_count++] = all->gpus[i];
	return request;
}

const struct machine_spec machine_spec_slow_card = {
	.name = "slow card",
	.gpus = 4,
	.nics = 1,
	.sockets = 1,
	.switches = 2,
	.p2p = MACHINE_P2P_ALL,
	.gdr = true,
	.gpu_rate = 240,
	.uplink_rate = 240,
	.memory_rate = 1000,
	.nic_rate = 160,
	.wire_rate = 25,
};
