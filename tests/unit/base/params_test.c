/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char *const *now_environment;

static const char *fake_get(const char *name)
{
	for (char *const *at = now_environment; *at; at++) {
		size_t bytes = strlen(name);

		if (!strncmp(*at, name, bytes) && (*at)[bytes] == '=')
			return *at + bytes + 1;
	}
	return NULL;
}

static struct {
	size_t count;
	char text[16][1200];
} complaints;

static void record(void *arg, const char *sentence)
{
	assert_ptr_equal(arg, &complaints);
	assert_true(complaints.count < COUNT(complaints.text));
	snprintf(complaints.text[complaints.count++], sizeof(complaints.text[0]), "%s", sentence);
}

static struct params load(char *const *environment)
{
	struct params_source source = { fake_get, environment };
	struct params params;

	memset(&params, 0xee, sizeof(params));
	complaints.count = 0;
	now_environment = environment;
	params_load(&source, record, &complaints, &params);
	return params;
}

/* One variable, "NAME=value". */
static struct params load_one(const char *entry)
{
	char text[600], *environment[] = { text, NULL };

	assert_true(strlen(entry) < sizeof(text));
	memcpy(text, entry, strlen(entry) + 1);
	return load(environment);
}

static void defaults_are_what_the_table_says(void **state)
{
	char *nothing[] = { NULL }, text[PARAMS_STRING_BYTES];
	struct params loaded = load(nothing), defaults;
	struct param_info info;

	(void)state;
	params_defaults(&defaults);
	assert_memory_equal(&loaded, &defaults, sizeof(defaults));
	assert_int_equal(complaints.count, 0);
	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		assert_int_equal(params_format(&defaults, i, text, sizeof(text)), 0);
		assert_string_equal(text, info.default_text);
	}
	assert_int_equal(defaults.net, NET_CHOICE_AUTO);
	assert_false(defaults.disable);
	assert_string_equal(defaults.interfaces, "");
	assert_int_equal(defaults.family, FAMILY_AUTO);
	assert_int_equal(defaults.port_low, 0);
	assert_int_equal(defaults.streams, 0);
	assert_int_equal(defaults.timeout_ns, UINT64_C(30000000000));
	assert_int_equal(defaults.report_after_ns, UINT64_C(30000000000));
	assert_int_equal(defaults.eager_bytes, 16384);
	assert_int_equal(defaults.segment_bytes, 131072);
	assert_true(defaults.pace);
	assert_int_equal(defaults.pace_budget_bytes, 0);
	assert_string_equal(defaults.dump_dir, "");
	assert_true(defaults.tuner);
	assert_true(defaults.collnet);
	assert_int_equal(defaults.aggregate_flat_bytes, 0);
	assert_int_equal(defaults.aggregate_segment_bytes, 0);
	assert_true(defaults.aggregate_measure);
	assert_false(defaults.verify);
	assert_int_equal(defaults.steer, STEER_FULL);
	assert_int_equal(defaults.tuning, PARAMS_TUNING_AUTO);
	assert_int_equal(defaults.local_processes, 0);
	assert_string_equal(defaults.shared_dir, "/dev/shm");
	assert_string_equal(defaults.profile, "");
	assert_string_equal(defaults.cluster, "");
	assert_string_equal(defaults.state_dir, "");
	assert_string_equal(defaults.secret, "");
	assert_string_equal(defaults.metrics, "");
	assert_string_equal(defaults.state_home, "");
	assert_int_equal(defaults.simd, SIMD_AUTO);
	assert_string_equal(defaults.hca, "");
	assert_int_equal(defaults.movers, -1);
	assert_int_equal(defaults.gid_index, -1);
	assert_int_equal(defaults.traffic_class, -1);
	assert_int_equal(defaults.service_level, -1);
	assert_int_equal(defaults.qps, 1);
	assert_false(defaults.quiet);
}

