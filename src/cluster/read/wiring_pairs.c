/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of machines that are cabled, and for each host its switches. */
#include "cluster/read/wiring.h"

#include "base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOW_BPS = 125000000 };

bool wiring_is(const struct wiring *wiring, uint32_t machine, enum wiring_kind kind)
{
	return wiring->machines[machine].kind == kind;
}

static bool belongs(const struct wiring *wiring, uint32_t machine)
{
	return wiring_is(wiring, machine, WIRING_HOST) || wiring_is(wiring, machine, WIRING_SWITCH);
}

/* -------------------------------------------------------------------------------------------------------------- pairs */

static int compare_ports(const struct wiring_link *a, const struct wiring_link *b)
{
	int order = strcmp(a->label, b->label);

	return order ? order : strcmp(a->far_label, b->far_label);
}

/* What says the same of a cable: of the ports at both ends. */
static bool is_again(const struct wiring_link *a, const struct wiring_link *b)
{
	return a->from == b->from && a->to == b->to && a->label[0] && a->far_label[0] && !compare_ports(a, b);
}

static int compare_links(const void *a, const void *b)
{
	const struct wiring_link *first = *(const struct wiring_link *const *)a,
				 *second = *(const struct wiring_link *const *)b;
	uint32_t low1 = first->from < first->to ? first->from : first->to,
		 high1 = first->from < first->to ? first->to : first->from,
		 low2 = second->from < second->to ? second->from : second->to,
		 high2 = second->from < second->to ? second->to : second->from;

	if (low1 != low2)
		return low1 < low2 ? -1 : 1;
	if (high1 != high2)
		return high1 < high2 ? -1 : 1;
	if (first->from != second->from)
		return first->from < second->from ? -1 : 1;
	if (compare_ports(first, second))
		return compare_ports(first, second);
	return (first > second) - (first < second);
}

/* Several hosts' dumps of one fabric, or a file that was written twice, have each cable more than once. */
static size_t leave_out_again(const struct wiring_link **links, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		const struct wiring_link **last = kept ? &links[kept - 1] : NULL;

		if (!last || !is_again(*last, links[i]))
			links[kept++] = links[i];
		else if (links[i]->rate_Bps > (*last)->rate_Bps)
			*last = links[i];
	}
	return kept;
}

/* The links of one end of a pair, of those that are sorted; *ret_count of them. */
static uint64_t end_rate(const struct wiring_link *const *links, size_t count, uint32_t from, size_t *ret_count)
{
	uint64_t sum = 0;
	bool known = true;

	*ret_count = 0;
	for (size_t i = 0; i < count; i++) {
		if (links[i]->from != from)
			continue;
		++*ret_count;
		known = known && links[i]->rate_Bps > 0;
		sum += links[i]->rate_Bps < WIRING_RATE_MAX ? links[i]->rate_Bps : WIRING_RATE_MAX;
	}
	return !known ? 0 : (sum < WIRING_RATE_MAX ? sum : WIRING_RATE_MAX);
}

static struct wiring_pair pair_of(const struct wiring_link *const *links, size_t count)
{
	uint32_t from = links[0]->from, to = links[0]->to;
	size_t forth, back;
	uint64_t forth_Bps = end_rate(links, count, from, &forth), back_Bps = end_rate(links, count, to, &back);
	struct wiring_pair pair = { .a = from < to ? from : to, .b = from < to ? to : from };

	if (forth != back)
		pair.rate_Bps = forth > back ? forth_Bps : back_Bps;
	else
		pair.rate_Bps = forth_Bps > back_Bps ? forth_Bps : back_Bps;
	for (size_t i = 0; i < count; i++)
		pair.cable_Bps = links[i]->rate_Bps > pair.cable_Bps ? links[i]->rate_Bps : pair.cable_Bps;
	return pair;
}

/*
 * Of each machine, the rate of its fastest link, and whether there is one of which it is not known. What --exclude took
 * does not count: it may have been the faster network, and what is left is then not slow.
 */
struct rates {
	uint64_t fastest_Bps;
	bool unknown;
};

static void find_rates(const struct wiring *wiring, struct rates *ret)
{
	for (size_t i = 0; i < wiring->link_count; i++) {
		const struct wiring_link *link = &wiring->links[i];

		if (link->management || wiring_is(wiring, link->from, WIRING_LEFT_OUT) ||
		    wiring_is(wiring, link->to, WIRING_LEFT_OUT))
			continue;
		for (int end = 0; end < 2; end++) {
			struct rates *at = &ret[end ? link->to : link->from];

			if (link->rate_Bps > at->fastest_Bps)
				at->fastest_Bps = link->rate_Bps;
			at->unknown = at->unknown || !link->rate_Bps;
		}
	}
}

