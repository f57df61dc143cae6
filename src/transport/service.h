/* SPDX-License-Identifier: Apache-2.0 */
/* The one background thread of a transport: starting it, waking it, and ending it. What it does is the transport's. */
#ifndef TRIBUTARY_TRANSPORT_SERVICE_H
#define TRIBUTARY_TRANSPORT_SERVICE_H

#include <pthread.h>
#include <stdbool.h>

struct transport_service {
	pthread_mutex_t *lock; /* the transport's; it guards runs and stop */
	pthread_t thread;
	bool runs, stop;
	int wake_fd; /* an eventfd while it runs, which the thread polls; else -1 */
};

static inline void transport_service_init(struct transport_service *service, pthread_mutex_t *lock)
{
	*service = (struct transport_service){ .lock = lock, .wake_fd = -1 };
}
/* Under the lock. Running already: fine. A thread that cannot be started is said. */
int transport_service_start(struct transport_service *service, void *(*run)(void *), void *arg, const char *name);
void transport_service_wake(const struct transport_service *service);
/* Without the lock. Waits for its end; one that does not run is fine. */
void transport_service_stop(struct transport_service *service);

#endif
