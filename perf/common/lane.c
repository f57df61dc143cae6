/* SPDX-License-Identifier: Apache-2.0 */
#include "lane.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int lane_open_plugin(struct lane *lane, struct endpoint *endpoint, void *comm, bool out, void *memory, size_t bytes)
{
	int r;

	*lane = (struct lane){ .endpoint = endpoint, .comm = comm, .fd = -1, .out = out, .done = true };
	r = netplugin_reg(endpoint->plugin, comm, memory, bytes, NCCL_POINTER_HOST, &lane->mhandle);
	return r == NCCL_SUCCESS ? 0 : endpoint_failed(endpoint, "regMr", r);
}

void lane_open_tcp(struct lane *lane, int fd, bool out)
{
	*lane = (struct lane){ .fd = fd, .out = out, .done = true };
}

void lane_close(struct lane *lane)
{
	struct netplugin *plugin = lane->endpoint ? lane->endpoint->plugin : NULL;

	if (lane->fd >= 0)
		close(lane->fd);
	if (plugin && lane->mhandle)
		netplugin_dereg(plugin, lane->comm, lane->mhandle);
	if (plugin && lane->comm && lane->out)
		netplugin_close_send(plugin, lane->comm);
	else if (plugin && lane->comm)
		netplugin_close_recv(plugin, lane->comm);
	*lane = (struct lane){ .fd = -1 };
}

void lane_begin(struct lane *lane, char *data, size_t bytes)
{
	lane->data = data;
	lane->bytes = bytes;
	lane->moved = 0;
	lane->request = NULL;
	lane->done = false;
}

static int post(struct lane *lane)
{
	struct netplugin *plugin = lane->endpoint->plugin;
	void *data = lane->data;
	int tag = 0, r;

	if (lane->out)
		r = netplugin_send(plugin, lane->comm, lane->data, lane->bytes, tag, lane->mhandle, &lane->request);
	else
		r = netplugin_receive(plugin, lane->comm, 1, &data, &lane->bytes, &tag, &lane->mhandle, &lane->request);
	if (r != NCCL_SUCCESS)
		return endpoint_failed(lane->endpoint, lane->out ? "isend" : "irecv", r);
	return lane->request != NULL;
}

static int step_plugin(struct lane *lane)
{
	int done = 0, size = -1, r;

	if (!lane->request)
		return post(lane);
	r = netplugin_test(lane->endpoint->plugin, lane->request, &done, &size);
	if (r != NCCL_SUCCESS)
		return endpoint_failed(lane->endpoint, "test", r);
	if (!done)
		return 0;
	lane->request = NULL;
	lane->done = true;
	if (!lane->out && size != (int)lane->bytes) {
		fprintf(stderr, "received %d bytes in place of %zu\n", size, lane->bytes);
		return -EPROTO;
	}
	return 1;
}

static int step_tcp(struct lane *lane)
{
	char *at = lane->data + lane->moved;
	size_t left = lane->bytes - lane->moved;
	ssize_t n = lane->out ? send(lane->fd, at, left, MSG_NOSIGNAL) : recv(lane->fd, at, left, 0);

	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	lane->moved += (size_t)n;
	lane->done = lane->moved == lane->bytes;
	return 1;
}

int lane_step(struct lane *lane)
{
	if (lane->done)
		return 0;
	return lane->endpoint ? step_plugin(lane) : step_tcp(lane);
}
