/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connections: one of the TCP transport in each direction. They carry frames; their heartbeat, which goes on
 * whatever this process does, shows that the peer lives; life.c what does without it.
 */
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FRAME_TAG = 1 };

static const struct transport_ops *const tcp = &transport_tcp;

int verbs_control_send_bytes(struct transport_connection *out, uint8_t bytes[static VERBS_WIRE_FRAME_BYTES],
			     struct transport_request **request)
{
	bool done = false;
	int r;

	if (!*request) {
		r = tcp->send(out, bytes, VERBS_WIRE_FRAME_BYTES, FRAME_TAG, NULL, request);
		if (r < 0 || !*request)
			return r;
	}
	r = tcp->test(*request, &done, NULL);
	if (r < 0 || done)
		*request = NULL;
	return r < 0 ? r : done;
}

int verbs_control_receive_bytes(struct transport_connection *in, uint8_t bytes[static VERBS_WIRE_FRAME_BYTES],
				struct transport_request **request)
{
	size_t room = VERBS_WIRE_FRAME_BYTES, size = 0;
	void *data = bytes, *registration = NULL;
	int r, tag = FRAME_TAG;
	bool done = false;

	if (!*request) {
		r = tcp->receive(in, 1, &data, &room, &tag, &registration, request);
		if (r < 0 || !*request)
			return r;
	}
	r = tcp->test(*request, &done, &size);
	if (r < 0 || done)
		*request = NULL;
	if (r < 0)
		return r;
	return done && size != VERBS_WIRE_FRAME_BYTES ? -EREMOTEIO : done;
}

int verbs_connection_fail(struct verbs_connection *connection, int error, const char *why)
{
	if (connection->error)
		return connection->error;
	connection->error = error;
	snprintf(connection->why, sizeof(connection->why), "%s", why);
	return error;
}

int verbs_control_push(struct verbs_connection *connection)
{
	struct verbs_control *control = &connection->control;
	int r = 1;

	while (r > 0 && control->frame_head != control->frame_tail) {
		if (!control->sending)
			verbs_wire_put_frame(&control->frames[control->frame_head % VERBS_FRAMES], control->sent);
		r = verbs_control_send_bytes(control->out, control->sent, &control->sending);
		control->frame_head += r > 0;
	}
	return r < 0 ? r : 0;
}

/* One of the same port that has not gone out yet says nothing any more. */
static bool replaces(struct verbs_control *control, const struct verbs_wire_frame *frame)
{
	for (unsigned i = control->frame_head + (control->sending != NULL); i != control->frame_tail; i++) {
		struct verbs_wire_frame *waits = &control->frames[i % VERBS_FRAMES];

		if (frame->type == VERBS_FRAME_PORT && waits->type == frame->type &&
		    waits->made.rail == frame->made.rail) {
			*waits = *frame;
			return true;
		}
	}
	return false;
}

int verbs_control_say(struct verbs_connection *connection, const struct verbs_wire_frame *frame)
{
	struct verbs_control *control = &connection->control;

	if (!control->out || replaces(control, frame))
		return 0;
	if (control->frame_tail - control->frame_head == VERBS_FRAMES)
		return verbs_connection_fail(connection, -EREMOTEIO, "it does not read what is said to it");
	control->frames[control->frame_tail++ % VERBS_FRAMES] = *frame;
	return verbs_control_push(connection);
}

int verbs_control_truncated(struct verbs_connection *connection)
{
	const struct verbs_wire_frame frame = { .type = VERBS_FRAME_TRUNCATED };

	verbs_control_say(connection, &frame);
	return verbs_connection_fail(connection, -EMSGSIZE, VERBS_TOO_LONG);
}

const char *verbs_control_why(struct verbs_connection *connection, char *text, size_t bytes)
{
	const struct verbs_control *control = &connection->control;

	tcp->why(control->in, text, bytes);
	if (!*text)
		tcp->why(control->out, text, bytes);
	return *text ? verbs_control_ports(connection, text, bytes) : "it broke the protocol";
}

const char *verbs_control_ports(const struct verbs_connection *connection, char *text, size_t bytes)
{
	for (unsigned i = 0; i < VERBS_WIRE_RAILS_MAX; i++) {
		const size_t length = strlen(text);

		if (i < connection->rail_count && verbs_port_is_down(connection->rails[i].port))
			snprintf(text + length, bytes - length, "; port %s is down", connection->rails[i].port->name);
		else if (connection->peer_down_ns[i])
			snprintf(text + length, bytes - length, "; the peer's port of rail %u is down", i);
	}
	return text;
}

void verbs_control_close(struct verbs_connection *connection)
{
	const struct verbs_wire_frame bye = { .type = VERBS_FRAME_BYE };
	struct verbs_control *control = &connection->control;

	if (control->out && !connection->peer_closed)
		verbs_control_say(connection, &bye);
	if (control->out)
		tcp->close_connection(control->out);
	if (control->in)
		tcp->close_connection(control->in);
	control->out = control->in = NULL;
}
