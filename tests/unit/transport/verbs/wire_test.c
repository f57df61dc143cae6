/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/wire.h"

#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct verbs_wire_hello some_hello(void)
{
	struct verbs_wire_hello hello = { .rail_count = 3,
					  .own_count = 2,
					  .queue_count = 3,
					  .ring_address = 0x123456789abcdef0,
					  .window_address = 0xfedcba9876543210,
					  .window_bytes = 65536,
					  .service_level = 3,
					  .traffic_class = 106,
					  .host_id = 77,
					  .host = "node7" };

	for (unsigned i = 0; i < 3; i++) {
		hello.rails[i] = (struct verbs_wire_rail){ .gid = { 1, 2, 3 },
							   .lid = (uint16_t)(9 + i),
							   .mtu = (uint8_t)(3 + i),
							   .ethernet = i == 1,
							   .rkey = 0x80000001U + i };
	}
	for (unsigned i = 0; i < 3; i++)
		hello.queues[i] = (struct verbs_wire_queue){
			0xabcd00 + i, 0xfffff0 + i, (uint8_t)(i % 2), i % 3, { 0x15b3, 0x80000000 + i, i }
		};
	memset(hello.back, 0x5c, sizeof(hello.back));
	return hello;
}

static void a_hello_comes_back_as_it_was(void **state)
{
	struct verbs_wire_hello hello = some_hello(), back;
	uint8_t bytes[VERBS_WIRE_FRAME_BYTES];

	(void)state;
	verbs_wire_put_hello(VERBS_FRAME_HELLO, &hello, bytes);
	memset(&back, 0, sizeof(back));
	assert_int_equal(verbs_wire_get_hello(bytes, VERBS_FRAME_HELLO, &back), 0);
	assert_memory_equal(&back, &hello, sizeof(hello));
	assert_int_equal(verbs_wire_get_hello(bytes, VERBS_FRAME_WELCOME, &back), -EBADMSG);
	bytes[4]++;
	assert_int_equal(verbs_wire_get_hello(bytes, VERBS_FRAME_HELLO, &back), -EPROTO);
}

static void what_a_hello_must_not_say_is_refused(void **state)
{
	struct verbs_wire_hello bad[9], back;
	uint8_t bytes[VERBS_WIRE_FRAME_BYTES];

	(void)state;
	for (unsigned i = 0; i < 9; i++)
		bad[i] = some_hello();
	bad[0].rail_count = 0;
	bad[1].queue_count = 0;
	bad[2].queues[2].rail = 2; /* that one stands by */
	bad[3].rails[1].mtu = 6;
	bad[4].rails[0].mtu = 0;
	bad[5].queues[0].number = 0;
	bad[7].own_count = 0;
	bad[8].own_count = 4;
	for (unsigned i = 0; i < 9; i++) {
		if (i == 6)
			continue;
		verbs_wire_put_hello(VERBS_FRAME_HELLO, &bad[i], bytes);
		assert_int_equal(verbs_wire_get_hello(bytes, VERBS_FRAME_HELLO, &back), -EBADMSG);
	}
	verbs_wire_put_hello(VERBS_FRAME_WELCOME, &bad[5], bytes); /* the peer could not connect it */
	assert_int_equal(verbs_wire_get_hello(bytes, VERBS_FRAME_WELCOME, &back), 0);
	assert_int_equal(back.queues[0].number, 0);
	/* Counts beyond the arrays, and host names for the log. */
	memcpy(bad[6].host, "a\nb\x1b", 5);
	verbs_wire_put_hello(VERBS_FRAME_HELLO, &bad[6], bytes);
	assert_int_equal(verbs_wire_get_hello(bytes, VERBS_FRAME_HELLO, &back), 0);
	assert_string_equal(back.host, "a?b?");
	bytes[12] = 9;
	assert_int_equal(verbs_wire_get_hello(bytes, VERBS_FRAME_HELLO, &back), -EBADMSG);
}

