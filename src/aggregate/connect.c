/* Connections between all members, in the caller's thread. */
#include "aggregate/meeting.h"
#include "aggregate/servers.h"
#include "aggregate/trial.h"
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

int meeting_fail(struct meeting *meeting, int error, const char *fmt, ...)
{
	va_list args;

	if (meeting->reason[0])
		return -error;
	va_start(args, fmt);
	log_sentence_v(meeting->reason, sizeof(meeting->reason), fmt, args);
	va_end(args);
	return -error;
}

const char *meeting_host(const struct meeting *meeting, size_t peer)
{
	return peer == meeting->self               ? meeting->engine->host_name
	       : meeting->peers[peer].host[0] != 0 ? meeting->peers[peer].host
						   : "(not known yet)";
}

void mail_send(struct mail *mail, struct transport_connection *connection, void *data, size_t bytes)
{
	*mail = (struct mail){
		.state = MAIL_WAITS, .connection = connection, .sends = true, .data = data, .bytes = bytes
	};
}

void mail_receive(struct mail *mail, struct transport_connection *connection, void *data, size_t bytes)
{
	*mail = (struct mail){ .state = MAIL_WAITS, .connection = connection, .data = data, .bytes = bytes };
}

int mail_step(struct meeting *meeting, struct mail *mail)
{
	const struct transport_ops *ops = meeting->ops;
	int tag = aggregate_tag(AGGREGATE_TAG_AGREE, 0), r = 0;
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	void *data = mail->data, *registration = NULL;
	bool done = false;

	if (mail->state == MAIL_WAITS) {
		r = mail->sends ? ops->send(mail->connection, data, mail->bytes, tag, NULL, &mail->request)
				: ops->receive(mail->connection, 1, &data, &mail->bytes, &tag, &registration,
					       &mail->request);
		if (r < 0 || !mail->request)
			return r;
		mail->state = MAIL_POSTED;
	}
	if (mail->state != MAIL_POSTED)
		return 0;
	r = ops->test(mail->request, &done, sizes);
	if (r < 0 || !done)
		return r;
	mail->received = sizes[0];
	mail->state = MAIL_DONE;
	meeting->progressed = true;
	return 0;
}

/* ------------------------------------------------------------------------------------------------- those who come */

static int visitor_known(struct meeting *meeting, struct meeting_visitor *visitor)
{
	struct aggregate_wire_hello hello = { 0 };
	struct meeting_peer *peer;
	struct meeting_way *way;
	int r;

	switch (servers_visitor(meeting, visitor->connection, visitor->bytes, visitor->hello.received)) {
	case SERVERS_VISIT_LATER:
		return 0;
	case SERVERS_VISIT_TAKEN:
		*visitor = (struct meeting_visitor){ 0 };
		return 0;
	default:
		break;
	}
	r = visitor->hello.received == AGGREGATE_WIRE_HELLO_BYTES ? aggregate_wire_get_hello(visitor->bytes, &hello)
								  : -EBADMSG;

	if (r == -EPROTO) {
		/* It stays, heard: who is left standing there is told the reason like all others. */
		visitor->hello.state = MAIL_NONE;
		return meeting_fail(meeting, EPROTO,
				    "a member speaks another version of Tributary's aggregation protocol than host %s: "
				    "install the same release on all hosts",
				    meeting->engine->host_name);
	}
	peer = r == 0 && hello.count == meeting->count ? &meeting->peers[hello.from] : NULL;
	way = peer ? &peer->ways[hello.large ? MEETING_LARGE : MEETING_SMALL] : NULL;
	if (!way || hello.group != meeting->group_hash || hello.from == meeting->self || way->in) {
		meeting->ops->close_connection(visitor->connection); /* of another group, or nonsense */
	} else {
		way->in = visitor->connection;
		memcpy(peer->host, hello.host, sizeof(peer->host));
	}
	*visitor = (struct meeting_visitor){ 0 };
	return 0;
}

static int accept_visitor(struct meeting *meeting, struct transport_connection **ret)
{
	int r = meeting->ops->accept(meeting->listener->listener, ret);

	if (r < 0)
		return meeting_fail(meeting, -r, "host %s cannot accept connections: %s", meeting->engine->host_name,
				    strerror(-r));
	return 0;
}

