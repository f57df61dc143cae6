/* SPDX-License-Identifier: Apache-2.0 */
/* Fabrics from a line of text, and links that have less than the others. */
#include "simulate/fabric.h"

#include "base/log.h"
#include "base/parse.h"
#include "simulate/fabric_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHAPE_NUMBERS = 3, ITEM_BYTES = 48 };

struct shape {
	uint64_t numbers[SHAPE_NUMBERS];
	double ratio, rate_Bps;
};

struct kind {
	const char *word;
	size_t numbers;
	const char *form;
	int (*make)(const struct shape *shape, struct simulate_fabric *ret, struct diag *diag);
};

static int wrong(struct diag *diag, const char *form, const char *what)
{
	diag_set(diag, 0, 0, "%.60s: expected %s", what, form);
	return -EINVAL;
}

/* "32x32x8" */
static int read_numbers(const char *item, size_t count, struct shape *shape)
{
	const char *rest = item, *at;
	size_t bytes, found = 0;
	char digits[ITEM_BYTES];

	while (parse_list_next(&rest, 'x', &at, &bytes)) {
		if (found == count || bytes >= sizeof(digits))
			return -EINVAL;
		memcpy(digits, at, bytes);
		digits[bytes] = '\0';
		if (parse_u64(digits, 1, SIMULATE_HOSTS_MAX, &shape->numbers[found++]) < 0)
			return -EINVAL;
	}
	return found == count ? 0 : -EINVAL;
}

/* "4:1", "1:1", "3:2" */
static int read_ratio(const char *item, double *ret)
{
	const char *colon = strchr(item, ':');
	uint64_t over, under;
	char digits[ITEM_BYTES];

	snprintf(digits, sizeof(digits), "%.*s", (int)(colon - item), item);
	if (parse_u64(digits, 1, 1000, &over) < 0 || parse_u64(colon + 1, 1, 1000, &under) < 0)
		return -EINVAL;
	*ret = (double)over / (double)under;
	return 0;
}

static int read_items(const char *text, const struct kind *kind, struct shape *shape, struct diag *diag)
{
	const char *rest = text, *at;
	size_t bytes, index = 0;
	bool rate = false, ratio = false;

	for (; parse_list_next(&rest, ',', &at, &bytes); index++) {
		char item[ITEM_BYTES];
		uint64_t rate_Bps;

		snprintf(item, sizeof(item), "%.*s", (int)bytes, at);
		if (bytes >= sizeof(item))
			return wrong(diag, kind->form, item);
		if (!index) {
			if (read_numbers(item, kind->numbers, shape) < 0)
				return wrong(diag, kind->form, item);
		} else if (!ratio && strchr(item, ':')) {
			ratio = true;
			if (read_ratio(item, &shape->ratio) < 0)
				return wrong(diag, "a ratio as 4:1", item);
		} else if (!rate) {
			rate = true;
			if (parse_rate(item, 1, UINT64_C(1000000000000000), &rate_Bps) < 0)
				return wrong(diag, PARSE_RATE_EXPECTED, item);
			shape->rate_Bps = (double)rate_Bps;
		} else {
			return wrong(diag, kind->form, item);
		}
	}
	return rate ? 0 : wrong(diag, kind->form, text);
}

static int init(struct simulate_fabric *fabric, uint64_t hosts, uint64_t rails, uint64_t switches, struct diag *diag)
{
	if (hosts > SIMULATE_HOSTS_MAX || rails > SIMULATE_RAILS_MAX || switches > SIMULATE_SWITCHES_MAX) {
		diag_set(diag, 0, 0, "at most %d hosts with %d rails, and %d switches, can be simulated",
			 SIMULATE_HOSTS_MAX, SIMULATE_RAILS_MAX, SIMULATE_SWITCHES_MAX);
		return -EINVAL;
	}
	return simulate_fabric_init(fabric, hosts, rails, switches);
}

static struct simulate_switch switch_of(uint32_t parent, double rate_Bps)
{
	return (struct simulate_switch){ .parent = parent, .capacity_Bps = { rate_Bps, rate_Bps } };
}

static void place_host(struct simulate_fabric *fabric, size_t host, size_t rail, size_t leaf, double rate_Bps)
{
	fabric->nics[host * fabric->rail_count + rail] = (struct simulate_port){ (uint32_t)leaf,
										 { rate_Bps, rate_Bps } };
	snprintf(fabric->host_names[host], SIMULATE_NAME_BYTES, "host%zu", host + 1);
}

/* In each group a leaf for each rail; leaf-spine has groups of one. */
static int make_leaves(const struct shape *shape, struct simulate_fabric *ret, struct diag *diag)
{
	size_t groups = shape->numbers[0], each = shape->numbers[1], rails = shape->numbers[2] ? shape->numbers[2] : 1;
	size_t leaves = groups * rails;
	int r = init(ret, groups * each, rails, leaves + 1, diag);

	if (r < 0)
		return r;
	ret->switches[leaves] = switch_of(SIMULATE_NONE, INFINITY);
	snprintf(ret->switches[leaves].name, SIMULATE_NAME_BYTES, "spine");
	for (size_t i = 0; i < leaves; i++) {
		char *name = ret->switches[i].name;

		ret->switches[i] = switch_of((uint32_t)leaves, (double)each * shape->rate_Bps / shape->ratio);
		if (shape->numbers[2])
			snprintf(name, SIMULATE_NAME_BYTES, "group%zu-rail%zu", i / rails + 1, i % rails);
		else
			snprintf(name, SIMULATE_NAME_BYTES, "leaf%zu", i + 1);
		for (size_t j = 0; j < each; j++)
			place_host(ret, i / rails * each + j, i % rails, i, shape->rate_Bps);
	}
	return 0;
}

