/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: `tributary export --graph-json`, against its schema and its own numbers. */
#include "command/command.h"

#include "program.h"
#include "schema.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 8 << 20 };

static char text[TEXT_BYTES];

static json_t *schema_of(void)
{
	return schema_load("docs/format/graph.schema.json");
}

static bool fits(const json_t *schema, const json_t *value)
{
	char where[SCHEMA_WHERE_BYTES];

	return schema_fits(schema, "", value, where);
}

static json_t *graph_of(const char *arguments)
{
	char call[1024];
	json_t *value;

	snprintf(call, sizeof(call), "export --graph-json %s", arguments);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	value = json_loads(text, 0, NULL);
	assert_non_null(value);
	return value;
}

static json_int_t integer(const json_t *value, const char *key)
{
	return json_integer_value(json_object_get(value, key));
}

static double real(const json_t *value, const char *key)
{
	return json_number_value(json_object_get(value, key));
}

/* Every list is numbered from 0, and what names a node, an edge or a flow names one that is there. */
static void check_numbers(const json_t *graph)
{
	static const char *const lists[] = { "nodes", "edges", "sharing", "flows" };
	const json_t *edges = json_object_get(graph, "edges"), *flows = json_object_get(graph, "flows");
	json_int_t nodes = (json_int_t)json_array_size(json_object_get(graph, "nodes"));

	for (size_t i = 0; i < 4; i++)
		for (size_t j = 0; j < json_array_size(json_object_get(graph, lists[i])); j++)
			assert_int_equal(integer(json_array_get(json_object_get(graph, lists[i]), j), "id"), j);
	for (size_t i = 0; i < json_array_size(edges); i++)
		assert_true(integer(json_array_get(edges, i), "from") < nodes &&
			    integer(json_array_get(edges, i), "to") < nodes);
	for (size_t i = 0; i < json_array_size(flows); i++) {
		const json_t *flow = json_array_get(flows, i), *ways = json_object_get(flow, "edges"),
			     *next = json_object_get(flow, "next");
		double time_s = real(flow, "end_s") - real(flow, "start_s");

		for (size_t j = 0; j < json_array_size(ways); j++) {
			const json_t *way = json_array_get(ways, j),
				     *edge = json_array_get(edges, (size_t)integer(way, "edge"));
			double capacity_Bps = real(edge, "capacity_Bps");

			assert_non_null(edge);
			if (capacity_Bps > 0)
				assert_true(real(flow, "bytes") * real(way, "weight") <=
					    capacity_Bps * time_s * (1 + 1e-6));
		}
		for (size_t j = 0; j < json_array_size(next); j++) {
			const json_t *one = json_array_get(next, j),
				     *other = json_array_get(flows, (size_t)integer(one, "flow"));

			assert_true(real(other, "start_s") >= (real(flow, "end_s") + real(one, "lag_s")) * (1 - 1e-9));
		}
	}
}

static void graphs_fit_their_schema(void **state)
{
	static const char *const calls[] = {
		"--from %s/topo/dual-root-8gpu/machine.topology",
		"--from %s/topo/nvlink-pairs-4gpu/machine.topology --fabric leaf-spine:2x2,1Gbit/s --size 1M",
		"--cluster %s/topo/clusters/two-leaves.cluster --size 8M --algo hierarchical",
		"--fabric leaf-spine:2x4,4:1,1Gbit/s --aggregators 1,4Gbit/s --algo aggregators --size 4M",
		"--fabric rail-optimised:2x2x4,1Gbit/s --algo tree --size 4M",
	};
	json_t *schema = schema_of();

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		char call[800];
		json_t *graph;
		const char *root = strstr(calls[i], "%s");

		snprintf(call, sizeof(call), "%.*s%s%s", root ? (int)(root - calls[i]) : (int)strlen(calls[i]),
			 calls[i], root ? program_source() : "", root ? root + 2 : "");
		graph = graph_of(call);
		if (!fits(schema, graph))
			fail_msg("%s does not fit the schema", call);
		check_numbers(graph);
		assert_true(json_array_size(json_object_get(graph, i < 1 ? "channels" : "flows")) > 0);
		json_decref(graph);
	}
	json_decref(schema);
}

/* The check above can fail: something is missing, of another type, unknown. */
static void the_schema_refuses_what_it_must(void **state)
{
	json_t *schema = schema_of(), *graph = graph_of("--fabric leaf-spine:2x2,1Gbit/s --size 1M");
	json_t *node = json_array_get(json_object_get(graph, "nodes"), 0);

	(void)state;
	assert_true(fits(schema, graph));
	json_object_set_new(node, "id", json_real(0.5));
	assert_false(fits(schema, graph));
	json_object_set_new(node, "id", json_integer(0));
	json_object_set_new(node, "type", json_string("toaster"));
	assert_false(fits(schema, graph));
	json_object_set_new(node, "type", json_string("host"));
	json_object_set_new(node, "more", json_null());
	assert_false(fits(schema, graph));
	json_object_del(node, "more");
	assert_true(fits(schema, graph));
	json_object_del(graph, "flows");
	assert_false(fits(schema, graph));
	json_decref(graph);
	json_decref(schema);
}

