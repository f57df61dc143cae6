/* SPDX-License-Identifier: Apache-2.0 */
#include "support/contract_end.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define GUARD_BYTES  64
#define GUARD_BYTE   0xa5
#define SPENT_BYTE   0xdd
#define KEY          77
#define SOURCE_BYTES ((size_t)CONTRACT_MAX_BYTES * 2 + GUARD_BYTES)

/* ---- messages ---- */

static uint8_t *source; /* every message is a part of it */

static void source_make(void)
{
	source = malloc(SOURCE_BYTES);
	if (!source)
		abort();
	pattern_fill(source, SOURCE_BYTES, 77);
}

static uint64_t message_random(const struct contract_style *style, unsigned tag, uint64_t number, unsigned purpose)
{
	uint64_t random = style->seed * 0x9e3779b97f4a7c15ULL + number * 64 + tag * 4 + purpose;

	return random_next(&random);
}

/* Each power of two as likely as the next, nothing at all among them. */
size_t contract_message_bytes(const struct contract_style *style, unsigned tag, uint64_t number)
{
	uint64_t bits = 0, chosen = message_random(style, tag, number, 0);

	while (style->max_bytes >> bits)
		bits++;
	bits = chosen % (bits + 1);
	if (!bits)
		return 0;
	chosen = ((size_t)1 << (bits - 1)) + (chosen >> 8) % ((size_t)1 << (bits - 1));
	return chosen < style->max_bytes ? (size_t)chosen : style->max_bytes;
}

static bool is_short(const struct contract_style *style, unsigned tag, uint64_t number)
{
	return style->truncates && tag == style->short_tag && number == style->short_number &&
	       contract_message_bytes(style, tag, number) > 0;
}

static size_t room_bytes(const struct contract_style *style, unsigned tag, uint64_t number)
{
	const size_t bytes = contract_message_bytes(style, tag, number);

	if (is_short(style, tag, number))
		return bytes - 1;
	return bytes + (style->more_room ? (size_t)(message_random(style, tag, number, 1) % style->more_room) : 0);
}

static const uint8_t *message_data(const struct contract_style *style, unsigned tag, uint64_t number)
{
	return source + message_random(style, tag, number, 2) % CONTRACT_MAX_BYTES;
}

/* ---- buffers ---- */

static unsigned class_of(size_t bytes)
{
	unsigned class = 0;

	while (((size_t)CONTRACT_LEAST_BUFFER << class) < bytes + GUARD_BYTES)
		class ++;
	return class;
}

static uint8_t *buffer_get(struct contract_end *end, size_t bytes)
{
	const unsigned class = class_of(bytes);
	struct contract_buffer *buffer = end->buffers[class];

	if (buffer)
		end->buffers[class] = buffer->next;
	else
		buffer = malloc(sizeof(*buffer) + ((size_t)CONTRACT_LEAST_BUFFER << class));
	return buffer ? buffer->data : NULL;
}

static void buffer_put(struct contract_end *end, uint8_t *data, size_t bytes)
{
	struct contract_buffer *buffer = (struct contract_buffer *)(data - offsetof(struct contract_buffer, data));

	buffer->next = end->buffers[class_of(bytes)];
	end->buffers[class_of(bytes)] = buffer;
}

static bool is_borrowed(const struct contract_end *end)
{
	return end->sends && !end->shared->style.own_buffers;
}

static int prepare(struct contract_end *end, struct contract_pending *pending)
{
	const struct contract_style *style = &end->shared->style;
	int r = 0;

	for (unsigned i = 0; i < pending->what.count && r == 0; i++) {
		const unsigned tag = pending->what.parts[i].tag;
		const uint64_t number = pending->what.parts[i].number;
		const size_t bytes = contract_message_bytes(style, tag, number);

		pending->bytes[i] = end->sends ? bytes : room_bytes(style, tag, number);
		if (is_borrowed(end)) {
			pending->data[i] = source + (message_data(style, tag, number) - source);
		} else {
			pending->data[i] = buffer_get(end, pending->bytes[i]);
			if (!pending->data[i])
				return -ENOMEM;
			if (end->sends)
				memcpy(pending->data[i], message_data(style, tag, number), bytes);
			else
				memset(pending->data[i] + (bytes < pending->bytes[i] ? bytes : pending->bytes[i]),
				       GUARD_BYTE, GUARD_BYTES);
		}
		if (style->registers)
			r = end->ops->memory_register(end->connection, pending->data[i], pending->bytes[i],
						      TRANSPORT_MEMORY_HOST, &pending->registrations[i]);
	}
	return r;
}

