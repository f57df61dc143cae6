/* SPDX-License-Identifier: Apache-2.0 */
#include "command/show/view.h"

#include "base/log.h"
#include "command/print/units.h"
#include "support/machines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define BOX                                                                                        \
	"tributary-topology 1\n"                                                                   \
	"vertex cpu cpu0 numa=0\nvertex cpu cpu1 numa=1\n"                                         \
	"vertex memory memory0 numa=0\nvertex memory memory1 numa=1\n"                             \
	"vertex gpu gpu0 bus=0000:10:00.0\nvertex gpu gpu1 bus=0000:11:00.0\n"                     \
	"vertex gpu gpu2 bus=0000:20:00.0\nvertex gpu gpu3 bus=0000:21:00.0\n"                     \
	"link memory memory0 cpu0\nlink memory memory1 cpu1\n"                                     \
	"link pci gpu0 cpu0 nominal_Bps=24000000000\nlink pci gpu1 cpu0 nominal_Bps=24000000000\n" \
	"link pci gpu2 cpu1 nominal_Bps=24000000000\nlink pci gpu3 cpu1 nominal_Bps=24000000000\n" \
	"link socket cpu0 cpu1 nominal_Bps=40000000000\n"

static void with(const char *text, void (*look)(const struct view *view))
{
	struct topology topology;
	struct view view;

	machines_of_text(text, &topology);
	assert_int_equal(view_make(&topology, &view), 0);
	look(&view);
	view_free(&view);
	topology_fini(&topology);
}

static uint32_t lane(const struct view *view, const char *name)
{
	uint32_t directed = topology_find_directed(view->topology, name);

	assert_int_not_equal(directed, TOPOLOGY_NONE);
	return directed;
}

/* Four pairs cross the sockets each way, two gigabytes each; a GPU's own link carries three pairs. */
static void look_at_narrow_socket(const struct view *view)
{
	char text[512];

	assert_int_equal(view->bottleneck / 2, lane(view, "cpu0>cpu1") / 2);
	assert_int_equal(view->bottleneck_pair_Bps, 2000000000);
	assert_false(view->bottleneck_is_own);
	assert_true(view->lanes[lane(view, "cpu0>cpu1")].bottleneck);
	assert_false(view->lanes[lane(view, "gpu0>cpu0")].bottleneck);
	view_bottleneck(view, false, text, sizeof(text));
	assert_non_null(strstr(text, "8.00 GB/s"));
	assert_non_null(strstr(text, "2.00 GB/s"));
}

static void narrowest_way_between_all_gpus_is_the_bottleneck(void **state)
{
	(void)state;
	with(BOX "rate cpu0>cpu1 8000000000 measured\nrate cpu1>cpu0 8000000000 measured\n", look_at_narrow_socket);
}

static void look_at_wide_socket(const struct view *view)
{
	assert_true(view->bottleneck_is_own);
	assert_int_equal(view->bottleneck_pair_Bps, 8000000000);
	for (size_t i = 0; i < 2 * view->topology->link_count; i++)
		assert_false(view->lanes[i].bottleneck);
}

static void look_at_a_narrow_slot(const struct view *view)
{
	char text[512];

	assert_true(view->bottleneck_is_own);
	view_bottleneck(view, false, text, sizeof(text));
	assert_non_null(strstr(text,
			       "2.00 GB/s for each pair. The link of gpu2 carries 6.00 GB/s where others carry 24.0: "
			       "it sets the pace of every ring"));
}

static void a_slot_unlike_the_others_is_named(void **state)
{
	(void)state;
	with(BOX "rate gpu2>cpu1 6000000000 measured\nrate cpu1>gpu2 6000000000 measured\n", look_at_a_narrow_slot);
}

static void gpus_own_links_are_no_bottleneck_to_speak_of(void **state)
{
	(void)state;
	with(BOX, look_at_wide_socket);
}

static void look_at_staged(const struct view *view)
{
	/* Two crossings of memory for each of the pairs that cannot go directly. */
	assert_int_equal(view->bottleneck / 2, lane(view, "memory0>cpu0") / 2);
}

static void pairs_without_p2p_load_the_memory(void **state)
{
	(void)state;
	with(BOX "rate memory0>cpu0 4000000000 measured\nrate cpu0>memory0 4000000000 measured\n"
		 "pair gpu0 gpu1 p2p_works=0\npair gpu1 gpu0 p2p_works=0\n",
	     look_at_staged);
}

static void look_at_limit(const struct view *view)
{
	assert_int_equal(view->bottleneck, TOPOLOGY_NONE);
	assert_int_equal(view->bottleneck_limit, topology_find_limit(view->topology, "both"));
	assert_true(view->lanes[lane(view, "cpu0>cpu1")].bottleneck);
	assert_true(view->lanes[lane(view, "cpu1>cpu0")].bottleneck);
}

static void limit_over_both_directions_can_be_the_bottleneck(void **state)
{
	(void)state;
	with(BOX "limit both 16000000000 measured members=cpu0>cpu1,cpu1>cpu0\n", look_at_limit);
}

