/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is on which leaf switch, and how wide the links between the leaves are: the cluster, as its file says it. A pure
 * value: reading takes text and gives a cluster or a place and a reason; nothing is looked up. docs/format/cluster-file.md has
 * the form; Slurm's topology.conf and topology.yaml, and what `scontrol show topology` prints, are read as they are.
 *
 * Rates are bytes per second in one direction; 0: not said. Text belongs to the cluster.
 */
#ifndef TRIBUTARY_CLUSTER_H
#define TRIBUTARY_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct diag;

enum { CLUSTER_HOSTS_MAX = 4096, CLUSTER_SWITCHES_MAX = 1024, CLUSTER_AGGREGATORS_MAX = 64, CLUSTER_NONE = -1 };
enum { CLUSTER_TEXT_BYTES_MAX = 4 << 20 }; /* of a file */

/* A switch. One with hosts is a leaf. */
struct cluster_switch {
	const char *name;
	int parent;                          /* switch above, or CLUSTER_NONE */
	uint64_t up_rate_Bps, down_rate_Bps; /* of its link to the parent */
};
struct cluster_host {
	const char *name; /* as gethostname() gives it, with or without the domain */
	int leaf;
	uint64_t rate_Bps; /* of its NIC */
};
/* A tributaryd. */
struct cluster_aggregator {
	const char *address; /* name or address */
	uint16_t port;
	int leaf;
	uint64_t rate_Bps;
};

struct cluster {
	size_t switch_count, host_count, aggregator_count;
	struct cluster_switch *switches;
	struct cluster_host *hosts; /* sorted by name */
	struct cluster_aggregator *aggregators;
	bool measured;        /* the rates of switches and hosts are; else somebody declares them */
	uint64_t fingerprint; /* of what it says, not of how: equal for two files that mean the same */
};

/* What cluster_read reads; its message has them where a file is none of them. */
#define CLUSTER_FORMS \
	"tributary-cluster 1, or Slurm's topology.conf, topology.yaml or what `scontrol show topology` prints"
/* -EINVAL: *diag has line, column and remedy; -ENOMEM. *ret is freed by cluster_free (NULL is fine). */
int cluster_read(const char *text, size_t bytes, struct cluster **ret, struct diag *diag);
/* In our own form; reading it again gives an equal cluster. */
int cluster_write(const struct cluster *cluster, FILE *out);
/*
 * As Slurm's topology.conf, which has no rates and no aggregators. A switch with hosts and switches has its hosts on one
 * more, NAME-hosts.
 */
int cluster_write_slurm(const struct cluster *cluster, FILE *out);
/* In our own form as text; *ret is malloc'ed, NUL-terminated; the caller frees it. -ENOMEM. */
int cluster_format(const struct cluster *cluster, char **ret, size_t *ret_bytes);
void cluster_free(struct cluster *cluster);

/*
 * By the name as it is, else by the part before the first dot, on either side; a short name that fits several of the file's
 * fits none. NULL: in no leaf.
 */
const struct cluster_host *cluster_find(const struct cluster *cluster, const char *host);

#endif
