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

struct cluster;
struct diag;
struct wiring;

enum { WIRING_MACHINES_MAX = 16384, WIRING_LINKS_MAX = 1 << 18, WIRING_LABEL_BYTES = 32 };

int wiring_new(struct wiring **ret);
void wiring_free(struct wiring *wiring); /* NULL is fine */

/* NAMELESS: an adapter or a neighbour that does not say which host it belongs to. LEFT_OUT: by wiring_cluster. */
enum wiring_kind { WIRING_UNKNOWN, WIRING_HOST, WIRING_SWITCH, WIRING_NAMELESS, WIRING_LEFT_OUT };
/* What nameless ones are ("adapter") and what can be done about them, a sentence; kept as they are. */
void wiring_call_nameless(struct wiring *wiring, const char *what, const char *remedy);
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
size_t wiring_count(const struct wiring *wiring);
enum wiring_kind wiring_kind_of(const struct wiring *wiring, uint32_t machine);
void wiring_set_kind(struct wiring *wiring, uint32_t machine, enum wiring_kind kind);

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

#endif