static void every_row_is_described_and_named_once(void **state)
{
	struct param_info info, other;

	(void)state;
	assert_int_equal(params_count(), 38);
	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		assert_int_equal(strncmp(info.name, "TRIBUTARY_", 10), 0);
		assert_true(info.type[0] && info.range[0] && info.meaning[0] && info.unit && info.default_text);
		assert_int_equal(info.meaning[strlen(info.meaning) - 1], '.');
		for (size_t j = 0; j < i; j++) {
			params_info(j, &other);
			assert_string_not_equal(info.name, other.name);
		}
	}
}

/* Each row: values it takes, with the text that params_format gives back, and values it refuses. */
static void every_row_takes_its_range_and_refuses_the_rest(void **state)
{
	static const struct {
		const char *name;
		struct {
			const char *given, *formatted;
		} good[4];
		const char *bad[6];
	} cases[] = {
		{ "TRIBUTARY_NET",
		  { { "auto", "auto" }, { "TCP", "tcp" }, { "verbs", "verbs" }, { "off", "off" } },
		  { "udp", "tc", "1" } },
		{ "TRIBUTARY_DISABLE",
		  { { "1", "1" }, { "0", "0" }, { "yes", "1" }, { "off", "0" } },
		  { "2", "-1", "maybe" } },
		{ "TRIBUTARY_IF", { { "=eth0,eth1", "=eth0,eth1" }, { "^docker,lo", "^docker,lo" } }, { NULL } },
		{ "TRIBUTARY_FAMILY",
		  { { "ipv4", "ipv4" }, { "IPv6", "ipv6" }, { "auto", "auto" } },
		  { "4", "AF_INET", "inet" } },
		{ "TRIBUTARY_JOIN",
		  { { "auto", "auto" }, { "Always", "always" }, { "never", "never" } },
		  { "1", "eth0" } },
		{ "TRIBUTARY_PORTS",
		  { { "1024-65535", "1024-65535" }, { "5000-5000", "5000-5000" }, { "any", "any" } },
		  { "1023-2000", "2000-65536", "3000-2000", "3000", "0", "0-0" } },
		{ "TRIBUTARY_STREAMS", { { "0", "0" }, { "32", "32" } }, { "33", "-1", "4294967296", "two", "1.5" } },
		{ "TRIBUTARY_MOVERS", { { "auto", "auto" }, { "0", "0" }, { "16", "16" } }, { "17", "-2", "all" } },
		{ "TRIBUTARY_TIMEOUT",
		  { { "0.1", "0.1" }, { "3600", "3600" }, { "2.50", "2.5" } },
		  { "0", "0.099999999", "3600.1", "10s", "-1" } },
		{ "TRIBUTARY_REPORT_AFTER", { { "1", "1" }, { "86400", "86400" } }, { "0.9", "86401", "never" } },
		{ "TRIBUTARY_EAGER_BYTES",
		  { { "0", "0" }, { "16384", "16K" }, { "1000", "1000" } },
		  { "16385", "17K", "-1", "K" } },
		{ "TRIBUTARY_SEGMENT_BYTES",
		  { { "4096", "4K" }, { "16M", "16M" } },
		  { "4095", "16777217", "0", "1G" } },
		{ "TRIBUTARY_PACE", { { "0", "0" }, { "on", "1" } }, { "3", "x" } },
		{ "TRIBUTARY_PACE_BUDGET",
		  { { "0", "0" }, { "4K", "4K" }, { "1G", "1G" } },
		  { "1", "4095", "1025M", "-0" } },
		{ "TRIBUTARY_STEER",
		  { { "off", "off" }, { "topology", "topology" }, { "FULL", "full" } },
		  { "on", "1", "topo" } },
		{ "TRIBUTARY_LOCAL_PROCESSES",
		  { { "0", "0" }, { "8", "8" }, { "1024", "1024" } },
		  { "1025", "-1", "all" } },
		{ "TRIBUTARY_SHARED_DIR", { { "/run/shm", "/run/shm" } }, { NULL } },
		{ "TRIBUTARY_DUMP_DIR", { { "/tmp/a b", "/tmp/a b" } }, { NULL } },
		{ "TRIBUTARY_METRICS", { { "/var/x", "/var/x" } }, { NULL } },
		{ "TRIBUTARY_PROFILER",
		  { { "off", "off" }, { "count", "count" }, { "TIME", "time" } },
		  { "1", "on", "times" } },
		{ "TRIBUTARY_TUNER", { { "off", "0" }, { "1", "1" }, { "on", "1" } }, { "2", "auto" } },
		{ "TRIBUTARY_TUNING",
		  { { "auto", "auto" }, { "off", "off" }, { "00ab34cd56ef7890", "00ab34cd56ef7890" } },
		  { "1", "ab34", "00AB34CD56EF7890", "00ab34cd56ef78901", "0000000000000000", "on" } },
		{ "TRIBUTARY_COLLNET", { { "off", "0" }, { "1", "1" }, { "on", "1" } }, { "2", "auto" } },
		{ "TRIBUTARY_AGGREGATE_DIRECT", { { "0", "0" }, { "1K", "1K" }, { "64K", "64K" } }, { "1", "65K" } },
		{ "TRIBUTARY_AGGREGATE_SEGMENT",
		  { { "0", "0" }, { "1K", "1K" }, { "512K", "512K" } },
		  { "1023", "1M" } },
		{ "TRIBUTARY_AGGREGATE_MEASURE", { { "0", "0" }, { "on", "1" } }, { "2", "never" } },
		{ "TRIBUTARY_VERIFY", { { "1", "1" }, { "no", "0" } }, { "2", "all" } },
		{ "TRIBUTARY_PROFILE", { { "/etc/my.profile", "/etc/my.profile" } }, { NULL } },
		{ "TRIBUTARY_CLUSTER", { { "/etc/slurm/topology.conf", "/etc/slurm/topology.conf" } }, { NULL } },
		{ "TRIBUTARY_STATE_DIR", { { "/var/tmp", "/var/tmp" }, { "here", "here" } }, { NULL } },
		{ "TRIBUTARY_SIMD",
		  { { "auto", "auto" }, { "AVX2", "avx2" }, { "scalar", "scalar" }, { "neon", "neon" } },
		  { "sse", "1", "avx" } },
		{ "TRIBUTARY_SECRET",
		  { { "/etc/tributary/secret", "/etc/tributary/secret" }, { "s", "s" } },
		  { NULL } },
		{ "TRIBUTARY_HCA", { { "=mlx5_0:1,mlx5_2", "=mlx5_0:1,mlx5_2" }, { "^mlx4", "^mlx4" } }, { NULL } },
		{ "TRIBUTARY_GID_INDEX",
		  { { "auto", "auto" }, { "0", "0" }, { "255", "255" }, { "-1", "auto" } },
		  { "256", "-2", "v2" } },
		{ "TRIBUTARY_TRAFFIC_CLASS",
		  { { "auto", "auto" }, { "0", "0" }, { "106", "106" }, { "-1", "auto" } },
		  { "256", "-2", "high" } },
		{ "TRIBUTARY_SERVICE_LEVEL",
		  { { "auto", "auto" }, { "0", "0" }, { "15", "15" }, { "-1", "auto" } },
		  { "16", "-2", "high" } },
		{ "TRIBUTARY_QPS", { { "1", "1" }, { "16", "16" } }, { "0", "17", "many" } },
		{ "TRIBUTARY_RDMA_RESERVE", { { "1", "1" }, { "off", "0" } }, { "2", "auto" } },
	};
	char entry[128], text[PARAMS_STRING_BYTES];
	struct param_info info;
	struct params params;

	(void)state;
	assert_int_equal(COUNT(cases), params_count());
	for (size_t i = 0; i < COUNT(cases); i++) {
		params_info(i, &info);
		assert_string_equal(info.name, cases[i].name);
		for (size_t j = 0; j < COUNT(cases[i].good) && cases[i].good[j].given; j++) {
			snprintf(entry, sizeof(entry), "%s=%s", info.name, cases[i].good[j].given);
			params = load_one(entry);
			assert_int_equal(complaints.count, 0);
			assert_int_equal(params_format(&params, i, text, sizeof(text)), 0);
			assert_string_equal(text, cases[i].good[j].formatted);
		}
		for (size_t j = 0; j < COUNT(cases[i].bad) && cases[i].bad[j]; j++) {
			snprintf(entry, sizeof(entry), "%s=%s", info.name, cases[i].bad[j]);
			params = load_one(entry);
			assert_int_equal(complaints.count, 1);
			assert_non_null(strstr(complaints.text[0], entry));
			assert_non_null(strstr(complaints.text[0], info.range));
			assert_int_equal(params_format(&params, i, text, sizeof(text)), 0);
			assert_string_equal(text, info.default_text);
		}
	}
}

