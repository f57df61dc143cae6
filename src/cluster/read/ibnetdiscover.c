/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a line for the node, and one for each of its ports that is cabled:
 *
 *     Switch	36 "S-0002c903006e1430"		# "leaf1" enhanced port 0 lid 3 lmc 0
 *     [1]	"H-0002c90300a1b2c0"[1](2c90300a1b2c1) 		# "node1 mlx5_0" lid 10 4xEDR
 *
 *     Ca	1 "H-0002c90300a1b2c0"		# "node1 mlx5_0"
 *     [1](2c90300a1b2c1) 	"S-0002c903006e1430"[1]		# lid 10 lmc 0 "leaf1" lid 3 4xEDR
 *
 * Lines of key=value in front of them, and the headings of `ibnetdiscover -g`, say nothing that is needed here. The first
 * word of an adapter's description is its host's name, as the drivers of Linux and the tools set it.
 */
#include "cluster/read/wiring.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BYTES = 40, DESCRIPTION_BYTES = 128, LINE_BYTES = 1024 };

struct node {
	char id[ID_BYTES];
	uint32_t machine;
};

struct reader {
	struct diag *diag;
	struct wiring *wiring;
	struct node *nodes; /* sorted by id once all are there */
	size_t node_count;
	uint32_t current; /* of the record that is being read; UINT32_MAX: none, or one that does not count */
	int line;
	char text[LINE_BYTES]; /* of the line */
};

static int wrong(const struct reader *reader, const char *at, const char *expected)
{
	diag_set(reader->diag, reader->line, (int)(at - reader->text) + 1, "expected %s, as ibnetdiscover prints it",
		 expected);
	return -EINVAL;
}

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t");
}

/* "…" into ret; *at is moved behind it. */
static bool take_quoted(const char **at, char *ret, size_t ret_bytes)
{
	const char *end = **at == '"' ? strchr(*at + 1, '"') : NULL;

	if (!end || (size_t)(end - *at) > ret_bytes)
		return false;
	snprintf(ret, ret_bytes, "%.*s", (int)(end - *at - 1), *at + 1);
	*at = end + 1;
	return true;
}

/* The description in the remark of a line; "" where it has none. Long ones are cut. */
static void description_of(const char *at, char ret[static DESCRIPTION_BYTES])
{
	const char *mark = strchr(at, '#'), *first = mark ? strchr(mark, '"') : NULL;
	const char *last = first ? strrchr(first, '"') : NULL;
	size_t bytes = last && last > first ? (size_t)(last - first - 1) : 0;

	snprintf(ret, DESCRIPTION_BYTES, "%.*s", (int)(bytes < DESCRIPTION_BYTES ? bytes : DESCRIPTION_BYTES - 1),
		 first ? first + 1 : "");
}

/* -------------------------------------------------------------------------------------------------------------- rates */

/* What lanes of "EDR" carry of data. 0: it does not say. */
static uint64_t rate_of(unsigned lanes, const char *speed, size_t bytes)
{
	static const struct {
		const char *word;
		uint64_t lane_Bps; /* without the line code */
	} speeds[] = { { "SDR", 250000000 },    { "DDR", 500000000 },   { "QDR", 1000000000 },
		       { "FDR10", 1250000000 }, { "FDR", 1704545454 },  { "EDR", 3125000000 },
		       { "HDR", 6250000000 },   { "NDR", 12500000000 }, { "XDR", 25000000000 } };

	for (size_t i = 0; lanes <= 12 && i < sizeof(speeds) / sizeof(speeds[0]); i++)
		if (strlen(speeds[i].word) == bytes && !strncmp(speed, speeds[i].word, bytes))
			return lanes * speeds[i].lane_Bps;
	return 0;
}

/* The number in front of an x, "4x…"; 0: there is none. *at is moved behind it. */
static unsigned lanes_at(const char **at)
{
	unsigned lanes = 0;

	for (; **at >= '0' && **at <= '9' && lanes < 100; ++*at)
		lanes = 10 * lanes + (unsigned)(**at - '0');
	if (!lanes || **at != 'x')
		return 0;
	++*at;
	return lanes;
}

/* "4xEDR", a word behind the description: the last, but for what --full adds. */
static uint64_t rate_in(const char *line)
{
	const char *quote = strrchr(line, '"');

	for (const char *word = quote ? quote + 1 : line; *(word = skip_blanks(word)); word += strcspn(word, " \t")) {
		const char *at = word;
		unsigned lanes = lanes_at(&at);

		if (lanes)
			return rate_of(lanes, at, strcspn(at, " \t"));
	}
	return 0;
}

