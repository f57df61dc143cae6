/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/aggregator/share.h"

#include <string.h>

void aggregator_share_init(struct aggregator_share *share, uint64_t most_bytes, uint64_t quantum_bytes)
{
	memset(share, 0, sizeof(*share));
	pthread_mutex_init(&share->lock, NULL);
	share->most_bytes = most_bytes;
	share->quantum_bytes = quantum_bytes;
}

void aggregator_share_fini(struct aggregator_share *share)
{
	pthread_mutex_destroy(&share->lock);
}

void aggregator_share_join(struct aggregator_share *share, struct aggregator_share_user *user, void (*wake)(void *arg),
			   void *arg)
{
	pthread_mutex_lock(&share->lock);
	*user = (struct aggregator_share_user){ .share = share, .next = share->users, .wake = wake, .arg = arg };
	share->users = user;
	pthread_mutex_unlock(&share->lock);
}

static void wake_waiting(struct aggregator_share *share)
{
	for (struct aggregator_share_user *user = share->users; user; user = user->next)
		if (user->waits)
			user->wake(user->arg);
}

void aggregator_share_leave(struct aggregator_share_user *user)
{
	struct aggregator_share *share = user->share;

	if (!share)
		return;
	pthread_mutex_lock(&share->lock);
	for (struct aggregator_share_user **link = &share->users; *link; link = &(*link)->next) {
		if (*link != user)
			continue;
		*link = user->next;
		break;
	}
	user->share = NULL;
	wake_waiting(share);
	pthread_mutex_unlock(&share->lock);
}

/* The clock of the one that waits and has had the least; UINT64_MAX: nobody else waits. */
static uint64_t least_served(const struct aggregator_share *share, const struct aggregator_share_user *but)
{
	uint64_t least = UINT64_MAX;

	for (const struct aggregator_share_user *user = share->users; user; user = user->next)
		if (user != but && user->waits && user->served_bytes < least)
			least = user->served_bytes;
	return least;
}

void aggregator_share_rate(struct aggregator_share_user *user, uint64_t rate_Bps)
{
	pthread_mutex_lock(&user->share->lock);
	user->rate_Bps = rate_Bps;
	pthread_mutex_unlock(&user->share->lock);
}

/* It did not take so many times most_bytes of what it might have had. */
static bool is_behind(const struct aggregator_share *share, const struct aggregator_share_user *user, unsigned times)
{
	return user->served_bytes + share->most_bytes * times < share->clock_bytes;
}

/* How much may be under way. */
static uint64_t bound(const struct aggregator_share *share, uint64_t bytes)
{
	uint64_t rate_Bps = 0, ahead_bytes;
	unsigned active = 0;

	for (const struct aggregator_share_user *user = share->users; user; user = user->next) {
		if (!user->busy && is_behind(share, user, 2 * AGGREGATOR_SHARE_SAVED))
			continue;
		if (!user->rate_Bps)
			return share->most_bytes;
		active++;
		rate_Bps = user->rate_Bps > rate_Bps ? user->rate_Bps : rate_Bps;
	}
	if (active < 2)
		return share->most_bytes;
	ahead_bytes = rate_Bps / 1000 * (AGGREGATOR_SHARE_AHEAD_NS / 1000000);
	ahead_bytes = ahead_bytes > AGGREGATOR_SHARE_LEAST_BYTES ? ahead_bytes : AGGREGATOR_SHARE_LEAST_BYTES;
	ahead_bytes = ahead_bytes > 2 * bytes ? ahead_bytes : 2 * bytes;
	return ahead_bytes < share->most_bytes ? ahead_bytes : share->most_bytes;
}

bool aggregator_share_begin(struct aggregator_share_user *user, uint64_t bytes)
{
	struct aggregator_share *share = user->share;
	uint64_t least;
	bool may;

	pthread_mutex_lock(&share->lock);
	least = least_served(share, user);
	/* Back from a rest: of what it did not take only a little is owed to it. */
	if (!user->busy && is_behind(share, user, AGGREGATOR_SHARE_SAVED))
		user->served_bytes = share->clock_bytes - share->most_bytes * AGGREGATOR_SHARE_SAVED;
	user->busy = true;
	may = !share->under_way_bytes || share->under_way_bytes + bytes <= bound(share, bytes);
	may = may && (least == UINT64_MAX || user->served_bytes <= least + share->quantum_bytes);
	if (may) {
		if (user->served_bytes > share->clock_bytes)
			share->clock_bytes = user->served_bytes;
		user->served_bytes += bytes;
		share->under_way_bytes += bytes;
	}
	user->waits = !may;
	/* The one that may begin now may have been asleep. */
	if (!may && least != UINT64_MAX && user->served_bytes > least + share->quantum_bytes)
		wake_waiting(share);
	pthread_mutex_unlock(&share->lock);
	return may;
}

void aggregator_share_rest(struct aggregator_share_user *user)
{
	struct aggregator_share *share = user->share;

	pthread_mutex_lock(&share->lock);
	user->busy = false;
	if (user->waits) {
		user->waits = false;
		wake_waiting(share);
	}
	pthread_mutex_unlock(&share->lock);
}

void aggregator_share_end(struct aggregator_share_user *user, uint64_t bytes)
{
	struct aggregator_share *share = user->share;

	pthread_mutex_lock(&share->lock);
	share->under_way_bytes -= bytes < share->under_way_bytes ? bytes : share->under_way_bytes;
	wake_waiting(share);
	pthread_mutex_unlock(&share->lock);
}
