/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts send to which in a round. */
#include "clusterprobe/fabric_internal.h"

#include <string.h>

size_t fabric_plan_shift(struct fabric_work *work, const uint16_t *order, size_t shift)
{
	for (size_t i = 0; i < work->n; i++)
		work->flows[i] = (struct fabric_flow){ order[i], order[(i + shift) % work->n] };
	return work->n;
}

/* Hosts part by part, parts and their hosts in random order. *ret_largest: hosts of the largest. */
static void order_by_part(struct fabric_work *work, size_t *ret_largest)
{
	uint16_t *order = work->order, *numbers = work->order + work->n;
	size_t count = 0, largest = 0, parts = work->part_count;

	for (size_t p = 0; p < parts; p++)
		numbers[p] = (uint16_t)p;
	fabric_shuffle(work, numbers, parts);
	for (size_t p = 0; p < parts; p++) {
		size_t first = count;

		for (size_t i = 0; i < work->n; i++)
			if (work->part[i] == numbers[p])
				order[count++] = (uint16_t)i;
		fabric_shuffle(work, order + first, count - first);
		largest = count - first > largest ? count - first : largest;
	}
	*ret_largest = largest;
}

/* Two flows of a part, one out and one in, become one inside and one between others. */
static void turn_inside(struct fabric_work *work, uint16_t of)
{
	const uint16_t *part = work->part;

	for (unsigned turn = 0; turn < 16; turn++) {
		struct fabric_flow *out = &work->flows[fabric_random(work, work->n)];
		struct fabric_flow *in = &work->flows[fabric_random(work, work->n)];
		uint16_t to = out->to;

		if (part[out->from] != of || part[out->to] == of || part[in->to] != of || part[in->from] == of ||
		    out->from == in->to || out->to == in->from)
			continue;
		out->to = in->to;
		in->to = to;
		return;
	}
}

size_t fabric_plan_fill(struct fabric_work *work)
{
	size_t n = work->n, largest, low, high;

	order_by_part(work, &largest);
	low = largest < n - largest ? largest : n - largest;
	high = n - low;
	low = low ? low : 1;
	high = high < n ? high : n - 1;
	fabric_plan_shift(work, work->order, low + fabric_random(work, high - low + 1));
	for (uint16_t p = 0; p < (uint16_t)work->part_count; p++) {
		size_t size = 0;

		for (size_t i = 0; i < n; i++)
			size += work->part[i] == p;
		for (size_t turn = 0; turn < (size + 5) / 8; turn++)
			turn_inside(work, p);
	}
	return n;
}

size_t fabric_plan_inside(struct fabric_work *work, const uint16_t *order, size_t shift)
{
	uint16_t *members = work->order + work->n;
	size_t count = 0;

	for (uint16_t p = 0; p < (uint16_t)work->part_count; p++) {
		size_t size = 0;

		for (size_t i = 0; i < work->n; i++)
			if (work->part[order[i]] == p)
				members[size++] = order[i];
		for (size_t i = 0; i < size && size > 1; i++)
			work->flows[count++] = (struct fabric_flow){ members[i],
								     members[(i + 1 + shift % (size - 1)) % size] };
	}
	return count;
}

size_t fabric_plan_halves(struct fabric_work *work, const uint16_t *half)
{
	uint16_t *first = work->order + work->n, second[FABRIC_HOSTS_MAX];
	size_t count = 0;

	for (uint16_t p = 0; p < (uint16_t)work->part_count; p++) {
		size_t many[2] = { 0 };

		for (size_t i = 0; i < work->n; i++) {
			if (half[i] == 2 * p)
				first[many[0]++] = (uint16_t)i;
			else if (half[i] == 2 * p + 1)
				second[many[1]++] = (uint16_t)i;
		}
		fabric_shuffle(work, first, many[0]);
		fabric_shuffle(work, second, many[1]);
		for (size_t i = 0; i < many[0] && i < many[1]; i++) {
			size_t back = (i + 1) % (many[0] < many[1] ? many[0] : many[1]);

			work->flows[count++] = (struct fabric_flow){ first[i], second[i] };
			work->flows[count++] = (struct fabric_flow){ second[i], first[back] };
		}
	}
	return count;
}

/* ------------------------------------------------------------------------------------------------------------- crowds */

/* The host of a part with the least evidence about `with`, free to send or to receive; n: none. */
static size_t least_known(struct fabric_work *work, uint16_t part, size_t with, const uint8_t *used, uint8_t bit)
{
	size_t best = work->n, count = 0;
	double least = 0;

	for (size_t i = 0; i < work->n; i++) {
		double known = work->evidence[with * work->n + i];

		if (work->part[i] != part || i == with || used[i] & bit)
			continue;
		known = known < 0 ? -known : known;
		count++;
		if (best == work->n || known < least || (known <= least && !fabric_random(work, count))) {
			least = known;
			best = i;
		}
	}
	return best;
}

enum { SENDS = 1, RECEIVES = 2 };

