/* SPDX-License-Identifier: Apache-2.0 */
/* The built program's `measure`, on a simulated machine and on this one's memory. */
#include "command/command.h"

#include "program.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char text[1 << 20];

static void write_machine(const char *folder, const char *name, const char *content)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	tree_put(path, content);
}

/* A folder with a machine whose first GPU's link is a quarter slower than it ought to be. */
static void make_machine(char *folder, size_t folder_bytes)
{
	static const char machine[] =
		"tributary-topology 1\n"
		"vertex cpu cpu0 numa=0 architecture=x86_64 cpu_vendor=GenuineIntel cpu_family=6 cpu_model=85 affinity=3\n"
		"vertex memory memory0 numa=0\n"
		"vertex gpu gpu0 bus=0000:02:00.0 index=0\n"
		"vertex gpu gpu1 bus=0000:03:00.0 index=1\n"
		"vertex switch switch:0000:01:00.0 bus=0000:01:00.0\n"
		"link memory memory0 cpu0\n"
		"link pci gpu0 switch:0000:01:00.0 nominal_Bps=24000000000\n"
		"link pci gpu1 switch:0000:01:00.0 nominal_Bps=24000000000\n"
		"link pci switch:0000:01:00.0 cpu0 nominal_Bps=48000000000\n"
		"rate memory0>cpu0 150000000000 measured\nrate cpu0>memory0 120000000000 measured\n"
		"rate gpu0>switch:0000:01:00.0 18000000000 measured\n"
		"rate switch:0000:01:00.0>gpu0 18500000000 measured\n"
		"rate gpu1>switch:0000:01:00.0 22000000000 measured\n"
		"rate switch:0000:01:00.0>gpu1 22500000000 measured\n"
		"rate switch:0000:01:00.0>cpu0 44000000000 measured\n"
		"rate cpu0>switch:0000:01:00.0 45000000000 measured\n";

	snprintf(folder, folder_bytes, "%s", program_folder());
	write_machine(folder, "machine.topology", machine);
	write_machine(folder, "rules", "noise 0.01\n");
}

static double rate_of(json_t *value, const char *lower, const char *direction)
{
	size_t index;
	json_t *link;

	json_array_foreach(json_object_get(value, "links"), index, link)
	{
		json_t *capacity = json_object_get(link, direction);

		if (strcmp(json_string_value(json_object_get(link, "lower")), lower) != 0)
			continue;
		assert_string_equal(json_string_value(json_object_get(capacity, "provenance")), "measured");
		return json_number_value(json_object_get(capacity, "rate_Bps"));
	}
	fail_msg("no link of %s", lower);
	return 0;
}

static void simulated_machine_is_measured_and_its_profile_can_be_shown(void **state)
{
	char folder[64], call[512];
	json_t *value;

	(void)state;
	make_machine(folder, sizeof(folder));
	snprintf(call, sizeof(call), "measure --simulate %s --output %s/profile --json", folder, folder);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	value = json_loads(text, 0, NULL);
	assert_non_null(value);
	assert_true(rate_of(value, "gpu0", "up") > 17.4e9 && rate_of(value, "gpu0", "up") < 18.6e9);
	assert_true(rate_of(value, "gpu1", "down") > 21.8e9 && rate_of(value, "gpu1", "down") < 23.2e9);
	assert_true(json_is_null(json_object_get(value, "no_gpu")));
	json_decref(value);
	snprintf(call, sizeof(call), "show --profile %s/profile", folder);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "links measured"));
	snprintf(call, sizeof(call), "export --profile %s/profile --output %s/topology.xml", folder, folder);
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "NCCL will be off by at most"));
	snprintf(call, sizeof(call), "lint %s/topology.xml --profile %s/profile", folder, folder);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
}

