/* SPDX-License-Identifier: Apache-2.0 */
/* The built program, and the files that its commands read and write: missing, unwritable, standard input, folders. */
#include "command/command.h"

#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 20 };

static char text[TEXT_BYTES], other[TEXT_BYTES];

/* $S and $F in a command line are the repository and a folder of this test's own. */
static int find(void **state)
{
	int r = program_find(state);

	setenv("S", program_source(), 1);
	setenv("F", program_folder(), 1);
	return r;
}

#define MACHINE "--from $S/topo/single-root-4gpu"
#define FABRIC  "--fabric leaf-spine:2x2,8Gbit/s"

/* All commands that read a file, $X. */
static const char *const readers[] = {
	"discover --from $X",
	"show --from $X",
	"show --profile $X",
	"doctor --from $X",
	"doctor --profile $X",
	"plan --from $X",
	"plan " MACHINE " --compare $X",
	"plan " MACHINE " --profile $X",
	"explain --from $X",
	"explain " MACHINE " --compare $X",
	"explain " MACHINE " --hosts 2 --cluster $X",
	"tune --from $X",
	"tune " MACHINE " --hosts 2 --cluster $X",
	"export --from $X",
	"export --graph-json --cluster $X",
	"cluster show $X",
	"cluster order $X",
	"cluster order " FABRIC " --hostfile $X",
	"simulate --cluster $X",
	"simulate " FABRIC " --order $X",
	"simulate " FABRIC " --from $X",
	"simulate " FABRIC " --profile $X",
	"simulate " FABRIC " " MACHINE " --graph $X",
	"estimate $X --system $S/tests/fixtures/estimate/system-8.json " FABRIC,
	"estimate $S/tests/fixtures/estimate/layers.json --system $X " FABRIC,
	"place --cluster $X host:1",
	"place --from $X host:1",
	"place --jobs $X " MACHINE,
	"lint $X",
	"lint $S/topo/README.md --profile $X",
	"measure --cluster $X",
	"measure --simulate $X",
	"aggregators --cluster $X",
	"report $X",
	"tune --install $X",
};
enum { READERS = sizeof(readers) / sizeof(readers[0]) };

static bool is_one_line(void)
{
	return text[0] && strchr(text, '\n') == text + strlen(text) - 1;
}

/* One sentence, with the path and the system's reason, whichever command and option it is. */
static void a_missing_file_is_said_in_one_way(void **state)
{
	char path[128], expected[256];

	(void)state;
	snprintf(path, sizeof(path), "%s/none", program_folder());
	snprintf(expected, sizeof(expected), "tributary: \"%s\" cannot be read: No such file or directory", path);
	setenv("X", path, 1);
	for (size_t i = 0; i < READERS; i++) {
		int status = program_run(readers[i], "2>&1", text, sizeof(text));
		const char *after = text + strlen(expected);

		if (status != COMMAND_FAILED || strncmp(text, expected, strlen(expected)) != 0 ||
		    (*after != '\n' && strncmp(after, "; ", 2) != 0) || !is_one_line())
			fail_msg("%s: %d: %s", readers[i], status, text);
	}
}

/* A folder, a device that never ends, a file longer than any of its kind: refused by name, at once and in little memory. */
static void what_is_no_file_of_any_kind_is_refused_at_once(void **state)
{
	const struct rlimit cpu = { .rlim_cur = 20, .rlim_max = RLIM_INFINITY };
	char folder[128], huge[128];
	const char *const bad[] = { folder, "/dev/zero", "/dev/full", huge };
	int fd;

	(void)state;
	assert_int_equal(setrlimit(RLIMIT_CPU, &cpu), 0); /* of each program */
	snprintf(folder, sizeof(folder), "%s/a-folder", program_folder());
	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(huge, sizeof(huge), "%s/huge", program_folder());
	fd = open(huge, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	close(fd);
	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		setenv("X", bad[k], 1);
		for (size_t i = 0; i < READERS; i++) {
			int status = program_run(readers[i], "2>&1", text, sizeof(text));

			if (status != COMMAND_FAILED || !strstr(text, bad[k]) || !strstr(text, " cannot be ") ||
			    !is_one_line())
				if (status != COMMAND_FAILED || !strstr(text, " is no simulated machine"))
					fail_msg("%s, %s: %d: %s", bad[k], readers[i], status, text);
		}
	}
}

