/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending role. It knows which receives are posted and matches its messages to them by tag, in order; a short message
 * for which none is known goes into the window instead, and the receiver matches it by the same rule. Both come to the
 * same pairs, because an eager descriptor says how many receives its sender had been told of (receiver.c).
 */
#include "base/bytes.h"
#include "base/copy.h"
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <string.h>

/* ---- what the receiver offers ---- */

static void offer_remove(struct verbs_sender *s, unsigned index)
{
	s->offer_count--;
	memmove(&s->offers[index], &s->offers[index + 1], (s->offer_count - index) * sizeof(s->offers[0]));
}

static struct verbs_request *find_waiting(const struct verbs_connection *connection, int tag)
{
	for (struct verbs_request *request = TAILQ_FIRST(&connection->open); request;
	     request = TAILQ_NEXT(request, link))
		if (!request->has_slot && !request->announced && request->tag == tag)
			return request;
	return NULL;
}

static int give(struct verbs_connection *connection, struct verbs_request *request, const struct verbs_offer *offer)
{
	if (request->size > offer->slot.bytes)
		return verbs_control_truncated(connection);
	request->slot = offer->slot;
	request->descriptor = offer->descriptor;
	request->promised = offer->promised || !request->size;
	request->copied = request->size &&
			  (!offer->slot.address || (request->registration && request->registration->copied));
	request->has_slot = true;
	return 0;
}

static void drop(struct verbs_sender *s, unsigned index)
{
	s->unmatched_count--;
	memmove(&s->unmatched[index], &s->unmatched[index + 1], (s->unmatched_count - index) * sizeof(s->unmatched[0]));
}

/* The receive belongs to an eager message that crossed it, to one that waits for it, or to one still to come. */
static int offer_arrived(struct verbs_connection *connection, const struct verbs_offer *offer)
{
	struct verbs_sender *s = &connection->s;
	struct verbs_request *request;

	for (unsigned i = 0; i < s->unmatched_count; i++) {
		if (s->unmatched[i].tag != offer->slot.tag)
			continue;
		drop(s, i);
		return 0;
	}
	request = find_waiting(connection, offer->slot.tag);
	if (request)
		return give(connection, request, offer);
	if (s->offer_count == VERBS_OFFERS)
		return -EPROTO;
	s->offers[s->offer_count++] = *offer;
	return 0;
}

static int slots_arrived(struct verbs_connection *connection, const struct verbs_descriptor *descriptor,
			 const uint8_t *extra)
{
	const unsigned rails = connection->peer.rail_count;
	struct verbs_offer offer = { .descriptor = descriptor->sequence, .promised = descriptor->promised };
	int r = 0;

	for (unsigned i = 0; i < descriptor->count && r == 0; i++) {
		verbs_wire_get_slot(extra + verbs_wire_slot_bytes(rails) * i, rails, &offer.slot);
		r = offer_arrived(connection, &offer);
	}
	return r;
}

static int matched_arrived(struct verbs_sender *s, const struct verbs_descriptor *descriptor, const uint8_t *extra)
{
	for (unsigned i = 0; i < descriptor->count; i++) {
		uint32_t number = (uint32_t)bytes_get(extra + 4 * (size_t)i, 4);
		unsigned at = 0;

		while (at < s->unmatched_count && s->unmatched[at].number != number)
			at++;
		if (at == s->unmatched_count)
			return -EPROTO;
		drop(s, at);
	}
	return 0;
}

static int grant_arrived(struct verbs_connection *connection, const struct verbs_descriptor *descriptor)
{
	for (struct verbs_request *request = TAILQ_FIRST(&connection->open); request;
	     request = TAILQ_NEXT(request, link))
		if (request->has_slot && request->announced && request->slot.id == descriptor->slot) {
			if (descriptor->size > request->size)
				return -EPROTO;
			if (descriptor->size > request->granted)
				request->granted = descriptor->size;
			return 0;
		}
	return -EPROTO;
}

