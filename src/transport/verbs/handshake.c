/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection is made. The handle leads to a listener of the TCP transport, to which whoever connects has to prove its
 * secret. Over that connection goes HELLO, with a handle by which the peer comes back; over the way back WELCOME; then READY,
 * and the connection stands at both ends. One step a call, nothing blocks.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/foreign.h"
#include "transport/verbs/handshake.h"

#include <errno.h>
#include <string.h>

static const struct transport_ops *const tcp = &transport_tcp;

enum { PENDING_MAX = 64 };

/* A connection that is being made: a connect() that has not ended, or a peer that has connected and not yet said all. */
struct verbs_handshake {
	TAILQ_ENTRY(verbs_handshake) link;
	enum verbs_role role;
	unsigned step;
	int device, traffic_class;
	uint64_t id, since_ns;                  /* of a connect: the handle's cookie; when it was called last */
	bool over;                              /* it is freed when no thread connects a queue pair of it any more */
	uint8_t handle[TRANSPORT_HANDLE_BYTES]; /* what is dialled: the peer's, or the way back */
	struct transport_listener *back;
	struct transport_connection *in, *out; /* become the connection's own in the end */
	struct verbs_connection *connection;
	struct transport_request *request;
	uint8_t bytes[VERBS_WIRE_FRAME_BYTES];
};

/* ---- steps: 1 when through, 0 not yet ---- */

static int dial(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	int r = tcp->connect(transport->control, transport->control_devices[handshake->device],
			     handshake->traffic_class, handshake->handle, &handshake->out);

	return r < 0 ? r : handshake->out != NULL;
}

static unsigned queues_of(const struct verbs_transport *transport, int device)
{
	unsigned count = transport->params->qps * transport->devices.list[device].rail_count;

	return count < VERBS_WIRE_QUEUES_MAX ? count : VERBS_WIRE_QUEUES_MAX - 1; /* one is the spare */
}

static int make_hello(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	struct verbs_wire_hello hello;
	int r = verbs_connection_new(transport, VERBS_SENDER, handshake->device, handshake->traffic_class,
				     queues_of(transport, handshake->device), &handshake->connection);

	if (r < 0)
		return r;
	verbs_connection_hello(handshake->connection, &hello);
	r = tcp->listen(transport->control, transport->control_devices[handshake->device], hello.back,
			&handshake->back);
	verbs_wire_put_hello(VERBS_FRAME_HELLO, &hello, handshake->bytes);
	return r < 0 ? r : 1;
}

static int say(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	(void)transport;
	return verbs_control_send_bytes(handshake->out, handshake->bytes, &handshake->request);
}

static int await_peer(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	int r = tcp->accept(handshake->back, &handshake->in);

	(void)transport;
	return r < 0 ? r : handshake->in != NULL;
}

static int connected(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	const struct verbs_wire_frame ready = { .type = VERBS_FRAME_READY };
	int r = verbs_connection_connected(handshake->connection);
	struct verbs_wire_hello hello;

	(void)transport;
	if (r <= 0)
		return r;
	if (handshake->role == VERBS_SENDER) {
		verbs_wire_put_frame(&ready, handshake->bytes);
	} else {
		verbs_connection_hello(handshake->connection, &hello);
		verbs_wire_put_hello(VERBS_FRAME_WELCOME, &hello, handshake->bytes);
	}
	return 1;
}

static int take_welcome(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	struct verbs_wire_hello hello;
	int r = verbs_control_receive_bytes(handshake->in, handshake->bytes, &handshake->request);

	(void)transport;
	if (r <= 0)
		return r;
	r = verbs_wire_get_hello(handshake->bytes, VERBS_FRAME_WELCOME, &hello);
	if (r == 0)
		r = verbs_connection_take_hello(handshake->connection, &hello);
	return r < 0 ? r : 1;
}

static int take_hello(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	struct verbs_wire_hello hello;
	int r = verbs_control_receive_bytes(handshake->in, handshake->bytes, &handshake->request);

	if (r <= 0)
		return r;
	r = verbs_wire_get_hello(handshake->bytes, VERBS_FRAME_HELLO, &hello);
	if (r == -EPROTO)
		log_warn("a peer speaks another version of Tributary's RDMA protocol than this host (%s), which "
			 "speaks %u: install the same release on both",
			 transport->host, VERBS_WIRE_VERSION);
	if (r == 0)
		r = verbs_connection_new(transport, VERBS_RECEIVER, handshake->device, -1, hello.queue_count,
					 &handshake->connection);
	if (r == 0) {
		/* Fewer than asked for: the peer takes its own back when it hears of it. */
		hello.queue_count = handshake->connection->queue_count;
		r = verbs_connection_take_hello(handshake->connection, &hello);
	}
	if (r < 0)
		return r;
	memcpy(handshake->handle, hello.back, sizeof(handshake->handle));
	verbs_wire_put_cookie(handshake->handle, 0);
	return 1;
}

