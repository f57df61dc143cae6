/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that --json prints, by its schema. */
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 4 << 20 };

static char text[TEXT_BYTES];

#define MACHINE "--from @topo/nvlink-pairs-4gpu/machine.topology"
#define FABRIC  "--fabric leaf-spine:2x2,4:1,1Gbit/s"

/* '@' stands for the repository, '%' for a folder of the test's own. */
static const char *const calls[] = {
	"bench --ranks 2 --sizes 4K --seconds 1 --turns 6 --operations all_reduce,sendrecv",
	"aggregators --cluster %cluster --secret %secret --seconds 0.1",
	"capture %machine.tar.gz",
	"cluster show @topo/clusters/with-aggregators.cluster",
	"cluster show @topo/clusters/ibnetdiscover.txt",
	"cluster order " FABRIC " --gpus 2 --tp 2",
	"cluster order @topo/clusters/slurm-topology.conf",
	"devices",
	"discover",
	"discover " MACHINE,
	"discover --from @topo/captures/vm-two-switches.tar.gz",
	"check --rsh env a=1 b=1", /* for env no hosts, but variables */
	"check --rsh false gone",
	"doctor",
	"doctor --from @topo/captures/vm-two-switches.tar.gz",
	"env",
	"estimate @tests/fixtures/estimate/layers.json --system @tests/fixtures/estimate/system-8.json " FABRIC,
	"explain " MACHINE " --hosts 2",
	"explain --from @topo/p2p-off-4gpu/machine.topology",
	"export " MACHINE " --output %topology.xml",
	"lint %topology.xml",
	"lint %damaged.xml",
	"measure --quick --simulate @topo/workstation-2gpu --output %profile",
	"params",
	"place peer:2 " MACHINE,
	"place --jobs %jobs " MACHINE,
	"place host:2 --cluster @topo/clusters/two-leaves.cluster",
	"plan " MACHINE " --hosts either",
	"plan " MACHINE " --hosts 2",
	"report @tests/fixtures/report/rank0.json @tests/fixtures/report/rank1.json",
	"report @tests/fixtures/report/inspector.log",
	"show " MACHINE,
	"show --from @tests/browser/machine.topology",
	"simulate " FABRIC " --aggregators 1,1Gbit/s --algo ring,tree,hierarchical,aggregators --size 1M",
	"simulate " FABRIC " --collective alltoall --jobs 2 --size 1M --order leaf,random:1 " MACHINE,
	"status",
	"top .", /* no process: top_test.c has some */
	"tune " MACHINE,
	"tune " MACHINE " --hosts 2 --collnet",
	"version",
};

/* A call as the shell takes it. */
static const char *filled_in(const char *call)
{
	static char whole[2048];
	size_t at = 0;

	for (const char *c = call; *c; c++) {
		if (*c == '@' || *c == '%')
			at += (size_t)snprintf(whole + at, sizeof(whole) - at, "%s/",
					       *c == '@' ? program_source() : program_folder());
		else
			whole[at++] = *c;
		whole[at] = '\0';
	}
	return strcat(whole, " --json");
}

static bool is_of(const struct command *command, const char *call)
{
	size_t bytes = strlen(command->name);

	return !strncmp(call, command->name, bytes) && (call[bytes] == ' ' || !call[bytes]);
}

static bool has_json(const struct command *command)
{
	const struct options_row *option = command->options;

	while (option->name && strcmp(option->name, "json") != 0)
		option++;
	return option->name != NULL;
}

static void what_is_printed_fits_its_schema(void **state)
{
	char path[512];

	(void)state;
	snprintf(path, sizeof(path), "%s/secret", program_folder());
	tree_put_mode(path, "one that is long enough to be one", 0600);
	program_put("cluster",
		    "tributary-cluster 1\nswitch s\nhost a leaf=s\naggregator 127.0.0.1:1 leaf=s rate=1GB/s\n");
	program_put("jobs", "wants a host 2\nwants b peer 9\n");
	program_put("damaged.xml",
		    "<system version=\"1\"><cpu numaid=\"0\"><gpu dev=\"0\" sm=\"x\"/></cpu></system>\n");
	setenv("TRIBUTARY_STATE_DIR", program_folder(), 1);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		const char *call = filled_in(calls[i]);

		print_message("%s\n", call);
		(void)program_run(call, PROGRAM_STDOUT, text, sizeof(text));
		json_decref(schema_check_output(text));
	}
}

/* `cluster measure` needs hosts: cluster_measure_test.c. */
static void every_command_with_json_is_called_above(void **state)
{
	(void)state;
	for (const struct command *const *at = command_table; *at; at++) {
		bool called = !has_json(*at) || !strcmp((*at)->name, "cluster measure");

		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			called |= is_of(*at, calls[i]);
		if (!called)
			fail_msg("%s --json is not compared with its schema", (*at)->name);
	}
}

/* The comparison can fail: something is missing, of another type, unknown. */
static void the_schema_refuses_what_it_must(void **state)
{
	json_t *file = schema_load("docs/format/command.schema.json"), *value, *vertex;
	char where[SCHEMA_WHERE_BYTES];

	(void)state;
	(void)program_run(filled_in("show " MACHINE), PROGRAM_STDOUT, text, sizeof(text));
	value = schema_check_output(text);
	vertex = json_array_get(json_object_get(value, "vertices"), 1);
	json_object_set_new(vertex, "bus_id", json_false());
	assert_false(schema_fits(file, "tributary-show", value, where));
	assert_string_equal(where, "vertices/1/bus_id");
	json_object_set_new(vertex, "bus_id", json_null());
	json_object_set_new(vertex, "kind", json_string("toaster"));
	assert_false(schema_fits(file, "tributary-show", value, where));
	assert_string_equal(where, "vertices/1/kind");
	json_object_set_new(vertex, "kind", json_string("gpu"));
	json_object_set_new(vertex, "more", json_null());
	assert_false(schema_fits(file, "tributary-show", value, where));
	assert_string_equal(where, "vertices/1/more");
	json_object_del(vertex, "more");
	assert_true(schema_fits(file, "tributary-show", value, where));
	json_object_del(value, "limits");
	assert_false(schema_fits(file, "tributary-show", value, where));
	assert_string_equal(where, "limits");
	json_decref(value);
	json_decref(file);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_printed_fits_its_schema),
		cmocka_unit_test(every_command_with_json_is_called_above),
		cmocka_unit_test(the_schema_refuses_what_it_must),
	};

	setenv("TRIBUTARY_IF", "lo", 1); /* whatever the settings of this host say */
	return cmocka_run_group_tests_name("json", tests, program_find, NULL);
}