int verbs_sender_descriptor(struct verbs_connection *connection, const struct verbs_descriptor *descriptor,
			    const uint8_t *extra)
{
	struct verbs_sender *s = &connection->s;
	const uint8_t freed = (uint8_t)(descriptor->pieces - s->pieces_free);

	if (descriptor->value < s->window_begin || descriptor->value > s->window_end ||
	    freed > s->pieces_sent - s->pieces_free)
		return -EPROTO;
	s->pieces_free += freed;
	if (descriptor->value != s->window_begin)
		s->room_asked = false;
	s->window_begin = descriptor->value;
	switch (descriptor->type) {
	case VERBS_DESCRIPTOR_SLOTS:
		return slots_arrived(connection, descriptor, extra);
	case VERBS_DESCRIPTOR_GRANT:
		return grant_arrived(connection, descriptor);
	case VERBS_DESCRIPTOR_MATCHED:
		return matched_arrived(s, descriptor, extra);
	case VERBS_DESCRIPTOR_CREDIT:
		return 0;
	default:
		return -EPROTO;
	}
}

/* ---- sending ---- */

static bool find_place(const struct verbs_sender *s, size_t bytes, uint64_t *ret)
{
	uint64_t begin = s->window_end, used = verbs_window_used(bytes);

	if (begin % VERBS_WINDOW_BYTES + used > VERBS_WINDOW_BYTES) /* never around the corner */
		begin += VERBS_WINDOW_BYTES - begin % VERBS_WINDOW_BYTES;
	if (begin + used - s->window_begin > VERBS_WINDOW_BYTES)
		return false;
	*ret = begin;
	return true;
}

/* It cannot go now, and its owner will come again: the receiver shall say when there is room. */
static void ask_for_room(struct verbs_connection *connection)
{
	struct verbs_descriptor descriptor = { .type = VERBS_DESCRIPTOR_CREDIT, .wants_room = true };

	if (connection->s.room_asked || !verbs_ring_has_room(connection))
		return;
	verbs_ring_put(connection, &descriptor, NULL, 0);
	connection->s.room_asked = true;
	verbs_ring_flush(connection);
}

/* Small ones lie in the descriptor itself; of memory that is not registered also what would have to be. */
static bool embeds(const struct verbs_connection *connection, const struct verbs_request *request)
{
	size_t most;

	if (request->registration && request->registration->gpu)
		return !request->size;
	most = request->registration ? connection->queues[0].inline_bytes : VERBS_WIRE_DESCRIPTOR_BYTES;

	return request->size + VERBS_WIRE_HEAD_BYTES <= most || request->size <= COPY_UNCOUNTED_BYTES;
}

/*
 * What a descriptor brings to the window, from `offset` of the message on. What no device reads goes out of our own memory:
 * at the same place as in the window, which is free for as long. What a device reads goes from where it is, for a GPU's
 * memory no CPU can copy; it stays there until the descriptor has been delivered, however often it is sent.
 */
static void put_payload(struct verbs_connection *connection, uint64_t descriptor, const struct verbs_request *request,
			uint64_t offset, size_t bytes)
{
	struct verbs_ring_out *out = &connection->out;

	out->payload[descriptor] = (uint32_t)bytes;
	out->offsets[descriptor] = offset;
	out->staged[descriptor] = request->registration && request->registration->copied;
	if (out->staged[descriptor])
		copy_bytes(connection->s.stage + out->places[descriptor], request->data + offset, bytes);
}

static void go_eagerly(struct verbs_connection *connection, struct verbs_request *request, uint64_t place)
{
	struct verbs_sender *s = &connection->s;
	struct verbs_descriptor descriptor = { .type = VERBS_DESCRIPTOR_EAGER,
					       .tag = request->tag,
					       .size = request->size,
					       .value = place,
					       .embedded = embeds(connection, request) };
	uint8_t embedded[VERBS_WIRE_EMBEDDED_BYTES];
	size_t bytes = descriptor.embedded ? request->size : 0;
	uint64_t at;

	if (bytes)
		copy_bytes(embedded, request->data, bytes);
	at = (verbs_ring_put(connection, &descriptor, embedded, bytes) - 1) % VERBS_WIRE_DESCRIPTORS;
	connection->out.requests[at] = request;
	connection->out.places[at] = place % VERBS_WINDOW_BYTES;
	if (!descriptor.embedded)
		put_payload(connection, at, request, 0, request->size);
	s->window_end = place + verbs_window_used(request->size);
	s->unmatched[s->unmatched_count++] = (struct verbs_unmatched){ s->eager_number++, request->tag };
	request->announced = request->all_posted = true;
	request->open_items = 1;
}

