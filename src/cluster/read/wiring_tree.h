/* The tree while it is being made: wiring_tree.c makes it, wiring_notes.c says what is odd about it. */
#ifndef TRIBUTARY_CLUSTER_READ_WIRING_TREE_H
#define TRIBUTARY_CLUSTER_READ_WIRING_TREE_H

#include "cluster/read/wiring_internal.h"

struct wiring_tree {
	struct wiring *wiring;
	struct diag *diag;
	struct wiring_pairs pairs;
	uint32_t *group;                       /* of each switch: the machine that stands for it; union-find */
	uint32_t *level;                       /* of each switch: 0 has hosts, WIRING_NONE: not reached */
	uint32_t *leaf;                        /* of each host: its group */
	uint32_t *leaf_group;                  /* of each switch: its group as far as hosts tell */
	uint32_t *parent;                      /* of each group */
	uint32_t *shared;                      /* of each switch: hosts in common with one other */
	uint32_t *first, *last;                /* of each group: its members by name */
	uint64_t *host_rate_Bps, *up_rate_Bps; /* 0: not known */
	uint64_t *cable_Bps;                   /* of each switch: of its fastest cable to another */
	bool *between;                         /* the group is below a switch that was put between leaves */
	bool *upper;                           /* a switch above the leaves that has hosts */
	uint32_t top;                          /* levels */
};

/* Hosts on no switch, on fewer switches of their leaf than others, and servers for storage, once hosts have leaves. -ENOMEM. */
int wiring_note_hosts(struct wiring_tree *tree);
/*
 * Switches of a group of which no rate is known, where others' are, once the groups are there: maybe for management, whose
 * neighbours often do not tell. -ENOMEM.
 */
int wiring_note_unknown(struct wiring_tree *tree);

#endif
