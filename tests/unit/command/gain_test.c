/* SPDX-License-Identifier: Apache-2.0 */
/* All that names a gain, of aggregation or of an order of ranks, says the same, on drawn clusters and machines. */
#include "aggregate/gain.h"

#include "base/log.h"
#include "command/command.h"
#include "program.h"
#include "tributary/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWN = 30, TEXT_BYTES = 4096, OUTPUT_BYTES = 1 << 20 };

static uint64_t state = UINT64_C(0x2545f4914f6cdd1d);

static unsigned draw_of(unsigned least, unsigned most)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return least + (unsigned)(state >> 33) % (most - least + 1);
}

/* Leaves of unlike hosts behind uplinks of unlike rates; some with an aggregator. */
static size_t draw_cluster(char *text, bool *ret_is_served)
{
	unsigned leaves = draw_of(2, 4), rate = draw_of(1, 100), hosts = 0;
	const char *unit = draw_of(0, 4) ? "Gbit/s" : "Mbit/s";
	size_t length = (size_t)snprintf(text, TEXT_BYTES, "tributary-cluster 1\nswitch spine\n");

	*ret_is_served = !draw_of(0, 2);
	for (unsigned leaf = 0; leaf < leaves; leaf++) {
		unsigned each = draw_of(2, strcmp(unit, "Gbit/s") ? 3 : 8), uplink = 1 + rate * each / draw_of(1, 32);

		length += (size_t)snprintf(text + length, TEXT_BYTES - length,
					   "switch s%u parent=spine rate=%u%s\nhost n[%u-%u] leaf=s%u rate=%u%s\n",
					   leaf, uplink, unit, hosts + 1, hosts + each, leaf, rate, unit);
		if (*ret_is_served)
			length += (size_t)snprintf(text + length, TEXT_BYTES - length,
						   "aggregator spare%u:7471 leaf=s%u rate=%u%s\n", leaf, leaf,
						   rate * draw_of(1, each), unit);
		hosts += each;
	}
	return hosts;
}

static json_t *json_of(const char *call)
{
	static char text[OUTPUT_BYTES];
	json_t *made;

	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	made = json_loads(text, 0, NULL);
	assert_non_null(made);
	return made;
}

/* In thousandths; 0: null. */
static unsigned permille_of(const json_t *of, const char *key)
{
	const json_t *value = json_object_get(of, key);

	assert_non_null(value);
	return json_is_null(value) ? 0 : (unsigned)lround(json_real_value(value) * 1e3);
}

/* The plugin's, whichever host it is on. */
static unsigned plugins(const char *text, size_t hosts)
{
	struct diag diag = { .text = "" };
	struct cluster *cluster;
	char name[16];
	unsigned permille;

	assert_int_equal(cluster_read(text, strlen(text), &cluster, &diag), 0);
	snprintf(name, sizeof(name), "n%u", draw_of(1, (unsigned)hosts));
	permille = gain_permille(cluster, &(struct gain_job){ .host_name = name, .host_count = hosts });
	cluster_free(cluster);
	return permille;
}

/* By itself simulate has ring and tree, hierarchical, and aggregators where there are some: all that aggregate expect the same. */
static void compare_cases(const json_t *cases, const char *text, bool is_served, unsigned permille)
{
	size_t count = is_served ? 4 : 3;

	assert_int_equal(json_array_size(cases), count);
	for (size_t i = 2; i < count; i++)
		if (permille_of(json_array_get(cases, i), "gain") != permille)
			fail_msg("%s: simulate says %u in case %zu, the plugin %u", text,
				 permille_of(json_array_get(cases, i), "gain"), i, permille);
}

static void compare_one(const char *text, const char *path, size_t hosts, bool is_served)
{
	static const char *const machines[] = { "dual-root-8gpu", "nvlink-pairs-4gpu", "two-switch-8gpu-sm120" };
	unsigned permille = plugins(text, hosts), said;
	char call[1024];
	json_t *made = json_of("env --json");

	said = permille_of(made, "gain");
	if (said != permille || (json_object_get(json_object_get(made, "variables"), "NCCL_COLLNET_ENABLE") != NULL) !=
					gain_is_enough(permille))
		fail_msg("%s: env says %u, the plugin %u", text, said, permille);
	json_decref(made);
	snprintf(call, sizeof(call), "simulate --cluster '%s' --order random:%u --size 64M --json", path,
		 draw_of(1, 99));
	made = json_of(call);
	compare_cases(json_object_get(made, "cases"), text, is_served, permille);
	json_decref(made);
	snprintf(call, sizeof(call), "tune --from '%s/topo/%s/machine.topology' --hosts %zu --cluster '%s' --json",
		 program_source(), machines[draw_of(0, 2)], hosts, path);
	made = json_of(call);
	said = permille_of(made, "collnet_gain");
	if (said != (gain_is_enough(permille) ? permille : 0))
		fail_msg("%s: tune says %u, the plugin %u", text, said, permille);
	json_decref(made);
}

