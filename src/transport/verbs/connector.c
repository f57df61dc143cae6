/*
 * The connecting side. The handle leads to a listener of the TCP transport: over that goes HELLO, with a handle of our own
 * by which the peer comes back; over the way back WELCOME; then READY, and the connection stands at both ends.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <string.h>

static const struct transport_ops *const tcp = &transport_tcp;

enum step { STEP_DIAL, STEP_MAKE, STEP_HELLO, STEP_BACK, STEP_WELCOME, STEP_READY, STEP_COUNT };

static void connector_free(struct verbs_connector *connector)
{
	LIST_REMOVE(connector, link);
	verbs_connection_close(connector->connection);
	if (connector->in)
		tcp->close_connection(connector->in);
	if (connector->out)
		tcp->close_connection(connector->out);
	if (connector->back)
		tcp->close_listener(connector->back);
	sys_free(connector);
}

static int connector_new(struct verbs_transport *transport, int device, int traffic_class,
			 const uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct verbs_connector **ret)
{
	struct verbs_connector *connector = sys_zalloc(sizeof(*connector));
	unsigned version = 0;
	int r;

	if (!connector)
		return -ENOMEM;
	memcpy(connector->handle, handle, TRANSPORT_HANDLE_BYTES);
	connector->device = device;
	connector->traffic_class = traffic_class;
	connector->since_ns = clock_now_ns();
	connector->id = ++transport->next_connector_id;
	LIST_INSERT_HEAD(&transport->connectors, connector, link);
	r = verbs_wire_unmark_handle(connector->handle, &version);
	if (r < 0 && version)
		log_warn("a peer of host %s speaks version %u of Tributary's RDMA protocol, this host %u: install the "
			 "same release on both",
			 transport->host, version, VERBS_WIRE_VERSION);
	else if (r < 0)
		log_warn("a peer of host %s offers TCP where this host wants RDMA: set the same TRIBUTARY_NET on "
			 "all hosts, and see there why it has none",
			 transport->host);
	verbs_wire_put_cookie(connector->handle, 0);
	if (r < 0) {
		connector_free(connector);
		return r;
	}
	*ret = connector;
	return 0;
}

static unsigned queues_of(const struct verbs_transport *transport, int device)
{
	unsigned count = transport->params->qps * transport->devices.list[device].rail_count;

	return count < VERBS_WIRE_QUEUES_MAX ? count : VERBS_WIRE_QUEUES_MAX;
}

static int make(struct verbs_transport *transport, struct verbs_connector *connector)
{
	struct verbs_wire_hello hello;
	int r = verbs_connection_new(transport, VERBS_SENDER, connector->device, connector->traffic_class,
				     queues_of(transport, connector->device), &connector->connection);

	if (r < 0)
		return r;
	verbs_connection_hello(connector->connection, &hello);
	r = tcp->listen(transport->control, transport->control_devices[connector->device], hello.back,
			&connector->back);
	if (r < 0)
		return r;
	verbs_wire_put_hello(VERBS_FRAME_HELLO, &hello, connector->bytes);
	return 1;
}

static int take_welcome(struct verbs_connector *connector)
{
	const struct verbs_wire_frame ready = { .type = VERBS_FRAME_READY };
	struct verbs_wire_hello hello;
	int r = verbs_control_receive_bytes(connector->in, connector->bytes, &connector->request);

	if (r <= 0)
		return r;
	r = verbs_wire_get_hello(connector->bytes, VERBS_FRAME_WELCOME, &hello);
	if (r == 0)
		r = verbs_connection_take_hello(connector->connection, &hello);
	verbs_wire_put_frame(&ready, connector->bytes);
	return r < 0 ? r : 1;
}

/* 1: on to the next. */
static int step(struct verbs_transport *transport, struct verbs_connector *connector)
{
	int r;

	switch ((enum step)connector->step) {
	case STEP_DIAL:
		r = tcp->connect(transport->control, transport->control_devices[connector->device],
				 connector->traffic_class, connector->handle, &connector->out);
		return r < 0 ? r : connector->out != NULL;
	case STEP_MAKE:
		return make(transport, connector);
	case STEP_HELLO:
	case STEP_READY:
		return verbs_control_send_bytes(connector->out, connector->bytes, &connector->request);
	case STEP_BACK:
		r = tcp->accept(connector->back, &connector->in);
		return r < 0 ? r : connector->in != NULL;
	case STEP_WELCOME:
		return take_welcome(connector);
	default:
		return -EINVAL;
	}
}

static int advance(struct verbs_transport *transport, struct verbs_connector *connector)
{
	enum transport_next next;
	int r = 1;

	while (r > 0 && connector->step != STEP_COUNT) {
		r = step(transport, connector);
		connector->step += r > 0;
	}
	/* While we wait for it to come back, its end shows here. */
	if (r == 0 && connector->out)
		r = tcp->progress(connector->out, &next);
	return r;
}

int verbs_connector_step(struct verbs_transport *transport, int device, int traffic_class,
			 uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct verbs_connection **ret)
{
	uint64_t cookie = verbs_wire_get_cookie(handle);
	struct verbs_connector *connector;
	int r;

	for (connector = LIST_FIRST(&transport->connectors); connector && connector->id != cookie;)
		connector = LIST_NEXT(connector, link);
	if (!connector) {
		r = cookie ? -EINVAL : connector_new(transport, device, traffic_class, handle, &connector);
		if (r < 0)
			return r;
		verbs_wire_put_cookie(handle, connector->id);
	}
	connector->since_ns = clock_now_ns();
	r = advance(transport, connector);
	if (r == 0)
		return 0;
	verbs_wire_put_cookie(handle, 0);
	if (r > 0) {
		*ret = connector->connection;
		verbs_connection_start(connector->connection, connector->out, connector->in);
		connector->connection = NULL;
		connector->out = connector->in = NULL;
	}
	connector_free(connector);
	return r == -EBADMSG ? -EREMOTEIO : r < 0 ? r : 0;
}

void verbs_connector_expire(struct verbs_transport *transport, uint64_t now_ns, bool all)
{
	struct verbs_connector *connector, *next;

	for (connector = LIST_FIRST(&transport->connectors); connector; connector = next) {
		next = LIST_NEXT(connector, link);
		if (all || clock_elapsed_ns(connector->since_ns, now_ns) > 2 * transport->params->timeout_ns)
			connector_free(connector);
	}
}
