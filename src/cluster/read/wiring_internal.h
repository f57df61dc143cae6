/*
 * What the parts of wiring share: wiring.c (what is told), wiring_fabric.c (what of it belongs to the fabric),
 * wiring_management.c (what names tell), wiring_pairs.c (who is cabled to whom), wiring_tree.c (the tree that it makes),
 * wiring_notes.c (what the user is told).
 */
#ifndef TRIBUTARY_CLUSTER_READ_WIRING_INTERNAL_H
#define TRIBUTARY_CLUSTER_READ_WIRING_INTERNAL_H

#include "cluster/read/wiring.h"

#include <stdio.h>

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
	bool management;
	int management_end; /* whose port it is: 0: from; 1: to */
};

struct wiring {
	struct wiring_machine *machines;
	size_t machine_count;
	struct wiring_link *links;
	size_t link_count;
	const char *nameless_what, *nameless_remedy;
	bool excluded_all;  /* hosts were on switches until --exclude */
	uint32_t *nameless; /* of each switch, once wiring_leave_out ran: adapters on it that name no host */
	FILE *notes;        /* into notes_text */
	char *notes_text;
	size_t notes_bytes;
	uint32_t bucket[WIRING_BUCKETS];
};

/* Switches that nobody gave a name are all called what their maker calls them: they go by their keys. -ENOMEM. */
int wiring_name_apart(struct wiring *wiring);
bool wiring_is(const struct wiring *wiring, uint32_t machine, enum wiring_kind kind);

/* -------------------------------------------------------------------------------------------------------------- notes */

/* A sentence for the user. */
void wiring_note(struct wiring *wiring, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The first names of a list, with commas, and how many more there are. */
enum { WIRING_SHOWN = 4, WIRING_LIST_BYTES = 400 };
void wiring_list(const struct wiring *wiring, const uint32_t *machines, size_t count,
		 char ret[static WIRING_LIST_BYTES]);

/* ------------------------------------------------------------------------------------------------------------- fabric */

struct wiring_pairs;
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

/* -------------------------------------------------------------------------------------------------------------- pairs */

struct wiring_pair { /* of two machines, a < b */
	uint32_t a, b;
	uint64_t rate_Bps;  /* of all links between them; 0: not known */
	uint64_t cable_Bps; /* of the fastest of them; 0: none is known */
};
struct wiring_pairs {
	struct wiring_pair *at;
	size_t count;
};
/* Of hosts and switches alone; no management ports, and no links of a host that are far slower than its fastest. */
int wiring_pairs_make(const struct wiring *wiring, struct wiring_pairs *ret);
/* Takes out those with an end that is left out. */
void wiring_pairs_prune(const struct wiring *wiring, struct wiring_pairs *pairs);
void wiring_pairs_fini(struct wiring_pairs *pairs);
/* The switch of a pair of a host and a switch, and the host; false: it is another kind of pair. */
bool wiring_pair_of_host(const struct wiring *wiring, const struct wiring_pair *pair, uint32_t *ret_host,
			 uint32_t *ret_switch);

/* For each switch its hosts, for each host its switches: the pairs of hosts, in two orders. */
struct wiring_edges {
	uint32_t *of_host, *of_switch; /* first edge, by machine, and one more */
	uint32_t *switches, *hosts;    /* at the other end */
};
/* -ENOMEM; wiring_edges_fini is due then, too. */
int wiring_edges_init(const struct wiring *wiring, const struct wiring_pairs *pairs, struct wiring_edges *ret);
void wiring_edges_fini(struct wiring_edges *edges);

/* The one that stands for the machine: union-find over group[machine]. */
uint32_t wiring_group_of(uint32_t *group, uint32_t machine);

#endif
