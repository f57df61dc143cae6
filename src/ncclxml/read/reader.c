/* SPDX-License-Identifier: Apache-2.0 */
/* What all elements have: names, bus ids, links, and complaints. */
#include "ncclxml/read/reader.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ncclxml/read/xml.h"

int ncclxml_reader_fail(struct ncclxml_reader *reader, const struct ncclxml_element *element, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	diag_set_v(reader->diag, element->line, 0, fmt, args);
	va_end(args);
	return -EINVAL;
}

/* Whether there is a name left; the place of its number is written over. */
static bool number_name(char name[TOPOLOGY_NAME_BYTES], size_t bytes, unsigned number)
{
	int more = snprintf(name + bytes, TOPOLOGY_NAME_BYTES - bytes, "~%u", number);

	return more > 0 && bytes + (size_t)more < TOPOLOGY_NAME_BYTES;
}

void ncclxml_reader_twice(struct ncclxml_reader *reader, const struct ncclxml_element *element, const char *what)
{
	if (reader->twice_line)
		return;
	reader->twice_line = element->line;
	snprintf(reader->twice, sizeof(reader->twice), "%s", what);
}

/* NCCL accepts what is there twice, and so does this; but a name in a graph is of one thing. */
static int add_again(struct ncclxml_reader *reader, const struct ncclxml_element *element,
		     const struct topology_vertex *vertex, uint32_t *ret)
{
	struct topology_vertex other = *vertex;
	size_t bytes = strlen(vertex->name);
	int r = -EEXIST;

	for (unsigned i = 2; r == -EEXIST && i <= NCCLXML_READER_ELEMENTS_MAX && number_name(other.name, bytes, i); i++)
		r = topology_add_vertex(&reader->topology, &other, ret);
	if (r == 0)
		ncclxml_reader_twice(reader, element, vertex->name);
	return r;
}

int ncclxml_reader_vertex(struct ncclxml_reader *reader, const struct ncclxml_element *element,
			  const struct topology_vertex *vertex, uint32_t *ret)
{
	int r = topology_add_vertex(&reader->topology, vertex, ret);

	if (r == -EEXIST)
		r = add_again(reader, element, vertex, ret);
	if (r == -EEXIST)
		return ncclxml_reader_fail(reader, element, "%s is there twice", vertex->name);
	if (r == -EINVAL)
		return ncclxml_reader_fail(reader, element, "\"%s\" is no name", vertex->name);
	if (r == -E2BIG)
		return ncclxml_reader_fail(reader, element, "more than a graph can hold");
	return r;
}

int ncclxml_reader_link(struct ncclxml_reader *reader, const struct topology_link *link)
{
	uint32_t index;
	int r = topology_add_link(&reader->topology, link, &index);

	if (r == -E2BIG) {
		diag_set(reader->diag, 0, 0, "more links than a graph can hold");
		return -EINVAL;
	}
	return r;
}

void ncclxml_reader_nominal(struct topology_link *link, uint64_t rate_Bps)
{
	link->nominal_Bps = rate_Bps;
	for (unsigned i = 0; i < 2 && rate_Bps; i++) {
		link->capacity[i].rate_Bps = rate_Bps;
		link->capacity[i].provenance = TOPOLOGY_NOMINAL;
	}
}

static bool all_hex(const char *text, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!isxdigit((unsigned char)text[i]))
			return false;
	return true;
}

bool ncclxml_reader_bus_id(const char *text, char bus_id[TOPOLOGY_BUS_ID_BYTES])
{
	const char *colon = strchr(text, ':');
	size_t domain = colon ? (size_t)(colon - text) : 0, i;

	if (domain < 4 || domain > 8 || !all_hex(text, domain) || strlen(colon) != 8 || !all_hex(colon + 1, 2) ||
	    colon[3] != ':' || !all_hex(colon + 4, 2) || colon[6] != '.' || !all_hex(colon + 7, 1))
		return false;
	/* NVML writes eight digits where sysfs has four. */
	for (; domain > 4 && *text == '0'; domain--)
		text++;
	if (strlen(text) >= TOPOLOGY_BUS_ID_BYTES)
		return false;
	for (i = 0; text[i]; i++)
		bus_id[i] = (char)tolower((unsigned char)text[i]);
	bus_id[i] = '\0';
	return true;
}
