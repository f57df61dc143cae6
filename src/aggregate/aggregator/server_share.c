#include "aggregate/aggregator/server_share.h"

#include <string.h>

void server_share_init(struct server_share *share, uint64_t most_bytes, uint64_t quantum_bytes)
{
	memset(share, 0, sizeof(*share));
	pthread_mutex_init(&share->lock, NULL);
	share->most_bytes = most_bytes;
	share->quantum_bytes = quantum_bytes;
}

void server_share_fini(struct server_share *share)
{
	pthread_mutex_destroy(&share->lock);
}

void server_share_join(struct server_share *share, struct server_claim *claim, void (*wake)(void *arg), void *arg)
{
	pthread_mutex_lock(&share->lock);
	*claim = (struct server_claim){ .share = share, .next = share->claims, .wake = wake, .arg = arg };
	share->claims = claim;
	pthread_mutex_unlock(&share->lock);
}

static void wake_waiting(struct server_share *share)
{
	for (struct server_claim *claim = share->claims; claim; claim = claim->next)
		if (claim->waits)
			claim->wake(claim->arg);
}

void server_share_leave(struct server_claim *claim)
{
	struct server_share *share = claim->share;

	if (!share)
		return;
	pthread_mutex_lock(&share->lock);
	for (struct server_claim **link = &share->claims; *link; link = &(*link)->next) {
		if (*link != claim)
			continue;
		*link = claim->next;
		break;
	}
	claim->share = NULL;
	wake_waiting(share);
	pthread_mutex_unlock(&share->lock);
}

/* The clock of the one that waits and has had the least; UINT64_MAX: nobody else waits. */
static uint64_t least_served(const struct server_share *share, const struct server_claim *but)
{
	uint64_t least = UINT64_MAX;

	for (const struct server_claim *claim = share->claims; claim; claim = claim->next)
		if (claim != but && claim->waits && claim->served_bytes < least)
			least = claim->served_bytes;
	return least;
}

void server_share_rate(struct server_claim *claim, uint64_t rate_Bps)
{
	pthread_mutex_lock(&claim->share->lock);
	claim->rate_Bps = rate_Bps;
	pthread_mutex_unlock(&claim->share->lock);
}

/* It did not take so many times most_bytes of what it might have had. */
static bool is_behind(const struct server_share *share, const struct server_claim *claim, unsigned times)
{
	return claim->served_bytes + share->most_bytes * times < share->clock_bytes;
}

/* How much may be under way. */
static uint64_t bound(const struct server_share *share, uint64_t bytes)
{
	uint64_t rate_Bps = 0, ahead_bytes;
	unsigned active = 0;

	for (const struct server_claim *claim = share->claims; claim; claim = claim->next) {
		if (!claim->busy && is_behind(share, claim, 2 * SERVER_SHARE_SAVED))
			continue;
		if (!claim->rate_Bps)
			return share->most_bytes;
		active++;
		rate_Bps = claim->rate_Bps > rate_Bps ? claim->rate_Bps : rate_Bps;
	}
	if (active < 2)
		return share->most_bytes;
	ahead_bytes = rate_Bps / 1000 * (SERVER_SHARE_AHEAD_NS / 1000000);
	ahead_bytes = ahead_bytes > SERVER_SHARE_LEAST_BYTES ? ahead_bytes : SERVER_SHARE_LEAST_BYTES;
	ahead_bytes = ahead_bytes > 2 * bytes ? ahead_bytes : 2 * bytes;
	return ahead_bytes < share->most_bytes ? ahead_bytes : share->most_bytes;
}

bool server_share_begin(struct server_claim *claim, uint64_t bytes)
{
	struct server_share *share = claim->share;
	uint64_t least;
	bool may;

	pthread_mutex_lock(&share->lock);
	least = least_served(share, claim);
	/* Back from a rest: of what it did not take only a little is owed to it. */
	if (!claim->busy && is_behind(share, claim, SERVER_SHARE_SAVED))
		claim->served_bytes = share->clock_bytes - share->most_bytes * SERVER_SHARE_SAVED;
	claim->busy = true;
	may = !share->under_way_bytes || share->under_way_bytes + bytes <= bound(share, bytes);
	may = may && (least == UINT64_MAX || claim->served_bytes <= least + share->quantum_bytes);
	if (may) {
		if (claim->served_bytes > share->clock_bytes)
			share->clock_bytes = claim->served_bytes;
		claim->served_bytes += bytes;
		share->under_way_bytes += bytes;
	}
	claim->waits = !may;
	/* The one whose turn it is may have been asleep. */
	if (!may && least != UINT64_MAX && claim->served_bytes > least + share->quantum_bytes)
		wake_waiting(share);
	pthread_mutex_unlock(&share->lock);
	return may;
}

void server_share_rest(struct server_claim *claim)
{
	struct server_share *share = claim->share;

	pthread_mutex_lock(&share->lock);
	claim->busy = false;
	if (claim->waits) {
		claim->waits = false;
		wake_waiting(share);
	}
	pthread_mutex_unlock(&share->lock);
}

void server_share_end(struct server_claim *claim, uint64_t bytes)
{
	struct server_share *share = claim->share;

	pthread_mutex_lock(&share->lock);
	share->under_way_bytes -= bytes < share->under_way_bytes ? bytes : share->under_way_bytes;
	wake_waiting(share);
	pthread_mutex_unlock(&share->lock);
}