static void one_bad_value_leaves_the_others(void **state)
{
	char a[] = "TRIBUTARY_STREAMS=99", b[] = "TRIBUTARY_QPS=3", *environment[] = { a, b, NULL };
	struct params params = load(environment);

	(void)state;
	assert_int_equal(params.streams, 0);
	assert_int_equal(params.qps, 3);
	assert_int_equal(complaints.count, 1);
	assert_string_equal(complaints.text[0],
			    "TRIBUTARY_STREAMS=99 is not valid: expected 0 to 32; the default, 0, is used.");
}

static void what_can_be_replaced_is_given_up_sooner(void **state)
{
	static const uint64_t times_s[][2] = {
		{ 1, 1 }, { 10, 10 }, { 15, 10 }, { 30, 10 }, { 60, 20 }, { 3600, 1200 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(times_s) / sizeof(times_s[0]); i++)
		assert_int_equal(params_replace_ns(times_s[i][0] * NS_PER_S), times_s[i][1] * NS_PER_S);
}

static void empty_value_counts_as_unset(void **state)
{
	char a[] = "TRIBUTARY_TIMEOUT=", b[] = "TRIBUTARY_IF=", c[] = "NCCL_SOCKET_IFNAME=eth",
	     *environment[] = { a, b, c, NULL };
	struct params params = load(environment);

	(void)state;
	assert_int_equal(complaints.count, 0);
	assert_int_equal(params.timeout_ns, UINT64_C(30000000000));
	assert_string_equal(params.interfaces, "eth");
}

/* True: some value is said to come from that variable. */
static bool says(const struct params *params, const char *name)
{
	for (size_t i = 0; i < params_count(); i++)
		if (!strcmp(params_origin(params, i), name))
			return true;
	return false;
}

static void nccl_variables_count_when_ours_are_unset(void **state)
{
	char a[] = "NCCL_SOCKET_IFNAME=^=lo,docker0", b[] = "NCCL_SOCKET_FAMILY=AF_INET6", c[] = "TRIBUTARY_IF=ib",
	     d[] = "TRIBUTARY_FAMILY=ipv4";
	char *theirs[] = { a, b, NULL }, *both[] = { a, b, c, d, NULL };
	struct params params = load(theirs);

	(void)state;
	assert_int_equal(complaints.count, 0);
	assert_string_equal(params.interfaces, "^=lo,docker0");
	assert_int_equal(params.family, FAMILY_IPV6);
	assert_true(says(&params, "NCCL_SOCKET_IFNAME") && says(&params, "NCCL_SOCKET_FAMILY"));
	assert_false(says(&params, "TRIBUTARY_IF"));
	params = load(both);
	assert_int_equal(complaints.count, 0);
	assert_string_equal(params.interfaces, "ib");
	assert_true(says(&params, "TRIBUTARY_IF") && !says(&params, "NCCL_SOCKET_IFNAME"));
	assert_int_equal(params.family, FAMILY_IPV4);
	params = load_one("NCCL_SOCKET_FAMILY=AF_INET");
	assert_int_equal(params.family, FAMILY_IPV4);
	params = load_one("NCCL_SOCKET_FAMILY=ipv6");
	assert_int_equal(params.family, FAMILY_AUTO);
	assert_int_equal(complaints.count, 1);
	assert_non_null(strstr(complaints.text[0], "NCCL_SOCKET_FAMILY=ipv6"));
	assert_non_null(strstr(complaints.text[0], "AF_INET6"));
}

static void state_home_is_an_absolute_path_of_the_environment(void **state)
{
	char home[] = "HOME=/home/ada", xdg[] = "XDG_STATE_HOME=/data/state", relative[] = "XDG_STATE_HOME=state",
	     nowhere[] = "HOME=ada", long_home[PARAMS_STRING_BYTES + 16] = "HOME=/";
	char *at_home[] = { home, NULL }, *elsewhere[] = { home, xdg, NULL }, *ignored[] = { relative, home, NULL },
	     *none[] = { nowhere, relative, NULL }, *too_long[] = { long_home, NULL };

	(void)state;
	assert_string_equal(load(at_home).state_home, "/home/ada/.local/state");
	assert_string_equal(load(elsewhere).state_home, "/data/state");
	assert_string_equal(load(ignored).state_home, "/home/ada/.local/state");
	assert_string_equal(load(none).state_home, "");
	/* With what comes behind it the longest that fits, and one more. */
	memset(long_home + 6, 'h', PARAMS_STRING_BYTES - 2 - strlen("/.local/state"));
	assert_int_equal(strlen(load(too_long).state_home), PARAMS_STRING_BYTES - 1);
	long_home[strlen(long_home)] = 'h';
	assert_string_equal(load(too_long).state_home, "");
	assert_int_equal(complaints.count, 0);
}

static void text_is_kept_whole_or_refused(void **state)
{
	char entry[600] = "TRIBUTARY_DUMP_DIR=";
	size_t name_bytes = strlen(entry);
	struct params params;

	(void)state;
	memset(entry + name_bytes, 'd', PARAMS_STRING_BYTES - 1);
	params = load_one(entry);
	assert_int_equal(complaints.count, 0);
	assert_int_equal(strlen(params.dump_dir), PARAMS_STRING_BYTES - 1);
	entry[name_bytes + PARAMS_STRING_BYTES - 1] = 'd';
	params = load_one(entry);
	assert_int_equal(complaints.count, 1);
	assert_string_equal(params.dump_dir, "");
}

static void misspelt_name_is_told_the_nearest_real_one(void **state)
{
	(void)state;
	load_one("TRIBUTARY_STREAM=4");
	assert_int_equal(complaints.count, 1);
	assert_string_equal(complaints.text[0], "TRIBUTARY_STREAM is not a variable of Tributary and is ignored; "
						"did you mean TRIBUTARY_STREAMS?");
	load_one("TRIBUTARY_TIEMOUT=4");
	assert_non_null(strstr(complaints.text[0], "did you mean TRIBUTARY_TIMEOUT?"));
	load_one("TRIBUTARY_NOTHING_LIKE_IT=4");
	assert_int_equal(complaints.count, 1);
	assert_null(strstr(complaints.text[0], "did you mean"));
	load_one("tributary_streams=4");
	assert_int_equal(complaints.count, 0);
	load_one("TRIBUTARYX=4");
	assert_int_equal(complaints.count, 0);
}

static void complaints_show_no_control_characters(void **state)
{
	char entry[500] = "TRIBUTARY_STREAMS=\033[31m\n";

	(void)state;
	load_one(entry);
	assert_int_equal(complaints.count, 1);
	assert_null(strchr(complaints.text[0], '\033'));
	assert_null(strchr(complaints.text[0], '\n'));
	memset(entry + strlen("TRIBUTARY_STREAMS="), '7', 400);
	load_one(entry);
	assert_int_equal(complaints.count, 1);
	assert_true(strlen(complaints.text[0]) < 250);
	assert_non_null(strstr(complaints.text[0], "..."));
}

static void format_refuses_a_short_buffer(void **state)
{
	struct params params;
	char text[8] = "before";

	(void)state;
	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "12345678");
	assert_int_equal(params_format(&params, 2, text, sizeof(text)), -ENOSPC);
	assert_string_equal(text, "before");
	params.interfaces[7] = '\0';
	assert_int_equal(params_format(&params, 2, text, sizeof(text)), 0);
	assert_string_equal(text, "1234567");
}