/* Slurm's file declares no rate: flows over links of which none bounds anything would have no true time. */
static void what_nobody_declared_is_unknown(void **state)
{
	json_t *graph, *edge, *schema = schema_of();
	char call[1024];
	size_t i;

	(void)state;
	snprintf(call, sizeof(call), "export --graph-json --cluster '%s/topo/clusters/slurm-topology.conf'",
		 program_source());
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "give --rate RATE"));
	snprintf(call, sizeof(call), "--cluster '%s/topo/clusters/slurm-topology.conf' --rate 8Gbit/s --size 1M",
		 program_source());
	graph = graph_of(call);
	assert_true(fits(schema, graph));
	json_array_foreach(json_object_get(graph, "edges"), i, edge)
	{
		bool nic = !strcmp(json_string_value(json_object_get(edge, "type")), "nic");

		assert_int_equal(json_is_null(json_object_get(edge, "capacity_Bps")), !nic);
		assert_string_equal(json_string_value(json_object_get(edge, "provenance")),
				    nic ? "declared" : "unknown");
	}
	assert_true(i > 0);
	json_decref(graph);
	json_decref(schema);
}

/* All edges of that type. */
static size_t count_edges(const json_t *graph, const char *type, const char *provenance)
{
	const json_t *edge;
	size_t i, count = 0;

	json_array_foreach(json_object_get(graph, "edges"), i, edge)
		count += !strcmp(json_string_value(json_object_get(edge, "type")), type) &&
			 !strcmp(json_string_value(json_object_get(edge, "provenance")), provenance);
	return count;
}

/* One of the machine's NICs and each host, both ways: else the machine would hang on nothing. */
static void the_machines_nics_are_joined_with_every_host(void **state)
{
	json_t *graph, *edge;
	char call[1024];
	size_t i, found = 0;

	(void)state;
	snprintf(call, sizeof(call),
		 "--from '%s/topo/two-level-8gpu/machine.topology' --fabric leaf-spine:2x2,1Gbit/s --size 1M",
		 program_source());
	graph = graph_of(call);
	assert_int_equal(count_edges(graph, "host", "unknown"), 2 * 4);
	json_array_foreach(json_object_get(graph, "edges"), i, edge)
	{
		const json_t *nodes = json_object_get(graph, "nodes"),
			     *from = json_array_get(nodes, (size_t)integer(edge, "from")),
			     *to = json_array_get(nodes, (size_t)integer(edge, "to"));
		const char *types[2] = { json_string_value(json_object_get(from, "type")),
					 json_string_value(json_object_get(to, "type")) };

		if (strcmp(json_string_value(json_object_get(edge, "type")), "host") != 0)
			continue;
		assert_true((!strcmp(types[0], "nic") && !strcmp(types[1], "host")) ||
			    (!strcmp(types[1], "nic") && !strcmp(types[0], "host")));
		assert_true(json_is_null(json_object_get(edge, "capacity_Bps")));
		found++;
	}
	assert_int_equal(found, 8);
	json_decref(graph);
}

static json_t *graph_of_file(const char *lines, const char *options)
{
	char path[512], call[1024];

	snprintf(path, sizeof(path), "%s/cluster", program_folder());
	tree_put(path, lines);
	snprintf(call, sizeof(call), "--cluster '%s' --size 1M %s", path, options);
	return graph_of(call);
}

#define LINES                                                                                       \
	"switch s\nswitch a parent=s rate=1GB/s\nswitch b parent=s rate=1GB/s\nhost n[1-2] leaf=a " \
	"rate=1GB/s\nhost n[3-4] leaf=b rate=1GB/s\n"

/* What `cluster measure` wrote is measured; what somebody typed, or changed for this call, is not. */
static void measured_rates_are_called_so(void **state)
{
	static const struct {
		const char *lines, *options, *nics, *others;
	} cases[] = {
		{ "tributary-cluster 1\nrates measured\n" LINES, "", "measured", "declared" },
		{ "tributary-cluster 1\n" LINES, "", "declared", "measured" },
		{ "tributary-cluster 1\nrates declared\n" LINES, "", "declared", "measured" },
		{ "tributary-cluster 1\nrates measured\n" LINES, "--degrade n1=50%", "declared", "measured" },
	};
	json_t *graph, *schema = schema_of();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		graph = graph_of_file(cases[i].lines, cases[i].options);
		assert_true(fits(schema, graph));
		assert_int_equal(count_edges(graph, "nic", cases[i].nics), 8);
		assert_int_equal(count_edges(graph, "uplink", cases[i].nics), 4);
		assert_int_equal(count_edges(graph, "nic", cases[i].others), 0);
		json_decref(graph);
	}
	/* Aggregators that are added have the rate that was typed. */
	graph = graph_of_file(cases[0].lines, "--aggregators 1,4GB/s --algo aggregators");
	assert_int_equal(count_edges(graph, "nic", "declared"), 4);
	assert_int_equal(count_edges(graph, "nic", "measured"), 8);
	json_decref(graph);
	json_decref(schema);
}

static void what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *arguments, *says;
	} cases[] = { { "--graph-json --json --fabric leaf-spine:2x2,1Gbit/s", "--json" },
		      { "--fabric leaf-spine:2x2,1Gbit/s", "--graph-json" },
		      { "--algo tree", "--algo: an NCCL topology file has no cluster" },
		      { "--graph-json --fabric ring:3", "fabric" },
		      { "--graph-json --fabric leaf-spine:2x2,1Gbit/s --size none", "size" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char call[256];

		snprintf(call, sizeof(call), "export %s", cases[i].arguments);
		assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
		if (!strstr(text, cases[i].says))
			fail_msg("%s: \"%s\" does not name %s", call, text, cases[i].says);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(graphs_fit_their_schema),
		cmocka_unit_test(the_schema_refuses_what_it_must),
		cmocka_unit_test(what_nobody_declared_is_unknown),
		cmocka_unit_test(the_machines_nics_are_joined_with_every_host),
		cmocka_unit_test(measured_rates_are_called_so),
		cmocka_unit_test(what_is_wrong_is_said),
	};

	return cmocka_run_group_tests_name("graph_json", tests, program_find, NULL);
}
