/* Connections between a server and all other nodes of a group, both ways; without blocking, in the group's thread. */
#include "aggregate/aggregator/server_internal.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum { SPREAD_MOST = 8 }; /* members that count of all that send here */

static int send_hello(struct server_group *group, struct server_peer *peer)
{
	const struct transport_ops *ops = group->server->setup.ops;
	struct server_wire_hello hello = { .from = (uint16_t)group->self };
	bool done = false;
	int r;

	if (!peer->hello) {
		memcpy(hello.id, group->id, sizeof(hello.id));
		server_wire_put_hello(&hello, peer->hello_bytes);
		r = ops->send(peer->out, peer->hello_bytes, sizeof(peer->hello_bytes), server_tag(SERVER_TAG_HELLO, 0),
			      NULL, &peer->hello);
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
static int reach(struct server_group *group, size_t node)
{
	const struct aggregate_server_setup *setup = &group->server->setup;
	struct server_peer *peer = &group->peers[node];
	int r = 0;

	if (node == group->self)
		return 1;
	if (!peer->out) {
		r = setup->ops->connect(setup->transport, group->device, -1, peer->handle, &peer->out);
		if (r == 0 && peer->out && setup->ops->limit_eager)
			setup->ops->limit_eager(peer->out, SERVER_WIRE_UNASKED_BYTES);
	}
	if (r == 0 && peer->out && !peer->said_hello)
		r = send_hello(group, peer);
	if (r < 0)
		server_fail(group, "it cannot reach node %zu of the group: %s", node, strerror(-r));
	return r < 0 ? r : peer->said_hello;
}

/*
 * Shares make this port as busy as the members' own: what each sends here is a part of this port's rate and of its own, so
 * all have as much in flight as one that could fill it alone; and twice, as the results keep the other direction as busy,
 * and acknowledgements wait among them. But not so with several servers, to which a member may send at a time. Another
 * server sends to all members, and what comes from it waits among that at its port.
 */
static void tell_spread(const struct server_group *group, struct transport_connection *connection)
{
	unsigned hosts = group->member_count < SPREAD_MOST ? (unsigned)group->member_count : SPREAD_MOST;
	bool alone = group->node_count - group->member_count == 1;

	if (group->server->setup.ops->spread)
		group->server->setup.ops->spread(connection, alone ? 2 * hosts : hosts);
}

/* Who says something else than the group's hello, or says it twice, is a stranger: turned away, and no reason to fail. */
static void visitor_known(struct server_group *group, struct server_visitor *visitor, size_t bytes)
{
	struct server_wire_hello hello;

	if (bytes == SERVER_WIRE_HELLO_BYTES && !server_wire_get_hello(visitor->bytes, &hello) &&
	    !memcmp(hello.id, group->id, sizeof(hello.id)) && hello.from < group->node_count &&
	    hello.from != group->self && !group->peers[hello.from].in) {
		group->peers[hello.from].in = visitor->connection;
		group->peers[hello.from].rate_Bps = UINT64_C(1000) * hello.rate_kBps;
		tell_spread(group, visitor->connection);
		visitor->connection = NULL;
	}
	group->server->setup.ops->close_connection(visitor->connection);
	*visitor = (struct server_visitor){ .connection = NULL };
}

static void visitor_step(struct server_group *group, struct server_visitor *visitor)
{
	const struct transport_ops *ops = group->server->setup.ops;
	void *data = visitor->bytes, *registration = NULL;
	size_t bytes = sizeof(visitor->bytes), sizes[TRANSPORT_MAX_RECVS] = { 0 };
	int tag = server_tag(SERVER_TAG_HELLO, 0), r = 0;
	bool done = false;

	if (!visitor->connection)
		r = ops->accept(group->listener, &visitor->connection);
	if (r < 0 || !visitor->connection)
		return; /* the listener's trouble shows as the time-out of the bootstrap */
	if (!visitor->request)
		r = ops->receive(visitor->connection, 1, &data, &bytes, &tag, &registration, &visitor->request);
	if (r == 0 && visitor->request)
		r = ops->test(visitor->request, &done, sizes);
	if (r < 0 || done)
		visitor_known(group, visitor, r < 0 ? 0 : sizes[0]);
}

/*
 * Results for all members come at once, and a fast port would pile them up before slower ones: what a switch has no room for
 * is lost, and acknowledgements of what members send here wait behind the rest. A port that is no faster than a member's
 * does not, and pacing has its price.
 */
static void limit_rates(struct server_group *group)
{
	const struct aggregate_server_setup *setup = &group->server->setup;
	struct transport_properties own = { 0 };

	if (!setup->ops->limit_rate || setup->ops->device_properties(setup->transport, group->device, &own) < 0)
		return;
	for (size_t i = 0; i < group->member_count; i++)
		if (group->peers[i].rate_Bps < own.speed_Bps)
			setup->ops->limit_rate(group->peers[i].out, group->peers[i].rate_Bps);
}

/* How fast the group's members can be together, where all have said it. */
static void tell_share(struct server_group *group)
{
	uint64_t together_Bps = 0;
	bool known = true;

	for (size_t i = 0; i < group->member_count; i++) {
		known = known && group->peers[i].rate_Bps;
		together_Bps += group->peers[i].rate_Bps;
	}
	server_share_rate(&group->claim, known ? together_Bps : 0);
}

int server_meet(struct server_group *group, uint64_t now_ns)
{
	bool all = true;

	if (!group->visitors) {
		group->visitor_count = group->node_count;
		group->visitors = sys_zalloc(group->visitor_count * sizeof(*group->visitors));
		if (!group->visitors) {
			server_fail(group, "it is out of memory");
			return 0;
		}
	}
	for (size_t i = 0; i < group->visitor_count; i++)
		visitor_step(group, &group->visitors[i]);
	for (size_t i = 0; i < group->node_count; i++) {
		int r = reach(group, i);

		if (r < 0)
			return 0;
		all = all && r == 1 && (group->peers[i].in || i == group->self);
		if (!all && now_ns > group->deadline_ns) {
			server_fail(group, "node %zu of the group did not %s within its time-out", i,
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

void server_meet_end(struct server_group *group)
{
	for (size_t i = 0; group->visitors && i < group->visitor_count; i++)
		group->server->setup.ops->close_connection(group->visitors[i].connection);
	sys_free(group->visitors);
	group->visitors = NULL;
}
