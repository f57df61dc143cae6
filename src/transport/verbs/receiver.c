/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving role. Receives are told to the sender as they are posted, and it writes into them. What matches an eager
 * message is decided here, by the rule that the sender follows, too: the oldest receive with its tag that the sender had
 * not seen when it sent, for those that it had seen belong to messages that were sent before.
 *
 * A receive is told of when the ring has room, and never if its message has come by then: a sender whose messages have all
 * gone may look at nothing any more, and what it has sent must still find its receives. It is told which ones did (MATCHED)
 * before it hears of a later receive.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/copy.h"
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <string.h>

static void slot_finish(struct verbs_connection *connection, struct verbs_request *request, struct verbs_slot *slot)
{
	slot->done = true;
	if (!request->told && request->open_count == 1)
		connection->r.untold_count--;
	if (slot->paced) {
		pace_remove(connection->r.pace, &slot->pace);
		slot->paced = false;
		connection->r.paced_count--;
	}
	if (--request->open_count == 0)
		verbs_request_finish(connection, request);
}

void verbs_receiver_end(struct verbs_connection *connection)
{
	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++)
		for (unsigned k = 0; k < connection->requests[i].count; k++) {
			struct verbs_slot *slot = &connection->requests[i].slots[k];

			if (slot->paced)
				pace_remove(connection->r.pace, &slot->pace);
			slot->paced = false;
		}
	connection->r.paced_count = 0;
}

/* ---- the window ---- */

static void window_walk(struct verbs_receiver *r)
{
	for (; r->unexpected_head != r->unexpected_tail; r->unexpected_head++) {
		const struct verbs_unexpected *unexpected = &r->unexpected[r->unexpected_head % VERBS_UNEXPECTED];

		if (unexpected->waits || unexpected->moves)
			return;
		r->window_free = unexpected->place_end;
	}
}

/* In order as well: none waits for more than the card. */
static void pieces_walk(struct verbs_receiver *r)
{
	while (r->pieces_free != r->pieces_taken && !r->pieces[r->pieces_free % VERBS_PIECES].moves)
		r->pieces_free++;
}

bool verbs_receiver_has_unexpected(const struct verbs_connection *connection)
{
	return connection->r.waiting_count > 0;
}

static struct verbs_unexpected *find_unexpected(struct verbs_receiver *r, int tag)
{
	for (uint32_t i = r->unexpected_head; i != r->unexpected_tail; i++) {
		struct verbs_unexpected *unexpected = &r->unexpected[i % VERBS_UNEXPECTED];

		if (unexpected->waits && unexpected->tag == tag)
			return unexpected;
	}
	return NULL;
}

/* The next bytes of a receive: `from` is their place, or the descriptor itself. True: they are where they belong. */
static bool place(struct verbs_connection *connection, struct verbs_request *request, struct verbs_slot *slot,
		  struct verbs_unexpected *unexpected, const uint8_t *from)
{
	uint8_t *at = connection->r.window + unexpected->place;
	const bool gpu = unexpected->size && slot->registration && slot->registration->gpu;

	if (gpu) {
		if (from != at)
			copy_bytes(at, from, (size_t)unexpected->size);
		unexpected->moves = true;
		verbs_loop_move(connection, request, slot, unexpected);
	} else if (unexpected->size) {
		copy_bytes(slot->data + slot->placed, from, (size_t)unexpected->size);
	}
	slot->placed += unexpected->size;
	return !gpu;
}

static void look_if_done(struct verbs_connection *connection, struct verbs_request *request, struct verbs_slot *slot)
{
	if (slot->sized && slot->received == slot->size)
		slot_finish(connection, request, slot);
}

static int take_eager(struct verbs_connection *connection, struct verbs_request *request, struct verbs_slot *slot,
		      struct verbs_unexpected *unexpected, const uint8_t *from)
{
	if (unexpected->size > slot->bytes)
		return verbs_control_truncated(connection);
	slot->matched = slot->sized = true;
	slot->size = unexpected->size;
	if (place(connection, request, slot, unexpected, from)) {
		slot->received = unexpected->size;
		slot_finish(connection, request, slot);
	}
	return 0;
}

