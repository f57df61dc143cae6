/*
 * The sending role. A short message is copied into the window, and its request is done. A longer one is announced with
 * its address; the receiver pulls it out of this process' memory, or, where it may not, asks for piece after piece; the
 * request is done when the receiver says that every byte is in place.
 */
#include "base/copy.h"
#include "transport/shm/shm.h"

#include <errno.h>

/* How far the receiver has freed the window. -EPROTO: further than was ever used. */
static int look_at_window(struct shm_connection *connection)
{
	struct shm_sender *s = &connection->s;
	uint64_t free_to = atomic_load(&connection->segment->eager_free);

	if (free_to < s->window_begin || free_to > s->window_end)
		return -EPROTO;
	s->window_begin = free_to;
	while (s->kept_head != s->kept_tail && s->kept[s->kept_head % SHM_SPAN].end <= free_to)
		s->kept_head++;
	return 0;
}

static bool span_has_room(const struct shm_connection *connection)
{
	const struct shm_sender *s = &connection->s;
	uint32_t oldest = s->next_sequence;

	if (shm_request_first(connection))
		oldest = shm_request_first(connection)->sequence;
	if (s->kept_head != s->kept_tail && (int32_t)(s->kept[s->kept_head % SHM_SPAN].sequence - oldest) < 0)
		oldest = s->kept[s->kept_head % SHM_SPAN].sequence;
	return s->next_sequence - oldest < SHM_SPAN;
}

static bool window_place(struct shm_sender *s, size_t bytes, uint64_t *ret_begin)
{
	uint64_t begin = s->window_end, used = shm_place_bytes(bytes);

	if (begin % SHM_EAGER_WINDOW + used > SHM_EAGER_WINDOW) /* never around the corner */
		begin += SHM_EAGER_WINDOW - begin % SHM_EAGER_WINDOW;
	if (begin + used - s->window_begin > SHM_EAGER_WINDOW)
		return false;
	*ret_begin = begin;
	return true;
}

static bool has_room(struct shm_connection *connection, size_t bytes, uint64_t *ret_place)
{
	bool eager = bytes <= connection->eager_bytes;

	return span_has_room(connection) && (!eager || window_place(&connection->s, bytes, ret_place));
}

/* Looks at what the receiver has freed, and, before it gives up, asks to be told when that goes on. */
static int find_room(struct shm_connection *connection, size_t bytes, uint64_t *ret_place, bool *ret_found)
{
	int r = 0;

	*ret_found = has_room(connection, bytes, ret_place);
	for (unsigned i = 0; i < 2 && r == 0 && !*ret_found; i++) {
		if (i)
			atomic_store(&connection->segment->room_wanted, 1);
		r = look_at_window(connection);
		*ret_found = r == 0 && has_room(connection, bytes, ret_place);
	}
	return r;
}

int shm_sender_send(struct shm_connection *connection, const void *data, size_t bytes, int tag,
		    struct shm_request **ret)
{
	struct shm_sender *s = &connection->s;
	struct shm_entry entry = {
		.type = SHM_ENTRY_ANNOUNCE, .sequence = s->next_sequence, .tag = tag, .size = bytes
	};
	struct shm_request *request;
	uint64_t place = 0;
	bool found = false;
	int r = connection->request_count < TRANSPORT_MAX_REQUESTS ? find_room(connection, bytes, &place, &found) : 1;

	if (r < 0)
		return shm_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
	if (r > 0 || !found)
		return 0;
	request = shm_request_get(connection, SHM_REQUEST_SEND);
	request->sequence = s->next_sequence++;
	request->data = data;
	request->size = bytes;
	if (bytes <= connection->eager_bytes) {
		if (bytes)
			copy_bytes(connection->segment->eager + place % SHM_EAGER_WINDOW, data, bytes);
		s->window_end = place + shm_place_bytes(bytes);
		s->kept[s->kept_tail++ % SHM_SPAN] = (struct shm_kept){ request->sequence, s->window_end };
		entry.type = SHM_ENTRY_EAGER;
		entry.value = place;
		request->done = true;
	} else {
		entry.value = (uint64_t)(uintptr_t)data;
		s->request_of[request->sequence % SHM_SPAN] = request;
		shm_request_append(connection, request);
	}
	shm_put(connection, &entry);
	*ret = request;
	return 0;
}

static struct shm_request *find(struct shm_connection *connection, uint32_t sequence)
{
	struct shm_request *request = connection->s.request_of[sequence % SHM_SPAN];

	return request && request->sequence == sequence ? request : NULL;
}

static int push(struct shm_connection *connection, const struct shm_entry *asked)
{
	const struct shm_request *request = find(connection, asked->sequence);
	struct shm_entry entry = { .type = SHM_ENTRY_PUSHED, .piece = asked->piece };

	if (!request || asked->piece >= SHM_PIECES || asked->size > SHM_PIECE_BYTES || asked->value > request->size ||
	    asked->size > request->size - asked->value)
		return -EPROTO;
	copy_bytes(connection->segment->pieces[asked->piece], request->data + asked->value, asked->size);
	shm_put(connection, &entry);
	return 0;
}

int shm_sender_entry(struct shm_connection *connection, const struct shm_entry *entry)
{
	struct shm_request *request;

	switch (entry->type) {
	case SHM_ENTRY_DONE:
		request = find(connection, entry->sequence);
		if (!request)
			return -EPROTO;
		connection->s.request_of[entry->sequence % SHM_SPAN] = NULL;
		shm_request_finish(connection, request);
		return 0;
	case SHM_ENTRY_PUSH:
		return push(connection, entry);
	case SHM_ENTRY_TRUNCATED:
		return -EMSGSIZE;
	default:
		return -EPROTO;
	}
}
