/* Connections between a server and all other nodes of a group, both ways; without blocking, in the group's thread. */
#include "aggregate/server_internal.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

_Static_assert((int)AGGREGATE_DATA_VERSION == (int)SERVER_WIRE_VERSION, "the same protocol");

static int send_hello(struct server_group *group, struct server_lane *lane)
{
	const struct transport_ops *ops = group->server->setup.ops;
	struct server_wire_hello hello = { .from = (uint16_t)group->self };
	bool done = false;
	int r;

	if (!lane->hello) {
		memcpy(hello.id, group->id, sizeof(hello.id));
		server_wire_put_hello(&hello, lane->hello_bytes);
		r = ops->send(lane->out, lane->hello_bytes, sizeof(lane->hello_bytes), server_tag(SERVER_TAG_HELLO, 0),
			      NULL, &lane->hello);
		if (r < 0 || !lane->hello)
			return r;
	}
	r = ops->test(lane->hello, &done, NULL);
	if (done)
		lane->hello = NULL;
	lane->said_hello = done;
	return r;
}

/* 1: our way to it stands; 0: not yet. */
static int reach(struct server_group *group, size_t node)
{
	const struct aggregate_server_setup *setup = &group->server->setup;
	struct server_lane *lane = &group->lanes[node];
	int r = 0;

	if (node == group->self)
		return 1;
	if (!lane->out)
		r = setup->ops->connect(setup->transport, group->device, -1, lane->handle, &lane->out);
	if (r == 0 && lane->out && !lane->said_hello)
		r = send_hello(group, lane);
	if (r < 0)
		server_fail(group, "it cannot reach node %zu of the group: %s", node, strerror(-r));
	return r < 0 ? r : lane->said_hello;
}

/* Who says something else than the group's hello, or says it twice, is a stranger: turned away, and no reason to fail. */
static void visitor_known(struct server_group *group, struct server_visitor *visitor, size_t bytes)
{
	struct server_wire_hello hello;

	if (bytes == SERVER_WIRE_HELLO_BYTES && !server_wire_get_hello(visitor->bytes, &hello) &&
	    !memcmp(hello.id, group->id, sizeof(hello.id)) && hello.from < group->node_count &&
	    hello.from != group->self && !group->lanes[hello.from].in) {
		group->lanes[hello.from].in = visitor->connection;
		if (hello.spread && group->server->setup.ops->spread)
			group->server->setup.ops->spread(visitor->connection, hello.spread);
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
		return; /* the listener's trouble shows as the time-out of the meeting */
	if (!visitor->request)
		r = ops->receive(visitor->connection, 1, &data, &bytes, &tag, &registration, &visitor->request);
	if (r == 0 && visitor->request)
		r = ops->test(visitor->request, &done, sizes);
	if (r < 0 || done)
		visitor_known(group, visitor, r < 0 ? 0 : sizes[0]);
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
		all = all && r == 1 && (group->lanes[i].in || i == group->self);
		if (!all && now_ns > group->deadline_ns) {
			server_fail(group, "node %zu of the group did not %s within its time-out", i,
				    r == 1 ? "come" : "let it in");
			return 0;
		}
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
