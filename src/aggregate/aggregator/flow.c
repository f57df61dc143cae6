/* SPDX-License-Identifier: Apache-2.0 */
/* What moves on a group's connections: HEADs in, inputs in, sums and results out. */
#include "aggregate/aggregator/internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

void aggregator_flow_begin(struct aggregator_group *group)
{
	const struct transport_ops *ops = group->aggregator->setup.ops;

	for (size_t i = 0; i < group->node_count; i++) {
		struct aggregator_peer *peer = &group->peers[i];
		int r;

		peer->last_head = AGGREGATOR_WIRE_NONE;
		if (i == group->self || peer->lost)
			continue;
		peer->ready = true;
		r = ops->watch(peer->in, group->thread->epoll_fd, (uint64_t)(uintptr_t)peer);
		if (r == 0)
			r = ops->watch(peer->out, group->thread->epoll_fd, (uint64_t)(uintptr_t)peer);
		if (r < 0) {
			aggregator_fail(group, "its connections cannot be watched: %s", strerror(-r));
			return;
		}
	}
}

void aggregator_flow_end(struct aggregator_group *group)
{
	const struct transport_ops *ops = group->aggregator->setup.ops;

	for (size_t i = 0; group->peers && i < group->node_count; i++) {
		ops->close_connection(group->peers[i].in);
		ops->close_connection(group->peers[i].out);
	}
	/* Only now: until its connection is closed a receive may write into a slot. */
	aggregator_segments_free(group);
	sys_free(group->peers);
	group->peers = NULL;
}

/* ------------------------------------------------------------------------------------------------------------- heads */

static int head_post(struct aggregator_group *group, struct aggregator_peer *peer, unsigned index)
{
	const struct transport_ops *ops = group->aggregator->setup.ops;
	void *data = peer->heads[index], *registration = NULL;
	size_t bytes = AGGREGATOR_WIRE_HEAD_BYTES;
	int tag = aggregate_tag(AGGREGATE_TAG_HEAD, 0);

	return ops->receive(peer->in, 1, &data, &bytes, &tag, &registration, &peer->head_requests[index]);
}

static int head_came(struct aggregator_group *group, uint16_t node, struct codec *codec)
{
	struct aggregator_peer *peer = &group->peers[node];
	struct aggregator_wire_head head;
	int r = aggregator_wire_head(codec, &head);

	/* Members go by the numbers; an aggregator says when it has a sum. */
	if (r == 0 && node < group->member_count && peer->last_head != AGGREGATOR_WIRE_NONE &&
	    head.number <= peer->last_head)
		r = -EBADMSG;
	if (r == 0 && head.root >= group->node_count)
		r = -EBADMSG;
	if (r == 0) {
		peer->last_head = head.number;
		r = aggregator_segment_head(group, node, &head);
	}
	if (r < 0)
		aggregator_fail(group, "node %u breaks the protocol or disagrees with others: %s", node, strerror(-r));
	return r;
}

static void peer_lose(struct aggregator_group *group, uint16_t node)
{
	const struct transport_ops *ops = group->aggregator->setup.ops;
	struct aggregator_peer *peer = &group->peers[node];

	log_info(LOG_NET, "a group of %zu members goes on without its aggregator %zu", group->member_count,
		 node - group->member_count);
	ops->close_connection(peer->in);
	ops->close_connection(peer->out);
	peer->in = peer->out = NULL;
	memset(peer->head_requests, 0, sizeof(peer->head_requests));
	peer->lost = peer->ready = true;
	group->now = true;
	aggregator_segments_miss(group);
}

