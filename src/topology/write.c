/*
 * The canonical text form. The same graph in another order of building has other indices, another order of parallel
 * links, and links between equals the other way round; so everything is first put in an order that depends on names and
 * values alone, and written from that.
 */
#include "topology/fields.h"
#include "topology/internal.h"

#include "base/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
	const struct topology *topology;
	uint32_t *vertices, *links, *limits, *pairs; /* in canonical order */
	uint32_t *rank;                              /* of each vertex in `vertices` */
	uint32_t *number;                            /* of each link among the parallel ones, from 1 */
	uint32_t *rates;                             /* directed links, by their names */
	struct topology_memberships memberships;     /* limits by their place in `limits` */
	char *text;                                  /* NULL: bytes are only counted */
	size_t bytes;
};

static void writer_fini(struct writer *writer)
{
	sys_free(writer->vertices);
	sys_free(writer->links);
	sys_free(writer->limits);
	sys_free(writer->pairs);
	sys_free(writer->rank);
	sys_free(writer->number);
	sys_free(writer->rates);
	topology_memberships_fini(&writer->memberships);
}

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

static int in_order(struct writer *writer, size_t count, int (*compare)(const void *, const void *, void *),
		    uint32_t **ret)
{
	uint32_t *list = sys_zalloc(count * sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		list[i] = i;
	if (compare)
		qsort_r(list, count, sizeof(*list), compare, writer);
	*ret = list;
	return 0;
}

/*
 * Numbers parallel links in the order in which they are written. Sorted by directed name with each link's place as its
 * number, links that join the same two stand side by side.
 */
static int number_links(struct writer *writer)
{
	const struct topology *topology = writer->topology;
	uint32_t *ups;
	uint32_t number = 0;
	int r = in_order(writer, topology->link_count, NULL, &ups);

	if (r < 0)
		return r;
	writer->number = sys_zalloc(topology->link_count * sizeof(*writer->number));
	if (!writer->number) {
		sys_free(ups);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < topology->link_count; i++) {
		uint32_t link = writer->links[i];
		bool up = from_rank(writer, 2 * link) < to_rank(writer, 2 * link);

		writer->number[link] = i;
		ups[i] = topology_directed(link, up ? TOPOLOGY_UP : TOPOLOGY_DOWN); /* both ways alike */
	}
	qsort_r(ups, topology->link_count, sizeof(*ups), compare_directed, writer);
	for (uint32_t i = 0; i < topology->link_count; i++) {
		bool same = i && from_rank(writer, ups[i]) == from_rank(writer, ups[i - 1]) &&
			    to_rank(writer, ups[i]) == to_rank(writer, ups[i - 1]);

		number = same ? number + 1 : 1;
		writer->number[ups[i] / 2] = number;
	}
	sys_free(ups);
	return 0;
}

static int put_in_order(struct writer *writer)
{
	const struct topology *topology = writer->topology;
	int r = in_order(writer, topology->vertex_count, compare_vertices, &writer->vertices);

	if (r == 0)
		r = in_order(writer, topology->vertex_count, NULL, &writer->rank);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		writer->rank[writer->vertices[i]] = i;
	r = in_order(writer, topology->limit_count, compare_limits, &writer->limits);
	if (r == 0)
		r = topology_memberships_init(&writer->memberships, topology, writer->limits);
	if (r == 0)
		r = in_order(writer, topology->link_count, compare_links, &writer->links);
	if (r == 0)
		r = number_links(writer);
	if (r == 0)
		r = in_order(writer, 2 * topology->link_count, compare_directed, &writer->rates);
	if (r == 0)
		r = in_order(writer, topology->pair_count, compare_pairs, &writer->pairs);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------- text */

static void put_bytes(struct writer *writer, const char *bytes, size_t count)
{
	if (writer->text)
		memcpy(writer->text + writer->bytes, bytes, count);
	writer->bytes += count;
}

static void put(struct writer *writer, const char *text)
{
	put_bytes(writer, text, strlen(text));
}

static bool is_plain(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text > '~' || *text == '"' || *text == '\\')
			return false;
	return true;
}

static void put_value(struct writer *writer, const char *text)
{
	if (is_plain(text)) {
		put(writer, text);
		return;
	}
	put(writer, "\"");
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		char escape[8];

		if (c == '"' || c == '\\')
			snprintf(escape, sizeof(escape), "\\%c", c);
		else if (c == '\n')
			snprintf(escape, sizeof(escape), "\\n");
		else if (c < ' ' || c == 0x7f)
			snprintf(escape, sizeof(escape), "\\x%02x", c);
		else
			snprintf(escape, sizeof(escape), "%c", c);
		put(writer, escape);
	}
	put(writer, "\"");
}

static void put_field(struct writer *writer, const struct field *field, const void *object)
{
	char value[FIELD_VALUE_BYTES];

	if (!fields_known(field, object))
		return;
	put(writer, " ");
	put(writer, field->key);
	put(writer, "=");
	if (field->type == FIELD_TEXT) {
		put_value(writer, fields_text(field, object));
		return;
	}
	fields_format(field, object, value);
	put(writer, value);
}

