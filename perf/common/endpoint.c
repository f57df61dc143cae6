/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "clock.h"
#include "oob.h"

struct incoming {
	int32_t from;
	uint8_t handle[NCCL_HANDLE_BYTES];
};

struct incoming_set {
	int32_t count;
	struct incoming links[ENDPOINT_MAX_LINKS];
};

int endpoint_failed(const struct endpoint *endpoint, const char *call, int result)
{
	fprintf(stderr, "%s (v%d): %s failed with result %d\n", netplugin_name(endpoint->plugin),
		netplugin_version(endpoint->plugin), call, result);
	return -EIO;
}

static int join_devices(struct endpoint *endpoint, const char *text)
{
	int members[NETPLUGIN_MAX_MEMBERS], count = 0, device = -1, r;
	char copy[128], *at = copy, *item;

	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, strlen(text) + 1);
	for (item = strtok_r(copy, ",", &at); item; item = strtok_r(NULL, ",", &at))
		if (count == NETPLUGIN_MAX_MEMBERS || args_int(item, &members[count++]) < 0)
			return -EINVAL;
	r = netplugin_make_vdevice(endpoint->plugin, count, members, &device);
	if (r != NCCL_SUCCESS)
		return endpoint_failed(endpoint, "makeVDevice", r);
	endpoint->device = device;
	return 0;
}

int endpoint_open(const struct endpoint_options *options, uint64_t comm_id, struct endpoint *ret_endpoint)
{
	struct endpoint endpoint = { .device = options->device, .timeout_s = options->timeout_s };
	int count = 0, r;

	/* The test-bed's interfaces are virtual ones, and here no NCCL looks for a way to them. */
	if (options->devices)
		setenv("TRIBUTARY_JOIN", "always", 0);
	r = netplugin_open(options->plugin, options->version, &endpoint.plugin);
	if (r < 0)
		return r;
	r = netplugin_init(endpoint.plugin, comm_id, NCCL_TRAFFIC_CLASS_NONE, NULL, &endpoint.context);
	if (r != NCCL_SUCCESS) {
		r = endpoint_failed(&endpoint, "init", r);
		goto fail;
	}
	r = netplugin_devices(endpoint.plugin, &count);
	if (r != NCCL_SUCCESS) {
		r = endpoint_failed(&endpoint, "devices", r);
		goto fail;
	}
	if (options->devices)
		r = join_devices(&endpoint, options->devices);
	if (r == 0 && !options->devices && endpoint.device >= count) {
		fprintf(stderr, "%s: no device %d, there are %d\n", netplugin_name(endpoint.plugin), endpoint.device,
			count);
		r = -ENODEV;
	}
	if (r < 0)
		goto fail;
	r = netplugin_properties(endpoint.plugin, endpoint.device, &endpoint.properties);
	if (r != NCCL_SUCCESS) {
		r = endpoint_failed(&endpoint, "getProperties", r);
		goto fail;
	}
	*ret_endpoint = endpoint;
	return 0;
fail:
	endpoint_close(&endpoint);
	return r;
}

void endpoint_close(struct endpoint *endpoint)
{
	netplugin_finalize(endpoint->context);
	netplugin_close(endpoint->plugin);
	endpoint->context = NULL;
	endpoint->plugin = NULL;
}

static int listen_all(struct endpoint *endpoint, int count, const int *from, struct incoming_set *mine,
		      void **listeners)
{
	int i, r;

	mine->count = count;
	for (i = 0; i < count; i++) {
		mine->links[i].from = from[i];
		r = netplugin_listen(endpoint->context, endpoint->device, mine->links[i].handle, &listeners[i]);
		if (r != NCCL_SUCCESS)
			return endpoint_failed(endpoint, "listen", r);
	}
	return 0;
}

