/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/collnet.h"

#include "base/log.h"
#include "base/sys.h"
#include "plugin/env.h"
#include "plugin/fork.h"
#include "plugin/result.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "plugin/steer/agreed.h"
#include "plugin/steer/wiring.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)NCCL_HANDLE_BYTES == (int)AGGREGATE_HANDLE_BYTES, "size of a handle");
_Static_assert((int)NCCL_MAX_REQUESTS == (int)AGGREGATE_MAX_REQUESTS, "requests of a group");
_Static_assert(AGGREGATE_MAX_BYTES <= NCCL_MAX_MESSAGE_BYTES, "the longest operation");

struct plugin_collnet_context {
	uint64_t comm_id;
};

struct plugin_collnet_listener {
	struct aggregate_listener *listener; /* NULL: there is none, as its handle says */
	uint64_t comm_id;                    /* 0: NCCL does not say */
};

/* ---------------------------------------------------------------------------------------------- communicators, devices */

enum nccl_result plugin_collnet_init_process(nccl_debug_logger *logger)
{
	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	plugin_state_log_hold(logger, true);
	return NCCL_SUCCESS;
}

enum nccl_result plugin_collnet_init(void **ret_context, uint64_t comm_id, nccl_debug_logger *logger)
{
	int saved_errno = errno;
	struct plugin_collnet_context *context;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	context = sys_zalloc(sizeof(*context));
	errno = saved_errno;
	if (!context)
		return plugin_result(-ENOMEM);
	plugin_state_log_hold(logger, false);
	context->comm_id = comm_id;
	*ret_context = context;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_collnet_finalize(void *context)
{
	int saved_errno = errno;

	if (!plugin_is_forked() && context) {
		sys_free(context);
		plugin_state_log_put();
	}
	errno = saved_errno;
	return NCCL_SUCCESS;
}

static bool some_take_gpu_memory(int count)
{
	struct plugin_net_properties properties;

	for (int i = 0; i < count; i++)
		if (plugin_state_device(i, &properties) == 0 && properties.memory & ~(unsigned)NCCL_POINTER_HOST)
			return true;
	return false;
}

/*
 * NCCL keeps one entry for the net's and collnet's devices, asks collnet first, whether or not a communicator uses it, and
 * lets stand what was said first. Sums are made by the CPU, so collnet's devices have host memory alone; and with that the
 * net's have no GPUDirect RDMA.
 */
static void tell_of_gpudirect(int count)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (plugin_state_choice()->wants_verbs && some_take_gpu_memory(count) && !atomic_flag_test_and_set(&said))
		log_info(LOG_INIT,
			 "Tributary: NCCL_COLLNET_ENABLE switches GPUDirect RDMA off, for the net too: sums are "
			 "made in host memory, and NCCL takes that to hold for all that these devices carry");
}

enum nccl_result plugin_collnet_devices(int *ret_count)
{
	int saved_errno = errno, r, count = 0;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	log_collect();
	r = plugin_state_device_count(&count);
	/* Unasked, they would end the init where hosts have unlike numbers of them (NCCL 2.30), and cost GPUDirect RDMA. */
	if (r == 0 && !(plugin_state_params()->collnet && plugin_env_wants_collnet()))
		count = 0;
	if (r == 0 && count)
		tell_of_gpudirect(count);
	log_flush();
	if (r == 0)
		*ret_count = count;
	errno = saved_errno;
	return plugin_result(r);
}

int plugin_collnet_properties(int device, struct plugin_net_properties *ret)
{
	int saved_errno = errno, r;

	if (plugin_is_forked())
		return -ECHILD;
	r = plugin_state_device(device, ret);
	if (r == 0) {
		ret->memory &= NCCL_POINTER_HOST;
		ret->force_flush = false;
		ret->max_collective_bytes = AGGREGATE_MAX_BYTES;
	}
	errno = saved_errno;
	return r;
}

/* -------------------------------------------------------------------------------------------------------------- groups */

/*
 * A head that cannot listen must not say so to NCCL, which then leaves the exchange of handles, where all other heads
 * wait for it without end. It hands out a handle that says it, and all heads fail in connect, with the same words.
 */
