/* Connections between all members, in the caller's thread. */
#include "aggregate/bootstrap.h"
#include "aggregate/servers.h"
#include "aggregate/calibration.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/process.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_NS (200 * NS_PER_US)

int bootstrap_fail(struct bootstrap *bootstrap, int error, const char *fmt, ...)
{
	va_list args;

	if (bootstrap->reason[0])
		return -error;
	va_start(args, fmt);
	log_sentence_v(bootstrap->reason, sizeof(bootstrap->reason), fmt, args);
	va_end(args);
	return -error;
}

const char *bootstrap_host(const struct bootstrap *bootstrap, size_t peer)
{
	return peer == bootstrap->self               ? bootstrap->engine->host_name
	       : bootstrap->peers[peer].host[0] != 0 ? bootstrap->peers[peer].host
						     : "(not known yet)";
}

void bootstrap_send(struct bootstrap_message *message, struct transport_connection *connection, void *data,
		    size_t bytes)
{
	*message = (struct bootstrap_message){
		.state = MESSAGE_WAITS, .connection = connection, .sends = true, .data = data, .bytes = bytes
	};
}

void bootstrap_receive(struct bootstrap_message *message, struct transport_connection *connection, void *data,
		       size_t bytes)
{
	*message = (struct bootstrap_message){
		.state = MESSAGE_WAITS, .connection = connection, .data = data, .bytes = bytes
	};
}

int bootstrap_step(struct bootstrap *bootstrap, struct bootstrap_message *message)
{
	const struct transport_ops *ops = bootstrap->ops;
	int tag = aggregate_tag(AGGREGATE_TAG_AGREE, 0), r = 0;
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	void *data = message->data, *registration = NULL;
	bool done = false;

	if (message->state == MESSAGE_WAITS) {
		r = message->sends ? ops->send(message->connection, data, message->bytes, tag, NULL, &message->request)
				   : ops->receive(message->connection, 1, &data, &message->bytes, &tag, &registration,
						  &message->request);
		if (r < 0 || !message->request)
			return r;
		message->state = MESSAGE_POSTED;
	}
	if (message->state != MESSAGE_POSTED)
		return 0;
	r = ops->test(message->request, &done, sizes);
	if (r < 0 || !done)
		return r;
	message->received = sizes[0];
	message->state = MESSAGE_DONE;
	bootstrap->progressed = true;
	return 0;
}

/* ------------------------------------------------------------------------------------------------- those who come */

