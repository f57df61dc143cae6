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

/* ---- lists ---- */

static void append(struct shm_messages *list, struct shm_message *message)
{
	message->prev = list->last;
	message->next = NULL;
	if (list->last)
		list->last->next = message;
	else
		list->first = message;
	list->last = message;
}

static void remove_from(struct shm_messages *list, struct shm_message *message)
{
	if (message->prev)
		message->prev->next = message->next;
	else
		list->first = message->next;
	if (message->next)
		message->next->prev = message->prev;
	else
		list->last = message->prev;
}

/* NULL: more than an honest sender has. */
static struct shm_message *message_get(struct shm_receiver *r)
{
	struct shm_message *message = r->unused;

	if (message)
		r->unused = message->next;
	else if (r->used_count < SHM_MESSAGES)
		message = &r->messages[r->used_count++];
	return message;
}

static void message_put(struct shm_receiver *r, struct shm_message *message)
{
	message->next = r->unused;
	r->unused = message;
}

/* ---- matching ---- */

/* How far the window is free: up to the oldest message that still needs its place. */
static void place_free(struct shm_connection *connection, unsigned place)
{
	struct shm_receiver *r = &connection->r;
	const uint64_t before = r->place_head;

	r->places[place].is_free = true;
	while (r->place_head != r->place_tail && r->places[r->place_head % SHM_EAGER_MESSAGES].is_free)
		r->window_free = r->places[r->place_head++ % SHM_EAGER_MESSAGES].end;
	if (r->place_head != before)
		atomic_store(&connection->segment->eager_free, r->window_free);
}

/* All of its bytes are in place. */
static void finish(struct shm_connection *connection, struct shm_message *message)
{
	const struct shm_entry entry = { .type = SHM_ENTRY_DONE, .sequence = message->sequence };
	struct shm_request *request = message->request;

	request->slots[message->slot].received = (size_t)message->size;
	if (--request->open_count == 0)
		shm_request_finish(connection, request);
	if (message->eager)
		place_free(connection, message->place);
	else
		shm_put(connection, &entry);
	message_put(&connection->r, message);
}

static int truncated(struct shm_connection *connection)
{
	const struct shm_entry entry = { .type = SHM_ENTRY_TRUNCATED };

	shm_put(connection, &entry);
	return shm_connection_fail(connection, -EMSGSIZE, "a message was longer than the receive that it matched");
}

/* The caller has found that the tags agree; the message is in no list. */
static int match(struct shm_connection *connection, struct shm_message *message, struct shm_request *request,
		 unsigned index)
{
	struct shm_slot *slot = &request->slots[index];

	if (message->size > slot->bytes)
		return truncated(connection);
	slot->matched = true;
	message->request = request;
	message->slot = index;
	if (!message->eager && message->size) {
		append(&connection->r.coming, message);
		return 0;
	}
	if (message->size)
		copy_bytes(slot->data, connection->segment->eager + message->value % SHM_EAGER_WINDOW,
			   (size_t)message->size);
	finish(connection, message);
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
static struct shm_message *find_waiting(const struct shm_receiver *r, int tag)
{
	struct shm_message *message = r->waiting.first;

	while (message && message->tag != tag)
		message = message->next;
	return message;
}

bool shm_receiver_has_kept(const struct shm_connection *connection)
{
	const struct shm_message *message = connection->r.waiting.first;

	while (message && !message->eager)
		message = message->next;
	return message != NULL;
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
		int r;

		if (!message)
			continue;
		remove_from(&connection->r.waiting, message);
		r = match(connection, message, request, i);
		if (r < 0)
			return r;
	}
	*ret = request;
	return 0;
}

/* ---- what the sender says ---- */

static bool place_is_valid(const struct shm_receiver *r, const struct shm_entry *entry)
{
	return entry->size <= SHM_EAGER_WINDOW && entry->value % SHM_EAGER_UNIT == 0 && entry->value >= r->window_free &&
	       entry->value % SHM_EAGER_WINDOW + entry->size <= SHM_EAGER_WINDOW &&
	       entry->value - r->window_free <= SHM_EAGER_WINDOW - entry->size &&
	       r->place_tail - r->place_head < SHM_EAGER_MESSAGES;
}

static int message_arrived(struct shm_connection *connection, const struct shm_entry *entry)
{
	struct shm_receiver *r = &connection->r;
	const bool eager = entry->type == SHM_ENTRY_EAGER;
	struct shm_message *message;
	struct shm_request *request;
	unsigned index;

	if (entry->sequence != r->next_sequence ||
	    (eager ? !place_is_valid(r, entry) : entry->size > TRANSPORT_MAX_MESSAGE_BYTES))
		return -EPROTO;
	message = message_get(r);
	if (!message)
		return -EPROTO;
	*message = (struct shm_message){ .sequence = entry->sequence,
					 .eager = eager,
					 .pushed = !r->pulls,
					 .tag = entry->tag,
					 .size = entry->size,
					 .value = entry->value };
	if (eager) {
		message->place = (unsigned)(r->place_tail++ % SHM_EAGER_MESSAGES);
		r->places[message->place] =
			(struct shm_place){ .end = entry->value + shm_place_bytes(entry->size) };
	}
	r->next_sequence++;
	request = find_slot(connection, entry->tag, &index);
	if (request)
		return match(connection, message, request, index);
	append(&r->waiting, message);
	return 0;
}

static void complete(struct shm_connection *connection, struct shm_message *message)
{
	remove_from(&connection->r.coming, message);
	finish(connection, message);
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
	if (message->received == message->size)
		complete(connection, message);
	return 0;
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
	for (struct shm_message *message = r->coming.first; message; message = message->next) {
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
