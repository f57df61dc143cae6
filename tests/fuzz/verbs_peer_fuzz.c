/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer over RDMA can do once it has connected: descriptors in the ring, notices of data, frames over the control
 * connection, in any order and with anything in them, while this end posts and tests, and queue pairs fail. Nothing is read
 * or written outside of its bounds, every call returns, and an end that saw nonsense has failed for good.
 *
 * The input is a script: which end the peer plays, then steps of twelve bytes. Both ends are real and in this process, over the
 * fake device; what the script says is put where the victim would find it. The sanitizer watches the buffers.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "support/fuzz.h"
#include "support/log_lines.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_BYTES = 12, STEPS_MAX = 100, BUFFERS = 8, BUFFER_BYTES = 20000 };
#define PATIENCE_NS (5 * NS_PER_S)

struct bed {
	struct params params;
	struct transport *transport;
	struct transport_listener *listener;
	struct transport_connection *sender, *receiver;
	struct verbs_connection *victim;
	uint8_t *buffers[BUFFERS]; /* of just that size, for the sanitizer */
	struct transport_request *requests[BUFFERS];
	uint64_t window_address; /* memory that may be written, for slots that a peer offers */
	uint32_t window_key;
	int error;
};

static const struct transport_ops *const ops = &transport_verbs;

static void bed_open(struct bed *bed, uint8_t first)
{
	const struct fake_verbs_options options = { .devices = 1, .seed = first };
	uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	const struct verbs_connection *receiver;

	memset(bed, 0, sizeof(*bed));
	params_defaults(&bed->params);
	snprintf(bed->params.interfaces, sizeof(bed->params.interfaces), "lo");
	bed->params.gid_index = 1;
	bed->params.qps = 1 + (first >> 1 & 1);
	bed->params.pace = first & 4;
	bed->params.segment_bytes = 4096;
	verbs_transport_use(fake_verbs_start(&options), NULL);
	fuzz_must(ops->open(&bed->params, &bed->transport) == 0);
	fuzz_must(ops->listen(bed->transport, 0, handle, &bed->listener) == 0);
	while (!bed->sender || !bed->receiver) {
		fuzz_must(bed->sender || ops->connect(bed->transport, 0, -1, handle, &bed->sender) == 0);
		fuzz_must(bed->receiver || ops->accept(bed->listener, &bed->receiver) == 0);
		fuzz_must(clock_now_ns() < until_ns);
	}
	bed->victim = (struct verbs_connection *)(first & 1 ? bed->receiver : bed->sender);
	receiver = (const struct verbs_connection *)bed->receiver;
	bed->window_address = (uintptr_t)receiver->r.window;
	bed->window_key = receiver->rails[0].block->mr->rkey;
	for (unsigned i = 0; i < BUFFERS; i++) {
		bed->buffers[i] = calloc(1, BUFFER_BYTES);
		fuzz_must(bed->buffers[i] != NULL);
	}
}

static void bed_close(struct bed *bed)
{
	ops->close_connection(bed->receiver);
	ops->close_connection(bed->sender);
	ops->close_listener(bed->listener);
	ops->close(bed->transport);
	fuzz_must(fake_verbs_stop() == 0);
	for (unsigned i = 0; i < BUFFERS; i++)
		free(bed->buffers[i]);
}

static void frame(struct bed *bed, int r)
{
	fuzz_must(r <= 0);
	fuzz_must(!bed->error || r == 0 || r == bed->error);
	if (r < 0)
		bed->error = r;
}

static void post(struct bed *bed, unsigned at, uint64_t number)
{
	size_t size = (size_t)(number % BUFFER_BYTES);
	void *data = bed->buffers[at] + BUFFER_BYTES - size, *registration = NULL;
	int tag = (int)(number >> 32) % 3;

	if (bed->requests[at])
		return;
	if (bed->victim->role == VERBS_SENDER)
		frame(bed, ops->send(bed->sender, data, size, tag, NULL, &bed->requests[at]));
	else
		frame(bed, ops->receive(bed->receiver, 1, &data, &size, &tag, &registration, &bed->requests[at]));
}

static void test(struct bed *bed, unsigned at)
{
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	bool done = false;

	if (!bed->requests[at])
		return;
	frame(bed, ops->test(bed->requests[at], &done, sizes));
	fuzz_must(!done || sizes[0] <= BUFFER_BYTES);
	if (done)
		bed->requests[at] = NULL;
}

/* As queue.c and connection.c take what a peer has sent; the lock is held. */
static void taken(struct verbs_connection *victim, int r)
{
	if (r < 0)
		verbs_connection_fail(victim, r == -EPROTO ? -EREMOTEIO : r, "it broke the protocol");
}

/* Mostly one that the victim has posted. */
static uint32_t slot_id(const struct verbs_connection *victim, uint8_t choice)
{
	const unsigned request = choice % 8;

	return verbs_slot_id(request, choice >> 7, victim->requests[request].generation + (choice >> 5 & 1));
}

static size_t put_slots(const struct bed *bed, const uint8_t *step, struct verbs_descriptor *descriptor, uint8_t *extra)
{
	const unsigned rails = bed->victim->peer.rail_count;
	const size_t each = verbs_wire_slot_bytes(rails);

	descriptor->count = 1 + step[3] % 8;
	for (unsigned i = 0; i < descriptor->count; i++) {
		struct verbs_wire_slot slot = { .address = bed->window_address + (step[4] % 4 ? 0 : step[5]),
						.bytes = (size_t)step[6] << 8,
						.tag = (int)((step[7] + i) % 3),
						.id = verbs_slot_id(step[8] % 32, i, step[9]) };

		if (step[10] % 16 == 14) /* not to be written: the message is to come in pieces */
			slot.address = 0;
		slot.rkeys[0] = bed->window_key + (step[10] > 250);
		verbs_wire_put_slot(&slot, rails, extra + each * i);
	}
	return each * descriptor->count;
}

