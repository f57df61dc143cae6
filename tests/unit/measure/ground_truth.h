/* SPDX-License-Identifier: Apache-2.0 */
/* Machines for the tests of measuring: built by hand, or at random from a seed. */
#ifndef TRIBUTARY_TESTS_UNIT_MEASURE_GROUND_TRUTH_H
#define TRIBUTARY_TESTS_UNIT_MEASURE_GROUND_TRUTH_H

#include "measure/simulated_probe.h"

/* Adds a vertex, and a PCIe (or other) link upwards with these true rates; GB/s. They assert that it worked. */
uint32_t truth_vertex(struct topology *topology, enum topology_kind kind, const char *name);
uint32_t truth_link(struct topology *topology, enum topology_link_kind kind, uint32_t lower, uint32_t upper,
		    double nominal_GBps, double up_GBps, double down_GBps);
/* A CPU and its memory. */
uint32_t truth_cpu(struct topology *topology, int numa, double memory_GBps);

/* 2 to 16 GPUs in a tree of PCIe switches, with NICs and NVLinks on some, and rules. */
void truth_random(uint64_t seed, struct topology *ret_truth, struct probe_rules *ret_rules);

/* How often a flow goes over a link in that direction. */
size_t truth_crossings(const struct topology *topology, const struct probe_flow *flow, uint32_t directed);

/* For cmocka_run_group_tests: the clock stands still, for the time of a simulated machine is the probe's own. */
int truth_hold_clock(void **state);
int truth_release_clock(void **state);

#endif
