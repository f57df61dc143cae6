/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical text form. The same graph in another order of building has other indices, another order of parallel
 * links, and links between equals the other way round; so everything is first put in an order that depends on names and
 * values alone, and written from that.
 */
#include "topology/fields.h"
#include "topology/internal.h"

#include "base/sys.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct writer {
	const struct topology *topology;
	void *arrays;                                /* the block of all of these */
	uint32_t *vertices, *links, *limits, *pairs; /* in canonical order */
	uint32_t *rank;                              /* of each vertex in `vertices` */
	uint32_t *number;                            /* of each link among the parallel ones, from 1 */
	uint32_t *rates;                             /* directed links, by their names */
	uint32_t *scratch;                           /* for links, or for the members of a limit */
	struct topology_memberships memberships;     /* limits by their place in `limits` */
	struct text text;
};

/* --------------------------------------------------------------------------------------------------------- in order */

/*
 * Which end of a link is `lower` says nothing between equals. topology.h puts the lower index there; here it is the
 * first by name, which is the lower index again in what is read from the text.
 */
static bool is_turned(const struct writer *writer, const struct topology_link *link)
{
	const struct topology *topology = writer->topology;
	bool equals = topology->vertices[link->lower].kind == topology->vertices[link->upper].kind;

	if (!equals || (link->kind != TOPOLOGY_LINK_SOCKET && link->kind != TOPOLOGY_LINK_NVLINK))
		return false;
	return writer->rank[link->lower] > writer->rank[link->upper];
}

static uint32_t rank_of_end(const struct writer *writer, uint32_t link_index, bool upper)
{
	const struct topology_link *link = &writer->topology->links[link_index];

	return writer->rank[upper != is_turned(writer, link) ? link->upper : link->lower];
}

/* The directed link that is written as `direction` of a link. */
static uint32_t canonical_directed(const struct writer *writer, uint32_t link, unsigned direction)
{
	return 2 * link + (is_turned(writer, &writer->topology->links[link]) ? !direction : direction);
}

static const struct topology_capacity *capacity_of(const struct writer *writer, uint32_t directed)
{
	return &writer->topology->links[directed / 2].capacity[directed % 2];
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_fields(const struct field *fields, const void *a, const void *b)
{
	int order = 0;

	for (; order == 0 && fields->key; fields++)
		order = fields_compare(fields, a, b);
	return order;
}

static int compare_capacities(const struct topology_capacity *a, const struct topology_capacity *b)
{
	struct topology_capacity first = fields_canonical(a), second = fields_canonical(b);
	int order = compare_numbers(first.rate_Bps, second.rate_Bps);

	if (!order)
		order = compare_numbers(first.provenance, second.provenance);
	return order ? order : compare_fields(topology_capacity_fields, &first, &second);
}

/* By the limits that they are members of. */
static int compare_memberships(const struct topology_memberships *of, uint32_t a, uint32_t b)
{
	size_t first = of->first[a], second = of->first[b];

	for (; first < of->first[a + 1] && second < of->first[b + 1]; first++, second++)
		if (of->limits[first] != of->limits[second])
			return compare_numbers(of->limits[first], of->limits[second]);
	return compare_numbers(of->first[a + 1] - first, of->first[b + 1] - second);
}

static int compare_vertices(const void *a, const void *b, void *arg)
{
	const struct writer *writer = arg;
	const struct topology_vertex *vertices = writer->topology->vertices;

	return topology_compare_names(vertices[*(const uint32_t *)a].name, vertices[*(const uint32_t *)b].name);
}

static int compare_limits(const void *a, const void *b, void *arg)
{
	const struct writer *writer = arg;
	const struct topology_limit *limits = writer->topology->limits;

	return topology_compare_names(limits[*(const uint32_t *)a].name, limits[*(const uint32_t *)b].name);
}

static int compare_pairs(const void *a, const void *b, void *arg)
{
	const struct writer *writer = arg;
	const struct topology_pair *first = &writer->topology->pairs[*(const uint32_t *)a];
	const struct topology_pair *second = &writer->topology->pairs[*(const uint32_t *)b];
	int order = compare_numbers(writer->rank[first->from], writer->rank[second->from]);

	return order ? order : compare_numbers(writer->rank[first->to], writer->rank[second->to]);
}

/* Links that compare equal are members of the same limits and have the same values: either may come first. */
static int compare_links(const void *a, const void *b, void *arg)
{
	const struct writer *writer = arg;
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
	const struct topology_link *links = writer->topology->links;
	int order = compare_numbers(rank_of_end(writer, first, false), rank_of_end(writer, second, false));

	if (!order)
		order = compare_numbers(rank_of_end(writer, first, true), rank_of_end(writer, second, true));
	if (!order)
		order = compare_numbers(links[first].kind, links[second].kind);
	if (!order)
		order = compare_fields(topology_link_fields, &links[first], &links[second]);
	for (unsigned direction = TOPOLOGY_UP; !order && direction <= TOPOLOGY_DOWN; direction++)
		order = compare_capacities(capacity_of(writer, canonical_directed(writer, first, direction)),
					   capacity_of(writer, canonical_directed(writer, second, direction)));
	for (unsigned direction = TOPOLOGY_UP; !order && direction <= TOPOLOGY_DOWN; direction++)
		order = compare_memberships(&writer->memberships, canonical_directed(writer, first, direction),
					    canonical_directed(writer, second, direction));
	return order;
}

static uint32_t from_rank(const struct writer *writer, uint32_t directed)
{
	const struct topology_link *link = &writer->topology->links[directed / 2];

	return writer->rank[directed % 2 == TOPOLOGY_UP ? link->lower : link->upper];
}

static uint32_t to_rank(const struct writer *writer, uint32_t directed)
{
	return from_rank(writer, directed ^ 1);
}

static int compare_directed(const void *a, const void *b, void *arg)
{
	const struct writer *writer = arg;
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
	int order = compare_numbers(from_rank(writer, first), from_rank(writer, second));

	if (!order)
		order = compare_numbers(to_rank(writer, first), to_rank(writer, second));
	return order ? order : compare_numbers(writer->number[first / 2], writer->number[second / 2]);
}

static void in_order(struct writer *writer, uint32_t *list, size_t count,
		     int (*compare)(const void *, const void *, void *))
{
	for (uint32_t i = 0; i < count; i++)
		list[i] = i;
	qsort_r(list, count, sizeof(*list), compare, writer);
}

/*
 * Numbers parallel links in the order in which they are written. Sorted by directed name with each link's place as its
 * number, links that join the same two stand side by side.
 */
static void number_links(struct writer *writer)
{
	size_t count = writer->topology->link_count;
	uint32_t *ups = writer->scratch, number = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t link = writer->links[i];
		bool up = from_rank(writer, 2 * link) < to_rank(writer, 2 * link);

		writer->number[link] = i;
		ups[i] = topology_directed(link, up ? TOPOLOGY_UP : TOPOLOGY_DOWN); /* both ways alike */
	}
	qsort_r(ups, count, sizeof(*ups), compare_directed, writer);
	for (uint32_t i = 0; i < count; i++) {
		bool same = i && from_rank(writer, ups[i]) == from_rank(writer, ups[i - 1]) &&
			    to_rank(writer, ups[i]) == to_rank(writer, ups[i - 1]);

		number = same ? number + 1 : 1;
		writer->number[ups[i] / 2] = number;
	}
}

