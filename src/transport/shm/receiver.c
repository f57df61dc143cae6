/*
 * The receiving role. Messages are matched to posted receives by tag, in the order of sending. An eager message stays in
 * the window until a receive wants it. An announced one is pulled from the sender's memory, one copy; where that is not
 * allowed, or that memory is of a kind that cannot be read, the sender is asked for pieces, two copies.
 */
#include "base/copy.h"
#include "base/log.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <string.h>

static struct shm_message *message_of(struct shm_receiver *r, uint32_t sequence)
{
	return &r->messages[sequence % SHM_SPAN];
}

/* ---- matching ---- */

static void slot_finish(struct shm_connection *connection, struct shm_message *message)
{
	struct shm_request *request = message->request;

	request->slots[message->slot].received = (size_t)message->size;
	message->request = NULL;
	if (--request->open_count == 0)
		shm_request_finish(connection, request);
}

/* How far the window is free: up to the oldest message that still needs its place. */
static void window_walk(struct shm_connection *connection)
{
	struct shm_receiver *r = &connection->r;
	uint64_t before = r->window_free;

	for (; r->eager_walk != r->next_sequence; r->eager_walk++) {
		const struct shm_message *message = message_of(r, r->eager_walk);

		if (message->sequence != r->eager_walk || !message->eager)
			continue;
		if (message->state != SHM_MESSAGE_FREE)
			break;
		r->window_free = message->place_end;
	}
	if (r->window_free != before)
		atomic_store(&connection->segment->eager_free, r->window_free);
}

void shm_receiver_tell(struct shm_connection *connection)
{
	struct shm_segment *segment = connection->segment;

	if (connection->r.window_told == connection->r.window_free)
		return;
	connection->r.window_told = connection->r.window_free;
	if (atomic_load(&segment->room_wanted) && atomic_exchange(&segment->room_wanted, 0))
		shm_ring_bell(connection->peer_bell_fd);
}

static void coming_append(struct shm_receiver *r, struct shm_message *message)
{
	message->prev = r->coming_end;
	message->next = NULL;
	if (r->coming_end)
		r->coming_end->next = message;
	else
		r->coming = message;
	r->coming_end = message;
}

static void coming_remove(struct shm_receiver *r, struct shm_message *message)
{
	if (message->prev)
		message->prev->next = message->next;
	else
		r->coming = message->next;
	if (message->next)
		message->next->prev = message->prev;
	else
		r->coming_end = message->prev;
}

static int truncated(struct shm_connection *connection)
{
	const struct shm_entry entry = { .type = SHM_ENTRY_TRUNCATED };

	shm_put(connection, &entry);
	return shm_connection_fail(connection, -EMSGSIZE, "a message was longer than the receive that it matched");
}

/* The caller has found that the tags agree. */
static int match(struct shm_connection *connection, struct shm_message *message, struct shm_request *request,
		 unsigned index)
{
	struct shm_receiver *r = &connection->r;
	struct shm_slot *slot = &request->slots[index];

	if (message->size > slot->bytes)
		return truncated(connection);
	slot->matched = true;
	message->request = request;
	message->slot = index;
	message->state = SHM_MESSAGE_COMES;
	if (!message->eager) {
		coming_append(r, message);
		return 0;
	}
	if (message->size)
		copy_bytes(slot->data, connection->segment->eager + message->value % SHM_EAGER_WINDOW,
			   (size_t)message->size);
	slot_finish(connection, message);
	message->state = SHM_MESSAGE_FREE;
	window_walk(connection);
	return 0;
}

/* The oldest posted receive with this tag; NULL when there is none. */
static struct shm_request *find_slot(const struct shm_connection *connection, int tag, unsigned *ret_index)
{
	for (struct shm_request *request = shm_request_first(connection); request; request = shm_request_next(request))
		for (unsigned i = 0; i < request->count; i++)
			if (!request->slots[i].matched && request->slots[i].tag == tag) {
				*ret_index = i;
				return request;
			}
	return NULL;
}

/* The oldest message that waits for a receive with this tag. */
static struct shm_message *find_waiting(struct shm_receiver *r, int tag)
{
	bool first = true;

