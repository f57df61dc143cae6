/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/control/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void a_request_comes_back_as_it_was(void **state)
{
	static uint8_t handles[CONTROL_MEMBERS_MAX * TRANSPORT_HANDLE_BYTES], payload[CONTROL_PAYLOAD_MAX];
	struct control_request request = { .data_version = 3,
					   .types = 0x3ff,
					   .operations = 0xf,
					   .name = "job 17",
					   .timeout_ms = 10000,
					   .handles = handles };
	struct control_request again;

	(void)state;
	for (size_t i = 0; i < sizeof(handles); i++)
		handles[i] = (uint8_t)(i * 7);
	memset(request.id, 0xa5, sizeof(request.id));
	for (unsigned count = 1; count <= CONTROL_MEMBERS_MAX; count += 51) {
		size_t bytes;

		request.member_count = (uint16_t)count;
		control_wire_request(CODEC_TO(payload), &request);
		bytes = CONTROL_REQUEST_BYTES + count * TRANSPORT_HANDLE_BYTES;
		assert_int_equal(control_wire_request(CODEC_FROM(payload, bytes), &again), 0);
		assert_int_equal(again.member_count, count);
		assert_int_equal(again.types, 0x3ff);
		assert_int_equal(again.data_version, 3);
		assert_int_equal(again.timeout_ms, 10000);
		assert_string_equal(again.name, "job 17");
		assert_memory_equal(again.handles, handles, count * TRANSPORT_HANDLE_BYTES);
		assert_int_equal(control_wire_request(CODEC_FROM(payload, bytes - 1), &again), -EBADMSG);
		assert_int_equal(control_wire_request(CODEC_FROM(payload, bytes + 1), &again), -EBADMSG);
	}
	request.member_count = 1;
	control_wire_request(CODEC_TO(payload), &request);
	payload[22] = 0; /* no member */
	assert_int_equal(control_wire_request(CODEC_FROM(payload, CONTROL_REQUEST_BYTES), &again), -EBADMSG);
}

static void names_of_strangers_are_text(void **state)
{
	struct control_hello hello = { .name = "ok" }, again;
	uint8_t bytes[CONTROL_HELLO_BYTES];

	(void)state;
	control_wire_hello(CODEC_TO(bytes), &hello);
	assert_int_equal(control_wire_hello(CODEC_FROM(bytes, CONTROL_HELLO_BYTES), &again), 0);
	bytes[48] = 0x1b; /* an escape sequence for somebody's terminal */
	assert_int_equal(control_wire_hello(CODEC_FROM(bytes, CONTROL_HELLO_BYTES), &again), -EBADMSG);
	memset(bytes + 48, 'x', CONTROL_NAME_BYTES); /* no end */
	assert_int_equal(control_wire_hello(CODEC_FROM(bytes, CONTROL_HELLO_BYTES), &again), -EBADMSG);
	memset(hello.name, 'y', sizeof(hello.name));
	hello.name[3] = '\n';
	hello.name[sizeof(hello.name) - 1] = '\0';
	control_wire_hello(CODEC_TO(bytes), &hello);
	assert_int_equal(control_wire_hello(CODEC_FROM(bytes, CONTROL_HELLO_BYTES), &again), 0);
	assert_int_equal(again.name[3], '?');
}

static void offers_and_goes_come_back_as_they_were(void **state)
{
	static uint8_t handles[CONTROL_AGGREGATORS_MAX * TRANSPORT_HANDLE_BYTES];
	struct control_offer offer = { .rate_Bps = UINT64_C(25000000000), .window_bytes = 1 << 26, .group_count = 3 };
	struct control_go go = { .position = 4, .aggregator_count = 5, .handles = handles }, go_again;
	uint8_t payload[CONTROL_GO_BYTES + sizeof(handles)];
	struct control_offer offer_again;
	size_t bytes;

	(void)state;
	memset(offer.handle, 9, sizeof(offer.handle));
	control_wire_offer(CODEC_TO(payload), &offer);
	assert_int_equal(control_wire_offer(CODEC_FROM(payload, CONTROL_OFFER_BYTES), &offer_again), 0);
	assert_memory_equal(&offer, &offer_again, offsetof(struct control_offer, group_count) + 4);
	control_wire_go(CODEC_TO(payload), &go);
	bytes = CONTROL_GO_BYTES + 5 * TRANSPORT_HANDLE_BYTES;
	assert_int_equal(control_wire_go(CODEC_FROM(payload, bytes), &go_again), 0);
	assert_int_equal(go_again.position, 4);
	assert_int_equal(go_again.aggregator_count, 5);
	go.position = 5;
	control_wire_go(CODEC_TO(payload), &go);
	assert_int_equal(control_wire_go(CODEC_FROM(payload, bytes), &go_again), -EBADMSG);
}

