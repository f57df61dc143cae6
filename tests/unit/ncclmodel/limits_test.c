/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "ncclmodel/limits.h"
#include "tributary/topology.h"

#define GBPS(x) ((uint64_t)((x)*1000) * 1000000ULL)

static void speed_strings_mean_what_nccl_makes_of_them(void **state)
{
	static const struct {
		const char *text;
		unsigned generation;
		bool known;
	} cases[] = {
		{ "2.5 GT/s PCIe", 1, true },  { "2.5 GT/s", 1, true },
		{ "5.0 GT/s PCIe", 2, true },  { "8 GT/s", 3, true },
		{ "8.0 GT/s PCIe", 3, true },  { "16 GT/s", 4, true },
		{ "16.0 GT/s PCIe", 4, true }, { "32 GT/s", 5, true },
		{ "32.0 GT/s PCIe", 5, true }, { "64.0 GT/s PCIe", 6, true },
		{ "16.0 GT/s", 3, false },     { "32.0 GT/s", 3, false },
		{ "64 GT/s", 3, false },       { "", 3, false },
		{ "Unknown", 3, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool known = !cases[i].known;

		assert_int_equal(ncclmodel_generation(cases[i].text, &known), cases[i].generation);
		assert_int_equal(known, cases[i].known);
	}
}

static void our_own_strings_come_back_as_their_generation(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= NCCLMODEL_GENERATION_MAX; i++) {
		bool known = false;

		assert_int_equal(ncclmodel_generation(ncclmodel_speed_text(i), &known), i);
		assert_true(known);
	}
	assert_string_equal(ncclmodel_speed_text(0), "");
	assert_string_equal(ncclmodel_speed_text(NCCLMODEL_GENERATION_MAX + 1), "");
}

static void lanes_carry_what_nccl_counts(void **state)
{
	(void)state;
	assert_int_equal(ncclmodel_lane_Bps(0), 0);
	assert_int_equal(ncclmodel_lane_Bps(1), 187500000);
	assert_int_equal(ncclmodel_lane_Bps(6), 6000000000);
	assert_int_equal(ncclmodel_lane_Bps(7), 0);
	assert_int_equal(ncclmodel_pci_Bps("16.0 GT/s PCIe", 16), GBPS(24));
	assert_int_equal(ncclmodel_pci_Bps("", 0), GBPS(12));
	assert_int_equal(ncclmodel_pci_Bps("2.5 GT/s PCIe", 37), 6937500000);
	assert_int_equal(ncclmodel_pci_Bps("32 GT/s", 160), GBPS(480));
	assert_int_equal(ncclmodel_pci_Bps("8 GT/s", -1), 0);
}

static void nvlinks_go_by_compute_capability(void **state)
{
	(void)state;
	assert_int_equal(ncclmodel_nvlink_Bps(60), GBPS(18));
	assert_int_equal(ncclmodel_nvlink_Bps(70), GBPS(20));
	assert_int_equal(ncclmodel_nvlink_Bps(80), GBPS(20));
	assert_int_equal(ncclmodel_nvlink_Bps(86), GBPS(12));
	assert_int_equal(ncclmodel_nvlink_Bps(89), GBPS(20));
	assert_int_equal(ncclmodel_nvlink_Bps(90), GBPS(20.6));
	assert_int_equal(ncclmodel_nvlink_Bps(120), GBPS(40.1));
}

static uint64_t socket_of(const char *architecture, const char *vendor, int family, int model)
{
	struct topology_cpu cpu = { .family = family, .model = model };

	snprintf(cpu.architecture, sizeof(cpu.architecture), "%s", architecture);
	snprintf(cpu.vendor, sizeof(cpu.vendor), "%s", vendor);
	return ncclmodel_socket_Bps(&cpu);
}

static void sockets_go_by_cpu(void **state)
{
	(void)state;
	assert_int_equal(socket_of("x86_64", "AuthenticAMD", 25, 1), GBPS(16));
	assert_int_equal(socket_of("x86_64", "GenuineIntel", 6, 79), GBPS(6));
	assert_int_equal(socket_of("x86_64", "GenuineIntel", 6, 0x55), GBPS(10));
	assert_int_equal(socket_of("x86_64", "GenuineIntel", 6, 106), GBPS(10));
	assert_int_equal(socket_of("x86_64", "GenuineIntel", 6, 0x8f), GBPS(22));
	assert_int_equal(socket_of("x86_64", "GenuineIntel", 6, 0xcf), GBPS(40));
	assert_int_equal(socket_of("x86_64", "GenuineIntel", 19, 0xcf), GBPS(6));
	assert_int_equal(socket_of("x86_64", "  Shanghai  ", 7, 0x5b), GBPS(9));
	assert_int_equal(socket_of("x86_64", "CentaurHauls", 7, 1), GBPS(6));
	assert_int_equal(socket_of("arm64", "", -1, -1), GBPS(6));
	assert_int_equal(socket_of("ppc64", "", -1, -1), GBPS(32));
	assert_int_equal(socket_of("x86_64", "HygonGenuine", 24, 1), GBPS(5000));
}

static void what_nccl_would_ask_the_machine_is_unknown(void **state)
{
	(void)state;
	assert_int_equal(socket_of("", "", -1, -1), 0);
	assert_int_equal(socket_of("x86_64", "", -1, -1), 0);
	assert_int_equal(socket_of("x86_64", "GenuineIntel", -1, -1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speed_strings_mean_what_nccl_makes_of_them),
		cmocka_unit_test(our_own_strings_come_back_as_their_generation),
		cmocka_unit_test(lanes_carry_what_nccl_counts),
		cmocka_unit_test(nvlinks_go_by_compute_capability),
		cmocka_unit_test(sockets_go_by_cpu),
		cmocka_unit_test(what_nccl_would_ask_the_machine_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
