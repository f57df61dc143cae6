/*
 * Groups of a test: several engines in one process, each of which takes itself for a host of its own or shares one, over
 * one transport. Every wait is bounded. One thread, but for party_open, which connects each member in a thread of its own.
 */
#ifndef TESTS_UNIT_AGGREGATE_PARTY_H
#define TESTS_UNIT_AGGREGATE_PARTY_H

#include "aggregate/aggregate.h"
#include "base/params.h"

enum { PARTY_MAX = 32, PARTY_PATIENCE_MS = 90000 };

struct party_member {
	char host[32];
	struct aggregate_engine *engine;
	struct aggregate_listener *listener;
	struct aggregate_group *group;
	uint8_t handle[AGGREGATE_HANDLE_BYTES];
	struct params params;
	int error; /* of its connect */
	char reason[AGGREGATE_REASON_BYTES];
};

struct party {
	struct params params;
	const struct transport_ops *ops;
	struct transport *transport;
	struct cluster cluster;
	struct cluster_host hosts[PARTY_MAX];
	struct cluster_switch switches[PARTY_MAX];
	size_t count;
	struct party_member members[PARTY_MAX];
};

/* The parameters of a test: defaults, loopback, and a patience of 30 seconds: the machine may be busy. */
void party_params(struct params *ret);
/*
 * leaves: "aab" is three hosts, two of them on one leaf; "a2b" is the same with two members on the first host. Parties
 * of one leaf that is called '-' have no cluster. *party is defined even after a failure: close it.
 */
int party_open(struct party *party, const struct params *params, const char *leaves);
/* What its members have of it, for tests that open one anew. */
struct aggregate_setup party_setup(struct party *party, size_t i);
/* The two halves of it, for tests that change something between them. */
int party_gather(struct party *party, const struct params *params, const char *leaves);
/* Before party_connect: cards so slow that an aggregator over the loopback device is worth using. */
#define PARTY_SLOW_HOST_BPS UINT64_C(100000000)
void party_slow_hosts(struct party *party);
int party_connect(struct party *party);
void party_close(struct party *party);

/* Completes a request of every member (NULL ones are passed over): 0, the first error, or -ETIMEDOUT. */
int party_finish(struct party *party, struct aggregate_request **requests);
/* Until the request of every member but that one has ended with -EREMOTEIO: 0, or -ETIMEDOUT, or -EBADMSG. */
int party_all_fail(struct party *party, size_t but, struct aggregate_request **requests);
/* Posts until it is taken. */
int party_reduce(struct party_member *member, const void *send, void *recv, size_t count, enum reduce_type type,
		 enum reduce_operation operation, struct aggregate_request **ret);

#endif