	for (uint32_t sequence = r->waiting_from; sequence != r->next_sequence; sequence++) {
		struct shm_message *message = message_of(r, sequence);

		if (message->sequence != sequence || message->state != SHM_MESSAGE_WAITS) {
			if (first)
				r->waiting_from = sequence + 1;
			continue;
		}
		first = false;
		if (message->tag == tag)
			return message;
	}
	return NULL;
}

bool shm_receiver_has_kept(const struct shm_connection *connection)
{
	const struct shm_receiver *r = &connection->r;

	for (unsigned i = 0; i < SHM_SPAN; i++)
		if (r->messages[i].eager && r->messages[i].state == SHM_MESSAGE_WAITS)
			return true;
	return false;
}

int shm_receiver_receive(struct shm_connection *connection, int count, void *const *data, const size_t *bytes,
			 const int *tags, struct shm_request **ret)
{
	struct shm_request *request = shm_request_get(connection, SHM_REQUEST_RECEIVE);

	if (!request)
		return 0;
	request->count = request->open_count = (unsigned)count;
	for (int i = 0; i < count; i++)
		request->slots[i] = (struct shm_slot){ .data = data[i], .bytes = bytes[i], .tag = tags[i] };
	shm_request_append(connection, request);
	for (unsigned i = 0; i < request->count && !request->done; i++) {
		struct shm_message *message = find_waiting(&connection->r, request->slots[i].tag);
		int r = message ? match(connection, message, request, i) : 0;

		if (r < 0)
			return r;
	}
	*ret = request;
	return 0;
}

/* ---- what the sender says ---- */

static int message_arrived(struct shm_connection *connection, const struct shm_entry *entry)
{
	struct shm_receiver *r = &connection->r;
	struct shm_message *message = message_of(r, entry->sequence);
	const bool eager = entry->type == SHM_ENTRY_EAGER;
	struct shm_request *request;
	unsigned index;

	if (entry->sequence != r->next_sequence || message->state != SHM_MESSAGE_FREE)
		return -EPROTO;
	if (eager ? entry->size > SHM_EAGER_WINDOW || entry->value % SHM_EAGER_UNIT || entry->value < r->window_free ||
			    entry->value % SHM_EAGER_WINDOW + entry->size > SHM_EAGER_WINDOW ||
			    entry->value - r->window_free > SHM_EAGER_WINDOW - entry->size
		  : !entry->size || entry->size > TRANSPORT_MAX_MESSAGE_BYTES)
		return -EPROTO;
	window_walk(connection);
	if (r->next_sequence - r->eager_walk >= SHM_SPAN) /* it is not walked past what is overwritten here */
		return -EPROTO;
	*message = (struct shm_message){ .sequence = entry->sequence,
					 .state = SHM_MESSAGE_WAITS,
					 .eager = eager,
					 .pushed = !r->pulls,
					 .tag = entry->tag,
					 .size = entry->size,
					 .value = entry->value };
	if (eager)
		message->place_end = entry->value + shm_place_bytes(entry->size);
	r->next_sequence++;
	request = find_slot(connection, entry->tag, &index);
	return request ? match(connection, message, request, index) : 0;
}

static int complete(struct shm_connection *connection, struct shm_message *message)
{
	const struct shm_entry entry = { .type = SHM_ENTRY_DONE, .sequence = message->sequence };

	coming_remove(&connection->r, message);
	slot_finish(connection, message);
	message->state = SHM_MESSAGE_FREE;
	window_walk(connection);
	shm_put(connection, &entry);
	return 0;
}

/* Where and how much is what we asked for, not what the entry says. */
static int piece_arrived(struct shm_connection *connection, const struct shm_entry *entry)
{
	struct shm_piece *piece = &connection->r.pieces[entry->piece % SHM_PIECES];
	struct shm_message *message = piece->message;
	const uint8_t *from = connection->segment->pieces[entry->piece % SHM_PIECES];

	if (entry->piece >= SHM_PIECES || !message)
		return -EPROTO;
	copy_bytes(message->request->slots[message->slot].data + piece->offset, from, piece->bytes);
	message->received += piece->bytes;
	piece->message = NULL;
	return message->received == message->size ? complete(connection, message) : 0;
}

