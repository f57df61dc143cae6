/* SPDX-License-Identifier: Apache-2.0 */
/* The form of the file in which numbers of streams are kept, and its keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "support/random.h"
#include "support/runtime.h"
#include "transport/tcp/streams_memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOW_S = 2000000000, DAY_S = 86400 };

static struct sockaddr_storage address_of(const char *text)
{
	struct sockaddr_storage address = { .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };

	if (address.ss_family == AF_INET6)
		assert_int_equal(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&address)->sin6_addr), 1);
	else
		assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&address)->sin_addr), 1);
	return address;
}

static struct tcp_streams_memory_key key_of(const char *own, unsigned prefix, const char *peer)
{
	struct tcp_interface interface = { .name = "eth0", .address = address_of(own), .speed_Bps = 1250000000 };
	struct sockaddr_storage other = address_of(peer);

	interface.prefix_bits = prefix;
	return tcp_streams_memory_key(&interface, &other);
}

static struct tcp_streams_memory_key numbered(unsigned number)
{
	char peer[32];

	snprintf(peer, sizeof(peer), "10.%u.%u.7", number / 256, number % 256);
	return key_of("192.168.0.1", 16, peer);
}

static void assert_subnet(struct tcp_streams_memory_key key, const char *subnet, unsigned prefix)
{
	struct sockaddr_storage address = address_of(subnet);
	const void *bytes = key.family == 6 ? (const void *)&((struct sockaddr_in6 *)&address)->sin6_addr
					    : (const void *)&((struct sockaddr_in *)&address)->sin_addr;

	assert_int_equal(key.family, strchr(subnet, ':') ? 6 : 4);
	assert_int_equal(key.prefix, prefix);
	assert_memory_equal(key.subnet, bytes, key.family == 6 ? 16 : 4);
}

static void key_has_the_peer_s_subnet(void **state)
{
	(void)state;
	assert_subnet(key_of("10.1.2.3", 20, "10.1.15.9"), "10.1.0.0", 20);
	assert_subnet(key_of("10.1.2.3", 20, "10.1.16.9"), "10.1.16.0", 24);
	assert_subnet(key_of("10.1.2.3", 32, "10.1.2.4"), "10.1.2.0", 24); /* as some clouds give them */
	assert_subnet(key_of("10.1.2.3", 0, "10.1.2.4"), "10.1.2.0", 24);  /* not known */
	assert_subnet(key_of("10.1.2.3", 31, "10.1.2.2"), "10.1.2.2", 31);
	assert_subnet(key_of("fd00::1", 48, "fd00::5:0:0:9"), "fd00::", 48);
	assert_subnet(key_of("fd00::1", 64, "fd00:0:0:1:2:3:4:5"), "fd00:0:0:1::", 64);
	assert_subnet(key_of("10.1.2.3", 8, "fd00::1"), "fd00::", 64);
}

static void only_the_same_interface_and_speed_share_an_entry(void **state)
{
	struct tcp_interface interface = { .name = "eth0", .address = address_of("10.0.0.1"), .speed_Bps = 1000 };
	const struct sockaddr_storage peer = address_of("10.0.0.2");
	struct tcp_streams_memory_key key, other;

	(void)state;
	interface.prefix_bits = 24;
	key = tcp_streams_memory_key(&interface, &peer);
	interface.address = address_of("10.0.0.3");
	other = tcp_streams_memory_key(&interface, &peer);
	assert_true(tcp_streams_memory_same(&key, &other));
	interface.name[3] = '1';
	other = tcp_streams_memory_key(&interface, &peer);
	assert_false(tcp_streams_memory_same(&key, &other));
	interface.name[3] = '0';
	interface.speed_assumed = true; /* a guess is not a speed */
	other = tcp_streams_memory_key(&interface, &peer);
	assert_int_equal(other.speed_Bps, 0);
	assert_false(tcp_streams_memory_same(&key, &other));
}

