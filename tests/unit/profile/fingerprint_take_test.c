/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/fingerprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "unit/profile/fake_host.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SWITCH       "pci0000:16/0000:16:02.0/0000:17:00.0/"

static void cards_links_driver_and_processor_are_taken(void **state)
{
	struct tree *machine = *state;
	struct fingerprint taken;

	fake_host_fill(machine);
	taken = fake_host_take(machine);
	assert_string_equal(taken.text, fake_host_filled);
	assert_int_equal(taken.bytes, strlen(fake_host_filled));
	assert_int_equal(strspn(taken.id, "0123456789abcdef"), FINGERPRINT_ID_BYTES - 1);
	fingerprint_fini(&taken);
	assert_null(taken.text);
}

static void nothing_that_names_one_machine_is_taken(void **state)
{
	struct tree *machine = *state;
	struct fingerprint before, after;

	fake_host_fill(machine);
	before = fake_host_take(machine);
	tree_text(machine, "sys/class/net/eth0/address", "02:11:22:33:44:55\n");
	tree_text(machine, "proc/sys/kernel/hostname", "ada\n");
	tree_text(machine, "etc/machine-id", "0123456789abcdef0123456789abcdef\n");
	fake_host_attribute(machine, "0000:19:00.0", "vpd", "SN1234567");
	fake_host_attribute(machine, "0000:1b:00.0", "net/eth0/address", "02:11:22:33:44:55\n");
	after = fake_host_take(machine);
	assert_string_equal(after.text, before.text);
	assert_string_equal(after.id, before.id);
	fingerprint_fini(&before);
	fingerprint_fini(&after);
}

static void speed_of_an_idle_gpu_is_not_taken(void **state)
{
	struct tree *machine = *state;
	struct fingerprint idle, busy;

	fake_host_fill(machine);
	idle = fake_host_take(machine);
	fake_host_attribute(machine, "0000:19:00.0", "current_link_speed", "16.0 GT/s PCIe\n");
	fake_host_attribute(machine, "0000:18:00.0", "current_link_speed", "16.0 GT/s PCIe\n");
	busy = fake_host_take(machine);
	assert_string_equal(busy.text, idle.text);
	fingerprint_fini(&idle);
	fingerprint_fini(&busy);
}

/* AMD's cards have a switch of their own; what idles is the link above it. */
static void speed_of_the_ports_on_a_gpu_card_is_not_taken(void **state)
{
	static const struct fake_device
		root_port = { "1022:1483", NULL, "0x060400\n", "16\n", "2.5 GT/s PCIe\n", NULL },
		port = { "1002:1478", NULL, "0x060400\n", "16\n", "2.5 GT/s PCIe\n", NULL },
		card = { "1002:7408", "1002:0b0c", "0x038000\n", "16\n", "16.0 GT/s PCIe\n", "16.0 GT/s PCIe\n" };
	struct tree *machine = *state;
	struct fingerprint taken;

	fake_host_device(machine, "pci0000:40/0000:40:01.1", &root_port);
	fake_host_device(machine, "pci0000:40/0000:40:01.1/0000:41:00.0", &port);
	fake_host_device(machine, "pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:00.0", &port);
	fake_host_device(machine, "pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:00.0/0000:43:00.0", &card);
	taken = fake_host_take(machine);
	assert_string_equal(taken.text, "card 0000:43:00.0 kind=gpu id=1002:7408 subsystem=1002:0b0c class=038000 "
					"path=0000:40:01.1/0000:41:00.0/0000:42:00.0\n"
					"link 0000:40:01.1 lanes=16\nlink 0000:41:00.0 lanes=16\n"
					"link 0000:42:00.0 lanes=16\nlink 0000:43:00.0 lanes=16 most_generation=4\n"
					"port 0000:40:01.1 id=1022:1483 class=060400\n"
					"port 0000:41:00.0 id=1002:1478 class=060400\n"
					"port 0000:42:00.0 id=1002:1478 class=060400\n");
	fingerprint_fini(&taken);
}

/* Each: class, id, and the kind that it is taken as; NULL: not at all. */
static void only_what_nccl_uses_is_a_card(void **state)
{
	static const struct {
		const char *class_code, *id, *kind;
	} cases[] = {
		{ "0x030000\n", "10de:2204", "gpu" },      { "0x030200\n", "1234:5678", "gpu" },
		{ "0x038000\n", "1002:740f", "gpu" },      { "0x030000\n", "102b:0538", NULL },
		{ "0x030000\n", "8086:4680", NULL },       { "0x120000\n", "1da3:1020", "accelerator" },
		{ "0x020000\n", "8086:1572", "nic" },      { "0x020700\n", "15b3:1017", "nic" },
		{ "0x068000\n", "10de:22a3", "nvswitch" }, { "0x068000\n", "8086:22a3", NULL },
		{ "0x040300\n", "10de:1aef", NULL },       { "0x010802\n", "144d:a808", NULL },
		{ "0x060400\n", "10b5:8796", NULL },       { "", "10de:20b5", NULL },
		{ "nonsense\n", "10de:20b5", NULL },       { "0x1ffffffff\n", "10de:20b5", NULL },
	};
	struct tree *machine = *state;
	char expected[64];

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct fake_device device = { cases[i].id, NULL, cases[i].class_code, NULL, NULL, NULL };
		struct fingerprint taken;

		fake_host_device(machine, "pci0000:00/0000:00:05.0", &device);
		taken = fake_host_take(machine);
		snprintf(expected, sizeof(expected), "card 0000:00:05.0 kind=%s id=%s ",
			 cases[i].kind ? cases[i].kind : "", cases[i].id);
		if (cases[i].kind)
			assert_int_equal(strncmp(taken.text, expected, strlen(expected)), 0);
		else
			assert_string_equal(taken.text, "");
		fingerprint_fini(&taken);
		fake_host_unplug(machine, "pci0000:00/0000:00:05.0");
	}
}