/* Named by a variable: no terminal is there to wait at, so a pipe is refused, too. */
static void a_variable_may_name_a_regular_file_alone(void **state)
{
	static const struct {
		const char *variable, *call;
	} cases[] = {
		{ "NCCL_CONF_FILE", "params" },
		{ "NCCL_CONF_FILE", "env" },
		{ "TRIBUTARY_CLUSTER", "env" },
		{ "TRIBUTARY_CLUSTER", "aggregators" },
		{ "TRIBUTARY_SECRET", "aggregators --cluster $F/c" },
		{ "TRIBUTARY_PROFILE", "show" },
		{ "TRIBUTARY_PROFILE", "doctor" },
	};
	char pipe[128];
	const char *const bad[] = { pipe, "/dev/zero", "/proc" };

	(void)state;
	program_put("c", "tributary-cluster 1\nswitch a\nhost h leaf=a\naggregator 127.0.0.1:9 leaf=a\n");
	snprintf(pipe, sizeof(pipe), "%s/a-pipe", program_folder());
	assert_int_equal(mkfifo(pipe, 0600), 0);
	alarm(120); /* one that waits at the pipe */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
			setenv(cases[i].variable, bad[k], 1);
			(void)program_run(cases[i].call, "2>&1", text, sizeof(text));
			if (!strstr(text, bad[k]) || !strstr(text, " cannot be read: "))
				fail_msg("%s=%s %s: %s", cases[i].variable, bad[k], cases[i].call, text);
		}
		unsetenv(cases[i].variable);
	}
	alarm(0);
}

/* Not after a minute of measuring: nothing else may have been printed by then. And what is there stays. */
static void an_output_that_cannot_be_written_is_said_at_once(void **state)
{
	static const char *const calls[] = {
		"measure --simulate $S/topo/workstation-2gpu --output %s",
		"measure --output %s",
		"show " MACHINE " --svg %s",
		"show " MACHINE " --html %s",
		"plan " MACHINE " --svg %s",
		"plan " MACHINE " --html %s",
		"plan " MACHINE " --nccl-graph --output %s",
		"cluster show $S/topo/clusters/two-leaves.cluster --html %s",
		"export " MACHINE " --output %s",
		"export --graph-json " FABRIC " --output %s",
		/* Days, if it were begun. */
		"simulate --fabric leaf-spine:64x64,8Gbit/s --detail steps --html %s",
		"capture %s",
	};
	static const struct {
		const char *path, *reason;
	} outputs[] = {
		{ "$F/none/x", "cannot be written: No such file or directory" },
		{ "$F/file/x", "cannot be written: Not a directory" },
		{ "$F/folder", "cannot be written: Is a directory" },
	};

	(void)state;
	program_put("file", "as it was");
	snprintf(other, sizeof(other), "%s/folder", program_folder());
	assert_int_equal(mkdir(other, 0700), 0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (size_t j = 0; j < sizeof(outputs) / sizeof(outputs[0]); j++) {
			char call[512];
			int status;

			snprintf(call, sizeof(call), "%.*s%s%s", (int)(strstr(calls[i], "%s") - calls[i]), calls[i],
				 outputs[j].path, strstr(calls[i], "%s") + 2);
			status = program_run(call, "2>&1", text, sizeof(text));
			if (status != COMMAND_FAILED || !strstr(text, outputs[j].reason) ||
			    strchr(text, '\n') != text + strlen(text) - 1)
				fail_msg("%s: %d: %s", call, status, text);
		}
	}
	rmdir(other);
}

static void the_state_directory_is_looked_at_before_measuring(void **state)
{
	(void)state;
	program_put("file", "as it was");
	setenv("TRIBUTARY_STATE_DIR", "/proc/none", 1);
	assert_int_equal(program_run("measure", "2>&1", text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "TRIBUTARY_STATE_DIR can name another"));
	assert_true(strchr(text, '\n') == text + strlen(text) - 1);
	unsetenv("TRIBUTARY_STATE_DIR");
}

