/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ncclmodel/limits.h"
#include "ncclxml/link_value.h"
#include "base/random.h"
#include "tributary/topology.h"

enum { HALF_STEP_BPS = 187500000 / 2 };

static struct topology_link link_of(unsigned generation, unsigned lanes)
{
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_PCI, 0, 1);

	link.pci.generation = generation;
	link.pci.lanes = lanes;
	link.nominal_Bps = lanes * ncclmodel_lane_Bps(generation);
	return link;
}

static void set(struct topology_link *link, enum topology_direction direction, uint64_t rate_Bps,
		enum topology_provenance provenance)
{
	link->capacity[direction].rate_Bps = rate_Bps;
	link->capacity[direction].provenance = provenance;
}

static void every_rate_is_within_half_a_step(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t rate_Bps = HALF_STEP_BPS + random_below(&random, 600000000000ULL);
		unsigned most = (unsigned)random_below(&random, 8);
		struct ncclxml_link_value value = ncclxml_link_value_of(rate_Bps, most);
		uint64_t off_Bps = value.value_Bps > rate_Bps ? value.value_Bps - rate_Bps : rate_Bps - value.value_Bps;

		assert_in_range(off_Bps, 0, HALF_STEP_BPS);
		assert_in_range(value.generation, 1, most && most < 6 ? most : 6);
		/* As NCCL will compute it. */
		assert_int_equal(ncclmodel_pci_Bps(ncclmodel_speed_text(value.generation), (long)value.lanes),
				 value.value_Bps);
	}
}

/* 1,250,000 lanes of generation 3: more lanes of generation 1 than NCCL can multiply. */
static void a_rate_that_no_slot_has_is_written_as_it_was_read(void **state)
{
	uint64_t rate_Bps = ncclmodel_pci_Bps("8.0 GT/s PCIe", 1250000);

	(void)state;
	assert_true(ncclxml_link_value_of(rate_Bps, 0).value_Bps == rate_Bps);
	assert_true(ncclxml_link_value_of(rate_Bps, 3).value_Bps == rate_Bps);
	assert_true(ncclxml_link_value_of(UINT64_MAX, 1).lanes == NCCLMODEL_LANES_MAX);
}

static void a_rate_of_almost_nothing_is_never_width_0(void **state)
{
	(void)state;
	assert_int_equal(ncclxml_link_value_of(1, 0).lanes, 1);
	assert_int_equal(ncclxml_link_value_of(0, 0).lanes, 1);
	assert_in_range(ncclxml_link_value_of(UINT64_MAX, 1).lanes, 1, INT32_MAX / 480);
}

static void a_link_that_was_not_measured_is_written_as_it_is(void **state)
{
	struct topology_link link = link_of(4, 16);
	struct ncclxml_link_value value = ncclxml_link_value_for(&link);

	(void)state;
	assert_int_equal(value.generation, 4);
	assert_int_equal(value.lanes, 16);
	assert_null(value.word);
	/* Idle: trained down now, and the nominal rate is that of the best it can do. */
	link.pci = (struct topology_pci_link){ .generation = 1, .lanes = 16, .most_generation = 5, .most_lanes = 8 };
	link.nominal_Bps = 24000000000;
	value = ncclxml_link_value_for(&link);
	assert_int_equal(value.generation, 5);
	assert_int_equal(value.lanes, 8);
}

static void the_slower_direction_counts(void **state)
{
	struct topology_link link = link_of(4, 16);
	struct ncclxml_link_value value;

	(void)state;
	set(&link, TOPOLOGY_UP, 26300000000, TOPOLOGY_MEASURED);
	set(&link, TOPOLOGY_DOWN, 23400000000, TOPOLOGY_MEASURED);
	value = ncclxml_link_value_for(&link);
	assert_int_equal(value.wanted_Bps, 23400000000);
	assert_int_equal(value.value_Bps, 23437500000);
	assert_string_equal(value.word, "measured");
}

static void a_lower_bound_below_the_nominal_rate_says_nothing(void **state)
{
	struct topology_link link = link_of(4, 16);

	(void)state;
	set(&link, TOPOLOGY_UP, 12000000000, TOPOLOGY_AT_LEAST);
	set(&link, TOPOLOGY_DOWN, 12000000000, TOPOLOGY_AT_LEAST);
	assert_int_equal(ncclxml_link_value_for(&link).value_Bps, 24000000000);
	assert_null(ncclxml_link_value_for(&link).word);
	set(&link, TOPOLOGY_UP, 26250000000, TOPOLOGY_AT_LEAST);
	set(&link, TOPOLOGY_DOWN, 27000000000, TOPOLOGY_AT_LEAST);
	assert_int_equal(ncclxml_link_value_for(&link).value_Bps, 26250000000);
	assert_string_equal(ncclxml_link_value_for(&link).word, "measured");
}

static void what_is_not_known_is_left_to_nccl(void **state)
{
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_PCI, 0, 1);

	(void)state;
	assert_int_equal(ncclxml_link_value_for(&link).generation, 0);
}

static void a_width_that_no_slot_has_carries_its_word(void **state)
{
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_PCI, 0, 1);

	(void)state;
	link.nominal_Bps = 6937500000;
	assert_int_equal(ncclxml_link_value_for(&link).lanes, 37);
	assert_string_equal(ncclxml_link_value_for(&link).word, "nominal");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rate_is_within_half_a_step),
		cmocka_unit_test(a_rate_that_no_slot_has_is_written_as_it_was_read),
		cmocka_unit_test(a_rate_of_almost_nothing_is_never_width_0),
		cmocka_unit_test(a_link_that_was_not_measured_is_written_as_it_is),
		cmocka_unit_test(the_slower_direction_counts),
		cmocka_unit_test(a_lower_bound_below_the_nominal_rate_says_nothing),
		cmocka_unit_test(what_is_not_known_is_left_to_nccl),
		cmocka_unit_test(a_width_that_no_slot_has_carries_its_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