static void virtual_functions_come_and_go_unseen(void **state)
{
	static const struct fake_device function = { "15b3:101e", "15b3:0040", "0x020000\n", "16\n", NULL, NULL };
	struct tree *machine = *state;
	struct fingerprint taken;

	fake_host_fill(machine);
	fake_host_device(machine, SWITCH "0000:18:02.0/0000:1b:00.2", &function);
	fake_host_attribute(machine, "0000:1b:00.2", "physfn", "");
	taken = fake_host_take(machine);
	assert_string_equal(taken.text, fake_host_filled);
	fingerprint_fini(&taken);
}

static void every_kernel_s_way_to_write_a_speed_is_understood(void **state)
{
	static const struct {
		const char *speed, *generation;
	} cases[] = {
		{ "2.5 GT/s\n", " generation=1" },
		{ "5 GT/s\n", " generation=2" },
		{ "5.0 GT/s PCIe\n", " generation=2" },
		{ "8 GT/s\n", " generation=3" },
		{ "8.0 GT/s PCIe\n", " generation=3" },
		{ "16 GT/s\n", " generation=4" },
		{ "32.0 GT/s PCIe\n", " generation=5" },
		{ "64.0 GT/s PCIe\n", " generation=6" },
		{ "128.0 GT/s PCIe\n", " generation=7" },
		{ "Unknown speed\n", "" },
		{ "Unknown\n", "" },
		{ "2 GT/s\n", "" },
		{ "3.0 GT/s\n", "" },
		{ "", "" },
	};
	struct tree *machine = *state;
	char expected[96];

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct fake_device nic = { "15b3:1017", "15b3:0001", "0x020000\n", "8\n", cases[i].speed, NULL };
		struct fingerprint taken;

		fake_host_device(machine, "pci0000:00/0000:00:05.0", &nic);
		taken = fake_host_take(machine);
		snprintf(expected, sizeof(expected), "\nlink 0000:00:05.0 lanes=8%s\n", cases[i].generation);
		assert_non_null(strstr(taken.text, expected));
		fingerprint_fini(&taken);
		fake_host_unplug(machine, "pci0000:00/0000:00:05.0");
	}
}

/* A card without power says 63, a virtual one 0, an old kernel has no such file. */
static void link_without_a_width_is_no_link(void **state)
{
	static const char *const widths[] = { "0\n", "63\n", "Unknown\n", "255\n", NULL };
	struct tree *machine = *state;

	for (size_t i = 0; i < COUNT(widths); i++) {
		struct fake_device card = { "10de:20b5", NULL, "0x030200\n", widths[i], "2.5 GT/s\n", "16 GT/s\n" };
		struct fingerprint taken;

		fake_host_device(machine, "pci0000:00/0000:00:05.0", &card);
		taken = fake_host_take(machine);
		assert_string_equal(taken.text,
				    "card 0000:00:05.0 kind=gpu id=10de:20b5 subsystem=0000:0000 class=030200\n");
		fingerprint_fini(&taken);
		fake_host_unplug(machine, "pci0000:00/0000:00:05.0");
	}
}

/* VMD, Hyper-V and others: long domains, and parents that are no PCI devices. */
static void unusual_places_are_understood(void **state)
{
	static const struct fake_device nic = { "15b3:1018", NULL, "0x020700\n", NULL, NULL, NULL },
					port = { "8086:2030", NULL, "0x060400\n", NULL, NULL, NULL };
	struct tree *machine = *state;
	struct fingerprint taken;

	fake_host_device(machine, "LNXSYSTM:00/VMBUS:01/47505500-0001-0000-3130-444532304235/pci6ab3:00/6ab3:00:02.0",
			 &nic);
	fake_host_device(machine, "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0", &port);
	fake_host_device(machine, "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0", &nic);
	taken = fake_host_take(machine);
	assert_string_equal(taken.text, "card 10000:e1:00.0 kind=nic id=15b3:1018 subsystem=0000:0000 class=020700 "
					"path=0000:00:0e.0/10000:e0:06.0\n"
					"card 6ab3:00:02.0 kind=nic id=15b3:1018 subsystem=0000:0000 class=020700\n"
					"port 0000:00:0e.0 id=0000:0000 class=000000\n"
					"port 10000:e0:06.0 id=8086:2030 class=060400\n");
	fingerprint_fini(&taken);
}