static void environment_is_the_process_s(void **state)
{
	struct params_source source;
	struct params params;
	bool listed = false;

	(void)state;
	assert_int_equal(setenv("TRIBUTARY_STREAMS", "5", 1), 0);
	source = params_from_environment();
	assert_string_equal(source.get("TRIBUTARY_STREAMS"), "5");
	for (char *const *at = source.environ_list; *at; at++)
		listed = listed || !strcmp(*at, "TRIBUTARY_STREAMS=5");
	assert_true(listed);
	params_load(&source, NULL, NULL, &params);
	assert_int_equal(params.streams, 5);
	unsetenv("TRIBUTARY_STREAMS");
}

/* NCCL reads its own with strtoll and base 0, and -1 is its default of all three. */
static void numbers_of_nccl_are_read_as_nccl_reads_them(void **state)
{
	static const struct {
		const char *entry;
		int gid_index, traffic_class, service_level;
		unsigned complaints;
	} cases[] = {
		{ "NCCL_IB_TC=0x6a", -1, 106, -1, 0 },
		{ "NCCL_IB_TC=0152", -1, 106, -1, 0 },
		{ "NCCL_IB_TC=-1", -1, -1, -1, 0 },
		{ "NCCL_IB_SL=0x3", -1, -1, 3, 0 },
		{ "NCCL_IB_SL=-1", -1, -1, -1, 0 },
		{ "NCCL_IB_GID_INDEX=0x3", 3, -1, -1, 0 },
		{ "NCCL_IB_TC=0x100", -1, -1, -1, 1 },
		{ "NCCL_IB_SL=-2", -1, -1, -1, 1 },
		{ "NCCL_IB_SL=3 ", -1, -1, -1, 1 },
		{ "TRIBUTARY_TRAFFIC_CLASS=0x6a", -1, -1, -1, 1 },
		{ "TRIBUTARY_SERVICE_LEVEL=-1", -1, -1, -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct params params = load_one(cases[i].entry);

		if (params.gid_index != cases[i].gid_index || params.traffic_class != cases[i].traffic_class ||
		    params.service_level != cases[i].service_level || complaints.count != cases[i].complaints)
			fail_msg("%s", cases[i].entry);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_what_the_table_says),
		cmocka_unit_test(every_row_is_described_and_named_once),
		cmocka_unit_test(every_row_takes_its_range_and_refuses_the_rest),
		cmocka_unit_test(one_bad_value_leaves_the_others),
		cmocka_unit_test(empty_value_counts_as_unset),
		cmocka_unit_test(what_can_be_replaced_is_given_up_sooner),
		cmocka_unit_test(nccl_variables_count_when_ours_are_unset),
		cmocka_unit_test(state_home_is_an_absolute_path_of_the_environment),
		cmocka_unit_test(text_is_kept_whole_or_refused),
		cmocka_unit_test(misspelt_name_is_told_the_nearest_real_one),
		cmocka_unit_test(complaints_show_no_control_characters),
		cmocka_unit_test(format_refuses_a_short_buffer),
		cmocka_unit_test(environment_is_the_process_s),
		cmocka_unit_test(numbers_of_nccl_are_read_as_nccl_reads_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