static int take_ready(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	struct verbs_wire_frame frame;
	int r = verbs_control_receive_bytes(handshake->in, handshake->bytes, &handshake->request);

	(void)transport;
	if (r <= 0)
		return r;
	r = verbs_wire_get_frame(handshake->bytes, &frame);
	return r < 0 ? r : frame.type == VERBS_FRAME_READY ? 1 : -EREMOTEIO;
}

enum { STEPS = 7 };
static int (*const steps[][STEPS])(struct verbs_transport *transport, struct verbs_handshake *handshake) = {
	[VERBS_SENDER] = { dial, make_hello, say, await_peer, take_welcome, connected, say },
	[VERBS_RECEIVER] = { take_hello, dial, connected, say, take_ready },
};

/* 1: it stands. */
static int advance(struct verbs_transport *transport, struct verbs_handshake *handshake)
{
	struct transport_connection *first = handshake->role == VERBS_SENDER ? handshake->out : handshake->in;
	enum transport_next next;
	int r = 1;

	while (r > 0 && handshake->step < STEPS && steps[handshake->role][handshake->step]) {
		r = steps[handshake->role][handshake->step](transport, handshake);
		handshake->step += r > 0;
	}
	/* While the way back is made, the peer's end shows here. */
	if (r == 0 && first && (handshake->role == VERBS_SENDER || !handshake->out))
		r = tcp->progress(first, &next);
	return r == -EBADMSG ? -EREMOTEIO : r;
}

/* ---- */

static bool is_busy(const struct verbs_handshake *handshake)
{
	const struct verbs_connection *connection = handshake->connection;

	for (unsigned i = 0; connection && i < connection->queue_count; i++)
		if (connection->queues[i].state == VERBS_QUEUE_CONNECTING &&
		    !verbs_try_is_done(&connection->queues[i].try))
			return true;
	return false;
}

/* Waits while it is busy. */
static void handshake_free(struct verbs_handshake *handshake)
{
	verbs_connection_close(handshake->connection);
	if (handshake->in)
		tcp->close_connection(handshake->in);
	if (handshake->out)
		tcp->close_connection(handshake->out);
	if (handshake->back)
		tcp->close_listener(handshake->back);
	sys_free(handshake);
}

/* Under the transport's lock. */
static struct verbs_connection *stands(struct verbs_handshake *handshake)
{
	struct verbs_connection *connection = handshake->connection;

	verbs_connection_start(connection, handshake->out, handshake->in);
	handshake->connection = NULL;
	handshake->out = handshake->in = NULL;
	return connection;
}

/* ---- the connecting side ---- */

static int begin(struct verbs_transport *transport, int device, int traffic_class,
		 const uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct verbs_handshake **ret)
{
	struct verbs_handshake *handshake = sys_zalloc(sizeof(*handshake));
	char line[TRANSPORT_FOREIGN_BYTES];
	unsigned version = 0;
	int r;

	if (!handshake)
		return -ENOMEM;
	memcpy(handshake->handle, handle, TRANSPORT_HANDLE_BYTES);
	r = verbs_wire_unmark_handle(handshake->handle, &version);
	if (r < 0) {
		if (version)
			log_warn(
				"a peer of host %s speaks version %u of Tributary's RDMA protocol, this host %u: install "
				"the same release on both",
				transport->host, version, VERBS_WIRE_VERSION);
		else if (transport_handle_is_nccls(handle, transport->host, "verbs", line))
			log_warn("%s", line);
		else
			log_warn(
				"a peer of host %s offers TCP where this host wants RDMA: set the same TRIBUTARY_NET on "
				"all hosts, and see there why it has none",
				transport->host);
		sys_free(handshake);
		return r;
	}
	verbs_wire_put_cookie(handshake->handle, 0);
	handshake->role = VERBS_SENDER;
	handshake->device = device;
	handshake->traffic_class = traffic_class;
	handshake->id = ++transport->next_connector_id;
	TAILQ_INSERT_TAIL(&transport->connectors, handshake, link);
	*ret = handshake;
	return 0;
}