int meeting_receive_visitors(struct meeting *meeting)
{
	int r = 0;

	for (size_t i = 0; i < MEETING_KINDS * meeting->count && r == 0; i++) {
		struct meeting_visitor *visitor = &meeting->visitors[i];

		if (!visitor->connection) {
			r = accept_visitor(meeting, &visitor->connection);
			if (r < 0 || !visitor->connection)
				continue;
			mail_receive(&visitor->hello, visitor->connection, visitor->bytes, sizeof(visitor->bytes));
		}
		if (mail_step(meeting, &visitor->hello) < 0) { /* gone again: it may come once more */
			meeting->ops->close_connection(visitor->connection);
			*visitor = (struct meeting_visitor){ 0 };
		} else if (visitor->hello.state == MAIL_DONE) {
			r = visitor_known(meeting, visitor);
		}
	}
	return r;
}

/* -------------------------------------------------------------------------------------------------- going to others */

/* One step towards one of them. */
static int reach_by(struct meeting *meeting, struct meeting_way *way, bool large)
{
	struct aggregate_wire_hello hello = { .from = (uint16_t)meeting->self,
					      .count = (uint16_t)meeting->count,
					      .large = large,
					      .group = meeting->group_hash };
	int r;

	if (!way->out) {
		r = meeting->ops->connect(meeting->engine->setup.transport, meeting->listener->device, -1, way->handle,
					  &way->out);
		if (r < 0 || !way->out)
			return r;
		if (large && meeting->ops->limit_eager)
			meeting->ops->limit_eager(way->out, 0);
		memcpy(hello.host, meeting->engine->host_name, sizeof(hello.host));
		aggregate_wire_put_hello(&hello, way->hello_bytes);
		mail_send(&way->hello, way->out, way->hello_bytes, sizeof(way->hello_bytes));
		meeting->progressed = true;
	}
	return mail_step(meeting, &way->hello);
}

int meeting_reach(struct meeting *meeting, size_t index)
{
	struct meeting_peer *peer = &meeting->peers[index];
	bool stand = true;

	if (index == meeting->self)
		return 1;
	for (unsigned kind = 0; kind < MEETING_KINDS; kind++) {
		struct meeting_way *way = &peer->ways[kind];
		int r = reach_by(meeting, way, kind == MEETING_LARGE);

		if (r < 0)
			return meeting_fail(meeting, -r, "host %s cannot reach host %s: %s", meeting->engine->host_name,
					    meeting_host(meeting, index), strerror(-r));
		stand &= way->hello.state == MAIL_DONE && way->in;
	}
	peer->reached = stand;
	return stand;
}

int meeting_pause(struct meeting *meeting)
{
	struct timespec nap = { .tv_nsec = PAUSE_NS };

	if (clock_now_ns() > meeting->deadline_ns)
		return -ETIMEDOUT;
	if (!meeting->progressed)
		nanosleep(&nap, NULL);
	meeting->progressed = false;
	return 0;
}

/* ------------------------------------------------------------------------------------------------------- the call */

static int compare_handles(const void *a, const void *b)
{
	return memcmp(*(const uint8_t *const *)a, *(const uint8_t *const *)b, MEETING_HANDLE_BYTES);
}

static int meeting_sort(struct meeting *meeting, const uint8_t *const *handles)
{
	const uint8_t **sorted = sys_zalloc(meeting->count * sizeof(*sorted));
	size_t found = 0;
	int r = 0;

	if (!sorted)
		return meeting_fail(meeting, ENOMEM, "host %s is out of memory", meeting->engine->host_name);
	memcpy(sorted, handles, meeting->count * sizeof(*sorted));
	qsort(sorted, meeting->count, sizeof(*sorted), compare_handles);
	meeting->group_hash = PROCESS_HASH_START;
	for (size_t i = 0; i < meeting->count; i++) {
		for (unsigned k = 0; k < MEETING_KINDS; k++)
			memcpy(meeting->peers[i].ways[k].handle, sorted[i], MEETING_HANDLE_BYTES);
		meeting->group_hash = process_hash(meeting->group_hash, sorted[i], MEETING_HANDLE_BYTES);
		if (memcmp(sorted[i], meeting->listener->handle, MEETING_HANDLE_BYTES) == 0) {
			meeting->self = i;
			found++;
		}
		if (i && compare_handles(&sorted[i - 1], &sorted[i]) == 0)
			found = 2;
	}
	if (found != 1)
		r = meeting_fail(meeting, EINVAL, "host %s is not exactly once among the %zu members that it was given",
				 meeting->engine->host_name, meeting->count);
	sys_free(sorted);
	return r;
}

