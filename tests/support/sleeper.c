/* SPDX-License-Identifier: Apache-2.0 */
#include "support/sleeper.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	FIRST_KEY = 1000,
	SILENT_MS = 100,
	/*
	 * A dropped packet of the loop device is sent again after 200 ms; a busy machine makes a few more. Who lives on the
	 * beat of another thread has one for every few of hundreds of messages.
	 */
	SILENCES_MAX = 30,
	RUN_MS = 120000,
};

int sleeper_open(struct sleeper *sleeper, const struct transport_ops *ops)
{
	memset(sleeper, 0, sizeof(*sleeper));
	sleeper->ops = ops;
	sleeper->alone = true;
	sleeper->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return sleeper->epoll_fd < 0 ? -errno : 0;
}

int sleeper_add(struct sleeper *sleeper, struct traffic_end *end)
{
	unsigned at = sleeper->count++;

	sleeper->ends[at] = end;
	return sleeper->ops->watch(end->connection, sleeper->epoll_fd, FIRST_KEY + at);
}

static bool is_late(const struct traffic_end *end)
{
	const struct traffic_shape *shape = end->plan->shape;

	return end->steps <= (end->sends ? shape->sender_late : shape->receiver_late);
}

/* Posts and tests until neither gets further. 1: something changed. */
static int settle(struct sleeper *sleeper, unsigned at)
{
	struct traffic_end *end = sleeper->ends[at];
	unsigned posted, completed;
	bool changed = false;
	int r;

	do {
		if (sleeper->done[at])
			return changed;
		posted = end->posted;
		completed = end->completed;
		r = traffic_step(end);
		if (r < 0)
			return r;
		sleeper->done[at] = r == 1;
		changed |= posted != end->posted || completed != end->completed;
	} while (posted != end->posted || completed != end->completed);
	return changed;
}

static int progress(struct sleeper *sleeper, unsigned at)
{
	return sleeper->ops->progress(sleeper->ends[at]->connection, &sleeper->next[at]);
}

/* What was slept through: nobody told, and yet there was something to move. */
static int examine_silence(struct sleeper *sleeper)
{
	struct epoll_event events[SLEEPER_ENDS];
	int r = 0;

	for (unsigned i = 0; i < sleeper->count && r == 0; i++) {
		r = progress(sleeper, i);
		if (r == 0)
			r = settle(sleeper, i);
		if (r == 1 && epoll_wait(sleeper->epoll_fd, events, SLEEPER_ENDS, 0) == 0)
			return runtime_complain(ENOMSG, "%s: the %s slept through something: %u of %u done",
						sleeper->ends[i]->plan->shape->name,
						sleeper->ends[i]->sends ? "sender" : "receiver",
						sleeper->ends[i]->completed, sleeper->ends[i]->total);
		if (r > 0)
			return 0;
	}
	if (r == 0 && ++sleeper->silences > SILENCES_MAX * runtime_slow())
		return runtime_complain(ENOMSG, "%s: %u times nothing for %d ms", sleeper->ends[0]->plan->shape->name,
					sleeper->silences, SILENT_MS);
	return r;
}

static int serve(struct sleeper *sleeper, int timeout_ms, enum transport_next least)
{
	struct epoll_event events[SLEEPER_ENDS];
	int r = 0, count = epoll_wait(sleeper->epoll_fd, events, SLEEPER_ENDS, timeout_ms);

	for (unsigned i = 0; i < sleeper->count && r == 0; i++)
		if (sleeper->next[i] == TRANSPORT_NEXT_NOW || (count == 0 && sleeper->next[i] == least))
			r = progress(sleeper, i);
	for (int i = 0; i < count && r == 0; i++) {
		if (events[i].data.u64 < FIRST_KEY || events[i].data.u64 >= FIRST_KEY + sleeper->count)
			return runtime_complain(EBADMSG, "an event with a key that was never given");
		r = progress(sleeper, (unsigned)(events[i].data.u64 - FIRST_KEY));
	}
	if (r == 0 && count == 0 && timeout_ms == SILENT_MS && sleeper->alone)
		r = examine_silence(sleeper);
	return r;
}

int sleeper_run(struct sleeper *sleeper)
{
	uint64_t deadline_ns = runtime_deadline_ns(RUN_MS);
	bool all = false;
	int r = 0;

	while (r >= 0) {
		enum transport_next least = TRANSPORT_NEXT_EVENT;
		bool busy = false;

		all = true;
		for (unsigned i = 0; i < sleeper->count; i++) {
			r = settle(sleeper, i);
			if (r < 0)
				return r;
			all &= sleeper->done[i];
			busy |= !sleeper->done[i] && is_late(sleeper->ends[i]);
			if (sleeper->next[i] > least)
				least = sleeper->next[i];
		}
		if (all)
			return 0;
		if (runtime_past(deadline_ns))
			return runtime_complain(ETIMEDOUT, "%s: %u of %u", sleeper->ends[0]->plan->shape->name,
						sleeper->ends[0]->completed, sleeper->ends[0]->total);
		r = serve(sleeper,
			  busy || least == TRANSPORT_NEXT_NOW ? 0
			  : least == TRANSPORT_NEXT_SOON      ? 1
							      : SILENT_MS,
			  TRANSPORT_NEXT_SOON);
	}
	return r;
}

void sleeper_close(struct sleeper *sleeper)
{
	if (sleeper->epoll_fd >= 0)
		close(sleeper->epoll_fd);
	sleeper->epoll_fd = -1;
}
