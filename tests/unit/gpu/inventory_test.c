/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/inventory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "unit/gpu/fake_nvml.h"

static int tear_down(void **state)
{
	(void)state;
	fake_nvml_remove();
	return fake_nvml.opened; /* every open has its close */
}

static int read_all(struct gpu_inventory *ret, struct diag *diag)
{
	const struct gpu_nvml *nvml;
	int r = gpu_nvml_open(&nvml, diag);

	if (r < 0)
		return r;
	r = gpu_inventory_read(nvml, ret, diag);
	gpu_nvml_close(nvml);
	return r;
}

static void plain_gpus_are_read_as_nvml_says(void **state)
{
	struct gpu_inventory inventory;
	const struct gpu_inventory_device *device;
	struct diag diag;

	(void)state;
	fake_nvml_reset(2, false);
	fake_nvml.p2p[0][1][0] = GPU_NVML_P2P_IOH;
	fake_nvml.p2p[1][0][1] = GPU_NVML_P2P_REGKEY;
	assert_int_equal(read_all(&inventory, &diag), 0);
	assert_string_equal(inventory.driver, "550.54.15");
	assert_int_equal(inventory.device_count, 2);
	device = &inventory.devices[1];
	assert_int_equal(device->index, 1);
	assert_string_equal(device->bus_id, "0000:2a:00.0");
	assert_string_equal(device->name, "NVIDIA Test GPU");
	assert_int_equal(device->pci_device_id, 0x233010de);
	assert_int_equal(device->sm, 90);
	assert_int_equal(device->generation, 1);
	assert_int_equal(device->lanes, 16);
	assert_int_equal(device->most_generation, 5);
	assert_int_equal(device->most_lanes, 16);
	assert_int_equal(device->memory_bytes, UINT64_C(80) << 30);
	assert_int_equal(device->bar1_bytes, UINT64_C(128) << 30);
	assert_false(device->mig);
	assert_int_equal(device->nvlink_count, 0);
	assert_int_equal(gpu_inventory_p2p(&inventory, 0, 0), GPU_NVML_P2P_OK);
	assert_int_equal(gpu_inventory_p2p(&inventory, 0, 1), GPU_NVML_P2P_IOH);
	assert_int_equal(gpu_inventory_p2p(&inventory, 1, 0), GPU_NVML_P2P_REGKEY);
	assert_int_equal(gpu_inventory_p2p(&inventory, 0, 2), GPU_NVML_P2P_UNKNOWN);
	gpu_inventory_fini(&inventory);
	assert_int_equal(inventory.device_count, 0);
}

static void bus_ids_have_large_domains_and_functions(void **state)
{
	struct gpu_inventory inventory;
	struct diag diag;

	(void)state;
	fake_nvml_reset(2, false);
	fake_nvml.devices[0].pci.domain = 0x10000;
	strcpy(fake_nvml.devices[0].pci.bus_id, "00010000:1A:00.3");
	fake_nvml.devices[1].pci.domain = 0xabcdef12;
	memset(fake_nvml.devices[1].pci.bus_id, 'x', sizeof(fake_nvml.devices[1].pci.bus_id)); /* no NUL, no dot */
	assert_int_equal(read_all(&inventory, &diag), 0);
	assert_string_equal(inventory.devices[0].bus_id, "10000:1a:00.3");
	assert_string_equal(inventory.devices[1].bus_id, "abcdef12:2a:00.0");
	gpu_inventory_fini(&inventory);
}

