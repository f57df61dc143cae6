/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What aggregation in the hosts brings a job for large operations: from the cluster file, what its host's cards move, and
 * how many hosts the job has. An estimate for the graph file; the engine counts for itself. Pure.
 */
#ifndef TRIBUTARY_AGGREGATE_GAIN_H
#define TRIBUTARY_AGGREGATE_GAIN_H

#include <stddef.h>
#include <stdint.h>

struct cluster;
struct schedule_group;

struct gain_job {
	const char *host_name; /* of this host */
	size_t host_count;     /* 0: not known, so all of the cluster's */
	uint64_t rate_Bps;     /* of a host's cards, where the cluster does not say; 0: not known */
};

/*
 * How many thousandths of a ring's rate: the time of a ring whose hosts are in the order of their leaves, over that of
 * the aggregation, by the slowest link of each. The job is taken to be on as few leaves as hold it, this host's first. 0:
 * no gain worth it (less than half as much again), or nothing is known.
 */
unsigned gain_permille(const struct cluster *cluster, const struct gain_job *job);
/* The same of members whose places are known. Aggregators that bring too little are marked lost. */
unsigned gain_of_group(struct schedule_group *group);

#endif