static int put_in_order(struct writer *writer)
{
	const struct topology *topology = writer->topology;
	size_t links = topology->link_count, scratch = links;
	int r;

	for (size_t i = 0; i < topology->limit_count; i++)
		if (topology->limits[i].member_count > scratch)
			scratch = topology->limits[i].member_count;
	writer->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(writer->vertices, topology->vertex_count),
				      SYS_ARRAY(writer->rank, topology->vertex_count), SYS_ARRAY(writer->links, links),
				      SYS_ARRAY(writer->number, links), SYS_ARRAY(writer->rates, 2 * links),
				      SYS_ARRAY(writer->scratch, scratch),
				      SYS_ARRAY(writer->limits, topology->limit_count),
				      SYS_ARRAY(writer->pairs, topology->pair_count) },
		8);
	if (!writer->arrays)
		return -ENOMEM;
	in_order(writer, writer->vertices, topology->vertex_count, compare_vertices);
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		writer->rank[writer->vertices[i]] = i;
	in_order(writer, writer->limits, topology->limit_count, compare_limits);
	r = topology_memberships_init(&writer->memberships, topology, writer->limits);
	if (r < 0)
		return r;
	in_order(writer, writer->links, links, compare_links);
	number_links(writer);
	in_order(writer, writer->rates, 2 * links, compare_directed);
	in_order(writer, writer->pairs, topology->pair_count, compare_pairs);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- text */

static bool is_plain(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text > '~' || *text == '"' || *text == '\\')
			return false;
	return true;
}

static void put_value(struct text *out, const char *value)
{
	if (is_plain(value)) {
		text_put(out, "%s", value);
		return;
	}
	text_put(out, "\"");
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;

		if (c == '"' || c == '\\')
			text_put(out, "\\%c", c);
		else if (c == '\n')
			text_put(out, "\\n");
		else if (c < ' ' || c == 0x7f)
			text_put(out, "\\x%02x", c);
		else
			text_put(out, "%c", c);
	}
	text_put(out, "\"");
}

static void put_field(struct text *out, const struct field *field, const void *object)
{
	char value[FIELD_VALUE_BYTES];

	if (!fields_known(field, object))
		return;
	text_put(out, " %s=", field->key);
	if (field->type == FIELD_TEXT) {
		put_value(out, fields_text(field, object));
		return;
	}
	fields_format(field, object, value);
	text_put(out, "%s", value);
}