static void nvlinks_are_read_until_nvml_says_that_there_are_no_more(void **state)
{
	struct gpu_inventory inventory;
	struct gpu_nvml_device *gpu;
	const struct gpu_inventory_nvlink *links;
	struct diag diag;

	(void)state;
	fake_nvml_reset(2, false);
	gpu = &fake_nvml.devices[0];
	gpu->link_count = 5;
	gpu->links[0].active = true;
	gpu->links[0].remote = GPU_NVML_REMOTE_GPU;
	gpu->links[0].remote_pci = fake_nvml.devices[1].pci;
	gpu->links[0].version = 4;
	gpu->links[0].speed_MBps = 26562;
	gpu->links[1].absent = true;
	/* links[2] is wired and not trained */
	gpu->links[3].active = true;
	gpu->links[3].remote = GPU_NVML_REMOTE_SWITCH;
	gpu->links[3].remote_pci.domain = UINT32_MAX; /* hidden from a guest */
	gpu->links[4].active = true;
	gpu->links[4].remote = 255;
	gpu->links[4].remote_pci.bus = 0xffff;
	assert_int_equal(read_all(&inventory, &diag), 0);
	assert_int_equal(inventory.devices[0].nvlink_count, 4);
	links = inventory.devices[0].nvlinks;
	assert_int_equal(links[0].link, 0);
	assert_true(links[0].active);
	assert_int_equal(links[0].remote, GPU_NVML_REMOTE_GPU);
	assert_string_equal(links[0].remote_bus_id, "0000:2a:00.0");
	assert_int_equal(links[0].version, 4);
	assert_int_equal(links[0].rate_Bps, UINT64_C(26562000000));
	assert_int_equal(links[1].link, 2);
	assert_false(links[1].active);
	assert_int_equal(links[1].remote, -1);
	assert_int_equal(links[2].remote, GPU_NVML_REMOTE_SWITCH);
	assert_string_equal(links[2].remote_bus_id, "");
	assert_string_equal(links[3].remote_bus_id, "");
	assert_int_equal(inventory.devices[1].nvlink_count, 0);
	gpu_inventory_fini(&inventory);
}

static void slices_of_a_gpu_in_mig_mode_are_listed(void **state)
{
	static struct gpu_nvml_device slices[2] = {
		{ .name = "MIG 3g.40gb", .gpu_instance = 2, .memory_bytes = UINT64_C(40) << 30 },
		{ .name = "MIG 1g.10gb", .gpu_instance = 9, .compute_instance = 1, .memory_bytes = UINT64_C(10) << 30 },
	};
	struct gpu_inventory inventory;
	const struct gpu_inventory_device *device;
	struct diag diag;

	(void)state;
	fake_nvml_reset(1, false);
	fake_nvml.devices[0].mig = true;
	fake_nvml.devices[0].slices[0] = &slices[0];
	fake_nvml.devices[0].slices[3] = &slices[1];
	assert_int_equal(read_all(&inventory, &diag), 0);
	device = &inventory.devices[0];
	assert_true(device->mig);
	assert_int_equal(device->slice_count, 2);
	assert_string_equal(device->slices[0].name, "MIG 3g.40gb");
	assert_int_equal(device->slices[1].index, 3);
	assert_int_equal(device->slices[1].gpu_instance, 9);
	assert_int_equal(device->slices[1].compute_instance, 1);
	assert_int_equal(device->slices[1].memory_bytes, UINT64_C(10) << 30);
	gpu_inventory_fini(&inventory);
}

static void a_lost_gpu_is_left_out_and_the_others_keep_their_numbers(void **state)
{
	struct gpu_inventory inventory;
	struct diag diag;

	(void)state;
	fake_nvml_reset(3, false);
	fake_nvml.devices[1].lost = true;
	fake_nvml.p2p[0][2][0] = GPU_NVML_P2P_CHIPSET;
	assert_int_equal(read_all(&inventory, &diag), 0);
	assert_int_equal(inventory.device_count, 2);
	assert_int_equal(inventory.devices[1].index, 2);
	assert_int_equal(gpu_inventory_p2p(&inventory, 0, 1), GPU_NVML_P2P_CHIPSET);
	gpu_inventory_fini(&inventory);
}

static void what_an_old_library_lacks_is_not_known(void **state)
{
	struct gpu_inventory inventory;
	struct diag diag;

	(void)state;
	fake_nvml_reset(2, true);
	assert_int_equal(read_all(&inventory, &diag), 0);
	assert_int_equal(inventory.device_count, 2);
	assert_int_equal(inventory.devices[0].sm, 0);
	assert_int_equal(inventory.devices[0].generation, 0);
	assert_int_equal(inventory.devices[0].bar1_bytes, 0);
	assert_int_equal(gpu_inventory_p2p(&inventory, 0, 1), GPU_NVML_P2P_UNKNOWN);
	gpu_inventory_fini(&inventory);
}

static void a_machine_without_gpus_has_an_empty_inventory(void **state)
{
	struct gpu_inventory inventory;
	struct diag diag;

	(void)state;
	fake_nvml_reset(0, false);
	assert_int_equal(read_all(&inventory, &diag), 0);
	assert_int_equal(inventory.device_count, 0);
	gpu_inventory_fini(&inventory);
}

