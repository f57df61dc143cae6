/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/fingerprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/profile/fake_host.h"

#define SWITCH "pci0000:16/0000:16:02.0/0000:17:00.0/"
#define GPU0   SWITCH "0000:18:00.0/0000:19:00.0"
#define GPU1   SWITCH "0000:18:01.0/0000:1a:00.0"

static const struct fake_device gpu = { "10de:20b5", "10de:1533",       "0x030200\n",
					"16\n",      "2.5 GT/s PCIe\n", "16.0 GT/s PCIe\n" };

static void assert_change(const struct fingerprint *then, const struct fingerprint *now, enum fingerprint_change change,
			  const char *why)
{
	struct diag diag = { .text = "untouched" };

	assert_int_equal(fingerprint_compare(then, now, NULL), change);
	assert_int_equal(fingerprint_compare(then, now, &diag), change);
	assert_string_equal(diag.text, why);
}

/* Compares the machine as it was fake_host_filled with what it is now. */
static void assert_now(struct tree *machine, enum fingerprint_change change, const char *why)
{
	struct fingerprint then, now = fake_host_take(machine);

	assert_int_equal(fingerprint_of_text(fake_host_filled, strlen(fake_host_filled), &then), 0);
	assert_change(&then, &now, change, why);
	fingerprint_fini(&then);
	fingerprint_fini(&now);
}

static void same_machine_is_the_same(void **state)
{
	fake_host_fill(*state);
	assert_now(*state, FINGERPRINT_SAME, "untouched");
}

static void card_in_another_slot_has_moved(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	fake_host_unplug(machine, GPU1);
	fake_host_device(machine, SWITCH "0000:18:02.0/0000:1c:00.0", &gpu);
	assert_now(machine, FINGERPRINT_CARD_MOVED,
		   "the GPU 10de:20b5 was at 0000:1a:00.0 and is at 0000:1c:00.0 now (and 1 more)");
}

/* One more device in front shifts the numbers of all buses behind it. */
static void renumbered_buses_are_not_another_machine(void **state)
{
	struct tree *machine = *state;
	struct fingerprint then, now;
	char *shifted;

	fake_host_fill(machine);
	then = fake_host_take(machine);
	shifted = strdup(then.text);
	assert_non_null(shifted);
	for (char *at = strstr(shifted, "0000:1"); at; at = strstr(at + 1, "0000:1"))
		at[5] = '2';
	assert_int_equal(fingerprint_of_text(shifted, strlen(shifted), &now), 0);
	assert_change(&then, &now, FINGERPRINT_CARD_MOVED,
		      "the GPU 10de:20b5 was at 0000:19:00.0 and is at 0000:29:00.0 now (and 8 more)");
	free(shifted);
	fingerprint_fini(&then);
	fingerprint_fini(&now);
}

static void card_behind_another_port_has_moved(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	fake_host_unplug(machine, GPU1);
	fake_host_device(machine, SWITCH "0000:18:02.0/0000:1a:00.0", &gpu);
	assert_now(machine, FINGERPRINT_CARD_MOVED,
		   "the GPU 10de:20b5 at 0000:1a:00.0 was behind port 0000:18:01.0 and is "
		   "behind port 0000:18:02.0 now (and 1 more)");
}

static void missing_card_is_gone(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	fake_host_unplug(machine, GPU0);
	assert_now(machine, FINGERPRINT_CARD_GONE, "the GPU 10de:20b5 at 0000:19:00.0 is gone (and 1 more)");
}

static void card_of_another_model_takes_a_place(void **state)
{
	static const struct fake_device other = { "10de:2330", "10de:16c1", "0x030200\n",
						  "16\n",      NULL,        "32.0 GT/s PCIe\n" };
	struct tree *machine = *state;

	fake_host_fill(machine);
	fake_host_unplug(machine, GPU0);
	fake_host_device(machine, GPU0, &other);
	assert_now(machine, FINGERPRINT_CARD_GONE,
		   "the GPU 10de:20b5 at 0000:19:00.0 is gone; a GPU 10de:2330 is in its place (and 2 more)");
}