static void put_fields(struct text *out, const struct field *fields, const void *object)
{
	for (; fields->key; fields++)
		put_field(out, fields, object);
}

static const char *name_at(const struct writer *writer, uint32_t rank)
{
	return writer->topology->vertices[writer->vertices[rank]].name;
}

static void put_directed(struct writer *writer, uint32_t directed)
{
	uint32_t number = writer->number[directed / 2];

	text_put(&writer->text, "%s>%s", name_at(writer, from_rank(writer, directed)),
		 name_at(writer, to_rank(writer, directed)));
	if (number != 1)
		text_put(&writer->text, "#%" PRIu32, number);
}

static void put_capacity(struct text *out, const struct topology_capacity *capacity)
{
	text_put(out, " %" PRIu64 " %s", capacity->rate_Bps, topology_provenance_word(capacity->provenance));
	put_fields(out, topology_capacity_fields, capacity);
}

static void put_line(struct text *out, const char *keyword, const char *value)
{
	if (!*value)
		return;
	text_put(out, "%s ", keyword);
	put_value(out, value);
	text_put(out, "\n");
}

static void put_vertex(struct text *out, const struct topology_vertex *vertex)
{
	text_put(out, "vertex %s %s", topology_kind_word(vertex->kind), vertex->name);
	for (const struct field *field = topology_vertex_fields; field->key; field++)
		if (fields_of_kind(field, vertex->kind))
			put_field(out, field, vertex);
	text_put(out, "\n");
}

static void put_link(struct writer *writer, uint32_t index)
{
	const struct topology_link *link = &writer->topology->links[index];

	text_put(&writer->text, "link %s %s %s", topology_link_kind_word(link->kind),
		 name_at(writer, rank_of_end(writer, index, false)), name_at(writer, rank_of_end(writer, index, true)));
	put_fields(&writer->text, topology_link_fields, link);
	text_put(&writer->text, "\n");
}

static bool nothing_known(const struct topology_capacity *capacity)
{
	static const struct topology_capacity nothing = { .provenance = TOPOLOGY_UNKNOWN };

	return compare_capacities(capacity, &nothing) == 0;
}

static void put_rate(struct writer *writer, uint32_t directed)
{
	struct topology_capacity capacity = fields_canonical(capacity_of(writer, directed));

	if (nothing_known(&capacity))
		return;
	text_put(&writer->text, "rate ");
	put_directed(writer, directed);
	put_capacity(&writer->text, &capacity);
	text_put(&writer->text, "\n");
}

static void put_limit(struct writer *writer, const struct topology_limit *limit)
{
	struct topology_capacity capacity = fields_canonical(&limit->capacity);
	uint32_t *members = writer->scratch;

	text_put(&writer->text, "limit %s", limit->name);
	put_capacity(&writer->text, &capacity);
	if (limit->member_count) {
		memcpy(members, limit->members, limit->member_count * sizeof(*members));
		qsort_r(members, limit->member_count, sizeof(*members), compare_directed, writer);
	}
	for (size_t i = 0; i < limit->member_count; i++) {
		text_put(&writer->text, i ? "," : " members=");
		put_directed(writer, members[i]);
	}
	text_put(&writer->text, "\n");
}

static void put_pair(struct writer *writer, const struct topology_pair *pair)
{
	const struct topology_vertex *vertices = writer->topology->vertices;
	struct topology_pair canonical = *pair;

	canonical.p2p = fields_canonical(&pair->p2p);
	canonical.host = fields_canonical(&pair->host);
	text_put(&writer->text, "pair %s %s", vertices[pair->from].name, vertices[pair->to].name);
	put_fields(&writer->text, topology_pair_fields, &canonical);
	text_put(&writer->text, "\n");
}

static void put_all(struct writer *writer)
{
	const struct topology *topology = writer->topology;

	text_put(&writer->text, "tributary-topology 1\n");
	put_line(&writer->text, "name", topology->name);
	put_line(&writer->text, "driver", topology->driver);
	for (size_t i = 0; i < topology->vertex_count; i++)
		put_vertex(&writer->text, &topology->vertices[writer->vertices[i]]);
	for (size_t i = 0; i < topology->link_count; i++)
		put_link(writer, writer->links[i]);
	for (size_t i = 0; i < 2 * topology->link_count; i++)
		put_rate(writer, writer->rates[i]);
	for (size_t i = 0; i < topology->limit_count; i++)
		put_limit(writer, &topology->limits[writer->limits[i]]);
	for (size_t i = 0; i < topology->pair_count; i++)
		put_pair(writer, &topology->pairs[writer->pairs[i]]);
}

int topology_write(const struct topology *topology, char **ret, size_t *ret_bytes)
{
	struct writer writer = { .topology = topology };
	int r = put_in_order(&writer);

	if (r == 0) {
		put_all(&writer);
		r = text_take(&writer.text, ret, ret_bytes);
	}
	sys_free(writer.arrays);
	sys_free(writer.memberships.arrays);
	return r;
}