static void meeting_fini(struct meeting *meeting)
{
	for (size_t i = 0; meeting->peers && i < MEETING_KINDS * meeting->count; i++) {
		struct meeting_way *way = &meeting->peers[i / MEETING_KINDS].ways[i % MEETING_KINDS];

		if (way->out)
			meeting->ops->close_connection(way->out);
		if (way->in)
			meeting->ops->close_connection(way->in);
	}
	for (size_t i = 0; meeting->visitors && i < MEETING_KINDS * meeting->count; i++)
		if (meeting->visitors[i].connection)
			meeting->ops->close_connection(meeting->visitors[i].connection);
	sys_free(meeting->peers);
	sys_free(meeting->visitors);
	sys_free(meeting->verdict_bytes);
	servers_meeting_fini(meeting);
	group_free(meeting->group);
}

/* The connections become the group's, by position. */
static void meeting_hand_over(struct meeting *meeting)
{
	struct group *group = meeting->group;

	for (size_t i = 0; i < MEETING_KINDS * group->count; i++) {
		size_t index = group->members[i % group->count].facts.index;
		struct meeting_way *way = &meeting->peers[index].ways[i / group->count];

		group->out[i].connection = way->out;
		group->in[i].connection = way->in;
		way->out = way->in = NULL;
	}
}

/* Each says what it knows: the others see a member that is gone. */
static int trial_failed(struct meeting *meeting, int r)
{
	const char *host = meeting->engine->host_name;

	if (r == -ENOMEM)
		return meeting_fail(meeting, ENOMEM, "host %s is out of memory", host);
	if (r == -ETIMEDOUT)
		return meeting_fail(meeting, EREMOTEIO,
				    "host %s waited for others too long while the group's aggregators were measured",
				    host);
	/* Who it was, the log says. */
	return meeting_fail(meeting, EREMOTEIO, "a member was lost while the group's aggregators were measured");
}

int aggregate_connect(struct aggregate_listener *listener, size_t count, const uint8_t *const *handles,
		      struct aggregate_group **ret, char reason[static AGGREGATE_REASON_BYTES])
{
	struct aggregate_engine *engine = listener->engine;
	struct meeting meeting = { .engine = engine, .listener = listener, .ops = engine->setup.ops, .count = count };
	struct group *group;
	int r;

	*ret = NULL;
	meeting.timeout_ns = engine->setup.params->timeout_ns;
	meeting.deadline_ns = clock_now_ns() + meeting.timeout_ns;
	if (!count || count > SCHEDULE_MEMBERS_MAX) {
		r = meeting_fail(&meeting, EINVAL, "a group has 1 to %d members, not %zu", SCHEDULE_MEMBERS_MAX, count);
		goto fail;
	}
	meeting.verdict_size = AGGREGATE_WIRE_VERDICT_BYTES + count * AGGREGATE_WIRE_FACTS_BYTES + SERVERS_BYTES;
	meeting.peers = sys_zalloc(count * sizeof(*meeting.peers));
	meeting.visitors = sys_zalloc(MEETING_KINDS * count * sizeof(*meeting.visitors));
	meeting.verdict_bytes = sys_zalloc(meeting.verdict_size);
	if (!meeting.peers || !meeting.visitors || !meeting.verdict_bytes) {
		r = meeting_fail(&meeting, ENOMEM, "host %s is out of memory", engine->host_name);
		goto fail;
	}
	r = meeting_sort(&meeting, handles);
	if (r == 0)
		r = meeting_agree(&meeting);
	if (r < 0)
		goto fail;
	meeting_hand_over(&meeting);
	group_register_own(meeting.group);
	engine_adopt(engine, meeting.group);
	/* It is the engine's now. */
	group = meeting.group;
	meeting.group = NULL;
	r = trial_run(group);
	if (r < 0) {
		r = trial_failed(&meeting, r);
		goto fail;
	}
	*ret = (struct aggregate_group *)group;
	reason[0] = '\0';
	meeting_fini(&meeting);
	return 0;
fail:
	memcpy(reason, meeting.reason, AGGREGATE_REASON_BYTES);
	meeting_fini(&meeting);
	return r;
}
