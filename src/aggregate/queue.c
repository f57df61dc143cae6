/*
 * One connection: transfers wait here until it takes them. Those of small operations have a connection of their own, so
 * that they never wait behind large ones; segments go in the order of their numbers, and the oldest unfinished one has
 * requests that no other may use.
 */
#include "aggregate/group.h"
#include "aggregate/aggregators.h"

#include <errno.h>

void queue_init(struct queue *queue, const struct transport_ops *ops, bool sends)
{
	queue->ops = ops;
	queue->sends = sends;
	queue->small_end = &queue->small_first;
	queue->urgent_end = &queue->urgent_first;
	queue->posted_end = &queue->posted_first;
}

void queue_add(struct queue *queue, struct transfer *transfer)
{
	struct transfer **link = &queue->segmented_first;

	queue->added = true;
	transfer->request = NULL;
	transfer->next = NULL;
	if (transfer->class == TRANSFER_SMALL) {
		*queue->small_end = transfer;
		queue->small_end = &transfer->next;
		return;
	}
	if (transfer->class == TRANSFER_URGENT) {
		*queue->urgent_end = transfer;
		queue->urgent_end = &transfer->next;
		return;
	}
	while (*link && (*link)->number <= transfer->number)
		link = &(*link)->next;
	transfer->next = *link;
	*link = transfer;
}

static bool is_large(const struct group *group, const struct queue *queue)
{
	return (size_t)(queue - (queue->sends ? group->out : group->in)) >= group->count;
}

/* 1: posted; 0: the connection takes no more now. */
static int post(struct group *group, struct queue *queue, struct transfer *transfer)
{
	void *data = transfer->data, *registration = NULL;
	int r;

	if (queue->sends)
		r = queue->ops->send(queue->connection, data, transfer->bytes, transfer->tag, NULL, &transfer->request);
	else
		r = queue->ops->receive(queue->connection, 1, &data, &transfer->bytes, &transfer->tag, &registration,
					&transfer->request);
	if (r < 0 || !transfer->request)
		return r;
	transfer->next = NULL;
	transfer->turn = queue->turn++;
	*queue->posted_end = transfer;
	queue->posted_end = &transfer->next;
	queue->asks |= !queue->sends && (is_large(group, queue) || !group->small_unasked);
	if (queue->sends) {
		group_add(&group->messages_sent, 1);
		group_add(&group->bytes_sent, transfer->bytes);
	}
	group->progressed = true;
	return 1;
}

static bool may_post_segmented(const struct group *group, const struct queue *queue)
{
	unsigned most = QUEUE_SEGMENTED_REQUESTS;

	if (!queue->segmented_first)
		return false;
	if (queue->segmented_first->number == group->segment_oldest)
		most += QUEUE_OLDEST_REQUESTS;
	return queue->segmented_count < most;
}

static int post_list(struct group *group, struct queue *queue, struct transfer **first, struct transfer ***end,
		     unsigned most)
{
	int r = 1;

	while (*first && queue->small_count < most) {
		struct transfer *next = (*first)->next;

		r = post(group, queue, *first);
		if (r != 1)
			break;
		*first = next;
		if (!next)
			*end = first;
		queue->small_count++;
	}
	return r;
}

/* A message that waits long must not fall too far behind those that overtake it. */
static bool may_overtake(const struct queue *queue)
{
	return !queue->posted_first || queue->turn - queue->posted_first->turn < QUEUE_AHEAD;
}

static int post_waiting(struct group *group, struct queue *queue)
{
	bool large = is_large(group, queue);
	int r = 1;

	if (!large || may_overtake(queue))
		r = post_list(group, queue, &queue->urgent_first, &queue->urgent_end,
			      large ? QUEUE_RECOMPUTE_REQUESTS : QUEUE_SMALL_REQUESTS + QUEUE_URGENT_REQUESTS);
	if (r == 1)
		r = post_list(group, queue, &queue->small_first, &queue->small_end, QUEUE_SMALL_REQUESTS);
	while (r == 1 && may_post_segmented(group, queue)) {
		struct transfer *transfer = queue->segmented_first, *next = transfer->next;

		r = post(group, queue, transfer);
		if (r != 1)
			break;
		queue->segmented_first = next;
		queue->segmented_count++;
	}
	return r < 0 ? r : 0;
}

/* 1: it is done and out of the list. */
static int look(struct group *group, struct queue *queue, struct transfer **link)
{
	struct transfer *transfer = *link;
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	bool done = false;
	int r = queue->ops->test(transfer->request, &done, sizes);

	if (r < 0 || !done)
		return r;
	*link = transfer->next;
	if (queue->posted_end == &transfer->next)
		queue->posted_end = link;
	if (transfer->class == TRANSFER_SEGMENTED)
		queue->segmented_count--;
	else
		queue->small_count--;
	transfer->request = NULL;
	transfer->received = sizes[0];
	if (!queue->sends) {
		group_add(&group->bytes_received, sizes[0]);
		group->received = true;
	}
	group->progressed = true;
	transfer->done(group, transfer);
	return 1;
}

