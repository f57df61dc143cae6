/* SPDX-License-Identifier: Apache-2.0 */
/* What `tributary check` makes of what hosts say: each fault, and nothing where there is none; whatever a host says. */
#include "command/check/check.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { HOSTS = 3, CASE_BYTES = 4096 };

/* Three hosts a, b, c, one interface each, all well. */
static json_t *good_host(unsigned i)
{
	char address[32], name[2] = { (char)('a' + i), '\0' };
	json_t *reach = json_array();

	snprintf(address, sizeof(address), "10.0.0.%u", i + 1);
	for (unsigned to = 0; to < HOSTS; to++)
		for (int from = CHECK_AS_ROUTED; from < 1 && to != i; from++)
			json_array_append_new(reach, json_pack("[iiiii]", to, from, 0, 0, 0));
	return json_pack(
		"{ss ss sf sf so s{ss s{ss ss} s{ss} s{ss} s[] ss ss s{ss ss} s{ss ss ss} ss ss s[{ss ss si ss sI si}]}}",
		"name", name, "remedy", "do so", "offset_ns", 1e6 * i, "round_trip_ns", 2e6, "reach", reach, "facts",
		"version", "1.2.3", "plugin", "file", "/lib/p.so", "version", "1.2.3", "env_plugin", "version", "1.2.3",
		"settings", "TRIBUTARY_NET", "tcp", "complaints", "network", "TCP", "reason", "", "secret", "error", "",
		"proof", "77", "cluster", "error", "", "digest", "88", "unlisted", "", "ports", "any",
		"interfaces_error", "", "interfaces", "name", "eth0", "address", address, "port", 4000 + (int)i,
		"error", "", "speed_Bps", (json_int_t)1250000000, "mtu_bytes", 9000);
}

static json_t *good_hosts(void)
{
	json_t *hosts = json_array();

	for (unsigned i = 0; i < HOSTS; i++) {
		json_t *host = good_host(i);

		assert_non_null(host);
		json_array_append_new(hosts, host);
	}
	return hosts;
}

/* Puts JSON at a path of keys and numbers, "0/facts/plugin/version". */
static void put(json_t *hosts, const char *path, const char *text)
{
	json_t *at = hosts, *value = json_loads(text, JSON_DECODE_ANY, NULL);
	char word[64];

	assert_non_null(value);
	for (;;) {
		size_t bytes = strcspn(path, "/"), index = (size_t)(*path - '0');

		snprintf(word, sizeof(word), "%.*s", (int)bytes, path);
		if (!path[bytes]) {
			assert_int_equal(json_is_array(at) ? json_array_set_new(at, index, value)
							   : json_object_set_new(at, word, value),
					 0);
			return;
		}
		at = json_is_array(at) ? json_array_get(at, index) : json_object_get(at, word);
		assert_non_null(at);
		path += bytes + 1;
	}
}

/* "CHECK VERDICT SUBJECT EVIDENCE" of the only finding. */
static const char *only(json_t *hosts, char text[static CASE_BYTES])
{
	struct check_report report;

	assert_int_equal(check_conclude(hosts, &report), 0);
	json_decref(hosts);
	text[0] = '\0';
	for (size_t i = 0; i < report.count; i++) {
		const struct check_finding *at = &report.at[i];

		snprintf(text + strlen(text), CASE_BYTES - strlen(text), "%s%s %s %s %s", i ? "\n" : "", at->check,
			 doctor_severity_word(at->severity), at->subject, at->evidence);
		assert_true(at->remedy[0] != '\0');
	}
	check_report_fini(&report);
	return text;
}

static void nothing_is_found_where_nothing_is_wrong(void **state)
{
	char text[CASE_BYTES];

	(void)state;
	assert_string_equal(only(good_hosts(), text), "");
}

