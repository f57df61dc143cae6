#include "transport/watch.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int transport_watch_add(int epoll_fd, int fd, uint32_t events, uint64_t key)
{
	struct epoll_event event = { .events = events | EPOLLET, .data.u64 = key };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void transport_watch_remove(int epoll_fd, int fd)
{
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int transport_watch_doorbell(int *ret_fd)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

void transport_watch_ring(int doorbell_fd)
{
	uint64_t one = 1;

	/* Never read: every write is a new edge, and the counter does not fill up in a life-time. */
	if (write(doorbell_fd, &one, sizeof(one)) < 0)
		return;
}
