/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the clusterprobe come back as they were, and nothing else does. */
#include "clusterprobe/clusterprobe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct clusterprobe_message one, two;
static uint8_t payload[CONTROL_PAYLOAD_MAX + 1];

static void fill(enum clusterprobe_kind kind)
{
	memset(&one, 0, sizeof(one));
	memset(&two, 0, sizeof(two));
	one.kind = kind;
	one.rank = 0x01020304;
	one.boot = UINT64_C(0x99aabbccddeeff01);
	one.round = 77;
	one.duration_ms = 400;
	one.streams = 3;
	one.index = 9;
	one.peer = 8;
	one.first = 512;
	one.limit_Bps = UINT64_C(0x1122334455667788);
	one.median_ns = 5;
	one.least_ns = 4;
	memset(one.token, 0xab, sizeof(one.token));
	strcpy(one.name, "host1");
	strcpy(one.sentence, "so it is");
	memset(one.text, 'x', sizeof(one.text));
	one.text_bytes = CLUSTERPROBE_TEXT_BYTES;
	one.task_count = 300;
	for (size_t i = 0; i < one.task_count; i++)
		one.tasks[i] = (struct clusterprobe_task){ (uint16_t)i, CLUSTERPROBE_IDLE, i << 33 };
	one.peer_count = 200;
	for (size_t i = 0; i < one.peer_count; i++)
		one.peers[i].port = (uint16_t)(1000 + i);
}

static void every_kind_comes_back(void **state)
{
	(void)state;
	for (enum clusterprobe_kind kind = CLUSTERPROBE_NONE + 1; kind < CLUSTERPROBE_KIND_COUNT; kind++) {
		bool from_worker = kind <= CLUSTERPROBE_TROUBLE;
		size_t bytes;

		fill(kind);
		bytes = clusterprobe_message_put(&one, payload);
		assert_true(bytes <= CONTROL_PAYLOAD_MAX);
		assert_int_equal(clusterprobe_message_get(payload, bytes, from_worker, &two), 0);
		assert_int_equal(two.kind, kind);
		/* Said once more it is the same. */
		memset(payload, 0xee, bytes);
		assert_int_equal(clusterprobe_message_put(&two, payload), bytes);
		assert_int_equal(clusterprobe_message_get(payload, bytes, from_worker, &two), 0);
		assert_int_equal(clusterprobe_message_get(payload, bytes, !from_worker, &two), -EBADMSG);
		for (size_t less = 0; less < bytes; less += 1 + less / 8)
			assert_int_equal(clusterprobe_message_get(payload, less, from_worker, &two), -EBADMSG);
		assert_int_equal(clusterprobe_message_get(payload, bytes + 1, from_worker, &two), -EBADMSG);
	}
}

static void another_version_is_told_apart(void **state)
{
	uint8_t old[1 + 4 + 18 + CLUSTERPROBE_NAME_BYTES] = { CLUSTERPROBE_HELLO, CLUSTERPROBE_VERSION };
	size_t bytes;

	(void)state;
	fill(CLUSTERPROBE_HELLO);
	bytes = clusterprobe_message_put(&one, payload);
	assert_int_equal(clusterprobe_message_get(payload, bytes, true, &two), 0);
	assert_int_equal(two.version, CLUSTERPROBE_VERSION);
	assert_true(two.boot == one.boot);
	payload[5]++;
	assert_int_equal(clusterprobe_message_get(payload, bytes, true, &two), -EPROTO);
	assert_int_equal(two.version, CLUSTERPROBE_VERSION + 1);
	assert_int_equal(clusterprobe_message_get(payload, bytes + 1, true, &two), -EPROTO);
	/* The first version said its rank there. */
	assert_int_equal(clusterprobe_message_get(old, sizeof(old), true, &two), -EPROTO);
	assert_int_equal(two.version, 1);
}

