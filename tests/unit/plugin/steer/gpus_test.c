/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of the machine and what computes on them, from made-up sysfs, /proc and NVML. Real MIG and MPS: not tried. */
#include "plugin/steer/evidence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "support/tree.h"
#include "unit/gpu/fake_nvml.h"
#include "unit/plugin/steer/registry_place.h"
#include "unit/profile/fake_host.h"

enum { NO_CONTAINER = 77 };

static struct steer_gpus gpus_of(const struct tree *machine)
{
	struct fingerprint now;
	struct steer_gpus gpus;

	assert_int_equal(fingerprint_take(machine->root, &now), 0);
	errno = EXDEV;
	steer_gpus_count(machine->root, &now, &gpus);
	assert_int_equal(errno, EXDEV);
	fingerprint_fini(&now);
	return gpus;
}

static void card(const struct tree *machine, const char *bus_id, const char *class, const char *vendor)
{
	char path[128];

	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/class", bus_id);
	tree_text(machine, path, class);
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/vendor", bus_id);
	tree_text(machine, path, vendor);
}

static void gpus_are_counted_as_sysfs_has_them(void **state)
{
	const struct tree *machine = *state;
	struct fingerprint text;

	assert_int_equal(gpus_of(machine).count, 0);
	card(machine, "0000:10:00.0", "0x030200\n", "0x10de\n");
	card(machine, "0000:11:00.0", "0x030000\n", "0x10de\n"); /* as a gaming card's is */
	card(machine, "0000:12:00.0", "0x030000\n", "0x1a03\n"); /* the VGA of a management processor */
	card(machine, "0000:13:00.0", "0x020000\n", "0x15b3\n");
	card(machine, "0000:14:00.0", "0x068000\n", "0x10de\n"); /* an NVSwitch */
	assert_int_equal(gpus_of(machine).count, 2);
	assert_false(gpus_of(machine).mig);
	assert_int_equal(fingerprint_of_text(fake_host_filled, strlen(fake_host_filled), &text), 0);
	assert_int_equal(fingerprint_gpu_count(&text), 2);
	fingerprint_fini(&text);
	assert_int_equal(fingerprint_of_text("cpu vendor=gpu kind=gpu\n", 24, &text), 0);
	assert_int_equal(fingerprint_gpu_count(&text), 0);
	fingerprint_fini(&text);
}

/* Laid out as the driver's documentation has it: capabilities/gpuN/mig/giN/... */
static void a_gpu_with_an_instance_is_divided(void **state)
{
	const struct tree *machine = *state;

	tree_text(machine, "proc/driver/nvidia/capabilities/mig/config", "");
	assert_false(gpus_of(machine).mig);
	tree_text(machine, "proc/driver/nvidia/capabilities/gpu0/readme", "");
	tree_text(machine, "proc/driver/nvidia/capabilities/gpu1/mig/readme", "");
	assert_false(gpus_of(machine).mig);
	tree_text(machine, "proc/driver/nvidia/capabilities/gpu1/mig/gi3/access", "");
	assert_true(gpus_of(machine).mig);
}

static void what_cannot_be_looked_at_may_be_divided(void **state)
{
	const struct tree *machine = *state;

	tree_text(machine, "proc/driver/nvidia/capabilities", "a file");
	assert_true(gpus_of(machine).mig);
}

static void a_gpu_that_cannot_be_looked_at_may_be_divided(void **state)
{
	const struct tree *machine = *state;

	tree_text(machine, "proc/driver/nvidia/capabilities/gpu0/mig", "a file");
	assert_true(gpus_of(machine).mig);
}

/* ------------------------------------------------------------------------------------------------------------------ NVML */

static bool is_initial_namespace(void)
{
	struct process_identity self;

	return process_identity(&self) == 0 && self.pid_namespace == 0xeffffffcU;
}

static struct steer_compute ask(void)
{
	struct steer_compute compute;

