/* Says now and then that somebody is there who has no time to say it. */
#include "clusterprobe/clusterprobe.h"

#include "base/clock.h"
#include "base/sys.h"

#include <poll.h>

enum { NAP_MS = 20 };

static void *keepalive(void *arg)
{
	struct clusterprobe_keepalive *at = arg;

	while (!atomic_load(&at->over)) {
		poll(NULL, 0, NAP_MS);
		if (clock_elapsed_ns(atomic_load(&at->last_ns), clock_now_ns()) < at->every_ns ||
		    pthread_mutex_trylock(&at->lock) != 0)
			continue;
		at->say(at->arg);
		atomic_store(&at->last_ns, clock_now_ns());
		pthread_mutex_unlock(&at->lock);
	}
	return NULL;
}

int clusterprobe_keepalive_start(struct clusterprobe_keepalive *at, uint64_t every_ns, void (*say)(void *arg),
				 void *arg)
{
	int r;

	at->every_ns = every_ns;
	at->say = say;
	at->arg = arg;
	atomic_store(&at->last_ns, clock_now_ns());
	pthread_mutex_init(&at->lock, NULL);
	r = sys_thread_start(keepalive, at, "keepalive", &at->thread);
	if (r < 0)
		pthread_mutex_destroy(&at->lock);
	return r;
}

void clusterprobe_keepalive_pause(struct clusterprobe_keepalive *at)
{
	pthread_mutex_lock(&at->lock);
}

void clusterprobe_keepalive_resume(struct clusterprobe_keepalive *at)
{
	atomic_store(&at->last_ns, clock_now_ns());
	pthread_mutex_unlock(&at->lock);
}

void clusterprobe_keepalive_end(struct clusterprobe_keepalive *at)
{
	atomic_store(&at->over, true);
	pthread_join(at->thread, NULL);
	pthread_mutex_destroy(&at->lock);
}