void verbs_receiver_moved(struct verbs_connection *connection, const struct verbs_turn *turn)
{
	turn->unexpected->moves = false;
	turn->slot->received += turn->bytes;
	look_if_done(connection, turn->request, turn->slot);
	window_walk(&connection->r);
	pieces_walk(&connection->r);
}

static struct verbs_slot *find_slot(const struct verbs_connection *connection,
				    const struct verbs_descriptor *descriptor, struct verbs_request **ret_request)
{
	for (struct verbs_request *request = TAILQ_FIRST(&connection->open); request;
	     request = TAILQ_NEXT(request, link)) {
		if (request->told && request->descriptor <= descriptor->taken)
			continue;
		for (unsigned i = 0; i < request->count; i++)
			if (!request->slots[i].matched && request->slots[i].tag == descriptor->tag) {
				*ret_request = request;
				return &request->slots[i];
			}
	}
	return NULL;
}

static bool place_is_valid(const struct verbs_receiver *r, const struct verbs_descriptor *descriptor, uint64_t used)
{
	const uint64_t at = descriptor->value % VERBS_WINDOW_BYTES;

	return descriptor->size <= VERBS_WINDOW_BYTES && descriptor->value >= r->window_end &&
	       descriptor->value - r->window_end < VERBS_WINDOW_BYTES && descriptor->value % VERBS_WINDOW_UNIT == 0 &&
	       at + used <= VERBS_WINDOW_BYTES && descriptor->value + used - r->window_free <= VERBS_WINDOW_BYTES &&
	       r->unexpected_tail - r->unexpected_head < VERBS_UNEXPECTED &&
	       r->waiting_count + r->matched_count < VERBS_UNEXPECTED;
}

static int eager_arrived(struct verbs_connection *connection, const struct verbs_descriptor *descriptor,
			 const uint8_t *extra)
{
	struct verbs_receiver *r = &connection->r;
	const uint64_t used = verbs_window_used(descriptor->size);
	const uint32_t at = descriptor->value % VERBS_WINDOW_BYTES;
	struct verbs_request *request;
	struct verbs_unexpected *unexpected;
	struct verbs_slot *slot;
	int error = 0;

	if (!place_is_valid(r, descriptor, used))
		return -EPROTO;
	slot = find_slot(connection, descriptor, &request);
	unexpected = &r->unexpected[r->unexpected_tail % VERBS_UNEXPECTED];
	*unexpected = (struct verbs_unexpected){ .number = r->unexpected_tail++,
						 .tag = descriptor->tag,
						 .waits = !slot,
						 .size = descriptor->size,
						 .place = at,
						 .place_end = descriptor->value + used };
	r->window_end = unexpected->place_end;
	r->waiting_count += !slot;
	if (slot && !request->told)
		r->matched[r->matched_count++] = unexpected->number;
	if (slot)
		error = take_eager(connection, request, slot, unexpected,
				   descriptor->embedded ? extra : r->window + at);
	else if (descriptor->embedded)
		copy_bytes(r->window + at, extra, (size_t)descriptor->size);
	window_walk(r);
	return error;
}

/* ---- receives ---- */

static int register_slots(struct verbs_connection *connection, struct verbs_request *request,
			  void *const *registrations)
{
	struct verbs_range range;
	int r = 0;

	for (unsigned i = 0; i < request->count && r == 0; i++) {
		struct verbs_slot *slot = &request->slots[i];

		slot->registration = registrations ? registrations[i] : NULL;
		if (slot->registration || !slot->bytes)
			continue;
		range = (struct verbs_range){ slot->data, slot->bytes, .memory = TRANSPORT_MEMORY_HOST };
		r = verbs_registration_new(connection, &range, &slot->registration);
		slot->own_registration = r == 0;
	}
	return r;
}

