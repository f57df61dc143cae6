/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that several tests of the graph build. */
#ifndef TRIBUTARY_TESTS_UNIT_TOPOLOGY_MACHINE_H
#define TRIBUTARY_TESTS_UNIT_TOPOLOGY_MACHINE_H

#include "tributary/topology.h"

/*
 * Two sockets, and on each: a memory, a bridge, a switch with two switches below it, and below those two GPUs each. The
 * first lower switch of each socket has a NIC, too, and both NICs are on one network:
 *
 *     cpu0 -- bridge:0000:16 -- switch:0000:17:00.0 -+- switch:0000:18:00.0 -- gpu0, gpu1, mlx5_0
 *                                                    +- switch:0000:1c:00.0 -- gpu2, gpu3
 *     cpu1 -- bridge:0000:96 -- switch:0000:97:00.0 -+- switch:0000:98:00.0 -- gpu4, gpu5, mlx5_1
 *                                                    +- switch:0000:9c:00.0 -- gpu6, gpu7
 *
 * No rates are known.
 */
struct machine {
	struct topology topology;
	uint32_t gpu[8], nic[2], leaf[4], top[2], bridge[2], cpu[2], memory[2], network;
};

void machine_build(struct machine *machine);

/* All four stop the test when something is wrong. */
uint32_t machine_vertex(struct topology *topology, enum topology_kind kind, const char *name);
uint32_t machine_link(struct topology *topology, enum topology_link_kind kind, uint32_t lower, uint32_t upper);
uint32_t machine_directed(const struct topology *topology, const char *name);
void machine_rate(struct topology *topology, const char *directed, uint64_t rate_Bps);

/* A graph as it is written; the caller frees it. */
char *machine_text(const struct topology *topology);
/* The same machine, added in another order: everything shuffled, and every second link between equals turned round. */
void machine_shuffle(const struct topology *from, uint64_t *seed, struct topology *ret);
/* Anything that a graph may hold, however senseless. */
void machine_random(uint64_t *seed, struct topology *ret);

#endif
