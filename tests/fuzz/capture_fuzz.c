/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture from a stranger: a tar, packed or not, or (as checksums stop a fuzzer) its entries as text, "=path" and a file's
 * lines, ">path" and a link's target, "/path" for a folder. Whatever comes, discovery ends; what it gives can be written
 * and read again; its facts are lines.
 */
#include "discover/build.h"
#include "support/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 17 };

static void check(struct topology *topology, struct discover_facts *facts)
{
	struct topology again;
	struct diag diag;
	char *text;
	size_t bytes;

	fuzz_must(topology_write(topology, &text, &bytes) == 0);
	fuzz_must(topology_read(text, bytes, &again, &diag) == 0);
	fuzz_must(again.vertex_count == topology->vertex_count && again.link_count == topology->link_count);
	topology_fini(&again);
	topology_fini(topology);
	free(text);
	fuzz_must(strlen(facts->text) == facts->bytes);
	fuzz_must(!facts->bytes || facts->text[facts->bytes - 1] == '\n');
	fuzz_must(strstr(facts->text, "iommu state=") != NULL);
	discover_facts_fini(facts);
}

static enum discover_entry_kind kind_of(char mark)
{
	return mark == '=' ? DISCOVER_FILE : mark == '>' ? DISCOVER_LINK : DISCOVER_FOLDER;
}

/* The end of an entry: before the next line that begins with a mark. */
static const char *entry_end(const char *at, const char *end)
{
	while (at < end) {
		const char *line = memchr(at, '\n', (size_t)(end - at));

		if (!line || line + 1 == end)
			return end;
		if (strchr("=>/", line[1]) && line[1])
			return line + 1;
		at = line + 1;
	}
	return end;
}

static void put_entries(struct discover_root *root, const char *at, const char *end)
{
	while (at < end) {
		const char *name_end = memchr(at, '\n', (size_t)(end - at)), *next = entry_end(at, end), *data;
		char path[DISCOVER_PATH_BYTES];
		size_t path_bytes;

		if (!name_end || name_end > next)
			name_end = next;
		path_bytes = (size_t)(name_end - at) - (name_end > at);
		data = name_end < next ? name_end + 1 : next;
		if (path_bytes < sizeof(path) && name_end > at) {
			memcpy(path, at + 1, path_bytes);
			path[path_bytes] = '\0';
			(void)discover_root_put(root, path, kind_of(*at), data, (size_t)(next - data));
		}
		at = next;
	}
}

static void fuzz_entries(const char *data, size_t bytes)
{
	struct discover_facts facts = { 0 };
	struct discover_root *root;
	struct topology topology;
	struct diag diag = { 0 };
	int r;

	fuzz_must(discover_root_empty(&root) == 0);
	put_entries(root, data, data + bytes);
	r = discover_machine(root, &topology, &facts, &diag);
	fuzz_must(r == 0 || diag.text[0]);
	if (!r)
		check(&topology, &facts);
	discover_root_close(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct discover_facts facts = { 0 };
	enum discover_source source;
	struct topology topology;
	struct diag diag = { 0 };
	int r;

	if (!bytes || bytes > MOST_BYTES)
		return 0;
	if (data[0] == '=') {
		fuzz_entries((const char *)data, bytes);
		return 0;
	}
	r = discover_bytes((const char *)data, bytes, &topology, &facts, &source, &diag);
	fuzz_must(r == 0 || diag.text[0]);
	if (!r && source == DISCOVER_CAPTURE)
		check(&topology, &facts);
	else if (!r)
		topology_fini(&topology);
	return 0;
}
