/* SPDX-License-Identifier: Apache-2.0 */
/* Machines for the tests of the planner: described by a few numbers, built as graphs with known capacities. */
#ifndef TRIBUTARY_TESTS_UNIT_PLAN_MACHINE_SPEC_H
#define TRIBUTARY_TESTS_UNIT_PLAN_MACHINE_SPEC_H

#include "tributary/plan.h"

enum machine_p2p {
	MACHINE_P2P_ALL,    /* the driver allows it everywhere */
	MACHINE_P2P_SOCKET, /* not across sockets */
	MACHINE_P2P_NOWHERE,
};

struct machine_spec {
	const char *name;
	unsigned gpus, nics;
	unsigned sockets;  /* 1 or 2 */
	unsigned switches; /* in all; 0: each GPU on a bridge of its own */
	unsigned tops;     /* switches above those, in all; 0: none */
	bool cascade;      /* the switches of a socket hang one below the other */
	enum machine_p2p p2p;
	bool gdr;
	/* 10^8 bytes/s, each direction; 0: not known */
	unsigned gpu_rate, uplink_rate, top_rate, socket_rate, socket_back_rate, memory_rate, nic_rate, wire_rate;
	unsigned nvlink_rate;   /* between GPUs 2i and 2i+1 */
	bool nvlink_mesh;       /* between all */
	unsigned nvswitch_rate; /* of each GPU to one NVSwitch; 0: there is none */
	unsigned both_rate;     /* of both directions of a GPU's link together */
	unsigned pair_spread;   /* percent: each pair was measured, up to so much below its GPUs' links */
	unsigned link_spread;   /* percent: each link deviates by up to so much, both ways */
};

void machine_spec_build(const struct machine_spec *spec, uint64_t seed, struct topology *ret);

extern const struct machine_spec machine_specs[];
extern const size_t machine_spec_count;
/* Two Gen5 switches on two sockets without P2P between them: NCCL tries no rate that the sockets carry. Not in the list. */
extern const struct machine_spec machine_sm_120;

/* CPU time of this thread. */
double machine_cpu_ms(void);

/* The GPUs of a mask out of all of a request. */
struct plan_request machine_subset(const struct plan_request *all, unsigned mask, unsigned hosts);

/*
 * Two sockets with two GPUs each on a switch, and a slow card: what several hosts move is a fraction of what one does, but
 * the same channels do for both.
 */
extern const struct machine_spec machine_spec_slow_card;

#endif
