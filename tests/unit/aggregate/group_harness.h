/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of a test: several engines in one process, each of which takes itself for a host of its own or shares one, over one
 * transport. Every wait is bounded. One thread, but for group_harness_open, which connects each member in a thread of its
 * own.
 */
#ifndef TESTS_UNIT_AGGREGATE_GROUP_HARNESS_H
#define TESTS_UNIT_AGGREGATE_GROUP_HARNESS_H

#include "aggregate/aggregate.h"
#include "base/params.h"

enum { GROUP_HARNESS_MAX = 32, GROUP_HARNESS_PATIENCE_MS = 90000 };

struct group_harness_member {
	char host[32];
	struct aggregate_engine *engine;
	struct aggregate_listener *listener;
	struct aggregate_group *group;
	uint8_t handle[AGGREGATE_HANDLE_BYTES];
	struct params params;
	int error; /* of its connect */
	char reason[AGGREGATE_REASON_BYTES];
};

struct harness {
	struct params params;
	const struct transport_ops *ops;
	struct transport *transport;
	struct cluster cluster;
	struct cluster_host hosts[GROUP_HARNESS_MAX];
	struct cluster_switch switches[GROUP_HARNESS_MAX];
	size_t count;
	struct group_harness_member members[GROUP_HARNESS_MAX];
};

/* The parameters of a test: defaults, loopback, and a patience of 30 seconds: the machine may be busy. */
void group_harness_params(struct params *ret);
/*
 * leaves: "aab" is three hosts, two of them on one leaf; "a2b" is the same with two members on the first host. Harnesses
 * of one leaf that is called '-' have no cluster. *harness is defined even after a failure: close it.
 */
int group_harness_open(struct harness *harness, const struct params *params, const char *leaves);
/* What its members have of it, for tests that open one anew. */
struct aggregate_setup group_harness_setup(struct harness *harness, size_t i);
/* The two halves of it, for tests that change something between them. */
int group_harness_gather(struct harness *harness, const struct params *params, const char *leaves);
/* Before group_harness_connect: cards so slow that an aggregator over the loopback device is worth using. */
#define GROUP_HARNESS_SLOW_HOST_BPS UINT64_C(100000000)
void group_harness_slow_hosts(struct harness *harness);
int group_harness_connect(struct harness *harness);
void group_harness_close(struct harness *harness);

/* Completes a request of every member (NULL ones are passed over): 0, the first error, or -ETIMEDOUT. */
int group_harness_finish(struct harness *harness, struct aggregate_request **requests);
/* Until the request of every member but that one has ended with -EREMOTEIO: 0, or -ETIMEDOUT, or -EBADMSG. */
int group_harness_all_fail(struct harness *harness, size_t but, struct aggregate_request **requests);
/* Posts until it is taken. */
int group_harness_reduce(struct group_harness_member *member, const void *send, void *recv, size_t count,
			 enum reduce_type type, enum reduce_operation operation, struct aggregate_request **ret);

#endif
