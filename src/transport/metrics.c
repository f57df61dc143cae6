/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/metrics.h"

#include <string.h>

#define TOTAL(field) METRICS_COUNTER, offsetof(struct transport_counters, totals.field)
#define NOW(field)   METRICS_GAUGE, offsetof(struct transport_counters, field)

const struct metrics_row transport_metrics[] = {
	{ "tributary_sent_bytes_total", TOTAL(sent_bytes), "Bytes sent over the device, headers of frames included." },
	{ "tributary_received_bytes_total", TOTAL(received_bytes), "Bytes received over it." },
	{ "tributary_sent_messages_total", TOTAL(sent_messages), "Messages of NCCL or of aggregation sent." },
	{ "tributary_received_messages_total", TOTAL(received_messages), "Messages announced by peers." },
	{ "tributary_retransmitted_segments_total", TOTAL(retransmitted_segments),
	  "TCP segments that the kernel sent again (TCP_INFO)." },
	{ "tributary_connections_opened_total", TOTAL(connections_opened), "Connections made, in either direction." },
	{ "tributary_connections_failed_total", TOTAL(connections_failed),
	  "Connections that neither side had closed." },
	{ "tributary_streams_lost_total", TOTAL(streams_lost), "Sockets of connections that were lost." },
	{ "tributary_streams_redialled_total", TOTAL(streams_redialled), "Sockets that took the place of a lost one." },
	{ "tributary_long_waits_total", TOTAL(long_waits), "Waits longer than TRIBUTARY_REPORT_AFTER." },
	{ "tributary_grant_wait_seconds_total", METRICS_COUNTER_NS,
	  offsetof(struct transport_counters, totals.grant_wait_ns),
	  "Time in which a message for this process waited for credit of the device." },
	{ "tributary_connections", NOW(connections), "Connections now, in either direction." },
	{ "tributary_streams", NOW(streams), "Streams that carry data now, of all connections." },
	{ "tributary_movers", NOW(movers), "Threads that send and receive for the process now, over all devices." },
	{ "tributary_sends_waiting", NOW(sends_waiting), "Messages that wait for credit of their receiver." },
	{ "tributary_oldest_wait_seconds", METRICS_GAUGE_NS, offsetof(struct transport_counters, oldest_wait_ns),
	  "Age of the oldest send or receive that has not ended." },
	{ "tributary_grants_waiting", NOW(grants_waiting), "Messages for this process that wait for credit." },
	{ "tributary_granted_bytes", NOW(granted_bytes), "Credit given to senders and not yet used." },
	{ "tributary_grant_budget_bytes", NOW(grant_budget_bytes), "Credit that may be given at a time on this host." },
	{ "tributary_device_bytes_per_second", NOW(speed_Bps), "Nominal speed in one direction." },
	{ .name = NULL },
};

/* All members are such numbers. */
static void add_times(struct transport_totals *to, const struct transport_totals *from, uint64_t times)
{
	uint64_t sums[sizeof(*to) / sizeof(uint64_t)], numbers[sizeof(*to) / sizeof(uint64_t)];

	memcpy(sums, to, sizeof(*to));
	memcpy(numbers, from, sizeof(*from));
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		sums[i] += times * numbers[i];
	memcpy(to, sums, sizeof(*to));
}

void transport_totals_add(struct transport_totals *to, const struct transport_totals *from)
{
	add_times(to, from, 1);
}

void transport_totals_subtract(struct transport_totals *from, const struct transport_totals *part)
{
	add_times(from, part, UINT64_MAX); /* minus one */
}