static void each_fault_is_one_line(void **state)
{
	static const struct {
		const char *path, *value, *line;
	} cases[] = {
		{ "1/why", "\"the remote shell ended: Permission denied\"",
		  "host error b does not answer: the remote shell ended: Permission denied" },
		{ "1/facts", "7", "host error b does not answer: what it says is no answer" },
		{ "2/facts/plugin", "{\"error\": \"libx.so: cannot open\"}", "plugin error c libx.so: cannot open" },
		{ "0/facts/env_plugin", "{\"error\": \"liby.so: cannot open\"}",
		  "env-plugin warning a liby.so: cannot open" },
		{ "2/facts/settings/TRIBUTARY_NET", "\"\"",
		  "settings error c TRIBUTARY_NET is tcp on a and b; empty on c" },
		{ "0/facts/settings", "{}", "settings error a TRIBUTARY_NET is unset on a; tcp on b and c" },
		{ "2/facts/settings/TRIBUTARY_NET", "\"verbs\"",
		  "settings error c TRIBUTARY_NET is tcp on a and b; verbs on c" },
		{ "0/facts/complaints", "[\"TRIBUTARY_NTE is no parameter\"]",
		  "settings warning a TRIBUTARY_NTE is no parameter" },
		{ "1/facts/network", "\"RDMA\"", "network error b the network is TCP on a and c; RDMA on b" },
		{ "1/facts/secret/proof", "\"78\"", "secret error b the secret is one on a and c; another on b" },
		{ "1/facts/secret", "{\"error\": \"s: can be read by others\"}",
		  "secret error b s: can be read by others" },
		{ "0/facts/cluster/digest", "\"99\"",
		  "cluster-file error a the cluster file is one on a; another on b and c" },
		{ "2/facts/cluster/unlisted", "\"the cluster file has no host of that name\"",
		  "cluster-file warning c the cluster file has no host of that name" },
		{ "0/offset_ns", "-2.5e9", "clock warning a its clock is 2.5 s behind the others'" },
		{ "0/offset_ns", "-0.9e9", "" },
		{ "0/facts/interfaces_error", "\"no interface is up\"", "interfaces error a no interface is up" },
		{ "1/facts/confined", "\"NCCL_SOCKET_IFNAME=eth0 keeps Tributary from eth1\"",
		  "interfaces warning b NCCL_SOCKET_IFNAME=eth0 keeps Tributary from eth1" },
		{ "0/facts/interfaces/0/error", "\"Address already in use\"",
		  "ports error a:eth0 cannot listen on 10.0.0.1, TCP ports any: Address already in use" },
	};
	char text[CASE_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *hosts = good_hosts();

		put(hosts, cases[i].path, cases[i].value);
		assert_string_equal(only(hosts, text), cases[i].line);
	}
}

static void another_version_is_told_of_the_plugin_and_of_the_command(void **state)
{
	char text[CASE_BYTES];
	json_t *hosts = good_hosts();

	(void)state;
	put(hosts, "2/facts/plugin/version", "\"1.2.4\"");
	put(hosts, "2/facts/plugin/other", "\"the plugin /lib/p.so is 1.2.4, the command 1.2.3\"");
	assert_string_equal(only(hosts, text), "version error c the plugin is 1.2.3 on a and b; 1.2.4 on c\n"
					       "version warning c the plugin /lib/p.so is 1.2.4, the command 1.2.3");
}

/* From a and c to b, over eth0 and as routed. */
static json_t *unreached(int error)
{
	json_t *hosts = good_hosts();

	for (size_t from = 0; from < HOSTS; from += 2) {
		json_t *reach = json_object_get(json_array_get(hosts, from), "reach");

		for (size_t k = 0; k < json_array_size(reach); k++)
			if (json_integer_value(json_array_get(json_array_get(reach, k), 0)) == 1)
				json_array_set_new(json_array_get(reach, k), 3, json_integer(error));
	}
	return hosts;
}

static void an_address_that_is_not_reached_says_why(void **state)
{
	char text[CASE_BYTES];

	(void)state;
	assert_string_equal(
		only(unreached(ETIMEDOUT), text),
		"ports error b:eth0 10.0.0.2 TCP port 4001 from a and c: nothing answers, as a firewall drops packets "
		"or the host is down");
	assert_string_equal(
		only(unreached(ECONNREFUSED), text),
		"ports error b:eth0 10.0.0.2 TCP port 4001 from a and c: it is refused, as the process there has ended "
		"or a firewall rejects the port");
	assert_string_equal(only(unreached(ENETUNREACH), text),
			    "route error b:eth0 10.0.0.2 TCP port 4001 from a and c: no route leads there (Network is "
			    "unreachable)");
	assert_string_equal(
		only(unreached(EPROTO), text),
		"address error b:eth0 10.0.0.2 TCP port 4001 from a and c: what answers there does not know the "
		"secret: another process, or another host with that address");
}

/* Without another interface the plugin takes lo: no firewall is at fault. */
static void a_loopback_address_is_for_its_own_host(void **state)
{
	json_t *hosts = unreached(ECONNREFUSED);
	char text[CASE_BYTES];

	(void)state;
	put(hosts, "1/facts/interfaces/0/address", "\"127.0.0.1\"");
	assert_string_equal(only(hosts, text),
			    "route error b:eth0 127.0.0.1 is a loopback address, which a and c cannot reach");
}

