/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with which a group comes together, and the reason why it does not. */
#include "aggregate/bootstrap.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
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

int bootstrap_out_of_memory(struct bootstrap *bootstrap)
{
	return bootstrap_fail(bootstrap, ENOMEM, "host %s is out of memory", bootstrap->engine->host_name);
}

int bootstrap_broken_by(struct bootstrap *bootstrap, size_t peer)
{
	return bootstrap_fail(bootstrap, EREMOTEIO, "host %s broke the aggregation protocol",
			      bootstrap_host(bootstrap, peer));
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

int bootstrap_dial(struct bootstrap *bootstrap, struct bootstrap_way *way, size_t hello_bytes, size_t eager_bytes)
{
	if (!way->out) {
		int r = bootstrap->ops->connect(bootstrap->engine->setup.transport, bootstrap->listener->device, -1,
						way->handle, &way->out);

		if (r < 0 || !way->out)
			return r;
		if (eager_bytes != SIZE_MAX)
			bootstrap->ops->set(way->out, TRANSPORT_SET_EAGER_LIMIT, eager_bytes);
		bootstrap_send(&way->hello, way->out, way->hello_bytes, hello_bytes);
		bootstrap->progressed = true;
	}
	return bootstrap_step(bootstrap, &way->hello);
}

void bootstrap_hang_up(const struct bootstrap *bootstrap, struct bootstrap_way *way)
{
	if (way->out)
		bootstrap->ops->close_connection(way->out);
	if (way->in)
		bootstrap->ops->close_connection(way->in);
	way->out = way->in = NULL;
}