/* A member says which other aggregators are lost to it: they are lost to the group, and nobody waits for them any more. */
static int losses_came(struct aggregator_group *group, uint16_t node, struct codec *codec)
{
	uint32_t aggregators = 0;
	int r = node < group->member_count ? aggregator_wire_lost(codec, &aggregators) : -EBADMSG;

	if (r == 0 && (aggregators >> (group->self - group->member_count) & 1 ||
		       (uint64_t)aggregators >> (group->node_count - group->member_count)))
		r = -EBADMSG;
	if (r < 0) {
		aggregator_fail(group, "node %u breaks the protocol: %s", node, strerror(-r));
		return r;
	}
	for (size_t i = group->member_count; i < group->node_count; i++)
		if (aggregators >> (i - group->member_count) & 1 && !group->peers[i].lost)
			peer_lose(group, (uint16_t)i);
	return 0;
}

static int heads_progress(struct aggregator_group *group, uint16_t node)
{
	const struct transport_ops *ops = group->aggregator->setup.ops;
	struct aggregator_peer *peer = &group->peers[node];

	for (;;) {
		unsigned index = peer->head_next;
		size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
		uint8_t bytes[AGGREGATOR_WIRE_HEAD_BYTES];
		bool done = false;
		int r = 0;

		for (unsigned i = 0; r == 0 && i < AGGREGATOR_HEADS; i++)
			if (!peer->head_requests[(index + i) % AGGREGATOR_HEADS])
				r = head_post(group, peer, (index + i) % AGGREGATOR_HEADS);
		if (r == 0 && peer->head_requests[index])
			r = ops->test(peer->head_requests[index], &done, sizes);
		if (r < 0 || !done)
			return r;
		peer->head_requests[index] = NULL;
		peer->head_next = (index + 1) % AGGREGATOR_HEADS;
		memcpy(bytes, peer->heads[index], sizeof(bytes));
		group->progressed = true;
		if (sizes[0] != AGGREGATOR_WIRE_HEAD_BYTES && sizes[0] != AGGREGATOR_WIRE_LOST_BYTES)
			return -EPROTO;
		r = (sizes[0] == AGGREGATOR_WIRE_HEAD_BYTES ? head_came : losses_came)(group, node,
										       CODEC_FROM(bytes, sizes[0]));
		if (r < 0)
			return 0; /* the group has failed */
	}
}

/* -------------------------------------------------------------------------------------------------------------- data */

static int transfer_post(struct aggregator_group *group, struct aggregator_peer *peer,
			 struct aggregator_transfer *transfer, bool sends)
{
	const struct transport_ops *ops = group->aggregator->setup.ops;
	void *data = transfer->data, *registration = NULL;

	if (sends)
		return ops->send(peer->out, data, transfer->bytes, transfer->tag, NULL, &transfer->request);
	return ops->receive(peer->in, 1, &data, &transfer->bytes, &transfer->tag, &registration, &transfer->request);
}

/* The oldest segment has requests that no other may use: whatever waits here, waits for it. */
static bool may_post(const struct aggregator_group *group, const struct aggregator_transfer *transfer, unsigned count)
{
	return count < AGGREGATOR_REQUESTS ||
	       (transfer->segment == group->segments_first && count < AGGREGATOR_REQUESTS + AGGREGATOR_OLDEST_REQUESTS);
}

/* Posts what the connection takes and takes out what is through. */
static int list_progress(struct aggregator_group *group, struct aggregator_peer *peer, bool sends)
{
	struct aggregator_transfer **link = sends ? &peer->sends : &peer->receives;
	unsigned *count = sends ? &peer->send_count : &peer->receive_count;
	int r = 0;

	while (*link && r == 0) {
		struct aggregator_transfer *transfer = *link;
		size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
		bool done = false;

		if (!transfer->request) {
			if (may_post(group, transfer, *count))
				r = transfer_post(group, peer, transfer, sends);
			peer->asks |= !sends && transfer->request;
			if (r < 0 || !transfer->request) {
				link = &transfer->next;
				continue;
			}
			++*count;
		}
		r = group->aggregator->setup.ops->test(transfer->request, &done, sizes);
		if (r < 0 || !done) {
			link = &transfer->next;
			continue;
		}
		*link = transfer->next;
		--*count;
		transfer->request = NULL;
		transfer->segment->open--;
		group->progressed = true;
		atomic_fetch_add(sends ? &group->bytes_out : &group->bytes_in, sizes[0]);
		r = aggregator_segment_done(group, transfer, sizes[0]);
		if (r < 0) {
			aggregator_fail(group, "a node of the group breaks the protocol: %s", strerror(-r));
			return 0;
		}
		/* What that led to may have been added to this list: from the front again. */
		link = sends ? &peer->sends : &peer->receives;
	}
	return r;
}

