/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/fork.h"
#include "transport/verbs/verbs.h"
#include "unit/plugin/fake_rdma.h"
#include "unit/plugin/fake_transport.h"
#include "unit/transport/verbs/fake_verbs.h"

enum { THREADS = 4, ROUNDS = 2000 };

static void transport_is_open_while_it_is_held(void **state)
{
	struct transport *first, *second;

	(void)state;
	assert_int_equal(plugin_state_get(&first), 0);
	assert_int_equal(plugin_state_get(&second), 0);
	assert_ptr_equal(first, second);
	plugin_state_hold();
	assert_int_equal(plugin_state_holders(), 3);
	assert_int_equal(fake_transport.opens, 1);
	plugin_state_put();
	plugin_state_put();
	assert_int_equal(fake_transport.closes, 0);
	plugin_state_put();
	assert_int_equal(fake_transport.closes, 1);
	assert_int_equal(plugin_state_get(&first), 0);
	assert_int_equal(fake_transport.opens, 2);
	plugin_state_put();
	assert_int_equal(fake_transport.closes, 2);
}

static void a_hold_for_good_is_taken_once(void **state)
{
	(void)state;
	assert_int_equal(plugin_state_get_for_good(), 0);
	assert_int_equal(plugin_state_get_for_good(), 0);
	assert_int_equal(plugin_state_holders(), 1);
	assert_int_equal(fake_transport.opens, 1);
}

static void failed_opening_leaves_nothing_and_can_be_tried_again(void **state)
{
	struct transport *transport;
	int count = 77;

	(void)state;
	fake_transport.open_error = -EMFILE;
	assert_int_equal(plugin_state_get(&transport), -EMFILE);
	assert_int_equal(plugin_state_get_for_good(), -EMFILE);
	assert_int_equal(plugin_state_device_count(&count), -EMFILE);
	assert_int_equal(count, 77);
	assert_int_equal(plugin_state_holders(), 0);
	fake_transport.open_error = 0;
	assert_int_equal(plugin_state_get(&transport), 0);
	plugin_state_put();
}

static void changed_devices_change_no_number(void **state)
{
	struct transport_properties other;
	struct transport *transport;

	(void)state;
	assert_int_equal(plugin_state_get(&transport), 0);
	plugin_state_put();
	other = fake_transport.devices[0];
	fake_transport.devices[0] = fake_transport.devices[1];
	fake_transport.devices[1] = other;
	assert_int_equal(plugin_state_get(&transport), 0);
	assert_int_equal(plugin_state_served(0), 1);
	assert_int_equal(plugin_state_served(1), 0);
	assert_int_equal(plugin_state_served(2), -EINVAL);
	plugin_state_put();
}