static void driver_s_version_is_found_in_either_place(void **state)
{
	static const struct {
		const char *text, *line;
	} cases[] = {
		{ "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
		  "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
		  "driver nvidia version=550.54.15\n" },
		{ "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\n",
		  "driver nvidia version=570.86.10\n" },
		{ "NVRM version: none\n", "" },
		{ "", "" },
	};
	struct tree *machine = *state;
	struct fingerprint taken;

	for (size_t i = 0; i < COUNT(cases); i++) {
		tree_text(machine, "proc/driver/nvidia/version", cases[i].text);
		taken = fake_host_take(machine);
		assert_string_equal(taken.text, cases[i].line);
		fingerprint_fini(&taken);
	}
	tree_text(machine, "sys/module/nvidia/version", "560.35.03\n");
	tree_text(machine, "sys/module/amdgpu/version", "6.3.6 beta\n");
	taken = fake_host_take(machine);
	assert_string_equal(taken.text, "driver amdgpu version=6.3.6_beta\ndriver nvidia version=560.35.03\n");
	fingerprint_fini(&taken);
}

static void processors_of_both_kinds_are_described(void **state)
{
	struct tree *machine = *state;
	struct fingerprint taken;

	tree_text(machine, "proc/cpuinfo",
		  "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
		  "CPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n");
	tree_text(machine, "sys/devices/system/node/online", "0,2-3\n");
	taken = fake_host_take(machine);
	assert_string_equal(taken.text, "cpu vendor=0x41 family=8 model=0xd4f domains=3\n");
	fingerprint_fini(&taken);
	tree_text(machine, "proc/cpuinfo", "vendor_id : A\tB \033\n");
	tree_text(machine, "sys/devices/system/node/online", "0-\n");
	taken = fake_host_take(machine);
	assert_string_equal(taken.text, "cpu vendor=A_B__\n");
	fingerprint_fini(&taken);
}

static void machine_of_nothing_has_no_lines(void **state)
{
	struct tree *machine = *state;
	struct fingerprint taken = fake_host_take(machine), kept = { .bytes = 5 };

	assert_int_equal(taken.bytes, 0);
	assert_string_equal(taken.text, "");
	fingerprint_fini(&taken);
	assert_int_equal(fingerprint_take("/nowhere/at/all", &kept), -ENOENT);
	assert_int_equal(kept.bytes, 5);
}

static void more_cards_than_any_machine_has_is_an_error(void **state)
{
	static const struct fake_device nic = { "15b3:1018", NULL, "0x020700\n", NULL, NULL, NULL };
	struct tree *machine = *state;
	struct fingerprint taken;
	char place[64];

	for (unsigned i = 0; i < 1025; i++) {
		snprintf(place, sizeof(place), "pci0000:00/0000:%02x:%02x.%u", i >> 8, i >> 3 & 31, i & 7);
		fake_host_device(machine, place, &nic);
	}
	assert_int_equal(fingerprint_take(machine->root, &taken), -E2BIG);
}

static void this_machine_can_be_taken(void **state)
{
	struct fingerprint here = { 0 }, again = { 0 };

	(void)state;
	assert_int_equal(fingerprint_take("", &here), 0);
	assert_int_equal(fingerprint_of_text(here.text, here.bytes, &again), 0);
	assert_string_equal(again.id, here.id);
	fingerprint_fini(&here);
	fingerprint_fini(&again);
}

#ifdef TRIBUTARY_FAULTS
static void no_memory_is_an_error_and_leaves_nothing(void **state)
{
	struct tree *machine = *state;
	struct fingerprint taken = { 0 };
	int r = -ENOMEM;

	fake_host_fill(machine);
	for (unsigned nth = 1; r; nth++) {
		assert_true(nth < 100);
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		r = fingerprint_take(machine->root, &taken);
		assert_true(!r || r == -ENOMEM);
		assert_true(!r == !!taken.text);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	fingerprint_fini(&taken);
}
#endif

#define MACHINE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_new, tree_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(cards_links_driver_and_processor_are_taken),
		MACHINE_TEST(nothing_that_names_one_machine_is_taken),
		MACHINE_TEST(speed_of_an_idle_gpu_is_not_taken),
		MACHINE_TEST(speed_of_the_ports_on_a_gpu_card_is_not_taken),
		MACHINE_TEST(only_what_nccl_uses_is_a_card),
		MACHINE_TEST(virtual_functions_come_and_go_unseen),
		MACHINE_TEST(every_kernel_s_way_to_write_a_speed_is_understood),
		MACHINE_TEST(link_without_a_width_is_no_link),
		MACHINE_TEST(unusual_places_are_understood),
		MACHINE_TEST(driver_s_version_is_found_in_either_place),
		MACHINE_TEST(processors_of_both_kinds_are_described),
		MACHINE_TEST(machine_of_nothing_has_no_lines),
		MACHINE_TEST(more_cards_than_any_machine_has_is_an_error),
		cmocka_unit_test(this_machine_can_be_taken),
#ifdef TRIBUTARY_FAULTS
		MACHINE_TEST(no_memory_is_an_error_and_leaves_nothing),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