static void a_state_comes_back_with_all_its_groups(void **state)
{
	static struct control_group_state groups[CONTROL_GROUPS_MAX], again[CONTROL_GROUPS_MAX];
	static uint8_t payload[CONTROL_PAYLOAD_MAX];
	struct control_state one = { .version = "0.1.0",
				     .name = "agg01",
				     .uptime_ms = 1,
				     .bytes_in = 2,
				     .strangers = 5,
				     .busy_milli = 1750,
				     .draining = true,
				     .group_count = CONTROL_GROUPS_MAX };
	struct control_state two;
	size_t bytes;

	(void)state;
	for (unsigned i = 0; i < CONTROL_GROUPS_MAX; i++) {
		snprintf(groups[i].name, sizeof(groups[i].name), "job %u", i);
		groups[i].member_count = (uint16_t)(i + 1);
		groups[i].rate_out_Bps = UINT64_C(1) << 40;
		groups[i].ready = i % 2;
	}
	control_wire_state(CODEC_TO(payload), &one, groups);
	bytes = CONTROL_STATE_BYTES + CONTROL_GROUPS_MAX * CONTROL_GROUP_BYTES;
	assert_int_equal(control_wire_state(CODEC_FROM(payload, bytes), &two, again), 0);
	assert_string_equal(two.name, "agg01");
	assert_int_equal(two.busy_milli, 1750);
	assert_int_equal(two.strangers, 5);
	assert_true(two.draining);
	assert_memory_equal(groups, again, sizeof(groups));
	assert_int_equal(control_wire_state(CODEC_FROM(payload, bytes - 1), &two, again), -EBADMSG);
}

static void too_long_a_sentence_is_cut(void **state)
{
	char sentence[CONTROL_SENTENCE_BYTES + 50], again[CONTROL_SENTENCE_BYTES];
	uint8_t payload[CONTROL_SENTENCE_BYTES];

	(void)state;
	memset(sentence, 'z', sizeof(sentence));
	sentence[sizeof(sentence) - 1] = '\0';
	control_wire_sentence(CODEC_TO(payload), sentence);
	assert_int_equal(control_wire_sentence(CODEC_FROM(payload, CONTROL_SENTENCE_BYTES), again), 0);
	assert_int_equal(strlen(again), CONTROL_SENTENCE_BYTES - 1);
}

static void every_type_has_a_word_and_a_side(void **state)
{
	(void)state;
	for (enum control_type type = CONTROL_NONE + 1; type < CONTROL_TYPE_COUNT; type++) {
		struct control_header header = { type, 0 };
		uint8_t bytes[CONTROL_HEADER_BYTES];
		bool taken = false;

		for (size_t payload_bytes = 0; payload_bytes <= CONTROL_PAYLOAD_MAX && !taken; payload_bytes += 8) {
			header.payload_bytes = payload_bytes;
			control_wire_header(CODEC_TO(bytes), false, &header);
			taken = !control_wire_header(CODEC_FROM(bytes, CONTROL_HEADER_BYTES), true, &header) ||
				!control_wire_header(CODEC_FROM(bytes, CONTROL_HEADER_BYTES), false, &header);
		}
		assert_true(taken);
	}
}

static void a_long_time_out_does_not_make_beats_rare(void **state)
{
	(void)state;
	assert_int_equal(control_beat_ns(NS_PER_S), NS_PER_S / 5);
	assert_int_equal(control_beat_ns(10 * NS_PER_S), 2 * NS_PER_S);
	assert_int_equal(control_beat_ns(3600 * NS_PER_S), 2 * NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_comes_back_as_it_was),
		cmocka_unit_test(names_of_strangers_are_text),
		cmocka_unit_test(offers_and_goes_come_back_as_they_were),
		cmocka_unit_test(a_state_comes_back_with_all_its_groups),
		cmocka_unit_test(too_long_a_sentence_is_cut),
		cmocka_unit_test(every_type_has_a_word_and_a_side),
		cmocka_unit_test(a_long_time_out_does_not_make_beats_rare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
