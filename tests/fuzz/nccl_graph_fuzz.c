/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph file as anybody might hand it to `tributary plan --compare`. Whatever is in it, it is refused with a reason, or
 * it becomes graphs that can be written; what was written is a file that NCCL's parser reads, and says the same when it
 * is read and written once more. Made a plan of, it has each GPU once.
 */
#include "ncclxml/graph_xml.h"
#include "ncclxml/read/scan.h"

#include "base/log.h"
#include "support/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *write_graphs(const struct graph_xml *graphs, size_t *ret_bytes)
{
	struct diag diag = { .text = "" };
	const char *reason;
	char *text;
	int r = graph_xml_write(graphs, &text, ret_bytes, &diag);

	/* The reader takes more elements than five full graphs have. */
	if (r < 0) {
		fuzz_must(r == -E2BIG && diag.text[0]);
		return NULL;
	}
	fuzz_must(strlen(text) == *ret_bytes);
	fuzz_must(ncclxml_scan(text, *ret_bytes, fuzz_no_escape, NULL, &reason) == 0);
	return text;
}

static void write_again(const struct graph_xml *graphs)
{
	struct diag diag = { .text = "" };
	struct graph_xml again;
	size_t bytes, second_bytes;
	char *text = write_graphs(graphs, &bytes), *second;

	if (!text)
		return;
	fuzz_must(graph_xml_read(text, bytes, &again, &diag) == 0);
	second = write_graphs(&again, &second_bytes);
	fuzz_must(second && second_bytes == bytes && !memcmp(text, second, bytes));
	free(second);
	free(text);
}

/* Four GPUs and two NICs, not joined by anything: only their numbers matter here. */
static void add_vertices(struct topology *topology, struct plan_request *request)
{
	static const char *const names[] = { "gpu0", "gpu1", "gpu2", "gpu3", "nic0", "nic1" };

	topology_init(topology);
	*request = (struct plan_request){ .gpu_count = 4, .nic_count = 2, .hosts = 2 };
	for (int i = 0; i < 6; i++) {
		struct topology_vertex vertex = topology_vertex_of(i < 4 ? TOPOLOGY_GPU : TOPOLOGY_NIC, names[i]);

		vertex.gpu.index = i;
		fuzz_must(topology_add_vertex(topology, &vertex, i < 4 ? &request->gpus[i] : &request->nics[i - 4]) ==
			  0);
	}
}

static void make_plans(const struct graph_xml *graphs)
{
	static const struct graph_xml_numbers numbers = { .net_devices = { 0, 1 } };
	struct plan_request request;
	struct topology topology;

	add_vertices(&topology, &request);
	for (size_t i = 0; i < graphs->graph_count; i++) {
		struct diag diag = { .text = "" };
		struct plan plan;
		int r = graph_xml_to_plan(&topology, &request, &numbers, &graphs->graphs[i], &plan, &diag);

		fuzz_must(r == 0 || diag.text[0]);
		for (size_t j = 0; r == 0 && j < plan.channel_count; j++) {
			unsigned seen = 0;

			for (size_t k = 0; k < plan.gpu_count; k++)
				seen |= 1U << plan.channels[j].order[k];
			fuzz_must(seen == 15 && plan.channels[j].nic_in < 2 && plan.channels[j].nic_out < 2);
		}
	}
	topology_fini(&topology);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct diag diag = { .text = "" };
	struct graph_xml graphs;
	int r = graph_xml_read((const char *)data, bytes, &graphs, &diag);

	if (r < 0) {
		fuzz_must(r == -EINVAL && diag.text[0] && !graphs.graph_count);
		return 0;
	}
	write_again(&graphs);
	make_plans(&graphs);
	return 0;
}
