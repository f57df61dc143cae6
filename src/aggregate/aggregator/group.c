/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of an aggregator do with a group: it fails, and a transfer waits to be posted. */
#include "aggregate/aggregator/internal.h"
#include "base/log.h"

#include <stdarg.h>

void aggregator_fail(struct aggregator_group *group, const char *fmt, ...)
{
	va_list args;

	pthread_mutex_lock(&group->lock);
	if (!group->sentence[0]) {
		va_start(args, fmt);
		log_sentence_v(group->sentence, sizeof(group->sentence), fmt, args);
		va_end(args);
	}
	pthread_mutex_unlock(&group->lock);
	atomic_store(&group->state, AGGREGATOR_FAILED);
}

void aggregator_peer_add(struct aggregator_peer *peer, struct aggregator_transfer *transfer, bool sends)
{
	struct aggregator_transfer **link = sends ? &peer->sends : &peer->receives;

	transfer->next = NULL;
	transfer->request = NULL;
	transfer->segment->open++;
	peer->ready = true;
	/* The oldest segment first, whenever it comes. */
	while (*link && (*link)->segment->head.number <= transfer->segment->head.number)
		link = &(*link)->next;
	transfer->next = *link;
	*link = transfer;
}