static void additional_card_is_new(void **state)
{
	static const struct fake_device nic = {
		"14e4:16d7", "14e4:0001", "0x020000\n", "8\n", "8.0 GT/s PCIe\n", NULL
	};
	struct tree *machine = *state;

	fake_host_fill(machine);
	fake_host_device(machine, "pci0000:00/0000:00:1d.0", &nic);
	assert_now(machine, FINGERPRINT_CARD_NEW, "there is a new network card, 14e4:16d7, at 0000:00:1d.0");
}

static void narrower_link_is_retrained(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	fake_host_attribute(machine, "0000:19:00.0", "current_link_width", "8\n");
	assert_now(machine, FINGERPRINT_LINK_RETRAINED, "the PCIe link of 0000:19:00.0 had 16 lanes and has 8 now");
	fake_host_attribute(machine, "0000:18:00.0", "current_link_width", "8\n");
	assert_now(machine, FINGERPRINT_LINK_RETRAINED,
		   "the PCIe link of 0000:18:00.0 had 16 lanes and has 8 now (and 1 more)");
}

static void slower_link_is_retrained(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	fake_host_attribute(machine, "0000:1b:00.0", "current_link_speed", "8.0 GT/s PCIe\n");
	assert_now(machine, FINGERPRINT_LINK_RETRAINED,
		   "the PCIe link of 0000:1b:00.0 was of generation 4 and is of 3 now");
	fake_host_attribute(machine, "0000:1b:00.0", "current_link_speed", "16.0 GT/s PCIe\n");
	fake_host_attribute(machine, "0000:1a:00.0", "max_link_speed", "8.0 GT/s PCIe\n");
	assert_now(machine, FINGERPRINT_LINK_RETRAINED,
		   "the PCIe link of 0000:1a:00.0 could be of generation 4 and can be of 3 now");
}

static void unknown_width_is_no_difference(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	fake_host_attribute(machine, "0000:19:00.0", "current_link_width", "63\n");
	fake_host_attribute(machine, "0000:1b:00.0", "current_link_speed", "Unknown\n");
	assert_now(machine, FINGERPRINT_SAME, "untouched");
}

static void other_driver_has_changed(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	tree_text(machine, "sys/module/nvidia/version", "560.35.03\n");
	assert_now(machine, FINGERPRINT_DRIVER_CHANGED, "the driver nvidia was 550.54.15 and is 560.35.03 now");
	assert_int_equal(unlinkat(machine->fd, "sys/module/nvidia/version", 0), 0);
	assert_now(machine, FINGERPRINT_DRIVER_CHANGED, "the driver nvidia 550.54.15 is not loaded now");
	tree_text(machine, "sys/module/nvidia/version", "550.54.15\n");
	tree_text(machine, "sys/module/amdgpu/version", "6.3.6\n");
	assert_now(machine, FINGERPRINT_DRIVER_CHANGED, "the driver amdgpu 6.3.6 is loaded now and was not");
}

static void other_processor_or_division_is_named(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	tree_text(machine, "sys/devices/system/node/has_cpu", "0-7\n");
	assert_now(machine, FINGERPRINT_CPU_CHANGED,
		   "the processors were divided into 2 NUMA domains and are into 8 now");
	tree_text(machine, "proc/cpuinfo", "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n");
	assert_now(machine, FINGERPRINT_CPU_CHANGED,
		   "the processor was \"cpu vendor=GenuineIntel family=6 model=106 domains=2\" and is "
		   "\"cpu vendor=GenuineIntel family=6 model=143 domains=8\" now");
}