/* RDMA or NCCL's own network may do without that address. */
static void what_tcp_does_not_carry_is_no_error(void **state)
{
	static const char *const networks[] = { "\"RDMA\"", "\"NCCL's own\"" }, *const lines[] = { "warning", "note" };
	char text[CASE_BYTES], beginning[32];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		json_t *hosts = unreached(ETIMEDOUT);

		for (unsigned host = 0; host < HOSTS; host++)
			put(hosts, (const char *[]){ "0/facts/network", "1/facts/network", "2/facts/network" }[host],
			    networks[i]);
		snprintf(beginning, sizeof(beginning), "ports %s b:eth0 ", lines[i]);
		assert_ptr_equal(strstr(only(hosts, text), beginning), text);
	}
}

/* Where another interface leads there, one that does not is no fault; where it leads nowhere at all, it is one. */
static void an_interface_that_reaches_nobody_is_named(void **state)
{
	char text[CASE_BYTES];
	json_t *hosts = good_hosts();

	(void)state;
	put(hosts, "0/reach", "[[1, -1, 0, 0, 0], [1, 0, 0, 110, 0], [2, -1, 0, 0, 0], [2, 0, 0, 0, 0]]");
	assert_string_equal(only(hosts, text), "");
	hosts = good_hosts();
	put(hosts, "0/reach", "[[1, -1, 0, 0, 0], [1, 0, 0, 110, 0], [2, -1, 0, 0, 0], [2, 0, 0, 110, 0]]");
	assert_string_equal(only(hosts, text),
			    "interface warning a:eth0 through it nobody is reached: no answer from b and c");
	hosts = good_hosts();
	put(hosts, "0/reach", "[[1, -1, 0, 0, 0], [1, 0, 0, 101, 0], [2, -1, 0, 0, 0], [2, 0, 0, 101, 0]]");
	assert_string_equal(only(hosts, text), "");
}

static void packets_that_vanish_are_named_with_those_that_pass(void **state)
{
	char text[CASE_BYTES];
	json_t *hosts = good_hosts();

	(void)state;
	put(hosts, "0/reach", "[[1, 0, 0, 0, 1500], [2, 0, 0, 0, 1280]]");
	assert_string_equal(only(hosts, text),
			    "mtu error a:eth0 to b and c: packets of 9000 bytes vanish on the way, those of 1280 pass");
	hosts = good_hosts();
	put(hosts, "0/reach", "[[1, 0, 0, 0, 1], [2, 0, 0, 0, 0]]");
	assert_string_equal(only(hosts, text),
			    "mtu error a:eth0 to b: packets of 9000 bytes vanish on the way, short ones pass");
}

/* a has two networks, b and c one of them: that is taken, and NCCL's bootstrap is told of it. */
static void an_address_beside_another_way_is_a_note(void **state)
{
	struct check_report report;
	json_t *hosts = good_hosts();

	(void)state;
	put(hosts, "0/facts/interfaces",
	    "[{\"name\": \"ens1\", \"address\": \"10.1.0.1\", \"port\": 9, \"error\": \"\"}, "
	    "{\"name\": \"ens2\", \"address\": \"10.0.0.1\", \"port\": 9, \"error\": \"\"}]");
	put(hosts, "0/reach", "[[1, -1, 0, 0, 0], [1, 1, 0, 0, 0], [2, -1, 0, 0, 0], [2, 1, 0, 0, 0]]");
	put(hosts, "1/reach", "[[0, -1, 0, 101, 0], [0, 0, 1, 0, 0], [2, 0, 0, 0, 0]]");
	put(hosts, "2/reach", "[[0, -1, 0, 101, 0], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]");
	assert_int_equal(check_conclude(hosts, &report), 0);
	assert_int_equal(report.count, 1);
	assert_string_equal(report.at[0].subject, "a:ens1");
	assert_int_equal(report.at[0].severity, DOCTOR_NOTE);
	assert_non_null(strstr(report.at[0].remedy, "NCCL_SOCKET_IFNAME==ens2 on a name what all reach"));
	check_report_fini(&report);
	json_decref(hosts);
}

/* Of another type, out of range, or not there: each value of a good host in turn. */
static void turn(json_t *hosts, json_t *at)
{
	static const char *const others[] = {
		"null", "-1", "1e300", "\"x|y\\n\"", "[]", "{}", "[[9,9,9,9,9]]", "true"
	};
	const size_t count = sizeof(others) / sizeof(others[0]);
	size_t size = json_is_array(at) ? json_array_size(at) : json_object_size(at), number = 0;
	void *iter = json_is_object(at) ? json_object_iter(at) : NULL;

	for (; number < size; number++) {
		json_t *kept = json_incref(iter ? json_object_iter_value(iter) : json_array_get(at, number));

		for (size_t i = 0; i < count; i++) {
			struct check_report report;
			json_t *other = json_loads(others[i], JSON_DECODE_ANY, NULL);

			if (iter)
				json_object_iter_set_new(at, iter, other);
			else
				json_array_set_new(at, number, other);
			assert_int_equal(check_conclude(hosts, &report), 0);
			check_report_fini(&report);
		}
		if (iter)
			json_object_iter_set(at, iter, kept);
		else
			json_array_set(at, number, kept);
		turn(hosts, kept);
		json_decref(kept);
		iter = iter ? json_object_iter_next(at, iter) : NULL;
	}
}