static void counts_are_bounded(void **state)
{
	size_t bytes;

	(void)state;
	fill(CLUSTERPROBE_PEERS);
	one.first = FABRIC_HOSTS_MAX - 1;
	bytes = clusterprobe_message_put(&one, payload);
	assert_int_equal(clusterprobe_message_get(payload, bytes, false, &two), -EBADMSG);
	fill(CLUSTERPROBE_ROUND);
	one.duration_ms = 60001;
	bytes = clusterprobe_message_put(&one, payload);
	assert_int_equal(clusterprobe_message_get(payload, bytes, false, &two), -EBADMSG);
	fill(CLUSTERPROBE_ASK);
	bytes = clusterprobe_message_put(&one, payload);
	payload[5]++; /* text_bytes */
	assert_int_equal(clusterprobe_message_get(payload, bytes + 1, false, &two), -EBADMSG);
	fill(CLUSTERPROBE_ROUND);
	one.task_count = CLUSTERPROBE_TASKS_MAX;
	assert_true(clusterprobe_message_put(&one, payload) <= CONTROL_PAYLOAD_MAX);
}

static void names_are_text(void **state)
{
	size_t bytes;

	(void)state;
	fill(CLUSTERPROBE_HELLO);
	strcpy(one.name, "a\x1b[31mb");
	bytes = clusterprobe_message_put(&one, payload);
	assert_int_equal(clusterprobe_message_get(payload, bytes, true, &two), 0);
	assert_string_equal(two.name, "a?[31mb");
	payload[bytes - sizeof(one.name)] = 0x1b; /* the name is the last field */
	assert_int_equal(clusterprobe_message_get(payload, bytes, true, &two), -EBADMSG);
	memset(one.name, 'x', sizeof(one.name) - 1);
	bytes = clusterprobe_message_put(&one, payload);
	payload[bytes - 1] = 'x';
	assert_int_equal(clusterprobe_message_get(payload, bytes, true, &two), -EBADMSG);
}

static void addresses_of_both_families_come_back(void **state)
{
	struct sockaddr_storage from = { 0 }, to;
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)&from;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&from;
	struct clusterprobe_address address;

	(void)state;
	four->sin_family = AF_INET;
	four->sin_port = htons(5);
	inet_pton(AF_INET, "192.0.2.7", &four->sin_addr);
	clusterprobe_address_of(&from, &address);
	assert_int_equal(clusterprobe_address_to(&address, &to), sizeof(*four));
	assert_memory_equal(&from, &to, sizeof(*four));
	memset(&from, 0, sizeof(from));
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(6);
	inet_pton(AF_INET6, "2001:db8::7", &six->sin6_addr);
	clusterprobe_address_of(&from, &address);
	assert_int_equal(clusterprobe_address_to(&address, &to), sizeof(*six));
	assert_memory_equal(&from, &to, sizeof(*six));
}

static void preambles_come_back_and_unauthenticated_do_not(void **state)
{
	struct clusterprobe_preamble preamble = { .echo = true, .flow = 3, .round = 4 }, again;
	uint8_t bytes[CLUSTERPROBE_PREAMBLE_BYTES];

	(void)state;
	memset(preamble.token, 7, sizeof(preamble.token));
	clusterprobe_preamble_codec(CODEC_TO(bytes), &preamble);
	assert_int_equal(clusterprobe_preamble_codec(CODEC_FROM(bytes, CLUSTERPROBE_PREAMBLE_BYTES), &again), 0);
	assert_true(again.echo);
	assert_int_equal(again.flow, 3);
	assert_int_equal(again.round, 4);
	assert_memory_equal(again.token, preamble.token, sizeof(preamble.token));
	for (size_t i = 0; i < 6; i++) {
		bytes[i] ^= 0x40;
		assert_int_equal(clusterprobe_preamble_codec(CODEC_FROM(bytes, CLUSTERPROBE_PREAMBLE_BYTES), &again),
				 -EBADMSG);
		bytes[i] ^= 0x40;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_comes_back),
		cmocka_unit_test(another_version_is_told_apart),
		cmocka_unit_test(counts_are_bounded),
		cmocka_unit_test(names_are_text),
		cmocka_unit_test(addresses_of_both_families_come_back),
		cmocka_unit_test(preambles_come_back_and_unauthenticated_do_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