/* -------------------------------------------------------------------------------------------------------------- nodes */

static int add_node(struct reader *reader, const char *id, uint32_t machine)
{
	int r = sys_grow(&reader->nodes, reader->node_count, 1, sizeof(*reader->nodes));

	if (r < 0)
		return r;
	snprintf(reader->nodes[reader->node_count].id, ID_BYTES, "%s", id);
	reader->nodes[reader->node_count++].machine = machine;
	return 0;
}

static int compare_nodes(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->id, ((const struct node *)b)->id);
}

static uint32_t find_node(const struct reader *reader, const char *id)
{
	struct node key = { .machine = 0 };
	const struct node *node;

	snprintf(key.id, sizeof(key.id), "%s", id);
	node = reader->node_count ? bsearch(&key, reader->nodes, reader->node_count, sizeof(key), compare_nodes) : NULL;
	return node ? node->machine : UINT32_MAX;
}

/*
 * The host of an adapter. False: it does not say; its description is still the maker's ("MT4129 ConnectX7   Mellanox
 * Technologies"), or was set before the host had a name.
 */
static bool host_of(const char *description, char ret[static DESCRIPTION_BYTES])
{
	static const char *const none[] = { "localhost", "localhost.localdomain", "(none)" };
	size_t bytes;

	description += strspn(description, " '");
	bytes = strcspn(description, " ';");
	snprintf(ret, DESCRIPTION_BYTES, "%.*s", (int)bytes, description);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (!strcmp(ret, none[i]))
			return false;
	return bytes && !strstr(description, "Technologies");
}

static int too_many(const struct reader *reader, int error, const char *what)
{
	if (error != -E2BIG)
		return error;
	diag_set(reader->diag, reader->line, 1, "there are more %s in it than a cluster can have", what);
	return -EINVAL;
}

/* `Switch 36 "S-…" # "…"`: the first word is known. */
static int take_node(struct reader *reader, const char *at, bool is_switch, char id[static ID_BYTES])
{
	at = skip_blanks(at);
	if (*at == ':') {
		diag_set(reader->diag, reader->line, (int)(at - reader->text) + 1,
			 "this is a list of nodes, as ibnetdiscover -l, ibhosts and ibswitches print it, which has "
			 "no cables: give what `ibnetdiscover` prints without options");
		return -EINVAL;
	}
	at += strspn(at, "0123456789");
	at = skip_blanks(at);
	if (!take_quoted(&at, id, ID_BYTES))
		return wrong(reader, at,
			     is_switch ? "Switch, a number of ports and \"S-…\"" : "Ca, a number of ports and \"H-…\"");
	return 0;
}

static int define_node(struct reader *reader, const char *at, bool is_switch)
{
	char id[ID_BYTES], description[DESCRIPTION_BYTES], host[DESCRIPTION_BYTES];
	uint32_t machine;
	int r = take_node(reader, at, is_switch, id);

	if (r < 0)
		return r;
	description_of(at, description);
	if (is_switch)
		r = wiring_machine(reader->wiring, id, *description ? description : id, WIRING_SWITCH, &machine);
	else if (strstr(description, "Aggregation Node"))
		return 0; /* in a switch, which shows it as an adapter */
	else if (host_of(description, host))
		r = wiring_machine(reader->wiring, host, host, WIRING_HOST, &machine);
	else
		r = wiring_machine(reader->wiring, id, id, WIRING_NAMELESS, &machine);
	return r < 0 ? too_many(reader, r, "machines") : add_node(reader, id, machine);
}

/* `[1][ext 3](…) "S-…"[7](…) # …` of the current node. */
static int take_port(struct reader *reader, const char *line)
{
	char label[WIRING_LABEL_BYTES], far_label[WIRING_LABEL_BYTES] = "", id[ID_BYTES];
	const char *at = line + strcspn(line, "]\"#");
	uint32_t other;

	snprintf(label, sizeof(label), "%.*s", (int)(at - line < 16 ? at - line : 16) - 1, line + 1);
	if (*at != ']')
		return wrong(reader, at, "[PORT]");
	at += strcspn(at, "\"#");
	if (!take_quoted(&at, id, sizeof(id)))
		return wrong(reader, at, "the other end's \"S-…\" or \"H-…\"");
	if (*at == '[')
		snprintf(far_label, sizeof(far_label), "%.*s", (int)strspn(at + 1, "0123456789"), at + 1);
	other = find_node(reader, id);
	if (reader->current == UINT32_MAX || other == UINT32_MAX)
		return 0;
	return too_many(reader, wiring_link(reader->wiring, reader->current, other, rate_in(line), label, far_label),
			"cables");
}