static int incoming_known(struct bootstrap *bootstrap, struct bootstrap_incoming *incoming)
{
	struct aggregate_wire_hello hello = { 0 };
	struct bootstrap_peer *peer;
	struct bootstrap_way *way;
	int r;

	switch (servers_incoming(bootstrap, incoming->connection, incoming->bytes, incoming->hello.received)) {
	case SERVERS_INCOMING_LATER:
		return 0;
	case SERVERS_INCOMING_TAKEN:
		*incoming = (struct bootstrap_incoming){ 0 };
		return 0;
	default:
		break;
	}
	r = incoming->hello.received == AGGREGATE_WIRE_HELLO_BYTES ? aggregate_wire_get_hello(incoming->bytes, &hello)
								   : -EBADMSG;

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

/* One step towards one of them. */
static int reach_by(struct bootstrap *bootstrap, struct bootstrap_way *way, bool large)
{
	struct aggregate_wire_hello hello = { .from = (uint16_t)bootstrap->self,
					      .count = (uint16_t)bootstrap->count,
					      .large = large,
					      .group = bootstrap->group_hash };
	int r;

	if (!way->out) {
		r = bootstrap->ops->connect(bootstrap->engine->setup.transport, bootstrap->listener->device, -1,
					    way->handle, &way->out);
		if (r < 0 || !way->out)
			return r;
		if (large && bootstrap->ops->limit_eager)
			bootstrap->ops->limit_eager(way->out, 0);
		memcpy(hello.host, bootstrap->engine->host_name, sizeof(hello.host));
		aggregate_wire_put_hello(&hello, way->hello_bytes);
		bootstrap_send(&way->hello, way->out, way->hello_bytes, sizeof(way->hello_bytes));
		bootstrap->progressed = true;
	}
	return bootstrap_step(bootstrap, &way->hello);
}

int bootstrap_reach(struct bootstrap *bootstrap, size_t index)
{
	struct bootstrap_peer *peer = &bootstrap->peers[index];
	bool stand = true;

	if (index == bootstrap->self)
		return 1;
	for (unsigned kind = 0; kind < BOOTSTRAP_KINDS; kind++) {
		struct bootstrap_way *way = &peer->ways[kind];
		int r = reach_by(bootstrap, way, kind == BOOTSTRAP_LARGE);

		if (r < 0)
			return bootstrap_fail(bootstrap, -r, "host %s cannot reach host %s: %s",
					      bootstrap->engine->host_name, bootstrap_host(bootstrap, index),
					      strerror(-r));
		stand &= way->hello.state == MESSAGE_DONE && way->in;
	}
	peer->reached = stand;
	return stand;
}

int bootstrap_pause(struct bootstrap *bootstrap)
{
	struct timespec nap = { .tv_nsec = PAUSE_NS };

	if (clock_now_ns() > bootstrap->deadline_ns)
		return -ETIMEDOUT;
	if (!bootstrap->progressed)
		nanosleep(&nap, NULL);
	bootstrap->progressed = false;
	return 0;
}

/* ------------------------------------------------------------------------------------------------------- the call */

static int compare_handles(const void *a, const void *b)
{
	return memcmp(*(const uint8_t *const *)a, *(const uint8_t *const *)b, BOOTSTRAP_HANDLE_BYTES);
}

static int bootstrap_sort(struct bootstrap *bootstrap, const uint8_t *const *handles)
{
	const uint8_t **sorted = sys_zalloc(bootstrap->count * sizeof(*sorted));
	size_t found = 0;
	int r = 0;

	if (!sorted)
		return bootstrap_fail(bootstrap, ENOMEM, "host %s is out of memory", bootstrap->engine->host_name);
	memcpy(sorted, handles, bootstrap->count * sizeof(*sorted));
	qsort(sorted, bootstrap->count, sizeof(*sorted), compare_handles);
	bootstrap->group_hash = PROCESS_HASH_START;
	for (size_t i = 0; i < bootstrap->count; i++) {
		for (unsigned k = 0; k < BOOTSTRAP_KINDS; k++)
			memcpy(bootstrap->peers[i].ways[k].handle, sorted[i], BOOTSTRAP_HANDLE_BYTES);
		bootstrap->group_hash = process_hash(bootstrap->group_hash, sorted[i], BOOTSTRAP_HANDLE_BYTES);
		if (memcmp(sorted[i], bootstrap->listener->handle, BOOTSTRAP_HANDLE_BYTES) == 0) {
			bootstrap->self = i;
			found++;
		}
		if (i && compare_handles(&sorted[i - 1], &sorted[i]) == 0)
			found = 2;
	}
	if (found != 1)
		r = bootstrap_fail(bootstrap, EINVAL,
				   "host %s is not exactly once among the %zu members that it was given",
				   bootstrap->engine->host_name, bootstrap->count);
	sys_free(sorted);
	return r;
}

static void bootstrap_fini(struct bootstrap *bootstrap)
{
	for (size_t i = 0; bootstrap->peers && i < BOOTSTRAP_KINDS * bootstrap->count; i++) {
		struct bootstrap_way *way = &bootstrap->peers[i / BOOTSTRAP_KINDS].ways[i % BOOTSTRAP_KINDS];

		if (way->out)
			bootstrap->ops->close_connection(way->out);
		if (way->in)
			bootstrap->ops->close_connection(way->in);
	}
	for (size_t i = 0; bootstrap->incoming && i < BOOTSTRAP_KINDS * bootstrap->count; i++)
		if (bootstrap->incoming[i].connection)
			bootstrap->ops->close_connection(bootstrap->incoming[i].connection);
	sys_free(bootstrap->peers);
	sys_free(bootstrap->incoming);
	sys_free(bootstrap->decision_bytes);
	servers_bootstrap_fini(bootstrap);
	group_free(bootstrap->group);
}

/* The connections become the group's, by position. */
static void bootstrap_hand_over(struct bootstrap *bootstrap)
{
	struct group *group = bootstrap->group;

	for (size_t i = 0; i < BOOTSTRAP_KINDS * group->count; i++) {
		size_t index = group->members[i % group->count].facts.index;
		struct bootstrap_way *way = &bootstrap->peers[index].ways[i / group->count];

		group->out[i].connection = way->out;
		group->in[i].connection = way->in;
		way->out = way->in = NULL;
	}
}

/* Each says what it knows: the others see a member that is gone. */
static int calibration_failed(struct bootstrap *bootstrap, int r)
{
	const char *host = bootstrap->engine->host_name;

	if (r == -ENOMEM)
		return bootstrap_fail(bootstrap, ENOMEM, "host %s is out of memory", host);
	if (r == -ETIMEDOUT)
		return bootstrap_fail(bootstrap, EREMOTEIO,
				      "host %s waited for others too long while the group's aggregators were measured",
				      host);
	/* Who it was, the log says. */
	return bootstrap_fail(bootstrap, EREMOTEIO, "a member was lost while the group's aggregators were measured");
}

int aggregate_connect(struct aggregate_listener *listener, size_t count, const uint8_t *const *handles,
		      struct aggregate_group **ret, char reason[static AGGREGATE_REASON_BYTES])
{
	struct aggregate_engine *engine = listener->engine;
	struct bootstrap bootstrap = {
		.engine = engine, .listener = listener, .ops = engine->setup.ops, .count = count
	};
	struct group *group;
	int r;

	*ret = NULL;
	bootstrap.timeout_ns = engine->setup.params->timeout_ns;
	bootstrap.deadline_ns = clock_now_ns() + bootstrap.timeout_ns;
	if (!count || count > SCHEDULE_MEMBERS_MAX) {
		r = bootstrap_fail(&bootstrap, EINVAL, "a group has 1 to %d members, not %zu", SCHEDULE_MEMBERS_MAX,
				   count);
		goto fail;
	}
	bootstrap.decision_size = AGGREGATE_WIRE_DECISION_BYTES + count * AGGREGATE_WIRE_FACTS_BYTES + SERVERS_BYTES;
	bootstrap.peers = sys_zalloc(count * sizeof(*bootstrap.peers));
	bootstrap.incoming = sys_zalloc(BOOTSTRAP_KINDS * count * sizeof(*bootstrap.incoming));
	bootstrap.decision_bytes = sys_zalloc(bootstrap.decision_size);
	if (!bootstrap.peers || !bootstrap.incoming || !bootstrap.decision_bytes) {
		r = bootstrap_fail(&bootstrap, ENOMEM, "host %s is out of memory", engine->host_name);
		goto fail;
	}
	r = bootstrap_sort(&bootstrap, handles);
	if (r == 0)
		r = bootstrap_agree(&bootstrap);
	if (r < 0)
		goto fail;
	bootstrap_hand_over(&bootstrap);
	group_register_own(bootstrap.group);
	engine_adopt(engine, bootstrap.group);
	/* It is the engine's now. */
	group = bootstrap.group;
	bootstrap.group = NULL;
	r = calibration_run(group);
	if (r < 0) {
		r = calibration_failed(&bootstrap, r);
		goto fail;
	}
	*ret = (struct aggregate_group *)group;
	reason[0] = '\0';
	bootstrap_fini(&bootstrap);
	return 0;
fail:
	memcpy(reason, bootstrap.reason, AGGREGATE_REASON_BYTES);
	bootstrap_fini(&bootstrap);
	return r;
}