static int release(struct contract_end *end, struct contract_pending *pending)
{
	int r = 0;

	for (unsigned i = 0; i < pending->what.count; i++) {
		if (pending->registrations[i] && end->connection && r == 0)
			r = end->ops->memory_deregister(end->connection, pending->registrations[i]);
		if (is_borrowed(end) || !pending->data[i])
			continue;
		if (end->sends) /* a transport that still reads there sends something else */
			memset(pending->data[i], SPENT_BYTE, pending->bytes[i]);
		buffer_put(end, pending->data[i], pending->bytes[i]);
	}
	memset(pending, 0, sizeof(*pending));
	return r;
}

/* ---- checking ---- */

static int complain_of(const struct contract_end *end, const struct contract_request *what, unsigned part,
		       const char *text, uint64_t a, uint64_t b)
{
	return runtime_complain(EBADMSG, "%s of tag %u, number %" PRIu64 ": %s (%" PRIu64 ", %" PRIu64 ")",
				end->sends ? "send" : "receive", what->parts[part].tag, what->parts[part].number, text,
				a, b);
}

static int check_guard(const struct contract_end *end, const struct contract_pending *pending, unsigned part)
{
	const size_t bytes = contract_message_bytes(&end->shared->style, pending->what.parts[part].tag,
						    pending->what.parts[part].number);
	const size_t from = bytes < pending->bytes[part] ? bytes : pending->bytes[part];

	for (size_t i = from; i < from + GUARD_BYTES; i++)
		if (pending->data[part][i] != GUARD_BYTE)
			return complain_of(end, &pending->what, part, "a byte beyond it was written", i, from);
	return 0;
}

static int check_received(const struct contract_end *end, const struct contract_pending *pending, unsigned part,
			  size_t size)
{
	const struct contract_style *style = &end->shared->style;
	const unsigned tag = pending->what.parts[part].tag;
	const uint64_t number = pending->what.parts[part].number;
	const size_t bytes = contract_message_bytes(style, tag, number);
	bool met;

	pthread_mutex_lock(&end->shared->lock);
	met = contract_model_has_met(&end->shared->model, &pending->what, part);
	pthread_mutex_unlock(&end->shared->lock);
	if (!met)
		return complain_of(end, &pending->what, part, "it completed although nothing was sent", size, bytes);
	if (is_short(style, tag, number))
		return complain_of(end, &pending->what, part, "it completed although it is too short", size, bytes);
	if (size != bytes)
		return complain_of(end, &pending->what, part, "its size is wrong", size, bytes);
	if (memcmp(pending->data[part], message_data(style, tag, number), bytes))
		return complain_of(end, &pending->what, part, "its bytes are wrong", size, bytes);
	return check_guard(end, pending, part);
}

static int complete(struct contract_end *end, unsigned at, const size_t *sizes)
{
	struct contract_pending *pending = &end->pending[at];
	int r = 0, released;

	for (unsigned i = 0; i < pending->what.count && r == 0; i++)
		if (!end->sends)
			r = check_received(end, pending, i, sizes[i]);
		else if (sizes[i] != pending->bytes[i])
			r = complain_of(end, &pending->what, i, "its size is wrong", sizes[i], pending->bytes[i]);
	released = release(end, pending);
	end->pending_count--;
	memmove(pending, pending + 1, (end->pending_count - at) * sizeof(*pending));
	atomic_store(&end->shared->moved_ns, runtime_own_ns());
	return r < 0 ? r : released;
}

/* ---- posting ---- */