static void a_full_disk_is_an_error(void **state)
{
	static const char *const calls[] = {
		"show " MACHINE " --svg /dev/full",
		"simulate " FABRIC " --html /dev/full",
		"export " MACHINE " --output /dev/full",
		"capture /dev/full",
	};
	static const char *const streams[] = {
		"help", "params", "version", "show " MACHINE, "cluster order " FABRIC, "discover --json " MACHINE
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(program_run(calls[i], PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
		assert_string_equal(text, "tributary: \"/dev/full\" cannot be written: No space left on device\n");
	}
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		assert_int_equal(program_run(streams[i], "2>&1 >/dev/full", text, sizeof(text)), COMMAND_FAILED);
		assert_non_null(strstr(text, "tributary: the output cannot be written"));
	}
}

/* The same from a file and from standard input. */
static void every_file_may_be_standard_input(void **state)
{
	static const struct {
		const char *call, *file;
	} calls[] = {
		{ "discover --from %s", "$S/topo/single-root-4gpu/machine.topology" },
		{ "discover --from %s", "$S/topo/captures/vm-two-switches.tar.gz" },
		{ "show --from %s", "$S/topo/single-root-4gpu/machine.topology" },
		{ "cluster show %s --text", "$S/topo/clusters/two-leaves.cluster" },
		{ "cluster show %s --text", "$S/topo/clusters/lldp.json" },
		{ "cluster order %s --format hostfile", "$S/topo/clusters/two-leaves.cluster" },
		{ "cluster order " FABRIC " --hostfile %s", "$F/hosts" },
		{ "place --from $S/topo/single-root-4gpu --jobs %s", "$F/jobs" },
		{ "lint %s", "$F/topology.xml" },
		{ "show --profile %s", "$F/profile" },
		{ "plan " MACHINE " --compare %s --json", "$F/graph.xml" },
		{ "estimate %s --system $S/tests/fixtures/estimate/system-8.json " FABRIC,
		  "$S/tests/fixtures/estimate/layers.json" },
	};

	(void)state;
	program_put("hosts", "leaf1-host1\nleaf2-host1\n");
	program_put("jobs", "wants a host 1\n");
	assert_int_equal(program_run("cluster order " FABRIC " --format hostfile", ">$F/hosts", text, sizeof(text)), 0);
	assert_int_equal(program_run("export " MACHINE, ">$F/topology.xml 2>/dev/null", text, sizeof(text)), 0);
	assert_int_equal(program_run("plan " MACHINE " --nccl-graph", ">$F/graph.xml 2>/dev/null", text, sizeof(text)),
			 0);
	assert_int_equal(program_run("measure --simulate $S/topo/single-root-4gpu --quick --output -",
				     ">$F/profile 2>/dev/null", text, sizeof(text)),
			 0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		const char *at = strstr(calls[i].call, "%s");
		char call[512], redirect[256];
		int status;

		snprintf(call, sizeof(call), "%.*s%s%s", (int)(at - calls[i].call), calls[i].call, calls[i].file,
			 at + 2);
		status = program_run(call, "2>/dev/null", text, sizeof(text));
		snprintf(call, sizeof(call), "%.*s-%s", (int)(at - calls[i].call), calls[i].call, at + 2);
		snprintf(redirect, sizeof(redirect), "2>&1 <%s", calls[i].file);
		assert_int_equal(program_run(call, redirect, other, sizeof(other)), status);
		assert_true(status == COMMAND_OK || status == COMMAND_WARNINGS);
		assert_true(strlen(other) > 0);
		/* Elsewhere the title is the file's name. */
		if (strstr(call, "--text") || strstr(call, "hostfile") || strstr(call, "discover"))
			assert_string_equal(text, other);
	}
}

static void every_output_may_be_standard_output(void **state)
{
	json_t *value;

	(void)state;
	assert_int_equal(program_run("measure --simulate $S/topo/workstation-2gpu --quick --output -", PROGRAM_STDOUT,
				     text, sizeof(text)),
			 COMMAND_OK);
	assert_int_equal(strncmp(text, "tributary-profile ", 18), 0);
	assert_null(strstr(text, "limited by")); /* the table is not part of it */
	assert_int_equal(program_run("measure --simulate $S/topo/workstation-2gpu --quick --output -", PROGRAM_STDERR,
				     text, sizeof(text)),
			 COMMAND_OK);
	assert_non_null(strstr(text, "limited by"));
	assert_int_equal(program_run("capture -", "2>&1 >$F/x.tar.gz", text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, "");
	assert_int_equal(program_run("discover --json --from -", "<$F/x.tar.gz", text, sizeof(text)), COMMAND_OK);
	value = json_loads(text, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(value, "source")), "capture");
	json_decref(value);
}

static void two_results_do_not_share_standard_output(void **state)
{
	static const char *const calls[] = {
		"measure --simulate $S/topo/workstation-2gpu --output - --json",
		"show " MACHINE " --svg - --html -",
		"show " MACHINE " --svg - --json",
		"simulate " FABRIC " --html - --json",
		"cluster show $S/topo/clusters/two-leaves.cluster --html - --json",
		"cluster show $S/topo/clusters/two-leaves.cluster --html - --text",
		"capture - --json",
		"cluster measure --out - --json",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(program_run(calls[i], "2>&1", text, sizeof(text)), COMMAND_USAGE);
		assert_non_null(strstr(text, "only one of"));
		assert_non_null(strstr(text, "can go to standard output"));
	}
}

/* Neither a GPU nor a rate: what has nothing to say says so. */
static void a_machine_of_which_nothing_is_known_is_called_that(void **state)
{
	(void)state;
	program_put(
		"empty.topology",
		"tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex nic nic:e bus=0000:00:03.0 interface=e port=1\n"
		"link pci nic:e cpu0\n");
	assert_int_equal(program_run("show --from $F/empty.topology", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "; nothing measured, no rate is known\n"));
	assert_int_equal(program_run("show --svg - --from $F/empty.topology", PROGRAM_STDOUT, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "nothing measured, no rate is known"));
	assert_int_equal(program_run("show --html - --from $F/empty.topology", PROGRAM_STDOUT, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "nothing measured, no rate is known"));
	assert_int_equal(program_run("export --from $F/empty.topology", PROGRAM_STDERR, text, sizeof(text)),
			 COMMAND_OK);
	assert_null(strstr(text, "off by"));
	assert_non_null(strstr(text, "the machine has no GPU"));
	assert_int_equal(program_run("place host:1 --from $F/empty.topology", PROGRAM_STDERR, text, sizeof(text)),
			 COMMAND_FAILED);
	assert_non_null(strstr(text, "--cluster FILE: hosts"));
	assert_int_equal(program_run("simulate --fabric leaf-spine:1x1,8Gbit/s", PROGRAM_STDERR, text, sizeof(text)),
			 0);
	assert_non_null(strstr(text, "one host sends nothing over the network"));
	assert_int_equal(program_run("explain " MACHINE " --gpus 0", PROGRAM_STDERR, text, sizeof(text)),
			 COMMAND_USAGE);
	assert_non_null(strstr(text, "exchanges nothing"));
}

/* What is written is what the name says; a name that says something else is refused, and nothing is there. */
static void a_capture_is_what_its_name_says(void **state)
{
	static const char *const wrong[] = {
		"x.zip", "x.gz", "x.txt", "x.tar.xz", ".tar.gz", "x.tar.gz.old", "x.json"
	};
	static const struct {
		const char *name;
		unsigned char first;
	} right[] = { { "x.tar.gz", 0x1f }, { "y.tgz", 0x1f }, { "z.tar", 't' }, { "plain", 0x1f } };
	char call[256];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(call, sizeof(call), "capture $F/%s", wrong[i]);
		assert_int_equal(program_run(call, "2>&1", text, sizeof(text)), COMMAND_USAGE);
		assert_non_null(strstr(text, "give FILE.tar.gz, FILE.tgz or FILE.tar"));
		snprintf(call, sizeof(call), "%s/%s", program_folder(), wrong[i]);
		assert_int_not_equal(access(call, F_OK), 0);
	}
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		FILE *file;

		snprintf(call, sizeof(call), "capture $F/%s", right[i].name);
		assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
		snprintf(call, sizeof(call), "%s/%s", program_folder(), right[i].name);
		file = fopen(call, "re");
		assert_non_null(file);
		assert_int_equal(fgetc(file), right[i].first);
		fclose(file);
		snprintf(call, sizeof(call), "discover --from $F/%s", right[i].name);
		assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	}
}