static int find_offer(const struct verbs_sender *s, int tag)
{
	for (unsigned i = 0; i < s->offer_count; i++)
		if (s->offers[i].slot.tag == tag)
			return (int)i;
	return -1;
}

static int prepare(struct verbs_connection *connection, struct verbs_request *request,
		   struct verbs_registration *registration, bool eager)
{
	struct verbs_range range;

	request->registration = registration;
	if (registration || !request->size || (eager && embeds(connection, request)))
		return 0;
	request->own_registration = true;
	range = (struct verbs_range){ request->data, request->size, .memory = TRANSPORT_MEMORY_HOST };
	return verbs_registration_new(connection, &range, &request->registration);
}

int verbs_sender_send(struct verbs_connection *connection, void *data, size_t bytes, int tag,
		      struct verbs_registration *registration, struct verbs_request **ret)
{
	struct verbs_sender *s = &connection->s;
	const int offer = find_offer(s, tag);
	const bool eager = offer < 0 && bytes <= s->eager_bytes && !find_waiting(connection, tag);
	struct verbs_request *request;
	uint64_t place = 0;
	int r;

	if (connection->request_count == TRANSPORT_MAX_REQUESTS)
		return 0;
	if (eager && (!verbs_ring_has_room(connection) || s->unmatched_count == VERBS_UNEXPECTED ||
		      !find_place(s, bytes, &place))) {
		ask_for_room(connection);
		return 0;
	}
	request = verbs_request_get(connection, VERBS_REQUEST_SEND);
	request->data = data;
	request->size = bytes;
	request->tag = tag;
	r = prepare(connection, request, registration, eager);
	if (r < 0) {
		verbs_request_put(request, NULL);
		return r;
	}
	TAILQ_INSERT_TAIL(&connection->open, request, link);
	if (eager) {
		go_eagerly(connection, request, place);
	} else if (offer >= 0) {
		struct verbs_offer taken = s->offers[offer];

		offer_remove(s, (unsigned)offer);
		r = give(connection, request, &taken);
		if (r < 0)
			return r;
	}
	verbs_sender_pump(connection);
	*ret = request;
	return connection->error;
}

/* ---- moving ---- */

static bool post_again(struct verbs_connection *connection)
{
	struct verbs_sender *s = &connection->s;

	while (s->again_count && !connection->error) {
		struct verbs_piece piece = s->again[s->again_count - 1];
		struct verbs_queue *queue = verbs_queue_for_data(connection);

		if (!queue)
			return false;
		piece.request->open_items--;
		if (verbs_queue_post_data(connection, queue, piece.request, piece.offset, piece.bytes, piece.whole) <
		    0) {
			piece.request->open_items++;
			verbs_queue_lost(connection, queue, "data could not be posted");
			continue;
		}
		s->again_count--;
	}
	return !connection->error;
}

/* True: all that may go has gone. */
static bool post_pieces(struct verbs_connection *connection, struct verbs_request *request)
{
	const uint64_t segment = connection->transport->params->segment_bytes;
	const bool whole = !request->announced;
	const uint64_t limit = request->promised ? request->size : request->granted;

	while (!request->all_posted && (request->posted < limit || !request->size)) {
		struct verbs_queue *queue = verbs_queue_for_data(connection);
		uint64_t bytes = limit - request->posted;

		if (!queue)
			return false;
		if (bytes > segment)
			bytes = segment;
		if (verbs_queue_post_data(connection, queue, request, request->posted, (uint32_t)bytes, whole) < 0) {
			verbs_queue_lost(connection, queue, "data could not be posted");
			return false;
		}
		request->posted += bytes;
		request->all_posted = request->posted == request->size;
	}
	return true;
}

