/* SPDX-License-Identifier: Apache-2.0 */
/* How GPUs and network cards are joined, as a number: of machines made up in a folder. */
#include "plugin/steer/wiring.h"

#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define PCI "/sys/devices/pci0000:"
static const char *const gpus[] = { "0000:10:00.0", "0000:20:00.0" };
static const char *const cards[] = { PCI "0a/0000:0a:01.0/0000:11:00.0", PCI "0b/0000:0b:01.0/0000:21:00.0" };

/* Each GPU in a folder of its own; the cards' NUMA nodes are 0 and 1. */
static void machine(struct tree *tree, const char *const *folders, const char *const *nodes)
{
	char path[256], target[256];

	tree_open(tree);
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "sys/devices/%s/numa_node", folders[i]);
		tree_text(tree, path, nodes[i]);
		snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", gpus[i]);
		snprintf(target, sizeof(target), "%s/sys/devices/%s", tree->root, folders[i]);
		tree_link(tree, path, target);
		snprintf(path, sizeof(path), "%s/numa_node", cards[i] + 1);
		tree_text(tree, path, i ? "1\n" : "0\n");
	}
}

static uint64_t number_of(const char *const *folders, const char *const *nodes, size_t gpu_count, size_t card_count)
{
	struct tree tree;
	uint64_t number;

	machine(&tree, folders, nodes);
	number = wiring_number(tree.root, gpus, gpu_count, cards, card_count);
	tree_close(&tree);
	return number;
}

static const char *const apart[] = { "pci0000:0a/0000:0a:02.0/0000:10:00.0", "pci0000:0b/0000:0b:02.0/0000:20:00.0" };
static const char *const together[] = { "pci0000:0a/0000:0a:02.0/0000:10:00.0",
					"pci0000:0a/0000:0a:03.0/0000:20:00.0" };
/* The same as apart, with other numbers; and with a GPU and a card behind one port. */
static const char *const renamed[] = { "pci0000:1c/0000:1c:02.0/0000:10:00.0", "pci0000:1d/0000:1d:02.0/0000:20:00.0" };
static const char *const behind[] = { "pci0000:0a/0000:0a:01.0/0000:10:00.0", "pci0000:0b/0000:0b:02.0/0000:20:00.0" };
static const char *const deeper[] = { "pci0000:0a/0000:0a:01.0/0000:12:00.0/0000:10:00.0",
				      "pci0000:0b/0000:0b:02.0/0000:20:00.0" };
static const char *const both[] = { "0\n", "1\n" }, *const first[] = { "0\n", "0\n" };

static void machines_of_one_kind_have_one_number(void **state)
{
	const uint64_t number = number_of(apart, both, 2, 2);

	(void)state;
	assert_true(number >= WIRING_OTHERS);
	assert_int_equal(number_of(apart, both, 2, 2), number);
	assert_int_equal(number_of(renamed, both, 2, 2), number);
}

static void unlike_machines_have_others(void **state)
{
	const uint64_t numbers[] = { number_of(apart, both, 2, 2),  number_of(together, first, 2, 2),
				     number_of(behind, both, 2, 2), number_of(deeper, both, 2, 2),
				     number_of(apart, both, 1, 2),  number_of(apart, both, 0, 2) };

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(numbers[i], numbers[k]);
}

/* One card, or one GPU, has all the channels; and who knows no GPUs agrees with all. */
static void where_nothing_can_differ_it_is_one_number(void **state)
{
	static const char *const nowhere[] = { NULL, NULL };

	(void)state;
	assert_int_equal(number_of(apart, both, 2, 1), WIRING_ONE_HEAD);
	assert_int_equal(number_of(together, first, 1, 1), WIRING_ONE_HEAD);
	assert_int_equal(wiring_number("", gpus, 2, nowhere, 0), WIRING_ONE_HEAD);
	assert_int_equal(number_of(apart, both, 1, 2), WIRING_ONE_HEAD);
	assert_int_equal(number_of(together, first, 1, 2), WIRING_ONE_HEAD);
	assert_int_equal(number_of(apart, both, 0, 2), WIRING_UNKNOWN);
	/* Cards that are no PCI devices, and GPUs that sysfs does not have. */
	assert_true(wiring_number("", gpus, 2, nowhere, 2) >= WIRING_OTHERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(machines_of_one_kind_have_one_number),
		cmocka_unit_test(unlike_machines_have_others),
		cmocka_unit_test(where_nothing_can_differ_it_is_one_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
