/* SPDX-License-Identifier: Apache-2.0 */
#include "ground_truth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "measure/experiments.h"
#include "support/random.h"

uint32_t truth_vertex(struct topology *topology, enum topology_kind kind, const char *name)
{
	struct topology_vertex vertex = topology_vertex_of(kind, name);
	uint32_t index;

	vertex.gpu.gdr = vertex.nic.gdr = true;
	if (kind == TOPOLOGY_GPU)
		sscanf(name, "gpu%d", &vertex.gpu.index);
	assert_int_equal(topology_add_vertex(topology, &vertex, &index), 0);
	return index;
}

uint32_t truth_link(struct topology *topology, enum topology_link_kind kind, uint32_t lower, uint32_t upper,
		    double nominal_GBps, double up_GBps, double down_GBps)
{
	struct topology_link link = topology_link_of(kind, lower, upper);
	uint32_t index;

	link.nominal_Bps = (uint64_t)llround(nominal_GBps * 1e9);
	link.capacity[TOPOLOGY_UP] = (struct topology_capacity){ .rate_Bps = (uint64_t)llround(up_GBps * 1e9),
								 .provenance = TOPOLOGY_MEASURED };
	link.capacity[TOPOLOGY_DOWN] = (struct topology_capacity){ .rate_Bps = (uint64_t)llround(down_GBps * 1e9),
								   .provenance = TOPOLOGY_MEASURED };
	assert_int_equal(topology_add_link(topology, &link, &index), 0);
	return index;
}

uint32_t truth_cpu(struct topology *topology, int numa, double memory_GBps)
{
	char name[32];
	uint32_t cpu, memory;

	snprintf(name, sizeof(name), "cpu%d", numa);
	cpu = truth_vertex(topology, TOPOLOGY_CPU, name);
	snprintf(name, sizeof(name), "memory%d", numa);
	memory = truth_vertex(topology, TOPOLOGY_MEMORY, name);
	topology->vertices[cpu].cpu.numa = topology->vertices[memory].cpu.numa = numa;
	truth_link(topology, TOPOLOGY_LINK_MEMORY, memory, cpu, 0, memory_GBps, 0.9 * memory_GBps);
	return cpu;
}

/* ----------------------------------------------------------------------------------------------------------- random */

struct maker {
	struct topology *topology;
	uint64_t random;
	double slot_GBps; /* nominal, of a full slot */
	unsigned gpus, gpus_max, nics, nics_max, switches, bridges;
};

static bool chance(struct maker *maker, double part)
{
	return random_between(&maker->random, 0, 1) < part;
}

/*
 * A PCIe link, trained to half its width now and then, with what remains of its nominal rate. Returns the nominal
 * one.
 */
static double plug(struct maker *maker, uint32_t lower, uint32_t upper, double nominal)
{
	double up, down;

	if (chance(maker, 0.1))
		nominal /= 2;
	/* One after the other: compilers draw arguments in orders of their own, and the machines would not be the same. */
	down = nominal * random_between(&maker->random, 0.82, 0.95);
	up = nominal * random_between(&maker->random, 0.82, 0.95);
	truth_link(maker->topology, TOPOLOGY_LINK_PCI, lower, upper, nominal, up, down);
	return nominal;
}

static double add_device(struct maker *maker, uint32_t upper, bool nic)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%u", nic ? "nic" : "gpu", nic ? maker->nics++ : maker->gpus++);
	return plug(maker, truth_vertex(maker->topology, nic ? TOPOLOGY_NIC : TOPOLOGY_GPU, name), upper,
		    nic && chance(maker, 0.5) ? maker->slot_GBps / 2 : maker->slot_GBps);
}

static double add_switch(struct maker *maker, uint32_t upper, unsigned depth)
{
	char name[32];
	uint32_t vertex;
	double nominal;
	unsigned count = 2 + (unsigned)random_below(&maker->random, 3);

	snprintf(name, sizeof(name), "switch%u", maker->switches++);
	vertex = truth_vertex(maker->topology, TOPOLOGY_SWITCH, name);
	nominal = plug(maker, vertex, upper, maker->slot_GBps);
	for (unsigned i = 0; i < count && maker->gpus < maker->gpus_max; i++) {
		if (depth < 2 && chance(maker, 0.25))
			add_switch(maker, vertex, depth + 1);
		else
			add_device(maker, vertex, false);
	}
	if (maker->nics < maker->nics_max && chance(maker, 0.4))
		add_device(maker, vertex, true);
	return nominal;
}

/* What is behind a host bridge never has a wider slot than the bridge's own way to the CPU. */
static void add_bridge(struct maker *maker, uint32_t cpu)
{
	char name[32];
	uint32_t bridge;
	double widest = maker->slot_GBps, rate;
	unsigned ports = 1 + (unsigned)random_below(&maker->random, 2);

	snprintf(name, sizeof(name), "bridge%u", maker->bridges++);
	bridge = truth_vertex(maker->topology, TOPOLOGY_BRIDGE, name);
	for (unsigned i = 0; i < ports && maker->gpus < maker->gpus_max; i++) {
		if (chance(maker, 0.5))
			add_switch(maker, bridge, 1);
		else
			add_device(maker, bridge, maker->nics < maker->nics_max && chance(maker, 0.2));
	}
	rate = widest * random_between(&maker->random, 1.1, 2.2);
	truth_link(maker->topology, TOPOLOGY_LINK_INTERNAL, bridge, cpu, 0, rate,
		   rate * random_between(&maker->random, 0.95, 1.05));
}

