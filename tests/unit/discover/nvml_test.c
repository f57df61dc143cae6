/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GPU                                                                                                            \
	"gpu 3 bus=0000:17:00.0 device=0x20f110de subsystem=0x14df10de sm=80 generation=1 lanes=16 most_generation=4 " \
	"most_lanes=16 memory=42949672960 bar1=68719476736 mig=1 name=NVIDIA A100 40GB\n"
#define REST                                                                                       \
	"slice 3 index=2 gi=5 ci=-1 memory=5100273664 name=NVIDIA A100 MIG 1g.5gb\n"               \
	"nvlink 3 link=7 active=1 version=3 rate=25000000000 remote=2 bus=\n"                      \
	"gpu 4 bus=0000:18:00.0 device=0x20f110de subsystem=0x14df10de sm=0 generation=0 lanes=0 " \
	"most_generation=0 most_lanes=0 memory=0 bar1=0 mig=0 name=\n"                             \
	"p2p 3 to=4 status=chipset\np2p 4 to=3 status=works\n"

static int read_text(const char *text, struct gpu_inventory *inventory, struct diag *diag)
{
	memset(diag, 0, sizeof(*diag));
	return discover_nvml_read(text, strlen(text), inventory, diag);
}

static void every_answer_is_read(void **state)
{
	struct gpu_inventory inventory;
	const struct gpu_inventory_device *gpu;
	struct diag diag;

	(void)state;
	assert_int_equal(read_text("nvml 1\ndriver 550.54.15\n" GPU REST, &inventory, &diag), 0);
	assert_string_equal(inventory.driver, "550.54.15");
	assert_int_equal(inventory.device_count, 2);
	gpu = &inventory.devices[0];
	assert_int_equal(gpu->index, 3);
	assert_string_equal(gpu->bus_id, "0000:17:00.0");
	assert_string_equal(gpu->name, "NVIDIA A100 40GB");
	assert_int_equal(gpu->sm, 80);
	assert_int_equal(gpu->generation, 1);
	assert_int_equal(gpu->most_generation, 4);
	assert_int_equal(gpu->bar1_bytes, 68719476736);
	assert_true(gpu->mig);
	assert_int_equal(gpu->slice_count, 1);
	assert_int_equal(gpu->slices[0].index, 2);
	assert_int_equal(gpu->slices[0].compute_instance, -1);
	assert_string_equal(gpu->slices[0].name, "NVIDIA A100 MIG 1g.5gb");
	assert_int_equal(gpu->nvlink_count, 1);
	assert_int_equal(gpu->nvlinks[0].link, 7);
	assert_true(gpu->nvlinks[0].active);
	assert_int_equal(gpu->nvlinks[0].remote, 2);
	assert_string_equal(gpu->nvlinks[0].remote_bus_id, "");
	assert_int_equal(gpu_inventory_p2p(&inventory, 0, 1), GPU_NVML_P2P_CHIPSET);
	assert_int_equal(gpu_inventory_p2p(&inventory, 1, 0), GPU_NVML_P2P_OK);
	gpu_inventory_fini(&inventory);
}

static void what_is_written_reads_the_same(void **state)
{
	struct gpu_inventory inventory;
	struct diag diag;
	char *first, *second;
	size_t bytes;

	(void)state;
	assert_int_equal(read_text("nvml 1\ndriver 550.54.15\n" GPU REST, &inventory, &diag), 0);
	assert_int_equal(discover_nvml_write(&inventory, &first, &bytes), 0);
	gpu_inventory_fini(&inventory);
	assert_int_equal(read_text(first, &inventory, &diag), 0);
	assert_int_equal(discover_nvml_write(&inventory, &second, &bytes), 0);
	assert_string_equal(first, second);
	assert_non_null(strstr(first, REST));
	gpu_inventory_fini(&inventory);
	free(first);
	free(second);
}

static void words_of_later_versions_are_passed_over(void **state)
{
	struct gpu_inventory inventory;
	struct diag diag;

	(void)state;
	assert_int_equal(read_text("nvml 1\n" GPU "clock 3 sm=1410\n", &inventory, &diag), 0);
	assert_int_equal(inventory.device_count, 1);
	gpu_inventory_fini(&inventory);
}

static void a_wrong_line_is_named(void **state)
{
	static const struct {
		const char *text;
		int line;
	} cases[] = {
		{ "nvml 2\n", 1 },
		{ "nvml 1\ngpu x\n", 2 },
		{ "nvml 1\ngpu 0 bus=0000:17:00.0\n", 2 },
		{ "nvml 1\n" GPU GPU, 3 },
		{ "nvml 1\nslice 0 index=1\n", 2 },
		{ "nvml 1\n" GPU "slice 3 index=999 gi=0 ci=0 memory=0 name=x\n", 3 },
		{ "nvml 1\n" GPU "p2p 3 to=9 status=works\n", 3 },
		{ "nvml 1\n" GPU "p2p 3 to=3 status=maybe\n", 3 },
		{ "nvml 1\n" GPU "nvlink 3 link=-1 active=1 version=3 rate=0 remote=2 bus=\n", 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gpu_inventory inventory;
		struct diag diag;

		assert_int_equal(read_text(cases[i].text, &inventory, &diag), -EINVAL);
		assert_int_equal(diag.line, cases[i].line);
		assert_true(strlen(diag.text) > 20);
	}
}

static void repeated_lines_have_an_end(void **state)
{
	static const char link[] = "nvlink 3 link=1 active=1 version=3 rate=0 remote=2 bus=\n";
	size_t room = 64 * 1024;
	struct gpu_inventory inventory;
	char *text = calloc(1, room);
	struct diag diag;

	(void)state;
	assert_non_null(text);
	strcpy(text, "nvml 1\n" GPU);
	for (int i = 0; i < GPU_INVENTORY_NVLINKS_MAX; i++)
		strncat(text, link, room - strlen(text) - 1);
	assert_int_equal(read_text(text, &inventory, &diag), 0);
	gpu_inventory_fini(&inventory);
	strncat(text, link, room - strlen(text) - 1);
	assert_int_equal(read_text(text, &inventory, &diag), -EINVAL);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_answer_is_read),
		cmocka_unit_test(what_is_written_reads_the_same),
		cmocka_unit_test(words_of_later_versions_are_passed_over),
		cmocka_unit_test(a_wrong_line_is_named),
		cmocka_unit_test(repeated_lines_have_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