static int connection_progress(struct aggregator_group *group, struct aggregator_peer *peer, bool sends)
{
	enum transport_next next = TRANSPORT_NEXT_EVENT;
	bool busy = sends ? peer->sends != NULL : peer->receives != NULL;
	int r = group->aggregator->setup.ops->progress(sends ? peer->out : peer->in, &next);

	group->soon |= busy && next == TRANSPORT_NEXT_SOON;
	group->now |= next == TRANSPORT_NEXT_NOW;
	peer->ready |= next == TRANSPORT_NEXT_NOW || (busy && next == TRANSPORT_NEXT_SOON);
	return r;
}

static int list_pass_over(struct aggregator_group *group, struct aggregator_transfer **list, bool sends)
{
	int r = 0;

	while (*list && r == 0) {
		struct aggregator_transfer *transfer = *list;

		*list = transfer->next;
		transfer->request = NULL;
		transfer->segment->open--;
		group->progressed = true;
		r = aggregator_segment_done(group, transfer, sends ? transfer->bytes : 0);
	}
	return r;
}

/*
 * Nobody is at the other end: all is through, and nothing came. What is summed without it would be wrong, so every segment
 * in which it has a part ends without a result; the members make that (docs/design/aggregation.md, Losing an aggregator).
 */
static void peer_pass_over(struct aggregator_group *group, struct aggregator_peer *peer)
{
	peer->ready = false;
	peer->send_count = peer->receive_count = 0;
	if (list_pass_over(group, &peer->receives, false) < 0 || list_pass_over(group, &peer->sends, true) < 0)
		aggregator_fail(group, "a segment without a lost aggregator's part makes no sense");
}

static void peer_progress(struct aggregator_group *group, uint16_t node)
{
	struct aggregator_peer *peer = &group->peers[node];
	int error, r;

	if (peer->lost) {
		peer_pass_over(group, peer);
		return;
	}
	peer->ready = false;
	error = connection_progress(group, peer, false);

	/* What was complete before an error still counts: its results may be wanted by others. */
	r = heads_progress(group, node);
	if (r == 0)
		r = list_progress(group, peer, false);
	/*
	 * Its message may be announced already, and wait for a grant that no event brings. An error shows in the next
	 * poll.
	 */
	if (r == 0 && peer->asks && error == 0 && connection_progress(group, peer, false) < 0)
		group->now = peer->ready = true;
	peer->asks = false;
	if (r == 0)
		r = list_progress(group, peer, true);
	if (r == 0)
		r = error;
	if (r == 0)
		r = connection_progress(group, peer, true);
	/* What has gone out makes space for more. */
	if (r == 0)
		r = list_progress(group, peer, true);
	if (r < 0 && node >= group->member_count)
		peer_lose(group, node);
	else if (r < 0)
		aggregator_fail(group, "node %u of the group is gone: %s", node, strerror(-r));
}

void aggregator_flow(struct aggregator_group *group, uint64_t now_ns)
{
	for (size_t i = 0; i < group->node_count; i++) {
		if (i != group->self && group->peers[i].ready)
			peer_progress(group, (uint16_t)i);
		if (atomic_load(&group->state) == AGGREGATOR_FAILED)
			return;
	}
	if (aggregator_segments_begin(group, now_ns) < 0)
		aggregator_fail(group, "it is out of memory");
}
