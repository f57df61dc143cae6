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
 * them. Links of a host that are less than an eighth of its fastest are not counted: they are for other work.
 */
#ifndef TRIBUTARY_DISCOVER_WIRING_H
#define TRIBUTARY_DISCOVER_WIRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster;
struct diag;
struct wiring;

enum { WIRING_MACHINES_MAX = 16384, WIRING_LINKS_MAX = 1 << 18, WIRING_LABEL_BYTES = 32 };

int wiring_new(struct wiring **ret);
void wiring_free(struct wiring *wiring); /* NULL is fine */

enum wiring_kind { WIRING_UNKNOWN, WIRING_HOST, WIRING_SWITCH };
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
 * the end that tells of more. rate_Bps 0: not known. label: the port's name, for sentences. -ENOMEM, -E2BIG.
 */
int wiring_link(struct wiring *wiring, uint32_t from, uint32_t to, uint64_t rate_Bps, const char *label);

/*
 * Machines of unknown kind that nobody made a host or a switch are left out. -EINVAL: *diag says what cannot be understood
 * (no hosts; a host on two leaves), without a line; -ENOMEM.
 */
int wiring_cluster(struct wiring *wiring, struct cluster **ret, struct diag *diag);

#endif