static unsigned any_tag(struct contract_end *end)
{
	const struct contract_style *style = &end->shared->style;
	const enum contract_tag_use not = end->sends ? CONTRACT_POSTED_ALONE : CONTRACT_SENT_ALONE;
	unsigned tag;

	do
		tag = (unsigned)random_below(&end->random, style->tag_count);
	while (style->uses[tag] == not );
	return tag;
}

/* Under the lock. As often one that the other end waits for as any other. */
static unsigned choose_tag(struct contract_end *end)
{
	const struct contract_model *model = &end->shared->model;
	const unsigned count = end->shared->style.tag_count;
	unsigned from = (unsigned)random_below(&end->random, count);

	if (random_below(&end->random, 2))
		return any_tag(end);
	for (unsigned i = 0; i < count; i++) {
		const unsigned tag = (from + i) % count;
		const uint64_t sent = model->tags[tag].sent, posted = model->tags[tag].posted;

		if (end->sends ? posted > sent : sent > posted)
			return tag;
	}
	return any_tag(end);
}

static unsigned unmet_count(const struct contract_end *end)
{
	unsigned count = 0;

	for (unsigned i = 0; i < end->pending_count; i++)
		count += !contract_model_is_due(&end->shared->model, &end->pending[i].what);
	return count;
}

/* Under the lock. False: nothing now. */
static bool choose(struct contract_end *end, struct contract_request *ret)
{
	const struct contract_shared *shared = end->shared;
	const unsigned most = end->sends || random_below(&end->random, 2) ? 1 : shared->style.group_max;

	*ret = (struct contract_request){ .sends = end->sends,
					  .count = 1 + (unsigned)random_below(&end->random, most) };
	for (unsigned i = 0; i < ret->count; i++)
		ret->parts[i].tag = choose_tag(end);
	return unmet_count(end) < shared->style.unmet_most || contract_model_would_be_due(&shared->model, ret);
}

static int hand_over(struct contract_end *end, struct contract_pending *pending)
{
	int tags[TRANSPORT_MAX_RECVS];

	for (unsigned i = 0; i < pending->what.count; i++)
		tags[i] = end->shared->style.tags[pending->what.parts[i].tag];
	if (end->sends)
		return end->ops->send(end->connection, pending->data[0], pending->bytes[0], tags[0],
				      pending->registrations[0], &pending->request);
	end->next = TRANSPORT_NEXT_NOW; /* its message may be announced already: see transport.h, watch */
	return end->ops->receive(end->connection, (int)pending->what.count, (void *const *)pending->data,
				 pending->bytes, tags, pending->registrations, &pending->request);
}

/* A receive that is too short has met its message, whichever of them was posted first. */
static bool breaks(const struct contract_shared *shared, const struct contract_model *after,
		   const struct contract_request *what)
{
	for (unsigned i = 0; i < what->count; i++)
		if (is_short(&shared->style, what->parts[i].tag, what->parts[i].number) &&
		    contract_model_has_met(after, what, i))
			return true;
	return false;
}

/* Under the lock. */
static int post(struct contract_end *end, const struct contract_request *what)
{
	struct contract_shared *shared = end->shared;
	struct contract_pending *pending = &end->pending[end->pending_count];
	struct contract_model after = shared->model;
	int r;

	*pending = (struct contract_pending){ .what = *what };
	contract_model_start(&after, &pending->what);
	r = prepare(end, pending);
	if (r == 0)
		r = hand_over(end, pending);
	if ((r < 0 || pending->request) && breaks(shared, &after, &pending->what))
		shared->broken = true;
	if (r < 0 || !pending->request) {
		release(end, pending);
		end->wanted = *what;
		if (r < 0 || !contract_model_would_be_due(&shared->model, what))
			end->wanted.count = 0;
		return r;
	}
	shared->model = after;
	end->pending_count++;
	end->wanted.count = 0;
	atomic_fetch_add(&shared->operations, 1);
	atomic_store(&shared->moved_ns, runtime_own_ns());
	return 1;
}

int contract_end_post(struct contract_end *end)
{
	struct contract_request what = end->wanted;
	int r = 0;

	if (end->pending_count == TRANSPORT_MAX_REQUESTS)
		return 0;
	pthread_mutex_lock(&end->shared->lock);
	if (!end->shared->broken && (what.count || choose(end, &what)))
		r = post(end, &what);
	pthread_mutex_unlock(&end->shared->lock);
	return r;
}