static void tell_of(struct verbs_connection *connection, struct verbs_request *request)
{
	const unsigned index = (unsigned)(request - connection->requests);
	const size_t each = verbs_wire_slot_bytes(connection->rail_count);
	struct verbs_descriptor descriptor = { .type = VERBS_DESCRIPTOR_SLOTS };
	uint8_t extra[VERBS_WIRE_EMBEDDED_BYTES];

	request->receive_promised = descriptor.promised = pace_has_one_sender(connection->r.pace);
	request->told = true;
	connection->r.untold_count--;
	for (unsigned i = 0; i < request->count; i++) {
		const struct verbs_slot *slot = &request->slots[i];
		struct verbs_wire_slot wire = { .address = (uintptr_t)slot->data,
						.bytes = slot->bytes,
						.tag = slot->tag,
						.id = verbs_slot_id(index, i, request->generation) };

		if (slot->matched)
			continue;
		if (slot->registration && slot->registration->copied)
			wire.address = 0;
		for (unsigned k = 0; k < connection->rail_count && slot->registration && wire.address; k++)
			wire.rkeys[k] = verbs_registration_rkey(slot->registration, k);
		verbs_wire_put_slot(&wire, connection->rail_count, extra + each * descriptor.count++);
	}
	if (descriptor.count) /* else the card is putting all of them in their places */
		request->descriptor = verbs_ring_put(connection, &descriptor, extra, each * descriptor.count);
}

/* All that there is room for. */
static void tell_matched(struct verbs_connection *connection)
{
	struct verbs_receiver *r = &connection->r;

	while (r->matched_count && verbs_ring_has_room(connection)) {
		unsigned count = r->matched_count < VERBS_WIRE_MATCHED_MAX ? r->matched_count : VERBS_WIRE_MATCHED_MAX;
		struct verbs_descriptor descriptor = { .type = VERBS_DESCRIPTOR_MATCHED, .count = (uint8_t)count };
		uint8_t extra[VERBS_WIRE_EMBEDDED_BYTES];

		for (unsigned i = 0; i < count; i++)
			bytes_put(extra + 4 * (size_t)i, r->matched[i], 4);
		verbs_ring_put(connection, &descriptor, extra, 4 * (size_t)count);
		r->matched_count -= count;
		memmove(r->matched, r->matched + count, r->matched_count * sizeof(r->matched[0]));
	}
}

/* In the order of posting. */
static void tell_of_receives(struct verbs_connection *connection)
{
	struct verbs_receiver *r = &connection->r;
	struct verbs_request *request = TAILQ_FIRST(&connection->open);

	if (!r->untold_count)
		return;
	tell_matched(connection);
	for (; request && r->untold_count && !r->matched_count && verbs_ring_has_room(connection);
	     request = TAILQ_NEXT(request, link))
		if (!request->told)
			tell_of(connection, request);
}

/* Those that lie in the window come first: the sender has sent them before it hears of this receive. */
static int match_unexpected(struct verbs_connection *connection, struct verbs_request *request)
{
	struct verbs_receiver *r = &connection->r;

	for (unsigned i = 0; i < request->count && !request->done; i++) {
		struct verbs_slot *slot = &request->slots[i];
		struct verbs_unexpected *unexpected = find_unexpected(r, slot->tag);
		int error;

		if (!unexpected)
			continue;
		error = take_eager(connection, request, slot, unexpected, r->window + unexpected->place);
		if (error < 0)
			return error;
		unexpected->waits = false;
		r->waiting_count--;
		r->matched[r->matched_count++] = unexpected->number;
		window_walk(r);
	}
	return 0;
}