/* Every machine has a cpu0 and a memory0: that they are alike says nothing. */
static void profile_of_another_machine_is_refused_with_the_reason(void **state)
{
	char folder[64], call[512];

	(void)state;
	make_machine(folder, sizeof(folder));
	snprintf(call, sizeof(call), "measure --quick --simulate %s --output %s/foreign", folder, folder);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	snprintf(call, sizeof(call), "doctor --profile %s/foreign", folder);
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "does not belong to this machine: it is of another machine: "));

	snprintf(call, sizeof(call), "show --from %s/machine.topology --profile %s/foreign", folder, folder);
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, "");

	write_machine(folder, "less.topology",
		      "tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex memory memory0 numa=0\n"
		      "vertex gpu gpu0 bus=0000:02:00.0 index=0\nvertex switch switch:0000:01:00.0 bus=0000:01:00.0\n"
		      "link memory memory0 cpu0\nlink pci gpu0 switch:0000:01:00.0\n"
		      "link pci switch:0000:01:00.0 cpu0\n");
	snprintf(call, sizeof(call), "doctor --from %s/less.topology --profile %s/foreign", folder, folder);
	(void)program_run(call, PROGRAM_STDERR, text, sizeof(text));
	assert_non_null(strstr(text, "2 of 8 measured rates are of links that are not here, and are left out"));

	/* Another device in the place of a card that was measured. */
	write_machine(folder, "other.topology",
		      "tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex memory memory0 numa=0\n"
		      "vertex gpu gpu0 bus=0000:01:00.0 index=0\nlink memory memory0 cpu0\nlink pci gpu0 cpu0\n");
	snprintf(call, sizeof(call), "doctor --from %s/other.topology --profile %s/foreign", folder, folder);
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "none of the cards that were measured is there"));
}

/* A run takes two seconds here, and there are four. What an earlier measurement found stays. */
static void too_little_time_leaves_the_profile_alone(void **state)
{
	char folder[64], call[512];

	(void)state;
	make_machine(folder, sizeof(folder));
	snprintf(call, sizeof(call), "measure --simulate %s --output %s/kept", folder, folder);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	write_machine(folder, "rules", "overhead-ns 2000000000\n");
	strcat(call, " --seconds 4");
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "nothing was measured, and no profile is written: give it more --seconds"));
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_FAILED);
	assert_null(strstr(text, "profile:"));
	snprintf(call, sizeof(call), "show --profile %s/kept", folder);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "links measured"));
}

static void table_says_what_limits_each_link(void **state)
{
	char folder[64], call[256], *line;

	(void)state;
	make_machine(folder, sizeof(folder));
	snprintf(call, sizeof(call), "measure --quick --simulate %s", folder);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	line = strstr(text, "\ngpu0>switch:0000:01:00.0 ");
	assert_non_null(line);
	line[1 + strcspn(line + 1, "\n")] = '\0';
	assert_non_null(strstr(line, "24.0"));
	assert_non_null(strstr(line, "75 %"));
	assert_non_null(strstr(line, "itself"));
	/* A simulated machine is nobody's profile. */
	assert_null(strstr(text, "profile:"));
}

static int open_terminal(char *name, size_t name_bytes)
{
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || grantpt(fd) || unlockpt(fd) || ptsname_r(fd, name, name_bytes)) {
		print_message("skipped: there is no pseudo-terminal to be had\n");
		skip();
	}
	return fd;
}

/* With path "" it measures if nothing fits. */
static pid_t start(const char *path, const char *terminal)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		int fd = open(terminal, O_WRONLY | O_NOCTTY | O_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (fd < 0 || null < 0 || dup2(fd, 2) < 0 || dup2(null, 1) < 0)
			_exit(120);
		if (*path)
			execl(program_path(), "tributary", "measure", "--seconds", "60", "--output", path,
			      (char *)NULL);
		else
			execl(program_path(), "tributary", "measure", "--seconds", "60", "--if-missing", (char *)NULL);
		_exit(121);
	}
	return child;
}

/* Reads what the program writes to its terminal until `wanted` is there; false at the end. */
static bool read_until(int fd, const char *wanted)
{
	size_t bytes = strlen(text);
	ssize_t n;

	while (!strstr(text, wanted)) {
		n = read(fd, text + bytes, sizeof(text) - 1 - bytes);
		if (n <= 0)
			return false;
		bytes += (size_t)n;
		text[bytes] = '\0';
	}
	return true;
}

