/* SPDX-License-Identifier: Apache-2.0 */
#include "support/link.h"

#include "support/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STALL_MS = 1000, TRIES = 5 };

static int try_to_open(const struct transport_ops *ops, struct transport *transport, int device, struct link *link)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	int r;

	memset(link, 0, sizeof(*link));
	link->ops = ops;
	r = ops->listen(transport, device, link->handle, &link->listener);
	while (r == 0 && !(link->sender && link->receiver)) {
		if (!link->sender)
			r = ops->connect(transport, device, -1, link->handle, &link->sender);
		if (r == 0 && !link->receiver)
			r = ops->accept(link->listener, &link->receiver);
		if (r == 0 && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
	}
	return r;
}

/*
 * A connect takes milliseconds; one that ran into its time-out, or whose handle is forgotten after that, met a machine that stood
 * still, or it will again.
 */
int link_open(const struct transport_ops *ops, struct transport *transport, int device, struct link *link)
{
	uint64_t began_ns;
	int r;

	for (unsigned try = 1;; try++) {
		began_ns = runtime_now_ns();
		r = try_to_open(ops, transport, device, link);
		if ((r != -EREMOTEIO && r != -EINVAL) || try == TRIES || runtime_now_ns() - began_ns < STALL_MS * UINT64_C(1000000))
			return r;
		link_close(link);
	}
}

void link_close(struct link *link)
{
	if (!link->ops)
		return;
	if (link->sender)
		link->ops->close_connection(link->sender);
	if (link->receiver)
		link->ops->close_connection(link->receiver);
	if (link->listener)
		link->ops->close_listener(link->listener);
	memset(link, 0, sizeof(*link));
}

int link_connect(const struct transport_ops *ops, struct transport *transport, int device, uint8_t *handle,
		 struct transport_connection **ret)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_connection *sender = NULL;
	int r = 0;

	while (r == 0 && !sender) {
		r = ops->connect(transport, device, -1, handle, &sender);
		if (r == 0 && !sender && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
		runtime_nap();
	}
	if (r == 0)
		*ret = sender;
	return r;
}

int link_accept(const struct transport_ops *ops, struct transport_listener *listener, struct transport_connection **ret)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_connection *receiver = NULL;
	int r = 0;

	while (r == 0 && !receiver) {
		r = ops->accept(listener, &receiver);
		if (r == 0 && !receiver && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
		runtime_nap();
	}
	if (r == 0)
		*ret = receiver;
	return r;
}

int link_finish(const struct transport_ops *ops, struct transport_request *request, size_t *sizes)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	bool done = false;
	int r = 0;

	while (r == 0 && !done) {
		r = ops->test(request, &done, sizes);
		if (r == 0 && !done && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
		runtime_nap();
	}
	return r;
}

int link_send(const struct transport_ops *ops, struct transport_connection *sender, void *data, size_t bytes, int tag)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *request = NULL;
	int r = 0;

	while (r == 0 && !request) {
		r = ops->send(sender, data, bytes, tag, NULL, &request);
		if (r == 0 && !request && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
	}
	return r < 0 ? r : link_finish(ops, request, NULL);
}

int link_receive(const struct transport_ops *ops, struct transport_connection *receiver, void *data, size_t bytes,
		 int tag, size_t *ret_bytes)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *request = NULL;
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	void *registration = NULL;
	int r = 0;

	while (r == 0 && !request) {
		r = ops->receive(receiver, 1, &data, &bytes, &tag, &registration, &request);
		if (r == 0 && !request && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
	}
	if (r == 0)
		r = link_finish(ops, request, sizes);
	if (r == 0 && ret_bytes)
		*ret_bytes = sizes[0];
	return r;
}

/* Both requests to their end, in turn; *request becomes NULL when it is done. */
static int step_both(const struct transport_ops *ops, struct transport_request **send,
		     struct transport_request **receive, size_t *sizes)
{
	bool done = false;
	int r = 0;

	if (*send) {
		r = ops->test(*send, &done, NULL);
		if (done)
			*send = NULL;
	}
	if (r == 0 && *receive) {
		done = false;
		r = ops->test(*receive, &done, sizes);
		if (done)
			*receive = NULL;
	}
	return r;
}

int link_finish_both(const struct transport_ops *ops, struct transport_request *send, struct transport_request *receive)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	int r = 0;

	while (r == 0 && (send || receive)) {
		r = step_both(ops, &send, &receive, NULL);
		if (r == 0 && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
	}
	return r;
}

static int exchange(struct link *link, void *sent, void *received, size_t bytes)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *send = NULL, *receive = NULL;
	size_t sizes[TRANSPORT_MAX_RECVS] = { 0 };
	void *registration = NULL;
	bool send_posted = false, receive_posted = false;
	int tag = 7, r = 0;

	while (r == 0 && (!send_posted || !receive_posted || send || receive)) {
		if (!receive_posted) {
			r = link->ops->receive(link->receiver, 1, &received, &bytes, &tag, &registration, &receive);
			receive_posted = receive != NULL;
		}
		if (r == 0 && !send_posted) {
			r = link->ops->send(link->sender, sent, bytes, tag, NULL, &send);
			send_posted = send != NULL;
		}
		if (r == 0)
			r = step_both(link->ops, &send, &receive, sizes);
		if (r == 0 && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
	}
	if (r == 0 && sizes[0] != bytes)
		r = runtime_complain(EBADMSG, "%zu bytes sent, %zu received", bytes, sizes[0]);
	return r;
}

int link_exchange(struct link *link, size_t bytes, uint64_t seed)
{
	uint8_t *sent = malloc(bytes + 1), *received = malloc(bytes + 1);
	size_t wrong_at;
	int r = -ENOMEM;

	if (!sent || !received)
		goto out;
	pattern_fill(sent, bytes, seed);
	memset(received, 0, bytes);
	r = exchange(link, sent, received, bytes);
	wrong_at = r == 0 ? pattern_wrong_at(received, bytes, seed) : SIZE_MAX;
	if (wrong_at != SIZE_MAX)
		r = runtime_complain(EBADMSG, "byte %zu of %zu is wrong", wrong_at, bytes);
out:
	free(sent);
	free(received);
	return r;
}
