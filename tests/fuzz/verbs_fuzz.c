/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of an RDMA connection say: frames over the control connection, descriptors in the rings, slots. Bytes from
 * anybody: what decodes is in range, and is the same after it was encoded and decoded once more.
 */
#include "base/bytes.h"
#include "support/fuzz.h"
#include "transport/verbs/wire.h"

#include <string.h>

static void hello(const uint8_t *bytes, enum verbs_frame_type type)
{
	uint8_t again[VERBS_WIRE_FRAME_BYTES];
	struct verbs_wire_hello first, second;

	if (verbs_wire_get_hello(bytes, type, &first) < 0)
		return;
	fuzz_must_be_text(first.host, sizeof(first.host));
	fuzz_must(first.rail_count && first.rail_count <= VERBS_WIRE_RAILS_MAX);
	fuzz_must(first.queue_count && first.queue_count <= VERBS_WIRE_QUEUES_MAX);
	for (unsigned i = 0; i < first.rail_count; i++)
		fuzz_must(first.rails[i].mtu && first.rails[i].mtu <= 5);
	for (unsigned i = 0; i < first.queue_count; i++)
		fuzz_must(first.queues[i].number && first.queues[i].number < 1U << 24 &&
			  first.queues[i].psn < 1U << 24 && first.queues[i].rail < first.own_count);
	verbs_wire_put_hello(type, &first, again);
	fuzz_must(verbs_wire_get_hello(again, type, &second) == 0);
	fuzz_must(first.ring_address == second.ring_address && first.window_address == second.window_address &&
		  first.window_bytes == second.window_bytes && first.host_id == second.host_id);
	fuzz_must(!strcmp(first.host, second.host) && !memcmp(first.back, second.back, sizeof(first.back)));
	fuzz_must(!memcmp(first.queues, second.queues, sizeof(first.queues)));
}

static void frame(const uint8_t *bytes)
{
	uint8_t again[VERBS_WIRE_FRAME_BYTES];
	struct verbs_wire_frame first, second;

	if (verbs_wire_get_frame(bytes, &first) < 0)
		return;
	fuzz_must(first.type > VERBS_FRAME_WELCOME && first.type < VERBS_FRAME_TYPE_COUNT);
	fuzz_must(first.queue < VERBS_WIRE_QUEUES_MAX);
	verbs_wire_put_frame(&first, again);
	fuzz_must(verbs_wire_get_frame(again, &second) == 0);
	fuzz_must(first.type == second.type && first.queue == second.queue && first.epoch == second.epoch &&
		  first.count == second.count && first.made.number == second.made.number &&
		  first.made.psn == second.made.psn && first.made.rail == second.made.rail);
}

static void descriptor(const uint8_t *bytes)
{
	uint8_t again[VERBS_WIRE_HEAD_BYTES];
	struct verbs_descriptor first, second;

	if (verbs_wire_get_descriptor(bytes, &first) < 0)
		return;
	fuzz_must(first.type > VERBS_DESCRIPTOR_NONE && first.type < VERBS_DESCRIPTOR_TYPE_COUNT);
	fuzz_must(first.size <= TRANSPORT_MAX_MESSAGE_BYTES);
	fuzz_must(!first.embedded || first.size <= VERBS_WIRE_EMBEDDED_BYTES);
	/* Whatever follows the head lies in the entry. */
	if (first.type == VERBS_DESCRIPTOR_SLOTS)
		fuzz_must(first.count * verbs_wire_slot_bytes(VERBS_WIRE_RAILS_MAX) <= VERBS_WIRE_EMBEDDED_BYTES);
	if (first.type == VERBS_DESCRIPTOR_MATCHED || first.type == VERBS_DESCRIPTOR_CREDIT)
		fuzz_must((size_t)first.count * 4 <= VERBS_WIRE_EMBEDDED_BYTES);
	verbs_wire_put_descriptor(&first, again);
	fuzz_must(verbs_wire_get_descriptor(again, &second) == 0);
	fuzz_must(first.type == second.type && first.sequence == second.sequence && first.taken == second.taken &&
		  first.count == second.count && first.embedded == second.embedded &&
		  first.wants_room == second.wants_room && first.promised == second.promised &&
		  first.slot == second.slot && first.pieces == second.pieces && first.tag == second.tag &&
		  first.value == second.value && first.size == second.size);
}

static void slot(const uint8_t *bytes)
{
	uint8_t again[VERBS_WIRE_DESCRIPTOR_BYTES];
	struct verbs_wire_slot first = { 0 }, second = { 0 };

	verbs_wire_get_slot(bytes, VERBS_WIRE_RAILS_MAX, &first);
	fuzz_must(verbs_slot_request(first.id) < TRANSPORT_MAX_REQUESTS &&
		  verbs_slot_place(first.id) < TRANSPORT_MAX_RECVS);
	verbs_wire_put_slot(&first, VERBS_WIRE_RAILS_MAX, again);
	verbs_wire_get_slot(again, VERBS_WIRE_RAILS_MAX, &second);
	fuzz_must(!memcmp(&first, &second, sizeof(first)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t whole[VERBS_WIRE_FRAME_BYTES] = { 0 };

	memcpy(whole, data, bytes < sizeof(whole) ? bytes : sizeof(whole));
	descriptor(whole);
	slot(whole);
	frame(whole);
	hello(whole, VERBS_FRAME_HELLO);
	/* As the fuzzer cannot guess a checksum, each is also tried with the right one; stored inputs may be of old versions. */
	bytes_put(whole + 4, VERBS_WIRE_VERSION, 2);
	bytes_put(whole + 8, bytes_checksum(whole + 12, sizeof(whole) - 12), 4);
	frame(whole);
	hello(whole, VERBS_FRAME_HELLO);
	hello(whole, VERBS_FRAME_WELCOME);
	return 0;
}
