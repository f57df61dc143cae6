/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster as a network of directed links: hosts with one or more NICs (rails), switches in a tree, aggregators, and
 * what inside each host bounds a collective. Pure. One thread at a time for each fabric; a fabric that is not changed
 * may be read by several.
 *
 * A link that is not known to bound anything has the capacity INFINITY. Several links between two switches count as one
 * (spread evenly). Roots of several trees are joined by a core that bounds nothing.
 */
#ifndef TRIBUTARY_SIMULATE_FABRIC_H
#define TRIBUTARY_SIMULATE_FABRIC_H

#include "simulate/flow.h"

#include <stddef.h>
#include <stdint.h>

struct cluster;
struct diag;

enum {
	SIMULATE_HOSTS_MAX = 16384,
	SIMULATE_SWITCHES_MAX = 8192,
	SIMULATE_RAILS_MAX = 16,
	SIMULATE_DEPTH_MAX = 30, /* switches above a host */
	SIMULATE_WAY_MAX = 2 * SIMULATE_DEPTH_MAX + 4,
	SIMULATE_NAME_BYTES = 256,
};
#define SIMULATE_NONE UINT32_MAX

enum simulate_direction { SIMULATE_UP, SIMULATE_DOWN }; /* out of a host, towards the core; and back */

struct simulate_switch {
	char name[SIMULATE_NAME_BYTES];
	uint32_t parent; /* or SIMULATE_NONE */
	uint32_t depth;  /* of a root: 0 */
	double capacity_Bps[2];
};

/* A place on the network: a NIC of a host, or an aggregator. */
struct simulate_port {
	uint32_t leaf;
	double capacity_Bps[2];
};

/*
 * Something inside a host that carries a part of a collective's bytes: weight × bytes of an operation's channels by the
 * pattern, each host alike. See simulate_fabric_set_rows.
 */
enum simulate_pattern { SIMULATE_RINGS, SIMULATE_TREES, SIMULATE_CHAINS, SIMULATE_PATTERN_COUNT };
struct simulate_row {
	char name[SIMULATE_NAME_BYTES];
	double capacity_Bps;
	double weight[SIMULATE_PATTERN_COUNT];
};

struct simulate_fabric {
	size_t host_count, rail_count, switch_count, aggregator_count, row_count;
	bool measured; /* rates of NICs and uplinks; not those of aggregators, or of links made faster or slower */
	char (*host_names)[SIMULATE_NAME_BYTES];
	char (*aggregator_names)[SIMULATE_NAME_BYTES];
	struct simulate_switch *switches;
	struct simulate_port *nics;        /* [host × rail_count + rail] */
	struct simulate_port *aggregators; /* of a rail each: that of its leaf */
	struct simulate_row *rows;
};

/* All hosts on one rail. -EINVAL: no host, or switches too deep; -ENOMEM. simulate_fabric_fini accepts any fabric. */
int simulate_fabric_of_cluster(const struct cluster *cluster, struct simulate_fabric *ret, struct diag *diag);
/*
 * leaf-spine:LEAVESxHOSTS,RATIO:1,RATE           one switch above all leaves; RATIO: hosts' rate over the uplink's
 * fat-tree:K[,RATIO:1],RATE                      K pods of K/2 switches of K/2 hosts; the ratio is that of the pods
 * rail-optimised:GROUPSxHOSTSxRAILS,RATIO:1,RATE in each group a leaf for each rail; one switch above all
 * RATE is that of each NIC, as parse_rate takes it. RATIO is 1:1 where it is not given. -EINVAL: *diag says what is
 * wrong; -ENOMEM.
 */
int simulate_fabric_make(const char *text, struct simulate_fabric *ret, struct diag *diag);
void simulate_fabric_fini(struct simulate_fabric *fabric);

/* So many aggregators of that rate on every leaf that has hosts; those that are there are kept. -EINVAL, -ENOMEM. */
int simulate_fabric_add_aggregators(struct simulate_fabric *fabric, size_t each, double rate_Bps);
/* NAME[.up|.down]=RATE or =N%: a host's NICs or a switch's uplink has less, or more. -EINVAL: *diag. */
int simulate_fabric_degrade(struct simulate_fabric *fabric, const char *text, struct diag *diag);
/* All rates of the network times this. */
void simulate_fabric_scale(struct simulate_fabric *fabric, double by);
/* NICs and uplinks that bound nothing, as nobody said their rate: hosts with one, switches with one. */
size_t simulate_fabric_unknown_hosts(const struct simulate_fabric *fabric);
size_t simulate_fabric_unknown_uplinks(const struct simulate_fabric *fabric);
/* Copied. Replaces those of before. */
int simulate_fabric_set_rows(struct simulate_fabric *fabric, const struct simulate_row *rows, size_t count);

/* ------------------------------------------------------------------------------------------------------------- links */

size_t simulate_link_count(const struct simulate_fabric *fabric);
uint32_t simulate_nic_link(const struct simulate_fabric *fabric, size_t host, size_t rail, enum simulate_direction way);
uint32_t simulate_switch_link(const struct simulate_fabric *fabric, size_t of, enum simulate_direction way);
uint32_t simulate_aggregator_link(const struct simulate_fabric *fabric, size_t of, enum simulate_direction way);
uint32_t simulate_row_link(const struct simulate_fabric *fabric, size_t host, size_t row);
/* What kind of link it is, and of what. */
enum simulate_link_kind { SIMULATE_LINK_NIC, SIMULATE_LINK_UPLINK, SIMULATE_LINK_AGGREGATOR, SIMULATE_LINK_ROW };
struct simulate_link {
	enum simulate_link_kind kind;
	enum simulate_direction direction;
	size_t of;  /* host, switch or aggregator */
	size_t sub; /* rail or row */
};
struct simulate_link simulate_link_of(const struct simulate_fabric *fabric, uint32_t link);
void simulate_link_name(const struct simulate_fabric *fabric, uint32_t link, char *ret, size_t ret_bytes);
/* *ret: [simulate_link_count], freed by sys_free. -ENOMEM. */
int simulate_capacities(const struct simulate_fabric *fabric, double **ret_Bps);

/* A NIC of a host, or (host SIMULATE_NONE) an aggregator. */
struct simulate_end {
	uint32_t host, rail, aggregator;
};
/* The links from one end to another, each with the weight 1: NIC, switches up, switches down, NIC. Returns how many. */
size_t simulate_way(const struct simulate_fabric *fabric, struct simulate_end from, struct simulate_end to,
		    struct flow_crossing ret[static SIMULATE_WAY_MAX]);

#endif