static void a_host_may_say_anything(void **state)
{
	json_t *hosts = good_hosts();

	(void)state;
	turn(hosts, hosts);
	json_decref(hosts);
}

static void many_hosts_make_one_line(void **state)
{
	json_t *hosts = json_array();
	char text[CASE_BYTES];

	(void)state;
	for (unsigned i = 0; i < 2 * CHECK_HOSTS_MAX; i++) {
		char name[CLUSTERPROBE_NAME_BYTES];

		snprintf(name, sizeof(name), "gpu%u", i);
		json_array_append_new(hosts,
				      json_pack("{ss s{s{ss}}}", "name", name, "facts", "plugin", "error", "no"));
	}
	assert_string_equal(only(hosts, text), "plugin error gpu0,gpu1,gpu2,gpu3,... no");
}

/* As many as there may be, all of whom fail to reach one address of the last. */
static void the_largest_cluster_is_concluded(void **state)
{
	json_t *hosts = json_array(), *interfaces = json_array();
	char text[CASE_BYTES];

	(void)state;
	for (int k = 0; k < CHECK_INTERFACES_MAX; k++)
		json_array_append_new(interfaces, json_pack("{ss si}", "name", "e", "port", k));
	for (int i = 0; i < CHECK_HOSTS_MAX; i++) {
		json_t *reach = json_array();

		for (int n = 0; n < CHECK_PEERS_MAX; n++)
			for (int from = CHECK_AS_ROUTED; from < CHECK_INTERFACES_MAX; from++)
				for (int to = 0; to < CHECK_INTERFACES_MAX; to++) {
					int peer = (i + 1 + n) % CHECK_HOSTS_MAX;

					json_array_append_new(
						reach,
						json_pack("[iiiii]", peer, from, to,
							  peer == CHECK_HOSTS_MAX - 1 && to == 7 ? ETIMEDOUT : 0, 0));
				}
		json_array_append_new(hosts, json_pack("{ss ss s{sO} so}", "name", "h", "remedy", "", "facts",
						       "interfaces", interfaces, "reach", reach));
	}
	json_decref(interfaces);
	assert_string_equal(only(hosts, text),
			    "ports note h:e  TCP port 7 from h, h, h, h and 12 more: nothing answers, as a firewall drops "
			    "packets or the host is down");
}

static void keys_are_digits_and_tokens_those_of_one_host_and_run(void **state)
{
	const uint8_t bytes[3] = { 0x00, 0x9f, 0xa1 };
	uint8_t one[CLUSTERPROBE_TOKEN_BYTES], again[CLUSTERPROBE_TOKEN_BYTES];
	char text[7], key[CHECK_HEX_BYTES];

	(void)state;
	check_hex(bytes, sizeof(bytes), text);
	assert_string_equal(text, "009fa1");
	assert_int_equal(check_random_key(key), 0);
	assert_int_equal(strspn(key, "0123456789abcdef"), CHECK_HEX_BYTES - 1);
	check_token(key, 1, one);
	check_token(key, 1, again);
	assert_memory_equal(one, again, sizeof(one));
	check_token(key, 2, again);
	assert_memory_not_equal(one, again, sizeof(one));
	key[0] ^= 1;
	check_token(key, 1, again);
	assert_memory_not_equal(one, again, sizeof(one));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_found_where_nothing_is_wrong),
		cmocka_unit_test(each_fault_is_one_line),
		cmocka_unit_test(another_version_is_told_of_the_plugin_and_of_the_command),
		cmocka_unit_test(an_address_that_is_not_reached_says_why),
		cmocka_unit_test(a_loopback_address_is_for_its_own_host),
		cmocka_unit_test(what_tcp_does_not_carry_is_no_error),
		cmocka_unit_test(an_interface_that_reaches_nobody_is_named),
		cmocka_unit_test(packets_that_vanish_are_named_with_those_that_pass),
		cmocka_unit_test(an_address_beside_another_way_is_a_note),
		cmocka_unit_test(a_host_may_say_anything),
		cmocka_unit_test(many_hosts_make_one_line),
		cmocka_unit_test(the_largest_cluster_is_concluded),
		cmocka_unit_test(keys_are_digits_and_tokens_those_of_one_host_and_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
