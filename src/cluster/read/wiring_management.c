/* SPDX-License-Identifier: Apache-2.0 */
/* What is known by its name to be for management or storage: switches, servers, and ports. */
#include "cluster/read/wiring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* -------------------------------------------------------------------------------------------------- names of machines */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Has one of the words in it, as a whole one: between what is no letter. */
static bool has_word(const char *name, const char *const *words)
{
	size_t end = strcspn(name, ".");

	for (size_t at = 0, bytes; at < end; at += bytes ? bytes : 1) {
		for (bytes = 0; at + bytes < end && is_letter(name[at + bytes]);)
			bytes++;
		for (const char *const *word = words; bytes && *word; word++)
			if (strlen(*word) == bytes && !strncasecmp(name + at, *word, bytes))
				return true;
	}
	return false;
}

static bool has_part(const char *name, const char *const *parts)
{
	for (; *parts; parts++)
		if (strcasestr(name, *parts))
			return true;
	return false;
}

bool wiring_named_for_storage(const char *name)
{
	static const char *const words[] = { "nas", "nfs",  "oss",  "mds",  "mgs",  "ost", "osd",
					     "ddn", "weka", "vast", "ceph", "stor", NULL };
	static const char *const parts[] = { "storage", "lustre", "beegfs", "gpfs", NULL };

	return has_word(name, words) || has_part(name, parts);
}

static bool named_for_management(const char *name)
{
	static const char *const words[] = { "oob", "ipmi", "bmc", NULL };
	static const char *const parts[] = { "mgmt", "management", NULL };

	return has_word(name, words) || has_part(name, parts);
}

bool wiring_named_for_other_work(const char *name)
{
	return wiring_named_for_storage(name) || named_for_management(name);
}

/* ----------------------------------------------------------------------------------------------------- names of ports */