static const uint8_t failed_mark[8] = { 'T', 'R', 'B', 'f', 'a', 'i', 'l', '1' };
enum { FAILED_TEXT_AT = sizeof(failed_mark), FAILED_TEXT_BYTES = AGGREGATE_HANDLE_BYTES - FAILED_TEXT_AT };

static struct plugin_collnet_listener failed_listener; /* what it is when there is no memory for another */

static void failed_handle_write(int error, uint8_t *handle)
{
	char host[HOST_NAME_MAX + 1] = "", text[FAILED_TEXT_BYTES] = "";

	(void)gethostname(host, sizeof(host) - 1);
	snprintf(text, sizeof(text), "%.64s: %s", host, strerror(error));
	memcpy(handle, failed_mark, sizeof(failed_mark));
	memcpy(handle + FAILED_TEXT_AT, text, sizeof(text));
}

/* False: it is not one. The text came from another host and will be shown, so it is made printable. */
static bool failed_handle_read(const uint8_t *handle, char text[static FAILED_TEXT_BYTES])
{
	if (memcmp(handle, failed_mark, sizeof(failed_mark)) != 0)
		return false;
	memcpy(text, handle + FAILED_TEXT_AT, FAILED_TEXT_BYTES);
	text[FAILED_TEXT_BYTES - 1] = '\0';
	for (char *at = text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return true;
}

static int listen_on(int device, uint8_t *handle, struct aggregate_listener **ret)
{
	struct aggregate_engine *engine;
	int r;

	r = plugin_state_engine_get(&engine);
	if (r < 0)
		return r;
	r = plugin_state_served(device);
	if (r >= 0)
		r = aggregate_listen(engine, r, handle, ret);
	if (r < 0)
		plugin_state_engine_put();
	return r;
}

enum nccl_result plugin_collnet_listen(void *context, int device, void *handle, void **ret_listener)
{
	const struct plugin_collnet_context *communicator = context;
	struct plugin_collnet_listener *listener;
	int saved_errno = errno, r = -ENOMEM;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	listener = sys_zalloc(sizeof(*listener));
	if (listener) {
		listener->comm_id = communicator ? communicator->comm_id : 0;
		r = listen_on(device, handle, &listener->listener);
	}
	if (r == -EINVAL || r == -ENODEV) { /* the same on all hosts, or a mistake of the caller's */
		sys_free(listener);
		goto out;
	}
	if (r < 0)
		failed_handle_write(-r, handle);
	*ret_listener = listener ? listener : &failed_listener;
	r = 0;
out:
	errno = saved_errno;
	return plugin_result(r);
}

/* What a group is, and what the busiest NIC moves of each byte: the ring's figure is 2(n-1)/n. */
static void say_what_is_there(const struct plugin_collnet_listener *listener, const struct aggregate_group *group)
{
	struct aggregate_facts facts;
	char shares[128];

	aggregate_facts(group, &facts);
	snprintf(shares, sizeof(shares), "one host");
	if (facts.hosts > 1)
		snprintf(shares, sizeof(shares), "for each byte %.2f a network card", facts.host_share);
	if (facts.leaves > 1)
		snprintf(shares + strlen(shares), sizeof(shares) - strlen(shares), ", %.2f a leaf's uplink",
			 facts.uplink_share);
	log_info(LOG_INIT,
		 "Tributary, communicator %016llx: AllReduce is aggregated over %zu nodes on %zu hosts in %zu leaves, "
		 "with %zu aggregators: %s",
		 (unsigned long long)listener->comm_id, facts.members, facts.hosts, facts.leaves, facts.aggregators,
		 shares);
	if (facts.unknown_host)
		log_info(LOG_INIT, "Tributary: the cluster file has no host %s, which counts as a leaf of its own",
			 facts.unknown_host);
}

/* The ranks of this host call nothing of collnet, and their tuners have to decide as all others do. */
static int tell_ranks(void *audience, const struct aggregate_facts *facts)
{
	const struct steer_agreed agreed = { .gain_permille = facts->gain_permille,
					     .rank_count = (unsigned)facts->rank_count,
					     .tuning = facts->tuning };

	return steer_collnet_tell(audience, &agreed);
}

/* 0 where it is not known. */
static uint64_t wiring_of(const struct steer_audience *audience)
{
	const char *gpus[STEER_MEMBERS_MAX], *cards[PLUGIN_MAX_DEVICES];
	struct plugin_net_properties properties;
	int count = 0;

	if (plugin_state_device_count(&count) < 0 || count > PLUGIN_MAX_DEVICES)
		return WIRING_UNKNOWN;
	for (int i = 0; i < count; i++) {
		if (plugin_state_device(i, &properties) < 0)
			return WIRING_UNKNOWN;
		cards[i] = properties.pci_path;
	}
	for (size_t i = 0; i < audience->count; i++)
		gpus[i] = audience->at[i].bus_id;
	return wiring_number("", gpus, audience->count, cards, (size_t)count);
}

static int connect_group(struct plugin_collnet_listener *listener, size_t count, const uint8_t *const *handles,
			 struct aggregate_group **ret)
{
	char reason[AGGREGATE_REASON_BYTES] = "this head could not listen";
	struct aggregate_terms terms = { .tell = tell_ranks };
	struct steer_audience audience;
	bool failed = false;
	int r = -EPROTO;

	for (size_t i = 0; i < count && !failed; i++)
		failed = failed_handle_read(handles[i], reason);
	if (!failed && listener->listener) {
		steer_collnet_audience(listener->comm_id, &audience);
		terms.rank_count = audience.count;
		terms.tuning = audience.tuning;
		terms.wiring = wiring_of(&audience);
		terms.arg = &audience;
		aggregate_set_terms(listener->listener, &terms);
		r = aggregate_connect(listener->listener, count, handles, ret, reason);
	}
	if (r < 0) {
		log_collect();
		log_warn("NCCL goes on without collnet, by rings and trees: %s", reason);
		log_flush();
	}
	return r;
}

static atomic_bool was_connected;

bool plugin_collnet_was_connected(void)
{
	return atomic_load(&was_connected);
}

enum nccl_result plugin_collnet_connect(void **handles, int count, int rank, void *listening, void **ret_group)
{
	int saved_errno = errno, r = -EINVAL;
	struct plugin_collnet_listener *listener = listening;
	struct aggregate_group *group;
	const uint8_t **list = NULL;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	if (!listener)
		return plugin_result(-EINVAL);
	if (count >= 1 && rank >= 0 && rank < count) {
		list = sys_zalloc((size_t)count * sizeof(*list));
		r = list ? 0 : -ENOMEM;
	}
	for (int i = 0; r == 0 && i < count; i++)
		list[i] = handles[i];
	if (r == 0)
		r = connect_group(listener, (size_t)count, list, &group);
	sys_free(list);
	if (r == 0) {
		*ret_group = group;
		plugin_state_engine_hold();
		atomic_store(&was_connected, true);
		log_collect();
		say_what_is_there(listener, group);
		log_flush();
	} else {
		/* NCCL calls closeListen after a success only. Closed, it fails the other heads soon. */
		plugin_collnet_close_listener(listener);
	}
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_collnet_close_group(void *group)
{
	int saved_errno = errno;

	if (plugin_is_forked() || !group)
		return NCCL_SUCCESS;
	aggregate_close_group(group);
	plugin_state_engine_put();
	errno = saved_errno;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_collnet_close_listener(void *listening)
{
	struct plugin_collnet_listener *listener = listening;
	int saved_errno = errno;

	if (plugin_is_forked() || !listener)
		return NCCL_SUCCESS;
	if (listener->listener) {
		aggregate_close_listener(listener->listener);
		plugin_state_engine_put();
	}
	if (listener != &failed_listener)
		sys_free(listener);
	errno = saved_errno;
	return NCCL_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------------- operations */

/* NCCL's numbers and ours. What is not here is REDUCE_..._COUNT. */
static enum reduce_type type_of(enum nccl_datatype type)
{
	switch (type) {
	case NCCL_INT8:
		return REDUCE_INT8;
	case NCCL_UINT8:
		return REDUCE_UINT8;
	case NCCL_INT32:
		return REDUCE_INT32;
	case NCCL_UINT32:
		return REDUCE_UINT32;
	case NCCL_INT64:
		return REDUCE_INT64;
	case NCCL_UINT64:
		return REDUCE_UINT64;
	case NCCL_FLOAT16:
		return REDUCE_FLOAT16;
	case NCCL_FLOAT32:
		return REDUCE_FLOAT32;
	case NCCL_FLOAT64:
		return REDUCE_FLOAT64;
	case NCCL_BFLOAT16:
		return REDUCE_BFLOAT16;
	default:
		return REDUCE_TYPE_COUNT;
	}
}

static enum reduce_operation operation_of(enum nccl_redop operation)
{
	switch (operation) {
	case NCCL_SUM:
		return REDUCE_SUM;
	case NCCL_PROD:
		return REDUCE_PROD;
	case NCCL_MAX:
		return REDUCE_MAX;
	case NCCL_MIN:
		return REDUCE_MIN;
	default:
		return REDUCE_OPERATION_COUNT;
	}
}

static bool is_supported(enum nccl_datatype type, enum nccl_redop operation)
{
	return type_of(type) != REDUCE_TYPE_COUNT && operation_of(operation) != REDUCE_OPERATION_COUNT;
}

enum nccl_result plugin_collnet_support(enum nccl_datatype type, enum nccl_redop operation, int *ret_supported)
{
	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	*ret_supported = is_supported(type, operation);
	return NCCL_SUCCESS;
}

/* NCCL has been told what can be done. */
static int check_supported(enum nccl_datatype type, enum nccl_redop operation)
{
	if (is_supported(type, operation))
		return 0;
	log_warn("NCCL asks collnet for operation %d on type %d, which it has been told is not there", (int)operation,
		 (int)type);
	return -EINVAL;
}

enum nccl_result plugin_collnet_register(void *group, void *data, size_t bytes, int memory, void **ret_registration)
{
	int saved_errno = errno, r;
	struct aggregate_memory *registration = NULL;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	/* So NCCL does not use its registered buffers, which are in GPU memory. */
	if (memory != NCCL_POINTER_HOST)
		return plugin_result(-EOPNOTSUPP);
	r = aggregate_register(group, data, bytes, &registration);
	if (r == 0)
		*ret_registration = registration; /* never NULL, which NCCL takes for "not registered" */
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_collnet_register_dmabuf(void *group, void *data, size_t bytes, int memory, uint64_t offset,
						int fd, void **ret_registration)
{
	(void)group;
	(void)data;
	(void)bytes;
	(void)memory;
	(void)offset;
	(void)fd;
	(void)ret_registration;
	return plugin_result(plugin_is_forked() ? -ECHILD : -EOPNOTSUPP); /* as the properties say */
}

enum nccl_result plugin_collnet_deregister(void *group, void *registration)
{
	int saved_errno = errno;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	aggregate_deregister(group, registration);
	errno = saved_errno;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_collnet_reduce_all(void *group, void *send, void *recv, size_t count, enum nccl_datatype type,
					   enum nccl_redop operation, void *send_registration, void *recv_registration,
					   void **ret_request)
{
	struct aggregate_request *request;
	int saved_errno = errno, r;

	(void)send_registration;
	(void)recv_registration;
	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = check_supported(type, operation);
	if (r == 0)
		r = aggregate_reduce_all(group, send, recv, count, type_of(type), operation_of(operation), &request);
	if (r == 0)
		*ret_request = request;
	errno = saved_errno;
	return plugin_result(r);
}

enum nccl_result plugin_collnet_flush(void *group, void *data, int bytes, void *registration, void **ret_request)
{
	(void)group;
	(void)data;
	(void)bytes;
	(void)registration;
	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	*ret_request = NULL;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_collnet_test(void *request, int *ret_done, int *ret_bytes)
{
	int saved_errno = errno, r;
	bool is_done = false;
	size_t bytes = 0;

	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	r = aggregate_test(request, &is_done, &bytes);
	if (r == 0) {
		*ret_done = is_done;
		if (is_done && ret_bytes)
			*ret_bytes = bytes > INT_MAX ? INT_MAX : (int)bytes;
	}
	errno = saved_errno;
	return plugin_result(r);
}
