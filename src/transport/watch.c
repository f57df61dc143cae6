/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/watch.h"

#include "base/sys.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int transport_watch_add(const struct transport_watch *watch, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events | EPOLLET, .data.u64 = watch->key };

	return watch->on && epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void transport_watch_remove(const struct transport_watch *watch, int fd)
{
	if (watch->on && fd >= 0)
		epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int transport_watch_begin(struct transport_watch *watch, int epoll_fd, uint64_t key)
{
	int r;

	if (watch->on)
		return -EBUSY;
	*watch = (struct transport_watch){ true, epoll_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), key };
	r = watch->doorbell_fd < 0 ? -errno : transport_watch_add(watch, watch->doorbell_fd, EPOLLIN);
	if (r < 0)
		transport_watch_end(watch);
	return r;
}

void transport_watch_end(struct transport_watch *watch)
{
	if (!watch->on)
		return;
	transport_watch_remove(watch, watch->doorbell_fd);
	sys_close(&watch->doorbell_fd);
	watch->on = false;
}

void transport_watch_ring(const struct transport_watch *watch)
{
	uint64_t one = 1;

	/* Never read: every write is a new edge, and the counter does not fill up in a life-time. */
	if (watch->on && write(watch->doorbell_fd, &one, sizeof(one)) < 0)
		return;
}