static void add_nvlinks(struct maker *maker)
{
	double nominal = random_between(&maker->random, 50, 300);

	for (unsigned i = 0; i + 1 < maker->gpus; i += 2) {
		double there, back;
		char first[32], second[32];

		back = nominal * random_between(&maker->random, 0.8, 0.95);
		there = nominal * random_between(&maker->random, 0.8, 0.95);
		snprintf(first, sizeof(first), "gpu%u", i);
		snprintf(second, sizeof(second), "gpu%u", i + 1);
		truth_link(maker->topology, TOPOLOGY_LINK_NVLINK, topology_find(maker->topology, first),
			   topology_find(maker->topology, second), nominal, there, back);
	}
}

static void random_rules(struct maker *maker, struct probe_rules *rules)
{
	uint64_t *random = &maker->random;

	simulated_rules_init(rules);
	rules->both[TOPOLOGY_LINK_PCI] = random_between(random, 0.8, 1);
	rules->both[TOPOLOGY_LINK_MEMORY] = random_between(random, 0.6, 0.9);
	rules->both[TOPOLOGY_LINK_SOCKET] = random_between(random, 0.8, 1);
	rules->both[TOPOLOGY_LINK_NVLINK] = random_between(random, 0.9, 1);
	rules->engine_out[TOPOLOGY_GPU] = random_between(random, 0.93, 1);
	rules->engine_in[TOPOLOGY_GPU] = random_between(random, 0.93, 1);
	rules->engine_out[TOPOLOGY_NIC] = random_between(random, 0.6, 1);
	rules->engine_in[TOPOLOGY_NIC] = random_between(random, 0.6, 1);
	rules->device[TOPOLOGY_GPU] = random_between(random, 0.8, 1.1);
	if (rules->device[TOPOLOGY_GPU] > 1)
		rules->device[TOPOLOGY_GPU] = 1;
	rules->kernel = random_between(random, 0.85, 1);
	rules->p2p_root = random_between(random, 0.6, 1);
	rules->p2p_socket = random_between(random, 0.4, 0.9);
	rules->staged = random_between(random, 0.8, 1);
	rules->cores_Bps = random_between(random, 30, 150) * 1e9;
	rules->p2p = (enum probe_rules_p2p)random_below(random, PROBE_RULES_P2P_COUNT);
	rules->noise = 0.02;
	rules->outliers = 0.01;
	rules->ramp_ns = 20000 + random_below(random, 60000);
	rules->overhead_ns = 1000000;
	rules->latency_ns = 8000;
	for (unsigned i = 0; i < 3; i++) {
		struct probe_rules_pair *pair = &rules->pairs[rules->pair_count];
		unsigned from = (unsigned)random_below(random, maker->gpus);
		unsigned to = (unsigned)random_below(random, maker->gpus);

		if (from == to || chance(maker, 0.5))
			continue;
		snprintf(pair->from, sizeof(pair->from), "gpu%u", from);
		snprintf(pair->to, sizeof(pair->to), "gpu%u", to);
		pair->part = random_between(random, 0.5, 1);
		rules->pair_count++;
	}
}

void truth_random(uint64_t seed, struct topology *ret_truth, struct probe_rules *ret_rules)
{
	static const double slots[] = { 12, 24, 48 };
	struct maker maker = { .topology = ret_truth, .random = seed };
	uint32_t cpus[4] = { 0 };
	unsigned cpu_count;

	topology_init(ret_truth);
	maker.slot_GBps = slots[random_below(&maker.random, 3)];
	maker.gpus_max = 2 + (unsigned)random_below(&maker.random, 7) * (1 + (unsigned)random_below(&maker.random, 2));
	maker.nics_max = (unsigned)random_below(&maker.random, 4);
	cpu_count = chance(&maker, 0.1) ? 4 : chance(&maker, 0.6) ? 2 : 1;
	for (unsigned i = 0; i < cpu_count; i++)
		cpus[i] = truth_cpu(ret_truth, (int)i, random_between(&maker.random, 60, 300));
	for (unsigned i = 0; i < cpu_count; i++)
		for (unsigned j = i + 1; j < cpu_count; j++) {
			double rate = random_between(&maker.random, 15, 60);

			truth_link(ret_truth, TOPOLOGY_LINK_SOCKET, cpus[i], cpus[j], 0, rate,
				   rate * random_between(&maker.random, 0.8, 1.2));
		}
	while (maker.gpus < maker.gpus_max || maker.gpus < 2)
		add_bridge(&maker, cpus[random_below(&maker.random, cpu_count)]);
	if (chance(&maker, 0.2))
		add_nvlinks(&maker);
	random_rules(&maker, ret_rules);
}

size_t truth_crossings(const struct topology *topology, const struct probe_flow *flow, uint32_t directed)
{
	struct topology_route route;
	size_t count = 0;

	assert_int_equal(measure_experiments_route(topology, &flow->flow, &route), 0);
	for (size_t i = 0; i < route.count; i++)
		count += route.links[i] == directed;
	return count;
}

int truth_hold_clock(void **state)
{
	static uint64_t still_ns;

	(void)state;
	clock_set_fake(&still_ns);
	return 0;
}

int truth_release_clock(void **state)
{
	(void)state;
	clock_set_fake(NULL);
	return 0;
}
