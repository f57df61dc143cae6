/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/service.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int transport_service_start(struct transport_service *service, void *(*run)(void *), void *arg, const char *name)
{
	int r;

	if (service->runs)
		return 0;
	service->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service->wake_fd < 0)
		return -errno;
	service->stop = false;
	r = sys_thread_start(run, arg, name, &service->thread);
	if (r < 0) {
		log_warn("cannot start the service thread: %s", strerror(-r));
		sys_close(&service->wake_fd);
		return r;
	}
	service->runs = true;
	return 0;
}

void transport_service_wake(const struct transport_service *service)
{
	uint64_t one = 1;

	if (service->wake_fd >= 0 && write(service->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it is awake anyway */
}

void transport_service_stop(struct transport_service *service)
{
	bool runs;

	pthread_mutex_lock(service->lock);
	runs = service->runs;
	service->stop = true;
	pthread_mutex_unlock(service->lock);
	if (!runs)
		return;
	transport_service_wake(service);
	pthread_join(service->thread, NULL);
	service->runs = false;
	sys_close(&service->wake_fd);
}
