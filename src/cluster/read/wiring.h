/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is cabled to whom, as LLDP or a subnet manager says it, made into a cluster: hosts and switches by name, links
 * between them. Pure. One thread.
 *
 * A cluster is a tree and a network of switches seldom is, so switches that do the same work become one:
 *
 * - Leaves that have more than half of their hosts in common (rails, pairs of switches for redundancy) are one leaf.
 * - Above them, switches are one if they have a switch below in common: the spines of a leaf-spine network, the upper
 *   switches of a pod.
 *
 * Rates of parallel links are added up; where one is not known the sum is not. One that stands for several has the name of
 * the first and the last, "spine1..spine4". Leaves that are cabled to each other and to nothing above get a switch between
 * them. Links of a host that are less than an eighth of its fastest are not counted: they are for other work. Nor are a
 * switch's to the one above, by its fastest to any switch, and switches above the leaves that lead nowhere.
 *
 * Networks for storage and management are left out, as far as they can be told (wiring_fabric.c); a user can leave out more.
 */
#ifndef TRIBUTARY_CLUSTER_READ_WIRING_H
#define TRIBUTARY_CLUSTER_READ_WIRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cluster;
struct diag;

enum { WIRING_MACHINES_MAX = 16384, WIRING_LINKS_MAX = 1 << 18, WIRING_LABEL_BYTES = 32 };

/* NAMELESS: an adapter or a neighbour that does not say which host it belongs to. LEFT_OUT: by wiring_cluster. */
enum wiring_kind { WIRING_UNKNOWN, WIRING_HOST, WIRING_SWITCH, WIRING_NAMELESS, WIRING_LEFT_OUT };

enum { WIRING_BUCKETS = 4096, WIRING_NAME_MAX = 200 };
enum { WIRING_SLOW_PART = 8 }; /* a link that much slower than the fastest is for other work */
#define WIRING_NONE     UINT32_MAX
#define WIRING_RATE_MAX UINT64_C(1000000000000000)

struct wiring_machine {
	char *key, *name;
	enum wiring_kind kind;
	uint32_t next; /* in its bucket */
};

struct wiring_link {
	uint32_t from, to;
	uint64_t rate_Bps;
	char label[WIRING_LABEL_BYTES], far_label[WIRING_LABEL_BYTES]; /* of the ports at both ends */
	uint64_t far_port; /* a hash of what no other port of `to` has; 0: not told */
	bool management;
	int management_end; /* whose port it is: 0: from; 1: to */
};

struct wiring {
	struct wiring_machine *machines;
	size_t machine_count;
	struct wiring_link *links;
	size_t link_count;
	/* Set by the reader: what nameless ones are ("adapter") and what can be done about them, a sentence. */
	const char *nameless_what, *nameless_remedy;
	bool excluded_all;  /* hosts were on switches until --exclude */
	uint32_t *nameless; /* of each switch, once wiring_leave_out ran: adapters on it that name no host */
	FILE *notes;        /* into notes_text */
	char *notes_text;
	size_t notes_bytes;
	uint32_t bucket[WIRING_BUCKETS];
};

int wiring_new(struct wiring **ret);
void wiring_free(struct wiring *wiring); /* NULL is fine */

/*
 * The machine of that key (an identity: a name, a GUID), made if there is none; of unknown kind it keeps the one that it
 * has. name: what it is called, of which letters that a cluster's names cannot have become '_'. -ENOMEM; -E2BIG: too many.
 */
int wiring_machine(struct wiring *wiring, const char *key, const char *name, enum wiring_kind kind, uint32_t *ret);
/*
 * The machine of that key; else the only one of the first `among` whose key is the same but for a domain, which one of the
 * two has ("node1", "node1.example.com"). False: there is none.
 */
bool wiring_find(const struct wiring *wiring, const char *key, size_t among, uint32_t *ret);
bool wiring_is(const struct wiring *wiring, uint32_t machine, enum wiring_kind kind);

/*
 * `from` says that a port of its own is cabled to `to`. Both ends may say so: the links between two machines are those of
 * the end that tells of more. rate_Bps 0: not known. label, far_label: the names of the ports at both ends, by which
 * management ports are told; "" where they say nothing. -ENOMEM, -E2BIG.
 */
int wiring_link(struct wiring *wiring, uint32_t from, uint32_t to, uint64_t rate_Bps, const char *label,
		const char *far_label);

/* How a text that says what is cabled is read. */
struct wiring_options {
	const char
		*this_host;  /* whose the text is where it does not say so and is one machine's alone; NULL: nobody's */
	const char *exclude; /* GLOB[,GLOB]…: hosts and switches that are left out; NULL: none */
};

/*
 * Machines of unknown kind that nobody made a host or a switch are left out. -EINVAL: *diag says what cannot be understood
 * (no hosts; a host on two leaves), without a line; -ENOMEM. Once for a wiring.
 */
int wiring_cluster(struct wiring *wiring, const struct wiring_options *options, struct cluster **ret,
		   struct diag *diag);