int shm_receiver_entry(struct shm_connection *connection, const struct shm_entry *entry)
{
	switch (entry->type) {
	case SHM_ENTRY_EAGER:
	case SHM_ENTRY_ANNOUNCE:
		return message_arrived(connection, entry);
	case SHM_ENTRY_PUSHED:
		return piece_arrived(connection, entry);
	default:
		return -EPROTO;
	}
}

/* ---- moving ---- */

static uint64_t left_of(const struct shm_message *message)
{
	return message->size - (message->pushed ? message->asked : message->received);
}

/*
 * Of those that are pulled, or of those that are pushed, one with something left. Every second turn is the oldest one's,
 * the others are the smallest one's: neither waits behind many of the other.
 */
static struct shm_message *choose(struct shm_receiver *r, bool pushed)
{
	struct shm_message *chosen = NULL;

	r->smallest_turn = !r->smallest_turn;
	for (struct shm_message *message = r->coming; message; message = message->next) {
		if (message->pushed != pushed || !left_of(message))
			continue;
		if (!chosen || left_of(message) < left_of(chosen))
			chosen = message;
		if (!r->smallest_turn)
			break;
	}
	return chosen;
}

static void ask(struct shm_connection *connection)
{
	struct shm_receiver *r = &connection->r;

	for (unsigned i = 0; i < SHM_PIECES; i++) {
		struct shm_message *message = r->pieces[i].message ? NULL : choose(r, true);
		struct shm_entry entry = { .type = SHM_ENTRY_PUSH, .piece = i };

		if (!message)
			continue;
		entry.sequence = message->sequence;
		entry.value = message->asked;
		entry.size = left_of(message) < SHM_PIECE_BYTES ? left_of(message) : SHM_PIECE_BYTES;
		r->pieces[i] = (struct shm_piece){ message, message->asked, (size_t)entry.size };
		message->asked += entry.size;
		shm_put(connection, &entry);
	}
}

static void say_once(const struct shm_connection *connection, int error)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (log_once(&said))
		log_info(LOG_NET, "process %d: its memory cannot be read from here (%s): two copies in place of one",
			 (int)connection->peer.pid, strerror(-error));
}

/* The bytes pulled, or an error that ends the connection. */
static int64_t pull(struct shm_connection *connection, struct shm_message *message)
{
	uint64_t left = message->size - message->received;
	size_t bytes = left < SHM_PULL_BYTES ? (size_t)left : SHM_PULL_BYTES;
	uint8_t *to = message->request->slots[message->slot].data + message->received;
	int r = shm_peer_read(connection, message->value + message->received, to, bytes);

	if (r == -ESRCH || r == -EREMOTEIO)
		return shm_connection_fail(connection, -EREMOTEIO, "the process is gone");
	if (r < 0) { /* not allowed any more, or not for this memory */
		say_once(connection, r);
		connection->r.pulls &= r == -EFAULT;
		message->pushed = true;
		message->asked = message->received;
		return 0;
	}
	/* A sender that closes gives its buffers back only after this is set: what was read before is whole. */
	atomic_fetch_add(&connection->r.reads, 1); /* a barrier: what was read, before the mark */
	if (shm_peer_closed(connection))
		return shm_connection_fail(connection, -EREMOTEIO, "the sender closed it");
	message->received += bytes;
	if (message->received == message->size)
		complete(connection, message);
	return (int64_t)bytes;
}

int shm_receiver_move(struct shm_connection *connection, bool *ret_more)
{
	struct shm_receiver *r = &connection->r;
	struct shm_message *message;
	int64_t moved = 0;

	while (moved < SHM_TURN_BYTES && (message = choose(r, false))) {
		int64_t bytes = pull(connection, message);

		if (bytes < 0)
			return (int)bytes;
		moved += bytes;
	}
	ask(connection);
	*ret_more = moved >= SHM_TURN_BYTES && choose(r, false);
	return 0;
}
