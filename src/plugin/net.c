/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/net.h"

#include "base/log.h"
#include "base/sys.h"
#include "nccl/types.h"
#include "plugin/fork.h"
#include "plugin/report.h"
#include "plugin/result.h"
#include "plugin/steer.h"
#include "plugin/state.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>

/* NCCL's bits are handed to the transport as they are. */
_Static_assert((int)NCCL_POINTER_HOST == (int)TRANSPORT_MEMORY_HOST, "host memory");
_Static_assert((int)NCCL_POINTER_CUDA == (int)TRANSPORT_MEMORY_CUDA, "CUDA memory");
_Static_assert((int)NCCL_POINTER_DMABUF == (int)TRANSPORT_MEMORY_DMABUF, "DMA-BUF memory");
_Static_assert((int)NCCL_HANDLE_BYTES == (int)TRANSPORT_HANDLE_BYTES, "size of a handle");
_Static_assert((int)NCCL_MAX_REQUESTS == (int)TRANSPORT_MAX_REQUESTS, "requests of a connection");
_Static_assert(NCCL_MAX_MESSAGE_BYTES == TRANSPORT_MAX_MESSAGE_BYTES, "the longest message");

/* Devices in the line are the ones that NCCL is shown; a process has few. */
static void say_devices(void)
{
	struct plugin_net_properties devices[PLUGIN_MAX_DEVICES];
	char text[PLUGIN_REPORT_BYTES];
	int count = 0, known = 0;

	if (plugin_state_device_count(&count) < 0)
		return;
	for (int i = 0; i < count && known < PLUGIN_MAX_DEVICES; i++) {
		if (plugin_state_device(i, &devices[known]) == 0)
			known++;
	}
	plugin_report_line(plugin_state_ops()->name, plugin_state_params(), known, devices, text);
	log_info(LOG_INIT, "%s", text);
}

static void say_what_is_used(void)
{
	const struct plugin_choice *choice = plugin_state_choice();
	char text[PLUGIN_REPORT_BYTES];

	if (choice->ours)
		say_devices();
	if (!choice->reason[0])
		return;
	plugin_report_reason(choice, text);
	log_info(LOG_INIT, "%s", text);
}

enum nccl_result plugin_net_init_process(nccl_debug_logger *logger)
{
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	plugin_state_log_hold(logger, true);
	log_collect();
	r = plugin_state_get_for_good();
	if (r == -ENODEV && !plugin_state_choice()->ours)
		r = 0; /* a failed init would make NCCL warn; no devices is its way to be told */
	if (r == 0)
		steer_begin_process();
	if (r == 0)
		say_what_is_used();
	log_flush();
	errno = saved_errno;
	return plugin_result(r);
}

static int traffic_class_check(int traffic_class, int *ret)
{
	if (traffic_class > PLUGIN_NET_GREATEST_TRAFFIC_CLASS) {
		log_warn("Traffic class %d is above %d", traffic_class, PLUGIN_NET_GREATEST_TRAFFIC_CLASS);
		return -EINVAL;
	}
	*ret = traffic_class < 0 ? PLUGIN_NET_NO_TRAFFIC_CLASS : traffic_class;
	return 0;
}