static int make_fat_tree(const struct shape *shape, struct simulate_fabric *ret, struct diag *diag)
{
	size_t pods = shape->numbers[0], half = pods / 2, leaves = pods * half;
	int r;

	if (!half || pods % 2)
		return wrong(diag, "an even number of pods", "fat-tree");
	r = init(ret, leaves * half, 1, leaves + pods + 1, diag);
	if (r < 0)
		return r;
	ret->switches[leaves + pods] = switch_of(SIMULATE_NONE, INFINITY);
	snprintf(ret->switches[leaves + pods].name, SIMULATE_NAME_BYTES, "core");
	for (size_t i = 0; i < pods; i++) {
		ret->switches[leaves + i] = switch_of((uint32_t)(leaves + pods),
						      (double)(half * half) * shape->rate_Bps / shape->ratio);
		snprintf(ret->switches[leaves + i].name, SIMULATE_NAME_BYTES, "pod%zu", i + 1);
	}
	for (size_t i = 0; i < leaves; i++) {
		ret->switches[i] = switch_of((uint32_t)(leaves + i / half), (double)half * shape->rate_Bps);
		snprintf(ret->switches[i].name, SIMULATE_NAME_BYTES, "pod%zu-leaf%zu", i / half + 1, i % half + 1);
		for (size_t j = 0; j < half; j++)
			place_host(ret, i * half + j, 0, i, shape->rate_Bps);
	}
	return 0;
}

static const struct kind kinds[] = {
	{ "leaf-spine", 2, "leaf-spine:LEAVESxHOSTS,RATIO:1,RATE", make_leaves },
	{ "fat-tree", 1, "fat-tree:K,RATIO:1,RATE", make_fat_tree },
	{ "rail-optimised", 3, "rail-optimised:GROUPSxHOSTSxRAILS,RATIO:1,RATE", make_leaves },
};

int simulate_fabric_make(const char *text, struct simulate_fabric *ret, struct diag *diag)
{
	const char *colon = strchr(text, ':');
	size_t bytes = colon ? (size_t)(colon - text) : 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct shape shape = { .ratio = 1 };
		struct simulate_fabric fabric;
		int r;

		if (strlen(kinds[i].word) != bytes || memcmp(text, kinds[i].word, bytes) != 0)
			continue;
		r = read_items(colon + 1, &kinds[i], &shape, diag);
		if (r == 0)
			r = kinds[i].make(&shape, &fabric, diag);
		if (r < 0)
			return r;
		if (!simulate_fabric_set_depths(&fabric)) { /* none of these is so deep */
			simulate_fabric_fini(&fabric);
			return -EINVAL;
		}
		*ret = fabric;
		return 0;
	}
	return wrong(diag, "leaf-spine:, fat-tree: or rail-optimised:", text);
}

/* ----------------------------------------------------------------------------------------------------------- degraded */

/* "25Gbit/s", or "50%" of what it is. */
static int read_capacity(const char *text, double now_Bps, double *ret_Bps)
{
	size_t bytes = strlen(text);
	char digits[ITEM_BYTES];
	uint64_t value;

	if (bytes < 2 || bytes >= sizeof(digits))
		return -EINVAL;
	if (text[bytes - 1] != '%') {
		if (parse_rate(text, 1, UINT64_C(1000000000000000), &value) < 0)
			return -EINVAL;
		*ret_Bps = (double)value;
		return 0;
	}
	memcpy(digits, text, bytes - 1);
	digits[bytes - 1] = '\0';
	if (parse_u64(digits, 0, 100, &value) < 0)
		return -EINVAL;
	*ret_Bps = value ? now_Bps * (double)value / 100 : 0;
	return 0;
}

static int set_capacity(double *capacity_Bps, int only, const char *text, struct diag *diag)
{
	for (int way = 0; way < 2; way++) {
		if (only >= 0 && way != only)
			continue;
		if (isinf(capacity_Bps[way]) && strchr(text, '%'))
			return wrong(diag, "a rate, as what it has now is not known", text);
		if (read_capacity(text, capacity_Bps[way], &capacity_Bps[way]) < 0)
			return wrong(diag, PARSE_RATE_EXPECTED ", or a share as 50%, at most 100%", text);
	}
	return 0;
}

int simulate_fabric_degrade(struct simulate_fabric *fabric, const char *text, struct diag *diag)
{
	const char *equals = strchr(text, '=');
	char name[SIMULATE_NAME_BYTES];
	int only = -1, r = 0;
	size_t bytes = equals ? (size_t)(equals - text) : 0;

	if (!bytes || bytes >= sizeof(name))
		return wrong(diag, "NAME=RATE, NAME.up=RATE or NAME=50%", text);
	memcpy(name, text, bytes);
	name[bytes] = '\0';
	if (bytes > 3 && !strcmp(name + bytes - 3, ".up")) {
		name[bytes - 3] = '\0';
		only = SIMULATE_UP;
	} else if (bytes > 5 && !strcmp(name + bytes - 5, ".down")) {
		name[bytes - 5] = '\0';
		only = SIMULATE_DOWN;
	}
	fabric->measured = false;
	for (size_t i = 0; i < fabric->switch_count; i++)
		if (!strcmp(fabric->switches[i].name, name))
			return set_capacity(fabric->switches[i].capacity_Bps, only, equals + 1, diag);
	for (size_t i = 0; i < fabric->host_count; i++) {
		if (strcmp(fabric->host_names[i], name) != 0)
			continue;
		for (size_t rail = 0; r == 0 && rail < fabric->rail_count; rail++)
			r = set_capacity(fabric->nics[i * fabric->rail_count + rail].capacity_Bps, only, equals + 1,
					 diag);
		return r;
	}
	return wrong(diag, "the name of a host or a switch", name);
}