static void folders_are_machines(void **state)
{
	(void)state;
	assert_int_equal(program_run("discover --from $S/topo/dual-root-8gpu", PROGRAM_STDOUT, text, sizeof(text)), 0);
	assert_int_equal(program_run("discover --from $S/topo/dual-root-8gpu/machine.topology", PROGRAM_STDOUT, other,
				     sizeof(other)),
			 0);
	assert_string_equal(text, other);
	/* A capture, unpacked; with the folder as somebody may type it. */
	assert_int_equal(program_run("version",
				     ">/dev/null; mkdir $F/unpacked && tar -C $F/unpacked -xzf "
				     "$S/topo/captures/vm-two-switches.tar.gz",
				     text, sizeof(text)),
			 0);
	assert_int_equal(program_run("discover --from $F/unpacked", PROGRAM_STDOUT, text, sizeof(text)), 0);
	assert_int_equal(program_run("discover --from $S/topo/captures/vm-two-switches.tar.gz", PROGRAM_STDOUT, other,
				     sizeof(other)),
			 0);
	assert_string_equal(text, other);
	assert_int_equal(program_run("discover --facts --from $F/unpacked/", PROGRAM_STDOUT, text, sizeof(text)), 0);
	assert_int_equal(program_run("discover --facts --from $S/topo/captures/vm-two-switches.tar.gz", PROGRAM_STDOUT,
				     other, sizeof(other)),
			 0);
	assert_string_equal(text, other);
	/* What leads out of it is a link in there, as in the archive, and followed nowhere. */
	assert_int_equal(program_run("version",
				     ">/dev/null; cd $F/unpacked && rm hwloc.xml && ln -s "
				     "$S/tests/fixtures/discover/two-node.txt hwloc.xml",
				     text, sizeof(text)),
			 0);
	assert_int_equal(program_run("discover --from $F/unpacked", "2>&1", text, sizeof(text)), COMMAND_FAILED);
	assert_int_equal(program_run("discover --from $S/docs", "2>&1", text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "neither an unpacked capture"));
	/* What is none of the forms is not called a bad one of any. */
	program_put("notes", "# Things to do\n");
	assert_int_equal(program_run("discover --from $F/notes", "2>&1", text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "it is no capture, no XML of hwloc or NCCL, and no text form"));
	assert_int_equal(program_run("discover --from -", "</dev/null 2>&1", text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "it is no capture"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_file_is_said_in_one_way),
		cmocka_unit_test(what_is_no_file_of_any_kind_is_refused_at_once),
		cmocka_unit_test(a_variable_may_name_a_regular_file_alone),
		cmocka_unit_test(an_output_that_cannot_be_written_is_said_at_once),
		cmocka_unit_test(the_state_directory_is_looked_at_before_measuring),
		cmocka_unit_test(a_full_disk_is_an_error),
		cmocka_unit_test(every_file_may_be_standard_input),
		cmocka_unit_test(every_output_may_be_standard_output),
		cmocka_unit_test(two_results_do_not_share_standard_output),
		cmocka_unit_test(a_machine_of_which_nothing_is_known_is_called_that),
		cmocka_unit_test(a_capture_is_what_its_name_says),
		cmocka_unit_test(folders_are_machines),
	};

	return cmocka_run_group_tests_name("files", tests, find, NULL);
}