static void put_hosts(const char *name, const json_t *hosts)
{
	char text[TEXT_BYTES] = "";
	size_t length = 0;

	for (size_t i = 0; i < json_array_size(hosts); i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s\n",
					   json_string_value(json_array_get(hosts, i)));
	program_put(name, text);
}

static json_t *draw_order(size_t hosts)
{
	json_t *order = json_array();

	for (size_t i = 1; i <= hosts; i++)
		json_array_insert_new(order, draw_of(0, (unsigned)i - 1), json_sprintf("n%zu", i));
	return order;
}

/* How long an AllReduce takes with ranks before and after `cluster order`: the same by it and by simulate. */
static void compare_orders(const char *path, size_t hosts)
{
	static const char *const phases[] = { "ring", "tree" };
	json_t *drawn = draw_order(hosts), *ordered, *cases;
	const char *folder = program_folder();
	char call[1024];

	put_hosts("before", drawn);
	snprintf(call, sizeof(call), "cluster order '%s' --hostfile '%s/before' --size 64M --json", path, folder);
	ordered = json_of(call);
	put_hosts("after", json_object_get(json_object_get(ordered, "after"), "hosts"));
	snprintf(call, sizeof(call),
		 "simulate --cluster '%s' --order '%s/before,%s/after' --algo ring,tree --size 64M --json", path,
		 folder, folder);
	cases = json_of(call);
	for (size_t i = 0; i < 4; i++) {
		const json_t *side = json_object_get(ordered, i % 2 ? "after" : "before");
		const json_t *phase = json_object_get(json_object_get(side, "phases"), phases[i / 2]);
		const json_t *one = json_array_get(json_object_get(cases, "cases"), i);

		program_check_near(program_number(phase, "time_s"), program_number(one, "time_s"), 1e-5);
	}
	json_decref(cases);
	json_decref(ordered);
	json_decref(drawn);
}

static void one_answer_to_one_question(void **unused)
{
	unsigned enough = 0;

	(void)unused;
	setenv("TRIBUTARY_STATE_DIR", program_folder(), 1); /* no profile */
	setenv("TRIBUTARY_NET", "tcp", 1);                  /* whatever RDMA there is */
	unsetenv("NCCL_COLLNET_ENABLE");
	for (unsigned i = 0; i < DRAWN; i++) {
		char text[TEXT_BYTES];
		bool is_served;
		size_t hosts = draw_cluster(text, &is_served);
		const char *path = program_put("cluster", text);

		setenv("TRIBUTARY_CLUSTER", path, 1);
		compare_one(text, getenv("TRIBUTARY_CLUSTER"), hosts, is_served);
		compare_orders(getenv("TRIBUTARY_CLUSTER"), hosts);
		enough += gain_is_enough(plugins(text, hosts));
	}
	assert_in_range(enough, 1, DRAWN - 1);
}

static void leave_out(char *text, const char *word)
{
	for (char *at = strstr(text, word); at; at = strstr(at, word))
		memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
}

/* README's first table: a machine of topo/ as the TCP host that it would be. */
static void explain_takes_rdma_away(void **unused)
{
	char *text = program_source_text("topo/dual-root-8gpu/machine.topology"), call[1024];
	json_t *with, *without, *stripped;

	(void)unused;
	snprintf(call, sizeof(call), "explain --from '%s/topo/dual-root-8gpu/machine.topology' --hosts 2 --json",
		 program_source());
	with = json_of(call);
	strcat(call, " --no-rdma");
	without = json_of(call);
	leave_out(text, " gdr=1");
	leave_out(text, " rdma=1");
	snprintf(call, sizeof(call), "explain --from '%s' --hosts 2 --json", program_put("machine.topology", text));
	stripped = json_of(call);
	assert_true(json_equal(json_object_get(without, "sizes"), json_object_get(stripped, "sizes")));
	assert_false(json_equal(json_object_get(without, "sizes"), json_object_get(with, "sizes")));
	json_decref(with);
	json_decref(without);
	json_decref(stripped);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_answer_to_one_question),
		cmocka_unit_test(explain_takes_rdma_away),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
