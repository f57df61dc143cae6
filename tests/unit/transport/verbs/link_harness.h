/* SPDX-License-Identifier: Apache-2.0 */
/* A connection over the fake, both ends in this process. Each function fails the running test when it cannot do its work. */
#ifndef TESTS_UNIT_TRANSPORT_VERBS_LINK_HARNESS_H
#define TESTS_UNIT_TRANSPORT_VERBS_LINK_HARNESS_H

#include "base/params.h"
#include "support/link.h"
#include "support/traffic.h"
#include "unit/transport/verbs/fake_verbs.h"

struct verbs_link_harness {
	struct params params;
	struct transport *transport;
	struct link link;
	int device;
};

/* The transport alone: the link is the caller's to open. root: of sysfs, NULL for this machine's. */
void verbs_link_harness_begin(struct verbs_link_harness *harness, struct fake_verbs_options options, const char *root);
/* join: both devices as one. The time-out is 3 s. */
void verbs_link_harness_open_paced(struct verbs_link_harness *harness, struct fake_verbs_options options, unsigned qps,
				   bool join, bool pace);
void verbs_link_harness_open(struct verbs_link_harness *harness, struct fake_verbs_options options, unsigned qps,
			     bool join);
/* Nothing is left, and nothing was done that a device would have refused. */
void verbs_link_harness_close(struct verbs_link_harness *harness);

/* It knows of receives that wait. */
bool verbs_link_harness_sender_has_offers(const struct verbs_link_harness *harness);

/* Of the first device: its next write is lost, in one of the ways there are. */
void verbs_link_harness_lose_one_of_the_first(uint64_t *random);

/* Many messages of many sizes over the link, in groups and out of order. */
struct verbs_run {
	struct traffic_plan plan;
	struct traffic_end *ends;
	unsigned done; /* 1: the sender, 2: the receiver */
};
void verbs_run_begin(struct verbs_run *run, struct verbs_link_harness *harness, uint64_t seed);
/* A step of one end (0: the sender); 0, or its error. */
int verbs_run_step(struct verbs_run *run, unsigned at);
void verbs_run_end(struct verbs_run *run);
/* Such traffic, a connection each round, with something bad now and then, after which queues fail: all of it arrives. */
void verbs_survive(unsigned qps, bool join, void (*harm)(uint64_t *random), unsigned rounds);

#endif