static void every_damaged_byte_of_a_frame_is_noticed(void **state)
{
	const struct verbs_wire_frame frame = { .type = VERBS_FRAME_BUILD,
						.queue = 3,
						.epoch = 0x01020304,
						.count = 0xfffffff0,
						.made = { 5, 6, 1, true, { 0x15b3, 7, 8 } },
						.there = 7 };
	uint8_t bytes[VERBS_WIRE_FRAME_BYTES];
	struct verbs_wire_frame back;

	(void)state;
	memset(&back, 0, sizeof(back));
	verbs_wire_put_frame(&frame, bytes);
	assert_int_equal(verbs_wire_get_frame(bytes, &back), 0);
	assert_int_equal(back.type, frame.type);
	assert_int_equal(back.queue, 3);
	assert_int_equal(back.there, 7);
	assert_int_equal(back.epoch, frame.epoch);
	assert_int_equal(back.count, frame.count);
	assert_int_equal(back.made.number, 5);
	assert_int_equal(back.made.psn, 6);
	assert_int_equal(back.made.rail, 1);
	for (unsigned i = 0; i < VERBS_WIRE_FRAME_BYTES; i++) {
		bytes[i] ^= 0x40;
		assert_true(verbs_wire_get_frame(bytes, &back) < 0);
		bytes[i] ^= 0x40;
	}
}

static void frames_out_of_range_are_refused(void **state)
{
	struct verbs_wire_frame frame = { .type = VERBS_FRAME_STOPPED, .queue = VERBS_WIRE_QUEUES_MAX }, back;
	struct verbs_wire_hello hello = some_hello();
	uint8_t bytes[VERBS_WIRE_FRAME_BYTES];

	(void)state;
	verbs_wire_put_frame(&frame, bytes);
	assert_int_equal(verbs_wire_get_frame(bytes, &back), -EBADMSG);
	verbs_wire_put_hello(VERBS_FRAME_WELCOME, &hello, bytes);
	assert_int_equal(verbs_wire_get_frame(bytes, &back), -EBADMSG);
}

static void descriptors_come_back_as_they_were(void **state)
{
	const struct verbs_descriptor descriptors[] = {
		{ .type = VERBS_DESCRIPTOR_EAGER,
		  .sequence = 1,
		  .taken = 0xffffffff,
		  .embedded = true,
		  .tag = -5,
		  .value = 512,
		  .size = 480 },
		{ .type = VERBS_DESCRIPTOR_RTS,
		  .sequence = 0xffffffff,
		  .slot = 0xabcdef,
		  .size = TRANSPORT_MAX_MESSAGE_BYTES },
		{ .type = VERBS_DESCRIPTOR_SLOTS, .sequence = 3, .count = 8, .promised = true, .value = 1ULL << 60 },
		{ .type = VERBS_DESCRIPTOR_GRANT, .sequence = 4, .slot = 7, .size = 65536 },
		{ .type = VERBS_DESCRIPTOR_MATCHED, .sequence = 6, .count = 120, .value = 9 },
		{ .type = VERBS_DESCRIPTOR_CREDIT, .sequence = 5, .count = 16, .wants_room = true, .pieces = 255 },
		{ .type = VERBS_DESCRIPTOR_PIECE, .sequence = 7, .slot = 7, .size = 16384, .pieces = 3 },
	};
	uint8_t bytes[VERBS_WIRE_HEAD_BYTES];

	(void)state;
	for (unsigned i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++) {
		struct verbs_descriptor back;

		memset(&back, 0, sizeof(back));
		verbs_wire_put_descriptor(&descriptors[i], bytes);
		assert_int_equal(verbs_wire_get_descriptor(bytes, &back), 0);
		assert_int_equal(back.type, descriptors[i].type);
		assert_int_equal(back.sequence, descriptors[i].sequence);
		assert_int_equal(back.taken, descriptors[i].taken);
		assert_int_equal(back.count, descriptors[i].count);
		assert_int_equal(back.pieces, descriptors[i].pieces);
		assert_int_equal(back.embedded, descriptors[i].embedded);
		assert_int_equal(back.wants_room, descriptors[i].wants_room);
		assert_int_equal(back.promised, descriptors[i].promised);
		assert_int_equal(back.slot, descriptors[i].slot);
		assert_int_equal(back.tag, descriptors[i].tag);
		assert_true(back.value == descriptors[i].value && back.size == descriptors[i].size);
	}
}

