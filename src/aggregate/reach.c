/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between all members, in the caller's thread. */
#include "aggregate/bootstrap.h"
#include "aggregate/aggregators.h"

#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- those who come */

static int incoming_known(struct bootstrap *bootstrap, struct bootstrap_incoming *incoming)
{
	struct member_wire_hello hello = { 0 };
	struct bootstrap_peer *peer;
	struct bootstrap_way *way;
	int r;

	switch (aggregators_incoming(bootstrap, incoming->connection, incoming->bytes, incoming->hello.received)) {
	case AGGREGATORS_INCOMING_LATER:
		return 0;
	case AGGREGATORS_INCOMING_TAKEN:
		*incoming = (struct bootstrap_incoming){ 0 };
		return 0;
	default:
		break;
	}
	r = member_wire_hello(CODEC_FROM(incoming->bytes, incoming->hello.received), &hello);
	if (r == -EPROTO) {
		/* It stays, heard: who is left standing there is told the reason like all others. */
		incoming->hello.state = MESSAGE_NONE;
		return bootstrap_fail(
			bootstrap, EPROTO,
			"a member speaks another version of Tributary's aggregation protocol than host %s: "
			"install the same release on all hosts",
			bootstrap->engine->host_name);
	}
	peer = r == 0 && hello.count == bootstrap->count ? &bootstrap->peers[hello.from] : NULL;
	way = peer ? &peer->ways[hello.large ? BOOTSTRAP_LARGE : BOOTSTRAP_SMALL] : NULL;
	if (!way || hello.group != bootstrap->group_hash || hello.from == bootstrap->self || way->in) {
		bootstrap->ops->close_connection(incoming->connection); /* of another group, or nonsense */
	} else {
		way->in = incoming->connection;
		memcpy(peer->host, hello.host, sizeof(peer->host));
	}
	*incoming = (struct bootstrap_incoming){ 0 };
	return 0;
}

static int accept_incoming(struct bootstrap *bootstrap, struct transport_connection **ret)
{
	int r = bootstrap->ops->accept(bootstrap->listener->listener, ret);

	if (r < 0)
		return bootstrap_fail(bootstrap, -r, "host %s cannot accept connections: %s",
				      bootstrap->engine->host_name, strerror(-r));
	return 0;
}

int bootstrap_receive_incoming(struct bootstrap *bootstrap)
{
	int r = 0;

	for (size_t i = 0; i < BOOTSTRAP_KINDS * bootstrap->count && r == 0; i++) {
		struct bootstrap_incoming *incoming = &bootstrap->incoming[i];

		if (!incoming->connection) {
			r = accept_incoming(bootstrap, &incoming->connection);
			if (r < 0 || !incoming->connection)
				continue;
			bootstrap_receive(&incoming->hello, incoming->connection, incoming->bytes,
					  sizeof(incoming->bytes));
		}
		if (bootstrap_step(bootstrap, &incoming->hello) < 0) { /* gone again: it may come once more */
			bootstrap->ops->close_connection(incoming->connection);
			*incoming = (struct bootstrap_incoming){ 0 };
		} else if (incoming->hello.state == MESSAGE_DONE) {
			r = incoming_known(bootstrap, incoming);
		}
	}
	return r;
}

/* -------------------------------------------------------------------------------------------------- going to others */

int bootstrap_reach(struct bootstrap *bootstrap, size_t index)
{
	struct bootstrap_peer *peer = &bootstrap->peers[index];
	bool stand = true;

	if (index == bootstrap->self)
		return 1;
	for (unsigned kind = 0; kind < BOOTSTRAP_KINDS; kind++) {
		struct bootstrap_way *way = &peer->ways[kind];
		int r = bootstrap_dial(bootstrap, way, MEMBER_WIRE_HELLO_BYTES, kind == BOOTSTRAP_LARGE ? 0 : SIZE_MAX);

		if (r < 0)
			return bootstrap_fail(bootstrap, -r, "host %s cannot reach host %s: %s",
					      bootstrap->engine->host_name, bootstrap_host(bootstrap, index),
					      strerror(-r));
		stand &= way->hello.state == MESSAGE_DONE && way->in;
	}
	peer->reached = stand;
	return stand;
}