/* -------------------------------------------------------------------------------------------------------------- lines */

static bool begins(const char *line, const char *word)
{
	size_t bytes = strlen(word);

	return !strncmp(line, word, bytes) && (line[bytes] == ' ' || line[bytes] == '\t');
}

/* ports: the pass over the ports, once all nodes are known. */
static int take_line(struct reader *reader, const char *line, bool ports)
{
	char id[ID_BYTES];
	int r;

	line = skip_blanks(line);
	if (!*line || *line == '#' || begins(line, "Chassis") || begins(line, "Non-Chassis"))
		return 0;
	if (begins(line, "Switch") || begins(line, "Ca")) {
		bool is_switch = *line == 'S';

		line += is_switch ? 6 : 2;
		if (!ports)
			return define_node(reader, line, is_switch);
		r = take_node(reader, line, is_switch, id);
		reader->current = r < 0 ? UINT32_MAX : find_node(reader, id);
		return r;
	}
	if (begins(line, "Rt")) {
		reader->current = UINT32_MAX; /* a router: what is behind it is another fabric */
		return 0;
	}
	if (*line == '[')
		return ports ? take_port(reader, line) : 0;
	if (line[strcspn(line, "= \t")] == '=')
		return 0;
	return wrong(reader, line, "a line of Switch, Ca, [PORT] or KEY=VALUE");
}

static int take_text(struct reader *reader, const char *text, size_t bytes, bool ports)
{
	char *line = reader->text;
	int r = 0;

	reader->line = 0;
	reader->current = UINT32_MAX;
	while (r == 0 && bytes) {
		const char *end = memchr(text, '\n', bytes);
		size_t length = end ? (size_t)(end - text) : bytes;

		reader->line++;
		if (length >= sizeof(reader->text)) {
			diag_set(reader->diag, reader->line, (int)sizeof(reader->text), "the line is too long");
			return -EINVAL;
		}
		memcpy(line, text, length);
		line[length] = '\0';
		line[strcspn(line, "\r")] = '\0';
		r = take_line(reader, line, ports);
		length += end != NULL;
		text += length;
		bytes -= length;
	}
	return r;
}

bool ibnetdiscover_is(const char *text, size_t bytes)
{
	static const char *const marks[] = { "# Topology file:", "vendid=",     "Switch\t", "Ca\t",
					     "Chassis ",         "Non-Chassis " };

	while (bytes) {
		const char *end = memchr(text, '\n', bytes);
		size_t length = end ? (size_t)(end - text) + 1 : bytes;
		char line[64];

		snprintf(line, sizeof(line), "%.*s", (int)(length < sizeof(line) ? length : sizeof(line) - 1), text);
		for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
			if (!strncmp(line, marks[i], strlen(marks[i])))
				return true;
		if (*text != '#' && *text != '\n' && *text != '\r')
			return false;
		text += length;
		bytes -= length;
	}
	return false;
}

int ibnetdiscover_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
		       char **ret_notes, struct diag *diag)
{
	struct reader reader = { .diag = diag };
	int r = wiring_new(&reader.wiring);

	*ret_notes = NULL;
	if (r == 0)
		r = take_text(&reader, text, bytes, false);
	if (r == 0 && reader.node_count)
		qsort(reader.nodes, reader.node_count, sizeof(*reader.nodes), compare_nodes);
	if (r == 0)
		r = take_text(&reader, text, bytes, true);
	if (r == 0) {
		reader.wiring->nameless_what = "adapter";
		reader.wiring->nameless_remedy =
			"The service rdma-ndd, or a line in /sys/class/infiniband/DEVICE/node_desc, gives it its "
			"host's name";
		r = wiring_cluster(reader.wiring, options, ret, diag);
		*ret_notes = wiring_take_notes(reader.wiring);
	}
	wiring_free(reader.wiring);
	free(reader.nodes);
	return r;
}