static void a_library_that_does_not_start_says_why(void **state)
{
	static const struct {
		int init, count, result;
		const char *text;
	} cases[] = {
		{ GPU_NVML_DRIVER_NOT_LOADED, 0, -ENODEV, "the kernel's NVIDIA driver is not loaded" },
		{ GPU_NVML_VERSION_MISMATCH, 0, -ENODEV,
		  "libnvidia-ml.so.1 and the kernel's NVIDIA driver are of different versions" },
		{ 999, 0, -ENODEV, "NVML does not start: Unknown Error (999)" },
		{ 998, 0, -ENODEV, "NVML does not start: an NVML error without a name (998)" },
		{ 0, 999, -EIO, "NVML does not count the GPUs: Unknown Error (999)" },
	};
	struct gpu_inventory inventory;
	struct diag diag;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_nvml_reset(1, false);
		fake_nvml.init_result = cases[i].init;
		fake_nvml.count_result = cases[i].count;
		assert_int_equal(read_all(&inventory, &diag), cases[i].result);
		assert_string_equal(diag.text, cases[i].text);
		assert_int_equal(fake_nvml.opened, 0);
	}
}

static void whichever_call_fails_the_rest_is_read(void **state)
{
	static struct gpu_nvml_device slice = { .name = "MIG 7g.80gb" };
	uint64_t calls = 1;

	(void)state;
	for (uint64_t n = 0; n <= calls; n++) {
		struct gpu_inventory inventory;
		struct diag diag;

		fake_nvml_reset(2, false);
		fake_nvml.devices[0].link_count = 1;
		fake_nvml.devices[0].links[0].active = true;
		fake_nvml.devices[1].mig = true;
		fake_nvml.devices[1].slices[2] = &slice;
		fake_nvml.fail_at = n;
		if (!read_all(&inventory, &diag)) {
			/* At most one GPU is missing. */
			assert_in_range(inventory.device_count, 1, 2);
			gpu_inventory_fini(&inventory);
		} else {
			assert_in_range(n, 1, 2); /* to start, and to count */
		}
		if (!n)
			calls = fake_nvml.calls;
		assert_int_equal(fake_nvml.opened, 0);
	}
	assert_true(calls > 30);
}

static void every_p2p_status_has_a_word_of_its_own(void **state)
{
	(void)state;
	for (int a = 0; a < GPU_NVML_P2P_COUNT; a++)
		for (int b = 0; b < a; b++)
			assert_string_not_equal(gpu_inventory_p2p_word((enum gpu_nvml_p2p)a),
						gpu_inventory_p2p_word((enum gpu_nvml_p2p)b));
	assert_string_equal(gpu_inventory_p2p_word(GPU_NVML_P2P_COUNT), "unknown");
}

/* The real library, or its real absence. */
static void the_real_library_opens_or_says_why_not(void **state)
{
	const struct gpu_nvml *nvml = NULL;
	struct diag diag = { .text = "" };
	int r;

	(void)state;
	gpu_nvml_set_table(NULL);
	r = gpu_nvml_open(&nvml, &diag);
	assert_true(r ? diag.text[0] && !nvml : nvml != NULL);
	if (!r)
		gpu_nvml_close(nvml);
	gpu_nvml_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(plain_gpus_are_read_as_nvml_says, tear_down),
		cmocka_unit_test_teardown(bus_ids_have_large_domains_and_functions, tear_down),
		cmocka_unit_test_teardown(nvlinks_are_read_until_nvml_says_that_there_are_no_more, tear_down),
		cmocka_unit_test_teardown(slices_of_a_gpu_in_mig_mode_are_listed, tear_down),
		cmocka_unit_test_teardown(a_lost_gpu_is_left_out_and_the_others_keep_their_numbers, tear_down),
		cmocka_unit_test_teardown(what_an_old_library_lacks_is_not_known, tear_down),
		cmocka_unit_test_teardown(a_machine_without_gpus_has_an_empty_inventory, tear_down),
		cmocka_unit_test_teardown(a_library_that_does_not_start_says_why, tear_down),
		cmocka_unit_test_teardown(whichever_call_fails_the_rest_is_read, tear_down),
		cmocka_unit_test(every_p2p_status_has_a_word_of_its_own),
		cmocka_unit_test(the_real_library_opens_or_says_why_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
