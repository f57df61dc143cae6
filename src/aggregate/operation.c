/* What the schemes do with an operation while its messages are on their way. */
#include "aggregate/group.h"

void operation_ready(struct operation *operation)
{
	struct group *group = operation->group;

	if (operation->ready)
		return;
	operation->ready = true;
	operation->next_ready = NULL;
	*group->ready_end = operation;
	group->ready_end = &operation->next_ready;
}

void operation_transferred(struct operation *operation)
{
	if (--operation->waits == 0)
		operation_ready(operation);
}

void operation_sent(struct group *group, struct transfer *transfer)
{
	(void)group;
	operation_transferred(transfer->owner);
}

void operation_add(struct queue *queue, struct transfer *transfer, struct operation *operation, const void *data,
		   size_t bytes, enum aggregate_tag kind, void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){
		.data = (uint8_t *)(uintptr_t)data,
		.bytes = bytes,
		.tag = aggregate_tag(kind, operation->number),
		.class = kind == AGGREGATE_TAG_VERIFY || (kind == AGGREGATE_TAG_DOWN && queue->sends) ? TRANSFER_URGENT
												      : TRANSFER_SMALL,
		.done = done,
		.owner = operation,
	};
	queue_add(queue, transfer);
}
