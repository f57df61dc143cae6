/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/fanout.h"

void pace_fanout_note(struct pace_fanout *fanout, uint64_t host, uint64_t now_ns)
{
	const uint64_t bit = 1ULL << (host * 0x9e3779b97f4a7c15ULL >> 58); /* Knuth's multiplicative hash */
	uint64_t epoch_ns = atomic_load_explicit(&fanout->epoch_ns, memory_order_relaxed);

	if (now_ns >= epoch_ns + PACE_FANOUT_EPOCH_NS &&
	    atomic_compare_exchange_strong(&fanout->epoch_ns, &epoch_ns, now_ns)) {
		uint64_t last = atomic_exchange(&fanout->hosts, 0);

		atomic_store(&fanout->hosts_before, now_ns < epoch_ns + 2 * PACE_FANOUT_EPOCH_NS ? last : 0);
	}
	if (!(atomic_load_explicit(&fanout->hosts, memory_order_relaxed) & bit))
		atomic_fetch_or(&fanout->hosts, bit);
}

unsigned pace_fanout_count(struct pace_fanout *fanout)
{
	return (unsigned)__builtin_popcountll(atomic_load_explicit(&fanout->hosts, memory_order_relaxed) |
					      atomic_load_explicit(&fanout->hosts_before, memory_order_relaxed));
}
