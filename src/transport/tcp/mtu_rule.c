/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/mtu_rule.h"

#include "transport/tcp/wire.h"

#include <string.h>

/* 8800: jumbo frames in a tunnel, or in a cloud. 4000: the InfiniBand and RoCE size with headers. */
static const unsigned sizes[] = { 8800, 4000, 1500, TCP_MTU_LEAST };

unsigned tcp_mtu_next(unsigned packet_bytes)
{
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i] < packet_bytes)
			return sizes[i];
	return 0;
}

/* A port that is down for a while makes the kernel repeat a packet, too, and the peer is heard again as soon as it is up. */
static void count_repeats(struct tcp_mtu_rule *rule, const struct tcp_mtu_sample *sample)
{
	if (!rule->heard_ns || sample->repeats < rule->seen) {
		rule->seen = rule->pending = rule->counted = 0;
		rule->heard_ns = sample->heard_ns;
		if (sample->stalled_ns >= sample->gap_ns) /* of these nobody knows */
			rule->seen = sample->repeats;
	}
	if (sample->heard_ns > rule->heard_ns + TCP_MTU_HEARD_NS) {
		if (sample->heard_ns - rule->heard_ns < sample->gap_ns)
			rule->counted += rule->pending;
		rule->pending = 0;
		rule->heard_ns = sample->heard_ns;
	}
	rule->pending += sample->repeats - rule->seen;
	rule->seen = sample->repeats;
}

enum tcp_mtu_result tcp_mtu_step(struct tcp_mtu_rule *rule, const struct tcp_mtu_sample *sample)
{
	uint64_t shorts, repeated;

	if (!sample->repeats || sample->waiting_bytes <= TCP_MTU_LEAST) {
		memset(rule, 0, sizeof(*rule));
		return TCP_MTU_FINE;
	}
	count_repeats(rule, sample);
	if (sample->peer_silent)
		return TCP_MTU_FINE;
	if (sample->enough)
		return rule->counted >= sample->enough ? TCP_MTU_LOST : TCP_MTU_SUSPECT;
	if (sample->other != rule->other) {
		rule->other = sample->other;
		rule->acknowledged = sample->other_acknowledged;
		rule->repeated = sample->other_repeated;
	}
	shorts = (sample->other_acknowledged - rule->acknowledged) / TCP_WIRE_FRAME_BYTES;
	repeated = sample->other_repeated - rule->repeated;
	if (!sample->other || shorts <= TCP_MTU_SHORTS * repeated)
		return TCP_MTU_UNCLEAR;
	if (rule->counted >= TCP_MTU_REPEATS && shorts >= TCP_MTU_SHORTS * (1 + repeated))
		return TCP_MTU_LOST;
	return TCP_MTU_SUSPECT;
}