static int look_at_posted(struct group *group, struct queue *queue)
{
	struct transfer **link = &queue->posted_first;

	while (!group->broken && *link) {
		int r = look(group, queue, link);

		if (r < 0)
			return r;
		if (r == 0)
			link = &(*link)->next;
	}
	return 0;
}

/* The node at its other end. */
static size_t node_of(const struct group *group, const struct queue *queue)
{
	size_t index = (size_t)(queue - (queue->sends ? group->out : group->in));

	return index < group->count ? index : index - group->count;
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

static struct transfer *take_any(struct queue *queue)
{
	struct transfer *transfer = take_first(&queue->posted_first, &queue->posted_end);

	if (!transfer)
		transfer = take_first(&queue->small_first, &queue->small_end);
	if (!transfer)
		transfer = take_first(&queue->urgent_first, &queue->urgent_end);
	return transfer ? transfer : take_first(&queue->segmented_first, NULL);
}

/* Nobody is at the other end: all is through, and nothing came. */
static void queue_pass_over(struct group *group, struct queue *queue)
{
	struct transfer *transfer;

	while (!group->broken && (transfer = take_any(queue)) != NULL) {
		transfer->request = NULL;
		transfer->received = 0;
		group->progressed = true;
		transfer->done(group, transfer);
	}
	queue->small_count = queue->segmented_count = 0;
	queue->ready = queue->soon = queue->added = false;
}

/*
 * That a member's connection has ended when nothing was due on it is no reason: it may be through with everything, and have
 * left (members.c). One that has found a message of ours too long has not.
 */
static bool ends_group(const struct group *group, const struct queue *queue, int error)
{
	return queue->posted_first || error == -EMSGSIZE || node_is_aggregator(group, node_of(group, queue));
}

int queue_progress(struct group *group, struct queue *queue)
{
	enum transport_next next = queue->soon ? TRANSPORT_NEXT_SOON : TRANSPORT_NEXT_EVENT;
	bool moves = queue->ready || queue->lost || queue->asks; /* asks: posted at the end of the last turn */
	int r, error = 0;

	if (queue->over) {
		queue_pass_over(group, queue);
		return 0;
	}
	queue->ready = queue->soon = queue->added = queue->asks = false;
	r = post_waiting(group, queue);
	if (r == 0) {
		/* A send is under way when it is posted, and what comes is told by an event; a grant may have to wait. */
		if (moves || queue->asks)
			error = queue->ops->progress(queue->connection, &next);
		queue->lost |= error < 0;
		r = look_at_posted(group, queue); /* what was complete before an error still says so */
		if (r == 0 && error < 0 && ends_group(group, queue, error))
			r = error;
	}
	if (group->broken)
		return 0;
	if (r == 0 && (queue->small_first || queue->urgent_first || queue->segmented_first)) {
		r = post_waiting(group, queue); /* there may be room for more */
		queue->added |= group->progressed;
	}
	queue->soon = next == TRANSPORT_NEXT_SOON && !queue_is_empty(queue);
	/* Also of an empty one: no event comes for what is there already. */
	queue->ready |= next == TRANSPORT_NEXT_NOW;
	group->soon |= queue->soon;
	group->now |= queue->ready || queue->added;
	return r;
}

bool queue_is_empty(const struct queue *queue)
{
	return !queue->posted_first && !queue->small_first && !queue->urgent_first && !queue->segmented_first;
}

void queue_stir_all(struct group *group)
{
	for (size_t i = 0; i < group_queues(group); i++) {
		group->in[i].ready |= group->in[i].connection != NULL;
		group->out[i].ready |= group->out[i].connection != NULL;
	}
}

void queue_lose(struct queue *queue)
{
	queue->ops->close_connection(queue->connection);
	queue->connection = NULL;
	queue->over = queue->ready = true;
}

void queue_close(struct queue *queue)
{
	if (queue->connection) /* else there may be no group yet whose transport it would be */
		queue->ops->close_connection(queue->connection);
	queue->connection = NULL;
	queue->posted_first = queue->small_first = queue->urgent_first = queue->segmented_first = NULL;
	queue->small_end = &queue->small_first;
	queue->urgent_end = &queue->urgent_first;
	queue->posted_end = &queue->posted_first;
	queue->small_count = queue->segmented_count = 0;
}

void queue_close_all(struct group *group)
{
	for (size_t i = 0; group->out && group->in && i < group_queues(group); i++) {
		queue_close(&group->out[i]);
		queue_close(&group->in[i]);
	}
}
