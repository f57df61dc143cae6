/* SPDX-License-Identifier: Apache-2.0 */
#include "support/traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 64
#define GUARD_BYTE  0xa5
#define KIB         1024
#define MIB         (1024 * 1024)

const struct traffic_shape traffic_shapes[] = {
	{ .name = "empty", .messages = 40, .window = 8 },
	{ .name = "tiny", .messages = 300, .max_bytes = 130, .window = 8 },
	{ .name = "small in order", .messages = 200, .min_bytes = 1, .max_bytes = 9 * KIB, .window = 8 },
	{ .name = "one at a time", .messages = 60, .max_bytes = 40 * KIB, .window = 1 },
	{ .name = "medium", .messages = 60, .min_bytes = 100, .max_bytes = 2 * MIB, .window = 4 },
	{ .name = "32 outstanding", .messages = 200, .max_bytes = 70 * KIB, .window = TRANSPORT_MAX_REQUESTS },
	{ .name = "room for more", .messages = 80, .max_bytes = 300 * KIB, .window = 8, .extra_max = 100 * KIB },
	{ .name = "receiver late", .messages = 60, .max_bytes = 200 * KIB, .window = 32, .receiver_late = 400 },
	{ .name = "sender late", .messages = 60, .max_bytes = 200 * KIB, .window = 32, .sender_late = 400 },
	{ .name = "groups", .messages = 200, .max_bytes = 60 * KIB, .group_max = 8, .window = 8 },
	{ .name = "groups shuffled",
	  .messages = 240,
	  .max_bytes = 150 * KIB,
	  .group_max = 8,
	  .shuffled = true,
	  .window = 16,
	  .extra_max = 999 },
	{ .name = "groups across",
	  .messages = 240,
	  .max_bytes = 80 * KIB,
	  .group_max = 8,
	  .shuffled = true,
	  .across = true,
	  .window = 32,
	  .receiver_late = 200 },
	{ .name = "groups, tiny, late",
	  .messages = 240,
	  .max_bytes = 200,
	  .group_max = 8,
	  .shuffled = true,
	  .across = true,
	  .window = 32,
	  .receiver_late = 300 },
	{ .name = "any tested",
	  .messages = 120,
	  .max_bytes = 90 * KIB,
	  .group_max = 4,
	  .shuffled = true,
	  .window = 12,
	  .any_tested = true },
	{ 0 },
};

/* 0 to max bytes, each power of two as likely as the next, odd in most cases. */
static size_t random_size(uint64_t *random, size_t min_bytes, size_t max_bytes)
{
	size_t bound = 1;

	if (max_bytes <= min_bytes)
		return min_bytes;
	while (bound < max_bytes - min_bytes + 1 && random_below(random, 14))
		bound *= 2;
	if (bound > max_bytes - min_bytes + 1)
		bound = max_bytes - min_bytes + 1;
	return min_bytes + random_below(random, bound);
}

static void shuffle(uint64_t *random, unsigned *items, unsigned count)
{
	for (unsigned i = count; i > 1; i--) {
		unsigned j = (unsigned)random_below(random, i), kept = items[i - 1];

		items[i - 1] = items[j];
		items[j] = kept;
	}
}

static void plan_groups(struct traffic_plan *plan, uint64_t *random, unsigned group_max)
{
	const struct traffic_shape *shape = plan->shape;
	unsigned at = 0;

	while (at < plan->message_count) {
		struct traffic_group *group = &plan->groups[plan->group_count++];

		group->first = at;
		group->count = 1 + (unsigned)random_below(random, group_max);
		if (group->count > plan->message_count - at)
			group->count = plan->message_count - at;
		for (unsigned i = 0; i < group->count; i++, at++) {
			struct traffic_message *message = &plan->messages[at];

			message->bytes = random_size(random, shape->min_bytes, shape->max_bytes);
			message->room_bytes = message->bytes;
			if (shape->extra_max)
				message->room_bytes += random_below(random, shape->extra_max);
			/* Distinct in the group, used again by the next one. */
			message->tag = (int)i * 1000 - 1;
			plan->send_order[at] = at;
		}
		if (shape->shuffled)
			shuffle(random, plan->send_order + group->first, group->count);
	}
}

