/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: transfers wait here until it takes them. Those of small operations have a connection of their own, so
 * that they never wait behind large ones; segments go in the order of their numbers, and the oldest unfinished one has
 * requests that no other may use.
 */
#include "aggregate/group.h"
#include "aggregate/aggregators.h"

#include <errno.h>

static void lists_init(struct queue *queue)
{
	TAILQ_INIT(&queue->small);
	TAILQ_INIT(&queue->urgent);
	TAILQ_INIT(&queue->segmented);
	TAILQ_INIT(&queue->posted);
}

void queue_init(struct queue *queue, const struct transport_ops *ops, bool sends)
{
	queue->ops = ops;
	queue->sends = sends;
	lists_init(queue);
}

void queue_add(struct queue *queue, struct transfer *transfer)
{
	struct transfer *before = TAILQ_LAST(&queue->segmented, transfer_list);

	queue->added = true;
	transfer->request = NULL;
	if (transfer->class != TRANSFER_SEGMENTED) {
		TAILQ_INSERT_TAIL(transfer->class == TRANSFER_SMALL ? &queue->small : &queue->urgent, transfer, link);
		return;
	}
	while (before && before->number > transfer->number)
		before = TAILQ_PREV(before, transfer_list, link);
	if (before)
		TAILQ_INSERT_AFTER(&queue->segmented, before, transfer, link);
	else
		TAILQ_INSERT_HEAD(&queue->segmented, transfer, link);
}

static bool is_large(const struct group *group, const struct queue *queue)
{
	return (size_t)(queue - (queue->sends ? group->out : group->in)) >= group->count;
}

/* The first of a list. 1: posted; 0: the connection takes no more now. */
static int post(struct group *group, struct queue *queue, struct transfer_list *list)
{
	struct transfer *transfer = TAILQ_FIRST(list);
	void *data = transfer->data, *registration = NULL;
	int r;

	if (queue->sends)
		r = queue->ops->send(queue->connection, data, transfer->bytes, transfer->tag, NULL, &transfer->request);
	else
		r = queue->ops->receive(queue->connection, 1, &data, &transfer->bytes, &transfer->tag, &registration,
					&transfer->request);
	if (r < 0 || !transfer->request)
		return r;
	TAILQ_REMOVE(list, transfer, link);
	TAILQ_INSERT_TAIL(&queue->posted, transfer, link);
	transfer->posted = queue->next_posted++;
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
	const struct transfer *first = TAILQ_FIRST(&queue->segmented);
	unsigned most = QUEUE_SEGMENTED_REQUESTS;

	if (first && first->number == group->segment_oldest)
		most += QUEUE_OLDEST_REQUESTS;
	return first && queue->segmented_count < most;
}

static int post_list(struct group *group, struct queue *queue, struct transfer_list *list, unsigned most)
{
	int r = 1;

	while (!TAILQ_EMPTY(list) && queue->small_count < most) {
		r = post(group, queue, list);
		if (r != 1)
			break;
		queue->small_count++;
	}
	return r;
}

/* A message that waits long must not fall too far behind those that overtake it. */
static bool may_overtake(const struct queue *queue)
{
	return TAILQ_EMPTY(&queue->posted) || queue->next_posted - TAILQ_FIRST(&queue->posted)->posted < QUEUE_AHEAD;
}

static int post_waiting(struct group *group, struct queue *queue)
{
	bool large = is_large(group, queue);
	int r = 1;

	if (!large || may_overtake(queue))
		r = post_list(group, queue, &queue->urgent,
			      large ? QUEUE_RECOMPUTE_REQUESTS : QUEUE_SMALL_REQUESTS + QUEUE_URGENT_REQUESTS);
	if (r == 1)
		r = post_list(group, queue, &queue->small, QUEUE_SMALL_REQUESTS);
	while (r == 1 && may_post_segmented(group, queue)) {
		r = post(group, queue, &queue->segmented);
		if (r != 1)
			break;
		queue->segmented_count++;
	}
	return r < 0 ? r : 0;
}

/* 1: it is done and out of the list. */
static int test(struct group *group, struct queue *queue, struct transfer *transfer)
{
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	bool done = false;
	int r = queue->ops->test(transfer->request, &done, sizes);

	if (r < 0 || !done)
		return r;
	TAILQ_REMOVE(&queue->posted, transfer, link);
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

static int test_posted(struct group *group, struct queue *queue)
{
	struct transfer *transfer = TAILQ_FIRST(&queue->posted), *next;
	int r = 0;

	for (; r >= 0 && !group->broken && transfer; transfer = next) {
		next = TAILQ_NEXT(transfer, link); /* done() neither posts nor takes out another */
		r = test(group, queue, transfer);
	}
	return r < 0 ? r : 0;
}

/* The node at its other end. */
static size_t node_of(const struct group *group, const struct queue *queue)
{
	size_t index = (size_t)(queue - (queue->sends ? group->out : group->in));

	return index < group->count ? index : index - group->count;
}

/* Takes out one that is in any of the lists. */
static struct transfer *take_any(struct queue *queue)
{
	struct transfer_list *lists[] = { &queue->posted, &queue->small, &queue->urgent, &queue->segmented };

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct transfer *transfer = TAILQ_FIRST(lists[i]);

		if (!transfer)
			continue;
		TAILQ_REMOVE(lists[i], transfer, link);
		return transfer;
	}
	return NULL;
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
	return !TAILQ_EMPTY(&queue->posted) || error == -EMSGSIZE || node_is_aggregator(group, node_of(group, queue));
}

int queue_progress(struct group *group, struct queue *queue)
{
	enum transport_next next = queue->soon ? TRANSPORT_NEXT_SOON : TRANSPORT_NEXT_EVENT;
	bool moves = queue->ready || queue->lost || queue->asks; /* asks: posted at the end of the last poll */
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
		r = test_posted(group, queue); /* what was complete before an error still says so */
		if (r == 0 && error < 0 && ends_group(group, queue, error))
			r = error;
	}
	if (group->broken)
		return 0;
	if (r == 0 && !(TAILQ_EMPTY(&queue->small) && TAILQ_EMPTY(&queue->urgent) && TAILQ_EMPTY(&queue->segmented))) {
		r = post_waiting(group, queue); /* it may take more */
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
	return TAILQ_EMPTY(&queue->posted) && TAILQ_EMPTY(&queue->small) && TAILQ_EMPTY(&queue->urgent) &&
	       TAILQ_EMPTY(&queue->segmented);
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
	lists_init(queue);
	queue->small_count = queue->segmented_count = 0;
}

void queue_close_all(struct group *group)
{
	for (size_t i = 0; group->out && group->in && i < group_queues(group); i++) {
		queue_close(&group->out[i]);
		queue_close(&group->in[i]);
	}
}
