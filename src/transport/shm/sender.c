/*
 * The sending role. A short message is copied into the window, and its request is done. A longer one is announced with
 * its address; the receiver pulls it out of this process' memory, or, where it may not, asks for piece after piece; the
 * request is done when the receiver says that every byte is in place. A short one for which the window has no room is
 * announced as well, one of each tag at a time: what fills the window may never be received, and neither it nor what its
 * sender would like to send behind it may delay another tag.
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
	while (s->end_head != s->end_tail && s->ends[s->end_head % SHM_EAGER_MESSAGES] <= free_to)
		s->end_head++;
	return 0;
}

static bool window_place(const struct shm_sender *s, size_t bytes, uint64_t *ret_begin)
{
	uint64_t begin = s->window_end, used = shm_place_bytes(bytes);

	if (begin % SHM_EAGER_WINDOW + used > SHM_EAGER_WINDOW) /* never around the corner */
		begin += SHM_EAGER_WINDOW - begin % SHM_EAGER_WINDOW;
	if (begin + used - s->window_begin > SHM_EAGER_WINDOW || s->end_tail - s->end_head == SHM_EAGER_MESSAGES)
		return false;
	*ret_begin = begin;
	return true;
}

/* Looks at what the receiver has freed only when there is no room left. */
static int find_place(struct shm_connection *connection, size_t bytes, uint64_t *ret_place, bool *ret_found)
{
	int r = 0;

	*ret_found = window_place(&connection->s, bytes, ret_place);
	if (!*ret_found) {
		r = look_at_window(connection);
		*ret_found = r == 0 && window_place(&connection->s, bytes, ret_place);
	}
	return r;
}

static void put_eagerly(struct shm_connection *connection, const struct shm_request *request, uint64_t place)
{
	struct shm_sender *s = &connection->s;

	if (request->size)
		copy_bytes(connection->segment->eager + place % SHM_EAGER_WINDOW, request->data, request->size);
	s->window_end = place + shm_place_bytes(request->size);
	s->ends[s->end_tail++ % SHM_EAGER_MESSAGES] = s->window_end;
}

static bool has_open(const struct shm_connection *connection, int tag)
{
	const struct shm_request *request = shm_request_first(connection);

	while (request && request->tag != tag)
		request = shm_request_next(request);
	return request != NULL;
}

int shm_sender_send(struct shm_connection *connection, const void *data, size_t bytes, int tag,
		    struct shm_request **ret)
{
	struct shm_entry entry = { .type = SHM_ENTRY_ANNOUNCE, .tag = tag, .size = bytes };
	struct shm_request *request;
	uint64_t place = 0;
	bool eager = false;
	int r = 0;

	if (connection->request_count == TRANSPORT_MAX_REQUESTS)
		return 0;
	if (bytes <= connection->eager_bytes)
		r = find_place(connection, bytes, &place, &eager);
	if (r < 0)
		return shm_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
	if (!eager && bytes <= connection->eager_bytes && has_open(connection, tag))
		return 0;
	request = shm_request_get(connection, SHM_REQUEST_SEND);
	request->sequence = entry.sequence = connection->s.next_sequence++;
	request->data = data;
	request->size = bytes;
	request->tag = tag;
	if (eager) {
		put_eagerly(connection, request, place);
		entry.type = SHM_ENTRY_EAGER;
		entry.value = place;
		request->done = true;
	} else {
		entry.value = (uint64_t)(uintptr_t)data;
		shm_request_append(connection, request);
	}
	shm_put(connection, &entry);
	*ret = request;
	return 0;
}

static struct shm_request *find(const struct shm_connection *connection, uint64_t sequence)
{
	struct shm_request *request = shm_request_first(connection);

	while (request && request->sequence != sequence)
		request = shm_request_next(request);
	return request;
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