static void put_fields(struct writer *writer, const struct field *fields, const void *object)
{
	for (; fields->key; fields++)
		put_field(writer, fields, object);
}

static void put_directed(struct writer *writer, uint32_t directed)
{
	const struct topology_vertex *vertices = writer->topology->vertices;
	char number[16];

	put(writer, vertices[writer->vertices[from_rank(writer, directed)]].name);
	put(writer, ">");
	put(writer, vertices[writer->vertices[to_rank(writer, directed)]].name);
	if (writer->number[directed / 2] == 1)
		return;
	snprintf(number, sizeof(number), "#%" PRIu32, writer->number[directed / 2]);
	put(writer, number);
}

static void put_capacity(struct writer *writer, const struct topology_capacity *capacity)
{
	char rate[40];

	snprintf(rate, sizeof(rate), " %" PRIu64 " ", capacity->rate_Bps);
	put(writer, rate);
	put(writer, topology_provenance_word(capacity->provenance));
	put_fields(writer, topology_capacity_fields, capacity);
}

static void put_text(struct writer *writer, const char *keyword, const char *value)
{
	if (!*value)
		return;
	put(writer, keyword);
	put_value(writer, value);
	put(writer, "\n");
}

static void put_vertex(struct writer *writer, const struct topology_vertex *vertex)
{
	put(writer, "vertex ");
	put(writer, topology_kind_word(vertex->kind));
	put(writer, " ");
	put(writer, vertex->name);
	for (const struct field *field = topology_vertex_fields; field->key; field++)
		if (fields_of_kind(field, vertex->kind))
			put_field(writer, field, vertex);
	put(writer, "\n");
}

static void put_link(struct writer *writer, uint32_t index)
{
	const struct topology *topology = writer->topology;
	const struct topology_link *link = &topology->links[index];

	put(writer, "link ");
	put(writer, topology_link_kind_word(link->kind));
	put(writer, " ");
	put(writer, topology->vertices[writer->vertices[rank_of_end(writer, index, false)]].name);
	put(writer, " ");
	put(writer, topology->vertices[writer->vertices[rank_of_end(writer, index, true)]].name);
	put_fields(writer, topology_link_fields, link);
	put(writer, "\n");
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
	put(writer, "rate ");
	put_directed(writer, directed);
	put_capacity(writer, &capacity);
	put(writer, "\n");
}

static int put_limit(struct writer *writer, const struct topology_limit *limit)
{
	struct topology_capacity capacity = fields_canonical(&limit->capacity);
	uint32_t *members = sys_zalloc(limit->member_count * sizeof(*members));

	if (!members)
		return -ENOMEM;
	put(writer, "limit ");
	put(writer, limit->name);
	put_capacity(writer, &capacity);
	if (limit->member_count) {
		memcpy(members, limit->members, limit->member_count * sizeof(*members));
		qsort_r(members, limit->member_count, sizeof(*members), compare_directed, writer);
	}
	for (size_t i = 0; i < limit->member_count; i++) {
		put(writer, i ? "," : " members=");
		put_directed(writer, members[i]);
	}
	put(writer, "\n");
	sys_free(members);
	return 0;
}

static void put_pair(struct writer *writer, const struct topology_pair *pair)
{
	const struct topology_vertex *vertices = writer->topology->vertices;
	struct topology_pair canonical = *pair;

	canonical.p2p = fields_canonical(&pair->p2p);
	canonical.host = fields_canonical(&pair->host);
	put(writer, "pair ");
	put(writer, vertices[pair->from].name);
	put(writer, " ");
	put(writer, vertices[pair->to].name);
	put_fields(writer, topology_pair_fields, &canonical);
	put(writer, "\n");
}

static int put_all(struct writer *writer)
{
	const struct topology *topology = writer->topology;
	int r = 0;

	writer->bytes = 0;
	put(writer, "tributary-topology 1\n");
	put_text(writer, "name ", topology->name);
	put_text(writer, "driver ", topology->driver);
	for (size_t i = 0; i < topology->vertex_count; i++)
		put_vertex(writer, &topology->vertices[writer->vertices[i]]);
	for (size_t i = 0; i < topology->link_count; i++)
		put_link(writer, writer->links[i]);
	for (size_t i = 0; i < 2 * topology->link_count; i++)
		put_rate(writer, writer->rates[i]);
	for (size_t i = 0; r == 0 && i < topology->limit_count; i++)
		r = put_limit(writer, &topology->limits[writer->limits[i]]);
	for (size_t i = 0; i < topology->pair_count; i++)
		put_pair(writer, &topology->pairs[writer->pairs[i]]);
	put_bytes(writer, "", 1);
	return r;
}

int topology_write(const struct topology *topology, char **ret, size_t *ret_bytes)
{
	struct writer writer = { .topology = topology };
	int r = put_in_order(&writer);

	if (r == 0)
		r = put_all(&writer);
	if (r == 0) {
		writer.text = malloc(writer.bytes);
		r = writer.text ? put_all(&writer) : -ENOMEM;
	}
	if (r == 0) {
		*ret = writer.text;
		*ret_bytes = writer.bytes - 1; /* without the NUL */
	} else {
		free(writer.text);
	}
	writer_fini(&writer);
	return r;
}