/* Messages of one tag keep their order, as NCCL's do. */
static void plan_across(struct traffic_plan *plan, uint64_t *random)
{
	unsigned *order = plan->send_order, kept;

	for (unsigned i = 0; i + 1 < plan->message_count; i += 2) {
		if (random_below(random, 2) || plan->messages[order[i]].tag == plan->messages[order[i + 1]].tag)
			continue;
		kept = order[i];
		order[i] = order[i + 1];
		order[i + 1] = kept;
	}
}

int traffic_plan_init(const struct traffic_shape *shape, uint64_t seed, unsigned max_recvs, struct traffic_plan *plan)
{
	unsigned group_max = shape->group_max ? shape->group_max : 1;
	uint64_t random = seed;

	memset(plan, 0, sizeof(*plan));
	plan->shape = shape;
	plan->seed = seed;
	plan->message_count = shape->messages;
	plan->messages = calloc(shape->messages, sizeof(*plan->messages));
	plan->groups = calloc(shape->messages, sizeof(*plan->groups));
	plan->send_order = calloc(shape->messages, sizeof(*plan->send_order));
	if (!plan->messages || !plan->groups || !plan->send_order) {
		traffic_plan_fini(plan);
		return -ENOMEM;
	}
	plan_groups(plan, &random, group_max < max_recvs ? group_max : max_recvs);
	if (shape->across)
		plan_across(plan, &random);
	return 0;
}

void traffic_plan_fini(struct traffic_plan *plan)
{
	free(plan->messages);
	free(plan->groups);
	free(plan->send_order);
	memset(plan, 0, sizeof(*plan));
}

void traffic_end_init(struct traffic_end *end, const struct transport_ops *ops, struct transport_connection *connection,
		      const struct traffic_plan *plan, bool sends)
{
	memset(end, 0, sizeof(*end));
	end->ops = ops;
	end->connection = connection;
	end->plan = plan;
	end->sends = sends;
	end->total = sends ? plan->message_count : plan->group_count;
}

static void slot_free(struct traffic_slot *slot)
{
	for (unsigned i = 0; i < TRANSPORT_MAX_RECVS; i++)
		free(slot->data[i]);
	memset(slot, 0, sizeof(*slot));
}

void traffic_end_fini(struct traffic_end *end)
{
	for (unsigned i = 0; i < end->outstanding; i++)
		slot_free(&end->slots[i]);
	slot_free(&end->next);
	end->outstanding = 0;
}

/* Registers as NCCL does before it posts. */
static int buffer_new(struct traffic_end *end, struct traffic_slot *slot, unsigned at, size_t bytes)
{
	slot->data[at] = malloc(bytes + GUARD_BYTES);
	if (!slot->data[at])
		return -ENOMEM;
	return end->ops->memory_register(end->connection, slot->data[at], bytes, TRANSPORT_MEMORY_HOST,
					 &slot->registrations[at]);
}

static int prepare(struct traffic_end *end)
{
	const struct traffic_plan *plan = end->plan;
	const struct traffic_group *group;
	struct traffic_slot *slot = &end->next;
	int r = 0;

	slot->index = end->posted;
	if (end->sends) {
		unsigned which = plan->send_order[slot->index];

		r = buffer_new(end, slot, 0, plan->messages[which].bytes);
		if (r == 0)
			pattern_fill(slot->data[0], plan->messages[which].bytes, plan->seed + which);
	} else {
		group = &plan->groups[slot->index];
		for (unsigned i = 0; i < group->count && r == 0; i++) {
			size_t bytes = plan->messages[group->first + i].room_bytes;

			r = buffer_new(end, slot, i, bytes);
			if (r == 0)
				memset(slot->data[i], GUARD_BYTE, bytes + GUARD_BYTES);
		}
	}
	end->prepared = r == 0;
	return r;
}

