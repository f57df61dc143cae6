/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of a machine graph, as bytes from anybody. What is read is written canonically: reading that gives the
 * same text again. Ways and shares of whatever graph that is end, and no share is above a capacity on its way.
 */
#include "base/log.h"
#include "support/fuzz.h"
#include "tributary/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENDS = 6, MOST_FLOWS = MOST_ENDS * MOST_ENDS * 2 };

static void round_trip(const struct topology *topology)
{
	struct topology again;
	struct diag diag;
	char *first, *second;
	size_t first_bytes, second_bytes;

	fuzz_must(topology_write(topology, &first, &first_bytes) == 0);
	fuzz_must(topology_read(first, first_bytes, &again, &diag) == 0);
	fuzz_must(again.vertex_count == topology->vertex_count && again.link_count == topology->link_count &&
		  again.limit_count == topology->limit_count && again.pair_count == topology->pair_count);
	fuzz_must(topology_write(&again, &second, &second_bytes) == 0);
	fuzz_must(first_bytes == second_bytes && !memcmp(first, second, first_bytes));
	free(first);
	free(second);
	topology_fini(&again);
}

static void names(const struct topology *topology)
{
	char name[3 * TOPOLOGY_NAME_BYTES];

	for (uint32_t i = 0; i < 2 * topology->link_count && i < 64; i++) {
		fuzz_must(topology_directed_name(topology, i, name, sizeof(name)) == 0);
		fuzz_must(topology_find_directed(topology, name) == i);
	}
}

static void shares(const struct topology *topology)
{
	uint32_t ends = topology->vertex_count < MOST_ENDS ? (uint32_t)topology->vertex_count : MOST_ENDS;
	struct topology_flow flows[MOST_FLOWS];
	struct topology_route route;
	uint64_t rates[MOST_FLOWS];
	size_t count = 0;

	for (uint32_t i = 0; i < ends * ends * 2; i++) {
		struct topology_flow flow = { i / 2 / ends, i / 2 % ends,
					      i % 2 ? TOPOLOGY_WAY_HOST : TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };

		fuzz_must(topology_class_of(topology, flow.from, flow.to) < TOPOLOGY_CLASS_COUNT);
		if (topology_route(topology, &flow, &route) == 0)
			flows[count++] = flow;
	}
	fuzz_must(topology_share(topology, flows, count, rates) == 0);
	for (size_t i = 0; i < count; i++) {
		fuzz_must(topology_route(topology, &flows[i], &route) == 0);
		for (size_t j = 0; j < route.count; j++) {
			const struct topology_capacity *capacity =
				&topology->links[route.links[j] / 2].capacity[route.links[j] % 2];

			fuzz_must(capacity->provenance == TOPOLOGY_UNKNOWN || rates[i] <= capacity->rate_Bps);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct topology topology;
	struct diag diag = { 0 };
	int r = topology_read((const char *)data, bytes, &topology, &diag);

	if (r < 0) {
		fuzz_must(r == -EINVAL && diag.line >= 1 && diag.column >= 1 && diag.text[0]);
		fuzz_must(!topology.vertices && !topology.links && !topology.limits && !topology.pairs);
		return 0;
	}
	round_trip(&topology);
	names(&topology);
	shares(&topology);
	topology_fini(&topology);
	return 0;
}
