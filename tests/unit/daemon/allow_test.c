/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/allow.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct sockaddr_storage at(const char *text)
{
	struct sockaddr_storage address;
	struct diag diag;
	socklen_t bytes;
	char with_port[80];

	snprintf(with_port, sizeof(with_port), strchr(text, ':') ? "[%s]:1" : "%s:1", text);
	assert_int_equal(daemon_address_parse(with_port, &address, &bytes, &diag), 0);
	return address;
}

static bool allowed(const char *list, const char *address)
{
	struct sockaddr_storage one = at(address);
	struct daemon_allow allow;
	struct diag diag;

	assert_int_equal(daemon_allow_parse(list, &allow, &diag), 0);
	return daemon_allow_has(&allow, &one);
}

static void addresses_are_in_their_networks_alone(void **state)
{
	(void)state;
	assert_true(allowed("10.1.2.0/24", "10.1.2.0"));
	assert_true(allowed("10.1.2.0/24", "10.1.2.255"));
	assert_false(allowed("10.1.2.0/24", "10.1.3.0"));
	assert_false(allowed("10.1.2.0/24", "10.1.1.255"));
	assert_true(allowed("10.1.2.128/25", "10.1.2.128"));
	assert_false(allowed("10.1.2.128/25", "10.1.2.127"));
	assert_true(allowed("10.1.2.3", "10.1.2.3"));
	assert_false(allowed("10.1.2.3", "10.1.2.2"));
	assert_true(allowed("fd00::/8", "fdff::1"));
	assert_false(allowed("fd00::/8", "fe00::1"));
	assert_true(allowed("10.0.0.0/8,fd00:1::/32", "fd00:1:2::3"));
	assert_false(allowed("10.0.0.0/8", "fd00::1"));
	assert_true(allowed("0.0.0.0/0", "1.2.3.4"));
	assert_false(allowed("0.0.0.0/0", "2001:db8::1")); /* IPv4's any is IPv4's */
}

/* An IPv4 peer of an IPv6 socket is the same peer. */
static void a_mapped_address_is_the_address(void **state)
{
	(void)state;
	assert_true(allowed("10.1.2.0/24", "::ffff:10.1.2.3"));
	assert_false(allowed("10.1.2.0/24", "::ffff:10.1.3.3"));
}

static void any_and_private_are_words(void **state)
{
	static const char *const inside[] = { "10.9.8.7",    "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1",
					      "169.254.1.1", "::1",        "fe80::1",        "fd12::1" };
	static const char *const outside[] = { "11.0.0.1", "172.32.0.1", "172.15.0.1", "8.8.8.8", "2001:db8::1" };

	(void)state;
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
		assert_true(allowed("private", inside[i]));
		assert_true(allowed("any", inside[i]));
	}
	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		assert_false(allowed("private", outside[i]));
		assert_true(allowed("any", outside[i]));
		assert_true(allowed("private,any", outside[i]));
	}
}

static void what_is_no_network_is_named(void **state)
{
	static const char *const wrong[] = {
		"",          ",",    "10.0.0.0/33",         "10.0.0.0/", "10.0.0/8",    "10.1.0.0/8",  "fd00::/129",
		"fd00::1/8", "host", "10.0.0.0/8,nonsense", "/8",        "10.0.0.0/-1", "10.0.0.0/ 8", "10.0.0.0/8/8"
	};
	struct daemon_allow allow = { .count = 99 };
	struct diag diag;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		diag.text[0] = '\0';
		assert_int_equal(daemon_allow_parse(wrong[i], &allow, &diag), -EINVAL);
		assert_true(diag.text[0]);
		assert_int_equal(allow.count, 99);
	}
}

static void listen_addresses_have_a_port_and_ipv6_has_brackets(void **state)
{
	static const char *const right[] = { "127.0.0.1:7471", "0.0.0.0:1", "[::1]:65535", "[fd00::9]:7471" };
	static const char *const wrong[] = {
		"127.0.0.1",       "127.0.0.1:",  ":7471",  "::1:7471", "[::1]", "[127.0.0.1]:5",
		"127.0.0.1:65536", "127.0.0.1:x", "host:5", "[::1:5",   ""
	};
	struct sockaddr_storage address;
	char text[DAEMON_ADDRESS_TEXT];
	struct diag diag;
	socklen_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		assert_int_equal(daemon_address_parse(right[i], &address, &bytes, &diag), 0);
		assert_string_equal(daemon_address_text(&address, text), right[i]);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(daemon_address_parse(wrong[i], &address, &bytes, &diag), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_in_their_networks_alone),
		cmocka_unit_test(a_mapped_address_is_the_address),
		cmocka_unit_test(any_and_private_are_words),
		cmocka_unit_test(what_is_no_network_is_named),
		cmocka_unit_test(listen_addresses_have_a_port_and_ipv6_has_brackets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
