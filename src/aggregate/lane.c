/*
 * One connection: transfers wait here until it takes them. Those of small operations have a connection of their own, so
 * that they never wait behind large ones; segments go in the order of their numbers, and the oldest unfinished one has
 * requests that no other may use.
 */
#include "aggregate/group.h"
#include "aggregate/servers.h"

#include <errno.h>

void lane_init(struct lane *lane, const struct transport_ops *ops, bool sends)
{
	lane->ops = ops;
	lane->sends = sends;
	lane->small_end = &lane->small_first;
	lane->urgent_end = &lane->urgent_first;
	lane->posted_end = &lane->posted_first;
}

void lane_add(struct lane *lane, struct transfer *transfer)
{
	struct transfer **link = &lane->segmented_first;

	lane->added = true;
	transfer->request = NULL;
	transfer->next = NULL;
	if (transfer->class == TRANSFER_SMALL) {
		*lane->small_end = transfer;
		lane->small_end = &transfer->next;
		return;
	}
	if (transfer->class == TRANSFER_URGENT) {
		*lane->urgent_end = transfer;
		lane->urgent_end = &transfer->next;
		return;
	}
	while (*link && (*link)->number <= transfer->number)
		link = &(*link)->next;
	transfer->next = *link;
	*link = transfer;
}

static bool is_large(const struct group *group, const struct lane *lane)
{
	return (size_t)(lane - (lane->sends ? group->out : group->in)) >= group->count;
}

/* 1: posted; 0: the connection takes no more now. */
static int post(struct group *group, struct lane *lane, struct transfer *transfer)
{
	void *data = transfer->data, *registration = NULL;
	int r;

	if (lane->sends)
		r = lane->ops->send(lane->connection, data, transfer->bytes, transfer->tag, NULL, &transfer->request);
	else
		r = lane->ops->receive(lane->connection, 1, &data, &transfer->bytes, &transfer->tag, &registration,
				       &transfer->request);
	if (r < 0 || !transfer->request)
		return r;
	transfer->next = NULL;
	transfer->turn = lane->turn++;
	*lane->posted_end = transfer;
	lane->posted_end = &transfer->next;
	lane->asks |= !lane->sends && (is_large(group, lane) || !group->small_unasked);
	if (lane->sends) {
		group_add(&group->messages_sent, 1);
		group_add(&group->bytes_sent, transfer->bytes);
	}
	group->progressed = true;
	return 1;
}

static bool may_post_segmented(const struct group *group, const struct lane *lane)
{
	unsigned most = LANE_SEGMENTED_REQUESTS;

	if (!lane->segmented_first)
		return false;
	if (lane->segmented_first->number == group->segment_oldest)
		most += LANE_OLDEST_REQUESTS;
	return lane->segmented_count < most;
}

static int post_list(struct group *group, struct lane *lane, struct transfer **first, struct transfer ***end,
		     unsigned most)
{
	int r = 1;

	while (*first && lane->small_count < most) {
		struct transfer *next = (*first)->next;

		r = post(group, lane, *first);
		if (r != 1)
			break;
		*first = next;
		if (!next)
			*end = first;
		lane->small_count++;
	}
	return r;
}

/* A message that waits long must not fall too far behind those that overtake it. */
static bool may_overtake(const struct lane *lane)
{
	return !lane->posted_first || lane->turn - lane->posted_first->turn < LANE_AHEAD;
}

static int post_waiting(struct group *group, struct lane *lane)
{
	bool large = is_large(group, lane);
	int r = 1;

	if (!large || may_overtake(lane))
		r = post_list(group, lane, &lane->urgent_first, &lane->urgent_end,
			      large ? LANE_REPAIR_REQUESTS : LANE_SMALL_REQUESTS + LANE_URGENT_REQUESTS);
	if (r == 1)
		r = post_list(group, lane, &lane->small_first, &lane->small_end, LANE_SMALL_REQUESTS);
	while (r == 1 && may_post_segmented(group, lane)) {
		struct transfer *transfer = lane->segmented_first, *next = transfer->next;

		r = post(group, lane, transfer);
		if (r != 1)
			break;
		lane->segmented_first = next;
		lane->segmented_count++;
	}
	return r < 0 ? r : 0;
}

/* 1: it is done and out of the list. */
static int look(struct group *group, struct lane *lane, struct transfer **link)
{
	struct transfer *transfer = *link;
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	bool done = false;
	int r = lane->ops->test(transfer->request, &done, sizes);

	if (r < 0 || !done)
		return r;
	*link = transfer->next;
	if (lane->posted_end == &transfer->next)
		lane->posted_end = link;
	if (transfer->class == TRANSFER_SEGMENTED)
		lane->segmented_count--;
	else
		lane->small_count--;
	transfer->request = NULL;
	transfer->received = sizes[0];
	if (!lane->sends) {
		group_add(&group->bytes_received, sizes[0]);
		group->received = true;
	}
	group->progressed = true;
	transfer->done(group, transfer);
	return 1;
}