static void entries_are_valid_for_a_day(void **state)
{
	static struct tcp_streams_memory memory;
	const struct tcp_streams_memory_key key = numbered(1), other = numbered(2);

	(void)state;
	memory.count = 0;
	tcp_streams_memory_put(&memory, &key, 8, NOW_S);
	assert_int_equal(tcp_streams_memory_find(&memory, &key, NOW_S), 8);
	assert_int_equal(tcp_streams_memory_find(&memory, &other, NOW_S), 0);
	assert_int_equal(tcp_streams_memory_find(&memory, &key, NOW_S + DAY_S), 8);
	assert_int_equal(tcp_streams_memory_find(&memory, &key, NOW_S + DAY_S + 1), 0);
	/* Hosts that share a home differ by seconds. */
	assert_int_equal(tcp_streams_memory_find(&memory, &key, NOW_S - 60), 8);
	assert_int_equal(tcp_streams_memory_find(&memory, &key, NOW_S - 61), 0);
	memory.entries[0].written_s = UINT64_MAX;
	assert_int_equal(tcp_streams_memory_find(&memory, &key, NOW_S), 0);
	/* What is not valid goes with the next write, whatever its key. */
	tcp_streams_memory_put(&memory, &other, 4, NOW_S);
	assert_int_equal(memory.count, 1);
}

static void put_replaces_removes_and_makes_room(void **state)
{
	static struct tcp_streams_memory memory;

	(void)state;
	memory.count = 0;
	for (unsigned i = 0; i < TCP_STREAMS_MEMORY_ENTRIES + 3; i++) {
		const struct tcp_streams_memory_key key = numbered(i);

		tcp_streams_memory_put(&memory, &key, 2 + i % 31, NOW_S + i);
		tcp_streams_memory_put(&memory, &key, 2 + i % 31, NOW_S + i);
	}
	assert_int_equal(memory.count, TCP_STREAMS_MEMORY_ENTRIES);
	for (unsigned i = 0; i < TCP_STREAMS_MEMORY_ENTRIES + 3; i++) {
		const struct tcp_streams_memory_key key = numbered(i);

		assert_int_equal(tcp_streams_memory_find(&memory, &key, NOW_S + 200), i < 3 ? 0 : 2 + i % 31);
		tcp_streams_memory_put(&memory, &key, i % 2, NOW_S + 200); /* 0 and 1 are none */
		assert_int_equal(tcp_streams_memory_find(&memory, &key, NOW_S + 200), 0);
	}
	assert_int_equal(memory.count, 0);
}

static size_t write_some(uint8_t bytes[static TCP_STREAMS_MEMORY_BYTES], unsigned count)
{
	static struct tcp_streams_memory memory;

	memory.count = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct tcp_streams_memory_key key = i % 2 ? numbered(i) : key_of("fd00::1", 64, "fd00::2");

		tcp_streams_memory_put(&memory, &key, 2 + i % 31, NOW_S);
	}
	return tcp_streams_memory_write(&memory, bytes);
}

static void what_is_written_is_read(void **state)
{
	static struct tcp_streams_memory memory;
	uint8_t bytes[TCP_STREAMS_MEMORY_BYTES], again[TCP_STREAMS_MEMORY_BYTES];

	(void)state;
	for (unsigned i = 0; i < 2 * TCP_STREAMS_MEMORY_ENTRIES; i += 17) {
		const size_t count = write_some(bytes, i);

		assert_int_equal(tcp_streams_memory_read(bytes, count, &memory), 0);
		assert_int_equal(tcp_streams_memory_write(&memory, again), count);
		assert_memory_equal(bytes, again, count);
	}
}

/* Read from a block of its own, so that a byte beyond it is seen by AddressSanitizer. */
static int read_exact(const uint8_t *bytes, size_t count, struct tcp_streams_memory *ret)
{
	uint8_t *exact = malloc(count + !count);
	int r;

	assert_non_null(exact);
	memcpy(exact, bytes, count);
	r = tcp_streams_memory_read(exact, count, ret);
	free(exact);
	assert_true(r == 0 || r == -EBADMSG || r == -EPROTO);
	assert_true(r == 0 || ret->count == 0);
	return r;
}

