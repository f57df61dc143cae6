/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary env` and `tributary run`, as the built program. */
#include "command/command.h"

#include "program.h"
#include "schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int forget(void **state)
{
	static const char *const names[] = {
		"NCCL_NET_PLUGIN",   "NCCL_ENV_PLUGIN",     "NCCL_COLLNET_ENABLE", "NCCL_TUNER_PLUGIN",
		"LD_LIBRARY_PATH",   "TRIBUTARY_COLLNET",   "TRIBUTARY_TUNER",     "TRIBUTARY_NET",
		"TRIBUTARY_CLUSTER", "SLURM_JOB_NUM_NODES", "TRIBUTARY_TUNING",    "NCCL_IGNORE_COLLNET_MISMATCH"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	setenv("TRIBUTARY_STATE_DIR", program_folder(), 1); /* no profile */
	setenv("TRIBUTARY_NET", "tcp", 1);                  /* whatever RDMA there is */
	return 0;
}

/* TRIBUTARY_CLUSTER: two leaves of four hosts, whose uplinks carry so much. */
static void set_cluster(const char *uplink)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/cluster", program_folder());
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file,
		"tributary-cluster 1\nswitch spine\nswitch a parent=spine rate=%s\nswitch b parent=spine rate=%s\n"
		"host a[1-4] leaf=a rate=100Gbit/s\nhost b[1-4] leaf=b rate=100Gbit/s\n",
		uplink, uplink);
	fclose(file);
	setenv("TRIBUTARY_CLUSTER", path, 1);
}

/* One variable of `tributary env --json`; NULL: it is not set. The caller decrefs *ret_all. */
static const char *variable(const char *arguments, const char *name, json_t **ret_all)
{
	char text[8192], line[128];

	snprintf(line, sizeof(line), "env --json %s", arguments);
	assert_int_equal(program_run(line, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	*ret_all = schema_check_output(text);
	assert_non_null(strstr(json_string_value(json_object_get(*ret_all, "library")), "libnccl-net-tributary.so"));
	return json_string_value(json_object_get(json_object_get(*ret_all, "variables"), name));
}

static bool has(const char *arguments, const char *name)
{
	json_t *all;
	bool is_there = variable(arguments, name, &all) != NULL;

	json_decref(all);
	return is_there;
}

static void what_nccl_needs_is_there(void **state)
{
	json_t *all;

	char text[1024];

	(void)state;
	setenv("TRIBUTARY", program_path(), 1);
	assert_string_equal(variable("", "NCCL_NET_PLUGIN", &all), "tributary");
	json_decref(all);
	assert_string_equal(variable("", "NCCL_ENV_PLUGIN", &all), "tributary");
	assert_int_equal(json_array_size(json_object_get(all, "notes")), 0);
	json_decref(all);
	/* With what it says, the loader finds the library. */
	assert_int_equal(program_run("run -- sh -c '\"$0\" env' \"$TRIBUTARY\"", PROGRAM_STDOUT, text, sizeof(text)),
			 0);
	assert_string_equal(text, "# NCCL_COLLNET_ENABLE is left as it is: no cluster file (TRIBUTARY_CLUSTER, or the "
				  "profile's) promises a gain\n");
}

/* Below /var/run of a mount namespace of its own, as a cloud installs it. */
static void the_providers_topology_is_named(void **state)
{
	static const char command[] =
		"unshare -rm sh -c 'set -e; mount -t tmpfs none /run; mkdir /run/nvidia-topologyd; "
		"echo \"<system version=\\\"1\\\"/>\" >/run/nvidia-topologyd/virtualTopology.xml; %s'";
	static const struct {
		const char *arguments, *part;
	} cases[] = {
		{ "\"$TRIBUTARY\" env", "# NCCL reads /var/run/nvidia-topologyd/virtualTopology.xml" },
		{ "\"$TRIBUTARY\" run true 2>&1",
		  "tributary: NCCL reads /var/run/nvidia-topologyd/virtualTopology.xml" },
		{ "\"$TRIBUTARY\" env --json", "\"NCCL reads /var/run/nvidia-topologyd" },
		{ "NCCL_TOPO_FILE=/x \"$TRIBUTARY\" env", "" },
	};
	char line[1024], text[65536];

	(void)state;
	if (!program_path()[0] || system("unshare -rm mount -t tmpfs none /run 2>/dev/null") != 0 ||
	    access("/var/run/.", X_OK) != 0) {
		print_message("skipped: no mount namespace of its own, or no program\n");
		skip();
	}
	setenv("TRIBUTARY", program_path(), 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		FILE *pipe;

		snprintf(line, sizeof(line), command, cases[i].arguments);
		pipe = popen(line, "r");
		assert_non_null(pipe);
		text[fread(text, 1, sizeof(text) - 1, pipe)] = '\0';
		assert_int_equal(pclose(pipe), 0);
		if (!strstr(text, cases[i].part))
			fail_msg("%s: %s", cases[i].arguments, text);
	}
	assert_null(strstr(text, "virtualTopology"));
}

/* It switches GPUDirect RDMA off: nobody gets it for nothing. */
static void check_no_collnet(const char *reason)
{
	json_t *all;

	assert_null(variable("", "NCCL_COLLNET_ENABLE", &all));
	assert_non_null(strstr(json_string_value(json_object_get(all, "no_collnet")), reason));
	json_decref(all);
}

static void collnet_needs_a_cluster_that_promises_a_gain(void **state)
{
	char text[4096];
	json_t *all;

	(void)state;
	check_no_collnet("no cluster file");
	assert_true(has("--collnet on", "NCCL_COLLNET_ENABLE"));
	set_cluster("100Gbit/s"); /* the uplinks are as wide as a host: a ring crosses each once */
	assert_null(variable("", "NCCL_COLLNET_ENABLE", &all));
	assert_non_null(strstr(json_string_value(json_object_get(all, "no_collnet")), "below the limit of 1.5"));
	assert_true(json_real_value(json_object_get(all, "gain")) < 1);
	json_decref(all);
	set_cluster("10Gbit/s");
	assert_string_equal(variable("", "NCCL_COLLNET_ENABLE", &all), "1");
	json_decref(all);
	assert_string_equal(variable("", "NCCL_IGNORE_COLLNET_MISMATCH", &all), "1");
	assert_true(json_is_null(json_object_get(all, "no_collnet")));
	assert_true(json_real_value(json_object_get(all, "gain")) >= 1.5);
	json_decref(all);
	assert_int_equal(program_run("run true", PROGRAM_STDERR, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "tributary: NCCL_COLLNET_ENABLE is set: by the cluster file, aggregation is 1."));
	assert_null(strstr(text, "GPUDirect")); /* of which our TCP has none */
	setenv("TRIBUTARY_NET", "verbs", 1);
	check_no_collnet("GPUDirect RDMA");
	assert_int_equal(program_run("run --collnet on true", PROGRAM_STDERR, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "it switches GPUDirect RDMA off"));
	unsetenv("TRIBUTARY_NET");
	/* As every host of the job sees it: two hosts of one leaf cross no uplink. */
	setenv("SLURM_JOB_NUM_NODES", "1024", 1);
	check_no_collnet("the job has 1024 hosts, and aggregation is for at most 256");
	setenv("SLURM_JOB_NUM_NODES", "2", 1);
	assert_false(has("", "NCCL_COLLNET_ENABLE"));
	unsetenv("SLURM_JOB_NUM_NODES");
	setenv("TRIBUTARY_CLUSTER",
	       program_put("large", "tributary-cluster 1\nswitch spine\nswitch a parent=spine rate=1Gbit/s\n"
				    "switch b parent=spine rate=1Gbit/s\nhost n[1-200] leaf=a rate=1Gbit/s\n"
				    "host n[201-400] leaf=b rate=1Gbit/s\n"),
	       1);
	check_no_collnet("for large AllReduces of 256 hosts, the most that it is for");
	setenv("TRIBUTARY_CLUSTER", "/nowhere/at/all", 1);
	check_no_collnet("/nowhere/at/all");
}

static void a_table_is_named_for_all_ranks(void **state)
{
	json_t *all;
	char text[512];

	(void)state;
	assert_false(has("", "TRIBUTARY_TUNING"));
	assert_string_equal(variable("--tuning 00ab34cd56ef7890", "TRIBUTARY_TUNING", &all), "00ab34cd56ef7890");
	json_decref(all);
	assert_int_equal(
		program_run("run --tuning off sh -c 'echo $TRIBUTARY_TUNING'", PROGRAM_STDOUT, text, sizeof(text)),
		COMMAND_OK);
	assert_string_equal(text, "off\n");
	assert_int_equal(program_run("env --tuning ab34", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
	assert_non_null(strstr(text, "expected auto, off, or the 16 digits"));
}

static void what_is_set_stays(void **state)
{
	char text[4096];

	(void)state;
	setenv("NCCL_NET_PLUGIN", "/opt/libnccl-net-tributary.so", 1);
	setenv("NCCL_ENV_PLUGIN", "/opt/libnccl-env-tributary.so", 1);
	assert_false(has("", "NCCL_NET_PLUGIN"));
	assert_false(has("", "NCCL_ENV_PLUGIN"));
	assert_int_equal(program_run("env", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_null(strstr(text, " stays "));
	set_cluster("10Gbit/s");
	setenv("NCCL_COLLNET_ENABLE", "0", 1);
	assert_false(has("", "NCCL_COLLNET_ENABLE"));
	assert_false(has("--collnet on", "NCCL_COLLNET_ENABLE"));
	assert_false(has("", "NCCL_IGNORE_COLLNET_MISMATCH"));
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	assert_true(has("--collnet off", "NCCL_IGNORE_COLLNET_MISMATCH"));
	setenv("NCCL_IGNORE_COLLNET_MISMATCH", "0", 1);
	assert_false(has("", "NCCL_IGNORE_COLLNET_MISMATCH"));
}

/* Another plugin may be the machine's only fast network. But nobody runs a job with us in vain without a word. */
static void another_plugin_stays_and_is_noted(void **state)
{
	char text[4096];

	(void)state;
	setenv("NCCL_NET_PLUGIN", "/srv/tributary/other", 1);
	setenv("NCCL_ENV_PLUGIN", "none", 1);
	assert_false(has("", "NCCL_NET_PLUGIN"));
	assert_false(has("", "NCCL_ENV_PLUGIN"));
	assert_int_equal(program_run("env", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(
		text, "# NCCL_NET_PLUGIN=/srv/tributary/other stays as it is set, so NCCL does not load Tributary"));
	assert_non_null(strstr(text, "# NCCL_ENV_PLUGIN=none stays as it is set, so NCCL does not load Tributary"));
	assert_int_equal(program_run("run true", PROGRAM_STDERR, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "tributary: NCCL_NET_PLUGIN=/srv/tributary/other stays"));
	assert_int_equal(program_run("run -- sh -c 'echo $NCCL_NET_PLUGIN $NCCL_ENV_PLUGIN'", PROGRAM_STDOUT, text,
				     sizeof(text)),
			 0);
	assert_string_equal(text, "/srv/tributary/other none\n");
}

/* NCCL opens a file of the plugin's bare name first: the command, in the same folder, would look like a plugin that fails. */
static void the_libraries_are_in_a_folder_without_the_command(void **state)
{
	char path[PATH_MAX];
	json_t *all;

	(void)state;
	(void)variable("", "NCCL_NET_PLUGIN", &all);
	snprintf(path, sizeof(path), "%s", json_string_value(json_object_get(all, "library")));
	json_decref(all);
	snprintf(strrchr(path, '/'), sizeof("/tributary"), "/tributary");
	assert_int_equal(access(path, F_OK), -1);
}

/* Where only the library itself was copied, NCCL is told its path. */
static void without_the_link_the_path_is_named(void **state)
{
	char line[2048], text[4096], folder[512];

	(void)state;
	if (!program_path()[0])
		skip();
	snprintf(folder, sizeof(folder), "%s/copied", program_folder());
	snprintf(line, sizeof(line),
		 "mkdir -p '%s/lib' && cp '%s' '%s/' && cp \"$(dirname '%s')/lib/libnccl-net-tributary.so\" '%s/lib/'",
		 folder, program_path(), folder, program_path(), folder);
	assert_int_equal(system(line), 0);
	snprintf(line, sizeof(line), "env | grep NCCL_ENV_PLUGIN >/dev/null; '%s/tributary' env --json", folder);
	assert_int_equal(program_run(line, PROGRAM_STDOUT, text, sizeof(text)), 0);
	if (!strstr(text, "LD_LIBRARY_PATH")) {
		print_message("skipped: the plugin is installed where the loader looks\n");
		skip();
	}
	snprintf(line, sizeof(line), "\"NCCL_ENV_PLUGIN\": \"%s/lib/libnccl-net-tributary.so\"", folder);
	assert_non_null(strstr(text, line));
}

static void collnet_goes_with_our_tuner(void **state)
{
	(void)state;
	set_cluster("10Gbit/s");
	assert_true(has("", "NCCL_COLLNET_ENABLE"));
	assert_false(has("--collnet off", "NCCL_COLLNET_ENABLE"));
	setenv("TRIBUTARY_TUNER", "0", 1);
	assert_false(has("", "NCCL_COLLNET_ENABLE"));
	assert_true(has("--collnet on", "NCCL_COLLNET_ENABLE"));
	setenv("TRIBUTARY_COLLNET", "0", 1);
	assert_false(has("--collnet on", "NCCL_COLLNET_ENABLE"));
	forget(NULL);
	set_cluster("10Gbit/s");
	setenv("NCCL_TUNER_PLUGIN", "theirs", 1);
	assert_false(has("", "NCCL_COLLNET_ENABLE"));
	setenv("NCCL_TUNER_PLUGIN", "tributary", 1);
	assert_true(has("", "NCCL_COLLNET_ENABLE"));
}

/* explain and tune have collnet where the plugin would, and say what it needs. */
static void explain_and_tune_decide_as_env_does(void **state)
{
	static const char *const uplinks[] = { "400Gbit/s", "100Gbit/s", "50Gbit/s", "10Gbit/s" };
	static const char *const commands[] = { "explain", "tune" };
	char call[1024], text[8192];
	size_t promised = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(uplinks) / sizeof(uplinks[0]); i++) {
		bool is_set;

		set_cluster(uplinks[i]);
		is_set = has("", "NCCL_COLLNET_ENABLE");
		promised += is_set;
		for (size_t k = 0; k < 2; k++) {
			snprintf(call, sizeof(call),
				 "%s --from '%s/topo/four-domains-8gpu' --hosts 8 --cluster \"$TRIBUTARY_CLUSTER\"",
				 commands[k], program_source());
			assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
			text[strcspn(text, "\n")] = '\0';
			if ((strstr(text, "NCCL_COLLNET_ENABLE=1") != NULL) != is_set ||
			    (strstr(text, "no setting is needed") != NULL) == is_set)
				fail_msg("%s, env %d: \"%s\"", call, is_set, text);
		}
	}
	assert_true(promised > 0 && promised < sizeof(uplinks) / sizeof(uplinks[0]));
}

/* The folder goes first, and a shell reads back exactly what there was. */
static void folders_of_any_name_survive_the_shell(void **state)
{
	static const char strange[] = "/it's here:/a \"b\" $c `d`";
	char text[8192], call[512], *line;

	(void)state;
	setenv("LD_LIBRARY_PATH", strange, 1);
	assert_int_equal(program_run("env", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	if (!strstr(text, "LD_LIBRARY_PATH")) {
		print_message("skipped: the plugin is installed where the loader looks\n");
		skip();
	}
	snprintf(call, sizeof(call), "run -- sh -c 'printf %%s \"$LD_LIBRARY_PATH\"'");
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), 0);
	line = strchr(text, ':');
	assert_non_null(line);
	assert_string_equal(line + 1, strange);
	snprintf(call, sizeof(call), "env | (unset LD_LIBRARY_PATH; eval \"$(cat)\"; printf %%s \"$LD_LIBRARY_PATH\")");
	assert_int_equal(program_run(call, "", text, sizeof(text)), 0);
	line = strchr(text, ':');
	assert_non_null(line);
	assert_string_equal(line + 1, strange);
}

static void run_becomes_the_command(void **state)
{
	char text[1024];

	(void)state;
	assert_int_equal(
		program_run("run -- sh -c 'echo $NCCL_NET_PLUGIN $NCCL_ENV_PLUGIN $0 $1; exit 7' --help --collnet",
			    PROGRAM_STDOUT, text, sizeof(text)),
		7);
	assert_string_equal(text, "tributary tributary --help --collnet\n");
	assert_int_equal(program_run("run --collnet off sh -c 'echo ${NCCL_COLLNET_ENABLE-unset}'", PROGRAM_STDOUT,
				     text, sizeof(text)),
			 0);
	assert_string_equal(text, "unset\n");
	assert_int_equal(program_run("run -- /nonexistent/program", PROGRAM_STDERR, text, sizeof(text)), 127);
	assert_non_null(strstr(text, "/nonexistent/program cannot be run"));
	assert_int_equal(program_run("run -- /", PROGRAM_STDERR, text, sizeof(text)), 126);
	assert_int_equal(program_run("run --", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
	assert_int_equal(program_run("run", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_nccl_needs_is_there, forget),
		cmocka_unit_test_setup(the_providers_topology_is_named, forget),
		cmocka_unit_test_setup(collnet_needs_a_cluster_that_promises_a_gain, forget),
		cmocka_unit_test_setup(what_is_set_stays, forget),
		cmocka_unit_test_setup(another_plugin_stays_and_is_noted, forget),
		cmocka_unit_test_setup(the_libraries_are_in_a_folder_without_the_command, forget),
		cmocka_unit_test_setup(without_the_link_the_path_is_named, forget),
		cmocka_unit_test_setup(a_table_is_named_for_all_ranks, forget),
		cmocka_unit_test_setup(collnet_goes_with_our_tuner, forget),
		cmocka_unit_test_setup(explain_and_tune_decide_as_env_does, forget),
		cmocka_unit_test_setup(folders_of_any_name_survive_the_shell, forget),
		cmocka_unit_test_setup(run_becomes_the_command, forget),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
