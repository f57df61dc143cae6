/* SPDX-License-Identifier: Apache-2.0 */
/* Which way of several a connection tries first, and which it takes. */
#include "transport/tcp/ways.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <string.h>

static struct tcp_wire_address address(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint8_t prefix_bits)
{
	return (struct tcp_wire_address){ .family = 4, .port = 1, .prefix_bits = prefix_bits, .bytes = { a, b, c, d } };
}

static void subnets_are_compared_by_the_shorter_prefix(void **state)
{
	const struct tcp_wire_address at = address(10, 1, 2, 3, 24), wide = address(10, 1, 200, 9, 16),
				      near = address(10, 1, 2, 200, 25), far = address(10, 1, 3, 3, 24),
				      odd = address(10, 1, 2, 131, 25), unknown = address(10, 1, 2, 4, 0);
	struct tcp_wire_address six = at;

	(void)state;
	six.family = 6;
	assert_true(tcp_way_in_one_subnet(&at, &wide));
	assert_true(tcp_way_in_one_subnet(&at, &near));
	assert_true(tcp_way_in_one_subnet(&near, &odd));
	assert_false(tcp_way_in_one_subnet(&at, &far));
	assert_false(tcp_way_in_one_subnet(&far, &near));
	assert_false(tcp_way_in_one_subnet(&at, &unknown));
	assert_false(tcp_way_in_one_subnet(&at, &six));
}

static void speeds_have_classes(void **state)
{
	static const struct {
		uint64_t mbps;
		uint8_t speed;
	} cases[] = { { 100, TCP_SPEED_BELOW_2_5 },   { 2499, TCP_SPEED_BELOW_2_5 },   { 2500, TCP_SPEED_BELOW_10 },
		      { 10000, TCP_SPEED_BELOW_25 },  { 25000, TCP_SPEED_BELOW_50 },   { 40000, TCP_SPEED_BELOW_50 },
		      { 50000, TCP_SPEED_BELOW_100 }, { 100000, TCP_SPEED_BELOW_200 }, { 200000, TCP_SPEED_MOST },
		      { 400000, TCP_SPEED_MOST } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tcp_interface interface = { .speed_Bps = cases[i].mbps * 125000 };

		assert_int_equal(tcp_way_speed(&interface), cases[i].speed);
		interface.speed_assumed = true;
		assert_int_equal(tcp_way_speed(&interface), TCP_SPEED_UNKNOWN);
	}
}

static struct tcp_way way(enum tcp_way_rank rank, uint8_t speed, bool neighbours)
{
	return (struct tcp_way){ .rank = rank, .speed = speed, .neighbours = neighbours };
}

static void assert_taken(struct tcp_way taken, struct tcp_way other)
{
	assert_true(tcp_way_is_worse(&other, &taken));
	assert_false(tcp_way_is_worse(&taken, &other));
}

static void the_devices_ports_come_first_unless_they_are_far_slower(void **state)
{
	(void)state;
	assert_taken(way(TCP_WAY_OWN, TCP_SPEED_BELOW_2_5, true), way(TCP_WAY_ANY, TCP_SPEED_BELOW_10, true));
	assert_taken(way(TCP_WAY_OWN, TCP_SPEED_BELOW_25, false), way(TCP_WAY_OWN_PORT, TCP_SPEED_BELOW_100, true));
	/* 10 beside 200 Gbit/s. */
	assert_taken(way(TCP_WAY_ANY, TCP_SPEED_MOST, false), way(TCP_WAY_OWN, TCP_SPEED_BELOW_25, true));
	/* 10 beside 50: five times as fast is not enough. */
	assert_taken(way(TCP_WAY_OWN, TCP_SPEED_BELOW_25, true), way(TCP_WAY_ANY, TCP_SPEED_BELOW_100, true));
	/* A speed that is not known is neither too slow nor too fast. */
	assert_taken(way(TCP_WAY_OWN, TCP_SPEED_UNKNOWN, true), way(TCP_WAY_ANY, TCP_SPEED_MOST, true));
	assert_taken(way(TCP_WAY_OWN, TCP_SPEED_BELOW_2_5, true), way(TCP_WAY_ANY, TCP_SPEED_UNKNOWN, true));
	assert_taken(way(TCP_WAY_OWN_PORT, 1, true), way(TCP_WAY_PEERS_PORT, 2, true));
	assert_taken(way(TCP_WAY_PEERS_PORT, 1, true), way(TCP_WAY_ANY, 2, true));
	assert_taken(way(TCP_WAY_ANY, 3, true), way(TCP_WAY_ANY, 2, true));
	assert_taken(way(TCP_WAY_ANY, 1, false), way(TCP_WAY_AS_ROUTED, TCP_SPEED_MOST, true));
}

static void neighbours_are_tried_first_and_the_systems_choice_last(void **state)
{
	const struct tcp_way list[] = { way(TCP_WAY_OWN, 1, true),         way(TCP_WAY_ANY, 5, true),
					way(TCP_WAY_ANY, 4, true),         way(TCP_WAY_OWN, 7, false),
					way(TCP_WAY_PEERS_PORT, 7, false), way(TCP_WAY_AS_ROUTED, 7, true) };
	const int count = (int)(sizeof(list) / sizeof(list[0]));

	(void)state;
	for (int i = 0; i < count; i++)
		for (int k = 0; k < count; k++) {
			const int order = tcp_way_try_before(&list[i], &list[k]);

			assert_true(i < k ? order < 0 : i > k ? order > 0 : order == 0);
		}
}

static struct tcp_interface interface_at(uint32_t ip, int index)
{
	struct tcp_interface interface = { .address_bytes = sizeof(struct sockaddr_in),
					   .prefix_bits = 24,
					   .index = index };
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&interface.address;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(ip);
	return interface;
}

/* Loopback alone has routes that a test may count on: all of 127/8 is this host. What is told by nothing else is still tried. */
static void an_address_of_this_host_is_the_last_way_to_another(void **state)
{
	const struct tcp_interface interface = interface_at(INADDR_LOOPBACK, 1);
	const struct tcp_wire_address peers[] = { address(127, 0, 0, 1, 8), address(127, 9, 9, 9, 8) };
	struct tcp_way ways[TCP_WAYS_MAX];

	(void)state;
	assert_int_equal(tcp_ways_find(&interface, 1, &(int){ 0 }, 1, peers, 2, 1, ways), 1);
	assert_int_equal(ways[0].rank, TCP_WAY_AS_ROUTED);
	assert_memory_equal(&ways[0].peer, &peers[0], sizeof(peers[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(subnets_are_compared_by_the_shorter_prefix),
		cmocka_unit_test(speeds_have_classes),
		cmocka_unit_test(the_devices_ports_come_first_unless_they_are_far_slower),
		cmocka_unit_test(neighbours_are_tried_first_and_the_systems_choice_last),
		cmocka_unit_test(an_address_of_this_host_is_the_last_way_to_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