int verbs_handshake_connect(struct verbs_transport *transport, int device, int traffic_class,
			    uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct verbs_connection **ret)
{
	uint64_t cookie = verbs_wire_get_cookie(handle);
	struct verbs_handshake *handshake;
	int r;

	for (handshake = TAILQ_FIRST(&transport->connectors); handshake && handshake->id != cookie;)
		handshake = TAILQ_NEXT(handshake, link);
	if (!handshake) {
		r = cookie ? -EINVAL : begin(transport, device, traffic_class, handle, &handshake);
		if (r < 0)
			return r;
		verbs_wire_put_cookie(handle, handshake->id);
	}
	handshake->since_ns = clock_now_ns();
	r = advance(transport, handshake);
	if (r == 0)
		return 0;
	verbs_wire_put_cookie(handle, 0);
	if (r > 0)
		*ret = stands(handshake);
	handshake->id = UINT64_MAX;
	handshake->over = true;
	if (!is_busy(handshake)) {
		TAILQ_REMOVE(&transport->connectors, handshake, link);
		handshake_free(handshake);
	}
	return r < 0 ? r : 0;
}

void verbs_handshake_expire(struct verbs_transport *transport, uint64_t now_ns, bool all)
{
	struct verbs_handshake *handshake, *next;

	for (handshake = TAILQ_FIRST(&transport->connectors); handshake; handshake = next) {
		next = TAILQ_NEXT(handshake, link);
		handshake->over |= clock_elapsed_ns(handshake->since_ns, now_ns) > 2 * transport->params->timeout_ns;
		if (!all && (!handshake->over || is_busy(handshake)))
			continue;
		TAILQ_REMOVE(&transport->connectors, handshake, link);
		handshake_free(handshake);
	}
}

/* ---- the accepting side ---- */

static void pending_free(struct verbs_listener *listener, struct verbs_handshake *handshake)
{
	TAILQ_REMOVE(&listener->pending, handshake, link);
	listener->pending_count--;
	handshake_free(handshake);
}

static int admit(struct verbs_listener *listener)
{
	struct transport_connection *in = NULL;
	struct verbs_handshake *handshake;
	int r;

	if (listener->pending_count == PENDING_MAX)
		return 0; /* they wait at TCP's listener */
	r = tcp->accept(listener->control, &in);
	if (r < 0 || !in)
		return r;
	handshake = sys_zalloc(sizeof(*handshake));
	if (!handshake) {
		tcp->close_connection(in);
		return -ENOMEM;
	}
	handshake->role = VERBS_RECEIVER;
	handshake->device = listener->device;
	handshake->traffic_class = -1;
	handshake->in = in;
	TAILQ_INSERT_TAIL(&listener->pending, handshake, link);
	listener->pending_count++;
	return 1;
}

/* Ours, and no stranger's: the caller shall know. */
static bool is_ours(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -EAGAIN;
}

int verbs_handshake_accept(struct verbs_listener *listener, struct verbs_connection **ret)
{
	struct verbs_handshake *handshake, *next;
	int error, r;

	*ret = NULL;
	do {
		error = admit(listener);
	} while (error > 0);
	for (handshake = TAILQ_FIRST(&listener->pending); handshake && !*ret; handshake = next) {
		next = TAILQ_NEXT(handshake, link);
		if (handshake->over) {
			if (!is_busy(handshake))
				pending_free(listener, handshake);
			continue;
		}
		r = advance(listener->transport, handshake);
		if (r == 0)
			continue;
		if (r > 0) {
			pthread_mutex_lock(&listener->transport->lock);
			*ret = stands(handshake);
			pthread_mutex_unlock(&listener->transport->lock);
		} else {
			log_info(LOG_NET, "a connection that was being made was given up: %s", strerror(-r));
			if (is_ours(r))
				error = r;
		}
		handshake->over = true;
		if (!is_busy(handshake))
			pending_free(listener, handshake);
	}
	return *ret ? 0 : error;
}

void verbs_handshake_end(struct verbs_listener *listener)
{
	while (!TAILQ_EMPTY(&listener->pending))
		pending_free(listener, TAILQ_FIRST(&listener->pending));
}