	memset(&compute, 0xa5, sizeof(compute));
	errno = EXDEV;
	steer_compute_ask(&compute);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(compute.known, compute.why == NULL);
	assert_int_equal(fake_nvml.opened, 0);
	return compute;
}

static int open_nvml(void **state)
{
	(void)state;
	fake_nvml_reset(2, false);
	return 0;
}

static int close_nvml(void **state)
{
	(void)state;
	fake_nvml_remove();
	return 0;
}

static void skip_in_a_container(void)
{
	if (is_initial_namespace())
		return;
	print_message("skipped: these tests are in a process id namespace of their own\n");
	skip();
}

static void in_a_container_nvml_is_not_asked(void **state)
{
	struct steer_compute compute;
	pid_t outer = fork();
	int status;

	(void)state;
	assert_true(outer >= 0);
	if (!outer) {
		if (!registry_place_contain())
			_exit(NO_CONTAINER);
		steer_compute_ask(&compute);
		_exit(compute.known || !strstr(compute.why, "in a container") || fake_nvml.calls);
	}
	assert_int_equal(waitpid(outer, &status, 0), outer);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_CONTAINER) {
		print_message("skipped: no process id namespace may be made here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void processes_are_those_that_nvml_lists(void **state)
{
	struct steer_compute compute;

	(void)state;
	skip_in_a_container();
	fake_nvml.devices[1].process_count = 2;
	fake_nvml.devices[1].processes[0] = 4711;
	fake_nvml.devices[1].processes[1] = 4712;
	compute = ask();
	assert_true(compute.known);
	assert_int_equal(compute.gpu_count, 2);
	assert_string_equal(compute.gpus[0].bus_id, "0000:1a:00.0");
	assert_string_equal(compute.gpus[1].bus_id, "0000:2a:00.0");
	assert_int_equal(compute.gpus[0].process_count, 0);
	assert_int_equal(compute.gpus[1].process_count, 2);
	assert_int_equal(compute.gpus[1].pids[1], 4712);
	assert_int_equal(compute.pid_namespace, 0xeffffffcU);
}

static void what_nvml_does_not_say_is_not_known(void **state)
{
	uint64_t calls;

	(void)state;
	skip_in_a_container();
	fake_nvml.devices[1].process_count = STEER_COMPUTE_PROCESSES_MAX + 1;
	assert_false(ask().known); /* not all are there */
	fake_nvml.devices[1].process_count = STEER_COMPUTE_PROCESSES_MAX;
	fake_nvml.calls = 0;
	assert_true(ask().known);
	calls = fake_nvml.calls;
	for (uint64_t nth = 1; nth <= calls; nth++) {
		fake_nvml.calls = 0;
		fake_nvml.fail_at = nth;
		assert_false(ask().known);
	}
	fake_nvml_reset(2, true); /* an old driver */
	assert_false(ask().known);
	fake_nvml_reset(2, false);
	fake_nvml.count = STEER_COMPUTE_GPUS_MAX + 1;
	assert_false(ask().known);
}

#define SYSFS_TEST(name) cmocka_unit_test_setup_teardown(name, tree_new, tree_free)
#define NVML_TEST(name)  cmocka_unit_test_setup_teardown(name, open_nvml, close_nvml)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSFS_TEST(gpus_are_counted_as_sysfs_has_them),
		SYSFS_TEST(a_gpu_with_an_instance_is_divided),
		SYSFS_TEST(what_cannot_be_looked_at_may_be_divided),
		SYSFS_TEST(a_gpu_that_cannot_be_looked_at_may_be_divided),
		NVML_TEST(in_a_container_nvml_is_not_asked),
		NVML_TEST(processes_are_those_that_nvml_lists),
		NVML_TEST(what_nvml_does_not_say_is_not_known),
	};

	return cmocka_run_group_tests_name("plugin/steer/gpus", tests, NULL, NULL);
}
