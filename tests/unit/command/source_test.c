/* SPDX-License-Identifier: Apache-2.0 */
#include "command/source.h"

#include "command/command.h"
#include "support/machines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const char found[] = "tributary-topology 1\nvertex cpu cpu0 numa=0\n"
			    "vertex gpu gpu0 bus=0000:10:00.0\nvertex gpu gpu1 bus=0000:20:00.0\n"
			    "link pci gpu0 cpu0 nominal_Bps=24000000000\nlink pci gpu1 cpu0 nominal_Bps=24000000000\n"
			    "rate gpu0>cpu0 24000000000 nominal\nrate gpu1>cpu0 24000000000 nominal\n";

static void measured_rates_replace_nominal_ones_by_place_not_by_name(void **state)
{
	struct topology here, measured;
	uint32_t link;

	(void)state;
	machines_of_text(found, &here);
	/* The card at 0000:20 had another number then. */
	machines_of_text("tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex gpu gpu0 bus=0000:20:00.0\n"
			 "link pci gpu0 cpu0 nominal_Bps=24000000000\nrate gpu0>cpu0 11000000000 measured\n",
			 &measured);
	assert_int_equal(source_merge(&measured, &here), 1);
	link = topology_uplink(&here, topology_find(&here, "gpu1"));
	assert_int_equal(here.links[link].capacity[TOPOLOGY_UP].rate_Bps, 11000000000);
	assert_int_equal(here.links[link].capacity[TOPOLOGY_UP].provenance, TOPOLOGY_MEASURED);
	link = topology_uplink(&here, topology_find(&here, "gpu0"));
	assert_int_equal(here.links[link].capacity[TOPOLOGY_UP].provenance, TOPOLOGY_NOMINAL);
	topology_fini(&measured);
	topology_fini(&here);
}

static void weaker_knowledge_does_not_replace_better(void **state)
{
	struct topology here, measured;
	uint32_t link;

	(void)state;
	machines_of_text(
		"tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex gpu gpu0 bus=0000:10:00.0\nlink pci gpu0 cpu0\n"
		"rate gpu0>cpu0 11000000000 measured\nrate cpu0>gpu0 10000000000 at_least\n",
		&here);
	machines_of_text(
		"tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex gpu gpu0 bus=0000:10:00.0\nlink pci gpu0 cpu0\n"
		"rate gpu0>cpu0 5000000000 at_least\nrate cpu0>gpu0 12000000000 measured\n",
		&measured);
	source_merge(&measured, &here);
	link = topology_uplink(&here, topology_find(&here, "gpu0"));
	assert_int_equal(here.links[link].capacity[TOPOLOGY_UP].rate_Bps, 11000000000);
	assert_int_equal(here.links[link].capacity[TOPOLOGY_DOWN].rate_Bps, 12000000000);
	topology_fini(&measured);
	topology_fini(&here);
}

static void limits_and_pairs_come_along_when_all_they_name_is_here(void **state)
{
	struct topology here, measured;

	(void)state;
	machines_of_text(found, &here);
	machines_of_text("tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex gpu gpu0 bus=0000:10:00.0\n"
			 "vertex gpu gpu1 bus=0000:20:00.0\nvertex gpu gpu2 bus=0000:30:00.0\n"
			 "link pci gpu0 cpu0\nlink pci gpu1 cpu0\nlink pci gpu2 cpu0\n"
			 "limit gpu0.both 30000000000 measured members=gpu0>cpu0,cpu0>gpu0\n"
			 "limit three 40000000000 measured members=gpu0>cpu0,gpu2>cpu0\n"
			 "pair gpu0 gpu1 p2p_works=1 p2p_Bps=9000000000 p2p_provenance=measured\n"
			 "pair gpu0 gpu2 p2p_works=1 p2p_Bps=9000000000 p2p_provenance=measured\n",
			 &measured);
	source_merge(&measured, &here);
	assert_int_not_equal(topology_find_limit(&here, "gpu0.both"), TOPOLOGY_NONE);
	assert_int_equal(topology_find_limit(&here, "three"), TOPOLOGY_NONE);
	assert_int_equal(here.pair_count, 1);
	assert_int_equal(here.pairs[0].p2p.rate_Bps, 9000000000);
	topology_fini(&measured);
	topology_fini(&here);
}

static void another_machines_rates_fit_nowhere(void **state)
{
	struct topology here, measured;

	(void)state;
	machines_of_text(found, &here);
	machines_of_text(
		"tributary-topology 1\nvertex cpu cpu7 numa=7\nvertex gpu gpu9 bus=0000:99:00.0\nlink pci gpu9 cpu7\n"
		"rate gpu9>cpu7 11000000000 measured\n",
		&measured);
	assert_int_equal(source_merge(&measured, &here), 0);
	topology_fini(&measured);
	topology_fini(&here);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(measured_rates_replace_nominal_ones_by_place_not_by_name),
		cmocka_unit_test(weaker_knowledge_does_not_replace_better),
		cmocka_unit_test(limits_and_pairs_come_along_when_all_they_name_is_here),
		cmocka_unit_test(another_machines_rates_fit_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
