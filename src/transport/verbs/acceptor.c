/* The accepting side: see connector.c. Whoever gets as far as here has proved the listener's secret to the TCP transport. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <string.h>

static const struct transport_ops *const tcp = &transport_tcp;

enum step { STEP_HELLO, STEP_BACK, STEP_WELCOME, STEP_READY, STEP_COUNT };
enum { PENDING_MAX = 64 };

static void pending_free(struct verbs_listener *listener, struct verbs_pending *pending)
{
	TAILQ_REMOVE(&listener->pending, pending, link);
	listener->pending_count--;
	verbs_connection_close(pending->connection);
	if (pending->in)
		tcp->close_connection(pending->in);
	if (pending->out)
		tcp->close_connection(pending->out);
	sys_free(pending);
}

static int admit(struct verbs_listener *listener, uint64_t now_ns)
{
	struct transport_connection *in = NULL;
	struct verbs_pending *pending;
	int r;

	if (listener->pending_count == PENDING_MAX)
		return 0; /* they wait at TCP's listener */
	r = tcp->accept(listener->control, &in);
	if (r < 0 || !in)
		return r;
	pending = sys_zalloc(sizeof(*pending));
	if (!pending) {
		tcp->close_connection(in);
		return -ENOMEM;
	}
	pending->in = in;
	pending->since_ns = now_ns;
	TAILQ_INSERT_TAIL(&listener->pending, pending, link);
	listener->pending_count++;
	return 1;
}

static int take_hello(struct verbs_listener *listener, struct verbs_pending *pending)
{
	struct verbs_wire_hello hello;
	int r = verbs_control_receive_bytes(pending->in, pending->bytes, &pending->request);

	if (r <= 0)
		return r;
	r = verbs_wire_get_hello(pending->bytes, VERBS_FRAME_HELLO, &hello);
	if (r == -EPROTO)
		log_warn("a peer speaks another version of Tributary's RDMA protocol than this host (%s), which "
			 "speaks %u: install the same release on both",
			 listener->transport->host, VERBS_WIRE_VERSION);
	if (r == 0)
		r = verbs_connection_new(listener->transport, VERBS_RECEIVER, listener->device, -1, hello.queue_count,
					 &pending->connection);
	if (r == 0) {
		/* Fewer than asked for: the peer takes its own back when it hears of it. */
		hello.queue_count = pending->connection->queue_count;
		r = verbs_connection_take_hello(pending->connection, &hello);
	}
	if (r < 0)
		return r;
	memcpy(pending->back, hello.back, sizeof(pending->back));
	verbs_wire_put_cookie(pending->back, 0);
	verbs_connection_hello(pending->connection, &hello);
	verbs_wire_put_hello(VERBS_FRAME_WELCOME, &hello, pending->bytes);
	return 1;
}

static int take_ready(struct verbs_pending *pending)
{
	struct verbs_wire_frame frame;
	int r = verbs_control_receive_bytes(pending->in, pending->bytes, &pending->request);

	if (r <= 0)
		return r;
	r = verbs_wire_get_frame(pending->bytes, &frame);
	if (r == 0 && frame.type != VERBS_FRAME_READY)
		r = -EREMOTEIO;
	return r < 0 ? r : 1;
}

static int step(struct verbs_listener *listener, struct verbs_pending *pending)
{
	struct verbs_transport *transport = listener->transport;
	int r;

	switch ((enum step)pending->step) {
	case STEP_HELLO:
		return take_hello(listener, pending);
	case STEP_BACK:
		r = tcp->connect(transport->control, transport->control_devices[listener->device], -1, pending->back,
				 &pending->out);
		return r < 0 ? r : pending->out != NULL;
	case STEP_WELCOME:
		return verbs_control_send_bytes(pending->out, pending->bytes, &pending->request);
	case STEP_READY:
		return take_ready(pending);
	default:
		return -EINVAL;
	}
}

/* 1: it stands. */
static int advance(struct verbs_listener *listener, struct verbs_pending *pending)
{
	enum transport_next next;
	int r = 1;

	while (r > 0 && pending->step != STEP_COUNT) {
		r = step(listener, pending);
		pending->step += r > 0;
	}
	if (r == 0 && pending->step == STEP_BACK)
		r = tcp->progress(pending->in, &next);
	return r;
}

/* Ours, and no stranger's: the caller shall know. */
static bool is_ours(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -EAGAIN;
}

int verbs_acceptor_step(struct verbs_listener *listener, struct verbs_connection **ret)
{
	const uint64_t now_ns = clock_now_ns();
	struct verbs_pending *pending, *next;
	int error = 0, r;

	*ret = NULL;
	do {
		r = admit(listener, now_ns);
	} while (r > 0);
	if (r < 0)
		error = r;
	for (pending = TAILQ_FIRST(&listener->pending); pending && !*ret; pending = next) {
		next = TAILQ_NEXT(pending, link);
		pending->since_ns = now_ns;
		r = advance(listener, pending);
		if (r == 0)
			continue;
		if (r > 0) {
			*ret = pending->connection;
			pthread_mutex_lock(&listener->transport->lock);
			verbs_connection_start(pending->connection, pending->out, pending->in);
			pthread_mutex_unlock(&listener->transport->lock);
			pending->connection = NULL;
			pending->out = pending->in = NULL;
		} else {
			log_info(LOG_NET, "a connection that was being made was given up: %s", strerror(-r));
			if (is_ours(r))
				error = r;
		}
		pending_free(listener, pending);
	}
	return *ret ? 0 : error;
}

void verbs_acceptor_end(struct verbs_listener *listener)
{
	while (!TAILQ_EMPTY(&listener->pending))
		pending_free(listener, TAILQ_FIRST(&listener->pending));
}