static int look_at_posted(struct group *group, struct lane *lane)
{
	struct transfer **link = &lane->posted_first;

	while (!group->error && *link) {
		int r = look(group, lane, link);

		if (r < 0)
			return r;
		if (r == 0)
			link = &(*link)->next;
	}
	return 0;
}

/* The node at its other end. */
static size_t node_of(const struct group *group, const struct lane *lane)
{
	size_t index = (size_t)(lane - (lane->sends ? group->out : group->in));

	return index < group->count ? index : index - group->count;
}

static void lane_failed(struct group *group, const struct lane *lane, int error)
{
	size_t node = node_of(group, lane);

	if (node_is_server(group, node))
		servers_suspect(group, node - group->count, "its connection is closed, or was silent for too long");
	else if (error == -EMSGSIZE)
		group_break(group, -EREMOTEIO, "host %s posted an operation of another size", group_host(group, node));
	else
		group_break(group, error, "host %s is gone", group_host(group, node));
}

static struct transfer *take_first(struct transfer **first, struct transfer ***end)
{
	struct transfer *transfer = *first;

	if (transfer)
		*first = transfer->next;
	if (end && !*first)
		*end = first;
	return transfer;
}

static struct transfer *take_any(struct lane *lane)
{
	struct transfer *transfer = take_first(&lane->posted_first, &lane->posted_end);

	if (!transfer)
		transfer = take_first(&lane->small_first, &lane->small_end);
	if (!transfer)
		transfer = take_first(&lane->urgent_first, &lane->urgent_end);
	return transfer ? transfer : take_first(&lane->segmented_first, NULL);
}

/* Nobody is at the other end: all is through, and nothing came. */
static void lane_pass_over(struct group *group, struct lane *lane)
{
	struct transfer *transfer;

	while (!group->error && (transfer = take_any(lane)) != NULL) {
		transfer->request = NULL;
		transfer->received = 0;
		group->progressed = true;
		transfer->done(group, transfer);
	}
	lane->small_count = lane->segmented_count = 0;
	lane->stirred = lane->soon = lane->added = false;
}

/*
 * That a member's connection has ended when nothing was due on it is no reason: it may be through with everything, and have
 * left (members.c). One that has found a message of ours too long has not.
 */
static bool ends_group(const struct group *group, const struct lane *lane, int error)
{
	return lane->posted_first || error == -EMSGSIZE || node_is_server(group, node_of(group, lane));
}

void lane_progress(struct group *group, struct lane *lane)
{
	enum transport_next next = lane->soon ? TRANSPORT_NEXT_SOON : TRANSPORT_NEXT_EVENT;
	bool moves = lane->stirred || lane->lost || lane->asks; /* asks: posted at the end of the last turn */
	int r, error = 0;

	if (lane->over) {
		lane_pass_over(group, lane);
		return;
	}
	lane->stirred = lane->soon = lane->added = lane->asks = false;
	r = post_waiting(group, lane);
	if (r == 0) {
		/* A send is under way when it is posted, and what comes is told by an event; a grant may have to wait. */
		if (moves || lane->asks)
			error = lane->ops->progress(lane->connection, &next);
		lane->lost |= error < 0;
		r = look_at_posted(group, lane); /* what was complete before an error still says so */
		if (r == 0 && error < 0 && ends_group(group, lane, error))
			r = error;
	}
	if (group->error)
		return;
	if (r == 0 && (lane->small_first || lane->urgent_first || lane->segmented_first)) {
		r = post_waiting(group, lane); /* there may be room for more */
		lane->added |= group->progressed;
	}
	if (r < 0)
		lane_failed(group, lane, r);
	lane->soon = next == TRANSPORT_NEXT_SOON && !lane_is_empty(lane);
	/* Also of an empty one: no event comes for what is there already. */
	lane->stirred |= next == TRANSPORT_NEXT_NOW;
	group->soon |= lane->soon;
	group->now |= lane->stirred || lane->added;
}

bool lane_is_empty(const struct lane *lane)
{
	return !lane->posted_first && !lane->small_first && !lane->urgent_first && !lane->segmented_first;
}

void lanes_stir(struct group *group)
{
	for (size_t i = 0; i < group_lanes(group); i++) {
		group->in[i].stirred |= group->in[i].connection != NULL;
		group->out[i].stirred |= group->out[i].connection != NULL;
	}
}

void lane_lose(struct lane *lane)
{
	lane->ops->close_connection(lane->connection);
	lane->connection = NULL;
	lane->over = lane->stirred = true;
}

void lane_close(struct lane *lane)
{
	if (lane->connection) /* else there may be no group yet whose transport it would be */
		lane->ops->close_connection(lane->connection);
	lane->connection = NULL;
	lane->posted_first = lane->small_first = lane->urgent_first = lane->segmented_first = NULL;
	lane->small_end = &lane->small_first;
	lane->urgent_end = &lane->urgent_first;
	lane->posted_end = &lane->posted_first;
	lane->small_count = lane->segmented_count = 0;
}
