/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between an aggregator and all other nodes of a group, both ways; without blocking, in the group's thread. */
#include "aggregate/aggregator/internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum {
	SPREAD_MOST = 8, /* members that count of all that send here */
	REACH_PARTS = 5  /* another aggregator is waited for so long a part of what it may be replaced after; members wait 3 / 10 */
};

static int send_hello(struct aggregator_group *group, struct aggregator_peer *peer)
{
	const struct transport_ops *ops = group->aggregator->setup.ops;
	struct aggregator_wire_hello hello = { .from = (uint16_t)group->self };
	bool done = false;
	int r;

	if (!peer->hello) {
		memcpy(hello.id, group->id, sizeof(hello.id));
		aggregator_wire_hello(CODEC_TO(peer->hello_bytes), &hello);
		r = ops->send(peer->out, peer->hello_bytes, sizeof(peer->hello_bytes),
			      aggregate_tag(AGGREGATE_TAG_AGREE, 0), NULL, &peer->hello);
		if (r < 0 || !peer->hello)
			return r;
	}
	r = ops->test(peer->hello, &done, NULL);
	if (done)
		peer->hello = NULL;
	peer->said_hello = done;
	return r;
}

/* 1: our way to it stands; 0: not yet. */
static int reach(struct aggregator_group *group, size_t node)
{
	const struct aggregator_setup *setup = &group->aggregator->setup;
	struct aggregator_peer *peer = &group->peers[node];
	int r = 0;

	if (node == group->self || peer->lost)
		return 1;
	if (!peer->out) {
		r = setup->ops->connect(setup->transport, group->device, -1, peer->handle, &peer->out);
		if (r == 0 && peer->out)
			setup->ops->set(peer->out, TRANSPORT_SET_EAGER_LIMIT, AGGREGATOR_WIRE_UNASKED_BYTES);
	}
	if (r == 0 && peer->out && !peer->said_hello)
		r = send_hello(group, peer);
	if (r < 0 && node < group->member_count)
		aggregator_fail(group, "it cannot reach node %zu of the group: %s", node, strerror(-r));
	return r < 0 ? r : peer->said_hello;
}

/*
 * Another aggregator that does not come does not take this one with it. It does not become ready, and the members go on without
 * it; where only these two do not reach each other the first segment with both shows it.
 */
static void go_without(struct aggregator_group *group, size_t node)
{
	struct aggregator_peer *peer = &group->peers[node];

	log_info(LOG_NET, "a group of %zu members begins without its aggregator %zu, which is not reached from here",
		 group->member_count, node - group->member_count);
	group->aggregator->setup.ops->close_connection(peer->in);
	group->aggregator->setup.ops->close_connection(peer->out);
	peer->in = peer->out = NULL;
	peer->lost = true;
}

/*
 * Shares make this port as busy as the members' own: what each sends here is a part of this port's rate and of its own, so
 * all have as much in flight as one that could fill it alone; and twice, as the results keep the other direction as busy,
 * and acknowledgements wait among them. But not so with several aggregators, to which a member may send at a time. Another
 * aggregator sends to all members, and what comes from it waits among that at its port.
 */
static void tell_spread(const struct aggregator_group *group, struct transport_connection *connection)
{
	unsigned hosts = group->member_count < SPREAD_MOST ? (unsigned)group->member_count : SPREAD_MOST;
	bool alone = group->node_count - group->member_count == 1;

	group->aggregator->setup.ops->set(connection, TRANSPORT_SET_SPREAD, alone ? 2 * hosts : hosts);
}

/* Who says something else than the group's hello, or says it twice, is a stranger: turned away, and no reason to fail. */
static void incoming_known(struct aggregator_group *group, struct aggregator_incoming *incoming, size_t bytes)
{
	struct aggregator_wire_hello hello;

	if (!aggregator_wire_hello(CODEC_FROM(incoming->bytes, bytes), &hello) &&
	    !memcmp(hello.id, group->id, sizeof(hello.id)) && hello.from < group->node_count &&
	    hello.from != group->self && !group->peers[hello.from].in && !group->peers[hello.from].lost) {
		group->peers[hello.from].in = incoming->connection;
		group->peers[hello.from].rate_Bps = UINT64_C(1000) * hello.rate_kBps;
		tell_spread(group, incoming->connection);
		incoming->connection = NULL;
	}
	group->aggregator->setup.ops->close_connection(incoming->connection);
	*incoming = (struct aggregator_incoming){ .connection = NULL };
}