/* Single flows, of the most doubtful hosts first; each part keeps most of its hosts for the crowd. */
static size_t plan_singles(struct fabric_work *work, uint8_t *used)
{
	uint16_t *doubtful = work->order, *tested = work->order + work->n, other[FABRIC_HOSTS_MAX] = { 0 };
	double *sum = work->scratch, *margin = work->scratch + work->n;
	size_t count = 0;

	for (size_t i = 0; i < work->n; i++) {
		margin[i] = fabric_margin(work, i, sum, &other[i]) * (0.5 + (double)fabric_random(work, 1000) / 500);
		doubtful[i] = (uint16_t)i;
	}
	for (size_t i = 1; i < work->n; i++)
		for (size_t j = i; j > 0 && margin[doubtful[j]] < margin[doubtful[j - 1]]; j--) {
			uint16_t swap = doubtful[j];

			doubtful[j] = doubtful[j - 1];
			doubtful[j - 1] = swap;
		}
	memset(tested, 0, work->n * sizeof(*tested));
	for (size_t i = 0; i < work->n; i++) {
		uint16_t host = doubtful[i];
		uint16_t part = fabric_random(work, 3) ? work->part[host] : other[host];
		bool in = fabric_random(work, 2);
		size_t mate = least_known(work, part, host, used, in ? SENDS : RECEIVES), size = 0;
		size_t from = in ? mate : host, to = in ? host : mate;

		for (size_t j = 0; j < work->n; j++)
			size += work->part[j] == work->part[host];
		if (mate == work->n || used[from] & SENDS || used[to] & RECEIVES ||
		    tested[work->part[host]] > size / 4 || tested[part] > size / 4)
			continue;
		used[from] |= SENDS;
		used[to] |= RECEIVES;
		tested[work->part[host]]++;
		work->flows[count++] = (struct fabric_flow){ (uint16_t)from, (uint16_t)to };
	}
	return count;
}

size_t fabric_plan_crowd(struct fabric_work *work, size_t *ret_single)
{
	uint8_t used[FABRIC_HOSTS_MAX] = { 0 };
	size_t n = work->n, single = plan_singles(work, used), count = single, sizes[FABRIC_HOSTS_MAX];

	memset(sizes, 0, work->part_count * sizeof(*sizes));
	for (size_t i = 0; i < n; i++)
		sizes[work->part[i]]++;
	for (size_t i = 0; i < n; i++) {
		/* Few hosts need more flows each to be a crowd. */
		size_t size = sizes[work->part[i]], each = size <= 2 ? 7 : size <= 4 ? 6 : size <= 8 ? 5 : 4;

		for (size_t k = 0; k < 3 * each && !(used[i] & SENDS) && each; k++) {
			size_t to = fabric_random(work, n);

			if (used[to] & RECEIVES || work->part[to] == work->part[i])
				continue;
			work->flows[count++] = (struct fabric_flow){ (uint16_t)i, (uint16_t)to };
			each--;
		}
	}
	*ret_single = single;
	return count;
}

/* ------------------------------------------------------------------------------------------------------------ uplinks */

/* The others in turns of their parts: the first host of each, the second of each, ... */
static size_t list_others(struct fabric_work *work, uint16_t part, uint16_t other, uint16_t *ret)
{
	size_t count = 0, seen[FABRIC_HOSTS_MAX], left = work->n;

	for (size_t depth = 0; left > 0; depth++) {
		memset(seen, 0, work->part_count * sizeof(*seen));
		left = 0;
		for (size_t i = 0; i < work->n; i++) {
			uint16_t p = work->part[i];

			if (p == part || p == other)
				continue;
			left += seen[p] > depth;
			if (seen[p]++ == depth)
				ret[count++] = (uint16_t)i;
		}
	}
	return count;
}

size_t fabric_plan_uplink(struct fabric_work *work, uint16_t part, uint16_t other, bool down, size_t turn, size_t each)
{
	uint16_t *others = work->order, *hosts = work->order + work->n;
	size_t other_count = list_others(work, part, other, others), host_count = 0, used, count;
	size_t most = FABRIC_FLOWS_EACH * other_count;

	for (size_t i = 0; i < work->n; i++)
		if (work->part[i] == part || work->part[i] == other)
			hosts[host_count++] = (uint16_t)i;
	if (!most || !host_count)
		return 0;
	/* So many hosts that a flow of each is as much as the others may have: in every turn other ones. */
	used = host_count < most ? host_count : most;
	each = each < other_count ? each : other_count;
	if (each * used > most)
		each = most / used;
	count = each * used;
	for (size_t i = 0; i < count; i++) {
		/* Each host's flows go to others that follow one another, so to different ones. */
		size_t to = (i / used + (i % used) * each + turn * 5) % other_count;
		uint16_t host = hosts[(i % used + turn * used) % host_count];

		work->flows[i] = down ? (struct fabric_flow){ others[to], host }
				      : (struct fabric_flow){ host, others[to] };
	}
	return count;
}