/* Through the places for pieces, in order; its receiver copies it out. False: the ring is full. */
static bool post_copied(struct verbs_connection *connection, struct verbs_request *request)
{
	const uint64_t limit = request->promised ? request->size : request->granted;
	struct verbs_sender *s = &connection->s;

	while (request->posted < limit) {
		struct verbs_descriptor descriptor = { .type = VERBS_DESCRIPTOR_PIECE,
						       .slot = request->slot.id,
						       .pieces = (uint8_t)s->pieces_sent };
		uint64_t at;

		if (s->pieces_sent - s->pieces_free == VERBS_PIECES)
			return true; /* it is told when one is free */
		if (!verbs_ring_has_room(connection))
			return false;
		descriptor.size = limit - request->posted < VERBS_PIECE_BYTES ? limit - request->posted
									      : VERBS_PIECE_BYTES;
		at = (verbs_ring_put(connection, &descriptor, NULL, 0) - 1) % VERBS_WIRE_DESCRIPTORS;
		connection->out.requests[at] = request;
		connection->out.places[at] = VERBS_WINDOW_BYTES + s->pieces_sent++ % VERBS_PIECES * VERBS_PIECE_BYTES;
		put_payload(connection, at, request, request->posted, (size_t)descriptor.size);
		request->open_items++;
		request->posted += descriptor.size;
		request->all_posted = request->posted == request->size;
	}
	return true;
}

/* What is asked for, and what is longer than one piece, is told of first. */
static bool rts(struct verbs_connection *connection, struct verbs_request *request)
{
	struct verbs_descriptor descriptor = { .type = VERBS_DESCRIPTOR_RTS,
					       .slot = request->slot.id,
					       .size = request->size };
	uint64_t at;

	if (request->announced ||
	    (request->promised && !request->copied && request->size <= connection->transport->params->segment_bytes))
		return true;
	if (!verbs_ring_has_room(connection))
		return false;
	at = (verbs_ring_put(connection, &descriptor, NULL, 0) - 1) % VERBS_WIRE_DESCRIPTORS;
	/* Its pieces may be there before it, over other queues; it is not done before the receiver knows its size. */
	connection->out.requests[at] = request;
	request->open_items++;
	request->announced = true;
	return true;
}

void verbs_sender_pump(struct verbs_connection *connection)
{
	bool room = post_again(connection);

	/* In order, but one that waits for its receive or for a grant holds up no other. */
	for (struct verbs_request *request = TAILQ_FIRST(&connection->open); request && room && !connection->error;
	     request = TAILQ_NEXT(request, link)) {
		if (!request->has_slot || request->all_posted)
			continue;
		room = rts(connection, request) &&
		       (request->copied ? post_copied(connection, request) : post_pieces(connection, request));
	}
	verbs_ring_flush(connection);
}

static void look_if_done(struct verbs_connection *connection, struct verbs_request *request)
{
	if (request->all_posted && !request->open_items && !request->done)
		verbs_request_finish(connection, request);
}

void verbs_sender_delivered(struct verbs_connection *connection, const struct verbs_item *item)
{
	if (connection->role != VERBS_SENDER || !item->request)
		return;
	item->request->open_items--;
	look_if_done(connection, item->request);
}

void verbs_sender_lost(struct verbs_connection *connection, const struct verbs_item *item)
{
	struct verbs_sender *s = &connection->s;

	if (item->kind == VERBS_ITEM_DESCRIPTOR) {
		if (connection->out.posted >= item->descriptor)
			connection->out.posted = item->descriptor - 1;
		return;
	}
	verbs_ring_shown_nothing(connection);
	s->again[s->again_count++] = (struct verbs_piece){ item->request, item->offset, item->bytes, item->whole };
}