int verbs_receiver_receive(struct verbs_connection *connection, int count, void *const *data, const size_t *bytes,
			   const int *tags, void *const *registrations, struct verbs_request **ret)
{
	struct verbs_request *request;
	int r;

	request = verbs_request_get(connection, VERBS_REQUEST_RECEIVE);
	if (!request)
		return 0;
	request->count = request->open_count = (unsigned)count;
	for (int i = 0; i < count; i++)
		request->slots[i] = (struct verbs_slot){ .data = data[i], .bytes = bytes[i], .tag = tags[i] };
	/* What the peer had sent before it ended is still to be had, but it hears no more. */
	r = connection->error ? 0 : register_slots(connection, request, registrations);
	if (r < 0) {
		verbs_request_put(request, NULL);
		return r;
	}
	request->generation++;
	connection->r.untold_count++;
	TAILQ_INSERT_TAIL(&connection->open, request, link);
	r = match_unexpected(connection, request);
	if (r < 0)
		return r;
	if (!connection->error) {
		tell_of_receives(connection);
		verbs_ring_flush(connection);
	}
	*ret = request;
	return 0;
}

/* ---- what arrives ---- */

static struct verbs_slot *slot_of(struct verbs_connection *connection, uint32_t id, struct verbs_request **ret_request)
{
	struct verbs_request *request = &connection->requests[verbs_slot_request(id)];
	struct verbs_slot *slot = &request->slots[verbs_slot_place(id)];

	if (!request->used || request->done || !request->told ||
	    (request->generation & 0xffffU) != verbs_slot_generation(id) || verbs_slot_place(id) >= request->count ||
	    slot->done)
		return NULL;
	*ret_request = request;
	return slot;
}

static void pace_begin(struct verbs_connection *connection, struct verbs_slot *slot, uint64_t now_ns)
{
	struct verbs_receiver *r = &connection->r;

	r->sender.host = connection->peer.host_id;
	slot->pace = (struct pace_message){ .sender = &r->sender };
	slot->paced = true;
	r->paced_count++;
	pace_add(r->pace, &slot->pace, slot->size, now_ns);
}

static int rts_arrived(struct verbs_connection *connection, const struct verbs_descriptor *descriptor)
{
	struct verbs_request *request;
	struct verbs_slot *slot = slot_of(connection, descriptor->slot, &request);
	const uint64_t now_ns = clock_now_ns();

	/* Its first pieces may have come before it, over other queues, if it was promised. */
	if (!slot || slot->sized || descriptor->size > slot->bytes || slot->received > descriptor->size)
		return -EPROTO;
	slot->matched = slot->sized = true;
	slot->size = descriptor->size;
	if (slot->received == slot->size) {
		slot_finish(connection, request, slot);
		return 0;
	}
	pace_begin(connection, slot, now_ns);
	if (slot->received)
		pace_delivered(connection->r.pace, &slot->pace, slot->received, now_ns);
	slot->granted_told = request->receive_promised ? slot->size : 0;
	return 0;
}

int verbs_receiver_data(struct verbs_connection *connection, uint32_t notice, uint32_t bytes)
{
	struct verbs_receiver *r = &connection->r;
	struct verbs_request *request;
	struct verbs_slot *slot = slot_of(connection, verbs_notice_slot(notice), &request);
	const uint64_t now_ns = clock_now_ns();

	if (!slot || slot->placed || bytes > slot->bytes - slot->received)
		return -EPROTO;
	if (verbs_notice_kind(notice) == VERBS_NOTICE_WHOLE) {
		if (slot->matched)
			return -EPROTO;
		slot->sized = true;
		slot->size = bytes;
		if (bytes)
			pace_begin(connection, slot, now_ns);
	} else if (verbs_notice_kind(notice) != VERBS_NOTICE_PART ||
		   (slot->sized && bytes > slot->size - slot->received)) {
		return -EPROTO;
	}
	verbs_ring_seen(connection, request->descriptor);
	slot->matched = true;
	slot->received += bytes;
	if (slot->paced)
		pace_delivered(r->pace, &slot->pace, bytes, now_ns);
	look_if_done(connection, request, slot);
	return 0;
}

