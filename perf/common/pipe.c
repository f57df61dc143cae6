/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int pipe_open(struct pipe *pipe, struct endpoint *endpoint, void *comm, int fd, bool out, size_t slice_bytes)
{
	const size_t bytes = PIPE_SLOTS * slice_bytes;
	int r;

	*pipe = (struct pipe){
		.endpoint = endpoint, .comm = comm, .fd = endpoint ? -1 : fd, .out = out, .slice_bytes = slice_bytes
	};
	pipe->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pipe->memory == MAP_FAILED) {
		pipe->memory = NULL;
		return -ENOMEM;
	}
	memset(pipe->memory, 0, bytes);
	if (!endpoint)
		return 0;
	r = netplugin_reg(endpoint->plugin, comm, pipe->memory, bytes, NCCL_POINTER_HOST, &pipe->mhandle);
	return r == NCCL_SUCCESS ? 0 : endpoint_failed(endpoint, "regMr", r);
}

void pipe_close(struct pipe *pipe)
{
	struct netplugin *plugin = pipe->endpoint ? pipe->endpoint->plugin : NULL;

	if (plugin && pipe->mhandle)
		netplugin_dereg(plugin, pipe->comm, pipe->mhandle);
	if (plugin && pipe->comm && pipe->out)
		netplugin_close_send(plugin, pipe->comm);
	else if (plugin && pipe->comm)
		netplugin_close_recv(plugin, pipe->comm);
	else if (!plugin && pipe->memory && pipe->fd >= 0)
		close(pipe->fd);
	if (pipe->memory)
		munmap(pipe->memory, PIPE_SLOTS * pipe->slice_bytes);
	*pipe = (struct pipe){ .fd = -1 };
}

static char *slot(struct pipe *pipe, uint64_t message)
{
	return pipe->memory + (size_t)(message % PIPE_SLOTS) * pipe->slice_bytes;
}

char *pipe_room(struct pipe *pipe)
{
	return pipe->kernel - pipe->finished < PIPE_SLOTS ? slot(pipe, pipe->kernel) : NULL;
}

void pipe_push(struct pipe *pipe, size_t bytes)
{
	pipe->sizes[pipe->kernel++ % PIPE_SLOTS] = (uint32_t)bytes;
}

char *pipe_front(struct pipe *pipe)
{
	return pipe->kernel < pipe->finished ? slot(pipe, pipe->kernel) : NULL;
}

void pipe_pop(struct pipe *pipe)
{
	pipe->kernel++;
}

/* Tests the oldest outstanding request. */
static int look(struct pipe *pipe)
{
	uint64_t at = pipe->finished % PIPE_SLOTS;
	int done = 0, size = -1, r;

	if (pipe->finished == pipe->posted)
		return 0;
	r = netplugin_test(pipe->endpoint->plugin, pipe->requests[at], &done, &size);
	if (r != NCCL_SUCCESS)
		return endpoint_failed(pipe->endpoint, "test", r);
	if (!done)
		return 0;
	if (!pipe->out && size != (int)pipe->sizes[at]) {
		fprintf(stderr, "received %d bytes in place of %u\n", size, pipe->sizes[at]);
		return -EPROTO;
	}
	pipe->finished++;
	return 1;
}

static int tcp_step(struct pipe *pipe)
{
	char *at = slot(pipe, pipe->finished) + pipe->moved;
	size_t left = pipe->sizes[pipe->finished % PIPE_SLOTS] - pipe->moved;
	ssize_t n;

	if (pipe->finished == pipe->posted)
		return 0;
	n = pipe->out ? send(pipe->fd, at, left, MSG_NOSIGNAL) : recv(pipe->fd, at, left, 0);
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	pipe->moved += (size_t)n;
	if ((size_t)n == left) {
		pipe->moved = 0;
		pipe->finished++;
	}
	return 1;
}

int pipe_step_out(struct pipe *pipe)
{
	uint64_t at = pipe->posted % PIPE_SLOTS;
	int r, moved = 0;

	if (!pipe->endpoint) {
		pipe->posted = pipe->kernel;
		return tcp_step(pipe);
	}
	if (pipe->posted < pipe->kernel) {
		pipe->requests[at] = NULL;
		r = netplugin_send(pipe->endpoint->plugin, pipe->comm, slot(pipe, pipe->posted), pipe->sizes[at], 0,
				   pipe->mhandle, &pipe->requests[at]);
		if (r != NCCL_SUCCESS)
			return endpoint_failed(pipe->endpoint, "isend", r);
		moved = pipe->requests[at] != NULL;
		pipe->posted += (uint64_t)moved;
	}
	r = look(pipe);
	return r < 0 ? r : moved | r;
}

int pipe_step_in(struct pipe *pipe, const uint32_t *expected, uint64_t count, uint64_t start)
{
	uint64_t at = pipe->posted % PIPE_SLOTS, index = pipe->posted - start;
	size_t bytes = pipe->slice_bytes; /* as NCCL does: room for a whole slice, whatever comes */
	void *data = slot(pipe, pipe->posted);
	int tag = 0, r, moved = 0;

	if (index < count && pipe->posted - pipe->kernel < PIPE_SLOTS) {
		pipe->sizes[at] = expected[index];
		if (!pipe->endpoint) {
			pipe->posted++;
		} else {
			pipe->requests[at] = NULL;
			r = netplugin_receive(pipe->endpoint->plugin, pipe->comm, 1, &data, &bytes, &tag,
					      &pipe->mhandle, &pipe->requests[at]);
			if (r != NCCL_SUCCESS)
				return endpoint_failed(pipe->endpoint, "irecv", r);
			moved = pipe->requests[at] != NULL;
			pipe->posted += (uint64_t)moved;
		}
	}
	r = pipe->endpoint ? look(pipe) : tcp_step(pipe);
	return r < 0 ? r : moved | r;
}
