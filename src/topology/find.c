/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ctype.h asks the locale, which belongs to the application. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Two runs of digits by value, and moves both behind them. */
static int compare_numbers(const char **a, const char **b)
{
	const char *first, *second;
	size_t first_bytes, second_bytes;

	while (**a == '0')
		(*a)++;
	while (**b == '0')
		(*b)++;
	first = *a;
	second = *b;
	while (is_digit(**a))
		(*a)++;
	while (is_digit(**b))
		(*b)++;
	first_bytes = (size_t)(*a - first);
	second_bytes = (size_t)(*b - second);
	if (first_bytes != second_bytes)
		return first_bytes < second_bytes ? -1 : 1;
	return memcmp(first, second, first_bytes);
}

int topology_compare_names(const char *a, const char *b)
{
	const char *first = a, *second = b;

	while (*first && *second) {
		int order;

		if (is_digit(*first) && is_digit(*second)) {
			order = compare_numbers(&first, &second);
		} else {
			order = (unsigned char)*first - (unsigned char)*second;
			first++;
			second++;
		}
		if (order)
			return order;
	}
	if (*first || *second)
		return *first ? 1 : -1;
	return strcmp(a, b); /* "a01" and "a1" */
}

static bool name_ok(const char *name, const char *separators)
{
	size_t bytes = strnlen(name, TOPOLOGY_NAME_BYTES);

	if (!bytes || bytes == TOPOLOGY_NAME_BYTES)
		return false;
	for (size_t i = 0; i < bytes; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f || strchr(separators, name[i]))
			return false;
	return true;
}

bool topology_vertex_name_ok(const char *name)
{
	return name_ok(name, "\"\\>#,");
}

bool topology_limit_name_ok(const char *name)
{
	return name_ok(name, "\"\\");
}

uint32_t topology_find(const struct topology *topology, const char *name)
{
	for (size_t i = 0; i < topology->vertex_count; i++)
		if (!strcmp(topology->vertices[i].name, name))
			return (uint32_t)i;
	return TOPOLOGY_NONE;
}

uint32_t topology_find_bus_id(const struct topology *topology, const char *bus_id)
{
	if (!*bus_id)
		return TOPOLOGY_NONE;
	for (size_t i = 0; i < topology->vertex_count; i++)
		if (!strcmp(topology->vertices[i].bus_id, bus_id))
			return (uint32_t)i;
	return TOPOLOGY_NONE;
}

bool topology_is_later_slice(const struct topology *topology, uint32_t gpu)
{
	const struct topology_vertex *own = &topology->vertices[gpu];

	if (own->kind != TOPOLOGY_GPU || own->gpu.mig < 0)
		return false;
	for (uint32_t i = 0; i < gpu; i++)
		if (topology->vertices[i].kind == TOPOLOGY_GPU && topology->vertices[i].gpu.mig >= 0 &&
		    !strcmp(topology->vertices[i].bus_id, own->bus_id))
			return true;
	return false;
}

static bool joins(const struct topology_link *link, uint32_t a, uint32_t b)
{
	return (link->lower == a && link->upper == b) || (link->lower == b && link->upper == a);
}

uint32_t topology_find_link(const struct topology *topology, uint32_t a, uint32_t b)
{
	for (size_t i = 0; i < topology->link_count; i++)
		if (joins(&topology->links[i], a, b))
			return (uint32_t)i;
	return TOPOLOGY_NONE;
}

uint32_t topology_find_limit(const struct topology *topology, const char *name)
{
	for (size_t i = 0; i < topology->limit_count; i++)
		if (!strcmp(topology->limits[i].name, name))
			return (uint32_t)i;
	return TOPOLOGY_NONE;
}

uint32_t topology_find_pair(const struct topology *topology, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < topology->pair_count; i++)
		if (topology->pairs[i].from == from && topology->pairs[i].to == to)
			return (uint32_t)i;
	return TOPOLOGY_NONE;
}

static bool towards_cpu(enum topology_link_kind kind)
{
	return kind == TOPOLOGY_LINK_PCI || kind == TOPOLOGY_LINK_C2C || kind == TOPOLOGY_LINK_INTERNAL ||
	       kind == TOPOLOGY_LINK_MEMORY;
}

uint32_t topology_wire_of(const struct topology *topology, uint32_t nic)
{
	for (uint32_t i = 0; i < topology->link_count; i++)
		if (topology->links[i].kind == TOPOLOGY_LINK_NETWORK &&
		    (topology->links[i].lower == nic || topology->links[i].upper == nic))
			return i;
	return TOPOLOGY_NONE;
}

uint32_t topology_uplink(const struct topology *topology, uint32_t vertex)
{
	if (vertex >= topology->vertex_count || topology->vertices[vertex].kind == TOPOLOGY_CPU)
		return TOPOLOGY_NONE;
	for (size_t i = 0; i < topology->link_count; i++)
		if (topology->links[i].lower == vertex && towards_cpu(topology->links[i].kind))
			return (uint32_t)i;
	return TOPOLOGY_NONE;
}