/* A part of an announced message: one of the two memories cannot be written to, or read from, by a device. */
static int piece_arrived(struct verbs_connection *connection, const struct verbs_descriptor *descriptor)
{
	struct verbs_receiver *r = &connection->r;
	struct verbs_request *request;
	struct verbs_unexpected *unexpected;
	struct verbs_slot *slot = slot_of(connection, descriptor->slot, &request);

	if (!slot || !slot->sized || slot->received > slot->placed || !descriptor->size ||
	    descriptor->size > slot->size - slot->placed || descriptor->size > VERBS_PIECE_BYTES ||
	    descriptor->pieces != (uint8_t)r->pieces_taken || r->pieces_taken - r->pieces_free == VERBS_PIECES)
		return -EPROTO;
	unexpected = &r->pieces[r->pieces_taken % VERBS_PIECES];
	*unexpected = (struct verbs_unexpected){ .size = descriptor->size,
						 .place = VERBS_WINDOW_BYTES +
							  r->pieces_taken++ % VERBS_PIECES * VERBS_PIECE_BYTES };
	if (slot->paced)
		pace_delivered(r->pace, &slot->pace, descriptor->size, clock_now_ns());
	if (place(connection, request, slot, unexpected, r->window + unexpected->place)) {
		slot->received += descriptor->size;
		look_if_done(connection, request, slot);
	}
	pieces_walk(r);
	return 0;
}

int verbs_receiver_descriptor(struct verbs_connection *connection, const struct verbs_descriptor *descriptor,
			      const uint8_t *extra)
{
	connection->r.room_wanted |= descriptor->wants_room;
	switch (descriptor->type) {
	case VERBS_DESCRIPTOR_EAGER:
		return eager_arrived(connection, descriptor, extra);
	case VERBS_DESCRIPTOR_RTS:
		return rts_arrived(connection, descriptor);
	case VERBS_DESCRIPTOR_PIECE:
		return piece_arrived(connection, descriptor);
	case VERBS_DESCRIPTOR_CREDIT:
		return 0;
	default:
		return -EPROTO;
	}
}

/* ---- telling ---- */

static void tell_grants(struct verbs_connection *connection, struct verbs_request *request, uint64_t now_ns)
{
	for (unsigned i = 0; i < request->count; i++) {
		struct verbs_slot *slot = &request->slots[i];
		struct verbs_descriptor descriptor = { .type = VERBS_DESCRIPTOR_GRANT };

		if (!slot->paced || slot->done || slot->granted_told == slot->size || !verbs_ring_has_room(connection))
			continue;
		descriptor.size = pace_granted(&slot->pace);
		if (descriptor.size <= slot->granted_told)
			continue;
		descriptor.slot = verbs_slot_id((unsigned)(request - connection->requests), i, request->generation);
		verbs_ring_put(connection, &descriptor, NULL, 0);
		slot->granted_told = descriptor.size;
		pace_grant_sent(connection->r.pace, &slot->pace, descriptor.size, now_ns);
	}
}

void verbs_receiver_tell(struct verbs_connection *connection)
{
	struct verbs_receiver *r = &connection->r;
	struct verbs_descriptor room = { .type = VERBS_DESCRIPTOR_CREDIT };

	if (r->paced_count) {
		uint64_t now_ns = clock_now_ns();

		pace_poll(r->pace, now_ns);
		for (struct verbs_request *request = TAILQ_FIRST(&connection->open); request;
		     request = TAILQ_NEXT(request, link))
			tell_grants(connection, request, now_ns);
	}
	tell_of_receives(connection);
	/* Both are what a sender may wait for; the one that opens the window ends its asking. */
	if (r->room_wanted || r->matched_count >= VERBS_UNEXPECTED / 2)
		tell_matched(connection);
	if (r->room_wanted && r->window_told != r->window_free && verbs_ring_has_room(connection)) {
		verbs_ring_put(connection, &room, NULL, 0);
		r->room_wanted = false;
	}
}