enum nccl_result plugin_net_init(uint64_t comm_id, int traffic_class, nccl_debug_logger *logger, void **ret_context)
{
	int saved_errno = errno, r;
	struct plugin_net_context *context;
	struct transport *transport;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	plugin_state_log_hold(logger, false);
	log_collect();
	plugin_state_load();
	context = sys_zalloc(sizeof(*context));
	if (!context) {
		log_flush();
		plugin_state_log_put();
		errno = saved_errno;
		return plugin_result(-ENOMEM);
	}
	context->comm_id = comm_id;
	r = traffic_class_check(traffic_class, &context->traffic_class);
	if (r < 0)
		goto fail;
	if (plugin_state_choice()->ours) {
		r = plugin_state_get(&transport);
		if (r < 0)
			goto fail;
		context->holds_transport = true;
	}
	steer_begin(comm_id);
	say_what_is_used();
	if (!plugin_state_choice()->ours) {
		/*
		 * NCCL declines the communicator with getProperties, finalizes, keeps the pointer, and NCCL 2.28's own
		 * InfiniBand frees it once more when it cannot start either: so there is none.
		 */
		plugin_state_log_hold(logger, true);
		plugin_net_finalize(context);
		context = NULL;
	}
	*ret_context = context;
	log_flush();
	errno = saved_errno;
	return NCCL_SUCCESS;
fail:
	plugin_net_finalize(context);
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_finalize(void *ended)
{
	struct plugin_net_context *context = ended;
	int saved_errno = errno;

	if (plugin_is_forked() || !context)
		return NCCL_SUCCESS;
	log_collect();
	if (context->holds_transport)
		plugin_state_put();
	sys_free(context);
	plugin_state_log_put();
	log_flush();
	errno = saved_errno;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_net_check(void)
{
	return plugin_is_forked() ? plugin_result(-ECHILD) : NCCL_SUCCESS;
}

enum nccl_result plugin_net_devices(int *ret_count)
{
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	log_collect();
	r = plugin_state_device_count(ret_count);
	/* One, whose properties then fail: with none NCCL would tell this plugin of no further communicator. */
	if (r == 0 && !plugin_state_choice()->ours && steer_wants_communicators())
		*ret_count = 1;
	log_flush();
	errno = saved_errno;
	return plugin_result(r);
}

int plugin_net_properties(int device, struct plugin_net_properties *ret)
{
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return -ECHILD;
	log_collect();
	r = plugin_state_device(device, ret);
	log_flush();
	errno = saved_errno;
	return r;
}

enum nccl_result plugin_net_join(int count, const int *members, int *ret_device)
{
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	log_collect();
	r = plugin_state_join(count, members, ret_device);
	log_flush();
	errno = saved_errno; /* NCCL asks for the devices when it has joined all */
	return plugin_result(r);
}

/*
 * NCCL's void ** and our pointers to objects have the same representation, but not the same type, and writing through
 * the wrong one would break C's aliasing rules: so each output has a variable of its own type.
 */
enum nccl_result plugin_net_listen(int device, void *handle, void **ret_listener)
{
	struct transport_listener *listener;
	struct transport *transport;
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	log_collect();
	r = plugin_state_get(&transport);
	if (r == 0) {
		r = plugin_state_served(device);
		if (r >= 0)
			r = plugin_state_ops()->listen(transport, r, handle, &listener);
		if (r < 0)
			plugin_state_put();
	}
	log_flush();
	if (r == 0)
		*ret_listener = listener;
	errno = saved_errno;
	return plugin_result(r);
}

/*
 * Between hosts nothing but this shows that all ranks follow the same table (steer/tuning.h). With another one NCCL would
 * choose differently there, and wait without end.
 */
static int tuning_check(const uint8_t *handle)
{
	const uint64_t own = plugin_state_params()->tuning_told, other = tcp_wire_peek_tuning(handle);
	char host[TCP_WIRE_HOST_BYTES];
	uint16_t version;

	if (own == other)
		return 0;
	tcp_wire_peek_host(handle, host, &version);
	log_warn("A peer on host %s does not follow the same tuning table as this one: give all ranks the same "
		 "TRIBUTARY_TUNING, TRIBUTARY_TUNER, NCCL_TUNER_PLUGIN, NCCL_ALGO and NCCL_PROTO (mpirun -x NAME)",
		 host);
	return -EPROTO;
}

enum nccl_result plugin_net_connect(int device, int traffic_class, void *handle, void **ret_connection)
{
	int saved_errno = errno, r;
	struct transport_connection *connection = NULL;
	struct transport *transport;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = traffic_class_check(traffic_class, &traffic_class);
	if (r < 0)
		return plugin_result(r);
	log_collect();
	r = plugin_state_get(&transport);
	if (r == 0) {
		r = plugin_state_served(device);
		if (r >= 0)
			r = plugin_state_ops()->connect(transport, r, traffic_class, handle, &connection);
		if (r == 0 && tuning_check(handle) < 0) { /* it is a handle of ours */
			plugin_state_ops()->close_connection(connection);
			connection = NULL;
			r = -EPROTO;
		}
		if (r < 0 || !connection)
			plugin_state_put(); /* a connection holds the transport, a way to it does not */
	}
	log_flush();
	if (r == 0)
		*ret_connection = connection;
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_accept(void *listener, void **ret_connection)
{
	int saved_errno = errno, r;
	struct transport_connection *connection = NULL;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = plugin_state_ops()->accept(listener, &connection);
	if (r == 0) {
		if (connection)
			plugin_state_hold(); /* the listener holds it too */
		*ret_connection = connection;
	}
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_register(void *connection, void *data, size_t bytes, int memory, void **ret_registration)
{
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = plugin_state_ops()->memory_register(connection, data, bytes, (unsigned)memory, ret_registration);
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_register_dmabuf(void *connection, void *data, size_t bytes, int memory, uint64_t offset,
					    int fd, void **ret_registration)
{
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = plugin_state_ops()->memory_register_dmabuf(connection, data, bytes, (unsigned)memory, offset, fd,
						       ret_registration);
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_deregister(void *connection, void *registration)
{
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = plugin_state_ops()->memory_deregister(connection, registration);
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_send(void *connection, void *data, size_t bytes, int tag, void *registration,
				 void **ret_request)
{
	struct transport_request *request;
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = plugin_state_ops()->send(connection, data, bytes, tag, registration, &request);
	if (r == 0)
		*ret_request = request;
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_receive(void *connection, int count, void **data, size_t *bytes, int *tags,
				    void **registrations, void **ret_request)
{
	struct transport_request *request;
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	if (count < 1 || count > TRANSPORT_MAX_RECVS)
		return plugin_result(-EINVAL);
	r = plugin_state_ops()->receive(connection, count, data, bytes, tags, registrations, &request);
	if (r == 0)
		*ret_request = request;
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_flush(void *connection, int count, void **data, const size_t *bytes, void **registrations,
				  void **ret_request)
{
	struct transport_request *request;
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = plugin_state_ops()->flush(connection, count, data, bytes, registrations, &request);
	if (r == 0)
		*ret_request = request;
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_test(void *request, int *ret_done, int *ret_sizes)
{
	size_t sizes[TRANSPORT_MAX_RECVS];
	int saved_errno = errno, r;
	bool is_done = false;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	/* How many sizes there are only the transport knows: the ones it does not write keep this mark. */
	for (int i = 0; i < TRANSPORT_MAX_RECVS; i++)
		sizes[i] = SIZE_MAX;
	r = plugin_state_ops()->test(request, &is_done, sizes);
	if (r == 0) {
		*ret_done = is_done;
		for (int i = 0; is_done && ret_sizes && i < TRANSPORT_MAX_RECVS && sizes[i] != SIZE_MAX; i++)
			ret_sizes[i] = sizes[i] > INT_MAX ? INT_MAX : (int)sizes[i];
	}
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_net_close_connection(void *connection)
{
	int saved_errno = errno;

	if (plugin_is_forked() || !connection)
		return NCCL_SUCCESS;
	plugin_state_ops()->close_connection(connection);
	plugin_state_put();
	errno = saved_errno;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_net_close_listener(void *listener)
{
	int saved_errno = errno;

	if (plugin_is_forked() || !listener)
		return NCCL_SUCCESS;
	plugin_state_ops()->close_listener(listener);
	plugin_state_put();
	errno = saved_errno;
	return NCCL_SUCCESS;
}
