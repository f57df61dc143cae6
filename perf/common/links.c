/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"

static int counters_fd(void)
{
	const char *text = getenv("TB_COUNTERS");
	int fd;

	return text && args_int(text, &fd) == 0 ? fd : -ENOENT;
}

/* The answer: a line for each direction of each link, then an empty one. */
static ssize_t hear(int fd, char *text, size_t room)
{
	size_t length = 0;
	ssize_t n;

	while (length < 2 || text[length - 1] != '\n' || text[length - 2] != '\n') {
		if (length == room)
			return -E2BIG;
		n = read(fd, text + length, room - length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		length += (size_t)n;
	}
	return (ssize_t)length;
}

static int parse(char *text, struct links *links)
{
	char *line, *rest = text;

	for (line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n")) {
		struct links_row *row = &links->rows[links->count];
		unsigned long long bytes, packets, drops;

		if (links->count == LINKS_MAX)
			return -E2BIG;
		if (sscanf(line, "%15s %15s %d %llu %llu %llu", row->from, row->to, &row->rail, &bytes, &packets,
			   &drops) != 6)
			return -EPROTO;
		row->bytes = bytes;
		row->packets = packets;
		row->drops = drops;
		links->count++;
	}
	return 0;
}

int links_take(struct links *ret_links)
{
	static const char question[] = "counters\n";
	enum { ROOM = LINKS_MAX * 128 };
	struct links *links;
	int fd = counters_fd(), r;
	ssize_t length;
	char *text;

	if (fd < 0)
		return fd;
	if (write(fd, question, sizeof(question) - 1) != (ssize_t)sizeof(question) - 1)
		return -EPIPE;
	text = malloc(ROOM + 1);
	links = calloc(1, sizeof(*links));
	length = text && links ? hear(fd, text, ROOM) : -ENOMEM;
	r = length < 0 ? (int)length : 0;
	if (r == 0) {
		text[length] = 0;
		r = parse(text, links);
	}
	if (r == 0)
		*ret_links = *links;
	free(links);
	free(text);
	return r;
}

void links_add(struct links *sum, const struct links *from, const struct links *to)
{
	size_t i;

	if (sum->count == 0) {
		*sum = *to;
		for (i = 0; i < sum->count; i++)
			sum->rows[i].bytes = sum->rows[i].packets = sum->rows[i].drops = 0;
	}
	for (i = 0; i < sum->count; i++) {
		sum->rows[i].bytes += to->rows[i].bytes - from->rows[i].bytes;
		sum->rows[i].packets += to->rows[i].packets - from->rows[i].packets;
		sum->rows[i].drops += to->rows[i].drops - from->rows[i].drops;
	}
}