static void devices_can_be_asked_for_at_any_time(void **state)
{
	struct plugin_net_properties properties;
	int count, members[] = { 0, 1 }, joined;

	(void)state;
	fake_transport.devices[1].pci_path = "/sys/devices/pci0000:00/0000:00:02.0";
	assert_int_equal(plugin_state_device(1, &properties), 0);
	assert_string_equal(properties.name, "fake1");
	assert_int_equal(plugin_state_join(2, members, &joined), 0);
	assert_int_equal(plugin_state_holders(), 0);
	assert_int_equal(fake_transport.opens, fake_transport.closes);
	assert_int_equal(plugin_state_device_count(&count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(plugin_state_device(joined, &properties), 0);
	assert_int_equal(properties.member_count, 2);
}

/* fake1 has no PCI path. */
static void virtual_devices_are_joined_only_when_that_is_asked_for(void **state)
{
	static const struct {
		const char *setting;
		int both, first;
	} cases[] = { { NULL, -EOPNOTSUPP, 0 }, { "always", 0, 0 }, { "never", -EOPNOTSUPP, -EOPNOTSUPP } };
	int members[] = { 0, 1 }, joined;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		plugin_state_reset(&fake_transport_ops, NULL);
		if (cases[i].setting)
			setenv("TRIBUTARY_JOIN", cases[i].setting, 1);
		assert_int_equal(plugin_state_join(2, members, &joined), cases[i].both);
		assert_int_equal(plugin_state_join(1, members, &joined), cases[i].first);
	}
	unsetenv("TRIBUTARY_JOIN");
}

static void off_has_no_devices_and_no_transport(void **state)
{
	struct plugin_net_properties properties;
	struct transport *transport;
	int count = 77, members[] = { 0 }, joined;

	(void)state;
	setenv("TRIBUTARY_NET", "off", 1);
	assert_int_equal(plugin_state_device_count(&count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(plugin_state_get(&transport), -ENODEV);
	assert_int_equal(plugin_state_device(0, &properties), -ENODEV);
	assert_int_equal(plugin_state_join(1, members, &joined), -ENODEV);
	assert_int_equal(fake_transport.opens, 0);
}

static void wrong_settings_are_named_once(void **state)
{
	(void)state;
	setenv("TRIBUTARY_STREEMS", "2", 1);
	plugin_state_load();
	unsetenv("TRIBUTARY_STREEMS");
	plugin_state_load();
	assert_int_equal(log_lines()->warnings, 1);
	assert_non_null(strstr(log_lines()->warning, "TRIBUTARY_STREEMS"));
}

/* What the plugin takes when it is asked for `net` on a host with so many RDMA devices. */
static const struct transport_ops *taken(const char *net, unsigned devices)
{
	const struct transport_ops *ops;

	setenv("TRIBUTARY_NET", net, 1);
	setenv("TRIBUTARY_GID_INDEX", "1", 1);
	setenv("TRIBUTARY_IF", "lo", 1);
	verbs_transport_use(fake_verbs_start(&(struct fake_verbs_options){ .devices = devices }), NULL);
	plugin_state_reset(NULL, &fake_rdma_none);
	plugin_state_load();
	ops = plugin_state_ops();
	assert_int_equal(fake_verbs_stop(), 0);
	verbs_transport_use(NULL, NULL);
	unsetenv("TRIBUTARY_GID_INDEX");
	unsetenv("TRIBUTARY_IF");
	return ops;
}

static void verbs_is_taken_by_name_alone_and_else_is_a_warning_and_tcp(void **state)
{
	(void)state;
	assert_ptr_equal(taken("auto", 2), &transport_tcp);
	assert_ptr_equal(taken("tcp", 2), &transport_tcp);
	assert_ptr_equal(taken("verbs", 2), &transport_verbs);
	assert_int_equal(log_lines()->warnings, 0);
	assert_ptr_equal(taken("verbs", 0), &transport_tcp);
	assert_int_equal(log_lines()->warnings, 1);
	assert_string_equal(log_lines()->warning,
			    "TRIBUTARY_NET=verbs is not usable, so TCP is used: this host has no RDMA device");
}

static void loading_arms_the_fork_guard(void **state)
{
	(void)state;
	assert_ptr_equal(plugin_fork.mark, &plugin_fork_unarmed_mark);
	plugin_state_load();
	assert_ptr_not_equal(plugin_fork.mark, &plugin_fork_unarmed_mark);
}

static void *hold_and_let_go(void *arg)
{
	struct transport *transport;
	int count;

	for (int i = 0; i < ROUNDS; i++) {
		if (plugin_state_get(&transport) < 0 || !transport)
			return arg;
		/* While anybody holds it, it has been opened once more than closed. */
		if (fake_transport.opens <= fake_transport.closes)
			return arg;
		plugin_state_hold();
		plugin_state_put();
		if (plugin_state_device_count(&count) < 0 || count != FAKE_PHYSICAL)
			return arg;
		plugin_state_put();
	}
	return NULL;
}

static void many_threads_open_and_close_it(void **state)
{
	pthread_t threads[THREADS];
	void *failed;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hold_and_let_go, &fake_transport), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(plugin_state_holders(), 0);
	assert_int_equal(fake_transport.opens, fake_transport.closes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_transport_setup, fake_transport_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(transport_is_open_while_it_is_held),
		TEST(a_hold_for_good_is_taken_once),
		TEST(failed_opening_leaves_nothing_and_can_be_tried_again),
		TEST(changed_devices_change_no_number),
		TEST(devices_can_be_asked_for_at_any_time),
		TEST(virtual_devices_are_joined_only_when_that_is_asked_for),
		TEST(off_has_no_devices_and_no_transport),
		TEST(wrong_settings_are_named_once),
		TEST(verbs_is_taken_by_name_alone_and_else_is_a_warning_and_tcp),
		TEST(loading_arms_the_fork_guard),
		TEST(many_threads_open_and_close_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