static void whatever_is_damaged_is_empty(void **state)
{
	static struct tcp_streams_memory memory;
	uint8_t bytes[TCP_STREAMS_MEMORY_BYTES + 1] = { 0 };
	const size_t count = write_some(bytes, 9);
	uint64_t random = runtime_seed();

	(void)state;
	for (size_t i = 0; i < count; i++) {
		assert_true(read_exact(bytes, i, &memory) < 0);
		for (unsigned bit = 0; bit < 8; bit++) {
			bytes[i] ^= (uint8_t)(1 << bit);
			assert_true(read_exact(bytes, count, &memory) < 0);
			bytes[i] ^= (uint8_t)(1 << bit);
		}
	}
	assert_true(read_exact(bytes, count + 1, &memory) < 0);
	assert_int_equal(read_exact(bytes, count, &memory), 0);
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t any[256];
		const size_t some = random_below(&random, sizeof(any));

		for (size_t k = 0; k < some; k++)
			any[k] = k < 12 && i % 2 ? bytes[k] : (uint8_t)random_next(&random);
		assert_true(read_exact(any, some, &memory) < 0);
	}
}

/* Fields that no writer makes, with the sum that fits to them. */
static void each_field_is_checked(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} bad[] = {
		{ 0, 'X' }, { 8, 2 },   { 10, 2 },  { 11, 0xff }, { 12, 0 }, { 12 + 15, 'x' }, { 12, 10 }, { 36, 5 },
		{ 37, 0 },  { 37, 33 }, { 37, 15 }, { 42, 1 },    { 54, 0 }, { 54, 1 },        { 54, 33 },
	};
	static struct tcp_streams_memory memory;
	const struct tcp_streams_memory_key key = numbered(3);
	uint8_t bytes[TCP_STREAMS_MEMORY_BYTES];
	size_t count;

	(void)state;
	for (unsigned i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
		memory.count = 0;
		tcp_streams_memory_put(&memory, &key, 8, NOW_S);
		count = tcp_streams_memory_write(&memory, bytes);
		if (i < sizeof(bad) / sizeof(bad[0]))
			bytes[bad[i].at] = bad[i].value;
		bytes_put(bytes + count - 4, bytes_checksum(bytes, count - 4), 4);
		assert_int_equal(read_exact(bytes, count, &memory) == 0, i == sizeof(bad) / sizeof(bad[0]));
	}
}

/* A sum proves nothing of who wrote it. */
static void more_entries_than_there_may_be_are_refused(void **state)
{
	enum { MANY = 4000, HEAD = 12 };
	static struct {
		struct tcp_streams_memory memory;
		uint8_t after[MANY * sizeof(struct tcp_streams_memory_entry)];
	} room;
	static uint8_t bytes[HEAD + MANY * TCP_STREAMS_MEMORY_ENTRY_BYTES + 4], one[TCP_STREAMS_MEMORY_BYTES];
	const size_t count = sizeof(bytes);

	(void)state;
	write_some(one, 1);
	memcpy(bytes, one, HEAD);
	bytes_put(bytes + 10, MANY, 2);
	for (unsigned i = 0; i < MANY; i++)
		memcpy(bytes + HEAD + i * TCP_STREAMS_MEMORY_ENTRY_BYTES, one + HEAD, TCP_STREAMS_MEMORY_ENTRY_BYTES);
	bytes_put(bytes + count - 4, bytes_checksum(bytes, count - 4), 4);
	assert_true(read_exact(bytes, count, &room.memory) < 0);
	for (size_t i = 0; i < sizeof(room.after); i++)
		assert_int_equal(room.after[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_has_the_peer_s_subnet),
		cmocka_unit_test(only_the_same_interface_and_speed_share_an_entry),
		cmocka_unit_test(entries_are_valid_for_a_day),
		cmocka_unit_test(put_replaces_removes_and_makes_room),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(whatever_is_damaged_is_empty),
		cmocka_unit_test(each_field_is_checked),
		cmocka_unit_test(more_entries_than_there_may_be_are_refused),
	};

	runtime_start("streams_memory", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