/* What a user should know of what was left out: lines, "" for none. Freed by free; NULL: no memory. Once, at the end. */
char *wiring_take_notes(struct wiring *wiring);

/* ------------------------------------------------------------------------------------------------------------- readers */

/*
 * What hosts and switches hear by LLDP, as `lldpctl -f json` (or json0) prints it: one host's, or those of many in one file.
 * -EINVAL: *diag has the reason, and line and column where there are any; -ENOMEM. *ret_notes as wiring_take_notes, NULL
 * where nothing was understood. docs/format/cluster-file.md has the forms.
 */
int lldp_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
	      char **ret_notes, struct diag *diag);
/* An InfiniBand fabric as `ibnetdiscover` prints it. */
int ibnetdiscover_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
		       char **ret_notes, struct diag *diag);
/* Whether a text looks like that. */
bool ibnetdiscover_is(const char *text, size_t bytes);

/* -------------------------------------------------------------------------------------------------------- inside */

/*
 * wiring.c (what is told), wiring_fabric.c (what of it belongs to the fabric), wiring_management.c (what names tell),
 * wiring_pairs.c (who is cabled to whom), wiring_tree.c (the tree that it makes), wiring_notes.c (what the user is told).
 */

/* Switches that nobody gave a name are all called what their maker calls them: they go by their keys. -ENOMEM. */
int wiring_name_apart(struct wiring *wiring);

/* -------------------------------------------------------------------------------------------------------------- notes */

/* A sentence for the user. */
void wiring_note(struct wiring *wiring, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The first names of a list, with commas, and how many more there are. */
enum { WIRING_SHOWN = 4, WIRING_LIST_BYTES = 400 };
void wiring_list(const struct wiring *wiring, const uint32_t *machines, size_t count,
		 char ret[static WIRING_LIST_BYTES]);

/* -------------------------------------------------------------------------------------------------------------- pairs */

struct wiring_pair { /* of two machines, a < b */
	uint32_t a, b;
	uint64_t rate_Bps;  /* of all links between them; 0: not known */
	uint64_t cable_Bps; /* of the fastest of them; 0: none is known */
};
struct wiring_pairs {
	struct wiring_pair *at; /* freed by sys_free */
	size_t count;
};
/* Of hosts and switches alone; no management ports, and no links of a host that are far slower than its fastest. */
int wiring_pairs_make(const struct wiring *wiring, struct wiring_pairs *ret);
/* Takes out those with an end that is left out. */
void wiring_pairs_prune(const struct wiring *wiring, struct wiring_pairs *pairs);
/* The switch of a pair of a host and a switch, and the host; false: it is another kind of pair. */
bool wiring_pair_of_host(const struct wiring *wiring, const struct wiring_pair *pair, uint32_t *ret_host,
			 uint32_t *ret_switch);

/* For each switch its hosts, for each host its switches: the pairs of hosts, in two orders. */
struct wiring_edges {
	void *arrays;                  /* the block of all of these; freed by sys_free */
	uint32_t *of_host, *of_switch; /* first edge, by machine, and one more */
	uint32_t *switches, *hosts;    /* at the other end */
};
/* -ENOMEM. */
int wiring_edges_init(const struct wiring *wiring, const struct wiring_pairs *pairs, struct wiring_edges *ret);

/* The one that stands for the machine: union-find over group[machine]. */
uint32_t wiring_group_of(uint32_t *group, uint32_t machine);

/* ------------------------------------------------------------------------------------------------------------- fabric */

/*
 * Machines that do not belong to the fabric become WIRING_LEFT_OUT, with a note, and their links are taken out of the pairs:
 * what is excluded, what has no name, networks for storage and management. -ENOMEM.
 */
int wiring_leave_out(struct wiring *wiring, const char *exclude, struct wiring_pairs *ret);
/*
 * For each machine: a switch above leaves that has hosts itself (a subnet manager's, say). It is cabled to two switches or
 * more that have more hosts than itself and are not cabled to each other. The switch with the most hosts is none.
 */
int wiring_find_upper(const struct wiring *wiring, const struct wiring_pairs *pairs, bool *ret);

/* --------------------------------------------------------------------------------------------------------- management */

/* A host or a switch: "nas1", "ib-storage-2". */
bool wiring_named_for_storage(const char *name);
/* For storage or management. */
bool wiring_named_for_other_work(const char *name);
/* Links of ports for management, by the names of the ports. -ENOMEM. */
int wiring_mark_management(struct wiring *wiring);
/* And those of hosts' eth0, as far as they are for management; to be called once kinds are final. -ENOMEM. */
int wiring_mark_first_ports(struct wiring *wiring);
/* One note of all that are marked. -ENOMEM. */
int wiring_note_management(struct wiring *wiring);

/* ---------------------------------------------------------------------------------------------------------- tree */

struct wiring_tree {
	struct wiring *wiring;
	struct diag *diag;
	struct wiring_pairs pairs;
	void *arrays;                          /* the block of all of these */
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