static void incoming_step(struct aggregator_group *group, struct aggregator_incoming *incoming)
{
	const struct transport_ops *ops = group->aggregator->setup.ops;
	void *data = incoming->bytes, *registration = NULL;
	size_t bytes = sizeof(incoming->bytes), sizes[TRANSPORT_MAX_RECVS] = { 0 };
	int tag = aggregate_tag(AGGREGATE_TAG_AGREE, 0), r = 0;
	bool done = false;

	if (!incoming->connection)
		r = ops->accept(group->listener, &incoming->connection);
	if (r < 0 || !incoming->connection)
		return; /* the listener's trouble shows as the time-out of the bootstrap */
	if (!incoming->request)
		r = ops->receive(incoming->connection, 1, &data, &bytes, &tag, &registration, &incoming->request);
	if (r == 0 && incoming->request)
		r = ops->test(incoming->request, &done, sizes);
	if (r < 0 || done)
		incoming_known(group, incoming, r < 0 ? 0 : sizes[0]);
}

/*
 * Results for all members come at once, and a fast port would pile them up before slower ones: what a switch has no room for
 * is lost, and acknowledgements of what members send here wait behind the rest. A port that is no faster than a member's
 * does not, and pacing has its price.
 */
static void limit_rates(struct aggregator_group *group)
{
	const struct aggregator_setup *setup = &group->aggregator->setup;
	struct transport_properties own = { 0 };

	if (setup->ops->device_properties(setup->transport, group->device, &own) < 0)
		return;
	for (size_t i = 0; i < group->member_count; i++)
		if (group->peers[i].rate_Bps < own.speed_Bps)
			setup->ops->set(group->peers[i].out, TRANSPORT_SET_RATE_LIMIT, group->peers[i].rate_Bps);
}

/* How fast the group's members can be together, where all have said it. */
static void tell_share(struct aggregator_group *group)
{
	uint64_t together_Bps = 0;
	bool known = true;

	for (size_t i = 0; i < group->member_count; i++) {
		known = known && group->peers[i].rate_Bps;
		together_Bps += group->peers[i].rate_Bps;
	}
	aggregator_share_rate(&group->user, known ? together_Bps : 0);
}

int aggregator_bootstrap(struct aggregator_group *group, uint64_t now_ns)
{
	const uint64_t others_ns = params_replace_ns(group->timeout_ns) / REACH_PARTS;
	const uint64_t waited_ns = clock_waited_ns(&group->since_ns, &group->looked_ns, now_ns);
	bool all = true;

	if (!group->incoming) {
		group->incoming_count = group->node_count;
		group->incoming = sys_zalloc(group->incoming_count * sizeof(*group->incoming));
		if (!group->incoming) {
			aggregator_fail(group, "it is out of memory");
			return 0;
		}
	}
	for (size_t i = 0; i < group->incoming_count; i++)
		incoming_step(group, &group->incoming[i]);
	for (size_t i = 0; i < group->node_count; i++) {
		int r = reach(group, i);
		bool stands = r == 1 && (group->peers[i].in || group->peers[i].lost || i == group->self);

		if (!stands && i >= group->member_count && (r < 0 || waited_ns > others_ns)) {
			go_without(group, i);
			stands = true;
		} else if (r < 0) {
			return 0;
		}
		all = all && stands;
		if (!all && waited_ns > group->timeout_ns) {
			aggregator_fail(group, "node %zu of the group did not %s within its time-out", i,
					r == 1 ? "come" : "let it in");
			return 0;
		}
	}
	if (all) {
		limit_rates(group);
		tell_share(group);
	}
	return all;
}

void aggregator_bootstrap_end(struct aggregator_group *group)
{
	for (size_t i = 0; group->incoming && i < group->incoming_count; i++)
		group->aggregator->setup.ops->close_connection(group->incoming[i].connection);
	sys_free(group->incoming);
	group->incoming = NULL;
}