/* Interrupts a measurement, as start() starts it, that will then write this. */
static void interrupt(const char *path, const char *told)
{
	char terminal[64];
	int fd, status, again;
	pid_t child;

	if (!program_path()[0]) {
		print_message("skipped: no program in TRIBUTARY_BUILD\n");
		skip();
	}
	fd = open_terminal(terminal, sizeof(terminal));
	again = open(terminal,
		     O_RDWR | O_NOCTTY | O_CLOEXEC); /* or reading would fail before the child has opened it */
	assert_true(again >= 0);
	text[0] = '\0';
	setenv("TERM", "xterm", 1); /* without one there is no bar */
	child = start(path, terminal);
	assert_true(read_until(fd, "] 8 of ")); /* the bar, when eight runs are done */
	close(again);                           /* from here on the end of the child is the end of what it writes */
	assert_int_equal(kill(child, SIGINT), 0);
	assert_true(read_until(fd, told));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), COMMAND_FAILED);
	close(fd);
}

static void interrupted_measurement_keeps_what_is_known(void **state)
{
	char path[256], call[512];

	(void)state;
	snprintf(path, sizeof(path), "%s/interrupted", program_folder());
	interrupt(path, "interrupted: what was known by then is kept");
	snprintf(call, sizeof(call), "show --profile %s", path);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
}

static void machine_is_measured_only_if_its_profile_is_missing(void **state)
{
	char folder[128], path[512], nothing[640];

	(void)state;
	snprintf(folder, sizeof(folder), "%s/state", program_folder());
	setenv("TRIBUTARY_STATE_DIR", folder, 1);
	interrupt("", "interrupted: nothing is kept");
	assert_int_equal(program_run("measure --if-missing", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_int_equal(sscanf(strstr(text, "profile: "), "profile: %511s", path), 1);
	snprintf(nothing, sizeof(nothing), "Nothing to measure: %s fits this machine.\n", path);
	assert_int_equal(program_run("measure --if-missing", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, nothing);
	/* Of another machine, or damaged. */
	tree_put(path, "tributary-profile 2\n");
	assert_int_equal(program_run("measure --if-missing", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_string_not_equal(text, nothing);
	assert_int_equal(program_run("measure --if-missing", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, nothing);
	assert_int_equal(program_run("measure --if-missing --output x", PROGRAM_STDERR, text, sizeof(text)),
			 COMMAND_USAGE);
	assert_non_null(strstr(text, "--if-missing and --output exclude each other"));
	unsetenv("TRIBUTARY_STATE_DIR");
}

static void cluster_file_goes_into_the_profile(void **state)
{
	char folder[64], call[512], path[128];
	size_t bytes;
	FILE *file;

	(void)state;
	make_machine(folder, sizeof(folder));
	snprintf(call, sizeof(call),
		 "measure --simulate %s --output %s/profile --cluster '%s/topo/clusters/slurm-topology.conf'", folder,
		 folder, program_source());
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	snprintf(path, sizeof(path), "%s/profile", folder);
	file = fopen(path, "re");
	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	text[bytes] = '\0';
	fclose(file);
	assert_int_equal(strncmp(text, "tributary-profile 2\n", 20), 0);
	assert_non_null(strstr(text, "\ntributary-cluster 1\nswitch spine\n"));
	assert_non_null(strstr(text, "\nhost node[001-016] leaf=leaf1\n"));
	/* Nothing is measured when the file is wrong. */
	snprintf(call, sizeof(call), "measure --simulate %s --cluster %s/rules", folder, folder);
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "/rules:1:1: expected tributary-cluster 1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(simulated_machine_is_measured_and_its_profile_can_be_shown),
		cmocka_unit_test(profile_of_another_machine_is_refused_with_the_reason),
		cmocka_unit_test(cluster_file_goes_into_the_profile),
		cmocka_unit_test(too_little_time_leaves_the_profile_alone),
		cmocka_unit_test(table_says_what_limits_each_link),
		cmocka_unit_test(interrupted_measurement_keeps_what_is_known),
		cmocka_unit_test(machine_is_measured_only_if_its_profile_is_missing),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
