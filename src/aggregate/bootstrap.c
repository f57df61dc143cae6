/* The messages with which a group comes together, and the words about its failure. */
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