static bool all_digits(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* "eth0"; -1: it is none. */
static int ethernet_number(const char *port)
{
	return !strncasecmp(port, "eth", 3) && all_digits(port + 3) && strlen(port) < 8 ? atoi(port + 3) : -1;
}

static bool begins_any(const char *port, const char *const *words)
{
	for (; *words; words++)
		if (!strncasecmp(port, *words, strlen(*words)))
			return true;
	return false;
}

static bool is_management_port(const char *port, bool of_switch, bool has_ethernet)
{
	static const char *const any[] = { "mgmt", "management", "oob", NULL };
	static const char *const of_hosts[] = { "bmc", "ipmi", "idrac", "ilo", NULL };
	static const char *const of_switches[] = { "fxp", "vme", "bme", "re0:mgmt", "re1:mgmt", NULL };

	if (begins_any(port, any) || begins_any(port, of_switch ? of_switches : of_hosts))
		return true;
	if (!of_switch)
		return false;
	/* What drives a data port calls it otherwise, but for a Linux host that is a switch: that one has eth1, too. */
	if (ethernet_number(port) >= 0)
		return !has_ethernet;
	return (!strncasecmp(port, "ma", 2) || !strncasecmp(port, "me", 2) || !strncasecmp(port, "em", 2)) &&
	       all_digits(port + 2);
}

/* Of a link, the machine at one end, its port and the machine at the other. */
static uint32_t end_of(const struct wiring_link *link, int end, const char **ret_port, uint32_t *ret_other)
{
	*ret_port = end ? link->far_label : link->label;
	*ret_other = end ? link->from : link->to;
	return end ? link->to : link->from;
}

/* Of both ends the lower machine, so that it is the same one whichever end tells of the cable. */
static void mark(struct wiring_link *link, int end)
{
	bool lower = (end ? link->to : link->from) < (end ? link->from : link->to);

	if (!link->management || lower)
		link->management_end = end;
	link->management = true;
}

/* For each machine: it has a port eth1 or higher. */
static bool *find_ethernet(const struct wiring *wiring)
{
	bool *ret = calloc(wiring->machine_count + 1, sizeof(*ret));

	for (size_t i = 0; ret && i < wiring->link_count; i++)
		for (int end = 0; end < 2; end++) {
			const char *port;
			uint32_t other, machine = end_of(&wiring->links[i], end, &port, &other);

			ret[machine] = ret[machine] || ethernet_number(port) > 0;
		}
	return ret;
}

int wiring_mark_management(struct wiring *wiring)
{
	bool *ethernet = find_ethernet(wiring);

	for (size_t i = 0; ethernet && i < wiring->link_count; i++)
		for (int end = 0; end < 2; end++) {
			const char *port;
			uint32_t other, machine = end_of(&wiring->links[i], end, &port, &other);

			if (is_management_port(port, wiring_is(wiring, machine, WIRING_SWITCH), ethernet[machine]))
				mark(&wiring->links[i], end);
		}
	free(ethernet);
	return ethernet ? 0 : -ENOMEM;
}

/* ----------------------------------------------------------------------------------------------------- eth0 of a host */

/* What a host's links to switches are, but for its eth0. */
struct data_ports {
	uint64_t fastest_Bps;
	bool any;
};

static struct data_ports *find_data_ports(const struct wiring *wiring)
{
	struct data_ports *ret = calloc(wiring->machine_count + 1, sizeof(*ret));

	for (size_t i = 0; ret && i < wiring->link_count; i++) {
		const struct wiring_link *link = &wiring->links[i];

		for (int end = 0; end < 2 && !link->management; end++) {
			const char *port;
			uint32_t other, host = end_of(link, end, &port, &other);

			/* Without a name it may be eth0, as the switch sees it. */
			if (!*port || !ethernet_number(port) || !wiring_is(wiring, other, WIRING_SWITCH))
				continue;
			ret[host].any = true;
			if (link->rate_Bps > ret[host].fastest_Bps)
				ret[host].fastest_Bps = link->rate_Bps;
		}
	}
	return ret;
}

/*
 * A name alone does not tell: many a host has eth0 for data beside ports that are called by their position. It is for
 * management if it is far slower than those or if its switch is for management; not if it is all that a host has left.
 */
int wiring_mark_first_ports(struct wiring *wiring)
{
	struct data_ports *ports = find_data_ports(wiring);
	bool *ethernet = find_ethernet(wiring);

	for (size_t i = 0; ports && ethernet && i < wiring->link_count; i++) {
		struct wiring_link *link = &wiring->links[i];

		for (int end = 0; end < 2; end++) {
			const char *port;
			uint32_t other, host = end_of(link, end, &port, &other);

			if (!wiring_is(wiring, host, WIRING_HOST) || ethernet_number(port) || ethernet[host] ||
			    !ports[host].any)
				continue;
			if ((link->rate_Bps && link->rate_Bps < ports[host].fastest_Bps / WIRING_SLOW_PART) ||
			    named_for_management(wiring->machines[other].name))
				mark(link, end);
		}
	}
	free(ports);
	free(ethernet);
	return ports && ethernet ? 0 : -ENOMEM;
}

/* --------------------------------------------------------------------------------------------------------------- note */

struct marked_port {
	const char *machine, *port;
};

static int compare_ports(const void *a, const void *b)
{
	const struct marked_port *first = a, *second = b;
	int order = strcmp(first->machine, second->machine);

	return order ? order : strcmp(first->port, second->port);
}

static bool is_left_out(const struct wiring *wiring, const struct wiring_link *link)
{
	return wiring_is(wiring, link->from, WIRING_LEFT_OUT) || wiring_is(wiring, link->to, WIRING_LEFT_OUT);
}

int wiring_note_management(struct wiring *wiring)
{
	struct marked_port *ports = calloc(wiring->link_count + 1, sizeof(*ports));
	size_t all = 0, count = 0, shown;

	if (!ports)
		return -ENOMEM;
	for (size_t i = 0; i < wiring->link_count; i++) {
		const struct wiring_link *link = &wiring->links[i];
		const char *port;
		uint32_t other, machine = end_of(link, link->management_end, &port, &other);

		if (link->management && !is_left_out(wiring, link))
			ports[all++] = (struct marked_port){ wiring->machines[machine].name, port };
	}
	qsort(ports, all, sizeof(*ports), compare_ports);
	/* Where both ends tell of a cable, it is there twice. */
	for (size_t i = 0; i < all; i++)
		if (!count || compare_ports(&ports[count - 1], &ports[i]) != 0)
			ports[count++] = ports[i];
	shown = count > WIRING_SHOWN + 1 ? WIRING_SHOWN : count;
	if (count)
		fprintf(wiring->notes, "%zu link%s of management ports %s left out (", count, count == 1 ? "" : "s",
			count == 1 ? "is" : "are");
	for (size_t i = 0; i < shown; i++)
		fprintf(wiring->notes, "%s%s of %.60s", i ? ", " : "", ports[i].port, ports[i].machine);
	if (shown < count)
		fprintf(wiring->notes, " and %zu more", count - shown);
	if (count)
		fputs(")\n", wiring->notes);
	free(ports);
	return 0;
}