static void gravest_difference_gives_the_change(void **state)
{
	struct tree *machine = *state;

	fake_host_fill(machine);
	tree_text(machine, "sys/module/nvidia/version", "560.35.03\n");
	fake_host_attribute(machine, "0000:19:00.0", "current_link_width", "8\n");
	assert_now(machine, FINGERPRINT_LINK_RETRAINED,
		   "the PCIe link of 0000:19:00.0 had 16 lanes and has 8 now (and 1 more)");
	fake_host_unplug(machine, GPU1);
	assert_now(machine, FINGERPRINT_CARD_GONE, "the GPU 10de:20b5 at 0000:1a:00.0 is gone (and 3 more)");
}

static void hardly_anything_in_common_is_foreign(void **state)
{
	static const struct fake_device nic = { "8086:1572", NULL, "0x020000\n", "8\n", "8.0 GT/s PCIe\n", NULL };
	struct tree *machine = *state;
	struct fingerprint nothing = { 0 }, then;

	fake_host_device(machine, "pci0000:00/0000:00:05.0", &nic);
	tree_text(machine, "proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
	assert_now(machine, FINGERPRINT_FOREIGN,
		   "it is of another machine: the processor there is \"cpu vendor=GenuineIntel family=6 model=106 "
		   "domains=2\", here it is \"cpu vendor=AuthenticAMD\"");
	assert_int_equal(fingerprint_of_text(fake_host_filled, strlen(fake_host_filled), &then), 0);
	assert_change(&then, &nothing, FINGERPRINT_FOREIGN,
		      "it is of another machine: of 11 parts (processor, cards, ports, drivers) 0 are in both");
	assert_change(&nothing, &then, FINGERPRINT_FOREIGN,
		      "it is of another machine: of 11 parts (processor, cards, ports, drivers) 0 are in both");
	assert_change(&nothing, &nothing, FINGERPRINT_SAME, "untouched");
	fingerprint_fini(&then);
}

/* The same cards, but all of them elsewhere, and another processor. */
static void same_cards_around_another_processor_are_foreign(void **state)
{
	struct fingerprint then, now;
	char *text = strdup(fake_host_filled), *model;

	(void)state;
	assert_non_null(text);
	for (char *at = strstr(text, "0000:1"); at; at = strstr(at + 1, "0000:1"))
		at[5] = '2';
	model = strstr(text, "model=106");
	assert_non_null(model);
	memcpy(model, "model=143", 9);
	assert_int_equal(fingerprint_of_text(fake_host_filled, strlen(fake_host_filled), &then), 0);
	assert_int_equal(fingerprint_of_text(text, strlen(text), &now), 0);
	assert_change(&then, &now, FINGERPRINT_FOREIGN,
		      "it is of another machine: the processor there is \"cpu vendor=GenuineIntel family=6 model=106 "
		      "domains=2\", here it is \"cpu vendor=GenuineIntel family=6 model=143 domains=2\"");
	free(text);
	fingerprint_fini(&then);
	fingerprint_fini(&now);
}

#define MACHINE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_new, tree_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(same_machine_is_the_same),
		MACHINE_TEST(card_in_another_slot_has_moved),
		MACHINE_TEST(renumbered_buses_are_not_another_machine),
		MACHINE_TEST(card_behind_another_port_has_moved),
		MACHINE_TEST(missing_card_is_gone),
		MACHINE_TEST(card_of_another_model_takes_a_place),
		MACHINE_TEST(additional_card_is_new),
		MACHINE_TEST(narrower_link_is_retrained),
		MACHINE_TEST(slower_link_is_retrained),
		MACHINE_TEST(unknown_width_is_no_difference),
		MACHINE_TEST(other_driver_has_changed),
		MACHINE_TEST(other_processor_or_division_is_named),
		MACHINE_TEST(gravest_difference_gives_the_change),
		MACHINE_TEST(hardly_anything_in_common_is_foreign),
		cmocka_unit_test(same_cards_around_another_processor_are_foreign),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