/* A descriptor as the peer would write it: near to a right one, so that it gets further than the first check. */
static void descriptor_put(struct bed *bed, const uint8_t *step)
{
	struct verbs_connection *victim = bed->victim;
	const uint64_t at = victim->in.taken + victim->in.notices;
	uint8_t *entry = (uint8_t *)victim->in.memory +
			 (size_t)(at % VERBS_WIRE_DESCRIPTORS) * VERBS_WIRE_DESCRIPTOR_BYTES;
	uint8_t extra[VERBS_WIRE_EMBEDDED_BYTES] = { 0 };
	size_t extra_bytes = sizeof(extra);
	struct verbs_descriptor descriptor = { .type = step[1] % (VERBS_DESCRIPTOR_TYPE_COUNT + 1),
					       .sequence = at + 1 + (step[11] > 250),
					       .taken = victim->out.taken,
					       .tag = step[4] % 3,
					       .slot = slot_id(victim, step[5]),
					       .size = (uint64_t)step[6] << (step[7] % 9),
					       .wants_room = step[8] & 1,
					       .promised = step[8] & 2,
					       .embedded = step[8] & 4 };

	if (victim->in.notices >= VERBS_WIRE_DESCRIPTORS)
		return;
	if (victim->out.written != victim->out.taken)
		descriptor.taken += step[2] % (victim->out.written - victim->out.taken + 1);
	if (victim->role == VERBS_RECEIVER) {
		descriptor.value = victim->r.window_end + (step[9] % 8 ? 0 : (uint64_t)step[10] * VERBS_WINDOW_UNIT);
		descriptor.pieces = (uint8_t)(victim->r.pieces_taken + (step[9] % 8 ? 0 : step[10]));
	} else {
		descriptor.value = victim->s.window_begin;
		if (victim->s.window_end != victim->s.window_begin)
			descriptor.value += step[9] * 64ULL % (victim->s.window_end - victim->s.window_begin + 1);
		descriptor.pieces = (uint8_t)(victim->s.pieces_free +
					      step[10] % (victim->s.pieces_sent - victim->s.pieces_free + 2));
		bytes_put(extra, victim->s.eager_number - step[10] % 4, 4);
		descriptor.count = step[3] % 3;
		if (descriptor.type == VERBS_DESCRIPTOR_SLOTS) {
			extra_bytes = put_slots(bed, step, &descriptor, extra);
			descriptor.size %= VERBS_WIRE_QUEUES_MAX + 1; /* the queue of the credit */
		}
	}
	if (descriptor.embedded && descriptor.size > sizeof(extra))
		descriptor.size %= sizeof(extra);
	verbs_wire_put_descriptor(&descriptor, entry);
	memcpy(entry + VERBS_WIRE_HEAD_BYTES, extra, extra_bytes);
	if (step[11] == 7) /* anything */
		memcpy(entry, step, STEP_BYTES);
	victim->in.notices++;
}

static void frame_put(struct verbs_connection *victim, const uint8_t *step)
{
	struct verbs_wire_frame wire = {
		.type = VERBS_FRAME_READY + step[1] % (VERBS_FRAME_BYE - VERBS_FRAME_READY),
		.queue = step[2] % 3,
		.made = { .number = 1 + step[3], .psn = step[4], .rail = step[5] % 8 ? 0 : step[5] }
	};
	const struct verbs_queue *queue = &victim->queues[wire.queue];

	wire.epoch = queue->epoch + step[6] % 2;
	wire.count = (uint32_t)(step[7] % 4 ? queue->head : queue->tail + step[8]);
	if (wire.type != VERBS_FRAME_TRUNCATED)
		verbs_failover_frame(victim, &wire);
}

static void act(struct bed *bed, const uint8_t *step)
{
	struct verbs_connection *victim = bed->victim;
	enum transport_next next;
	uint64_t number;

	memcpy(&number, step + 2, sizeof(number));
	switch (step[0] % 10) {
	case 0:
	case 1:
		post(bed, step[1] % BUFFERS, number);
		return;
	case 2:
		test(bed, step[1] % BUFFERS);
		return;
	case 3:
		frame(bed, ops->progress((struct transport_connection *)victim, &next));
		return;
	case 4:
		fake_verbs_lose(0, (enum fake_verbs_loss)(step[1] % FAKE_VERBS_LOSS_COUNT));
		return;
	default:
		break;
	}
	pthread_mutex_lock(&victim->lock);
	if (!victim->error && step[0] % 10 < 8)
		descriptor_put(bed, step);
	else if (!victim->error && step[0] % 10 == 8 && victim->role == VERBS_RECEIVER)
		taken(victim,
		      verbs_receiver_data(victim,
					  verbs_notice_make((enum verbs_notice)(step[1] % 4), slot_id(victim, step[5])),
					  (uint32_t)step[6] << (step[7] % 9)));
	else if (!victim->error)
		frame_put(victim, step);
	pthread_mutex_unlock(&victim->lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct bed bed;

	log_set_sink(log_lines_ignore);
	if (!bytes)
		return 0;
	bed_open(&bed, data[0]);
	for (size_t at = 1, steps = 0; at + STEP_BYTES <= bytes && steps < STEPS_MAX; at += STEP_BYTES, steps++)
		act(&bed, data + at);
	for (unsigned i = 0; i < BUFFERS; i++)
		test(&bed, i);
	bed_close(&bed);
	return 0;
}