static void look_at_bands(const struct view *view)
{
	assert_int_equal(view->lanes[lane(view, "gpu0>cpu0")].band, VIEW_FULL);
	assert_int_equal(view->lanes[lane(view, "cpu0>gpu0")].band, VIEW_GOOD);
	assert_int_equal(view->lanes[lane(view, "gpu1>cpu0")].band, VIEW_FAIR);
	assert_int_equal(view->lanes[lane(view, "cpu0>gpu1")].band, VIEW_POOR);
	assert_int_equal(view->lanes[lane(view, "gpu2>cpu1")].band, VIEW_BAD);
	assert_int_equal(view->lanes[lane(view, "cpu1>gpu2")].band, VIEW_UNMEASURED);
	assert_int_equal(view->lanes[lane(view, "gpu3>cpu1")].band, VIEW_BOUND);
	assert_int_equal(view->lanes[lane(view, "cpu1>gpu3")].band, VIEW_FULL);
	assert_int_equal(view->lanes[lane(view, "memory0>cpu0")].band, VIEW_NO_NOMINAL);
	assert_int_equal(view->lanes[lane(view, "cpu0>memory0")].band, VIEW_UNMEASURED);
	assert_int_equal(view_worse(view, lane(view, "gpu0>cpu0") / 2), TOPOLOGY_DOWN);
	assert_int_equal(view_worse(view, lane(view, "gpu2>cpu1") / 2), TOPOLOGY_UP);
}

static void colour_is_measured_over_nominal_and_a_low_bound_is_no_blame(void **state)
{
	(void)state;
	with(BOX "rate gpu0>cpu0 22000000000 measured\nrate cpu0>gpu0 19000000000 measured\n"
		 "rate gpu1>cpu0 15000000000 measured\nrate cpu0>gpu1 10000000000 measured\n"
		 "rate gpu2>cpu1 2000000000 measured\n"
		 "rate gpu3>cpu1 12000000000 at_least\nrate cpu1>gpu3 23000000000 at_least\n"
		 "rate memory0>cpu0 90000000000 measured\n",
	     look_at_bands);
}

static void rates_have_as_many_decimals_as_make_sense(void **state)
{
	static const struct {
		uint64_t rate_Bps;
		const char *text;
	} rates[] = {
		{ 0, "?" },
		{ 1000000, "0.0010" },
		{ 967000000, "0.967" },
		{ 9994000000, "9.99" },
		{ 9996000000, "10.0" },
		{ 24123000000, "24.1" },
		{ 99960000000, "100" },
		{ 371000000000, "371" },
	};
	struct topology_capacity capacity = { .rate_Bps = 12000000000 };
	char text[UNITS_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		assert_string_equal(units_GBps(rates[i].rate_Bps, text), rates[i].text);
	}
	capacity.provenance = TOPOLOGY_NOMINAL;
	view_rate_of(&capacity, true, text, sizeof(text));
	assert_string_equal(text, "(12.0)");
	capacity.provenance = TOPOLOGY_AT_LEAST;
	view_rate_of(&capacity, true, text, sizeof(text));
	assert_string_equal(text, "≥12.0");
	view_rate_of(&capacity, false, text, sizeof(text));
	assert_string_equal(text, ">=12.0");
	capacity.provenance = TOPOLOGY_ASSUMED;
	view_rate_of(&capacity, false, text, sizeof(text));
	assert_string_equal(text, "~12.0");
}

static void look_at_idle_gpu(const struct view *view)
{
	const struct topology *topology = view->topology;
	char text[80];

	view_degraded(topology, &topology->links[topology_uplink(topology, topology_find(topology, "gpu0"))], text,
		      sizeof(text));
	assert_string_equal(text, "x8 of x16");
	view_link_words(topology, &topology->links[topology_uplink(topology, topology_find(topology, "gpu0"))], text,
			sizeof(text));
	assert_string_equal(text, "Gen4 x8");
	view_degraded(topology, &topology->links[topology_uplink(topology, topology_find(topology, "nic:a"))], text,
		      sizeof(text));
	assert_string_equal(text, "Gen1 of Gen4");
}

static void idle_gpu_is_not_called_slow(void **state)
{
	(void)state;
	with("tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex gpu gpu0\nvertex nic nic:a\n"
	     "link pci gpu0 cpu0 generation=1 lanes=8 most_generation=4 most_lanes=16\n"
	     "link pci nic:a cpu0 generation=1 lanes=16 most_generation=4 most_lanes=16\n",
	     look_at_idle_gpu);
}

static void look_at_order(const struct view *view)
{
	static const char *const names[] = { "eth1np0", "eth1np2", "eth2np1", "eth10np1" };
	uint32_t at = view->first_child[topology_find(view->topology, "cpu0")];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++, at = view->next_sibling[at]) {
		assert_int_not_equal(at, TOPOLOGY_NONE);
		assert_string_equal(view->topology->vertices[at].name, names[i]);
	}
}

static void numbers_in_names_are_ordered_by_their_value(void **state)
{
	(void)state;
	with("tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex nic eth10np1\nvertex nic eth1np0\n"
	     "vertex nic eth1np2\nvertex nic eth2np1\nlink pci eth10np1 cpu0\nlink pci eth1np0 cpu0\n"
	     "link pci eth1np2 cpu0\nlink pci eth2np1 cpu0\n",
	     look_at_order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(narrowest_way_between_all_gpus_is_the_bottleneck),
		cmocka_unit_test(a_slot_unlike_the_others_is_named),
		cmocka_unit_test(gpus_own_links_are_no_bottleneck_to_speak_of),
		cmocka_unit_test(pairs_without_p2p_load_the_memory),
		cmocka_unit_test(limit_over_both_directions_can_be_the_bottleneck),
		cmocka_unit_test(colour_is_measured_over_nominal_and_a_low_bound_is_no_blame),
		cmocka_unit_test(rates_have_as_many_decimals_as_make_sense),
		cmocka_unit_test(idle_gpu_is_not_called_slow),
		cmocka_unit_test(numbers_in_names_are_ordered_by_their_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