uint32_t topology_cpu_of(const struct topology *topology, uint32_t vertex)
{
	/* A graph from a file may have a circle in it: no way up is longer than the number of vertices. */
	for (size_t steps = 0; steps <= topology->vertex_count; steps++) {
		uint32_t link;

		if (vertex >= topology->vertex_count)
			return TOPOLOGY_NONE;
		if (topology->vertices[vertex].kind == TOPOLOGY_CPU)
			return vertex;
		link = topology_uplink(topology, vertex);
		if (link == TOPOLOGY_NONE)
			return TOPOLOGY_NONE;
		vertex = topology->links[link].upper;
	}
	return TOPOLOGY_NONE;
}

uint32_t topology_memory_of(const struct topology *topology, uint32_t vertex)
{
	uint32_t cpu;

	if (vertex < topology->vertex_count && topology->vertices[vertex].kind == TOPOLOGY_MEMORY)
		return vertex;
	cpu = topology_cpu_of(topology, vertex);
	if (cpu == TOPOLOGY_NONE)
		return TOPOLOGY_NONE;
	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];
		uint32_t other = link->lower == cpu ? link->upper : link->lower;

		if (link->kind == TOPOLOGY_LINK_MEMORY && (link->lower == cpu || link->upper == cpu) &&
		    topology->vertices[other].kind == TOPOLOGY_MEMORY)
			return other;
	}
	return TOPOLOGY_NONE;
}

static int compare_vertices(const void *a, const void *b, void *arg)
{
	const struct topology *topology = arg;

	return topology_compare_names(topology->vertices[*(const uint32_t *)a].name,
				      topology->vertices[*(const uint32_t *)b].name);
}

size_t topology_count(const struct topology *topology, enum topology_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < topology->vertex_count; i++)
		count += topology->vertices[i].kind == kind;
	return count;
}

int topology_list(const struct topology *topology, enum topology_kind kind, uint32_t **ret, size_t *ret_count)
{
	uint32_t *list = malloc((topology->vertex_count + 1) * sizeof(*list));
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < topology->vertex_count; i++)
		if (topology->vertices[i].kind == kind)
			list[count++] = (uint32_t)i;
	qsort_r(list, count, sizeof(*list), compare_vertices, (void *)(uintptr_t)topology);
	*ret = list;
	*ret_count = count;
	return 0;
}

size_t topology_parallel_number(const struct topology *topology, uint32_t link)
{
	const struct topology_link *this = &topology->links[link];
	size_t number = 0, count = 0;

	for (size_t i = 0; i < topology->link_count; i++) {
		if (!joins(&topology->links[i], this->lower, this->upper))
			continue;
		count++;
		if (i == link)
			number = count;
	}
	return count > 1 ? number : 0;
}

int topology_directed_name(const struct topology *topology, uint32_t directed, char *text, size_t text_bytes)
{
	const struct topology_link *link;
	const char *lower, *upper;
	size_t number;
	bool up = directed % 2 == TOPOLOGY_UP;
	int bytes;

	if (directed / 2 >= topology->link_count)
		return -EINVAL;
	link = &topology->links[directed / 2];
	lower = topology->vertices[link->lower].name;
	upper = topology->vertices[link->upper].name;
	number = topology_parallel_number(topology, directed / 2);
	if (number > 1)
		bytes = snprintf(text, text_bytes, "%s>%s#%zu", up ? lower : upper, up ? upper : lower, number);
	else
		bytes = snprintf(text, text_bytes, "%s>%s", up ? lower : upper, up ? upper : lower);
	return bytes < 0 || (size_t)bytes >= text_bytes ? -ENOSPC : 0;
}

/* "#2": 2; "": 1; anything else 0. One is not written, nor are leading zeros. */
static uint32_t parallel_number_of(const char *text)
{
	uint32_t number = 0;

	if (!*text)
		return 1;
	if (*text++ != '#' || *text < '1')
		return 0;
	for (; is_digit(*text); text++) {
		number = 10 * number + (uint32_t)(*text - '0');
		if (number > TOPOLOGY_LINKS_MAX)
			return 0;
	}
	return *text || number == 1 ? 0 : number;
}

static bool copy_part(const char *text, size_t bytes, char *ret)
{
	if (!bytes || bytes >= TOPOLOGY_NAME_BYTES)
		return false;
	memcpy(ret, text, bytes);
	ret[bytes] = '\0';
	return true;
}

bool topology_split_directed(const char *name, char *ret_from, char *ret_to, uint32_t *ret_number)
{
	const char *arrow = strchr(name, '>');
	const char *end;

	if (!arrow)
		return false;
	end = arrow + strcspn(arrow, "#");
	*ret_number = parallel_number_of(end);
	return *ret_number && copy_part(name, (size_t)(arrow - name), ret_from) &&
	       copy_part(arrow + 1, (size_t)(end - arrow - 1), ret_to);
}

uint32_t topology_find_directed(const struct topology *topology, const char *name)
{
	char from_name[TOPOLOGY_NAME_BYTES], to_name[TOPOLOGY_NAME_BYTES];
	uint32_t from, to, number;

	if (!topology_split_directed(name, from_name, to_name, &number))
		return TOPOLOGY_NONE;
	from = topology_find(topology, from_name);
	to = topology_find(topology, to_name);
	if (from == TOPOLOGY_NONE || to == TOPOLOGY_NONE)
		return TOPOLOGY_NONE;
	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];

		if (joins(link, from, to) && !--number)
			return topology_directed((uint32_t)i, link->lower == from ? TOPOLOGY_UP : TOPOLOGY_DOWN);
	}
	return TOPOLOGY_NONE;
}