/* 1: taken, 0: the transport has no room now. */
static int post(struct traffic_end *end)
{
	const struct traffic_plan *plan = end->plan;
	const struct traffic_message *message;
	const struct traffic_group *group;
	struct traffic_slot *slot = &end->next;
	size_t bytes[TRANSPORT_MAX_RECVS];
	int tags[TRANSPORT_MAX_RECVS];
	int r = end->prepared ? 0 : prepare(end);

	if (r < 0)
		return r;
	if (end->sends) {
		message = &plan->messages[plan->send_order[slot->index]];
		r = end->ops->send(end->connection, slot->data[0], message->bytes, message->tag, slot->registrations[0],
				   &slot->request);
	} else {
		group = &plan->groups[slot->index];
		for (unsigned i = 0; i < group->count; i++) {
			bytes[i] = plan->messages[group->first + i].room_bytes;
			tags[i] = plan->messages[group->first + i].tag;
		}
		r = end->ops->receive(end->connection, (int)group->count, slot->data, bytes, tags, slot->registrations,
				      &slot->request);
	}
	if (r < 0)
		return r;
	if (!slot->request) {
		end->refused++;
		return 0;
	}
	end->slots[end->outstanding++] = *slot;
	memset(slot, 0, sizeof(*slot));
	end->prepared = false;
	end->posted++;
	return 1;
}

static int check_received(const struct traffic_end *end, const struct traffic_slot *slot, unsigned at, size_t size)
{
	const struct traffic_plan *plan = end->plan;
	unsigned which = plan->groups[slot->index].first + at;
	const struct traffic_message *message = &plan->messages[which];
	const uint8_t *data = slot->data[at];
	size_t wrong_at;

	if (size != message->bytes)
		return runtime_complain(EBADMSG, "%s: message %u: %zu bytes sent, %zu received", plan->shape->name,
					which, message->bytes, size);
	wrong_at = pattern_wrong_at(data, message->bytes, plan->seed + which);
	if (wrong_at != SIZE_MAX)
		return runtime_complain(EBADMSG, "%s: message %u (tag %d): byte %zu of %zu is wrong", plan->shape->name,
					which, message->tag, wrong_at, message->bytes);
	for (size_t i = message->bytes; i < message->room_bytes + GUARD_BYTES; i++)
		if (data[i] != GUARD_BYTE)
			return runtime_complain(EBADMSG, "%s: message %u of %zu bytes: byte %zu was written",
						plan->shape->name, which, message->bytes, i);
	return 0;
}

static int complete(struct traffic_end *end, unsigned at, const size_t *sizes)
{
	struct traffic_slot *slot = &end->slots[at];
	unsigned count = end->sends ? 1 : end->plan->groups[slot->index].count;
	int r = 0;

	for (unsigned i = 0; i < count && r == 0; i++) {
		if (!end->sends)
			r = check_received(end, slot, i, sizes[i]);
		else if (sizes[0] != end->plan->messages[end->plan->send_order[slot->index]].bytes)
			r = runtime_complain(EBADMSG, "%s: test gives %zu bytes for a send", end->plan->shape->name,
					     sizes[0]);
		end->bytes += sizes[i];
		if (r == 0)
			r = end->ops->memory_deregister(end->connection, slot->registrations[i]);
	}
	slot_free(slot);
	end->outstanding--;
	memmove(slot, slot + 1, (end->outstanding - at) * sizeof(*slot));
	end->completed++;
	return r;
}

/* 1: it is done and forgotten. */
static int test_one(struct traffic_end *end, unsigned at)
{
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	bool done = false;
	int r = end->ops->test(end->slots[at].request, &done, sizes);

	if (r < 0 || !done)
		return r;
	r = complete(end, at, sizes);
	return r < 0 ? r : 1;
}