/* A link of a host far slower than its fastest is for other work; and one of 1 Gbit/s is, beside one that does not say. */
static bool is_slow(const struct wiring_link *link, const struct rates *host)
{
	return link->rate_Bps &&
	       (link->rate_Bps < host->fastest_Bps / WIRING_SLOW_PART || (host->unknown && link->rate_Bps <= SLOW_BPS));
}

static bool counts(const struct wiring *wiring, const struct wiring_link *link, const struct rates *rates)
{
	if (link->from == link->to || link->management || !belongs(wiring, link->from) || !belongs(wiring, link->to))
		return false;
	for (int end = 0; end < 2; end++) {
		uint32_t machine = end ? link->to : link->from;

		if (wiring_is(wiring, machine, WIRING_HOST) && is_slow(link, &rates[machine]))
			return false;
	}
	return true;
}

static void collect(const struct wiring_link **links, size_t count, struct wiring_pairs *ret)
{
	qsort(links, count, sizeof(const struct wiring_link *), compare_links);
	count = leave_out_again(links, count);
	for (size_t i = 0, next; i < count; i = next) {
		struct wiring_pair pair = pair_of(&links[i], 1);

		for (next = i + 1; next < count; next++) {
			struct wiring_pair other = pair_of(&links[next], 1);

			if (other.a != pair.a || other.b != pair.b)
				break;
		}
		ret->at[ret->count++] = pair_of(&links[i], next - i);
	}
}

int wiring_pairs_make(const struct wiring *wiring, struct wiring_pairs *ret)
{
	const struct wiring_link **links;
	struct rates *rates;
	size_t count = 0;
	void *arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(links, wiring->link_count), SYS_ARRAY(rates, wiring->machine_count) },
		2);

	*ret = (struct wiring_pairs){ .at = sys_zalloc((wiring->link_count + 1) * sizeof(*ret->at)) };
	if (arrays && ret->at) {
		find_rates(wiring, rates);
		for (size_t i = 0; i < wiring->link_count; i++)
			if (counts(wiring, &wiring->links[i], rates))
				links[count++] = &wiring->links[i];
		collect(links, count, ret);
	}
	sys_free(arrays);
	return arrays && ret->at ? 0 : -ENOMEM;
}

void wiring_pairs_prune(const struct wiring *wiring, struct wiring_pairs *pairs)
{
	size_t kept = 0;

	for (size_t i = 0; i < pairs->count; i++)
		if (belongs(wiring, pairs->at[i].a) && belongs(wiring, pairs->at[i].b))
			pairs->at[kept++] = pairs->at[i];
	pairs->count = kept;
}

bool wiring_pair_of_host(const struct wiring *wiring, const struct wiring_pair *pair, uint32_t *ret_host,
			 uint32_t *ret_switch)
{
	bool host_first = wiring_is(wiring, pair->a, WIRING_HOST);

	*ret_host = host_first ? pair->a : pair->b;
	*ret_switch = host_first ? pair->b : pair->a;
	return wiring_is(wiring, *ret_host, WIRING_HOST) && wiring_is(wiring, *ret_switch, WIRING_SWITCH);
}

/* -------------------------------------------------------------------------------------------------------------- edges */

int wiring_edges_init(const struct wiring *wiring, const struct wiring_pairs *pairs, struct wiring_edges *ret)
{
	size_t machines = wiring->machine_count;

	ret->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(ret->of_host, machines + 2), SYS_ARRAY(ret->of_switch, machines + 2),
				      SYS_ARRAY(ret->switches, pairs->count), SYS_ARRAY(ret->hosts, pairs->count) },
		4);
	if (!ret->arrays)
		return -ENOMEM;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < pairs->count; i++) {
			uint32_t host, at;

			if (!wiring_pair_of_host(wiring, &pairs->at[i], &host, &at))
				continue;
			if (!pass) {
				ret->of_host[host + 2]++;
				ret->of_switch[at + 2]++;
			} else {
				ret->switches[ret->of_host[host + 1]++] = at;
				ret->hosts[ret->of_switch[at + 1]++] = host;
			}
		}
		for (size_t i = 0; !pass && i < machines; i++) {
			ret->of_host[i + 2] += ret->of_host[i + 1];
			ret->of_switch[i + 2] += ret->of_switch[i + 1];
		}
	}
	return 0;
}

uint32_t wiring_group_of(uint32_t *group, uint32_t machine)
{
	while (group[machine] != machine)
		machine = group[machine] = group[group[machine]];
	return machine;
}
