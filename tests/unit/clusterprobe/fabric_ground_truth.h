/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up fabrics whose leaves are known, and a probe that measures them: fair rates of src/simulate, with noise. */
#ifndef TRIBUTARY_TESTS_UNIT_CLUSTERPROBE_FABRIC_GROUND_TRUTH_H
#define TRIBUTARY_TESTS_UNIT_CLUSTERPROBE_FABRIC_GROUND_TRUTH_H

#include "clusterprobe/fabric.h"

enum { TRUTH_LEAVES_MAX = 64 };

struct fabric_truth {
	size_t host_count, leaf_count;
	uint16_t leaf_of[FABRIC_HOSTS_MAX];
	double nic_Bps[2][FABRIC_HOSTS_MAX];    /* out, in */
	double uplink_Bps[2][TRUTH_LEAVES_MAX]; /* up, down; INFINITY: none */
	int slow_host;                          /* -1: none */
};

/* How unlike the fair rates the measured ones are. All relative. */
struct fabric_noise {
	double full;      /* of flows that nothing but their NICs holds back: at most so much less */
	double share;     /* standard deviation of the shares of one full link */
	double sum;       /* of what a full link carries */
	double hiccup;    /* how many flows are held back by something else, */
	double hiccup_by; /* down to so little of their rate */
	double stall;     /* of the hosts in a round: their flows move nothing, or half of what they would */
};
extern const struct fabric_noise fabric_noise_none, fabric_noise_testbed, fabric_noise_busy;

struct fabric_truth_probe {
	struct fabric_probe probe;
	const struct fabric_truth *truth;
	const struct fabric_noise *noise;
	uint64_t random;
	size_t rounds, flows;
	int fail_at, error; /* the round that gives an error */
	double *capacity_Bps;
};
int fabric_truth_probe_open(const struct fabric_truth *truth, const struct fabric_noise *noise, uint64_t seed,
			    struct fabric_truth_probe *ret);
void fabric_truth_probe_close(struct fabric_truth_probe *probe);

/* Uplinks of ratio:1 both ways, hosts in leaves one block after the other; size 0 ends the list. */
void fabric_truth_make(const size_t *sizes, const double *ratios, size_t leaf_count, struct fabric_truth *ret);
void fabric_truth_random(uint64_t seed, size_t hosts_max, size_t leaves_max, struct fabric_truth *ret);
/* A random order of hosts. */
void fabric_truth_shuffle(struct fabric_truth *truth, uint64_t *random);

/*
 * What can be told of it at all: leaves of which nothing can fill an uplink are one. *ret_direction [2][leaves]: the most
 * that can be seen, and whether it is the uplink that bounds it.
 */
struct fabric_visible {
	size_t leaf_count;
	/* An uplink that only just matters: whatever is said of it may be right. */
	bool grey;
	uint16_t leaf_of[FABRIC_HOSTS_MAX];
	struct {
		double rate_Bps;
		double slack; /* what would pass if this uplink bounded nothing, over rate_Bps */
	} direction[2][TRUTH_LEAVES_MAX];
};
void fabric_truth_visible(const struct fabric_truth *truth, struct fabric_visible *ret);

/* NULL, or what is wrong with what was found. */
const char *fabric_truth_judge(const struct fabric_truth *truth, const struct fabric *found, double tolerance,
			       char *text, size_t text_bytes);
void fabric_truth_print(const struct fabric_truth *truth, const struct fabric *found);

#endif