int traffic_step(struct traffic_end *end)
{
	const struct traffic_shape *shape = end->plan->shape;
	unsigned window = shape->window ? shape->window : TRANSPORT_MAX_REQUESTS, tested;
	int r = 1;

	if (end->steps++ < (end->sends ? shape->sender_late : shape->receiver_late))
		return 0;
	while (r == 1 && end->posted < end->total && end->outstanding < window)
		r = post(end);
	if (r < 0)
		return r;
	tested = shape->any_tested ? end->outstanding : end->outstanding > 0;
	while (tested--) {
		r = test_one(end, shape->any_tested ? tested : 0);
		if (r < 0)
			return r;
	}
	return end->completed == end->total;
}

int traffic_step_until_error(struct traffic_end *end)
{
	void *data = &end->probe_byte, *registration = NULL;
	size_t bytes = 1;
	bool done = false;
	int r, tag = -2;

	if (end->completed < end->total) {
		r = traffic_step(end);
		return r < 0 ? r : 0;
	}
	if (end->probe) {
		r = end->ops->test(end->probe, &done, NULL);
		end->probe = done ? NULL : end->probe;
		return r;
	}
	if (end->sends)
		return end->ops->send(end->connection, data, bytes, tag, NULL, &end->probe);
	return end->ops->receive(end->connection, 1, &data, &bytes, &tag, &registration, &end->probe);
}

int traffic_run(struct traffic_end *end, unsigned milliseconds)
{
	uint64_t deadline_ns = runtime_deadline_ns(milliseconds);
	int r = 0;

	while (r == 0) {
		r = traffic_step(end);
		if (r == 0 && runtime_past(deadline_ns))
			return runtime_complain(ETIMEDOUT, "%s: %s: %u of %u done, %u outstanding",
						end->plan->shape->name, end->sends ? "sender" : "receiver",
						end->completed, end->total, end->outstanding);
		runtime_nap();
	}
	return r < 0 ? r : 0;
}

int traffic_run_both(struct traffic_end *sender, struct traffic_end *receiver, unsigned milliseconds)
{
	uint64_t deadline_ns = runtime_deadline_ns(milliseconds);
	uint64_t random = sender->plan->seed ^ 0x5eed;
	int sent = 0, received = 0;

	while (!sent || !received) {
		bool sender_turn = random_below(&random, 2);

		if (!sent && (sender_turn || received))
			sent = traffic_step(sender);
		else if (!received)
			received = traffic_step(receiver);
		if (sent < 0 || received < 0)
			return sent < 0 ? sent : received;
		if (runtime_past(deadline_ns))
			return runtime_complain(ETIMEDOUT, "%s: sent %u of %u (%u outstanding), received %u of %u (%u)",
						sender->plan->shape->name, sender->completed, sender->total,
						sender->outstanding, receiver->completed, receiver->total,
						receiver->outstanding);
	}
	return 0;
}

int traffic_between(const struct traffic_shape *shape, uint64_t seed, unsigned max_recvs,
		    const struct transport_ops *ops, struct transport_connection *sender,
		    struct transport_connection *receiver)
{
	struct traffic_end *ends = calloc(2, sizeof(*ends));
	struct traffic_plan plan;
	int r;

	if (!ends)
		return -ENOMEM;
	r = traffic_plan_init(shape, seed, max_recvs, &plan);
	if (r < 0)
		goto out;
	traffic_end_init(&ends[0], ops, sender, &plan, true);
	traffic_end_init(&ends[1], ops, receiver, &plan, false);
	r = traffic_run_both(&ends[0], &ends[1], 30000);
	if (r == 0) {
		traffic_end_fini(&ends[0]);
		traffic_end_fini(&ends[1]);
	}
	traffic_plan_fini(&plan);
out:
	free(ends);
	return r;
}