/* The handle that `to` made for the n-th connection from `rank`. */
static uint8_t *find_handle(struct incoming_set *all, int to, int rank, int n)
{
	int i;

	for (i = 0; i < all[to].count; i++)
		if (all[to].links[i].from == rank && n-- == 0)
			return all[to].links[i].handle;
	return NULL;
}

/* One call of connect and accept for whatever is missing; returns how many still are. */
static int step(struct endpoint *endpoint, int to_count, uint8_t **handles, void **sends, int from_count,
		void **listeners, void **receives)
{
	int i, r, missing = 0;

	for (i = 0; i < to_count; i++) {
		if (sends[i])
			continue;
		r = netplugin_connect(endpoint->context, endpoint->device, handles[i], &sends[i]);
		if (r != NCCL_SUCCESS)
			return endpoint_failed(endpoint, "connect", r);
		missing += !sends[i];
	}
	for (i = 0; i < from_count; i++) {
		if (receives[i])
			continue;
		r = netplugin_accept(endpoint->plugin, listeners[i], &receives[i]);
		if (r != NCCL_SUCCESS)
			return endpoint_failed(endpoint, "accept", r);
		missing += !receives[i];
	}
	return missing;
}

static int join_all(struct endpoint *endpoint, struct oob *oob, int to_count, const int *to, struct incoming_set *all,
		    void **sends, int from_count, void **listeners, void **receives)
{
	uint8_t *handles[ENDPOINT_MAX_LINKS];
	uint64_t end_ns = perf_now_ns() + (uint64_t)(endpoint->timeout_s * 1e9);
	int i, k, nth, missing;

	for (i = 0; i < to_count; i++) {
		for (nth = 0, k = 0; k < i; k++)
			nth += to[k] == to[i];
		handles[i] = find_handle(all, to[i], oob->rank, nth);
		if (!handles[i])
			return -EINVAL;
	}
	for (;;) {
		missing = step(endpoint, to_count, handles, sends, from_count, listeners, receives);
		if (missing <= 0)
			return missing;
		if (perf_now_ns() > end_ns) {
			fprintf(stderr, "%s: rank %d still misses %d connections after %.0f s\n",
				netplugin_name(endpoint->plugin), oob->rank, missing, endpoint->timeout_s);
			return -ETIMEDOUT;
		}
		sched_yield();
	}
}

int endpoint_link(struct endpoint *endpoint, struct oob *oob, int to_count, const int *to, int from_count,
		  const int *from, void **ret_send_comms, void **ret_receive_comms)
{
	struct incoming_set mine, *all = calloc((size_t)oob->size, sizeof(*all));
	void *listeners[ENDPOINT_MAX_LINKS] = { NULL };
	void *sends[ENDPOINT_MAX_LINKS] = { NULL }, *receives[ENDPOINT_MAX_LINKS] = { NULL };
	int i, r, close_result;

	memset(&mine, 0, sizeof(mine));
	r = !all ? -ENOMEM : to_count > ENDPOINT_MAX_LINKS || from_count > ENDPOINT_MAX_LINKS ? -EINVAL : 0;
	if (r == 0)
		r = listen_all(endpoint, from_count, from, &mine, listeners);
	if (r == 0)
		r = oob_allgather(oob, &mine, sizeof(mine), all);
	if (r == 0)
		r = join_all(endpoint, oob, to_count, to, all, sends, from_count, listeners, receives);
	if (r == 0) {
		memcpy(ret_send_comms, sends, (size_t)to_count * sizeof(*sends));
		memcpy(ret_receive_comms, receives, (size_t)from_count * sizeof(*receives));
		endpoint->connections += to_count + from_count;
	}
	for (i = 0; i < ENDPOINT_MAX_LINKS; i++) {
		if (!listeners[i])
			continue;
		close_result = netplugin_close_listen(endpoint->plugin, listeners[i]);
		if (r == 0 && close_result != NCCL_SUCCESS)
			r = endpoint_failed(endpoint, "closeListen", close_result);
	}
	free(all);
	return r;
}