/* ---- polling ---- */

static int take_events(struct contract_end *end)
{
	struct epoll_event event;
	int count = epoll_wait(end->epoll_fd, &event, 1, 0);

	if (count > 0 && event.data.u64 != KEY)
		return runtime_complain(EBADMSG, "an event with a key that was never given");
	return count > 0 || end->next != TRANSPORT_NEXT_EVENT ? end->ops->progress(end->connection, &end->next) : 0;
}

static int test_one(struct contract_end *end, unsigned at)
{
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	bool done = false;
	int r = end->ops->test(end->pending[at].request, &done, sizes);

	if (r < 0 || !done)
		return r;
	r = complete(end, at, sizes);
	return r < 0 ? r : 1;
}

int contract_end_poll(struct contract_end *end, bool all)
{
	unsigned from = 0, count = end->pending_count, found = 0;
	int r = end->epoll_fd >= 0 ? take_events(end) : 0, tested;

	/* After an error of the connection what was complete before still says so: tests are what counts. */
	if (r == -EBADMSG)
		return r;
	if (!all && count && random_below(&end->random, 2)) {
		from = (unsigned)random_below(&end->random, count);
		count = from + 1;
	}
	for (unsigned i = count; i > from; i--) {
		tested = test_one(end, i - 1);
		if (tested == -EBADMSG)
			return tested;
		if (tested < 0)
			r = tested;
		found += tested > 0;
	}
	end->idle_polls = found ? 0 : end->idle_polls + 1;
	return r < 0 ? r : (int)found;
}

unsigned contract_end_due(struct contract_end *end)
{
	unsigned due = end->wanted.count > 0;

	pthread_mutex_lock(&end->shared->lock);
	for (unsigned i = 0; i < end->pending_count; i++)
		due += contract_model_is_due(&end->shared->model, &end->pending[i].what);
	pthread_mutex_unlock(&end->shared->lock);
	return due;
}

/* ---- */

static void give_hints(const struct contract_end *end)
{
	const unsigned hints = end->shared->style.hints;

	if (!end->ops->set)
		return;
	if (end->sends && hints & 1)
		end->ops->set(end->connection, TRANSPORT_SET_EAGER_LIMIT, hints & 2 ? 0 : 1000);
	if (!end->sends && hints & 4)
		end->ops->set(end->connection, TRANSPORT_SET_UNPACED, 1);
}

int contract_end_begin(struct contract_end *end, struct contract_shared *shared, const struct transport_ops *ops,
		       struct transport_connection *connection, bool sends)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, source_make);
	end->ops = ops;
	end->connection = connection;
	end->shared = shared;
	end->sends = sends;
	end->pending_count = 0;
	end->wanted.count = 0;
	end->idle_polls = 0;
	end->epoll_fd = -1;
	end->next = TRANSPORT_NEXT_NOW;
	end->random = shared->style.seed * 2 + sends;
	give_hints(end);
	if (!shared->style.watched)
		return 0;
	end->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return end->epoll_fd < 0 ? -errno : ops->watch(connection, end->epoll_fd, KEY);
}

int contract_end_finish(struct contract_end *end)
{
	int r = 0;

	end->connection = NULL;
	for (unsigned i = 0; i < end->pending_count; i++) {
		for (unsigned k = 0; k < end->pending[i].what.count && !end->sends && r == 0; k++)
			r = check_guard(end, &end->pending[i], k);
		release(end, &end->pending[i]);
	}
	end->pending_count = 0;
	if (end->epoll_fd >= 0)
		close(end->epoll_fd);
	end->epoll_fd = -1;
	return r;
}

void contract_end_free(struct contract_end *end)
{
	for (unsigned i = 0; i < CONTRACT_CLASSES; i++)
		while (end->buffers[i]) {
			struct contract_buffer *buffer = end->buffers[i];

			end->buffers[i] = buffer->next;
			free(buffer);
		}
}
