/* SPDX-License-Identifier: Apache-2.0 */
/* Who else used a made-up machine while it was measured. */
#include "command/measure_others.h"

#include "../gpu/fake_nvml.h"
#include "base/clock.h"
#include "base/process.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

enum { PYTHON = 4123, MAKE = 77, LATE = 5000 };

static uint64_t now_ns;

static void put_process(const struct tree *tree, unsigned pid, const char *name, unsigned ticks, unsigned start)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "proc/%u/stat", pid);
	snprintf(text, sizeof(text), "%u (%s) R 1 1 1 0 -1 4194304 1 0 0 0 %u %u 0 0 20 0 1 0 %u 1 1\n", pid, name,
		 ticks / 2, ticks - ticks / 2, start);
	tree_text(tree, path, text);
}

static void put_cpus(const struct tree *tree, unsigned busy, unsigned idle)
{
	char text[128];

	snprintf(text, sizeof(text), "cpu  %u 0 0 %u 7 0 0 0 0 0\ncpu0 1 2 3\nintr 12345\n", busy, idle);
	tree_text(tree, "proc/stat", text);
}

static void put_interface(const struct tree *tree, const char *name, const char *received, const char *sent,
			  const char *speed)
{
	char path[128];

	snprintf(path, sizeof(path), "sys/class/net/%s/statistics/rx_bytes", name);
	tree_text(tree, path, received);
	snprintf(path, sizeof(path), "sys/class/net/%s/statistics/tx_bytes", name);
	tree_text(tree, path, sent);
	snprintf(path, sizeof(path), "sys/class/net/%s/speed", name);
	tree_text(tree, path, speed);
}

static void put_quiet_machine(const struct tree *tree)
{
	put_process(tree, PYTHON, "python3 (a) b", 1000, 5);
	put_process(tree, MAKE, "make", 500, 6);
	put_process(tree, (unsigned)getpid(), "measure", 100, 7);
	put_cpus(tree, 1000, 9000);
	put_interface(tree, "eth0", "1000000", "2000000", "10000\n");
	put_interface(tree, "eth1", "5", "5", "");
	put_interface(tree, "lo", "0", "0", "");
}

static int setup(void **state)
{
	fake_nvml_reset(2, false);
	now_ns = 1000;
	clock_set_fake(&now_ns);
	return tree_new(state);
}

static int teardown(void **state)
{
	clock_set_fake(NULL);
	fake_nvml_remove();
	return tree_free(state);
}

static struct measure_others *begin(const struct tree *tree)
{
	struct measure_others *others = NULL;

	assert_int_equal(measure_others_begin(tree->root, &others), 0);
	return others;
}

/* Ten seconds later. */
static void end(struct measure_others *others, struct measure_others_uses *ret)
{
	static struct topology topology;

	now_ns += 10 * NS_PER_S;
	topology_init(&topology);
	measure_others_end(others, &topology, ret);
	topology_fini(&topology);
	measure_others_free(others);
}

static const char *text_of(const struct measure_others_uses *uses, const char *subject)
{
	for (size_t i = 0; i < uses->count; i++)
		if (!strcmp(uses->items[i].subject, subject))
			return uses->items[i].text;
	fail_msg("no use of %s", subject);
	return NULL;
}

/* The measurement's own time is not of others, nor is what trickles through an interface. */
static void machine_that_nobody_else_uses_says_nothing(void **state)
{
	const struct tree *tree = *state;
	struct measure_others_uses uses;
	struct measure_others *others;
	char subjects[64] = "x";

	put_quiet_machine(tree);
	others = begin(tree);
	put_process(tree, (unsigned)getpid(), "measure", 1100, 7);
	put_process(tree, PYTHON, "python3 (a) b", 1010, 5);
	put_cpus(tree, 2020, 9980);
	put_interface(tree, "eth0", "101000000", "2000000", "10000\n");
	put_interface(tree, "lo", "9000000000", "9000000000", "");
	end(others, &uses);
	assert_int_equal(uses.count, 0);
	measure_others_subjects(&uses, subjects, sizeof(subjects));
	assert_string_equal(subjects, "");
}

static void processes_that_took_cpu_time_are_named_the_largest_first(void **state)
{
	const struct tree *tree = *state;
	struct measure_others_uses uses;
	struct measure_others *others;

	put_quiet_machine(tree);
	others = begin(tree);
	put_process(tree, (unsigned)getpid(), "measure", 1100, 7);
	put_process(tree, PYTHON, "python3 (a) b", 1200, 5);
	put_process(tree, MAKE, "cc1", 300, 100); /* the same number, another process */
	put_cpus(tree, 2500, 9500);
	end(others, &uses);
	assert_int_equal(uses.count, 1);
	assert_string_equal(text_of(&uses, "the CPUs"),
			    "25 % of their time went to other processes: cc1 (process 77) 15 %, "
			    "python3 (a) b (process 4123) 10 %");
}

static void bytes_through_an_interface_are_counted(void **state)
{
	const struct tree *tree = *state;
	struct measure_others_uses uses;
	struct measure_others *others;
	char subjects[64];

	put_quiet_machine(tree);
	others = begin(tree);
	put_interface(tree, "eth0", "1251000000", "2000000", "10000\n");
	put_interface(tree, "eth1", "5", "200000005", "");
	end(others, &uses);
	assert_int_equal(uses.count, 2);
	assert_string_equal(text_of(&uses, "eth0"), "received 1.164 GiB and sent 0 B that are not of this measurement, "
						    "1 Gbit/s and 0 Mbit/s");
	measure_others_subjects(&uses, subjects, sizeof(subjects));
	assert_string_equal(subjects, "eth0 and eth1");
}

/* Those that were there before, and those that came; not this process. */
static void processes_on_a_gpu_are_named(void **state)
{
	const struct tree *tree = *state;
	struct process_identity self;
	struct measure_others_uses uses;
	struct measure_others *others;

	put_quiet_machine(tree);
	fake_nvml.devices[0].process_count = 1;
	fake_nvml.devices[0].processes[0] = PYTHON;
	others = begin(tree);
	put_process(tree, LATE, "train", 1, 9);
	fake_nvml.devices[0].process_count = 2;
	fake_nvml.devices[0].processes[1] = (unsigned)getpid();
	fake_nvml.devices[1].process_count = 1;
	fake_nvml.devices[1].processes[0] = LATE;
	end(others, &uses);
	if (process_identity(&self) < 0 || self.pid_namespace != 0xeffffffc) {
		assert_int_equal(uses.count, 0);
		print_message("skipped: in a container NVML's process ids mean nothing\n");
		skip();
	}
	assert_int_equal(uses.count, 2);
	assert_string_equal(uses.items[0].text, "has a context of python3 (a) b (process 4123)");
	assert_string_equal(uses.items[1].text, "has a context of train (process 5000)");
}

/* What a system hides is not used by others, as far as anybody can tell. */
static void empty_machine_is_no_error(void **state)
{
	struct measure_others_uses uses;

	end(begin(*state), &uses);
	assert_int_equal(uses.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(machine_that_nobody_else_uses_says_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_that_took_cpu_time_are_named_the_largest_first, setup,
						teardown),
		cmocka_unit_test_setup_teardown(bytes_through_an_interface_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_on_a_gpu_are_named, setup, teardown),
		cmocka_unit_test_setup_teardown(empty_machine_is_no_error, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