static void descriptors_that_say_too_much_are_refused(void **state)
{
	const struct verbs_descriptor descriptors[] = {
		{ .type = VERBS_DESCRIPTOR_NONE },
		{ .type = VERBS_DESCRIPTOR_TYPE_COUNT },
		{ .type = VERBS_DESCRIPTOR_SLOTS, .count = 0 },
		{ .type = VERBS_DESCRIPTOR_SLOTS, .count = 9 },
		{ .type = VERBS_DESCRIPTOR_CREDIT, .count = 17 },
		{ .type = VERBS_DESCRIPTOR_MATCHED, .count = 0 },
		{ .type = VERBS_DESCRIPTOR_MATCHED, .count = 121 },
		{ .type = VERBS_DESCRIPTOR_EAGER, .embedded = true, .size = VERBS_WIRE_EMBEDDED_BYTES + 1 },
		{ .type = VERBS_DESCRIPTOR_RTS, .size = TRANSPORT_MAX_MESSAGE_BYTES + 1 },
	};
	uint8_t bytes[VERBS_WIRE_HEAD_BYTES];
	struct verbs_descriptor back;

	(void)state;
	for (unsigned i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++) {
		verbs_wire_put_descriptor(&descriptors[i], bytes);
		assert_int_equal(verbs_wire_get_descriptor(bytes, &back), -EBADMSG);
	}
}

static void a_slot_and_its_names_come_back(void **state)
{
	const struct verbs_wire_slot slot = { .address = UINT64_MAX - 9,
					      .bytes = 1ULL << 41,
					      .tag = INT32_MIN,
					      .id = 0xfedcba,
					      .rkeys = { 1, 2, 3, 4, 5, 6, 7, 0xffffffff } };
	uint8_t bytes[64];
	struct verbs_wire_slot back;

	(void)state;
	memset(&back, 0, sizeof(back));
	assert_true(verbs_wire_slot_bytes(8) <= sizeof(bytes));
	verbs_wire_put_slot(&slot, 8, bytes);
	verbs_wire_get_slot(bytes, 8, &back);
	assert_memory_equal(&back, &slot, sizeof(slot));
	for (unsigned request = 0; request < TRANSPORT_MAX_REQUESTS; request++) {
		uint32_t id = verbs_slot_id(request, request % 8, 0x1fffe + request);
		uint32_t notice = verbs_notice_make(VERBS_NOTICE_PART, id);

		assert_int_equal(verbs_notice_kind(notice), VERBS_NOTICE_PART);
		assert_int_equal(verbs_slot_request(verbs_notice_slot(notice)), request);
		assert_int_equal(verbs_slot_place(verbs_notice_slot(notice)), request % 8);
		assert_int_equal(verbs_slot_generation(verbs_notice_slot(notice)), (0x1fffe + request) & 0xffff);
	}
}

static void a_handle_of_tcp_is_told_from_ours(void **state)
{
	uint8_t handle[TRANSPORT_HANDLE_BYTES] = "TRB1 and more", before[TRANSPORT_HANDLE_BYTES];
	unsigned version = 7;

	(void)state;
	memcpy(before, handle, sizeof(handle));
	assert_int_equal(verbs_wire_unmark_handle(handle, &version), -EPROTO);
	assert_int_equal(version, 0);
	verbs_wire_mark_handle(handle);
	assert_memory_not_equal(handle, before, 4);
	verbs_wire_put_cookie(handle, 0x1122334455667788);
	assert_true(verbs_wire_get_cookie(handle) == 0x1122334455667788);
	verbs_wire_put_cookie(handle, 0);
	handle[3]++;
	assert_int_equal(verbs_wire_unmark_handle(handle, &version), -EPROTO);
	assert_int_equal(version, VERBS_WIRE_VERSION + 1);
	memcpy(handle, "TRBV", 4);
	assert_int_equal(verbs_wire_unmark_handle(handle, &version), -EPROTO);
	assert_int_equal(version, 1); /* as the first version wrote it */
	handle[3] = (uint8_t)(handle[3] + VERBS_WIRE_VERSION - 1);
	assert_int_equal(verbs_wire_unmark_handle(handle, &version), 0);
	assert_memory_equal(handle, before, sizeof(handle));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_comes_back_as_it_was),
		cmocka_unit_test(what_a_hello_must_not_say_is_refused),
		cmocka_unit_test(every_damaged_byte_of_a_frame_is_noticed),
		cmocka_unit_test(frames_out_of_range_are_refused),
		cmocka_unit_test(descriptors_come_back_as_they_were),
		cmocka_unit_test(descriptors_that_say_too_much_are_refused),
		cmocka_unit_test(a_slot_and_its_names_come_back),
		cmocka_unit_test(a_handle_of_tcp_is_told_from_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
